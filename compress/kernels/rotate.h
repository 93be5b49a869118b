/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of randomised Hadamard rotations: H D v, where D flips signs and H is the Hadamard matrix
 * of the order m, a power of two from 32 to WRING_ROTATE_MAX, of entries 1 and -1.
 *
 * H goes by stages, h = 1, 2, 4, … m / 2: where bit h of i is clear, (x[i], x[i + h]) becomes
 * (x[i] + x[i + h], x[i] - x[i + h]). Element i is flipped where bit i % 32 of signs[i / 32] is
 * set.
 */
#ifndef WRING_KERNELS_ROTATE_H
#define WRING_KERNELS_ROTATE_H

#include "compress/kernels/kernels.h"

#define WRING_ROTATE_MIN 32
#define WRING_ROTATE_MAX 2048

struct wring_rotate_kernels {
    /**
     * The sum of v * v in binary64, v = src + residual in binary32. 32 lanes as in onebit.h.
     * @param residual  or NULL
     */
    double (*power)(const float *src, const float *residual, uint64_t n);
    /** out = H D v, where v beyond n is 0. @param out  [m] @param residual  or NULL */
    void (*forward)(float *out, const float *src, const float *residual, uint64_t n,
                    const uint32_t *signs, uint64_t m);
    /** dst = the first n of D H x. @param x  in and out, [m], left as H x */
    void (*back)(float *dst, float *x, uint64_t n, const uint32_t *signs, uint64_t m);
    /** dst += them. */
    void (*back_add)(float *dst, float *x, uint64_t n, const uint32_t *signs, uint64_t m);
};

struct wring_rotate_tier {
    struct wring_kernel_tier head;
    const struct wring_rotate_kernels *kernels;
};

extern const struct wring_rotate_tier wring_rotate_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_rotate_kernels, wring_rotate)

#endif
