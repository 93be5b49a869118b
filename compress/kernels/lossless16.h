/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the lossless codec for elements of 16 bits: bf16, and f16. They are taken apart as
 * float32 are (lossless.h), with r = bits(x) rotated left by 1 within 16 bits. The lower byte of r
 * is sign and fraction. Above it come `fraction` more bits of the fraction (bf16: 0, f16: 3), then
 * the exponent. A packed block of n elements is, one after the other:
 *
 *     low     n bytes                               r & 0xFF
 *     planes  (fraction + width) * ceil(n / 8) bytes    these bits of each element, lowest first:
 *                                                   `fraction` bits from r >> 8, then its distance
 *     others  a byte for each element whose distance has all bits set: its exponent
 *
 * An element's distance is that of its exponent from the block's top, modulo 2^(8 - fraction) and
 * at most 2^width - 1. FORMAT.md, "lossless", has the blocks around these.
 */
#ifndef WRING_KERNELS_LOSSLESS16_H
#define WRING_KERNELS_LOSSLESS16_H

#include "compress/kernels/lossless.h"

#define WRING_LOSSLESS16_F16 3 /* bits of the fraction above the lower byte; bf16 has none */

/** How a block is packed. */
struct wring_lossless16_form {
    unsigned fraction; /* 0 or WRING_LOSSLESS16_F16 */
    unsigned width;    /* of a distance: WRING_LOSSLESS_BLOCK_NARROW or _WIDE */
    uint32_t top;      /* the exponent that distances count from */
};

#define WRING_LOSSLESS16_OTHERS(n, form) \
    ((n) + ((form).fraction + (form).width) * WRING_LOSSLESS_PLANE(n))
#define WRING_LOSSLESS16_ROOM(n) \
    ((n) + (WRING_LOSSLESS16_F16 + WRING_LOSSLESS_BLOCK_WIDE) * WRING_LOSSLESS_PLANE(n) + (n))

struct wring_lossless16_tier_kernels {
    /** The largest bits(x) << 1 of 16 bits, without signs: the exponent in its upper bits. */
    uint32_t (*peak)(const uint16_t *src, uint64_t n);

    /**
     * Pack a block.
     * @param packed  out, WRING_LOSSLESS16_ROOM(n) bytes, of which all may be written
     * @param n       1 to WRING_LOSSLESS_BLOCK_MAX
     * @return for both widths, how many elements' distances are too long
     */
    struct wring_lossless_far (*pack)(uint8_t *packed, const uint16_t *src, uint64_t n,
                                      struct wring_lossless16_form form);

    /**
     * dst = what was packed. Any bytes give something.
     * @param packed  in, up to where the others begin
     * @param others  in, [count]: further ones that the planes claim are taken as 0
     * @return how many others the planes claim
     */
    uint64_t (*unpack)(uint16_t *dst, const uint8_t *packed, const uint8_t *others, uint64_t count,
                       uint64_t n, struct wring_lossless16_form form);
};

struct wring_lossless16_tier {
    struct wring_kernel_tier head;
    const struct wring_lossless16_tier_kernels *kernels;
};

extern const struct wring_lossless16_tier wring_lossless16_tiers[];

extern const struct wring_lossless16_tier_kernels wring_lossless16_avx2;
extern const struct wring_lossless16_tier_kernels wring_lossless16_avx512;
extern const struct wring_lossless16_tier_kernels wring_lossless16_vbmi2;
extern const struct wring_lossless16_tier_kernels wring_lossless16_neon;

#endif
