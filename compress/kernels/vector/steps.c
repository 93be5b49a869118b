/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/steps.h"
#include "compress/kernels/vector/fields.h"

#define STEP (4 * LANES) /* elements at a time: as many as a vector has bytes */

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

/** The steps of a vector of bytes, in order. */
INLINE words bytes_of_steps(const float *src, float *residual, float scale, float inverse,
                            float most)
{
    words steps[4];

    for (unsigned v = 0; v < 4; v++) {
        uint64_t at = v * LANES;
        steps[v] = steps_of(fed(src, residual, at, LANES), at_or_null(residual, at), LANES, scale,
                            inverse, most);
    }
    return in_order(pack_bytes(steps));
}

/** The last ones, fewer than a vector of bytes; behind them are zeros. */
INLINE void encode4_rest(uint8_t *code, const float *src, float *residual, unsigned n, float scale,
                         float inverse, float most)
{
    float rest[STEP] = {0}, left[STEP] = {0};
    uint8_t codes[STEP / 2];

    memcpy(rest, src, n * sizeof(*src));
    if (residual != NULL)
        memcpy(left, residual, n * sizeof(*residual));
    put_codes(codes, bytes_of_steps(rest, residual == NULL ? NULL : left, scale, inverse, most), 4);
    memcpy(code, codes, (n + 1) / 2);
    if (residual != NULL)
        memcpy(residual, left, n * sizeof(*residual));
}

INLINE void encode4_any(uint8_t *code, const float *src, float *residual, uint64_t n, float scale,
                        float inverse, float most)
{
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        put_codes(code + i / 2,
                  bytes_of_steps(src + i, at_or_null(residual, i), scale, inverse, most), 4);
    if (i < n)
        encode4_rest(code + i / 2, src + i, at_or_null(residual, i), (unsigned)(n - i), scale,
                     inverse, most);
}

static void encode4(void *code, const float *src, float *residual, uint64_t n, float scale,
                    float inverse, float most)
{
    if (residual == NULL)
        encode4_any(code, src, NULL, n, scale, inverse, most);
    else
        encode4_any(code, src, residual, n, scale, inverse, most);
}

/** What each step of 4 bits stands for. */
INLINE struct table table_of(float scale)
{
    _Alignas(VECTOR_BYTES) float numbers[16];
    struct table table;

    for (int i = 0; i < 16; i++)
        numbers[i] = (float)((i ^ 8) - 8);
    for (unsigned v = 0; v < 16 / LANES; v++)
        table.values[v] = load(numbers + v * LANES) * all(scale);
    return table;
}

INLINE void decode4_any(float *dst, const uint8_t *code, uint64_t n, float scale, bool add)
{
    struct table table = table_of(scale);
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        floats value = look_up(table, take_codes(code + i / 2, 4), 4);
        store(dst + i, add ? load(dst + i) + value : value);
    }
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        uint8_t codes[LANES / 2] = {0};
        memcpy(codes, code + i / 2, (live + 1) / 2);
        floats value = look_up(table, take_codes(codes, 4), 4);
        store_first(dst + i, add ? load_first(dst + i, live) + value : value, live);
    }
}

static void decode4(float *dst, const void *code, uint64_t n, float scale)
{
    decode4_any(dst, code, n, scale, false);
}

static void decode_add4(float *dst, const void *code, uint64_t n, float scale)
{
    decode4_any(dst, code, n, scale, true);
}

