/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels that codecs share which send some elements of a block. v = src, or src + residual where
 * residual is not NULL.
 */
#ifndef WRING_KERNELS_SPARSE_H
#define WRING_KERNELS_SPARSE_H

#include "compress/kernels/kernels.h"

#define WRING_SPARSE_LANES 16 /* of sums */
#define WRING_SPARSE_SLACK 4  /* places of a list that a kernel may write rubbish to */

struct wring_sparse_step {
    float momentum, factor;
};

struct wring_sparse_kernels {
    /** The bits of max|v|; WRING_INF_BITS or more, which ones is open, if some v is not finite. */
    uint32_t (*peak)(const float *src, const float *residual, uint64_t n);
    /** residual = src + residual */
    void (*feed)(float *residual, const float *src, uint64_t n);
    /**
     * The sum of v squared, in binary64, in which squares are exact. Lane j of 16 adds those of
     * elements j, j + 16, … in that order; then lane j adds lane j + half, for half = 8, 4, 2, 1.
     */
    double (*squares)(const float *src, const float *residual, uint64_t n);
    /**
     * A step of momentum, u' = momentum * u + factor * src and v' = v + u', each operation rounded:
     * first what it would come to, then the step itself.
     * @return the bits of the largest |u'| and |v'|, as of peak
     */
    uint32_t (*foresee)(const float *u, const float *v, const float *src, uint64_t n,
                        struct wring_sparse_step step);
    void (*advance)(float *u, float *v, const float *src, uint64_t n,
                    struct wring_sparse_step step);
    /**
     * The places of the bits that are set in a map, ascending: bit i % 64 of word i / 64 is place
     * i.
     * @param out    out, [their number + WRING_SPARSE_SLACK]; rubbish behind them
     * @param words  of the map, up to 1024
     * @return their number
     */
    uint64_t (*list)(uint16_t *out, const uint64_t *map, uint64_t words);
};

struct wring_sparse_tier {
    struct wring_kernel_tier head;
    const struct wring_sparse_kernels *kernels;
};

extern const struct wring_sparse_tier wring_sparse_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_sparse_kernels, wring_sparse)

#endif
