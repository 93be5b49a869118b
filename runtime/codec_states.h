/* SPDX-License-Identifier: Apache-2.0 */
/** What a bucket keeps for its codec besides the residual. */
#ifndef WRING_RUNTIME_CODEC_STATES_H
#define WRING_RUNTIME_CODEC_STATES_H

#include "runtime/bucket.h"
#include <wring/codec.h>

/*
 * What error feedback holds back, where a bucket's way changes: it is put into other units, or goes
 * out with the next step where nothing holds anything back any more.
 *
 * A residual is in units of what is encoded: of a rank's own contribution, and where the rank owns
 * elements, of their sum, after the division of an average (compress/FORMAT.md). "Loose" is one
 * that is in units of contributions everywhere, so that any bucket can take it over, whoever owns
 * its elements then.
 */

/** In how many places (bucket->owned) it is of sums. Where a rank encodes its own contributions to
 *  these as well, it is of contributions everywhere. */
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

struct wring_bucket;

struct wring_codec_states {
    uint32_t n;
    const struct wring_codec_state *what; /* [n], the codec's */
    void *now[WRING_CODEC_STATES_MAX];
    void *kept[WRING_CODEC_STATES_MAX]; /* as they were before the last post; NULL: not kept */
    uint64_t counts[WRING_CODEC_STATES_MAX];
};

/** Make and fill the arrays that a bucket's codec asks for; none is fine. Errors: NO_MEMORY.
 *  @param keep  also room to keep them */
enum wring_status wring_codec_states_create(const struct wring_bucket *bucket, bool keep,
                                            struct wring_codec_states **out);

/** NULL is fine. */
void wring_codec_states_destroy(struct wring_codec_states *states);

/** A step begins: remember them as they are. Only if there is room to. */
void wring_codec_states_keep(struct wring_codec_states *states);

/** Of one array. */
static inline size_t wring_codec_states_elem_bytes(const struct wring_codec_states *states,
                                                   uint32_t i)
{
    return wring_dtype_bytes(states->what[i].dtype);
}

/** Of all together, kept ones too. @param states  NULL: 0 */
uint64_t wring_codec_states_bytes(const struct wring_codec_states *states);

#endif
