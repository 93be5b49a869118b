/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the int8 codec. A block's code is a head, its scale, and a step for each element:
 *
 *     scale   = peak / 127
 *     step[i] = round_half_even(v[i] * (127 / peak))
 *     decoded = step[i] * scale
 *
 * where v = src, or src + residual under error feedback, and peak = max|v|. FORMAT.md, "int8", has
 * the blocks that are not finite or too small.
 */
#ifndef WRING_KERNELS_INT8_H
#define WRING_KERNELS_INT8_H

#include "compress/kernels/kernels.h"

#define WRING_INT8_HEAD 4 /* bytes */
#define WRING_INT8_STEPS 127
#define WRING_INT8_TINY 0x1p-119f             /* a smaller peak counts as 0 */
#define WRING_INT8_SCALE_MAX 0x1.020406p+121f /* the largest whose 127-fold is finite */

struct wring_int8_kernels {
    /**
     * Encode blocks one after the other, the last of which may be short.
     * @param code      out, WRING_INT8_HEAD bytes and a byte for each element, per block
     * @param residual  in and out: becomes v - decoded, kept where a block is not finite; or NULL
     * @param block     elements, a multiple of 32
     */
    void (*encode)(uint8_t *code, const float *src, float *residual, uint64_t n, uint64_t block);
    /* The steps of one block. */
    void (*decode)(float *dst, const int8_t *code, uint64_t n, float scale);
    void (*decode_add)(float *dst, const int8_t *code, uint64_t n, float scale);
};

struct wring_int8_tier {
    struct wring_kernel_tier head;
    const struct wring_int8_kernels *kernels;
};

extern const struct wring_int8_tier wring_int8_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_int8_kernels, wring_int8)

#endif
