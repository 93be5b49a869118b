/* SPDX-License-Identifier: Apache-2.0 */
/** What all ranks must mean alike by a bucket, as text that they compare. */
#ifndef WRING_RUNTIME_COMMIT_SIGNATURE_H
#define WRING_RUNTIME_COMMIT_SIGNATURE_H

#include "runtime/bucket.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"

#define WRING_SIGNATURE_MAX 768

/** A line `field=value` for each thing; transport/WIRE.md, "Joining". @param text out,
 *  [WRING_SIGNATURE_MAX] */
void wring_signature_write(const struct wring_bucket *bucket, char *text);

/** One side of a comparison: a signature and whose it is. */
struct wring_signed_by {
    const char *signature;
    uint32_t rank;
};

/**
 * Say in one line which field differs, its values on both ranks, and what to do about it.
 *
 * @param text  out, [bytes]; written only where the signatures differ
 * @return true where they are the same
 */
bool wring_signature_compare(const char *bucket, struct wring_signed_by ours,
                             struct wring_signed_by theirs, char *text, size_t bytes);

#endif
