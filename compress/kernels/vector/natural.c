/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/natural.h"
#include "compress/kernels/vector/noise.h"

#define UNIT WRING_NATURAL_UNIT
#define PARTS (UNIT / LANES)
#define CODE_MAX (UNIT + UNIT / 8)

/** What a unit is encoded from. */
struct unit {
    floats part[PARTS];
};

/** Of a unit of so many elements: its exponents stand before its signs. */
INLINE unsigned code_bytes(unsigned n, bool nine)
{
    return nine ? n + (n + 7) / 8 : n;
}

INLINE struct unit fed_unit(const float *src, const float *residual)
{
    struct unit unit;
    for (unsigned v = 0; v < PARTS; v++) {
        unit.part[v] = load(src + v * LANES);
        if (residual != NULL)
            unit.part[v] += load(residual + v * LANES);
    }
    return unit;
}

INLINE bool is_finite(struct unit unit)
{
    words peak = magnitude_of(unit.part[0]);
    for (unsigned v = 1; v < PARTS; v++)
        peak = larger(peak, magnitude_of(unit.part[v]));
    return !any_of(above(peak, all_words(WRING_INF_BITS - 1)));
}

INLINE words exponents(floats value, ints noise, float down, uint32_t top)
{
    words size = (words)((floats)magnitude_of(value) * all(down));
    return smaller((size + (words)(noise << 7 | 64)) >> 23, all_words(top));
}

INLINE floats powers(words exponent, float up)
{
    return (floats)(exponent << 23) * all(up);
}

INLINE words sign_of(floats value)
{
    return (words)value & WRING_SIGN_BITS;
}

/** Where there are no powers, there is no sign. */
INLINE words sign_of_powers(words exponent, words sign)
{
    return (words)choose(above(exponent, (words){0}), (floats)sign, (floats){0});
}

INLINE void encode_unit(uint8_t *code, const float *src, float *residual,
                        struct wring_natural_scale scale, const uint32_t *noise, bool nine)
{
    struct unit unit = fed_unit(src, residual);
    uint32_t negatives = 0;

    if (__builtin_expect(!is_finite(unit), 0)) {
        memset(code, nine ? WRING_NATURAL_NAN_9 : WRING_NATURAL_NAN_8, UNIT);
        memset(code + UNIT, 0, code_bytes(UNIT, nine) - UNIT);
        return;
    }
    for (unsigned v = 0; v < PARTS; v++) {
        words exponent = exponents(unit.part[v], noise_at(noise, v * LANES), scale.down,
                                   nine ? WRING_NATURAL_TOP_9 : WRING_NATURAL_TOP_8);
        words sign = sign_of(unit.part[v]);
        if (!nine)
            sign = sign_of_powers(exponent, sign);
        store_lane_bytes(code + v * LANES, nine ? exponent : exponent | sign >> 24);
        negatives |= bits_of(negative(unit.part[v])) << v * LANES;
        if (residual != NULL) {
            floats value = (floats)((words)powers(exponent, scale.up) | sign);
            store(residual + v * LANES, unit.part[v] - value);
        }
    }
    if (nine)
        memcpy(code + UNIT, &negatives, sizeof(negatives));
}

/** The last elements of a bucket, in a unit filled up with zeros. */
INLINE void encode_rest(uint8_t *code, const float *src, float *residual, unsigned n,
                        struct wring_natural_scale scale, const uint32_t *noise, bool nine)
{
    float rest[UNIT] = {0}, left[UNIT] = {0};
    uint8_t codes[CODE_MAX];

    memcpy(rest, src, n * sizeof(*src));
    if (residual != NULL)
        memcpy(left, residual, n * sizeof(*residual));
    encode_unit(codes, rest, residual == NULL ? NULL : left, scale, noise, nine);
    memcpy(code, codes, n);
    memcpy(code + n, codes + UNIT, code_bytes(n, nine) - n);
    if (residual != NULL)
        memcpy(residual, left, n * sizeof(*residual));
}

INLINE void encode_fed(uint8_t *code, const float *src, float *residual, uint64_t n,
                       struct wring_natural_scale scale, const uint32_t *noise, bool nine)
{
    uint64_t i = 0;

    for (; i + UNIT <= n; i += UNIT, code += code_bytes(UNIT, nine))
        encode_unit(code, src + i, residual == NULL ? NULL : residual + i, scale, noise + i / 2,
                    nine);
    if (i < n)
        encode_rest(code, src + i, residual == NULL ? NULL : residual + i, (unsigned)(n - i), scale,
                    noise + i / 2, nine);
}

INLINE void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n,
                       struct wring_natural_scale scale, const uint32_t *noise, bool nine)
{
    if (residual == NULL) /* each way inlined for itself */
        encode_fed(code, src, NULL, n, scale, noise, nine);
    else
        encode_fed(code, src, residual, n, scale, noise, nine);
}

/** The values of a vector. @param sign  with 9 bits, which stand elsewhere */
INLINE floats values_of(words code, words sign, float up, bool nine)
{
    const floats nan = (floats)all_words(WRING_NAN_BITS);

    if (nine) {
        words exponent = code & 0xFF;
        lanes marked = above(exponent, all_words(WRING_NATURAL_TOP_9));
        return choose(marked, nan, (floats)((words)powers(exponent, up) | sign));
    }
    lanes marked = above(all_words((uint32_t)-127), code); /* of signed bytes, -128 alone */
    floats value = (floats)((words)powers(code & 0x7F, up) | (code & WRING_SIGN_BITS));
    return choose(marked, nan, value);
}

INLINE void decode_unit(float *dst, const uint8_t *code, float up, bool nine, bool add)
{
    const floats minus = (floats)all_words(WRING_SIGN_BITS);
    uint32_t negatives = 0;

    if (nine)
        memcpy(&negatives, code + UNIT, sizeof(negatives));
    for (unsigned v = 0; v < PARTS; v++) {
        words sign = (words)choose(lanes_of(negatives, v * LANES), minus, (floats){0});
        floats value = values_of(load_bytes((const int8_t *)code + v * LANES), sign, up, nine);
        float *at = dst + v * LANES;
        store(at, add ? load(at) + value : value);
    }
}

INLINE void decode_any(float *dst, const uint8_t *code, uint64_t n, float up, bool nine, bool add)
{
    uint64_t i = 0;

    for (; i + UNIT <= n; i += UNIT, code += code_bytes(UNIT, nine))
        decode_unit(dst + i, code, up, nine, add);
    if (i < n) {
        unsigned live = (unsigned)(n - i);
        float rest[UNIT] = {0};
        uint8_t codes[CODE_MAX] = {0};
        memcpy(codes, code, live);
        memcpy(codes + UNIT, code + live, code_bytes(live, nine) - live);
        if (add)
            memcpy(rest, dst + i, live * sizeof(*dst));
        decode_unit(rest, codes, up, nine, add);
        memcpy(dst + i, rest, live * sizeof(*dst));
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

const struct wring_natural_kernels OF_TIER(wring_natural) = {
    {encode_nine, decode_nine, decode_add_nine},
    {encode_eight, decode_eight, decode_add_eight},
};
