/* SPDX-License-Identifier: Apache-2.0 */
/** What a bucket keeps for its codec besides the residual. */
#ifndef WRING_RUNTIME_CODEC_STATES_H
#define WRING_RUNTIME_CODEC_STATES_H

#include <wring/codec.h>

struct wring_bucket;

struct wring_codec_states {
    uint32_t n;
    const struct wring_codec_state *what; /* [n], the codec's */
    void *now[WRING_CODEC_STATES_MAX];
    void *kept[WRING_CODEC_STATES_MAX]; /* as they were before the last post; NULL: not kept */
    uint64_t counts[WRING_CODEC_STATES_MAX];
};

/** The id of a bucket in codec contexts: a hash of its name (FNV-1a), so equal on all ranks. */
uint32_t wring_bucket_id(const char *name);

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
