/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/residual.h"

#include <stdlib.h>

#include "compress/codec.h"
#include "compress/kernels/reduce.h"
#include "runtime/commit/legs.h"

uint32_t wring_residual_count_owned(const struct wring_bucket *bucket)
{
    return wring_codec_encodes_own(bucket->codec) ? 0 : bucket->n_owned;
}

static void scale_owned(struct wring_bucket *bucket, float factor)
{
    if (bucket->residual == NULL || bucket->op != WRING_AVG)
        return;
    for (uint32_t owned = 0; owned < wring_residual_count_owned(bucket); owned++)
        for (uint64_t i = bucket->owned[owned].begin; i < bucket->owned[owned].end; i++)
            bucket->residual[i] *= factor;
}

void wring_residual_loosen(struct wring_bucket *bucket)
{
    if (!bucket->loose)
        scale_owned(bucket, (float)bucket->group->members.n);
    bucket->loose = true;
}

void wring_residual_settle(struct wring_bucket *bucket)
{
    if (bucket->loose)
        scale_owned(bucket, 1 / (float)bucket->group->members.n);
    bucket->loose = false;
}

static bool holds_any(const struct wring_bucket *bucket, uint64_t begin, uint64_t end)
{
    while (begin < end && bucket->residual[begin] == 0)
        begin++;
    return begin < end;
}

/** Of what other ranks of the node encode. */
static bool holds_others(const struct wring_bucket *bucket)
{
    uint64_t at = 0;
    bool any = false;

    for (uint32_t i = 0; i < bucket->levels->n; i++) {
        const struct wring_bucket *leg = wring_leg_bucket(bucket, i, WRING_LEG_ACROSS);
        any |= holds_any(bucket, at, leg->first);
        at = leg->first + leg->elems;
    }
    return any || holds_any(bucket, at, bucket->elems);
}

bool wring_residual_is_idle(const struct wring_bucket *bucket)
{
    const struct wring_codec *codec = bucket->collective.work.codec;

    if (bucket->residual == NULL)
        return false;
    if (codec == NULL || (wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK) == 0)
        return holds_any(bucket, 0, bucket->elems);
    return bucket->levels != NULL && holds_others(bucket);
}

/** What is left in a codec's place would be sent twice. */
static void forget(struct wring_bucket *bucket)
{
    if (wring_codec_info(bucket->codec)->flags & WRING_CODEC_FEEDBACK) {
        memset(bucket->residual, 0, bucket->elems * sizeof(*bucket->residual));
        return;
    }
    wring_residual_free(bucket);
}

/** To an element of the data, which rounds it to its type. */
static void add_to(const struct wring_bucket *bucket, uint64_t i, float more)
{
    const struct wring_reduce_kernels *kernels = wring_reduce_tiers[0].kernels;
    size_t bytes = wring_dtype_bytes(bucket->dtype);
    char *at = (char *)bucket->data + i * bytes;
    float value;

    if (bucket->dtype == WRING_F32) {
        *(float *)(void *)at += more;
        return;
    }
    kernels->widen[bucket->dtype](&value, at, 1);
    value += more;
    kernels->narrow[bucket->dtype](at, &value, 1, 1);
}

void wring_residual_flush(struct wring_bucket *bucket)
{
    wring_residual_loosen(bucket);
    for (uint64_t i = 0; i < bucket->elems; i++)
        if (bucket->residual[i] != 0) /* which would make +0 of -0 */
            add_to(bucket, i, bucket->residual[i]);
    bucket->idle = false;
    forget(bucket);
    wring_residual_settle(bucket);
}
