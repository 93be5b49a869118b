/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/minifloat.h"

#include <stdbool.h>

#include "compress/kernels/bits.h"

/* A function of each form, whose constants the compiler knows. */
#define ALWAYS static inline __attribute__((always_inline))

struct shape {
    unsigned bits, fraction;
    int least; /* the exponent of the least normal */
    float largest;
    uint32_t odd;   /* the first code that is no number; the highest bit if there is none */
    unsigned block; /* 0: one for all */
};

#define E4M3(block) ((struct shape){8, 3, -6, 448, 0x7F, block})
#define E5M2(block) ((struct shape){8, 2, -14, 57344, 0x7C, block})
#define E2M1(block) ((struct shape){4, 1, 0, 6, 8, block})

ALWAYS uint32_t power_bits(int exponent)
{
    return (uint32_t)(exponent + 127) << 23;
}

/** To nearest even, of magnitudes below 2^31. */
static int32_t round_half_even(double value)
{
    return (int32_t)((value + 0x1.8p52) - 0x1.8p52);
}

/** Without its sign. @param x  from 0 to the largest */
ALWAYS uint32_t code_of(float x, struct shape shape, bool random, uint32_t noise)
{
    uint32_t least = power_bits(shape.least), power = wring_bits_of(x) & WRING_INF_BITS;

    power = power > least ? power : least;
    double part = (double)x / (double)wring_float_of(power - (shape.fraction << 23));
    int32_t q =
        random ? (round_half_even(part * 65536) + (int32_t)noise) >> 16 : round_half_even(part);
    return (uint32_t)q + ((power - least) >> (23 - shape.fraction));
}

ALWAYS float value_of(uint32_t code, float step, struct shape shape)
{
    uint32_t sign = code >> (shape.bits - 1) & 1, magnitude = code & ((1u << (shape.bits - 1)) - 1);
    uint32_t field = magnitude >> shape.fraction, q = magnitude & ((1u << shape.fraction) - 1);
    int exponent = shape.least;

    if (magnitude >= shape.odd)
        return wring_float_of(WRING_NAN_BITS);
    if (field > 0) {
        q |= 1u << shape.fraction;
        exponent += (int)field - 1;
    }
    float value = (float)q * wring_float_of(power_bits(exponent - (int)shape.fraction));
    return wring_float_of(wring_bits_of(value) | sign << 31) * step;
}

ALWAYS uint64_t block_of(uint64_t i, struct shape shape)
{
    return shape.block == 0 ? 0 : i / shape.block;
}

ALWAYS void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n,
                       const float *inverse, const float *step, const uint32_t *noise,
                       struct shape shape, bool random)
{
    memset(code, 0, (n * shape.bits + 7) / 8);
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        float x = wring_float_of(wring_magnitude(value)) * inverse[block_of(i, shape)];
        x = x < shape.largest ? x : shape.largest;
        uint32_t one = code_of(x, shape, random, random ? wring_noise(noise, i) : 0);
        one |= wring_bits_of(value) >> 31 << (shape.bits - 1);
        code[i * shape.bits / 8] |= (uint8_t)(one << i * shape.bits % 8);
        if (residual != NULL)
            residual[i] = value - value_of(one, step[block_of(i, shape)], shape);
    }
}

ALWAYS void decode_any(float *dst, const uint8_t *code, uint64_t n, const float *step,
                       struct shape shape, bool add)
{
    for (uint64_t i = 0; i < n; i++) {
        uint32_t one = (uint32_t)code[i * shape.bits / 8] >> i * shape.bits % 8;
        float value = value_of(one & ((1u << shape.bits) - 1), step[block_of(i, shape)], shape);
        dst[i] = add ? dst[i] + value : value;
    }
}

#define FORM(name, shape)                                                                         \
    static void even_##name(uint8_t *code, const float *src, float *residual, uint64_t n,         \
                            const float *inverse, const float *step, const uint32_t *noise)       \
    {                                                                                             \
        encode_any(code, src, residual, n, inverse, step, noise, shape, false);                   \
    }                                                                                             \
    static void random_##name(uint8_t *code, const float *src, float *residual, uint64_t n,       \
                              const float *inverse, const float *step, const uint32_t *noise)     \
    {                                                                                             \
        encode_any(code, src, residual, n, inverse, step, noise, shape, true);                    \
    }                                                                                             \
    static void decode_##name(float *dst, const uint8_t *code, uint64_t n, const float *step)     \
    {                                                                                             \
        decode_any(dst, code, n, step, shape, false);                                             \
    }                                                                                             \
    static void decode_add_##name(float *dst, const uint8_t *code, uint64_t n, const float *step) \
    {                                                                                             \
        decode_any(dst, code, n, step, shape, true);                                              \
    }

FORM(e4m3, E4M3(0))
FORM(e5m2, E5M2(0))
FORM(e4m3_by_32, E4M3(32))
FORM(e5m2_by_32, E5M2(32))
FORM(e2m1_by_32, E2M1(32))
FORM(e2m1_by_16, E2M1(16))

#define ENTRY(name)                                                    \
    {                                                                  \
        {even_##name, random_##name}, decode_##name, decode_add_##name \
    }

static void peaks_scalar(uint32_t *peaks, const float *src, const float *residual, uint64_t n,
                         uint64_t block)
{
    for (uint64_t i = 0; i < n; i += block)
        peaks[i / block] = wring_peak(src + i, residual == NULL ? NULL : residual + i,
                                      n - i < block ? n - i : block);
}

static void invert_scalar(float *inverse, const float *step, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        inverse[i] = step[i] > 0 ? 1 / step[i] : 0;
}

static const struct wring_minifloat_kernels scalar = {
    peaks_scalar,
    invert_scalar,
    {ENTRY(e4m3), ENTRY(e5m2), ENTRY(e4m3_by_32), ENTRY(e5m2_by_32), ENTRY(e2m1_by_32),
     ENTRY(e2m1_by_16)},
};

const struct wring_minifloat_tier wring_minifloat_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_minifloat){{NULL, 0}, NULL},
};
