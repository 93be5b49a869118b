/* SPDX-License-Identifier: Apache-2.0 */
/** vector.h's set of AVX-512. */
#ifndef WRING_KERNELS_VECTOR_AVX512_H
#define WRING_KERNELS_VECTOR_AVX512_H

#include <immintrin.h>

#define OF_TIER(kernels) kernels##_avx512
#define WIDE(intrinsic) _mm512_##intrinsic
typedef __m512i raw; /* what intrinsics take, and half of it */
typedef __m256i raw_half;

#include "compress/kernels/vector/avx.h"

typedef __mmask16 lanes;
typedef __mmask8 lanes_f64;

INLINE lanes first_lanes(uint64_t n)
{
    return n >= LANES ? 0xFFFF : (lanes)((1u << n) - 1);
}

INLINE lanes above(words a, words limit)
{
    return _mm512_cmpgt_epi32_mask((raw)a, (raw)limit);
}

INLINE lanes negative(floats value)
{
    return _mm512_movepi32_mask((raw)value);
}

INLINE lanes less(floats a, floats b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}

INLINE lanes_f64 less_f64(doubles a, doubles b)
{
    return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ);
}

INLINE lanes_f64 unordered_f64(doubles value)
{
    return _mm512_cmp_pd_mask(value, value, _CMP_UNORD_Q);
}

INLINE lanes either(lanes a, lanes b)
{
    return a | b;
}

INLINE lanes_f64 either_f64(lanes_f64 a, lanes_f64 b)
{
    return a | b;
}

INLINE lanes unordered(floats value)
{
    return _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
}

INLINE lanes whole_lanes(lanes some)
{
    return some;
}

INLINE lanes other(lanes some)
{
    return (lanes)~some;
}

INLINE bool any_of(lanes some)
{
    return some != 0;
}

/** GCC 12 may keep a widened mask in 16 bits of memory and read 32 of them, unless told how it is
 *  widened. */
INLINE uint32_t bits_of(lanes some)
{
    uint32_t bits;
    __asm__("kmovw %1, %0" : "=r"(bits) : "k"(some));
    return bits;
}

INLINE uint64_t bits_of_64(const lanes some[64 / LANES])
{
    return _mm512_kunpackd(_mm512_kunpackw(some[3], some[2]), _mm512_kunpackw(some[1], some[0]));
}

INLINE lanes lanes_of(uint32_t bits, unsigned from)
{
    return (lanes)(bits >> from);
}

INLINE floats choose(lanes some, floats there, floats elsewhere)
{
    return (floats)_mm512_mask_mov_ps(elsewhere, some, there);
}

INLINE words count_where(lanes some, words a)
{
    return (words)_mm512_mask_add_epi32((raw)a, some, (raw)a, _mm512_set1_epi32(1));
}

INLINE floats add_where(lanes some, floats a, floats b)
{
    return (floats)_mm512_mask_add_ps(a, some, a, b);
}

#define LANE_NUMBERS                                         \
    {                                                        \
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 \
    }

/** @param h  known where this is inlined */
INLINE floats swap_lanes(floats a, unsigned h)
{
    if (h == 1)
        return (floats)_mm512_permute_ps(a, 0xB1);
    if (h == 2)
        return (floats)_mm512_permute_ps(a, 0x4E);
    return h == 4 ? (floats)_mm512_shuffle_f32x4(a, a, 0xB1)
                  : (floats)_mm512_shuffle_f32x4(a, a, 0x4E);
}

INLINE floats permuted(floats value, words index)
{
    return (floats)_mm512_permutexvar_ps((raw)index, value);
}

INLINE floats permuted_16(const floats values[16 / LANES], words index)
{
    return permuted(values[0], index);
}

INLINE doubles widen_floats(const float *at)
{
    return (doubles)_mm512_cvtps_pd(_mm256_loadu_ps(at));
}

/** Lane j adds lane j + half, until one is left. */
INLINE float fold_lanes(floats a)
{
    return fold_eight(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
}

INLINE double fold_lanes_f64(doubles a)
{
    return fold_four_f64(_mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1)));
}

INLINE uint32_t largest_of(words a)
{
    return _mm512_reduce_max_epu32((raw)a);
}

INLINE doubles choose_f64(lanes_f64 some, doubles there, doubles elsewhere)
{
    return (doubles)_mm512_mask_mov_pd(elsewhere, some, there);
}

INLINE longs min_i64(longs a, longs b)
{
    return (longs)_mm512_min_epi64((raw)a, (raw)b);
}

INLINE longs max_i64(longs a, longs b)
{
    return (longs)_mm512_max_epi64((raw)a, (raw)b);
}

