/* SPDX-License-Identifier: Apache-2.0 */
/** The part of a profile's file that says what whole exchanges take, alone and beside computing. */
#ifndef WRING_PLANNER_PROFILE_WAYS_H
#define WRING_PLANNER_PROFILE_WAYS_H

#include <jansson.h>

#include "planner/files/json_reader.h"
#include "planner/files/profile.h"

/** Its field "ways", which may be missing, into the profile. */
void wring_profile_read_ways(struct wring_reading *reading, const json_t *object,
                             struct wring_profile *profile);

/** How far a cost that is a field of `object` can be trusted, if it says so. */
struct wring_profile_trust wring_profile_read_trust(struct wring_reading *reading,
                                                    const json_t *object, const char *name);

/** A cost, and how far it can be trusted; a new reference, NULL without memory. */
json_t *wring_profile_cost_json(const struct wring_cost *cost,
                                const struct wring_profile_trust *trust);

/** How far something can be trusted; a new reference, NULL without memory. */
json_t *wring_profile_trust_json(const struct wring_profile_trust *trust);

/** A cost that says so, and has corners. */
struct wring_profile_curve wring_profile_read_curve(struct wring_reading *reading,
                                                    const json_t *object, const char *name);

/** The field's value, a new reference; NULL without memory. */
json_t *wring_profile_ways_json(const struct wring_profile *profile);

/** Likewise, "computing". */
void wring_profile_read_computing(struct wring_reading *reading, const json_t *object,
                                  struct wring_profile *profile);
json_t *wring_profile_computing_json(const struct wring_profile_computing *computing);

#endif
