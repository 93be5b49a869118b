/* SPDX-License-Identifier: Apache-2.0 */
/**
 * vector.h's set of Arm's Advanced SIMD: vectors of 256 bits, of which each instruction takes a
 * half. What the compiler splits by itself stands as plain arithmetic.
 */
#ifndef WRING_KERNELS_VECTOR_NEON_H
#define WRING_KERNELS_VECTOR_NEON_H

#include <arm_neon.h>

#include "compress/kernels/vector/vector.h"

#define OF_TIER(kernels) kernels##_neon

/** Its halves, and a vector of two. */
#define HALF(value, i, type)     \
    (((union {                   \
         __typeof__(value) both; \
         type half[2];           \
     }){value})                  \
         .half[i])
#define BOTH(lower, upper, type)    \
    (((union {                      \
         __typeof__(lower) half[2]; \
         type both;                 \
     }){{lower, upper}})            \
         .both)
#define LOWER_U32(value) HALF(value, 0, uint32x4_t)
#define UPPER_U32(value) HALF(value, 1, uint32x4_t)
#define LOWER_F32(value) HALF(value, 0, float32x4_t)
#define UPPER_F32(value) HALF(value, 1, float32x4_t)

typedef int32_t signed_words __attribute__((vector_size(VECTOR_BYTES)));

typedef floats lanes; /* where the sign bit is set */
typedef doubles lanes_f64;

INLINE floats all(float value)
{
    return (floats){value, value, value, value, value, value, value, value};
}

INLINE words all_words(uint32_t value)
{
    return (words){0} + value;
}

INLINE words smaller(words a, words b)
{
    return BOTH(vminq_u32(LOWER_U32(a), LOWER_U32(b)), vminq_u32(UPPER_U32(a), UPPER_U32(b)),
                words);
}

INLINE words larger(words a, words b)
{
    return BOTH(vmaxq_u32(LOWER_U32(a), LOWER_U32(b)), vmaxq_u32(UPPER_U32(a), UPPER_U32(b)),
                words);
}

INLINE half_shorts load_part(const void *at)
{
    return (half_shorts)vreinterpretq_u16_u8(vld1q_u8(at));
}

INLINE void store_part(void *at, half_shorts value)
{
    vst1q_u8(at, (uint8x16_t)value);
}

INLINE words widen_shorts(half_shorts value)
{
    uint16x8_t shorts_8 = (uint16x8_t)value;
    return BOTH(vmovl_u16(vget_low_u16(shorts_8)), vmovl_high_u16(shorts_8), words);
}

/** To the nearest even; -2^31 where that does not fit. */
INLINE words round_to_ints(floats value)
{
    words nearest = BOTH(vreinterpretq_u32_s32(vcvtnq_s32_f32(LOWER_F32(value))),
                         vreinterpretq_u32_s32(vcvtnq_s32_f32(UPPER_F32(value))), words);
    words fits = (words)(value < all(0x1p31f));
    return (nearest & fits) | (~fits & WRING_SIGN_BITS);
}

INLINE floats floats_of_ints(words value)
{
    return __builtin_convertvector((signed_words)value, floats);
}

INLINE floats widen_f16(half_shorts value)
{
    float16x8_t halves = (float16x8_t)value;
    return BOTH(vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves), floats);
}

INLINE half_shorts narrow_f16(floats value)
{
    return (half_shorts)vcvt_high_f16_f32(vcvt_f16_f32(LOWER_F32(value)), UPPER_F32(value));
}

INLINE lanes above(words a, words limit)
{
    return (lanes)((signed_words)a > (signed_words)limit);
}

INLINE lanes negative(floats value)
{
    return value;
}

INLINE lanes less(floats a, floats b)
{
    return (lanes)(a < b);
}

INLINE lanes_f64 less_f64(doubles a, doubles b)
{
    return (lanes_f64)(a < b);
}

INLINE lanes_f64 unordered_f64(doubles value)
{
    return (lanes_f64)(value != value);
}

INLINE lanes either(lanes a, lanes b)
{
    return (lanes)((words)a | (words)b);
}

INLINE lanes_f64 either_f64(lanes_f64 a, lanes_f64 b)
{
    return (lanes_f64)((longs)a | (longs)b);
}

INLINE lanes unordered(floats value)
{
    return (lanes)(value != value);
}

INLINE lanes whole_lanes(lanes some)
{
    return (lanes)((signed_words)some >> 31);
}

INLINE lanes other(lanes some)
{
    return (lanes) ~(words)some;
}

INLINE bool any_of(lanes some)
{
    return vmaxvq_u32(vorrq_u32(LOWER_U32(some), UPPER_U32(some))) >> 31 != 0;
}

INLINE uint32_t bits_of(lanes some)
{
    words bits = (words)some >> 31 << (words){0, 1, 2, 3, 4, 5, 6, 7};
    return vaddvq_u32(vorrq_u32(LOWER_U32(bits), UPPER_U32(bits)));
}

