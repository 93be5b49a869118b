/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of the bounded codec, over one block. With v = src, or src + residual under error
 * feedback, each number has a step:
 *
 *     step    = round_half_even(v * inverse), or -2^31 if that is beyond 32 bits
 *     decoded = step * size
 *
 * A step fits a width of w bits if it is one of two's complement; the only one of 0 bits is 0.
 * Steps are packed as planes of bits, the lowest first: bit i % 8 of byte i / 8 of a plane is that
 * of step i.
 */
#ifndef WRING_KERNELS_BOUNDED_H
#define WRING_KERNELS_BOUNDED_H

#include "compress/kernels/kernels.h"

#define WRING_BOUNDED_WIDTH_MAX 16
#define WRING_BOUNDED_BLOCK_MAX 4096

/** What a block holds. */
struct wring_bounded_found {
    uint32_t peak;  /* max |v| as bits; WRING_INF_BITS or more if some v is not finite */
    uint32_t width; /* that all steps fit, up to 32; undefined if some v is not finite */
};

struct wring_bounded_kernels {
    /** @param steps  out, [n] */
    struct wring_bounded_found (*quantise)(int32_t *steps, const float *src, const float *residual,
                                           uint64_t n, float inverse);
    /**
     * Mark the steps that do not fit.
     * @param map    out, [ceil(n / 64)] bit i % 64 of word i / 64; 0 behind the last
     * @param width  0 to WRING_BOUNDED_WIDTH_MAX
     * @return how many
     */
    uint64_t (*mark)(uint64_t *map, const int32_t *steps, uint64_t n, unsigned width);
    /** @param planes  out, [width · ceil(n / 8)]; unused bits become 0 */
    void (*pack)(uint8_t *planes, const int32_t *steps, uint64_t n, unsigned width);
    /** residual = src + residual - decoded */
    void (*keep)(float *residual, const float *src, const int32_t *steps, uint64_t n, float size);
    /** dst = decoded. @param width  0 to WRING_BOUNDED_WIDTH_MAX */
    void (*unpack)(float *dst, const uint8_t *planes, uint64_t n, unsigned width, float size);
    void (*unpack_add)(float *dst, const uint8_t *planes, uint64_t n, unsigned width, float size);
};

struct wring_bounded_tier {
    struct wring_kernel_tier head;
    const struct wring_bounded_kernels *kernels;
};

extern const struct wring_bounded_tier wring_bounded_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_bounded_kernels, wring_bounded)

#endif
