/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/reduce.h"
#include "compress/kernels/vector/vector.h"

#define STEP(bytes) ((bytes) == 2 ? VECTOR_BYTES / 2 : VECTOR_BYTES) /* 16 bits are widened */

/**
 * Defines name(), a wring_reduce_fn for elements of `bytes` each, from
 *
 *     vector load(const void *at)
 *     vector op(vector a, vector next)
 *     vector end(vector a, float divisor)
 *     void store(void *at, vector a)
 *
 * Four vectors are under way at a time; the rest goes through padded copies.
 */
#define FOLD(name, vector, bytes, load, op, end, store)                                   \
    static void name(void *dst, const struct wring_source *src, size_t n_src, uint64_t n, \
                     float divisor)                                                       \
    {                                                                                     \
        const size_t step = STEP(bytes);                                                  \
        size_t i = 0, all_bytes = n * (bytes);                                            \
        for (; i + 4 * step <= all_bytes; i += 4 * step) {                                \
            vector a[4];                                                                  \
            for (size_t v = 0; v < 4; v++)                                                \
                a[v] = load((const char *)src[0].data + i + v * step);                    \
            for (size_t s = 1; s < n_src; s++)                                            \
                for (size_t v = 0; v < 4; v++)                                            \
                    a[v] = op(a[v], load((const char *)src[s].data + i + v * step));      \
            for (size_t v = 0; v < 4; v++)                                                \
                store((char *)dst + i + v * step, end(a[v], divisor));                    \
        }                                                                                 \
        for (; i < all_bytes; i += step) {                                                \
            unsigned char part[VECTOR_BYTES] = {0};                                       \
            size_t left = all_bytes - i < step ? all_bytes - i : step;                    \
            memcpy(part, (const char *)src[0].data + i, left);                            \
            vector a = load(part);                                                        \
            for (size_t s = 1; s < n_src; s++) {                                          \
                memcpy(part, (const char *)src[s].data + i, left);                        \
                a = op(a, load(part));                                                    \
            }                                                                             \
            store(part, end(a, divisor));                                                 \
            memcpy((char *)dst + i, part, left);                                          \
        }                                                                                 \
    }

/** name(), a wring_widen_fn. */
#define WIDEN(name, load_16)                                         \
    static void name(float *to, const void *from, uint64_t n)        \
    {                                                                \
        const char *in = from;                                       \
        uint64_t i = 0;                                              \
        for (; i + LANES <= n; i += LANES)                           \
            store(to + i, load_16(in + i * 2));                      \
        if (i < n) {                                                 \
            unsigned char part[2 * LANES] = {0};                     \
            memcpy(part, in + i * 2, (n - i) * 2);                   \
            store_first(to + i, load_16(part), rest_from(n - i, 0)); \
        }                                                            \
    }

/** name(), a wring_narrow_fn. */
#define NARROW(name, store_16)                                                        \
    static void name(void *to, const float *from, uint64_t n, float divisor)          \
    {                                                                                 \
        char *out = to;                                                               \
        uint64_t i = 0;                                                               \
        for (; i + LANES <= n; i += LANES)                                            \
            store_16(out + i * 2, end_sum(load(from + i), divisor));                  \
        if (i < n) {                                                                  \
            unsigned char part[2 * LANES];                                            \
            floats sum = end_sum(load_first(from + i, rest_from(n - i, 0)), divisor); \
            store_16(part, sum);                                                      \
            memcpy(out + i * 2, part, (n - i) * 2);                                   \
        }                                                                             \
    }

/* ---- float32, and what is widened to it ---- */

INLINE floats load_f16(const void *at)
{
    return widen_f16(load_part(at));
}

INLINE void store_f16(void *at, floats a)
{
    store_part(at, narrow_f16(a));
}

INLINE floats load_bf16(const void *at)
{
    return (floats)(widen_shorts(load_part(at)) << 16);
}

/** Rounds to nearest even by integers; the one NaN stays what it is. */
INLINE void store_bf16(void *at, floats a)
{
    store_part(at, lower_shorts(round_up((words)a) >> 16));
}

INLINE floats sum(floats a, floats next)
{
    return a + next;
}

/** Where `next` is less than a, or is NaN, it; else a. */
INLINE floats least(floats a, floats next)
{
    return choose(either(less(next, a), unordered(next)), next, a);
}

INLINE floats most(floats a, floats next)
{
    return choose(either(less(a, next), unordered(next)), next, a);
}

/** With the one NaN for any. */
INLINE floats canonical(floats a)
{
    return choose(unordered(a), (floats)all_words(WRING_NAN_BITS), a);
}

INLINE floats end_pick(floats a, float divisor)
{
    (void)divisor;
    return canonical(a);
}

INLINE floats end_sum(floats a, float divisor)
{
    return canonical(divisor == 1 ? a : a / all(divisor));
}

/* ---- the sum of float32 ---- */

/** A total is multiplied by `factor` or, if that is 0, divided by `divisor`: the same bits,
 *  where both are exact. */
struct scale {
    float factor, divisor;
};

static struct scale scale_of(float divisor)
{
    uint32_t bits;
    memcpy(&bits, &divisor, sizeof(bits));
    bool is_power_of_two = (bits & 0x7FFFFF) == 0;
    if (divisor == 1)
        return (struct scale){0, 1};
    return (struct scale){is_power_of_two ? 1 / divisor : 0, divisor};
}

INLINE floats finish(floats total, struct scale scale)
{
    if (scale.factor != 0)
        total = total * all(scale.factor);
    else if (scale.divisor != 1)
        total = total / all(scale.divisor);
    return canonical(total);
}

