/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/ints.h"
#include "compress/kernels/vector/fields.h"
#include "compress/kernels/vector/peak.h"

/** What a function is inlined for. */
struct form {
    unsigned bits;
    bool minmax;
};

/** Of a block. */
struct range {
    struct wring_ints_scale head;
    float inverse;
};

INLINE float top_of(struct form form)
{
    return (float)((1 << (form.minmax ? form.bits : form.bits - 1)) - 1);
}

INLINE float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- ranges ---- */

INLINE struct range absmax_of(float peak, struct form form)
{
    float most = form.bits == 4 ? WRING_INTS_ABSMAX_4 : WRING_INTS_ABSMAX_2;
    float inverse = top_of(form) / peak; /* first: all steps wait for it */
    float scale = peak / top_of(form);

    if (__builtin_expect(peak < WRING_INTS_TINY, 0))
        return (struct range){{0, 0}, 0}; /* all steps become 0 */
    return (struct range){{scale < most ? scale : most, 0}, inverse};
}

/** What was found in each lane so far. */
struct found {
    floats low, high;
    words peak;
};

INLINE struct found look_at(struct found found, floats value)
{
    return (struct found){min_f32(found.low, value), max_f32(found.high, value),
                          larger(found.peak, magnitude_of(value))};
}

/** Of the last elements, less than a vector. */
INLINE floats fed_repeating(const float *src, const float *residual, unsigned n)
{
    float rest[LANES];

    for (unsigned i = 0; i < LANES; i++)
        rest[i] =
            residual == NULL ? src[i < n ? i : 0] : src[i < n ? i : 0] + residual[i < n ? i : 0];
    return load(rest);
}

/** The numbers of a block that is not finite are of no use, but its peak. */
INLINE struct found look_through(const float *src, const float *residual, uint64_t n)
{
    floats first = n < LANES ? fed_repeating(src, residual, (unsigned)n) : fed(src, residual, 0);
    struct found even = {first, first, magnitude_of(first)}, odd = even;
    uint64_t i = 0;

    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        even = look_at(even, fed(src, residual, i));
        odd = look_at(odd, fed(src, residual, i + LANES));
    }
    for (; i < n; i += LANES)
        even = look_at(even, fed_repeating(src + i, residual == NULL ? NULL : residual + i,
                                           rest_from(n - i, 0)));
    return (struct found){min_f32(even.low, odd.low), max_f32(even.high, odd.high),
                          larger(even.peak, odd.peak)};
}

INLINE float limited(float value)
{
    value = value < WRING_INTS_LIMIT ? value : WRING_INTS_LIMIT;
    return value > -WRING_INTS_LIMIT ? value : -WRING_INTS_LIMIT;
}

INLINE struct range minmax_of(struct found found, struct form form)
{
    for (unsigned half = LANES / 2; half > 0; half /= 2) {
        found.low = min_f32(found.low, swap_lanes(found.low, half));
        found.high = max_f32(found.high, swap_lanes(found.high, half));
    }
    float low = limited(found.low[0]) + 0.0f; /* -0 becomes +0, whichever zero was found first */
    float span = limited(found.high[0]) - low;
    if (__builtin_expect(span < WRING_INTS_TINY, 0))
        return (struct range){{0, low}, 0};
    return (struct range){{span / top_of(form), low}, top_of(form) / span};
}

/* ---- steps ---- */

INLINE words steps_of(floats value, struct range range, struct form form)
{
    if (!form.minmax)
        return round_to_ints(value * all(range.inverse));
    floats part = (value - all(range.head.low)) * all(range.inverse);
    return round_to_ints(max_f32(min_f32(part, all(top_of(form))), (floats){0}));
}

INLINE floats values_of(words steps, struct wring_ints_scale scale, struct form form)
{
    floats part = floats_of_ints(steps) * all(scale.scale);
    return form.minmax ? all(scale.low) + part : part;
}

