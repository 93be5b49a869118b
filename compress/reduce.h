/* SPDX-License-Identifier: Apache-2.0 */
/** Reductions without codecs, of any element type and operation. Private to compress/. */
#ifndef WRING_COMPRESS_REDUCE_H
#define WRING_COMPRESS_REDUCE_H

#include <stdbool.h>

#include "base/cpu.h"
#include "compress/kernels/reduce.h"
#include <wring/executor.h>

/** Elements of 16 bits, which codecs see as float32. */
static inline bool wring_reduce_is_short(const struct wring_job *job)
{
    return job->dtype == WRING_F16 || job->dtype == WRING_BF16;
}

/** Does a codec take part? */
static inline bool wring_reduce_is_coded(const struct wring_job *job)
{
    bool coded = job->codec_out != NULL;
    for (uint32_t i = 0; i < job->n_sources; i++)
        coded |= job->sources[i].codec != NULL;
    return coded;
}

/** Is this a job for wring_reduce_run()? The others are copies, and what codecs can take part in.
 */
static inline bool wring_reduce_takes(const struct wring_job *job)
{
    if (job->kind == WRING_JOB_COPY || (job->dtype == WRING_F32 && job->op <= WRING_AVG))
        return false;
    return !(wring_reduce_is_short(job) && job->op <= WRING_AVG && wring_reduce_is_coded(job));
}

/** The highest tier that a job allows; an unknown name allows the best. */
enum wring_cpu_tier wring_job_tier(const struct wring_job *job);

/** The kernel that folds so; NULL for sums of float32, which are in kernels/sum.h. */
wring_reduce_fn wring_reduce_fold(enum wring_dtype dtype, enum wring_op op,
                                  enum wring_cpu_tier allowed);

/** Run a REDUCE job of more than WRING_ORDER_FOLDED raw sources, which have been checked. */
void wring_reduce_by_tree(const struct wring_job *job);

/**
 * Run a REDUCE job, in one pass over its sources.
 * Errors: WRING_ERR_UNSUPPORTED (a codec, another kind of job, no such type or operation),
 * WRING_ERR_INVALID (no sources), WRING_ERR_FRAME (bad_source has another size).
 */
enum wring_status wring_reduce_run(struct wring_job *job);

/** Elements of a REDUCE job that are best reduced at a time: all, unless the result is copied. */
uint64_t wring_reduce_tile(const struct wring_job *job);

/** Copy bytes [at, at + bytes) of dst to the job's copies. */
void wring_reduce_copy(const struct wring_job *job, uint64_t at, uint64_t bytes);

#endif
