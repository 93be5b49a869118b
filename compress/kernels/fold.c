/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/fold.h"

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

void wring_fold_divide_i32(void *dst, uint64_t n, float divisor)
{
    for (uint64_t i = 0; i < n && divisor != 1; i++) {
        int32_t value;
        memcpy(&value, (char *)dst + i * sizeof(value), sizeof(value));
        value /= (int32_t)divisor;
        memcpy((char *)dst + i * sizeof(value), &value, sizeof(value));
    }
}

void wring_fold_divide_i64(void *dst, uint64_t n, float divisor)
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
    wring_fold_divide_i32(dst, n, divisor);
}

static void i64_sum(void *dst, const struct wring_source *src, size_t n_src, uint64_t n,
                    float divisor)
{
    i64_add(dst, src, n_src, n, 1);
    wring_fold_divide_i64(dst, n, divisor);
}

static const struct wring_fold_kernels scalar = {
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

const struct wring_fold_tier wring_fold_tiers[] = {
    {{"scalar", WRING_CPU_SCALAR}, &scalar},
#ifdef WRING_ARCH_X86
    {{"avx2", WRING_CPU_AVX2}, &wring_fold_avx2},
    {{"avx512", WRING_CPU_AVX512}, &wring_fold_avx512},
#endif
    {{NULL, 0}, NULL},
};
