/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the onebit codec, each over one block of n elements.
 *
 * Sums run over 32 lanes: lane j adds elements j, j + 32, … in that order, from +0; then lane j
 * adds lane j + half, for half = 16, 8, 4, 2, 1. Lane 0 holds the sum. Every tier does just that.
 */
#ifndef WRING_KERNELS_ONEBIT_H
#define WRING_KERNELS_ONEBIT_H

#include "compress/kernels/kernels.h"

#define WRING_ONEBIT_LANES 32

/** A block's elements on either side of zero; -0 counts as negative. */
struct wring_onebit_split {
    float positive, negative; /* sums of |v|, by the lanes above; a lane adds +0 for the others */
    uint64_t negatives;       /* how many */
};

struct wring_onebit_kernels {
    /**
     * Signs of v = src + residual, and the sum of |v|.
     * @param bits      out, [ceil(n / 8)] bytes; bit i is set when v[i] has its sign bit set
     * @param residual  in, [n] or NULL
     */
    float (*signs)(uint8_t *bits, const float *src, const float *residual, uint64_t n);
    void (*signs_split)(uint8_t *bits, const float *src, const float *residual, uint64_t n,
                        struct wring_onebit_split *out);
    /** residual = v − (v's sign bit set ? negative : positive). */
    void (*keep)(float *residual, const float *src, uint64_t n, float positive, float negative);
    /** dst[i] = bit i set ? negative : positive. Both finite. */
    void (*spread)(float *dst, const uint8_t *bits, uint64_t n, float positive, float negative);
    void (*spread_add)(float *dst, const uint8_t *bits, uint64_t n, float positive, float negative);
};

struct wring_onebit_tier {
    struct wring_kernel_tier head;
    const struct wring_onebit_kernels *kernels;
};

extern const struct wring_onebit_tier wring_onebit_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_onebit_kernels, wring_onebit)

#endif
