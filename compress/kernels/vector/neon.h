/* SPDX-License-Identifier: Apache-2.0 */
/** vector.h's set of Arm's Advanced SIMD. */
#ifndef WRING_KERNELS_VECTOR_NEON_H
#define WRING_KERNELS_VECTOR_NEON_H

#include <arm_neon.h>

#include "compress/kernels/vector/vector.h"

#define OF_TIER(kernels) kernels##_neon

typedef int32_t signed_words __attribute__((vector_size(VECTOR_BYTES)));

typedef floats lanes; /* where the sign bit is set */
typedef doubles lanes_f64;

INLINE floats all(float value)
{
    return (floats)vdupq_n_f32(value);
}

INLINE words all_words(uint32_t value)
{
    return (words)vdupq_n_u32(value);
}

INLINE words smaller(words a, words b)
{
    return (words)vminq_u32((uint32x4_t)a, (uint32x4_t)b);
}

INLINE words larger(words a, words b)
{
    return (words)vmaxq_u32((uint32x4_t)a, (uint32x4_t)b);
}

INLINE half_shorts load_part(const void *at)
{
    return (half_shorts)vld1_u8(at);
}

INLINE void store_part(void *at, half_shorts value)
{
    vst1_u8(at, (uint8x8_t)value);
}

INLINE words widen_shorts(half_shorts value)
{
    return (words)vmovl_u16((uint16x4_t)value);
}

/** To the nearest even; -2^31 where that does not fit. */
INLINE words round_to_ints(floats value)
{
    words nearest = (words)vcvtnq_s32_f32((float32x4_t)value);
    words fits = (words)(value < all(0x1p31f));
    return (nearest & fits) | (~fits & WRING_SIGN_BITS);
}

INLINE floats floats_of_ints(words value)
{
    return (floats)vcvtq_f32_s32((int32x4_t)value);
}

INLINE floats widen_f16(half_shorts value)
{
    return (floats)vcvt_f32_f16((float16x4_t)value);
}

INLINE half_shorts narrow_f16(floats value)
{
    return (half_shorts)vcvt_f16_f32((float32x4_t)value);
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
    return vmaxvq_u32((uint32x4_t)some) >> 31 != 0;
}

INLINE uint32_t bits_of(lanes some)
{
    words bits = (words)some >> 31 << (words){0, 1, 2, 3};
    return vaddvq_u32((uint32x4_t)bits);
}

/** A byte's place within eight. */
INLINE uint8x16_t places(void)
{
    return (uint8x16_t){1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
}

/** All bits of bytes whose upper one is set. */
INLINE uint8x16_t spread_signs(uint8x16_t value)
{
    return vreinterpretq_u8_s8(vshrq_n_s8(vreinterpretq_s8_u8(value), 7));
}

/** A bit for each byte of four vectors, all or none of whose bits are set. */
INLINE uint64_t bits_of_bytes(const uint8x16_t some[4])
{
    uint8x16_t lower = vpaddq_u8(vandq_u8(some[0], places()), vandq_u8(some[1], places()));
    uint8x16_t upper = vpaddq_u8(vandq_u8(some[2], places()), vandq_u8(some[3], places()));
    uint8x16_t both = vpaddq_u8(lower, upper);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(both, both)), 0);
}

/** The same of one. */
INLINE uint16_t bits_of_16(uint8x16_t some)
{
    uint8x16_t bits = vandq_u8(some, places());
    bits = vpaddq_u8(bits, bits);
    bits = vpaddq_u8(bits, bits);
    return vgetq_lane_u16(vreinterpretq_u16_u8(vpaddq_u8(bits, bits)), 0);
}

/** The upper bytes of the lanes of four vectors, in order. */
INLINE uint8x16_t upper_bytes(words a, words b, words c, words d)
{
    uint16x8_t first = vuzp2q_u16((uint16x8_t)a, (uint16x8_t)b);
    uint16x8_t second = vuzp2q_u16((uint16x8_t)c, (uint16x8_t)d);
    return vuzp2q_u8((uint8x16_t)first, (uint8x16_t)second);
}

