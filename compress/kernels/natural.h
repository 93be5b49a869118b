/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the natural codec, over units of 32 elements, the last of which may be short. Each
 * element becomes a power of two:
 *
 *     e     = min((bits(|v| * down) + noise · 128 + 64) >> 23, top)
 *     value = float(e << 23) * up, with the sign of v
 *
 * where v = src, or src + residual under error feedback. What is added to the fraction carries into
 * the exponent as often as the fraction is large. With 9 bits a unit is its elements' e, a byte
 * each, and their signs, a bit each; with 8 bits a byte has e and the sign, and no zero has a sign.
 * A unit that is not finite is marked by e = 255, or by the byte 0x80. The noise of elements is
 * laid out as in philox.h.
 */
#ifndef WRING_KERNELS_NATURAL_H
#define WRING_KERNELS_NATURAL_H

#include "compress/kernels/kernels.h"

#define WRING_NATURAL_UNIT 32
#define WRING_NATURAL_TOP_9 254u
#define WRING_NATURAL_TOP_8 127u
#define WRING_NATURAL_NAN_9 255u
#define WRING_NATURAL_NAN_8 0x80u

/** What values are multiplied by, as they are encoded and decoded. */
struct wring_natural_scale {
    float down, up;
};

/** Of one width. */
struct wring_natural_form {
    /** @param residual  in and out: becomes v - value, kept where a unit is not finite; or NULL
     *  @param noise     in, words of whole units */
    void (*encode)(uint8_t *code, const float *src, float *residual, uint64_t n,
                   struct wring_natural_scale scale, const uint32_t *noise);
    void (*decode)(float *dst, const uint8_t *code, uint64_t n, float up);
    void (*decode_add)(float *dst, const uint8_t *code, uint64_t n, float up);
};

struct wring_natural_kernels {
    struct wring_natural_form nine, eight;
};

struct wring_natural_tier {
    struct wring_kernel_tier head;
    const struct wring_natural_kernels *kernels;
};

extern const struct wring_natural_tier wring_natural_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_natural_kernels, wring_natural)

#endif
