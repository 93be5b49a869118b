/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Kernels of codecs whose codes are whole steps of a scale that all ranks share, and add up:
 *
 *     step[i] = round_half_even(max(-most, min(most, v[i] * inverse)))   decoded = step[i] * scale
 *
 * where v = src, or src + residual under error feedback. Steps are of 4, 8 or 16 bits. Those of 4
 * stand in a byte by two, the first in the lower bits; behind the last one is 0, which nobody looks
 * at. A v that is not a number becomes -most.
 */
#ifndef WRING_KERNELS_STEPS_H
#define WRING_KERNELS_STEPS_H

#include <stdbool.h>

#include "compress/kernels/kernels.h"

/** Of one width. */
struct wring_steps_width {
    /** @param residual  in and out: becomes v - decoded; or NULL
     *  @param most      a whole number that the width has */
    void (*encode)(void *code, const float *src, float *residual, uint64_t n, float scale,
                   float inverse, float most);
    void (*decode)(float *dst, const void *code, uint64_t n, float scale);
    void (*decode_add)(float *dst, const void *code, uint64_t n, float scale);
};

/** sum += code, both of n steps. @return whether all sums fit */
typedef bool (*wring_steps_add_fn)(void *sum, const void *code, uint64_t n);

/** Make sums of 16 bits steps of fewer, in place: those that are beyond -7 and 7, or -127 and 127,
 *  become these. @return how many are beyond */
typedef uint64_t (*wring_steps_cut_fn)(void *sum, uint64_t n);

struct wring_steps_kernels {
    /** The bits of max|v|, v = src + residual: WRING_INF_BITS or more where some v is not finite.
     *  @param residual  or NULL */
    uint32_t (*peak)(const float *src, const float *residual, uint64_t n);
    struct wring_steps_width width[3]; /* 4, 8 and 16 bits */
    /* steps of 4 bits to sums of 8, and so on */
    wring_steps_add_fn add4_to8, add4_to16, add8, add8_to16, add16;
    wring_steps_cut_fn cut_to4, cut_to8;
};

struct wring_steps_tier {
    struct wring_kernel_tier head;
    const struct wring_steps_kernels *kernels;
};

extern const struct wring_steps_tier wring_steps_tiers[];

WRING_VECTOR_TIERS_DECLARED(struct wring_steps_kernels, wring_steps)

#endif
