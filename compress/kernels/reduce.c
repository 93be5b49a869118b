/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/reduce.h"

#include "compress/kernels/bits.h"

#define NAN64_BITS 0x7FF8000000000000u
#define HALF_NAN 0x7E00u
#define HALF_INF 0x7C00u
#define HALF_OVER 0x477FF000u   /* 65520: from here on binary16 rounds to infinity */
#define HALF_NORMAL 0x38800000u /* 2^-14 */
#define HALF_REBIAS (112u << 23)

static float half_widen(uint16_t half)
{
    uint32_t magnitude = half & 0x7FFFu;
    float value = (float)magnitude * 0x1p-24f; /* exact; right for denormals */
    if (magnitude >= 0x400)
        value = wring_float_of((magnitude << 13) + HALF_REBIAS);
    if (magnitude >= HALF_INF)
        value = wring_float_of(magnitude == HALF_INF ? WRING_INF_BITS : WRING_NAN_BITS);
    return half & 0x8000 ? -value : value;
}

/** Round to nearest even. */
static uint16_t half_narrow(float value)
{
    uint32_t bits = wring_bits_of(value), magnitude = bits & WRING_ABS_BITS;
    uint32_t half = (magnitude - HALF_REBIAS + 0xFFF + (magnitude >> 13 & 1)) >> 13;

    if (magnitude > WRING_INF_BITS)
        return HALF_NAN;
    if (magnitude < HALF_NORMAL) /* one unit of the last place of 0.5 is the denormals' step */
        half = wring_bits_of(wring_float_of(magnitude) + 0.5f) - wring_bits_of(0.5f);
    if (magnitude >= HALF_OVER)
        half = HALF_INF;
    return (uint16_t)(half | (bits >> 16 & 0x8000));
}

static float upper_widen(uint16_t upper)
{
    return wring_float_of((uint32_t)upper << 16);
}

/** Round to nearest even; unlike the codec's, this goes on to infinity. */
static uint16_t upper_narrow(float value)
{
    uint32_t bits = wring_bits_of(value);
    if ((bits & WRING_ABS_BITS) > WRING_INF_BITS)
        return WRING_NAN_BITS >> 16;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

static double canonical64(double value)
{
    const uint64_t bits = NAN64_BITS;
    double nan;
    memcpy(&nan, &bits, sizeof(nan));
    return value == value ? value : nan;
}

static float load_f32(const void *run, uint64_t i)
{
    float value;
    memcpy(&value, (const char *)run + i * sizeof(value), sizeof(value));
    return value;
}

static void sum_f32(float *dst, const void *const *src, size_t n_src, uint64_t n, float divisor)
{
    for (uint64_t i = 0; i < n; i++) {
        float total = load_f32(src[0], i);
        for (size_t s = 1; s < n_src; s++)
            total += load_f32(src[s], i);
        dst[i] = wring_canonical(total / divisor); /* x / 1 is x, bit for bit */
    }
}

#define SAME(x) (x)
#define LESS(next, a) ((next) < (a) || (next) != (next) ? (next) : (a))
#define MORE(next, a) ((next) > (a) || (next) != (next) ? (next) : (a))
#define ADD(next, a) ((a) + (next))

/**
 * A fold of `element`s: each is widened to `wide`, combined, ended and narrowed.
 *
 * @param end  an expression of `a`, the combination of all, and `divisor`
 */
#define FOLD(name, element, wide, widen, combine, end, narrow)                            \
    static void name(void *dst, const struct wring_source *src, size_t n_src, uint64_t n, \
                     float divisor)                                                       \
    {                                                                                     \
        (void)divisor;                                                                    \
        for (uint64_t i = 0; i < n; i++) {                                                \
            element in;                                                                   \
            memcpy(&in, (const char *)src[0].data + i * sizeof(in), sizeof(in));          \
            wide a = (wide)widen(in);                                                     \
            for (size_t s = 1; s < n_src; s++) {                                          \
                memcpy(&in, (const char *)src[s].data + i * sizeof(in), sizeof(in));      \
                wide next = (wide)widen(in);                                              \
                a = combine(next, a);                                                     \
            }                                                                             \
            element out = (element)narrow(end);                                           \
            memcpy((char *)dst + i * sizeof(out), &out, sizeof(out));                     \
        }                                                                                 \
    }

/* clang-format off */
FOLD(f32_min, float, float, SAME, LESS, a, wring_canonical)
FOLD(f32_max, float, float, SAME, MORE, a, wring_canonical)
FOLD(f64_sum, double, double, SAME, ADD, a / (double)divisor, canonical64)
FOLD(f64_min, double, double, SAME, LESS, a, canonical64)
FOLD(f64_max, double, double, SAME, MORE, a, canonical64)
FOLD(f16_sum, uint16_t, float, half_widen, ADD, a / divisor, half_narrow)
FOLD(f16_min, uint16_t, float, half_widen, LESS, a, half_narrow)
FOLD(f16_max, uint16_t, float, half_widen, MORE, a, half_narrow)
FOLD(bf16_sum, uint16_t, float, upper_widen, ADD, a / divisor, upper_narrow)
FOLD(bf16_min, uint16_t, float, upper_widen, LESS, a, upper_narrow)
FOLD(bf16_max, uint16_t, float, upper_widen, MORE, a, upper_narrow)
FOLD(i32_add, uint32_t, uint32_t, SAME, ADD, a, SAME)
FOLD(i32_min, int32_t, int32_t, SAME, LESS, a, SAME)
FOLD(i32_max, int32_t, int32_t, SAME, MORE, a, SAME)
FOLD(i64_add, uint64_t, uint64_t, SAME, ADD, a, SAME)
FOLD(i64_min, int64_t, int64_t, SAME, LESS, a, SAME)
FOLD(i64_max, int64_t, int64_t, SAME, MORE, a, SAME)
/* clang-format on */

/* Operations that no vector tier has go block by block, so that the compiler makes vectors of
 * the loops: those over a whole block have a constant length. */

#define BLOCK_BYTES 256

#define MULTIPLY(next, a) ((a) * (next))
#define WRAP(next, a) (1u * (a) * (next)) /* no product of ints, which may overflow */
#define AND(next, a) ((a) & (next))
#define OR(next, a) ((a) | (next))
#define XOR(next, a) ((a) ^ (next))
#define TRUTH(x) ((x) != 0)
#define OVER_DIVISOR(a) ((a) / divisor)

/** name() folds as FOLD does, by a function that takes up to a block of elements from `at` on. */
#define BY_BLOCKS(name, bytes)                                                            \
    static void name(void *dst, const struct wring_source *src, size_t n_src, uint64_t n, \
                     float divisor)                                                       \
    {                                                                                     \
        const size_t full = BLOCK_BYTES / (bytes);                                        \
        uint64_t at = 0;                                                                  \
        for (; n - at >= full; at += full)                                                \
            name##_block(dst, src, n_src, at *(bytes), full, divisor);                    \
        if (at < n)                                                                       \
            name##_block(dst, src, n_src, at *(bytes), (size_t)(n - at), divisor);        \
    }

#define BLOCK_OF(name)                                                                  \
    static inline __attribute__((always_inline)) void name##_block(                     \
        void *dst, const struct wring_source *src, size_t n_src, uint64_t at, size_t n, \
        float divisor)

