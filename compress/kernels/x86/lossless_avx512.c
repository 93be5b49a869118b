/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/x86/lossless_avx512.h"

#define FEW 4 /* of 64 elements: so many others are written whether they are there or not */

/** In each four of elements: their lower halves, then the bytes above, then the exponents. */
INLINE vector sort_fours(vector r)
{
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(r, _mm512_broadcast_i32x4(order));
}

INLINE vector unsort_fours(vector fours)
{
    const __m128i order = _mm_setr_epi8(0, 1, 8, 12, 2, 3, 9, 13, 4, 5, 10, 14, 6, 7, 11, 15);
    return _mm512_shuffle_epi8(fours, _mm512_broadcast_i32x4(order));
}

INLINE vector lows_of(vector first, vector second)
{
    const vector index =
        _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29);
    return _mm512_permutex2var_epi32(sort_fours(first), index, sort_fours(second));
}

INLINE vector rests_of(vector first, vector second)
{
    const vector index =
        _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
    return _mm512_permutex2var_epi32(sort_fours(first), index, sort_fours(second));
}

INLINE vector r_of(vector lows, vector rests, bool second)
{
    const vector index = _mm512_setr_epi32(0, 1, 16, 24, 2, 3, 17, 25, 4, 5, 18, 26, 6, 7, 19, 27);
    const vector next =
        _mm512_setr_epi32(8, 9, 20, 28, 10, 11, 21, 29, 12, 13, 22, 30, 14, 15, 23, 31);
    return unsort_fours(_mm512_permutex2var_epi32(lows, second ? next : index, rests));
}

INLINE void put_planes(uint8_t *planes, uint64_t plane, vector distance, unsigned width)
{
    for (unsigned bit = 0; bit < width; bit++) {
        uint64_t word = _mm512_test_epi8_mask(distance, _mm512_set1_epi8((char)(1 << bit)));
        memcpy(planes + bit * plane, &word, sizeof(word));
    }
}

INLINE void put_others(uint8_t *others, vector exponents, uint64_t chosen)
{
    uint8_t each[STEP + 1] = {0}; /* where none is left, the one behind all is taken */
    uint32_t n = count(chosen);

    _mm512_storeu_si512(each, exponents);
    for (unsigned i = 0; i < FEW; i++, chosen = _blsr_u64(chosen))
        others[i] = each[_tzcnt_u64(chosen)];
    for (unsigned i = FEW; i < n; i++, chosen = _blsr_u64(chosen))
        others[i] = each[_tzcnt_u64(chosen)];
}

/** The exponents of 16 elements. @param others  inout */
INLINE __m128i take_16(const uint8_t **others, __mmask16 chosen)
{
    __m512i exponents = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)*others));
    *others += count(chosen);
    return _mm512_cvtepi32_epi8(_mm512_maskz_expand_epi32(chosen, exponents));
}

INLINE vector take_others(vector exponents, uint64_t chosen, const uint8_t *others)
{
    __m128i part[4];

    for (unsigned v = 0; v < 4; v++)
        part[v] = take_16(&others, (__mmask16)(chosen >> 16 * v));
    __m256i lower = _mm256_inserti128_si256(_mm256_castsi128_si256(part[0]), part[1], 1);
    __m256i upper = _mm256_inserti128_si256(_mm256_castsi128_si256(part[2]), part[3], 1);
    vector all = _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
    return _mm512_mask_mov_epi8(exponents, chosen, all);
}

const struct wring_lossless_tier_kernels wring_lossless_avx512 = {
    peak_block, pack_block, false, unpack_block, unpack_add_block,
};