INLINE void encode_step(uint8_t *code, const float *src, float *residual, struct range range,
                        struct form form)
{
    const uint32_t half = form.bits == 8 ? 128 : 0; /* as packing takes them to be signed */
    words steps[4];

    for (unsigned v = 0; v < 4; v++) {
        floats value = fed(src, residual, v * LANES);
        steps[v] = steps_of(value, range, form);
        if (residual != NULL)
            store(residual + v * LANES, value - values_of(steps[v], range.head, form));
        steps[v] -= half;
    }
    words bytes = in_order(pack_bytes(steps));
    put_codes(code, form.bits == 8 ? bytes ^ 0x80808080 : bytes, form.bits);
}

/** The last elements of a block; what stands behind them has step 0. */
INLINE void encode_rest(uint8_t *code, const float *src, float *residual, unsigned n,
                        struct range range, struct form form)
{
    float rest[STEP], left[STEP] = {0};
    uint8_t codes[STEP];

    for (unsigned i = 0; i < STEP; i++)
        rest[i] = range.head.low;
    memcpy(rest, src, n * sizeof(*src));
    if (residual != NULL)
        memcpy(left, residual, n * sizeof(*residual));
    encode_step(codes, rest, residual == NULL ? NULL : left, range, form);
    memcpy(code, codes, (n * form.bits + 7) / 8);
    if (residual != NULL)
        memcpy(residual, left, n * sizeof(*residual));
}

INLINE void put_head(uint8_t *code, struct wring_ints_scale scale, struct form form)
{
    memcpy(code, &scale.scale, sizeof(scale.scale));
    if (form.minmax)
        memcpy(code + WRING_INTS_HEAD, &scale.low, sizeof(scale.low));
}

/** A block's range; of one that is not finite the scale is the one NaN. */
INLINE struct range look_over_block(const float *src, const float *residual, uint64_t n,
                                    struct form form)
{
    struct found found = {0};

    if (form.minmax)
        found = look_through(src, residual, n);
    uint32_t peak = form.minmax ? largest_of(found.peak) : find_peak(src, residual, n);
    if (__builtin_expect(peak >= WRING_INF_BITS, 0))
        return (struct range){{of_bits(WRING_NAN_BITS), 0}, 0};
    return form.minmax ? minmax_of(found, form) : absmax_of(of_bits(peak), form);
}

INLINE void encode_block(uint8_t *code, const float *src, float *residual, uint64_t n,
                         struct range range, struct form form)
{
    uint8_t *steps = code + (form.minmax ? 2 * WRING_INTS_HEAD : WRING_INTS_HEAD);
    uint64_t i = 0;

    put_head(code, range.head, form);
    if (__builtin_expect(range.head.scale != range.head.scale, 0)) {
        memset(steps, 0, (n * form.bits + 7) / 8);
        return;
    }
    for (; i + STEP <= n; i += STEP)
        encode_step(steps + i * form.bits / 8, src + i, residual == NULL ? NULL : residual + i,
                    range, form);
    if (i < n)
        encode_rest(steps + i * form.bits / 8, src + i, residual == NULL ? NULL : residual + i,
                    (unsigned)(n - i), range, form);
}

/** Each block's range is found before the steps of the one in front of it: none waits for its own.
 */
INLINE void encode_fed(uint8_t *code, const float *src, float *residual, uint64_t n, uint64_t block,
                       struct form form)
{
    uint64_t bytes = (form.minmax ? 2 * WRING_INTS_HEAD : WRING_INTS_HEAD) + block * form.bits / 8;
    struct range next = {{0, 0}, 0};

    if (n > 0)
        next = look_over_block(src, residual, n < block ? n : block, form);
    for (uint64_t i = 0; i < n; i += block, code += bytes) {
        struct range range = next;
        uint64_t after = i + block;
        if (after < n)
            next = look_over_block(src + after, residual == NULL ? NULL : residual + after,
                                   n - after < block ? n - after : block, form);
        encode_block(code, src + i, residual == NULL ? NULL : residual + i,
                     n - i < block ? n - i : block, range, form);
    }
}

