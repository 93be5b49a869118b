/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels that reduce runs of any element type, one pass over all sources in their order. Codecs
 * share the sum of float32, which takes runs at any address.
 *
 *     sum   binary32 and binary64 add in their own precision; binary16 and bf16 in binary32, and
 *           round once to nearest even, beyond the largest number to infinity; integers wrap.
 *           Then one division, if the divisor is not 1: before that rounding; of integers cut off
 *           towards zero.
 *     min   a = next < a or next is NaN ? next : a       so NaN stays, and of equals the first
 *     max   the same with >
 *     prod  in the precisions of sums, rounded like them; integers wrap; complex numbers by parts,
 *           (a.re * next.re - a.im * next.im, a.re * next.im + a.im * next.re)
 *     and, or, xor        bit by bit; a bool is first made 0 or 1
 *     land, lor           of whether elements are other than 0: 0 or 1
 *
 * NaN in a result is the one NaN of its type: 0x7FC00000, 0x7FF8000000000000, 0x7E00, 0x7FC0.
 */
#ifndef WRING_KERNELS_REDUCE_H
#define WRING_KERNELS_REDUCE_H

#include "compress/kernels/kernels.h"
#include <wring/executor.h>

/**
 * @param dst      out, [n] elements of the type; may be exactly one of the sources
 * @param src      in, [n_src]; only `data` is looked at, [n] elements at any address; n_src >= 1
 * @param divisor  a whole number below 2^24, only for sums
 */
typedef void (*wring_reduce_fn)(void *dst, const struct wring_source *src, size_t n_src, uint64_t n,
                                float divisor);

enum wring_reduce_kind {
    WRING_REDUCE_SUM,
    WRING_REDUCE_MIN,
    WRING_REDUCE_MAX,
    WRING_REDUCE_PROD,
    WRING_REDUCE_AND,
    WRING_REDUCE_OR,
    WRING_REDUCE_XOR,
    WRING_REDUCE_LAND,
    WRING_REDUCE_LOR,
};
#define WRING_FOLDS 9

/** The kernel of a type and kind of the highest tier that `allowed` and this processor admit; NULL
 *  for the sum of float32, and what there is none of. */
wring_reduce_fn wring_reduce_find(enum wring_dtype dtype, enum wring_reduce_kind kind,
                                  enum wring_cpu_tier allowed);

/**
 * dst[i] = ((src[0][i] + src[1][i]) + src[2][i] + …) / divisor, one pass, NaN made canonical.
 *
 * @param dst     out, [n]; may be exactly one of the sources
 * @param src     in, [n_src] runs of [n] float32, at any address; n_src >= 1
 * @param divisor IEEE division, left out when it is 1
 */
typedef void (*wring_sum_fn)(float *dst, const void *const *src, size_t n_src, uint64_t n,
                             float divisor);

/** to[i] = the float32 that it stands for, exactly. @param from  [n] of a 16-bit type */
typedef void (*wring_widen_fn)(float *to, const void *from, uint64_t n);

/** to[i] = from[i] / divisor, rounded once: as a sum ends. @param to  [n] of a 16-bit type */
typedef void (*wring_narrow_fn)(void *to, const float *from, uint64_t n, float divisor);

struct wring_reduce_kernels {
    wring_sum_fn sum;                                /* of float32 */
    wring_reduce_fn fold[WRING_DTYPES][WRING_FOLDS]; /* NULL: the scalar tier's, where there is one:
                                                      there is none of the sum of float32 */
    wring_widen_fn widen[WRING_DTYPES];   /* of types whose sums travel as float32; NULL: others */
    wring_narrow_fn narrow[WRING_DTYPES]; /* the same types' */
};

struct wring_reduce_tier {
    struct wring_kernel_tier head;
    const struct wring_reduce_kernels *kernels;
};

extern const struct wring_reduce_tier wring_reduce_tiers[];

/** The sum of float32 of the highest tier that `allowed` and this processor admit. */
wring_sum_fn wring_sum_find(enum wring_cpu_tier allowed);

WRING_VECTOR_TIERS_DECLARED(struct wring_reduce_kernels, wring_reduce)

/* No instruction divides a vector of integers: all tiers end the averages of those here. */
void wring_reduce_divide_i32(void *dst, uint64_t n, float divisor);
void wring_reduce_divide_i64(void *dst, uint64_t n, float divisor);

#endif