static const void *at(const void *run, uint64_t i)
{
    return (const char *)run + i * sizeof(float);
}

static void sum_step(float *dst, const void *const *src, size_t n_src, uint64_t i,
                     struct scale scale)
{
    floats total[4];
    for (unsigned v = 0; v < 4; v++)
        total[v] = load(at(src[0], i + v * LANES));
    for (size_t s = 1; s < n_src; s++)
        for (unsigned v = 0; v < 4; v++)
            total[v] += load(at(src[s], i + v * LANES));
    for (unsigned v = 0; v < 4; v++)
        store(dst + i + v * LANES, finish(total[v], scale));
}

static void sum_f32(float *dst, const void *const *src, size_t n_src, uint64_t n, float divisor)
{
    struct scale scale = scale_of(divisor);
    uint64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        sum_step(dst, src, n_src, i, scale);
    for (; i < n; i += LANES) {
        unsigned live = rest_from(n - i, 0);
        floats total = load_first(at(src[0], i), live);
        for (size_t s = 1; s < n_src; s++)
            total += load_first(at(src[s], i), live);
        store_first(dst + i, finish(total, scale), live);
    }
}

/* ---- float64 ---- */

INLINE doubles load_f64(const void *at)
{
    return (doubles)load(at);
}

INLINE void store_f64(void *at, doubles a)
{
    store(at, (floats)a);
}

INLINE doubles sum_f64(doubles a, doubles next)
{
    return a + next;
}

INLINE doubles least_f64(doubles a, doubles next)
{
    return choose_f64(either_f64(less_f64(next, a), unordered_f64(next)), next, a);
}

INLINE doubles most_f64(doubles a, doubles next)
{
    return choose_f64(either_f64(less_f64(a, next), unordered_f64(next)), next, a);
}

INLINE doubles end_pick_f64(doubles a, float divisor)
{
    (void)divisor;
    return choose_f64(unordered_f64(a), (doubles)((longs){0} + 0x7FF8000000000000), a);
}

INLINE doubles end_sum_f64(doubles a, float divisor)
{
    return end_pick_f64(divisor == 1 ? a : a / (double)divisor, 1);
}

/* ---- integers ---- */

INLINE longs load_i64(const void *at)
{
    return (longs)load_words(at);
}

INLINE void store_i64(void *at, longs a)
{
    store_words(at, (words)a);
}

INLINE words add_i32(words a, words next)
{
    return a + next;
}

INLINE longs add_i64(longs a, longs next)
{
    return (longs)((quads)a + (quads)next); /* it wraps */
}

#define SAME(a, divisor) ((void)(divisor), (a))

/* clang-format off */
FOLD(f32_min, floats, 4, load, least, end_pick, store)
FOLD(f32_max, floats, 4, load, most, end_pick, store)
FOLD(f64_sum, doubles, 8, load_f64, sum_f64, end_sum_f64, store_f64)
FOLD(f64_min, doubles, 8, load_f64, least_f64, end_pick_f64, store_f64)
FOLD(f64_max, doubles, 8, load_f64, most_f64, end_pick_f64, store_f64)
FOLD(f16_sum, floats, 2, load_f16, sum, end_sum, store_f16)
FOLD(f16_min, floats, 2, load_f16, least, end_pick, store_f16)
FOLD(f16_max, floats, 2, load_f16, most, end_pick, store_f16)
FOLD(bf16_sum, floats, 2, load_bf16, sum, end_sum, store_bf16)
FOLD(bf16_min, floats, 2, load_bf16, least, end_pick, store_bf16)
FOLD(bf16_max, floats, 2, load_bf16, most, end_pick, store_bf16)
FOLD(i32_add, words, 4, load_words, add_i32, SAME, store_words)
FOLD(i32_min, words, 4, load_words, min_i32, SAME, store_words)
FOLD(i32_max, words, 4, load_words, max_i32, SAME, store_words)
FOLD(i64_add, longs, 8, load_i64, add_i64, SAME, store_i64)
FOLD(i64_min, longs, 8, load_i64, min_i64, SAME, store_i64)
FOLD(i64_max, longs, 8, load_i64, max_i64, SAME, store_i64)
WIDEN(f16_widen, load_f16)
WIDEN(bf16_widen, load_bf16)
NARROW(f16_narrow, store_f16)
NARROW(bf16_narrow, store_bf16)
/* clang-format on */

static void i32_sum(void *dst, const struct wring_source *src, size_t n_src, uint64_t n,
                    float divisor)
{
    i32_add(dst, src, n_src, n, 1);
    wring_reduce_divide_i32(dst, n, divisor);
}

static void i64_sum(void *dst, const struct wring_source *src, size_t n_src, uint64_t n,
                    float divisor)
{
    i64_add(dst, src, n_src, n, 1);
    wring_reduce_divide_i64(dst, n, divisor);
}

const struct wring_reduce_kernels OF_TIER(wring_reduce) = {
    .sum = sum_f32,
    .fold =
        {
            [WRING_F32] = {NULL, f32_min, f32_max},
            [WRING_F64] = {f64_sum, f64_min, f64_max},
            [WRING_F16] = {f16_sum, f16_min, f16_max},
            [WRING_BF16] = {bf16_sum, bf16_min, bf16_max},
            [WRING_I32] = {i32_sum, i32_min, i32_max},
            [WRING_I64] = {i64_sum, i64_min, i64_max},
        },
    .widen = {[WRING_F16] = f16_widen, [WRING_BF16] = bf16_widen},
    .narrow = {[WRING_F16] = f16_narrow, [WRING_BF16] = bf16_narrow},
};
