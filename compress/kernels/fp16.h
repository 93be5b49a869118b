/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the fp16 codec: float32 to IEEE binary16 and back.
 *
 * Rounds to nearest even, into the denormals too. The conversions of the processor do exactly
 * that, whatever its flush-to-zero modes: the rounding rides in the instruction, binary16
 * denormals are always kept, and a float32 denormal rounds to zero either way.
 *
 * NaN and infinity become WRING_FP16_NAN. Finite magnitudes are first lowered to `top`, which
 * decides what becomes of those that are too large.
 */
#ifndef WRING_KERNELS_FP16_H
#define WRING_KERNELS_FP16_H

#include <stdbool.h>

#include "compress/kernels/kernels.h"

#define WRING_FP16_INF 0x7C00u
#define WRING_FP16_NAN 0x7E00u
#define WRING_FP16_SATURATE 0x477FEFFFu /* top: the largest magnitude that rounds to 65504 */
#define WRING_FP16_CUT 0xFFFFE000u      /* bits of float32 that binary16 has */
#define WRING_FP16_LEAST 0x38800000u    /* 2^-14, the least normal number */
#define WRING_FP16_OVERFLOW 0x47800000u /* top: 65536, which rounds to infinity */

struct wring_fp16_kernels {
    /** code out, [2 n] bytes at any address. @param top  one of the two above */
    void (*encode)(void *code, const float *src, uint64_t n, uint32_t top);
    /**
     * The same of src + residual, saturating; residual becomes what the code lost, kept where not
     * finite.
     */
    void (*encode_feedback)(void *code, const float *src, float *residual, uint64_t n);
    /**
     * The same of src, or of src + residual, rounded up or down by noise; residual may be NULL.
     *
     *     w = |v|, and 2^-14 more where |v| < 2^-14      u = bits(w) + noise / 8, cut off to 13
     * zeros code = u, less what was added; 65504 at most, but `top` from 65520 on
     *
     * @param noise  in, words of whole runs (philox.h)
     * @param far    past the caches, to a code that begins where a line does; settle afterwards
     */
    void (*encode_random)(void *code, const float *src, float *residual, uint64_t n,
                          const uint32_t *noise, uint32_t top, bool far);
    /** A NaN code of any payload gives the one NaN. */
    void (*decode)(float *dst, const void *code, uint64_t n);
    void (*decode_add)(float *dst, const void *code, uint64_t n);
};

struct wring_fp16_tier {
    struct wring_kernel_tier head;
    const struct wring_fp16_kernels *kernels;
};

extern const struct wring_fp16_tier wring_fp16_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_fp16_kernels, wring_fp16)

#endif