INLINE uint64_t bits_of_64(const lanes some[64 / LANES])
{
    uint64_t bits = 0;
    for (unsigned v = 0; v < 64 / LANES; v++)
        bits |= (uint64_t)bits_of(some[v]) << v * LANES;
    return bits;
}

INLINE uint64_t zeros_below(uint64_t bits)
{
    return bits == 0 ? 64 : (uint64_t)__builtin_ctzll(bits);
}

INLINE lanes lanes_of(uint32_t bits, unsigned from)
{
    const words shifts = {31, 30, 29, 28, 27, 26, 25, 24};
    return (lanes)(all_words(bits) << (shifts - from));
}

INLINE floats choose(lanes some, floats there, floats elsewhere)
{
    words bits = (words)whole_lanes(some);
    return (floats)(((words)there & bits) | ((words)elsewhere & ~bits));
}

INLINE words count_where(lanes some, words a)
{
    return a - (words)some;
}

INLINE floats add_where(lanes some, floats a, floats b)
{
    return a + (floats)((words)some & (words)b);
}

#define LANE_NUMBERS           \
    {                          \
        0, 1, 2, 3, 4, 5, 6, 7 \
    }

INLINE floats swap_lanes(floats a, unsigned h)
{
    float32x4_t lower = LOWER_F32(a), upper = UPPER_F32(a);
    if (h == 1)
        return BOTH(vrev64q_f32(lower), vrev64q_f32(upper), floats);
    return h == 2 ? BOTH(vextq_f32(lower, lower, 2), vextq_f32(upper, upper, 2), floats)
                  : BOTH(upper, lower, floats);
}

INLINE doubles widen_four(float32x4_t four)
{
    return BOTH(vcvt_f64_f32(vget_low_f32(four)), vcvt_high_f64_f32(four), doubles);
}

INLINE doubles lower_f64(floats value)
{
    return widen_four(LOWER_F32(value));
}

INLINE doubles upper_f64(floats value)
{
    return widen_four(UPPER_F32(value));
}

INLINE floats permuted(floats value, words index)
{
    words bytes = (index & (LANES - 1)) * 0x04040404 + 0x03020100;
    uint8x16x2_t table = {{HALF(value, 0, uint8x16_t), HALF(value, 1, uint8x16_t)}};
    return BOTH(vqtbl2q_u8(table, HALF(bytes, 0, uint8x16_t)),
                vqtbl2q_u8(table, HALF(bytes, 1, uint8x16_t)), floats);
}

INLINE doubles widen_floats(const float *at)
{
    return widen_four(vld1q_f32(at));
}

INLINE doubles widen_half(half_floats value)
{
    return widen_four((float32x4_t)value);
}

