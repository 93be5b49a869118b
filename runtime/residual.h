/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What error feedback holds back, where a bucket's option changes: it is put into other units, or
 * goes out with the next step where nothing holds anything back any more.
 *
 * A residual is in units of the input of a codec: of a rank's own contribution, and where the rank
 * owns elements, of their sum, after the division of an average (compress/FORMAT.md). "Loose" is
 * one that is in units of contributions everywhere, so that any bucket can take it over, whoever
 * owns its elements then.
 */
#ifndef WRING_RUNTIME_RESIDUAL_H
#define WRING_RUNTIME_RESIDUAL_H

#include "compress/residual.h"
#include "runtime/bucket.h"

/** A residual of zeros, where its codec needs one, and room to keep it. Errors: NO_MEMORY. */
enum wring_status wring_residual_make(struct wring_bucket *bucket);

/** Of all elements. */
static inline size_t wring_residual_bytes(const struct wring_bucket *bucket)
{
    return wring_residual_size(bucket->codec, bucket->elems);
}

/** One element. */
static inline float wring_residual_get(const struct wring_bucket *bucket, uint64_t element)
{
    float value;
    wring_residual_read(bucket->codec, bucket->residual, element, 1, &value);
    return value;
}

/** Copy elements from one bucket's to another's. */
void wring_residual_copy(const struct wring_bucket *to, uint64_t to_element,
                         const struct wring_bucket *from, uint64_t from_element, uint64_t n);

/** Zeros, aligned for kernels, where the bucket's executor likes residuals to lie; or NULL. */
float *wring_residual_alloc(const struct wring_bucket *bucket);

/** It has no residual any more, nor what was kept of it. */
void wring_residual_free(struct wring_bucket *bucket);

/** The number of spans in bucket->owned for which the residual is in units of sums. It is 0 if the
 * rank encodes its own contributions to these elements as well. */
uint32_t wring_residual_count_owned(const struct wring_bucket *bucket);

/** Make a bucket's residual loose, as its last layout had it. No residual is fine. */
void wring_residual_loosen(struct wring_bucket *bucket);

/** Make it that of the layout that the bucket has now. */
void wring_residual_settle(struct wring_bucket *bucket);

/** Does it hold anything back that its steps, as they are laid out now, would leave alone? */
bool wring_residual_is_idle(const struct wring_bucket *bucket);

/** Have an idle residual go out with the step that is about to begin: it is added to the data, and
 *  nothing is held back then. */
void wring_residual_flush(struct wring_bucket *bucket);

#endif
