/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the powersgd codec: products of a matrix v = src + residual of rows x columns, row
 * after row, with tall ones of 1, 2, 4 or 8 columns: the rank.
 *
 * A tall matrix lies column after column: number i of column k is at k * length + i. Each sum has
 * one order, so every tier and rank gives the same bits. No BLAS library serves here, as the order
 * of its additions depends on its version, its number of threads and the CPU: two ranks could not
 * rely on the same bits.
 */
#ifndef WRING_KERNELS_LOWRANK_H
#define WRING_KERNELS_LOWRANK_H

#include "compress/kernels/kernels.h"

#define WRING_LOWRANK_RANK_MAX 8

/** Of the big matrix; and how many columns the tall ones have. */
struct wring_lowrank_shape {
    uint64_t rows, columns;
    unsigned rank;
};

struct wring_lowrank_kernels {
    /**
     * p = v q. Sums over columns go by 32 lanes, as in onebit.h.
     * @param p         out, [rows] by the rank
     * @param residual  or NULL
     * @param q         in, [columns] by the rank
     */
    void (*right)(float *p, const float *src, const float *residual,
                  struct wring_lowrank_shape shape, const float *q);
    /** q = (the transpose of v) p. Sums over rows go in order, from +0. */
    void (*left)(float *q, const float *src, const float *residual,
                 struct wring_lowrank_shape shape, const float *p);
    /** dst = p (the transpose of q): products by column of the rank, in order. */
    void (*product)(float *dst, struct wring_lowrank_shape shape, const float *p, const float *q);
    void (*product_add)(float *dst, struct wring_lowrank_shape shape, const float *p,
                        const float *q);
    /** residual = v - that. */
    void (*keep)(float *residual, const float *src, struct wring_lowrank_shape shape,
                 const float *p, const float *q);
};

struct wring_lowrank_tier {
    struct wring_kernel_tier head;
    const struct wring_lowrank_kernels *kernels;
};

extern const struct wring_lowrank_tier wring_lowrank_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_lowrank_kernels, wring_lowrank)

#endif
