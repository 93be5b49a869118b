/* SPDX-License-Identifier: Apache-2.0 */
/** What a bucket keeps for its codec besides the residual. */
#ifndef WRING_RUNTIME_CODEC_STATES_H
#define WRING_RUNTIME_CODEC_STATES_H

#include <wring/codec.h>

/*
 * When a bucket's way changes, its residual is converted to other units. If its steps hold nothing
 * back any more, the residual goes out with the next step.
 *
 * A residual is in units of the encoded numbers (compress/FORMAT.md). These are a rank's own
 * contribution or, for elements that the rank owns, their sum after the division of an average. A
 * "loose" residual is in units of contributions everywhere. So any bucket can take it over,
 * whichever rank owns its elements then.
 */

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
