/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/qsgd.h"
#include "compress/kernels/vector/fields.h"
#include "compress/kernels/vector/noise.h"
#include "compress/kernels/vector/peak.h"

#define HALF_LANES (LANES / 2) /* of 64 bits, in a vector */
#define SUMS (WRING_QSGD_LANES / HALF_LANES)

typedef half_floats half_floats_anywhere __attribute__((aligned(1), may_alias));

/* ---- norms ---- */

static uint32_t peak(const float *src, const float *residual, uint64_t n)
{
    return residual == NULL ? find_peak(src, NULL, n) : find_peak(src, residual, n);
}

INLINE half_floats load_half(const float *at)
{
    return *(const half_floats_anywhere *)at;
}

INLINE void add_squares(doubles sums[SUMS], const float *src, const float *residual)
{
    for (unsigned v = 0; v < SUMS; v++) {
        half_floats value = load_half(src + v * HALF_LANES);
        if (residual != NULL)
            value += load_half(residual + v * HALF_LANES);
        doubles wide = widen_half(value);
        sums[v] += wide * wide;
    }
}

INLINE double fold_squares(doubles sums[SUMS])
{
    for (unsigned half = SUMS / 2; half > 0; half /= 2)
        for (unsigned v = 0; v < half; v++)
            sums[v] += sums[v + half];
    return fold_lanes_f64(sums[0]);
}

INLINE double squares_any(const float *src, const float *residual, uint64_t n)
{
    doubles sums[SUMS] = {0};
    uint64_t i = 0;

    for (; i + WRING_QSGD_LANES <= n; i += WRING_QSGD_LANES)
        add_squares(sums, src + i, residual == NULL ? NULL : residual + i);
    if (i < n) { /* +0 behind them adds nothing */
        float rest[WRING_QSGD_LANES] = {0}, left[WRING_QSGD_LANES] = {0};
        memcpy(rest, src + i, (n - i) * sizeof(*rest));
        if (residual != NULL)
            memcpy(left, residual + i, (n - i) * sizeof(*left));
        add_squares(sums, rest, residual == NULL ? NULL : left);
    }
    return fold_squares(sums);
}

static double squares(const float *src, const float *residual, uint64_t n)
{
    return residual == NULL ? squares_any(src, NULL, n) : squares_any(src, residual, n);
}

/* ---- levels ---- */

#define TOP(bits) ((1 << ((bits)-1)) - 1)

/** What a function is inlined for. */
struct form {
    unsigned bits;
    bool natural;
};

INLINE ints clamp(ints value, int32_t most)
{
    words below = min_i32((words)value, all_words((uint32_t)most));
    return (ints)max_i32(below, all_words((uint32_t)-most));
}

INLINE ints linear_levels(floats value, struct wring_qsgd_scale scale, ints noise)
{
    ints t = clamp((ints)round_to_ints(value * all(scale.inverse)), scale.most);
    return (t + noise) >> 16;
}

