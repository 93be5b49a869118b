/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/reduction.h"

#include "compress/reduce.h"

#define FEW 4 /* elements: a wide kernel takes as long to begin as these to be summed */

struct wring_reduction wring_reduction_find(enum wring_dtype dtype, enum wring_op op, size_t runs,
                                            const char *tier)
{
    struct wring_reduction reduction = {
        .runs = runs,
        .divisor = op == WRING_AVG ? (float)runs : 1,
    };
    const struct wring_job job = {.kind = WRING_JOB_REDUCE, .dtype = dtype, .op = op, .tier = tier};
    if (wring_reduce_takes(&job))
        reduction.fold = wring_reduce_find(&job);
    else
        reduction.sum = wring_sum_find(wring_job_tier(&job));
    return reduction;
}

static void fold(const struct wring_reduction *reduction, void *dst, const void *const *runs,
                 uint64_t elems)
{
    struct wring_source sources[WRING_REDUCTION_RUNS];
    for (size_t i = 0; i < reduction->runs; i++)
        sources[i].data = runs[i];
    reduction->fold(dst, sources, reduction->runs, elems, reduction->divisor);
}

void wring_reduction_run(const struct wring_reduction *reduction, void *dst,
                         const void *const *runs, uint64_t elems)
{
    if (reduction->sum != NULL && elems <= FEW)
        wring_sum_tiers[0].sum(dst, runs, reduction->runs, elems, reduction->divisor); /* scalar */
    else if (reduction->sum != NULL)
        reduction->sum(dst, runs, reduction->runs, elems, reduction->divisor);
    else
        fold(reduction, dst, runs, elems);
}
