/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Reductions of more raw runs than are folded from the left (order.h), block by block in the
 * nearest cache. Private to compress/.
 *
 * A step of the tree is "block = block op block", which is the fold of two sources that kernels
 * have for every type and operation; what travels in another type, as sums of 16-bit floats do in
 * float32, is widened before its first step and narrowed after its last one.
 */
#ifndef WRING_COMPRESS_TREE_H
#define WRING_COMPRESS_TREE_H

#include "compress/kernels/reduce.h"
#include "compress/kernels/sum.h"

/** How two runs become one, chosen once. */
struct wring_tree {
    wring_sum_fn sum;               /* of float32; or NULL */
    wring_reduce_fn fold;           /* of anything else */
    wring_widen_fn widen;           /* NULL: runs travel as they are */
    wring_bf16_fn narrow;           /* likewise */
    size_t elem_bytes, block_bytes; /* of one element in the runs, and on its way */
};

/** @param dtype, op  that there are; AVG is a sum, divided at its end */
struct wring_tree wring_tree_find(enum wring_dtype dtype, enum wring_op op,
                                  enum wring_cpu_tier allowed);

/**
 * Reduce, in the library's floating-point mode.
 * @param dst      out, [n] elements; may be exactly that part of one of the sources
 * @param src      in, [n_src], more than WRING_ORDER_FOLDED; only `data` is looked at, at any
 *                 address
 * @param begin    the first element that is looked at there
 * @param divisor  as for wring_reduce_fn, once at the end
 */
void wring_tree_run(const struct wring_tree *tree, void *dst, const struct wring_source *src,
                    size_t n_src, uint64_t begin, uint64_t n, float divisor);

#endif
