/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/qsgd.h"

#include <stdbool.h>

#include "compress/kernels/bits.h"

/* A function of each width and partition, whose constants the compiler knows. */
#define ALWAYS static inline __attribute__((always_inline))

static double squares_scalar(const float *src, const float *residual, uint64_t n)
{
    double lanes[WRING_QSGD_LANES] = {0};

    for (uint64_t i = 0; i < n; i++) {
        double value = wring_fed(src, residual, i);
        lanes[i % WRING_QSGD_LANES] += value * value;
    }
    for (unsigned half = WRING_QSGD_LANES / 2; half > 0; half /= 2)
        for (unsigned j = 0; j < half; j++)
            lanes[j] += lanes[j + half];
    return lanes[0];
}

/** To nearest even, of magnitudes below 2^31. */
static int32_t round_half_even(float value)
{
    return (int32_t)(((double)value + 0x1.8p52) - 0x1.8p52);
}

ALWAYS int32_t top_of(unsigned bits)
{
    return (1 << (bits - 1)) - 1;
}

ALWAYS int32_t linear_level(float value, struct wring_qsgd_scale scale, uint32_t noise)
{
    int32_t t = round_half_even(value * scale.inverse), most = scale.most;

    t = t > most ? most : t < -most ? -most : t;
    return (t + (int32_t)noise) >> 16;
}

/** 2^exponent, of a normal number. */
ALWAYS float power(int32_t exponent)
{
    return wring_float_of((uint32_t)(exponent + 127) << 23);
}

ALWAYS int32_t natural_level(float value, float inverse, uint32_t noise, unsigned bits)
{
    int32_t top = top_of(bits), level;
    float x = wring_float_of(wring_magnitude(value)) * inverse;

    x = x > 1 ? 1 : x;
    if (x < power(1 - top))
        level = (round_half_even(x * power(top - 1) * 0x1p16f) + (int32_t)noise) >> 16;
    else
        level = (int32_t)((wring_bits_of(x) + (noise << 7 | 64)) >> 23) - (127 - top);
    return wring_bits_of(value) >> 31 ? -level : level;
}

ALWAYS int32_t level_of(float value, struct wring_qsgd_scale scale, uint32_t noise, unsigned bits,
                        bool natural)
{
    return natural ? natural_level(value, scale.inverse, noise, bits)
                   : linear_level(value, scale, noise);
}

ALWAYS float value_of(int32_t level, float step, unsigned bits, bool natural)
{
    if (!natural)
        return (float)level * step;
    if (level == 0)
        return 0 * step;
    float value = power((level < 0 ? -level : level) - top_of(bits)) * step;
    return level < 0 ? -value : value;
}

ALWAYS void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n,
                       struct wring_qsgd_scale scale, const uint32_t *noise, unsigned bits,
                       bool natural)
{
    memset(code, 0, (n * bits + 7) / 8);
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        int32_t level = level_of(value, scale, wring_noise(noise, i), bits, natural);
        uint32_t field = (uint32_t)level & ((1u << bits) - 1);
        code[i * bits / 8] |= (uint8_t)(field << i * bits % 8);
        if (residual != NULL)
            residual[i] = value - value_of(level, scale.step, bits, natural);
    }
}

/** Element i of a code, its sign extended. */
ALWAYS int32_t take_level(const uint8_t *code, uint64_t i, unsigned bits)
{
    uint32_t field = (uint32_t)code[i * bits / 8] >> i * bits % 8;
    return (int32_t)(field << (32 - bits)) >> (32 - bits);
}

ALWAYS void decode_any(float *dst, const uint8_t *code, uint64_t n, float step, unsigned bits,
                       bool natural, bool add)
{
    for (uint64_t i = 0; i < n; i++) {
        float value = value_of(take_level(code, i, bits), step, bits, natural);
        dst[i] = add ? dst[i] + value : value;
    }
}

#define FORM(name, bits, natural)                                                           \
    static void encode_##name(uint8_t *code, const float *src, float *residual, uint64_t n, \
                              const struct wring_qsgd_scale *scale, const uint32_t *noise)  \
    {                                                                                       \
        encode_any(code, src, residual, n, *scale, noise, bits, natural);                   \
    }                                                                                       \
    static void decode_##name(float *dst, const uint8_t *code, uint64_t n, float step)      \
    {                                                                                       \
        decode_any(dst, code, n, step, bits, natural, false);                               \
    }                                                                                       \
    static void decode_add_##name(float *dst, const uint8_t *code, uint64_t n, float step)  \
    {                                                                                       \
        decode_any(dst, code, n, step, bits, natural, true);                                \
    }

FORM(linear_2, 2, false)
FORM(linear_4, 4, false)
FORM(linear_8, 8, false)
FORM(natural_2, 2, true)
FORM(natural_4, 4, true)
FORM(natural_8, 8, true)

#define ENTRY(name)                                     \
    {                                                   \
        encode_##name, decode_##name, decode_add_##name \
    }

static const struct wring_qsgd_kernels scalar = {
    wring_peak,
    squares_scalar,
    {{ENTRY(linear_2), ENTRY(linear_4), ENTRY(linear_8)},
     {ENTRY(natural_2), ENTRY(natural_4), ENTRY(natural_8)}},
};

const struct wring_qsgd_tier wring_qsgd_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_qsgd){{NULL, 0}, NULL},
};
