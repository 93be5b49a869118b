/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/reduction.h"

#include <string.h>

#include "compress/kernels/bits.h"
#include "compress/order.h"
#include "compress/reduce.h"

static float load(const void *run, uint64_t i)
{
    float value;
    memcpy(&value, (const char *)run + i * sizeof(value), sizeof(value));
    return value;
}

/** The scalar kernel for what most small exchanges are: each of its instructions is waited for. */
static void sum_few_of_two(float *dst, const void *const *runs, size_t n_runs, uint64_t n,
                           float divisor)
{
    (void)n_runs, (void)divisor; /* 2, and 1: x / 1 is x, bit for bit */
    for (uint64_t i = 0; i < n; i++)
        dst[i] = wring_canonical(load(runs[0], i) + load(runs[1], i));
}

struct wring_reduction wring_reduction_find(enum wring_dtype dtype, enum wring_op op, size_t runs,
                                            const char *tier)
{
    struct wring_reduction reduction = {
        .runs = runs,
        .divisor = op == WRING_AVG ? (float)runs : 1,
    };
    const struct wring_job job = {.tier = tier};
    enum wring_cpu_tier allowed = wring_job_tier(&job);

    if (runs > WRING_ORDER_FOLDED) {
        reduction.tree = wring_tree_find(dtype, op, allowed);
        return reduction;
    }
    reduction.fold = wring_reduce_fold(dtype, op, allowed);
    if (reduction.fold != NULL)
        return reduction;
    reduction.sum = wring_sum_find(allowed);
    reduction.few = runs == 2 && reduction.divisor == 1 ? sum_few_of_two : wring_sum_tiers[0].sum;
    return reduction;
}

void wring_reduction_fold(const struct wring_reduction *reduction, void *dst,
                          const void *const *runs, uint64_t elems)
{
    struct wring_source sources[WRING_REDUCTION_RUNS];
    for (size_t i = 0; i < reduction->runs; i++)
        sources[i].data = runs[i];
    if (reduction->fold == NULL)
        wring_tree_run(&reduction->tree, dst, sources, reduction->runs, 0, elems,
                       reduction->divisor);
    else
        reduction->fold(dst, sources, reduction->runs, elems, reduction->divisor);
}
