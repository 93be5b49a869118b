/* SPDX-License-Identifier: Apache-2.0 */
/** A profile with all that one can have, as a file and loaded. */
#ifndef WRING_TESTS_GOOD_PROFILE_H
#define WRING_TESTS_GOOD_PROFILE_H

#include "planner/core/files/profile.h"

extern const char good_profile[];
extern const char good_traits[]; /* one with all that a codec is beside its times */

/** A failed check and NULL where it is refused. */
struct wring_profile *good_profile_load(void);
struct wring_profile *good_traits_load(void);

/** Saved and loaded it is the same, and saved again the same text. */
void good_profile_check_round_trip(const struct wring_profile *profile);

#endif
