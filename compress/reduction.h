/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A reduction of raw runs, chosen once and run often: for those whom the making of a job would take
 * longer than the work. What comes out is, bit for bit, what a REDUCE job without codecs gives.
 */
#ifndef WRING_COMPRESS_REDUCTION_H
#define WRING_COMPRESS_REDUCTION_H

#include <stddef.h>

#include "compress/kernels/reduce.h"
#include "compress/kernels/sum.h"
#include "compress/tree.h"
#include <wring/types.h>

#define WRING_REDUCTION_RUNS 64 /* at most */

#define WRING_REDUCTION_FEW 4 /* elements: a wide kernel takes as long to begin as to sum these */

struct wring_reduction {
    wring_sum_fn sum;       /* of float32; or NULL */
    wring_sum_fn few;       /* the same, of WRING_REDUCTION_FEW elements at most */
    wring_reduce_fn fold;   /* of anything else; NULL: by the tree */
    struct wring_tree tree; /* of more runs than are folded */
    size_t runs;
    float divisor;
};

/**
 * @param runs  1..WRING_REDUCTION_RUNS; an average is divided by it
 * @param tier  the highest allowed, as for wring_codec_create()
 */
struct wring_reduction wring_reduction_find(enum wring_dtype dtype, enum wring_op op, size_t runs,
                                            const char *tier);

/** For wring_reduction_run(): whatever is no sum of float32, or of more runs than are folded. */
void wring_reduction_fold(const struct wring_reduction *reduction, void *dst,
                          const void *const *runs, uint64_t elems);

/**
 * Reduce in the order that FORMAT.md gives to so many runs, in the library's floating-point mode:
 * between wring_fp_enter() and wring_fp_leave(), which may take as long as a short reduction.
 * @param dst  out, [elems]; may be exactly one of the runs
 * @param runs in, as many as the reduction was chosen for, [elems] each at any address
 */
static inline void wring_reduction_run(const struct wring_reduction *reduction, void *dst,
                                       const void *const *runs, uint64_t elems)
{
    if (reduction->sum == NULL)
        wring_reduction_fold(reduction, dst, runs, elems);
    else if (elems <= WRING_REDUCTION_FEW)
        reduction->few(dst, runs, reduction->runs, elems, reduction->divisor);
    else
        reduction->sum(dst, runs, reduction->runs, elems, reduction->divisor);
}

#endif
