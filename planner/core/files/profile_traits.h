/* SPDX-License-Identifier: Apache-2.0 */
/** The part of a profile that says what a codec is, beside its times. */
#ifndef WRING_FILES_PROFILE_TRAITS_H
#define WRING_FILES_PROFILE_TRAITS_H

#include "planner/core/files/fields.h"

/** Of struct wring_profile_traits: reads, writes and hashes it. */
extern const struct wring_record wring_profile_traits_record;

#endif