INLINE uint64_t bits_of_64(const lanes some[64 / LANES])
{
    uint8x16_t part[4];
    for (unsigned v = 0; v < 4; v++)
        part[v] = spread_signs(upper_bytes((words)some[4 * v], (words)some[4 * v + 1],
                                           (words)some[4 * v + 2], (words)some[4 * v + 3]));
    return bits_of_bytes(part);
}

INLINE uint64_t zeros_below(uint64_t bits)
{
    return bits == 0 ? 64 : (uint64_t)__builtin_ctzll(bits);
}

INLINE lanes lanes_of(uint32_t bits, unsigned from)
{
    const words shifts = {31, 30, 29, 28};
    return (lanes)(all_words(bits) << (shifts - from));
}

INLINE floats choose(lanes some, floats there, floats elsewhere)
{
    return (floats)vbslq_f32((uint32x4_t)whole_lanes(some), (float32x4_t)there,
                             (float32x4_t)elsewhere);
}

INLINE words count_where(lanes some, words a)
{
    return a - (words)some;
}

INLINE floats add_where(lanes some, floats a, floats b)
{
    return a + (floats)((words)some & (words)b);
}

#define LANE_NUMBERS \
    {                \
        0, 1, 2, 3   \
    }

INLINE floats swap_lanes(floats a, unsigned h)
{
    float32x4_t four = (float32x4_t)a;
    return (floats)(h == 1 ? vrev64q_f32(four) : vextq_f32(four, four, 2));
}

INLINE doubles lower_f64(floats value)
{
    return (doubles)vcvt_f64_f32(vget_low_f32((float32x4_t)value));
}

INLINE doubles upper_f64(floats value)
{
    return (doubles)vcvt_high_f64_f32((float32x4_t)value);
}

/** The bytes of so many lanes as those of the index can be. */
INLINE uint8x16_t bytes_at_lanes(words index, uint32_t count)
{
    return (uint8x16_t)((index & (count - 1)) * 0x04040404 + 0x03020100);
}

INLINE floats permuted(floats value, words index)
{
    return (floats)vqtbl1q_u8((uint8x16_t)value, bytes_at_lanes(index, LANES));
}

INLINE floats permuted_16(const floats values[16 / LANES], words index)
{
    uint8x16x4_t table = {{(uint8x16_t)values[0], (uint8x16_t)values[1], (uint8x16_t)values[2],
                           (uint8x16_t)values[3]}};
    return (floats)vqtbl4q_u8(table, bytes_at_lanes(index, 16));
}

INLINE doubles widen_floats(const float *at)
{
    return (doubles)vcvt_f64_f32(vld1_f32(at));
}

INLINE doubles widen_half(half_floats value)
{
    return (doubles)vcvt_f64_f32((float32x2_t)value);
}

INLINE float fold_lanes(floats a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}

INLINE double fold_lanes_f64(doubles a)
{
    return a[0] + a[1];
}

INLINE uint32_t largest_of(words a)
{
    return vmaxvq_u32((uint32x4_t)a);
}

INLINE doubles choose_f64(lanes_f64 some, doubles there, doubles elsewhere)
{
    longs bits = (longs)some >> 63;
    return (doubles)(((longs)there & bits) | ((longs)elsewhere & ~bits));
}

INLINE words min_i32(words a, words b)
{
    return (words)vminq_s32((int32x4_t)a, (int32x4_t)b);
}

INLINE words max_i32(words a, words b)
{
    return (words)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
}

INLINE words abs_i32(words a)
{
    return (words)vabsq_s32((int32x4_t)a);
}

INLINE floats min_f32(floats a, floats b)
{
    return (floats)vbslq_f32((uint32x4_t)(a < b), (float32x4_t)a, (float32x4_t)b);
}

