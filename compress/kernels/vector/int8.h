/* SPDX-License-Identifier: Apache-2.0 */
/**
 * int8's kernels in vectors of any width; a file for each instruction set puts blocks together, and
 * has the table.
 */
#ifndef WRING_KERNELS_X86_INT8_H
#define WRING_KERNELS_X86_INT8_H

#include "compress/kernels/int8.h"
#include "compress/kernels/vector/peak.h"

/** The factor for a block's values, and the size of its steps. */
struct scale {
    float inverse, scale;
};

INLINE struct scale scale_of(uint32_t peak_bits)
{
    float peak;
    memcpy(&peak, &peak_bits, sizeof(peak));
    float inverse = WRING_INT8_STEPS / peak; /* first: all steps wait for it */
    float scale = peak / WRING_INT8_STEPS;

    if (__builtin_expect(peak < WRING_INT8_TINY, 0))
        return (struct scale){0, 0}; /* all steps become 0 */
    return (struct scale){inverse, scale < WRING_INT8_SCALE_MAX ? scale : WRING_INT8_SCALE_MAX};
}

INLINE words steps_of(floats value, struct scale scale)
{
    return round_to_ints(value * all(scale.inverse));
}

INLINE floats lost(floats value, words steps, struct scale scale)
{
    return value - floats_of_ints(steps) * all(scale.scale);
}

/** The steps of STEP elements, packed, not in order; residual becomes what they lost. */
INLINE words pack_step(const float *src, float *residual, struct scale scale)
{
    words steps[4];

    for (unsigned v = 0; v < 4; v++) {
        floats value = fed(src, residual, v * LANES);
        steps[v] = steps_of(value, scale);
        if (residual != NULL)
            store(residual + v * LANES, lost(value, steps[v], scale));
    }
    return pack_bytes(steps);
}

INLINE void encode_steps(int8_t *code, const float *src, float *residual, uint64_t n,
                         struct scale scale)
{
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        store_words(code + i,
                    in_order(pack_step(src + i, residual == NULL ? NULL : residual + i, scale)));
    for (; i < n; i += LANES) {
        unsigned live = rest_from(n - i, 0);
        floats value = fed_first(src, residual, i, live);
        words steps = steps_of(value, scale);
        store_first_bytes(code + i, steps, live);
        if (residual != NULL)
            store_first(residual + i, lost(value, steps, scale), live);
    }
}

INLINE void encode_block(uint8_t *code, const float *src, float *residual, uint64_t n)
{
    uint32_t peak = find_peak(src, residual, n), nan = WRING_NAN_BITS;
    int8_t *steps = (int8_t *)(code + WRING_INT8_HEAD);

    if (__builtin_expect(peak >= WRING_INF_BITS, 0)) {
        memcpy(code, &nan, sizeof(nan));
        memset(steps, 0, n);
        return;
    }
    struct scale scale = scale_of(peak);
    memcpy(code, &scale.scale, sizeof(scale.scale));
    encode_steps(steps, src, residual, n, scale);
}

/** Blocks one by one, the last of which may be short. */
INLINE void encode_blocks(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    for (uint64_t i = 0; i < n; i += block, code += WRING_INT8_HEAD + block)
        encode_block(code, src + i, residual == NULL ? NULL : residual + i,
                     n - i < block ? n - i : block);
}

static void encode_singly(uint8_t *code, const float *src, float *residual, uint64_t n,
                          uint64_t block)
{
    if (residual == NULL) /* each way inlined for itself */
        encode_blocks(code, src, NULL, n, block);
    else
        encode_blocks(code, src, residual, n, block);
}

/** dst = decoded, or dst + decoded. */
INLINE void decode_any(float *dst, const int8_t *code, uint64_t n, float scale, bool add)
{
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        for (unsigned v = 0; v < STEP; v += LANES) {
            floats value = floats_of_ints(load_bytes(code + i + v)) * all(scale);
            store(dst + i + v, add ? load(dst + i + v) + value : value);
        }
    for (; i < n; i += LANES) {
        unsigned live = rest_from(n - i, 0);
        floats value = floats_of_ints(load_first_bytes(code + i, live)) * all(scale);
        store_first(dst + i, add ? load_first(dst + i, live) + value : value, live);
    }
}

static void decode(float *dst, const int8_t *code, uint64_t n, float scale)
{
    decode_any(dst, code, n, scale, false);
}

static void decode_add(float *dst, const int8_t *code, uint64_t n, float scale)
{
    decode_any(dst, code, n, scale, true);
}

#endif
