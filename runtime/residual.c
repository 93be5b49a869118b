/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/residual.h"

#include <stdlib.h>

static void scale_owned(struct wring_bucket *bucket, float factor)
{
    if (bucket->residual == NULL || bucket->op != WRING_AVG)
        return;
    for (uint64_t i = bucket->owned.begin; i < bucket->owned.end; i++)
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

bool wring_residual_is_idle(const struct wring_bucket *bucket)
{
    const struct wring_codec *codec = bucket->collective.work.codec;
    uint64_t i = 0;

    if (bucket->residual == NULL ||
        (codec != NULL && wring_codec_info(codec)->flags & WRING_CODEC_FEEDBACK))
        return false;
    while (i < bucket->elems && bucket->residual[i] == 0)
        i++;
    return i < bucket->elems;
}

/** What is left in a codec's place would be sent twice. */
static void forget(struct wring_bucket *bucket)
{
    if (wring_codec_info(bucket->codec)->flags & WRING_CODEC_FEEDBACK) {
        memset(bucket->residual, 0, bucket->elems * sizeof(*bucket->residual));
        return;
    }
    free(bucket->residual);
    free(bucket->kept);
    bucket->residual = bucket->kept = NULL;
}

void wring_residual_flush(struct wring_bucket *bucket)
{
    float *data = bucket->data;

    wring_residual_loosen(bucket);
    for (uint64_t i = 0; i < bucket->elems; i++)
        if (bucket->residual[i] != 0) /* which would make +0 of -0 */
            data[i] += bucket->residual[i];
    bucket->idle = false;
    forget(bucket);
    wring_residual_settle(bucket);
}