INLINE floats max_f32(floats a, floats b)
{
    return (floats)vbslq_f32((uint32x4_t)(b < a), (float32x4_t)a, (float32x4_t)b);
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
    return (quads)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
}

INLINE words lower_quads(quads a, quads b)
{
    return (words)vzip1q_u64((uint64x2_t)a, (uint64x2_t)b);
}

INLINE words upper_quads(quads a, quads b)
{
    return (words)vzip2q_u64((uint64x2_t)a, (uint64x2_t)b);
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
    uint32_t four;
    memcpy(&four, at, sizeof(four));
    int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
    return (words)vmovl_s16(vget_low_s16(wide));
}

INLINE words load_first_bytes(const int8_t *at, unsigned n)
{
    int8_t some[LANES] = {0};
    memcpy(some, at, n);
    return load_bytes(some);
}

/** In order. */
INLINE words pack_bytes(const words value[4])
{
    int16x8_t lower = vqmovn_high_s32(vqmovn_s32((int32x4_t)value[0]), (int32x4_t)value[1]);
    int16x8_t upper = vqmovn_high_s32(vqmovn_s32((int32x4_t)value[2]), (int32x4_t)value[3]);
    return (words)vqmovn_high_s16(vqmovn_s16(lower), upper);
}

INLINE words in_order(words packed)
{
    return packed;
}

INLINE void store_first_bytes(int8_t *at, words value, unsigned n)
{
    words packed = pack_bytes((words[]){value, value, value, value});
    memcpy(at, &packed, n);
}

INLINE void store_lower_bytes(void *at, shorts value)
{
    vst1_u8(at, vmovn_u16((uint16x8_t)value));
}

INLINE void store_lane_bytes(void *at, words value)
{
    uint8x16_t two = vuzp1q_u8((uint8x16_t)value, (uint8x16_t)value);
    uint32_t four = vgetq_lane_u32(vreinterpretq_u32_u8(vuzp1q_u8(two, two)), 0);
    memcpy(at, &four, sizeof(four));
}

INLINE uint64_t byte_signs(words value)
{
    return bits_of_16(spread_signs((uint8x16_t)value));
}

INLINE words bytes_of(uint64_t bits)
{
    const uint8x16_t from = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    uint8x16_t both = vreinterpretq_u8_u16(vdupq_n_u16((uint16_t)bits));
    return (words)vtstq_u8(vqtbl1q_u8(both, from), places());
}

INLINE words spread_halves(uint64_t bits)
{
    return (words)vcombine_u32(vdup_n_u32((uint32_t)bits), vdup_n_u32((uint32_t)(bits >> 32)));
}

INLINE void put(void *at, words value, bool streaming)
{
    (void)streaming;
    store_words(at, value);
}

INLINE shorts upper_shorts(words low, words high)
{
    return (shorts)vuzp2q_u16((uint16x8_t)low, (uint16x8_t)high);
}

INLINE shorts round_shorts(words low, words high)
{
    return upper_shorts(round_up(low), round_up(high));
}

INLINE half_shorts lower_shorts(words value)
{
    return (half_shorts)vmovn_u32((uint32x4_t)value);
}

INLINE half_shorts lower_part(shorts value)
{
    return (half_shorts)vget_low_u16((uint16x8_t)value);
}

INLINE half_shorts upper_part(shorts value)
{
    return (half_shorts)vget_high_u16((uint16x8_t)value);
}

INLINE shorts join_parts(half_shorts lower, half_shorts upper)
{
    return (shorts)vcombine_u16((uint16x4_t)lower, (uint16x4_t)upper);
}

INLINE bool any_reaches(shorts value, uint16_t least)
{
    return vmaxvq_u16((uint16x8_t)value) >= least;
}

INLINE bool any_near(words low, words high, uint32_t limit)
{
    words most = larger(low & WRING_ABS_BITS, high & WRING_ABS_BITS);
    return largest_of(most) > limit;
}

#endif
