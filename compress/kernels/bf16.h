/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the bf16 codec: float32 to its upper 16 bits and back.
 *
 * Rounds to nearest even in integer arithmetic, because the processor's own conversion flushes
 * denormals. Finite values that would round to infinity become the largest finite bf16; NaN and
 * infinity become WRING_BF16_NAN. A code whose exponent is all ones decodes to the one NaN.
 */
#ifndef WRING_KERNELS_BF16_H
#define WRING_KERNELS_BF16_H

#include <stdbool.h>

#include "compress/kernels/kernels.h"

#define WRING_BF16_NAN 0x7FC0u
#define WRING_BF16_LARGEST 0x7F7F0000u
#define WRING_BF16_TOP 0x7F7F7FFFu /* the largest magnitude that does not round to infinity */

struct wring_bf16_kernels {
    /** code out, [2 n] bytes at any address. */
    void (*encode)(void *code, const float *src, uint64_t n);
    /** The same of src + residual; residual becomes what the code lost, kept where not finite. */
    void (*encode_feedback)(void *code, const float *src, float *residual, uint64_t n);
    /**
     * code = min(|bits| + noise, top) of src, or of src + residual, cut off, with the sign.
     * Residual as above; or NULL.
     * @param noise  in, words of whole runs (philox.h)
     * @param top    WRING_BF16_LARGEST
     * @param far    past the caches, to a code that begins where a line does; settle afterwards
     */
    void (*encode_random)(void *code, const float *src, float *residual, uint64_t n,
                          const uint32_t *noise, uint32_t top, bool far);
    void (*decode)(float *dst, const void *code, uint64_t n);
    void (*decode_add)(float *dst, const void *code, uint64_t n);
};

struct wring_bf16_tier {
    struct wring_kernel_tier head;
    const struct wring_bf16_kernels *kernels;
};

extern const struct wring_bf16_tier wring_bf16_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_bf16_kernels, wring_bf16)

#endif
