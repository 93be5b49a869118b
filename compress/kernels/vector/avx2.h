/* SPDX-License-Identifier: Apache-2.0 */
/** vector.h's set of AVX2. */
#ifndef WRING_KERNELS_VECTOR_AVX2_H
#define WRING_KERNELS_VECTOR_AVX2_H

#include <immintrin.h>

#define OF_TIER(kernels) kernels##_avx2
#define WIDE(intrinsic) _mm256_##intrinsic
typedef __m256i raw;
typedef __m128i raw_half;

#include "compress/kernels/vector/avx.h"

typedef floats lanes; /* where the sign bit is set */
typedef doubles lanes_f64;

INLINE lanes above(words a, words limit)
{
    return (lanes)_mm256_cmpgt_epi32((raw)a, (raw)limit);
}

INLINE lanes negative(floats value)
{
    return value;
}

INLINE lanes less(floats a, floats b)
{
    return (lanes)_mm256_cmp_ps(a, b, _CMP_LT_OQ);
}

INLINE lanes_f64 less_f64(doubles a, doubles b)
{
    return (lanes_f64)_mm256_cmp_pd(a, b, _CMP_LT_OQ);
}

INLINE lanes_f64 unordered_f64(doubles value)
{
    return (lanes_f64)_mm256_cmp_pd(value, value, _CMP_UNORD_Q);
}

INLINE lanes either(lanes a, lanes b)
{
    return (lanes)_mm256_or_ps(a, b);
}

INLINE lanes_f64 either_f64(lanes_f64 a, lanes_f64 b)
{
    return (lanes_f64)_mm256_or_pd(a, b);
}

INLINE lanes unordered(floats value)
{
    return (lanes)_mm256_cmp_ps(value, value, _CMP_UNORD_Q);
}

INLINE lanes whole_lanes(lanes some)
{
    return (lanes)_mm256_srai_epi32((raw)some, 31);
}

INLINE lanes other(lanes some)
{
    return (lanes) ~(words)some;
}

INLINE bool any_of(lanes some)
{
    return !_mm256_testz_ps(some, some);
}

INLINE uint32_t bits_of(lanes some)
{
    return (uint32_t)_mm256_movemask_ps(some);
}

INLINE uint64_t bits_of_64(const lanes some[64 / LANES])
{
    uint64_t bits = 0;
    for (unsigned v = 0; v < 64 / LANES; v++)
        bits |= (uint64_t)bits_of(some[v]) << v * LANES;
    return bits;
}

INLINE lanes lanes_of(uint32_t bits, unsigned from)
{
    const words shifts = {31, 30, 29, 28, 27, 26, 25, 24};
    return (lanes)(all_words(bits) << (shifts - from));
}

INLINE floats choose(lanes some, floats there, floats elsewhere)
{
    return (floats)_mm256_blendv_ps(elsewhere, there, some);
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
    if (h == 1)
        return (floats)_mm256_permute_ps(a, 0xB1);
    return h == 2 ? (floats)_mm256_permute_ps(a, 0x4E) : (floats)_mm256_permute2f128_ps(a, a, 1);
}

INLINE floats permuted(floats value, words index)
{
    return (floats)_mm256_permutevar8x32_ps(value, (raw)index);
}

INLINE floats permuted_16(const floats values[16 / LANES], words index)
{
    floats low = permuted(values[0], index), high = permuted(values[1], index);
    return choose(negative((floats)(index << 28)), high, low);
}

INLINE doubles widen_floats(const float *at)
{
    return (doubles)_mm256_cvtps_pd(_mm_loadu_ps(at));
}

INLINE float fold_lanes(floats a)
{
    return fold_eight(a);
}

INLINE double fold_lanes_f64(doubles a)
{
    return fold_four_f64(a);
}

INLINE uint32_t largest_of(words a)
{
    __m128i four =
        _mm_max_epu32(_mm256_castsi256_si128((raw)a), _mm256_extracti128_si256((raw)a, 1));
    __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4E));
    return (uint32_t)_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 0xB1)));
}

