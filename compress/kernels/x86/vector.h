/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Vectors of the instruction set at hand, for kernels that are written once and compiled for each:
 * 256 bits of AVX2, or 512 of AVX-512. Arithmetic is the compiler's: a + b, bits & mask and
 * bits >> 16 go lane by lane, and a cast from one of these types to another keeps the bits. What
 * has no operator stands here: first what both sets do alike, then what each does in its own way.
 *
 * Included by files built for one instruction set each, which share no function: all is inlined.
 */
#ifndef WRING_KERNELS_VECTOR_H
#define WRING_KERNELS_VECTOR_H

#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "compress/kernels/kernels.h"
#include "compress/kernels/streaming.h"

/* for functions to which each caller gives constants, too */
#define INLINE static inline __attribute__((always_inline))

#ifdef __AVX512F__
#define OF_TIER(kernels) kernels##_avx512
#define VECTOR_BYTES 64
#define WIDE(intrinsic) _mm512_##intrinsic
typedef __m512i raw; /* what intrinsics take, and half of it */
typedef __m256i raw_half;
#else
#define OF_TIER(kernels) kernels##_avx2
#define VECTOR_BYTES 32
#define WIDE(intrinsic) _mm256_##intrinsic
typedef __m256i raw;
typedef __m128i raw_half;
#endif

#define LANES (VECTOR_BYTES / 4) /* of 32 bits */

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));
typedef int64_t longs __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t words __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t shorts __attribute__((vector_size(VECTOR_BYTES)));  /* two for each lane */
typedef uint8_t quarters __attribute__((vector_size(VECTOR_BYTES))); /* four */
typedef uint16_t half_shorts __attribute__((vector_size(VECTOR_BYTES / 2)));
typedef floats floats_anywhere __attribute__((aligned(1), may_alias));
typedef raw_half half_anywhere __attribute__((aligned(1), may_alias));
typedef words words_anywhere __attribute__((aligned(1), may_alias));

/* ---- both alike ---------------------------------------------------------------------------- */

INLINE floats load(const void *at)
{
    return *(const floats_anywhere *)at;
}

INLINE void store(void *at, floats value)
{
    *(floats_anywhere *)at = value;
}

INLINE words load_words(const void *at)
{
    return *(const words_anywhere *)at;
}

INLINE void store_words(void *at, words value)
{
    *(words_anywhere *)at = value;
}

/** Of n elements, those in a vector whose first one is element `from`. */
INLINE unsigned rest_from(uint64_t n, unsigned from)
{
    return n <= from ? 0 : n - from < LANES ? (unsigned)n - from : LANES;
}

INLINE floats all(float value)
{
    return (floats)WIDE(set1_ps)(value);
}

INLINE words all_words(uint32_t value)
{
    return (words)WIDE(set1_epi32)((int)value);
}

INLINE words magnitude_of(floats value)
{
    return (words)value & WRING_ABS_BITS;
}

/** The upper half of each lane is rounded to nearest even; the lower one becomes rubbish. */
INLINE words round_up(words bits)
{
    return bits + 0x7FFF + (bits >> 16 & 1);
}

INLINE words smaller(words a, words b)
{
    return (words)WIDE(min_epu32)((raw)a, (raw)b);
}

INLINE words larger(words a, words b)
{
    return (words)WIDE(max_epu32)((raw)a, (raw)b);
}

INLINE float fold_eight(__m256 eight)
{
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

INLINE half_shorts load_part(const void *at)
{
    return (half_shorts) * (const half_anywhere *)at;
}

INLINE words widen_shorts(half_shorts value)
{
    return (words)WIDE(cvtepu16_epi32)((raw_half)value);
}

INLINE void store_part(void *at, half_shorts value)
{
    *(half_anywhere *)at = (raw_half)value;
}

INLINE words round_to_ints(floats value)
{
    return (words)WIDE(cvtps_epi32)(value);
}

INLINE floats floats_of_ints(words value)
{
    return (floats)WIDE(cvtepi32_ps)((raw)value);
}

INLINE floats widen_f16(half_shorts value)
{
    return (floats)WIDE(cvtph_ps)((raw_half)value);
}

INLINE half_shorts narrow_f16(floats value)
{
    return (half_shorts)WIDE(cvtps_ph)(value, _MM_FROUND_TO_NEAREST_INT);
}

/* ---- each in its own way ------------------------------------------------------------------- */

/*
 * lanes                  some lanes of a vector
 * above(a, limit)        those where a > limit, both taken as signed
 * negative(value)        those with their sign bit set
 * less(a, b)             those where a < b, which no NaN is; less_f64()
 * unordered(value)       those that are NaN; unordered_f64()
 * either(lanes, lanes)   those in one or both; either_f64()
 * whole_lanes(lanes)     the same, and all bits of a lane say so, where lanes have bits
 * other(lanes)           all but those, of whole lanes
 * any_of(lanes)          are there any?
 * bits_of(lanes)         a bit for each
 * bits_of_64(some)       of so many vectors' lanes as 64 elements have
 * lanes_of(bits, from)   those whose bit is set, of bit `from` and on; in 256 bits, from <= 24
 * choose(lanes, a, b)    a there, b elsewhere; choose_f64()
 * count_where(lanes, a)  a + 1 there, a elsewhere, of whole lanes
 * add_where(lanes, a, b) a + b there, a or a + 0 elsewhere; of whole lanes
 * LANE_NUMBERS           0, 1, 2, … for words
 * swap_lanes(a, h)       lane i ^ h in place of lane i, h a power of two below LANES
 * widen_floats(at)       half as many as there are lanes
 * store_lower_bytes(at, a) the lower bytes of shorts below 256, in order
 * store_lane_bytes(at, a) those of lanes below 256
 * byte_signs(value)      a bit for each byte, set where its upper one is
 * bytes_of(bits)         a byte of ones where its bit is set, else of zeros
 * spread_halves(bits)    the lower 32 in the first half of all lanes, the upper in the other
 */

#ifdef __AVX512F__

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

INLINE uint32_t bits_of(lanes some)
{
    return some;
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

INLINE doubles widen_floats(const float *at)
{
    return (doubles)_mm512_cvtps_pd(_mm256_loadu_ps(at));
}

/** Lane j adds lane j + half, until one is left. */
INLINE float fold_lanes(floats a)
{
    return fold_eight(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
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

#else

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

INLINE doubles widen_floats(const float *at)
{
    return (doubles)_mm256_cvtps_pd(_mm_loadu_ps(at));
}

INLINE float fold_lanes(floats a)
{
    return fold_eight(a);
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

#endif

#endif
