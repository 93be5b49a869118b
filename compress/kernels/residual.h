/* SPDX-License-Identifier: Apache-2.0 */
/** Kernels of "+ef:residual=bf16": a residual between memory and the f32 that codecs work on. */
#ifndef WRING_KERNELS_RESIDUAL_H
#define WRING_KERNELS_RESIDUAL_H

#include "compress/kernels/kernels.h"

#define WRING_RESIDUAL_BF16_TOP 0x7F7Fu /* the largest finite one */

struct wring_residual_kernels {
    /** out = halves, exactly. */
    void (*widen)(float *out, const uint16_t *halves, uint64_t n);
    /**
     * halves = values, none of them NaN, rounded at random and never beyond the largest bf16.
     * @param noise  words of runs of 32 elements: philox.h
     */
    void (*narrow)(uint16_t *halves, const float *values, uint64_t n, const uint32_t *noise);
};

struct wring_residual_tier {
    struct wring_kernel_tier head;
    const struct wring_residual_kernels *kernels;
};

extern const struct wring_residual_tier wring_residual_tiers[];

extern const struct wring_residual_kernels wring_residual_avx2;
extern const struct wring_residual_kernels wring_residual_avx512;

#endif
