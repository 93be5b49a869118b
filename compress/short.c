/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/short.h"

#include "compress/codec.h"
#include "compress/reduce.h"
#include "compress/round.h"

#define GRAIN 32        /* elements: no smaller run is worth a call */
#define TILE_ELEMS 4096 /* 16 KiB of float32 stay in the first cache */

static const struct wring_reduce_kernels *kernels_of(const struct wring_job *job)
{
    const struct wring_reduce_tier *tier =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), wring_job_tier(job));
    return tier->kernels;
}

bool wring_short_takes(const struct wring_job *job)
{
    if (!wring_reduce_is_short(job))
        return false;
    return job->kind == WRING_JOB_ENCODE || job->kind == WRING_JOB_DECODE ||
           job->kind == WRING_JOB_ROUND_BEGIN || (job->kind == WRING_JOB_REDUCE && job->sum_codes);
}

/** The unit, doubled until it has so many. @return not more than the job has */
static uint64_t tile_of(const struct wring_job *job, uint64_t least)
{
    uint64_t tile = job->codec_out != NULL ? wring_codec_info(job->codec_out)->unit : 0;

    if (tile == 0)
        return job->elems;
    while (tile < least)
        tile *= 2;
    return tile < job->elems ? tile : job->elems;
}

uint64_t wring_short_tile(const struct wring_job *job)
{
    return tile_of(job, GRAIN); /* as small as a piece can be, for which there is scratch */
}

static const void *src_at(const struct wring_job *job, uint64_t element)
{
    return (const char *)(const void *)job->src + element * sizeof(uint16_t);
}

/** The float32 job of a run of elements, which lie in `wide` then. */
static struct wring_job part_of(const struct wring_job *job, uint64_t begin, uint64_t n,
                                float *wide)
{
    struct wring_job part = *job;

    kernels_of(job)->widen[job->dtype](wide, src_at(job, begin), n);
    part.dtype = WRING_F32;
    part.elems = n;
    part.context.element += begin;
    part.src = wide;
    part.residual = job->residual != NULL ? job->residual + begin : NULL;
    return part;
}

static enum wring_status encode(struct wring_job *job, float *scratch,
                                enum wring_status (*run)(struct wring_job *, void *))
{
    uint64_t tile = tile_of(job, TILE_ELEMS);
    enum wring_status status = WRING_OK;

    for (uint64_t begin = 0; status == WRING_OK && begin < job->elems; begin += tile) {
        uint64_t left = job->elems - begin, n = left < tile ? left : tile;
        struct wring_job part = part_of(job, begin, n, scratch);
        part.code = (char *)job->code + job->result.code_bytes;
        part.result.lost = part.result.whole = 0;
        status = run(&part, scratch + (tile + 15) / 16 * 16);
        job->result.code_bytes += part.result.code_bytes;
        job->result.lost += part.result.lost;
        job->result.whole += part.result.whole;
    }
    return status;
}

/** What comes out as float32 is divided and rounded at once. */
static enum wring_status decode(struct wring_job *job, float *scratch,
                                enum wring_status (*run)(struct wring_job *, void *))
{
    float divisor = job->sum_codes ? job->divisor : 1;
    struct wring_job part = *job;

    part.dtype = WRING_F32;
    part.dst = scratch;
    part.divisor = 1;
    enum wring_status status = run(&part, NULL);
    job->result = part.result;
    if (status == WRING_OK)
        kernels_of(job)->narrow[job->dtype](job->dst, scratch, job->elems, divisor);
    return status;
}

static enum wring_status begin_round(struct wring_job *job, float *scratch)
{
    uint64_t tile = wring_short_tile(job);
    void *behind = (char *)scratch + wring_job_scratch_bytes(tile) - WRING_CODEC_SCRATCH_MAX;

    wring_round_fill(job);
    for (uint64_t begin = 0; begin < job->elems; begin += tile) {
        uint64_t left = job->elems - begin, n = left < tile ? left : tile;
        struct wring_job part = part_of(job, begin, n, scratch);
        wring_round_fold(&part, behind);
    }
    return WRING_OK;
}

enum wring_status wring_short_run(struct wring_job *job, void *scratch,
                                  enum wring_status (*run)(struct wring_job *job, void *scratch))
{
    if (job->kind == WRING_JOB_ENCODE)
        return encode(job, scratch, run);
    if (job->kind == WRING_JOB_ROUND_BEGIN)
        return begin_round(job, scratch);
    return decode(job, scratch, run);
}