/** The first n lanes, up to all; 0 in others. */
INLINE floats load_first(const void *at, unsigned n)
{
    return (floats)_mm512_maskz_loadu_ps(first_lanes(n), at);
}

INLINE void store_first(void *at, floats value, unsigned n)
{
    _mm512_mask_storeu_ps(at, first_lanes(n), value);
}

/** As many bytes as there are lanes, taken as signed. */
INLINE words load_bytes(const int8_t *at)
{
    return (words)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)at));
}

INLINE words load_first_bytes(const int8_t *at, unsigned n)
{
    return (words)_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first_lanes(n), at));
}

/** Of lanes that fit bytes. */
INLINE void store_first_bytes(int8_t *at, words value, unsigned n)
{
    _mm_mask_storeu_epi8(at, first_lanes(n), _mm512_cvtsepi32_epi8((raw)value));
}

INLINE void store_lower_bytes(void *at, shorts value)
{
    _mm256_storeu_si256(at, _mm512_cvtepi16_epi8((raw)value));
}

INLINE void store_lane_bytes(void *at, words value)
{
    _mm_storeu_si128(at, _mm512_cvtepi32_epi8((raw)value));
}

INLINE uint64_t byte_signs(words value)
{
    return _mm512_movepi8_mask((raw)value);
}

INLINE words bytes_of(uint64_t bits)
{
    return (words)_mm512_movm_epi8(bits);
}

INLINE words spread_halves(uint64_t bits)
{
    __m256i lower = _mm256_set1_epi32((int)bits), upper = _mm256_set1_epi32((int)(bits >> 32));
    return (words)_mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
}

/** As bytes. Packing works within quarters: fours of them come out in the order 0 4 8 12 1 5 … */
INLINE words pack_bytes(const words value[4])
{
    return (words)_mm512_packs_epi16(_mm512_packs_epi32((raw)value[0], (raw)value[1]),
                                     _mm512_packs_epi32((raw)value[2], (raw)value[3]));
}

INLINE words in_order(words packed)
{
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return (words)_mm512_permutexvar_epi32(order, (raw)packed);
}

/** @param at         where a vector may begin, if streaming
 *  @param streaming  past the caches; known where this is inlined */
INLINE void put(void *at, words value, bool streaming)
{
    if (streaming)
        _mm512_stream_si512(at, (raw)value);
    else
        store_words(at, value);
}

INLINE shorts every_other(words low, words high, uint16_t first)
{
    const __m512i even =
        _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26,
                         24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    shorts index = (shorts)even + first;
    return (shorts)_mm512_permutex2var_epi16((raw)low, (raw)index, (raw)high);
}

/** The upper halves of all lanes, in order. */
INLINE shorts upper_shorts(words low, words high)
{
    return every_other(low, high, 1);
}

/** Those, rounded to nearest even: plus the carry of lower + 0x7FFF + (upper & 1). */
INLINE shorts round_shorts(words low, words high)
{
    shorts upper = every_other(low, high, 1), lower = every_other(low, high, 0);
    __m512i least = _mm512_adds_epu16((raw)lower, (raw)(upper & 1));
    __mmask32 carry = _mm512_cmpgt_epu16_mask(least, _mm512_set1_epi16((short)0x8000));
    return (shorts)_mm512_mask_add_epi16((raw)upper, carry, (raw)upper, _mm512_set1_epi16(1));
}

/** The lower halves of lanes below 2^16. */
INLINE half_shorts lower_shorts(words value)
{
    return (half_shorts)_mm512_cvtepi32_epi16((raw)value);
}

INLINE half_shorts lower_part(shorts value)
{
    return (half_shorts)_mm512_castsi512_si256((raw)value);
}

INLINE half_shorts upper_part(shorts value)
{
    return (half_shorts)_mm512_extracti64x4_epi64((raw)value, 1);
}

INLINE shorts join_parts(half_shorts lower, half_shorts upper)
{
    return (shorts)_mm512_inserti64x4(_mm512_castsi256_si512((raw_half)lower), (raw_half)upper, 1);
}

/** Is one of them at least that? */
INLINE bool any_reaches(shorts value, uint16_t least)
{
    return _mm512_cmpge_epu16_mask((raw)value, _mm512_set1_epi16((short)least)) != 0;
}

/** Is a magnitude above the limit? The answer may be yes if one is near below it. */
INLINE bool any_near(words low, words high, uint32_t limit)
{
    shorts upper = upper_shorts(low, high);
    return any_reaches(upper + upper, (uint16_t)(limit >> 16 << 1)); /* without the signs */
}

INLINE doubles lower_f64(floats value)
{
    return (doubles)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)value));
}

INLINE doubles upper_f64(floats value)
{
    return (doubles)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)value, 1));
}

#endif
