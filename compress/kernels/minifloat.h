/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of codecs whose elements are small floats, of 8 or 4 bits, times a step that a block of
 * them shares:
 *
 *              exponent, fraction m   least normal   largest
 *     e4m3     4 bits    3 bits       2^-6           448      code 0x7F is NaN
 *     e5m2     5         2            2^-14          57344    codes from 0x7C on are not finite
 *     e2m1     2         1            1              6        all codes are numbers
 *
 *     x      = min(|v| * inverse, largest)
 *     p      = the largest power of two that is not above x, but not below the least normal
 *     apart  = p * 2^-m                      between x's neighbours
 *     q      = round_half_even(x / apart), or at random
 *              (round_half_even(x / apart * 65536) + noise) >> 16
 *     code   = q + log2(p / least) * 2^m, and the sign of v in its highest bit
 *     value  = q * apart * step, with that sign
 *
 * where v = src, or src + residual under error feedback, and is finite. A code that is not a number
 * becomes the one NaN. Two codes of 4 bits share a byte, the first in its lower half. The noise of
 * elements is laid out as in philox.h.
 *
 * Source: FP8 formats for deep learning, arXiv:2209.05433; OCP Microscaling formats 1.0, 2023.
 */
#ifndef WRING_KERNELS_MINIFLOAT_H
#define WRING_KERNELS_MINIFLOAT_H

#include "compress/kernels/kernels.h"

#define WRING_MINIFLOAT_TOP_8 0x7Eu /* e4m3's largest code */

enum wring_minifloat_rounding {
    WRING_ROUND_EVEN,
    WRING_ROUND_RANDOM,
    WRING_ROUNDINGS
};

/** What elements are, and how many have a step of their own. */
enum wring_minifloat {
    WRING_E4M3, /* one step for all */
    WRING_E5M2,
    WRING_E4M3_BY_32,
    WRING_E5M2_BY_32,
    WRING_E2M1_BY_32,
    WRING_E2M1_BY_16,
    WRING_MINIFLOATS
};

struct wring_minifloat_form {
    /**
     * @param code      out, a byte for each element or, of 4 bits, for two; an unused half is 0
     * @param residual  in and out: becomes v - value; or NULL
     * @param inverse   in, of each block; |v| * inverse is below 2^64
     * @param step      in, of each block; not looked at without residual
     * @param noise     in, words of whole runs; not looked at without random rounding
     */
    void (*encode[WRING_ROUNDINGS])(uint8_t *code, const float *src, float *residual, uint64_t n,
                                    const float *inverse, const float *step, const uint32_t *noise);
    /** dst = values, of any codes; decode_add: dst + values. @param step  in, of each block */
    void (*decode)(float *dst, const uint8_t *code, uint64_t n, const float *step);
    void (*decode_add)(float *dst, const uint8_t *code, uint64_t n, const float *step);
};

struct wring_minifloat_kernels {
    /** max |v| of each block, as bits; WRING_INF_BITS or more if some v of it is not finite.
     *  @param block  a multiple of 16 */
    void (*peaks)(uint32_t *peaks, const float *src, const float *residual, uint64_t n,
                  uint64_t block);
    /** 1 / step, or 0 where that is 0. @param step  none is below 0 */
    void (*invert)(float *inverse, const float *step, uint64_t n);
    struct wring_minifloat_form forms[WRING_MINIFLOATS];
};

struct wring_minifloat_tier {
    struct wring_kernel_tier head;
    const struct wring_minifloat_kernels *kernels;
};

extern const struct wring_minifloat_tier wring_minifloat_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_minifloat_kernels, wring_minifloat)

#endif
