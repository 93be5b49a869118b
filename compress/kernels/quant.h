/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the int8 codec, each over one block of n elements.
 *
 *     code[i] = round_half_even(v[i] * inverse)        decode: code[i] * scale
 *
 * where v = src, or src + residual under error feedback. |v[i] * inverse| is at most 127 and a
 * rounding error, which the caller sees to.
 */
#ifndef WRING_KERNELS_QUANT_H
#define WRING_KERNELS_QUANT_H

#include "compress/kernels/kernels.h"

struct wring_quant_kernels {
    /** The bits of max|v|; WRING_INF_BITS or more when some v is not finite. residual: or NULL. */
    uint32_t (*peak)(const float *src, const float *residual, uint64_t n);
    void (*encode)(int8_t *code, const float *src, uint64_t n, float inverse);
    /** Also residual = v − code * scale. */
    void (*encode_feedback)(int8_t *code, const float *src, float *residual, uint64_t n,
                            float inverse, float scale);
    void (*decode)(float *dst, const int8_t *code, uint64_t n, float scale);
    void (*decode_add)(float *dst, const int8_t *code, uint64_t n, float scale);
};

struct wring_quant_tier {
    struct wring_kernel_tier head;
    const struct wring_quant_kernels *kernels;
};

extern const struct wring_quant_tier wring_quant_tiers[];

extern const struct wring_quant_kernels wring_quant_avx2;
extern const struct wring_quant_kernels wring_quant_avx512;

#endif
