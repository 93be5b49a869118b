/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the qsgd codec, over one block or a part of it. v = src, or src + residual under error
 * feedback. A block's norm is not less than any |v|, and its levels are whole numbers from -s to s,
 * s = 2^(bits-1) - 1, in two's complement of so many bits, from the lowest bits of a byte on.
 *
 *     linear    t     = round_half_even(v * inverse), within -most and most: s · 2^16
 *               level = (t + noise) >> 16                          inverse = s · 2^16 / norm
 *               value = level * step                               step    = norm / s
 *     natural   x     = min(|v| * inverse, 1)                      inverse = 1 / norm
 *               level = (bits(x) + noise · 128 + 64) >> 23, less 127 - s
 *                       or, below the lowest level's 2^(1-s):
 *                       (round_half_even(x · 2^(s-1) · 2^16) + noise) >> 16
 *                       with the sign of v
 *               value = 2^(|level| - s) * step, with that sign     step    = norm
 *
 * The noise of elements is laid out as in philox.h. FORMAT.md, "qsgd", has blocks that are not
 * finite or too small, for which inverse and step are 0.
 */
#ifndef WRING_KERNELS_QSGD_H
#define WRING_KERNELS_QSGD_H

#include "compress/kernels/kernels.h"

#define WRING_QSGD_LANES 32 /* of sums, as onebit has them */
#define WRING_QSGD_WIDTHS 3 /* 2, 4 and 8 bits, in this order */

enum wring_qsgd_partition {
    WRING_QSGD_LINEAR,
    WRING_QSGD_NATURAL,
    WRING_QSGD_PARTITIONS
};

struct wring_qsgd_scale {
    float inverse, step;
    int32_t most; /* of |t|, with linear levels */
};

/** Of one width and partition. */
struct wring_qsgd_form {
    /**
     * @param code      out, [ceil(n · bits / 8)] bytes; unused bits become 0
     * @param residual  in and out: becomes v - value; or NULL
     * @param noise     in, words of whole runs
     */
    void (*encode)(uint8_t *code, const float *src, float *residual, uint64_t n,
                   const struct wring_qsgd_scale *scale, const uint32_t *noise);
    /** dst = values, of any levels. */
    void (*decode)(float *dst, const uint8_t *code, uint64_t n, float step);
    void (*decode_add)(float *dst, const uint8_t *code, uint64_t n, float step);
};

struct wring_qsgd_kernels {
    /** max |v| as bits; WRING_INF_BITS or more if some v is not finite. */
    uint32_t (*peak)(const float *src, const float *residual, uint64_t n);
    /** The sum of v · v in binary64, over 32 lanes: lane j adds elements j, j + 32, … from +0; then
     *  lane j adds lane j + half, for half = 16, 8, 4, 2, 1. Not finite if some v is not. */
    double (*squares)(const float *src, const float *residual, uint64_t n);
    struct wring_qsgd_form forms[WRING_QSGD_PARTITIONS][WRING_QSGD_WIDTHS];
};

struct wring_qsgd_tier {
    struct wring_kernel_tier head;
    const struct wring_qsgd_kernels *kernels;
};

extern const struct wring_qsgd_tier wring_qsgd_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_qsgd_kernels, wring_qsgd)

#endif
