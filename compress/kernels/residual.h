/* SPDX-License-Identifier: Apache-2.0 */
/** Kernels of "+ef:residual=int8": a residual between memory and the f32 that codecs work on. Those
 *  of "bf16" are the codec's (bf16.h). */
#ifndef WRING_KERNELS_RESIDUAL_H
#define WRING_KERNELS_RESIDUAL_H

#include "compress/kernels/kernels.h"

/* A block is the exponent E of its step 2^(E - 133), and signed bytes, which count steps.
 */
#define WRING_RESIDUAL_BLOCK 32
#define WRING_RESIDUAL_BLOCK_BYTES (1 + WRING_RESIDUAL_BLOCK)
#define WRING_RESIDUAL_INT8_TOP 127

/** The E at which the largest magnitude, which has these bits, is no more than 127 steps, or as few
 *  more as f32 has. 0: all are too small, or one is not finite, and the block is of zeros. */
static inline uint32_t wring_residual_exponent(uint32_t peak)
{
    const uint32_t least = 22, most = 254; /* where 2^(149 - E) and 127 steps are finite */
    uint32_t exponent = (peak + 0x1FFFF) >> 23;

    if (exponent < least || peak >= 0x7F800000)
        return 0;
    return exponent < most ? exponent : most;
}

struct wring_residual_kernels {
    /** out = n elements of blocks, of which the last one may be short. */
    void (*unpack)(float *out, const unsigned char *blocks, uint64_t n);
    /**
     * Blocks of values, none of them NaN: n bytes, and one for each 32 or fewer. So they fit where
     * n floats do.
     * @param noise  words of runs of 32 elements: philox.h
     */
    void (*pack)(unsigned char *blocks, const float *values, uint64_t n, const uint32_t *noise);
};

struct wring_residual_tier {
    struct wring_kernel_tier head;
    const struct wring_residual_kernels *kernels;
};

extern const struct wring_residual_tier wring_residual_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_residual_kernels, wring_residual)

#endif
