/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Residuals, and what codecs keep besides, to and from the caller's memory, for checkpoints.
 *
 *     "wringst2"  u32 rank  u32 ranks  u32 buckets
 *     per bucket: name  u64 elements  codec's identity  u64 steps made  u32 ranges of the residual
 *     per range:  u32 whose (enum wring_state_part)  u64 first element  u64 end  f32 each
 *                 u32 arrays of the codec
 *     per array:  name  u32 holder (enum wring_codec_holder)  u32 bytes of each  u64 count
 *                 u32 ranges of the array
 *     per range:  u64 first  u64 end  bytes of each
 *     SHA-256 of all that
 *
 * Files that begin with "wringst1" load, too. They lack the arrays of the codec, from their count
 * on, and have the codec's canonical spec in place of its identity.
 *
 * Little endian; texts are a u32 length and their bytes. What a rank left out of its own
 * contributions is its own affair; what the owner of a shard left out of the sum belongs to the
 * elements, whoever owns them later.
 */
#ifndef WRING_RUNTIME_STATE_H
#define WRING_RUNTIME_STATE_H

#include "runtime/bucket.h"
#include "runtime/residual.h"

#define WRING_STATE_MAGIC "wringst2"
#define WRING_STATE_MAGIC_OF_RESIDUALS "wringst1" /* without arrays; as many bytes */
#define WRING_STATE_MAGIC_BYTES (sizeof(WRING_STATE_MAGIC) - 1)
#define WRING_STATE_DIGEST_BYTES 32

enum wring_state_part {
    WRING_STATE_OWN,  /* of this rank's contributions */
    WRING_STATE_OWNER /* of the sums that this rank owns */
};

/** In how many places its residual is of sums that are this rank's. */
static inline uint32_t wring_state_count_owned(struct wring_bucket *bucket)
{
    return wring_residual_count_owned(bucket->posted_as);
}

/** To how many steps a bucket goes back, after its session has failed. Buckets that are posted in
 *  turn go to the last step that every one of them completed; one that is posted more seldom, to
 *  its own last one. */
uint64_t wring_state_steps_back(const struct wring_bucket *bucket);

/** After a failure: a bucket as it was after so many steps, its input too, as far as that was kept.
 *  What is lost is logged. */
void wring_state_roll_back(struct wring_bucket *bucket, uint64_t steps);

/** Does a bucket that is exchanged keep anything from step to step? */
static inline bool wring_state_has(const struct wring_bucket *bucket)
{
    return bucket->residual != NULL || bucket->states != NULL;
}

#endif
