/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/steps.h"
#include "compress/kernels/vector/vector.h"

/** n elements from i on, of both inputs. @param residual  or NULL, known where this is inlined */
INLINE floats fed(const float *src, const float *residual, uint64_t i, unsigned n)
{
    if (n == LANES)
        return residual == NULL ? load(src + i) : load(src + i) + load(residual + i);
    floats value = load_first(src + i, n);
    return residual == NULL ? value : value + load_first(residual + i, n);
}

INLINE uint32_t peak_any(const float *src, const float *residual, uint64_t n)
{
    words most[4] = {{0}, {0}, {0}, {0}};
    uint64_t i = 0;

    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (unsigned v = 0; v < 4; v++)
            most[v] = larger(most[v], magnitude_of(fed(src, residual, i + v * LANES, LANES)));
    for (; i < n; i += LANES)
        most[0] = larger(most[0], magnitude_of(fed(src, residual, i, rest_from(n - i, 0))));
    return largest_of(larger(larger(most[0], most[1]), larger(most[2], most[3])));
}

static uint32_t peak(const float *src, const float *residual, uint64_t n)
{
    return residual == NULL ? peak_any(src, NULL, n) : peak_any(src, residual, n);
}

/** @return the steps of v; the residual is what they lack */
INLINE words steps_of(floats value, float *residual, unsigned n, float scale, float inverse,
                      float most)
{
    floats above = max_f32(value * all(inverse), all(-most));
    words steps = round_to_ints(min_f32(above, all(most)));
    if (residual != NULL && n == LANES)
        store(residual, value - floats_of_ints(steps) * all(scale));
    else if (residual != NULL)
        store_first(residual, value - floats_of_ints(steps) * all(scale), n);
    return steps;
}

INLINE float *at_or_null(float *residual, uint64_t i)
{
    return residual == NULL ? NULL : residual + i;
}

INLINE void encode8_any(int8_t *code, const float *src, float *residual, uint64_t n, float scale,
                        float inverse, float most)
{
    uint64_t i = 0;

    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        words steps[4];
        for (unsigned v = 0; v < 4; v++) {
            uint64_t at = i + v * LANES;
            steps[v] = steps_of(fed(src, residual, at, LANES), at_or_null(residual, at), LANES,
                                scale, inverse, most);
        }
        store_words(code + i, in_order(pack_bytes(steps)));
    }
    for (; i < n; i += LANES) {
        unsigned live = rest_from(n - i, 0);
        words steps = steps_of(fed(src, residual, i, live), at_or_null(residual, i), live, scale,
                               inverse, most);
        store_first_bytes(code + i, steps, live);
    }
}

static void encode8(void *code, const float *src, float *residual, uint64_t n, float scale,
                    float inverse, float most)
{
    if (residual == NULL)
        encode8_any(code, src, NULL, n, scale, inverse, most);
    else
        encode8_any(code, src, residual, n, scale, inverse, most);
}

INLINE void decode8_any(float *dst, const int8_t *code, uint64_t n, float scale, bool add)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        floats value = floats_of_ints(load_bytes(code + i)) * all(scale);
        store(dst + i, add ? load(dst + i) + value : value);
    }
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        floats value = floats_of_ints(load_first_bytes(code + i, live)) * all(scale);
        store_first(dst + i, add ? load_first(dst + i, live) + value : value, live);
    }
}

static void decode8(float *dst, const void *code, uint64_t n, float scale)
{
    decode8_any(dst, code, n, scale, false);
}

static void decode_add8(float *dst, const void *code, uint64_t n, float scale)
{
    decode8_any(dst, code, n, scale, true);
}

/* Bits of a step that a sum spoils: the sign of a sum that does not fit differs from both signs. */

static bool sum8(void *code, const void *other, uint64_t n)
{
    int8_t *to = code;
    const int8_t *from = other;
    uint8_t spoilt = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint8_t a = (uint8_t)to[i], b = (uint8_t)from[i], sum = (uint8_t)(a + b);
        spoilt |= (uint8_t)((a ^ sum) & (b ^ sum));
        to[i] = (int8_t)sum;
    }
    return (spoilt & 0x80) == 0;
}

INLINE void put_steps16(char *at, words steps, unsigned n)
{
    half_shorts part = lower_shorts(steps & 0xFFFF);
    if (n == LANES)
        store_part(at, part);
    else
        memcpy(at, &part, n * sizeof(int16_t));
}

INLINE void encode16_any(char *code, const float *src, float *residual, uint64_t n, float scale,
                         float inverse, float most)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        put_steps16(code + 2 * i,
                    steps_of(fed(src, residual, i, LANES), at_or_null(residual, i), LANES, scale,
                             inverse, most),
                    LANES);
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        put_steps16(code + 2 * i,
                    steps_of(fed(src, residual, i, live), at_or_null(residual, i), live, scale,
                             inverse, most),
                    live);
    }
}

static void encode16(void *code, const float *src, float *residual, uint64_t n, float scale,
                     float inverse, float most)
{
    if (residual == NULL)
        encode16_any(code, src, NULL, n, scale, inverse, most);
    else
        encode16_any(code, src, residual, n, scale, inverse, most);
}

/** Of shorts taken as signed. */
INLINE floats floats_of_shorts(half_shorts part)
{
    return floats_of_ints((widen_shorts(part) ^ 0x8000) - 0x8000);
}

INLINE void decode16_any(float *dst, const char *code, uint64_t n, float scale, bool add)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        floats value = floats_of_shorts(load_part(code + 2 * i)) * all(scale);
        store(dst + i, add ? load(dst + i) + value : value);
    }
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        half_shorts part = {0};
        memcpy(&part, code + 2 * i, live * sizeof(int16_t));
        floats value = floats_of_shorts(part) * all(scale);
        store_first(dst + i, add ? load_first(dst + i, live) + value : value, live);
    }
}

static void decode16(float *dst, const void *code, uint64_t n, float scale)
{
    decode16_any(dst, code, n, scale, false);
}

static void decode_add16(float *dst, const void *code, uint64_t n, float scale)
{
    decode16_any(dst, code, n, scale, true);
}

static bool sum16(void *code, const void *other, uint64_t n)
{
    typedef uint16_t anywhere __attribute__((aligned(1), may_alias));
    anywhere *to = code;
    const anywhere *from = other;
    uint16_t spoilt = 0;

    for (uint64_t i = 0; i < n; i++) {
        uint16_t a = to[i], b = from[i], sum = (uint16_t)(a + b);
        spoilt |= (uint16_t)((a ^ sum) & (b ^ sum));
        to[i] = sum;
    }
    return (spoilt & 0x8000) == 0;
}

const struct wring_steps_kernels OF_TIER(wring_steps) = {
    peak,
    {{encode8, decode8, decode_add8, sum8}, {encode16, decode16, decode_add16, sum16}},
};
