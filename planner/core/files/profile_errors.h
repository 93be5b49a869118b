/* SPDX-License-Identifier: Apache-2.0 */
/** The part of a profile that says what codecs lose of recorded gradients. */
#ifndef WRING_FILES_PROFILE_ERRORS_H
#define WRING_FILES_PROFILE_ERRORS_H

#include "planner/core/files/hash.h"
#include "planner/core/files/profile.h"

/** What of them a hash is made of; nothing where there are none. */
void wring_profile_write_errors(struct wring_writer *writer,
                                const struct wring_profile_errors *errors);

/**
 * Room for the errors of so many codecs on so many tensors; names and numbers are the caller's to
 * fill. Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_profile_errors_init(struct wring_profile_errors *errors, uint32_t n_tensors,
                                            uint32_t n_codecs);

/** Once all names are there: they can be found from now on. */
void wring_profile_errors_sort(struct wring_profile_errors *errors);

void wring_profile_errors_finish(struct wring_profile_errors *errors);

#endif