INLINE doubles choose_f64(lanes_f64 some, doubles there, doubles elsewhere)
{
    return (doubles)_mm256_blendv_pd(elsewhere, there, some);
}

INLINE longs min_i64(longs a, longs b)
{
    return (longs)_mm256_blendv_epi8((raw)a, (raw)b, (raw)(a > b));
}

INLINE longs max_i64(longs a, longs b)
{
    return (longs)_mm256_blendv_epi8((raw)a, (raw)b, (raw)(b > a));
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
    return (words)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)at));
}

INLINE words load_first_bytes(const int8_t *at, unsigned n)
{
    int8_t some[LANES] = {0};
    memcpy(some, at, n);
    return load_bytes(some);
}

INLINE words pack_bytes(const words value[4])
{
    return (words)_mm256_packs_epi16(_mm256_packs_epi32((raw)value[0], (raw)value[1]),
                                     _mm256_packs_epi32((raw)value[2], (raw)value[3]));
}

/** Within halves: 0 2 4 6 1 3 5 7. */
INLINE words in_order(words packed)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return (words)_mm256_permutevar8x32_epi32((raw)packed, order);
}

INLINE void store_first_bytes(int8_t *at, words value, unsigned n)
{
    words packed = in_order(pack_bytes((words[]){value, value, value, value}));
    memcpy(at, &packed, n);
}

INLINE void store_lower_bytes(void *at, shorts value)
{
    __m256i packed = _mm256_packus_epi16((raw)value, (raw)value);
    _mm_storeu_si128(at, _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08)));
}

INLINE void store_lane_bytes(void *at, words value)
{
    __m256i two = _mm256_packus_epi32((raw)value, (raw)value);
    words packed = in_order((words)_mm256_packus_epi16(two, two));
    memcpy(at, &packed, LANES);
}

INLINE uint64_t byte_signs(words value)
{
    return (uint32_t)_mm256_movemask_epi8((raw)value);
}

INLINE words bytes_of(uint64_t bits)
{
    const __m256i from =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i own = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), from);
    return (words)_mm256_cmpeq_epi8(_mm256_and_si256(spread, own), own);
}

INLINE words spread_halves(uint64_t bits)
{
    __m128i lower = _mm_set1_epi32((int)bits), upper = _mm_set1_epi32((int)(bits >> 32));
    return (words)_mm256_set_m128i(upper, lower);
}

INLINE void put(void *at, words value, bool streaming)
{
    if (streaming)
        _mm256_stream_si256(at, (raw)value);
    else
        store_words(at, value);
}

INLINE shorts upper_shorts(words low, words high)
{
    /* packing interleaves halves: put them back */
    __m256i packed = _mm256_packus_epi32((raw)(low >> 16), (raw)(high >> 16));
    return (shorts)_mm256_permute4x64_epi64(packed, 0xD8);
}

INLINE shorts round_shorts(words low, words high)
{
    return upper_shorts(round_up(low), round_up(high));
}

INLINE half_shorts lower_shorts(words value)
{
    __m256i packed = _mm256_packus_epi32((raw)value, (raw)value);
    return (half_shorts)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

INLINE half_shorts lower_part(shorts value)
{
    return (half_shorts)_mm256_castsi256_si128((raw)value);
}

INLINE half_shorts upper_part(shorts value)
{
    return (half_shorts)_mm256_extracti128_si256((raw)value, 1);
}

INLINE shorts join_parts(half_shorts lower, half_shorts upper)
{
    return (shorts)_mm256_set_m128i((raw_half)upper, (raw_half)lower);
}

INLINE bool any_reaches(shorts value, uint16_t least)
{
    __m256i most = _mm256_max_epu16((raw)value, _mm256_set1_epi16((short)least));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(most, (raw)value)) != 0;
}

INLINE bool any_near(words low, words high, uint32_t limit)
{
    words most = larger(low & WRING_ABS_BITS, high & WRING_ABS_BITS);
    return any_of(above(most, all_words(limit)));
}

INLINE doubles lower_f64(floats value)
{
    return (doubles)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)value));
}

INLINE doubles upper_f64(floats value)
{
    return (doubles)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)value, 1));
}

#endif