static inline void load_elements(void *to, const struct wring_source *source, uint64_t at,
                                 size_t bytes)
{
    memcpy(to, (const char *)source->data + at, bytes);
}

#define BLOCKS(name, element, wide, widen, combine, end, narrow) \
    BLOCK_OF(name)                                               \
    {                                                            \
        element in[BLOCK_BYTES / sizeof(element)];               \
        wide a[BLOCK_BYTES / sizeof(element)];                   \
        (void)divisor;                                           \
        load_elements(in, &src[0], at, n * sizeof(element));     \
        for (size_t i = 0; i < n; i++)                           \
            a[i] = (wide)widen(in[i]);                           \
        for (size_t s = 1; s < n_src; s++) {                     \
            load_elements(in, &src[s], at, n * sizeof(element)); \
            for (size_t i = 0; i < n; i++)                       \
                a[i] = (wide)combine((wide)widen(in[i]), a[i]);  \
        }                                                        \
        for (size_t i = 0; i < n; i++)                           \
            in[i] = (element)narrow(end(a[i]));                  \
        memcpy((char *)dst + at, in, n * sizeof(element));       \
    }                                                            \
    BY_BLOCKS(name, sizeof(element))

/** Products of pairs; sums of them are sums of their parts. */
#define PAIRS(name, part, canonical)                                           \
    BLOCK_OF(name)                                                             \
    {                                                                          \
        part in[BLOCK_BYTES / sizeof(part)], a[BLOCK_BYTES / sizeof(part)];    \
        (void)divisor;                                                         \
        load_elements(a, &src[0], at, n * 2 * sizeof(part));                   \
        for (size_t s = 1; s < n_src; s++) {                                   \
            load_elements(in, &src[s], at, n * 2 * sizeof(part));              \
            for (size_t i = 0; i < n; i++) {                                   \
                part re = a[2 * i] * in[2 * i] - a[2 * i + 1] * in[2 * i + 1]; \
                part im = a[2 * i] * in[2 * i + 1] + a[2 * i + 1] * in[2 * i]; \
                a[2 * i] = re;                                                 \
                a[2 * i + 1] = im;                                             \
            }                                                                  \
        }                                                                      \
        for (size_t i = 0; i < 2 * n; i++)                                     \
            in[i] = canonical(a[i]);                                           \
        memcpy((char *)dst + at, in, n * 2 * sizeof(part));                    \
    }                                                                          \
    BY_BLOCKS(name, 2 * sizeof(part))