/** 2^exponent, of a normal number. */
INLINE float power(int exponent)
{
    uint32_t bits = (uint32_t)(exponent + 127) << 23;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

INLINE ints natural_levels(floats value, float inverse, ints noise, int32_t top)
{
    const floats least = all(power(1 - top));
    floats x = (floats)magnitude_of(value) * all(inverse);

    x = min_f32(x, all(1));
    floats part = min_f32(x, least) * all(power(top - 1)) * all(0x1p16f);
    ints low = ((ints)round_to_ints(part) + noise) >> 16;
    ints high = (ints)(((words)x + (words)(noise << 7 | 64)) >> 23) - (127 - top);
    ints level = (ints)choose(less(x, least), (floats)low, (floats)high);
    ints sign = (ints)value >> 31;
    return (level ^ sign) - sign;
}

INLINE floats values_of(ints level, float step, struct form form)
{
    if (!form.natural)
        return floats_of_ints((words)level) * all(step);
    words magnitude = abs_i32((words)level);
    words power_of_2 = (magnitude + (uint32_t)(127 - TOP(form.bits))) << 23;
    floats one = choose(above(magnitude, (words){0}), (floats)power_of_2, (floats){0});
    return (floats)((words)(one * all(step)) | ((words)level & WRING_SIGN_BITS));
}

INLINE void encode_step(uint8_t *code, const float *src, float *residual,
                        struct wring_qsgd_scale scale, const uint32_t *noise, struct form form)
{
    for (unsigned from = 0; from < STEP_OF_RUNS; from += STEP) {
        words levels[4];
        for (unsigned v = 0; v < 4; v++) {
            unsigned at = from + v * LANES;
            floats value = fed(src, residual, at);
            ints drawn = noise_at(noise, at);
            ints level = form.natural ? natural_levels(value, scale.inverse, drawn, TOP(form.bits))
                                      : linear_levels(value, scale, drawn);
            if (residual != NULL)
                store(residual + at, value - values_of(level, scale.step, form));
            levels[v] = (words)level;
        }
        put_codes(code + from * form.bits / 8, in_order(pack_bytes(levels)), form.bits);
    }
}

/** The last elements of a block: zeros behind them have level 0. */
INLINE void encode_rest(uint8_t *code, const float *src, float *residual, unsigned n,
                        struct wring_qsgd_scale scale, const uint32_t *noise, struct form form)
{
    float rest[STEP_OF_RUNS] = {0}, left[STEP_OF_RUNS] = {0};
    uint32_t drawn[STEP_OF_RUNS / WRING_NOISE_RUN * WRING_NOISE_RUN_WORDS] = {0};
    uint8_t codes[STEP_OF_RUNS];
    unsigned runs = (n + WRING_NOISE_RUN - 1) / WRING_NOISE_RUN;

    memcpy(rest, src, n * sizeof(*src));
    memcpy(drawn, noise, runs * WRING_NOISE_RUN_WORDS * sizeof(*noise));
    if (residual != NULL)
        memcpy(left, residual, n * sizeof(*residual));
    encode_step(codes, rest, residual == NULL ? NULL : left, scale, drawn, form);
    memcpy(code, codes, (n * form.bits + 7) / 8);
    if (residual != NULL)
        memcpy(residual, left, n * sizeof(*residual));
}

INLINE void encode_fed(uint8_t *code, const float *src, float *residual, uint64_t n,
                       struct wring_qsgd_scale scale, const uint32_t *noise, struct form form)
{
    uint64_t i = 0;

    for (; i + STEP_OF_RUNS <= n; i += STEP_OF_RUNS)
        encode_step(code + i * form.bits / 8, src + i, residual == NULL ? NULL : residual + i,
                    scale, noise + i / 2, form);
    if (i < n)
        encode_rest(code + i * form.bits / 8, src + i, residual == NULL ? NULL : residual + i,
                    (unsigned)(n - i), scale, noise + i / 2, form);
}

INLINE void encode_any(uint8_t *code, const float *src, float *residual, uint64_t n,
                       struct wring_qsgd_scale scale, const uint32_t *noise, struct form form)
{
    if (residual == NULL) /* each way inlined for itself */
        encode_fed(code, src, NULL, n, scale, noise, form);
    else
        encode_fed(code, src, residual, n, scale, noise, form);
}

/* ---- values ---- */

INLINE struct table table_of(float step, struct form form)
{
    _Alignas(VECTOR_BYTES) float values[16];
    struct table table;

    for (int i = 0; i < 16; i++) {
        int field = i & ((1 << form.bits) - 1), half = 1 << (form.bits - 1);
        int level = field < half ? field : field - 2 * half;
        int magnitude = level < 0 ? -level : level;
        float one = magnitude == 0 ? 0
                    : form.natural ? power(magnitude - TOP(form.bits))
                                   : (float)magnitude;
        values[i] = level < 0 ? -one : one;
    }
    for (unsigned v = 0; v < 16 / LANES; v++)
        table.values[v] = load(values + v * LANES) * all(step);
    return table;
}

INLINE void decode_step(float *dst, const uint8_t *code, float step, struct table table,
                        struct form form, bool add)
{
    for (unsigned v = 0; v < 4; v++) {
        const uint8_t *at = code + v * LANES * form.bits / 8;
        floats value = form.bits == 8 ? values_of((ints)load_bytes((const int8_t *)at), step, form)
                                      : look_up(table, take_codes(at, form.bits), form.bits);
        float *to = dst + v * LANES;
        store(to, add ? load(to) + value : value);
    }
}

INLINE void decode_any(float *dst, const uint8_t *code, uint64_t n, float step, struct form form,
                       bool add)
{
    struct table table = {0};
    uint64_t i = 0;

    if (form.bits < 8)
        table = table_of(step, form);
    for (; i + STEP <= n; i += STEP)
        decode_step(dst + i, code + i * form.bits / 8, step, table, form, add);
    if (i < n) {
        float rest[STEP] = {0};
        uint8_t codes[STEP] = {0};
        memcpy(codes, code + i * form.bits / 8, ((n - i) * form.bits + 7) / 8);
        if (add)
            memcpy(rest, dst + i, (n - i) * sizeof(*dst));
        decode_step(rest, codes, step, table, form, add);
        memcpy(dst + i, rest, (n - i) * sizeof(*dst));
    }
}

#define FORM(name, ...)                                                                     \
    static void encode_##name(uint8_t *code, const float *src, float *residual, uint64_t n, \
                              const struct wring_qsgd_scale *scale, const uint32_t *noise)  \
    {                                                                                       \
        encode_any(code, src, residual, n, *scale, noise, (struct form){__VA_ARGS__});      \
    }                                                                                       \
    static void decode_##name(float *dst, const uint8_t *code, uint64_t n, float step)      \
    {                                                                                       \
        decode_any(dst, code, n, step, (struct form){__VA_ARGS__}, false);                  \
    }                                                                                       \
    static void decode_add_##name(float *dst, const uint8_t *code, uint64_t n, float step)  \
    {                                                                                       \
        decode_any(dst, code, n, step, (struct form){__VA_ARGS__}, true);                   \
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

const struct wring_qsgd_kernels OF_TIER(wring_qsgd) = {
    peak,
    squares,
    {{ENTRY(linear_2), ENTRY(linear_4), ENTRY(linear_8)},
     {ENTRY(natural_2), ENTRY(natural_4), ENTRY(natural_8)}},
};
