/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Vectors of bytes and of 16 bits, beside those of vector.h: for kernels that take elements of 16
 * bits apart.
 */
#ifndef WRING_KERNELS_BYTES_H
#define WRING_KERNELS_BYTES_H

#include "compress/kernels/vector/vector.h"

#define SHORTS (VECTOR_BYTES / 2)

typedef uint8_t bytes __attribute__((vector_size(VECTOR_BYTES)));
typedef bytes bytes_anywhere __attribute__((aligned(1), may_alias));
typedef shorts shorts_anywhere __attribute__((aligned(1), may_alias));

INLINE bytes load_byte_vector(const void *at)
{
    return *(const bytes_anywhere *)at;
}

INLINE void store_bytes(void *at, bytes value)
{
    *(bytes_anywhere *)at = value;
}

INLINE shorts load_shorts(const void *at)
{
    return *(const shorts_anywhere *)at;
}

INLINE void store_shorts(void *at, shorts value)
{
    *(shorts_anywhere *)at = value;
}

/*
 * larger_shorts(a, b)      of each, taken as unsigned
 * smaller_bytes(a, most)   likewise, or `most`
 * byte_bits                a bit for each byte of a vector; ALL_BYTES: all set
 * reaching(a, least)       those where a >= least
 * bit_of_bytes(a, bit)     those where this bit is set
 * spread_bits(bits, value) value where the bit is set, 0 elsewhere
 * join_bytes(a, b)         shorts below 256 as bytes, in order
 * interleave_bytes(low, high, out)  low + 256 high of each byte, as shorts in order
 */

#ifdef __AVX2__

INLINE shorts larger_shorts(shorts a, shorts b)
{
    return (shorts)WIDE(max_epu16)((raw)a, (raw)b);
}

INLINE bytes smaller_bytes(bytes a, uint8_t most)
{
    return (bytes)WIDE(min_epu8)((raw)a, WIDE(set1_epi8)((char)most));
}

#endif

#if defined(__AVX512F__)

typedef uint64_t byte_bits;
#define ALL_BYTES UINT64_MAX

INLINE byte_bits reaching(bytes a, uint8_t least)
{
    return _mm512_cmpge_epu8_mask((raw)a, _mm512_set1_epi8((char)least));
}

INLINE byte_bits bit_of_bytes(bytes a, unsigned bit)
{
    return _mm512_test_epi8_mask((raw)a, _mm512_set1_epi8((char)(1u << bit)));
}

INLINE bytes spread_bits(byte_bits bits, uint8_t value)
{
    return (bytes)_mm512_maskz_mov_epi8(bits, _mm512_set1_epi8((char)value));
}

INLINE bytes join_bytes(shorts a, shorts b)
{
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return (bytes)_mm512_permutexvar_epi64(order, _mm512_packus_epi16((raw)a, (raw)b));
}

INLINE void interleave_bytes(bytes low, bytes high, bytes out[2])
{
    const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    raw a = _mm512_permutexvar_epi64(order, (raw)low);
    raw b = _mm512_permutexvar_epi64(order, (raw)high);
    out[0] = (bytes)_mm512_unpacklo_epi8(a, b);
    out[1] = (bytes)_mm512_unpackhi_epi8(a, b);
}

#elif defined(__AVX2__)

typedef uint32_t byte_bits;
#define ALL_BYTES UINT32_MAX

INLINE byte_bits reaching(bytes a, uint8_t least)
{
    __m256i most = _mm256_max_epu8((raw)a, _mm256_set1_epi8((char)least));
    return (byte_bits)_mm256_movemask_epi8(_mm256_cmpeq_epi8(most, (raw)a));
}

INLINE byte_bits bit_of_bytes(bytes a, unsigned bit)
{
    return (byte_bits)_mm256_movemask_epi8(_mm256_slli_epi16((raw)a, 7 - (int)bit));
}

/** All bits of byte i: bit i of the word. */
INLINE bytes spread_bits(byte_bits bits, uint8_t value)
{
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i each = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), byte);
    __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(each, bit), bit);
    return (bytes)_mm256_and_si256(set, _mm256_set1_epi8((char)value));
}

INLINE bytes join_bytes(shorts a, shorts b)
{
    return (bytes)_mm256_permute4x64_epi64(_mm256_packus_epi16((raw)a, (raw)b), 0xD8);
}

INLINE void interleave_bytes(bytes low, bytes high, bytes out[2])
{
    raw a = _mm256_permute4x64_epi64((raw)low, 0xD8);
    raw b = _mm256_permute4x64_epi64((raw)high, 0xD8);
    out[0] = (bytes)_mm256_unpacklo_epi8(a, b);
    out[1] = (bytes)_mm256_unpackhi_epi8(a, b);
}

#else

INLINE shorts larger_shorts(shorts a, shorts b)
{
    return (shorts)vmaxq_u16((uint16x8_t)a, (uint16x8_t)b);
}

INLINE bytes smaller_bytes(bytes a, uint8_t most)
{
    return (bytes)vminq_u8((uint8x16_t)a, vdupq_n_u8(most));
}

typedef uint16_t byte_bits;
#define ALL_BYTES UINT16_MAX

INLINE byte_bits reaching(bytes a, uint8_t least)
{
    return bits_of_16(vcgeq_u8((uint8x16_t)a, vdupq_n_u8(least)));
}

INLINE byte_bits bit_of_bytes(bytes a, unsigned bit)
{
    return bits_of_16(vtstq_u8((uint8x16_t)a, vdupq_n_u8((uint8_t)(1u << bit))));
}

INLINE bytes spread_bits(byte_bits bits, uint8_t value)
{
    return (bytes)bytes_of(bits) & value;
}

INLINE bytes join_bytes(shorts a, shorts b)
{
    return (bytes)vuzp1q_u8((uint8x16_t)a, (uint8x16_t)b);
}

INLINE void interleave_bytes(bytes low, bytes high, bytes out[2])
{
    out[0] = (bytes)vzip1q_u8((uint8x16_t)low, (uint8x16_t)high);
    out[1] = (bytes)vzip2q_u8((uint8x16_t)low, (uint8x16_t)high);
}

#endif

#endif