/** Integers of one size. */
#define BITS(name, bits)                                    \
    BLOCKS(name##_add, bits, bits, SAME, ADD, SAME, SAME)   \
    BLOCKS(name##_prod, bits, bits, SAME, WRAP, SAME, SAME) \
    BLOCKS(name##_and, bits, bits, SAME, AND, SAME, SAME)   \
    BLOCKS(name##_or, bits, bits, SAME, OR, SAME, SAME)     \
    BLOCKS(name##_xor, bits, bits, SAME, XOR, SAME, SAME)   \
    BLOCKS(name##_land, bits, bits, TRUTH, AND, SAME, SAME) \
    BLOCKS(name##_lor, bits, bits, TRUTH, OR, SAME, SAME)

/** Those of one type. @param add  of the same size  @param number  no narrower than int */
#define INTEGERS(name, type, add, number)                                                       \
    BLOCKS(name##_min, type, type, SAME, LESS, SAME, SAME)                                      \
    BLOCKS(name##_max, type, type, SAME, MORE, SAME, SAME)                                      \
    static void name##_sum(void *dst, const struct wring_source *src, size_t n_src, uint64_t n, \
                           float divisor)                                                       \
    {                                                                                           \
        add(dst, src, n_src, n, 1);                                                             \
        for (uint64_t i = 0; i < n && divisor != 1; i++) {                                      \
            type value;                                                                         \
            memcpy(&value, (char *)dst + i * sizeof(value), sizeof(value));                     \
            value = (type)(value / (number)divisor);                                            \
            memcpy((char *)dst + i * sizeof(value), &value, sizeof(value));                     \
        }                                                                                       \
    }

/* clang-format off */
BITS(bits8, uint8_t)
BITS(bits16, uint16_t)
BITS(bits32, uint32_t)
BITS(bits64, uint64_t)
INTEGERS(i8, int8_t, bits8_add, int32_t)
INTEGERS(i16, int16_t, bits16_add, int32_t)
INTEGERS(u8, uint8_t, bits8_add, uint32_t)
INTEGERS(u16, uint16_t, bits16_add, uint32_t)
INTEGERS(u32, uint32_t, bits32_add, uint32_t)
INTEGERS(u64, uint64_t, bits64_add, uint64_t)
BLOCKS(bool_xor, uint8_t, uint8_t, TRUTH, XOR, SAME, SAME)
BLOCKS(f32_prod, float, float, SAME, MULTIPLY, SAME, wring_canonical)
BLOCKS(f64_prod, double, double, SAME, MULTIPLY, SAME, canonical64)
BLOCKS(f16_prod, uint16_t, float, half_widen, MULTIPLY, SAME, half_narrow)
BLOCKS(bf16_prod, uint16_t, float, upper_widen, MULTIPLY, SAME, upper_narrow)
BLOCKS(f32_sum, float, float, SAME, ADD, OVER_DIVISOR, wring_canonical)
PAIRS(complex64_prod, float, wring_canonical)
PAIRS(complex128_prod, double, canonical64)
/* clang-format on */

static void complex64_sum(void *dst, const struct wring_source *src, size_t n_src, uint64_t n,
                          float divisor)
{
    f32_sum(dst, src, n_src, 2 * n, divisor);
}

static void complex128_sum(void *dst, const struct wring_source *src, size_t n_src, uint64_t n,
                           float divisor)
{
    f64_sum(dst, src, n_src, 2 * n, divisor);
}

#define WIDEN(name, element, widen)                                       \
    static void name(float *to, const void *from, uint64_t n)             \
    {                                                                     \
        for (uint64_t i = 0; i < n; i++) {                                \
            element in;                                                   \
            memcpy(&in, (const char *)from + i * sizeof(in), sizeof(in)); \
            to[i] = widen(in);                                            \
        }                                                                 \
    }

#define NARROW(name, element, narrow)                                        \
    static void name(void *to, const float *from, uint64_t n, float divisor) \
    {                                                                        \
        for (uint64_t i = 0; i < n; i++) {                                   \
            element out = (element)narrow(from[i] / divisor);                \
            memcpy((char *)to + i * sizeof(out), &out, sizeof(out));         \
        }                                                                    \
    }

WIDEN(f16_widen, uint16_t, half_widen)
WIDEN(bf16_widen, uint16_t, upper_widen)
NARROW(f16_narrow, uint16_t, half_narrow)
NARROW(bf16_narrow, uint16_t, upper_narrow)

void wring_reduce_divide_i32(void *dst, uint64_t n, float divisor)
{
    for (uint64_t i = 0; i < n && divisor != 1; i++) {
        int32_t value;
        memcpy(&value, (char *)dst + i * sizeof(value), sizeof(value));
        value /= (int32_t)divisor;
        memcpy((char *)dst + i * sizeof(value), &value, sizeof(value));
    }
}

void wring_reduce_divide_i64(void *dst, uint64_t n, float divisor)
{
    for (uint64_t i = 0; i < n && divisor != 1; i++) {
        int64_t value;
        memcpy(&value, (char *)dst + i * sizeof(value), sizeof(value));
        value /= (int64_t)divisor;
        memcpy((char *)dst + i * sizeof(value), &value, sizeof(value));
    }
}

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

#define FOLDED_BITS(name) \
    [WRING_REDUCE_AND] = name##_and, [WRING_REDUCE_OR] = name##_or, [WRING_REDUCE_XOR] = name##_xor
#define FOLDED_INTEGERS(type, name)                                                               \
    {                                                                                             \
        type##_sum, type##_min, type##_max, name##_prod,                                          \
            FOLDED_BITS(name), [WRING_REDUCE_LAND] = name##_land, [WRING_REDUCE_LOR] = name##_lor \
    }

static const struct wring_reduce_kernels scalar = {
    .sum = sum_f32,
    .fold =
        {
            [WRING_F32] = {NULL, f32_min, f32_max, f32_prod},
            [WRING_F64] = {f64_sum, f64_min, f64_max, f64_prod},
            [WRING_F16] = {f16_sum, f16_min, f16_max, f16_prod},
            [WRING_BF16] = {bf16_sum, bf16_min, bf16_max, bf16_prod},
            [WRING_I32] = FOLDED_INTEGERS(i32, bits32),
            [WRING_I64] = FOLDED_INTEGERS(i64, bits64),
            [WRING_I8] = FOLDED_INTEGERS(i8, bits8),
            [WRING_I16] = FOLDED_INTEGERS(i16, bits16),
            [WRING_U8] = FOLDED_INTEGERS(u8, bits8),
            [WRING_U16] = FOLDED_INTEGERS(u16, bits16),
            [WRING_U32] = FOLDED_INTEGERS(u32, bits32),
            [WRING_U64] = FOLDED_INTEGERS(u64, bits64),
            [WRING_BOOL] = {[WRING_REDUCE_MIN] = bits8_land,
                            [WRING_REDUCE_MAX] = bits8_lor,
                            [WRING_REDUCE_AND] = bits8_land,
                            [WRING_REDUCE_OR] = bits8_lor,
                            [WRING_REDUCE_XOR] = bool_xor,
                            [WRING_REDUCE_LAND] = bits8_land,
                            [WRING_REDUCE_LOR] = bits8_lor},
            [WRING_BYTE] = {FOLDED_BITS(bits8)},
            [WRING_COMPLEX64] = {complex64_sum, [WRING_REDUCE_PROD] = complex64_prod},
            [WRING_COMPLEX128] = {complex128_sum, [WRING_REDUCE_PROD] = complex128_prod},
        },
    .widen = {[WRING_F16] = f16_widen, [WRING_BF16] = bf16_widen},
    .narrow = {[WRING_F16] = f16_narrow, [WRING_BF16] = bf16_narrow},
};

const struct wring_reduce_tier wring_reduce_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
    WRING_VECTOR_TIERS(wring_reduce){{NULL, 0}, NULL},
};

wring_reduce_fn wring_reduce_find(enum wring_dtype dtype, enum wring_reduce_kind kind,
                                  enum wring_cpu_tier allowed)
{
    const struct wring_reduce_tier *tier =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), allowed);
    wring_reduce_fn fold = tier->kernels->fold[dtype][kind];
    return fold != NULL ? fold : scalar.fold[dtype][kind];
}

wring_sum_fn wring_sum_find(enum wring_cpu_tier allowed)
{
    const struct wring_reduce_tier *tier =
        wring_kernels_pick(wring_reduce_tiers, sizeof(wring_reduce_tiers[0]), allowed);
    return tier->kernels->sum;
}
