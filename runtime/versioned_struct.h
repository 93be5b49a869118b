/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Public structs whose first field is their size as the caller was compiled, so that a later
 * release can add fields at their end without breaking programs that do not know them.
 */
#ifndef WRING_RUNTIME_VERSIONED_STRUCT_H
#define WRING_RUNTIME_VERSIONED_STRUCT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include <wring/status.h>

#define WRING_VERSIONED_STRUCT_MAX 4096 /* bytes; more is no size but memory that was not set */

/** What this release knows of a struct. */
struct wring_versioned_struct {
    const char *name; /* "struct wring_session_params" */
    size_t bytes;     /* its size here */
    size_t first;     /* its size in the first release, which 0 stands for */
};

/**
 * Take what a caller filled: fields that the caller lacks are zero.
 *
 * @param theirs  in, as many bytes as it says
 * @param ours    out, [sized->bytes]
 * @return whether no field is set that this release lacks, and the size can be one
 */
bool wring_versioned_struct_read(const struct wring_versioned_struct *sized, const void *theirs,
                                 void *ours);

/** Can a caller's struct be written to? Its size is one. */
bool wring_versioned_struct_takes(const struct wring_versioned_struct *sized, const void *theirs);

/** Say why wring_versioned_struct_read() or wring_versioned_struct_takes() failed. @return
 * WRING_ERR_INVALID */
enum wring_status wring_versioned_struct_refuse(const struct wring_versioned_struct *sized,
                                                const void *theirs, const struct wring_log *log);

/**
 * Give a caller the fields that it knows, and in the first how many bytes those are.
 * Errors: WRING_ERR_INVALID (no size; nothing is written).
 */
enum wring_status wring_versioned_struct_write(const struct wring_versioned_struct *sized,
                                               const void *ours, void *theirs);

#endif
