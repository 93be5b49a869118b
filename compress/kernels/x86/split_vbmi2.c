/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/x86/split_avx512.h"

/** Lane i: base + i * step. */
INLINE vector ramp(uint32_t base, uint32_t step)
{
    const vector lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_add_epi32(_mm512_set1_epi32((int)base),
                            _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)step)));
}

/** Words 0, 2, 4, ... */
INLINE vector lows_of(vector first, vector second)
{
    return _mm512_permutex2var_epi16(first, ramp(0x00020000, 0x00040004), second);
}

/** Bytes 2, 6, 10, ..., and then 3, 7, 11, ... */
INLINE vector rests_of(vector first, vector second)
{
    const vector highs = ramp(0x0E0A0602, 0x10101010); /* modulo 128 */
    const vector index = _mm512_mask_add_epi8(highs, UINT64_MAX << 32, highs, _mm512_set1_epi8(1));
    return _mm512_permutex2var_epi8(first, index, second);
}

/** Bytes 2 i and 2 i + 1 of the lower halves, then i and 32 + i of what is above them. */
INLINE vector r_of(vector lows, vector rests, bool second)
{
    const vector index = ramp(0x60400100, 0x01010202), next = ramp(0x70502120, 0x01010202);
    return _mm512_permutex2var_epi8(lows, second ? next : index, rests);
}

/** Bits of bytes: byte j of each eight gets bit j of these, of the first of them the lowest. */
INLINE vector transpose(vector bytes)
{
    const vector reversed = _mm512_set_epi64(
        0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607,
        0x08090A0B0C0D0E0F, 0x0001020304050607, 0x08090A0B0C0D0E0F, 0x0001020304050607);
    const vector unit = _mm512_set1_epi64((long long)0x8040201008040201);
    return _mm512_gf2p8affine_epi64_epi8(unit, _mm512_shuffle_epi8(bytes, reversed), 0);
}

INLINE void put_planes(uint8_t *planes, uint64_t plane, vector distance, unsigned width)
{
    const __m512i order = _mm512_set_epi64(0, 0, 0, 0, 0x3B332B231B130B03, 0x3A322A221A120A02,
                                           0x3931292119110901, 0x3830282018100800);
    __m256i words = _mm512_castsi512_si256(_mm512_permutexvar_epi8(order, transpose(distance)));
    __m128i lower = _mm256_castsi256_si128(words), upper = _mm256_extracti128_si256(words, 1);
    _mm_storel_epi64((__m128i *)planes, lower);
    _mm_storeh_pd((double *)(planes + plane), _mm_castsi128_pd(lower));
    _mm_storel_epi64((__m128i *)(planes + 2 * plane), upper);
    if (width == WRING_SPLIT_WIDE)
        _mm_storeh_pd((double *)(planes + 3 * plane), _mm_castsi128_pd(upper));
}

/** By way of a register: VPCOMPRESSB into memory is slow. More than a few are stored again. */
INLINE void put_others(uint8_t *others, vector exponents, uint64_t chosen)
{
    vector packed = _mm512_maskz_compress_epi8(chosen, exponents);

    _mm_storeu_si128((__m128i *)others, _mm512_castsi512_si128(packed));
    if (__builtin_expect(count(chosen) > sizeof(__m128i), 0))
        _mm512_storeu_si512(others, packed);
}

INLINE vector take_others(vector exponents, uint64_t chosen, const uint8_t *others)
{
    return _mm512_mask_expand_epi8(exponents, chosen, _mm512_loadu_si512(others));
}

const struct wring_split_kernels wring_split_vbmi2 = {
    peak_block,
    pack_block,
    unpack_block,
    unpack_add_block,
};
