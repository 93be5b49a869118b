/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Ways of several settings side by side in a profile. Whoever measures with one setting sees its
 * ways alone: those of the others are set aside meanwhile.
 */
#ifndef WRING_PLANNER_PROFILE_SETTINGS_H
#define WRING_PLANNER_PROFILE_SETTINGS_H

#include "planner/files/profile.h"

/** Ways of other settings; owned, and freed by wring_profile_bring_back(), or by hand. */
struct wring_profile_aside {
    uint32_t n;
    struct wring_profile_way *ways; /* [n] */
};

/** Set ways of other settings aside: the profile has those alone that say this one, none where
 *  `chunk_bytes` is 0 being one, too. Errors: WRING_ERR_NO_MEMORY, and all is as it was. */
enum wring_status wring_profile_set_aside(struct wring_profile *profile,
                                          const struct wring_setting *setting,
                                          struct wring_profile_aside *aside);

/**
 * Say of the profile's ways with which setting they were measured, and put the others beside them;
 * of those that are alike the profile's stay. The default setting's come first.
 * Errors: WRING_ERR_NO_MEMORY, and all is as it was.
 */
enum wring_status wring_profile_bring_back(struct wring_profile *profile,
                                           const struct wring_setting *setting,
                                           struct wring_profile_aside *aside);

/** Ways that do not say their setting have this one. */
void wring_profile_label_ways(struct wring_profile *profile, const struct wring_setting *setting);

/**
 * Ways of other settings than that one know smaller buckets only: beyond the largest of these they
 * take as many times of what the same way takes with that setting as they do there.
 */
void wring_profile_carry_on(struct wring_profile *profile, const struct wring_setting *setting);

#endif