INLINE void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n, uint64_t block,
                       struct form form)
{
    if (residual == NULL) /* each way inlined for itself */
        encode_fed(code, src, NULL, n, block, form);
    else
        encode_fed(code, src, residual, n, block, form);
}

/* ---- values ---- */

INLINE struct table table_of(struct wring_ints_scale scale, struct form form)
{
    _Alignas(VECTOR_BYTES) float numbers[16];
    struct table table;

    for (int i = 0; i < 16; i++) {
        int field = i & ((1 << form.bits) - 1), half = 1 << (form.bits - 1);
        numbers[i] = (float)(form.minmax || field < half ? field : field - 2 * half);
    }
    for (unsigned v = 0; v < 16 / LANES; v++) {
        floats part = load(numbers + v * LANES) * all(scale.scale);
        table.values[v] = form.minmax ? all(scale.low) + part : part;
    }
    return table;
}

INLINE void decode_step(float *dst, const uint8_t *code, struct wring_ints_scale scale,
                        struct table table, struct form form, bool add)
{
    for (unsigned v = 0; v < 4; v++) {
        const uint8_t *at = code + v * LANES * form.bits / 8;
        floats value = form.bits == 8
                           ? values_of(load_bytes((const int8_t *)at) & 0xFF, scale, form)
                           : look_up(table, take_codes(at, form.bits), form.bits);
        float *to = dst + v * LANES;
        store(to, add ? load(to) + value : value);
    }
}

INLINE void decode_any(float *dst, const uint8_t *code, uint64_t n, struct wring_ints_scale scale,
                       struct form form, bool add)
{
    struct table table = {0};
    uint64_t i = 0;

    if (form.bits < 8)
        table = table_of(scale, form);
    for (; i + STEP <= n; i += STEP)
        decode_step(dst + i, code + i * form.bits / 8, scale, table, form, add);
    if (i < n) {
        float rest[STEP] = {0};
        uint8_t codes[STEP] = {0};
        memcpy(codes, code + i * form.bits / 8, ((n - i) * form.bits + 7) / 8);
        if (add)
            memcpy(rest, dst + i, (n - i) * sizeof(*dst));
        decode_step(rest, codes, scale, table, form, add);
        memcpy(dst + i, rest, (n - i) * sizeof(*dst));
    }
}

#define FORM(name, ...)                                                                     \
    static void encode_##name(uint8_t *code, const float *src, float *residual, uint64_t n, \
                              uint64_t block)                                               \
    {                                                                                       \
        encode_any(code, src, residual, n, block, (struct form){__VA_ARGS__});              \
    }                                                                                       \
    static void decode_##name(float *dst, const uint8_t *code, uint64_t n,                  \
                              struct wring_ints_scale scale)                                \
    {                                                                                       \
        decode_any(dst, code, n, scale, (struct form){__VA_ARGS__}, false);                 \
    }                                                                                       \
    static void decode_add_##name(float *dst, const uint8_t *code, uint64_t n,              \
                                  struct wring_ints_scale scale)                            \
    {                                                                                       \
        decode_any(dst, code, n, scale, (struct form){__VA_ARGS__}, true);                  \
    }

FORM(absmax_2, 2, false)
FORM(absmax_4, 4, false)
FORM(minmax_2, 2, true)
FORM(minmax_4, 4, true)
FORM(minmax_8, 8, true)

#define ENTRY(name)                                     \
    {                                                   \
        encode_##name, decode_##name, decode_add_##name \
    }

const struct wring_ints_kernels OF_TIER(wring_ints) = {
    {ENTRY(absmax_2), ENTRY(absmax_4)},
    {ENTRY(minmax_2), ENTRY(minmax_4), ENTRY(minmax_8)},
};
