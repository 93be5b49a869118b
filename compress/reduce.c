/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/reduce.h"

#include "base/cpu.h"

enum wring_cpu_tier wring_job_tier(const struct wring_job *job)
{
    enum wring_cpu_tier tier;
    return job->tier != NULL && wring_cpu_tier_parse(job->tier, &tier) ? tier : wring_cpu_best();
}

wring_fold_fn wring_reduce_find(const struct wring_job *job)
{
    static const enum wring_fold_kind kinds[WRING_OPS] = {
        [WRING_SUM] = WRING_FOLD_SUM,
        [WRING_AVG] = WRING_FOLD_SUM, /* which divides */
        [WRING_MIN] = WRING_FOLD_MIN,
        [WRING_MAX] = WRING_FOLD_MAX,
    };
    const struct wring_fold_tier *tier =
        wring_kernels_pick(wring_fold_tiers, sizeof(wring_fold_tiers[0]), wring_job_tier(job));
    return tier->kernels->fold[job->dtype][kinds[job->op]];
}

static enum wring_status check_source(const struct wring_job *job, uint32_t i)
{
    if (job->sources[i].codec != NULL)
        return WRING_ERR_UNSUPPORTED;
    return job->sources[i].bytes == job->elems * wring_dtype_bytes(job->dtype) ? WRING_OK
                                                                               : WRING_ERR_FRAME;
}

enum wring_status wring_reduce_run(struct wring_job *job)
{
    if ((unsigned)job->dtype >= WRING_DTYPES || (unsigned)job->op >= WRING_OPS ||
        job->kind != WRING_JOB_REDUCE || job->codec_out != NULL)
        return WRING_ERR_UNSUPPORTED;
    if (job->n_sources == 0)
        return WRING_ERR_INVALID;
    for (uint32_t i = 0; i < job->n_sources; i++) {
        enum wring_status status = check_source(job, i);
        if (status == WRING_ERR_FRAME)
            job->bad_source = i;
        if (status != WRING_OK)
            return status;
    }
    wring_fold_fn fold = wring_reduce_find(job);
    fold(job->dst, job->sources, job->n_sources, job->elems, job->divisor);
    return WRING_OK;
}
