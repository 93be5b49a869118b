/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/natural.h"

#include <stdbool.h>

#include "compress/kernels/bits.h"

#define UNIT WRING_NATURAL_UNIT

/* A function of each width, which the compiler knows. */
#define ALWAYS static inline __attribute__((always_inline))

ALWAYS void put_element(uint8_t *code, uint64_t n, uint64_t i, uint32_t exponent, bool negative,
                        bool nine)
{
    if (nine) {
        code[i] = (uint8_t)exponent;
        code[n + i / 8] |= (uint8_t)(negative << i % 8);
    } else {
        code[i] = (uint8_t)(exponent | (negative && exponent > 0 ? 0x80u : 0));
    }
}

/** As numbers; a NaN where the unit is marked. */
ALWAYS float take_element(const uint8_t *code, uint64_t n, uint64_t i, float up, bool nine)
{
    uint32_t exponent = nine ? code[i] : code[i] & 0x7F;
    bool negative = nine ? code[n + i / 8] >> i % 8 & 1 : code[i] >> 7;

    if (nine ? exponent == WRING_NATURAL_NAN_9 : code[i] == WRING_NATURAL_NAN_8)
        return wring_float_of(WRING_NAN_BITS);
    uint32_t bits = wring_bits_of(wring_float_of(exponent << 23) * up);
    return wring_float_of(bits | (negative ? WRING_SIGN_BITS : 0));
}

ALWAYS void encode_unit(uint8_t *code, const float *src, float *residual, uint64_t n,
                        struct wring_natural_scale scale, const uint32_t *noise, bool nine)
{
    uint32_t top = nine ? WRING_NATURAL_TOP_9 : WRING_NATURAL_TOP_8;

    if (nine)
        memset(code + n, 0, (n + 7) / 8);
    if (wring_peak(src, residual, n) >= WRING_INF_BITS) {
        memset(code, nine ? WRING_NATURAL_NAN_9 : WRING_NATURAL_NAN_8, n);
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        float value = wring_fed(src, residual, i);
        float size = wring_float_of(wring_magnitude(value)) * scale.down;
        uint32_t exponent = (wring_bits_of(size) + (wring_noise(noise, i) << 7 | 64)) >> 23;
        put_element(code, n, i, exponent < top ? exponent : top, wring_bits_of(value) >> 31, nine);
        if (residual != NULL)
            residual[i] = value - take_element(code, n, i, scale.up, nine);
    }
}

ALWAYS void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n,
                       struct wring_natural_scale scale, const uint32_t *noise, bool nine)
{
    for (uint64_t i = 0; i < n; i += UNIT, code += nine ? UNIT + UNIT / 8 : UNIT)
        encode_unit(code, src + i, residual == NULL ? NULL : residual + i,
                    n - i < UNIT ? n - i : UNIT, scale, noise + i / 2, nine);
}

ALWAYS void decode_any(float *dst, const uint8_t *code, uint64_t n, float up, bool nine, bool add)
{
    for (uint64_t at = 0; at < n; at += UNIT, code += nine ? UNIT + UNIT / 8 : UNIT) {
        uint64_t live = n - at < UNIT ? n - at : UNIT;
        for (uint64_t i = 0; i < live; i++) {
            float value = take_element(code, live, i, up, nine);
            dst[at + i] = add ? dst[at + i] + value : value;
        }
    }
}

#define FORM(name, nine)                                                                    \
    static void encode_##name(uint8_t *code, const float *src, float *residual, uint64_t n, \
                              struct wring_natural_scale scale, const uint32_t *noise)      \
    {                                                                                       \
        encode_any(code, src, residual, n, scale, noise, nine);                             \
    }                                                                                       \
    static void decode_##name(float *dst, const uint8_t *code, uint64_t n, float up)        \
    {                                                                                       \
        decode_any(dst, code, n, up, nine, false);                                          \
    }                                                                                       \
    static void decode_add_##name(float *dst, const uint8_t *code, uint64_t n, float up)    \
    {                                                                                       \
        decode_any(dst, code, n, up, nine, true);                                           \
    }

FORM(nine, true)
FORM(eight, false)

static const struct wring_natural_kernels scalar = {
    {encode_nine, decode_nine, decode_add_nine},
    {encode_eight, decode_eight, decode_add_eight},
};

const struct wring_natural_tier wring_natural_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_natural){{NULL, 0}, NULL},
};
