/* SPDX-License-Identifier: Apache-2.0 */
/** Codec jobs, run in the calling thread. */
#include <stdint.h>

#include "base/fpenv.h"
#include "compress/codec.h"
#include "compress/kernels/sum.h"
#include <wring/executor.h>

#define SCRATCH_ALIGN 64
#define RAW_SOURCES 64 /* so many are added in one pass; more take further passes */

size_t wring_job_scratch_bytes(uint64_t max_elems)
{
    return (max_elems * sizeof(float) + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

static bool is_raw(const struct wring_source *source)
{
    return source->codec == NULL;
}

static wring_sum_fn best_sum(void)
{
    const struct wring_sum_tier *tier =
        wring_kernels_pick(wring_sum_tiers, sizeof(wring_sum_tiers[0]), wring_cpu_best());
    return tier->sum;
}

static enum wring_status run_encode(struct wring_job *job)
{
    if (job->codec_out == NULL)
        return WRING_ERR_INVALID;
    job->code_bytes = wring_codec_encode(job->codec_out, &job->context, job->src, job->elems,
                                         job->residual, job->code);
    return WRING_OK;
}

/** acc = source, or acc += source with `add`. */
static enum wring_status take_source(struct wring_job *job, wring_sum_fn sum, uint32_t index,
                                     float *acc, bool add)
{
    const struct wring_source *source = &job->sources[index];
    const void *runs[] = {add ? acc : source->data, source->data};
    enum wring_status status = WRING_OK;

    if (!is_raw(source))
        status = wring_codec_decode(source->codec, &job->context, source->data, source->bytes, acc,
                                    job->elems, add);
    else if (source->bytes != job->elems * sizeof(float))
        status = WRING_ERR_FRAME;
    else
        sum(acc, runs, add ? 2 : 1, job->elems, 1);
    if (status == WRING_ERR_FRAME)
        job->bad_source = index;
    return status;
}

static enum wring_status run_decode(struct wring_job *job)
{
    if (job->n_sources != 1)
        return WRING_ERR_INVALID;
    return take_source(job, best_sum(), 0, job->dst, false);
}

/** The usual case without codecs: every source is read once and the sum written once. */
static bool sum_raw(const struct wring_job *job, wring_sum_fn sum)
{
    const void *runs[RAW_SOURCES];

    if (job->n_sources > RAW_SOURCES)
        return false;
    for (uint32_t i = 0; i < job->n_sources; i++) {
        if (!is_raw(&job->sources[i]) || job->sources[i].bytes != job->elems * sizeof(float))
            return false;
        runs[i] = job->sources[i].data;
    }
    sum(job->dst, runs, job->n_sources, job->elems, job->divisor);
    return true;
}

/** dst itself, unless it is a source that is still to be read after the sum has begun. */
static float *accumulator(const struct wring_job *job, void *scratch)
{
    for (uint32_t i = 1; i < job->n_sources; i++)
        if (job->sources[i].data == job->dst)
            return scratch;
    return job->dst;
}

/** dst = the sum in source order, divided. */
static enum wring_status sum_sources(struct wring_job *job, void *scratch)
{
    wring_sum_fn sum = best_sum();
    if (sum_raw(job, sum))
        return WRING_OK;

    float *acc = accumulator(job, scratch);
    for (uint32_t i = 0; i < job->n_sources; i++) {
        enum wring_status status = take_source(job, sum, i, acc, i > 0);
        if (status != WRING_OK)
            return status;
    }
    const void *runs[] = {acc};
    if (acc != job->dst || job->divisor != 1)
        sum(job->dst, runs, 1, job->elems, job->divisor);
    return WRING_OK;
}

static enum wring_status run_reduce(struct wring_job *job, void *scratch)
{
    if (job->n_sources == 0)
        return WRING_ERR_INVALID;
    enum wring_status status = sum_sources(job, scratch);
    if (status != WRING_OK || job->codec_out == NULL)
        return status;

    status = WRING_OK;
    job->code_bytes = wring_codec_encode(job->codec_out, &job->context, job->dst, job->elems,
                                         job->residual, job->code);
    /* The owner goes on with what its peers will decode, not with what it knows better. */
    return wring_codec_decode(job->codec_out, &job->context, job->code, job->code_bytes, job->dst,
                              job->elems, false);
}

static enum wring_status run(struct wring_job *job, void *scratch)
{
    if (job->dtype != WRING_F32)
        return WRING_ERR_UNSUPPORTED;
    switch (job->kind) {
    case WRING_JOB_ENCODE:
        return run_encode(job);
    case WRING_JOB_DECODE:
        return run_decode(job);
    case WRING_JOB_REDUCE:
        return run_reduce(job, scratch);
    }
    return WRING_ERR_INVALID;
}

void wring_job_run(struct wring_job *job, void *scratch)
{
    uint64_t mode = wring_fp_enter();
    job->code_bytes = 0;
    job->bad_source = 0;
    job->status = run(job, scratch);
    wring_fp_leave(mode);
}