INLINE float fold_lanes(floats a)
{
    float32x4_t four = vaddq_f32(LOWER_F32(a), UPPER_F32(a));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

INLINE double fold_lanes_f64(doubles a)
{
    float64x2_t two = vaddq_f64(HALF(a, 0, float64x2_t), HALF(a, 1, float64x2_t));
    return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
}

INLINE uint32_t largest_of(words a)
{
    return vmaxvq_u32(vmaxq_u32(LOWER_U32(a), UPPER_U32(a)));
}

INLINE doubles choose_f64(lanes_f64 some, doubles there, doubles elsewhere)
{
    longs bits = (longs)some >> 63;
    return (doubles)(((longs)there & bits) | ((longs)elsewhere & ~bits));
}

INLINE words min_i32(words a, words b)
{
    words bits = (words)((signed_words)a < (signed_words)b);
    return (a & bits) | (b & ~bits);
}

INLINE words max_i32(words a, words b)
{
    words bits = (words)((signed_words)a > (signed_words)b);
    return (a & bits) | (b & ~bits);
}

INLINE words abs_i32(words a)
{
    words sign = (words)((signed_words)a >> 31);
    return (a ^ sign) - sign;
}

INLINE floats min_f32(floats a, floats b)
{
    return choose(less(a, b), a, b);
}

INLINE floats max_f32(floats a, floats b)
{
    return choose(less(b, a), a, b);
}

INLINE longs min_i64(longs a, longs b)
{
    longs bits = a < b;
    return (a & bits) | (b & ~bits);
}

INLINE longs max_i64(longs a, longs b)
{
    longs bits = a > b;
    return (a & bits) | (b & ~bits);
}

INLINE quads products(quads a, quads b)
{
    return (a & UINT32_MAX) * (b & UINT32_MAX);
}

INLINE words lower_quads(quads a, quads b)
{
    return (words)(quads){a[0], b[0], a[2], b[2]};
}

INLINE words upper_quads(quads a, quads b)
{
    return (words)(quads){a[1], b[1], a[3], b[3]};
}

INLINE floats load_first(const void *at, unsigned n)
{
    floats value = {0};
    memcpy(&value, at, n * sizeof(float));
    return value;
}

INLINE void store_first(void *at, floats value, unsigned n)
{
    memcpy(at, &value, n * sizeof(float));
}

INLINE words load_bytes(const int8_t *at)
{
    int16x8_t shorts_8 = vmovl_s8(vld1_s8(at));
    return BOTH(vreinterpretq_u32_s32(vmovl_s16(vget_low_s16(shorts_8))),
                vreinterpretq_u32_s32(vmovl_high_s16(shorts_8)), words);
}

INLINE words load_first_bytes(const int8_t *at, unsigned n)
{
    int8_t some[LANES] = {0};
    memcpy(some, at, n);
    return load_bytes(some);
}

INLINE int16x8_t pack_shorts(words value)
{
    int32x4_t lower = vreinterpretq_s32_u32(LOWER_U32(value));
    int32x4_t upper = vreinterpretq_s32_u32(UPPER_U32(value));
    return vqmovn_high_s32(vqmovn_s32(lower), upper);
}

/** In order. */
INLINE words pack_bytes(const words value[4])
{
    int8x16_t lower = vqmovn_high_s16(vqmovn_s16(pack_shorts(value[0])), pack_shorts(value[1]));
    int8x16_t upper = vqmovn_high_s16(vqmovn_s16(pack_shorts(value[2])), pack_shorts(value[3]));
    return BOTH(lower, upper, words);
}

INLINE words in_order(words packed)
{
    return packed;
}

INLINE void store_first_bytes(int8_t *at, words value, unsigned n)
{
    int8x8_t packed = vqmovn_s16(pack_shorts(value));
    memcpy(at, &packed, n);
}

INLINE void store_lower_bytes(void *at, shorts value)
{
    uint8x16_t packed =
        vmovn_high_u16(vmovn_u16(HALF(value, 0, uint16x8_t)), HALF(value, 1, uint16x8_t));
    memcpy(at, &packed, sizeof(packed));
}

INLINE void store_lane_bytes(void *at, words value)
{
    uint8x8_t packed = vmovn_u16(vmovn_high_u32(vmovn_u32(LOWER_U32(value)), UPPER_U32(value)));
    memcpy(at, &packed, sizeof(packed));
}

INLINE uint64_t signs_of_eight(uint8x8_t eight)
{
    const uint8x8_t place = {1, 2, 4, 8, 16, 32, 64, 128};
    uint8x8_t signs = vreinterpret_u8_s8(vshr_n_s8(vreinterpret_s8_u8(eight), 7));
    return vaddv_u8(vand_u8(signs, place));
}

INLINE uint64_t byte_signs(words value)
{
    uint8x16_t lower = HALF(value, 0, uint8x16_t), upper = HALF(value, 1, uint8x16_t);
    return signs_of_eight(vget_low_u8(lower)) | signs_of_eight(vget_high_u8(lower)) << 8 |
           signs_of_eight(vget_low_u8(upper)) << 16 | signs_of_eight(vget_high_u8(upper)) << 24;
}

INLINE words bytes_of(uint64_t bits)
{
    const uint8x16_t place = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t lower = vcombine_u8(vdup_n_u8((uint8_t)bits), vdup_n_u8((uint8_t)(bits >> 8)));
    uint8x16_t upper =
        vcombine_u8(vdup_n_u8((uint8_t)(bits >> 16)), vdup_n_u8((uint8_t)(bits >> 24)));
    return BOTH(vtstq_u8(lower, place), vtstq_u8(upper, place), words);
}

INLINE words spread_halves(uint64_t bits)
{
    return BOTH(vdupq_n_u32((uint32_t)bits), vdupq_n_u32((uint32_t)(bits >> 32)), words);
}

INLINE void put(void *at, words value, bool streaming)
{
    (void)streaming;
    store_words(at, value);
}

INLINE shorts upper_shorts(words low, words high)
{
    uint16x8_t first = vshrn_high_n_u32(vshrn_n_u32(LOWER_U32(low), 16), UPPER_U32(low), 16);
    uint16x8_t second = vshrn_high_n_u32(vshrn_n_u32(LOWER_U32(high), 16), UPPER_U32(high), 16);
    return BOTH(first, second, shorts);
}

INLINE shorts round_shorts(words low, words high)
{
    return upper_shorts(round_up(low), round_up(high));
}

INLINE half_shorts lower_shorts(words value)
{
    return (half_shorts)vmovn_high_u32(vmovn_u32(LOWER_U32(value)), UPPER_U32(value));
}

INLINE half_shorts lower_part(shorts value)
{
    return (half_shorts)HALF(value, 0, uint16x8_t);
}

INLINE half_shorts upper_part(shorts value)
{
    return (half_shorts)HALF(value, 1, uint16x8_t);
}

INLINE shorts join_parts(half_shorts lower, half_shorts upper)
{
    return BOTH(lower, upper, shorts);
}

INLINE bool any_reaches(shorts value, uint16_t least)
{
    return vmaxvq_u16(vmaxq_u16(HALF(value, 0, uint16x8_t), HALF(value, 1, uint16x8_t))) >= least;
}

INLINE bool any_near(words low, words high, uint32_t limit)
{
    words most = larger(low & WRING_ABS_BITS, high & WRING_ABS_BITS);
    return any_of(above(most, all_words(limit)));
}

#endif