INLINE void encode8_any(int8_t *code, const float *src, float *residual, uint64_t n, float scale,
                        float inverse, float most)
{
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        store_words(code + i,
                    bytes_of_steps(src + i, at_or_null(residual, i), scale, inverse, most));
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

/** @return the bits that it spoils */
INLINE uint8_t add_one8(int8_t *to, int8_t from)
{
    uint8_t a = (uint8_t)*to, b = (uint8_t)from, sum = (uint8_t)(a + b);

    *to = (int8_t)sum;
    return (uint8_t)((a ^ sum) & (b ^ sum));
}

static bool add8(void *total, const void *code, uint64_t n)
{
    int8_t *to = total;
    const int8_t *from = code;
    uint8_t spoilt = 0;

    for (uint64_t i = 0; i < n; i++)
        spoilt |= add_one8(&to[i], from[i]);
    return (spoilt & 0x80) == 0;
}

#define RUN 32 /* steps of 4 bits that are spread at a time */

/** Each in a byte of its own. */
INLINE void spread4(int8_t *steps, const uint8_t *code)
{
    uint16_t pairs[RUN / 2];

    for (unsigned i = 0; i < RUN / 2; i++)
        pairs[i] = (uint16_t)((code[i] & 0x0F) | (code[i] & 0xF0) << 4);
    memcpy(steps, pairs, RUN);
    for (unsigned i = 0; i < RUN; i++)
        steps[i] = (int8_t)((steps[i] ^ 8) - 8);
}

static bool add4_to8(void *total, const void *code, uint64_t n)
{
    int8_t *to = total, steps[RUN];
    const uint8_t *from = code;
    uint8_t spoilt[RUN] = {0}, all = 0;
    uint64_t i = 0;

    for (; i + RUN <= n; i += RUN) {
        spread4(steps, from + i / 2);
        for (unsigned j = 0; j < RUN; j++)
            spoilt[j] |= add_one8(&to[i + j], steps[j]);
    }
    if (i < n) {
        uint8_t rest[RUN / 2] = {0};
        memcpy(rest, from + i / 2, (n - i + 1) / 2);
        spread4(steps, rest);
        for (unsigned j = 0; j < n - i; j++)
            spoilt[j] |= add_one8(&to[i + j], steps[j]);
    }
    for (unsigned j = 0; j < RUN; j++)
        all |= spoilt[j];
    return (all & 0x80) == 0;
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

typedef uint16_t short_anywhere __attribute__((aligned(1), may_alias));

/** @return the bits that it spoils */
INLINE uint16_t add_one16(short_anywhere *to, uint16_t from)
{
    uint16_t before = *to, sum = (uint16_t)(before + from);

    *to = sum;
    return (uint16_t)((before ^ sum) & (from ^ sum));
}

static bool add16(void *total, const void *code, uint64_t n)
{
    short_anywhere *to = total;
    const short_anywhere *from = code;
    uint16_t spoilt = 0;

    for (uint64_t i = 0; i < n; i++)
        spoilt |= add_one16(&to[i], from[i]);
    return (spoilt & 0x8000) == 0;
}

static bool add8_to16(void *total, const void *code, uint64_t n)
{
    short_anywhere *to = total;
    const int8_t *from = code;
    uint16_t spoilt = 0;

    for (uint64_t i = 0; i < n; i++)
        spoilt |= add_one16(&to[i], (uint16_t)from[i]);
    return (spoilt & 0x8000) == 0;
}

static bool add4_to16(void *total, const void *code, uint64_t n)
{
    int8_t steps[RUN];
    uint8_t rest[RUN / 2] = {0};
    bool fits = true;
    uint64_t i = 0;

    for (; i + RUN <= n; i += RUN) {
        spread4(steps, (const uint8_t *)code + i / 2);
        fits &= add8_to16((char *)total + 2 * i, steps, RUN);
    }
    if (i < n) {
        memcpy(rest, (const uint8_t *)code + i / 2, (n - i + 1) / 2);
        spread4(steps, rest);
        fits &= add8_to16((char *)total + 2 * i, steps, n - i);
    }
    return fits;
}

/** A run of sums, or what is left of one, as bytes. @return how many are beyond `most` */
INLINE unsigned cut_run(int8_t *steps, const void *sum, uint64_t n, int16_t most)
{
    int16_t whole[RUN] = {0};
    uint16_t beyond = 0;

    memcpy(whole, sum, n * sizeof(*whole));
    for (unsigned i = 0; i < RUN; i++) {
        int16_t step = whole[i] > most ? most : whole[i];
        step = step < -most ? (int16_t)-most : step;
        beyond = (uint16_t)(beyond + (step != whole[i]));
        steps[i] = (int8_t)step;
    }
    return beyond;
}

static uint64_t cut_to8(void *sum, uint64_t n)
{
    uint64_t beyond = 0;
    int8_t steps[RUN];

    for (uint64_t i = 0; i < n; i += RUN) { /* sums of a run are read before it is written */
        uint64_t live = n - i < RUN ? n - i : RUN;
        beyond += cut_run(steps, (char *)sum + 2 * i, live, 127);
        memcpy((char *)sum + i, steps, live);
    }
    return beyond;
}

static uint64_t cut_to4(void *sum, uint64_t n)
{
    uint64_t beyond = 0;
    int8_t steps[RUN];
    uint8_t halves[RUN / 2];

    for (uint64_t i = 0; i < n; i += RUN) {
        uint64_t live = n - i < RUN ? n - i : RUN;
        beyond += cut_run(steps, (char *)sum + 2 * i, live, 7);
        for (unsigned j = 0; j < RUN / 2; j++)
            halves[j] = (uint8_t)((steps[2 * j] & 0x0F) | (steps[2 * j + 1] & 0x0F) << 4);
        memcpy((char *)sum + i / 2, halves, (live + 1) / 2);
    }
    return beyond;
}

const struct wring_steps_kernels OF_TIER(wring_steps) = {
    peak,
    {{encode4, decode4, decode_add4},
     {encode8, decode8, decode_add8},
     {encode16, decode16, decode_add16}},
    add4_to8,
    add4_to16,
    add8,
    add8_to16,
    add16,
    cut_to4,
    cut_to8,
};
