/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/round.h"

#include <math.h>
#include <string.h>

#include "compress/codec.h"

/** A number of a round's type. */
union number {
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;
};

/** What a sum, a minimum or a maximum begins with. */
static union number identity_of(enum wring_dtype dtype, enum wring_op op)
{
    union number number = {.i64 = 0};

    if (op == WRING_SUM)
        return number;
    bool low = op == WRING_MAX;
    if (dtype == WRING_F32)
        number.f32 = low ? -INFINITY : INFINITY;
    else if (dtype == WRING_F64)
        number.f64 = low ? -(double)INFINITY : (double)INFINITY;
    else if (dtype == WRING_I32)
        number.i32 = low ? INT32_MIN : INT32_MAX;
    else
        number.i64 = low ? INT64_MIN : INT64_MAX;
    return number;
}

static void fill(const struct wring_codec_round *round, void *statistics, uint64_t count)
{
    union number identity = identity_of(round->dtype, round->op);
    size_t bytes = wring_dtype_bytes(round->dtype);

    for (uint64_t i = 0; i < count; i++)
        memcpy((char *)statistics + i * bytes, &identity, bytes);
}

static const struct wring_codec_round *round_of(const struct wring_job *job)
{
    return &job->codec_out->ops->rounds[job->round];
}

void wring_round_fill(const struct wring_job *job)
{
    const struct wring_codec_round *round = round_of(job);
    fill(round, job->dst, round->count(job->codec_out, &job->context));
}

void wring_round_fold(const struct wring_job *job, void *scratch)
{
    round_of(job)->begin(job->codec_out, &job->context, job->src, job->elems, job->residual,
                         job->dst, scratch);
}

enum wring_status wring_round_run(const struct wring_job *job, void *scratch)
{
    const struct wring_codec *codec = job->codec_out;
    if (codec == NULL || job->round >= codec->ops->n_rounds)
        return WRING_ERR_INVALID;
    const struct wring_codec_round *round = round_of(job);

    if (job->kind == WRING_JOB_ROUND_BEGIN) {
        wring_round_fill(job);
        wring_round_fold(job, scratch);
    } else if (round->end != NULL) {
        round->end(codec, &job->context, job->dst, round->count(codec, &job->context));
    }
    return WRING_OK;
}
