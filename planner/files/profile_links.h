/* SPDX-License-Identifier: Apache-2.0 */
/** The part of a profile's file that says what links take. */
#ifndef WRING_PLANNER_PROFILE_LINKS_H
#define WRING_PLANNER_PROFILE_LINKS_H

#include <jansson.h>

#include "planner/files/json_reader.h"
#include "planner/files/profile.h"

/** Its field "links", into the profile. */
void wring_profile_read_links(struct wring_reading *reading, const json_t *object,
                              struct wring_profile *profile);

/** The field's value, a new reference; NULL without memory. */
json_t *wring_profile_links_json(const struct wring_profile *profile);

#endif
