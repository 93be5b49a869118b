/* SPDX-License-Identifier: Apache-2.0 */
/** What small floats need of each instruction set, beside vector.h: codes of 8 and 4 bits. */
#ifndef WRING_KERNELS_VECTOR_SMALL_H
#define WRING_KERNELS_VECTOR_SMALL_H

#include "compress/kernels/vector/bytes.h"
#include "compress/kernels/vector/fields.h"

/*
 * largest_of_each(of)        the largest lane of each of so many vectors as one has lanes
 * pack_shorts(a, b)          lanes that fit in 16 bits with a sign, as shorts, and
 * pack_short_bytes(a, b)     shorts as bytes, -128 to 127, in an order that in_order() mends
 * sign_bytes(value)          [4] vectors' signs in bytes that are otherwise 0, in the same order
 * any_byte_above(a, limit)   is one of the bytes, all below 128?
 * widen_bytes(out, code, shift, mask)  bytes as binary16, of which each is shifted behind its sign,
 *                            in four vectors
 * take_e2m1(out, code)       numbers of 4 bits, in four vectors
 */

#if defined(__AVX2__)

/** The largest of each of four vectors, one after the other, in each quarter of its lanes: of 256
 *  bits in each half. */
INLINE words fold_four(const words of[4])
{
    words ab = larger((words)WIDE(unpacklo_epi32)((raw)of[0], (raw)of[1]),
                      (words)WIDE(unpackhi_epi32)((raw)of[0], (raw)of[1]));
    words cd = larger((words)WIDE(unpacklo_epi32)((raw)of[2], (raw)of[3]),
                      (words)WIDE(unpackhi_epi32)((raw)of[2], (raw)of[3]));
    return larger((words)WIDE(unpacklo_epi64)((raw)ab, (raw)cd),
                  (words)WIDE(unpackhi_epi64)((raw)ab, (raw)cd));
}

INLINE shorts pack_shorts(words a, words b)
{
    return (shorts)WIDE(packs_epi32)((raw)a, (raw)b);
}

INLINE words pack_short_bytes(shorts a, shorts b)
{
    return (words)WIDE(packs_epi16)((raw)a, (raw)b);
}

INLINE words sign_bytes(const words value[4])
{
    return pack_bytes(value) & 0x80808080; /* packing leaves signs where they are */
}

#endif

#if defined(__AVX512F__)

INLINE words largest_of_each(const words of[LANES])
{
    raw a = (raw)fold_four(of), b = (raw)fold_four(of + 4);
    raw c = (raw)fold_four(of + 8), d = (raw)fold_four(of + 12);
    raw ab = (raw)larger((words)_mm512_shuffle_i32x4(a, b, 0x44),
                         (words)_mm512_shuffle_i32x4(a, b, 0xEE));
    raw cd = (raw)larger((words)_mm512_shuffle_i32x4(c, d, 0x44),
                         (words)_mm512_shuffle_i32x4(c, d, 0xEE));
    return larger((words)_mm512_shuffle_i32x4(ab, cd, 0x88),
                  (words)_mm512_shuffle_i32x4(ab, cd, 0xDD));
}

INLINE bool any_byte_above(words a, uint8_t limit)
{
    return _mm512_cmpgt_epi8_mask((raw)a, _mm512_set1_epi8((char)limit)) != 0;
}

INLINE void widen_bytes(floats out[4], const uint8_t *code, unsigned shift, uint16_t mask)
{
    for (unsigned v = 0; v < 4; v++) {
        const __m128i *from = (const __m128i *)(const void *)(code + v * LANES);
        half_shorts wide = (half_shorts)_mm256_cvtepi8_epi16(_mm_loadu_si128(from));
        out[v] = widen_f16((wide << (uint16_t)shift) & mask);
    }
}

INLINE void take_e2m1(floats out[4], const uint8_t *code)
{
    const floats table = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (unsigned v = 0; v < 4; v++)
        out[v] = (floats)_mm512_permutexvar_ps((raw)take_codes(code + v * LANES / 2, 4), table);
}

#elif defined(__AVX2__)

INLINE words largest_of_each(const words of[LANES])
{
    raw a = (raw)fold_four(of), b = (raw)fold_four(of + 4);
    return larger((words)_mm256_permute2x128_si256(a, b, 0x20),
                  (words)_mm256_permute2x128_si256(a, b, 0x31));
}

INLINE bool any_byte_above(words a, uint8_t limit)
{
    return _mm256_movemask_epi8(_mm256_cmpgt_epi8((raw)a, _mm256_set1_epi8((char)limit))) != 0;
}

INLINE void widen_bytes(floats out[4], const uint8_t *code, unsigned shift, uint16_t mask)
{
    for (unsigned v = 0; v < 4; v++) {
        const __m128i *from = (const __m128i *)(const void *)(code + v * LANES);
        half_shorts wide = (half_shorts)_mm_cvtepi8_epi16(_mm_loadl_epi64(from));
        out[v] = widen_f16((wide << (uint16_t)shift) & mask);
    }
}

INLINE void take_e2m1(floats out[4], const uint8_t *code)
{
    const floats table = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    for (unsigned v = 0; v < 4; v++) {
        words fields = take_codes(code + v * LANES / 2, 4);
        words magnitude = (words)_mm256_permutevar8x32_ps(table, (raw)fields);
        out[v] = (floats)(magnitude | (fields << 28 & WRING_SIGN_BITS));
    }
}

#else

INLINE words largest_of_each(const words of[LANES])
{
    uint32x4_t ab = vpmaxq_u32((uint32x4_t)of[0], (uint32x4_t)of[1]);
    return (words)vpmaxq_u32(ab, vpmaxq_u32((uint32x4_t)of[2], (uint32x4_t)of[3]));
}

INLINE shorts pack_shorts(words a, words b)
{
    return (shorts)vuzp1q_u16((uint16x8_t)a, (uint16x8_t)b);
}

INLINE words pack_short_bytes(shorts a, shorts b)
{
    return (words)vqmovn_high_s16(vqmovn_s16((int16x8_t)a), (int16x8_t)b);
}

INLINE words sign_bytes(const words value[4])
{
    return (words)upper_bytes(value[0], value[1], value[2], value[3]) & 0x80808080;
}

INLINE bool any_byte_above(words a, uint8_t limit)
{
    return vmaxvq_u8((uint8x16_t)a) > limit;
}

INLINE void widen_halves(floats out[2], uint16x8_t halves)
{
    out[0] = (floats)vcvt_f32_f16(vget_low_f16(vreinterpretq_f16_u16(halves)));
    out[1] = (floats)vcvt_high_f32_f16(vreinterpretq_f16_u16(halves));
}

INLINE void widen_bytes(floats out[4], const uint8_t *code, unsigned shift, uint16_t mask)
{
    int8x16_t bytes_16 = vreinterpretq_s8_u8(vld1q_u8(code));
    shorts lower = (shorts)vmovl_s8(vget_low_s8(bytes_16)), upper = (shorts)vmovl_high_s8(bytes_16);

    widen_halves(out, (uint16x8_t)((lower << (uint16_t)shift) & mask));
    widen_halves(out + 2, (uint16x8_t)((upper << (uint16_t)shift) & mask));
}

/** By way of binary16, of which all but the upper byte is 0. */
INLINE void take_e2m1(floats out[4], const uint8_t *code)
{
    const uint8x16_t table = {0x00, 0x38, 0x3C, 0x3E, 0x40, 0x42, 0x44, 0x46,
                              0x80, 0xB8, 0xBC, 0xBE, 0xC0, 0xC2, 0xC4, 0xC6};
    uint8x8_t pairs = vld1_u8(code);
    uint8x16_t lower = vcombine_u8(vand_u8(pairs, vdup_n_u8(15)), vdup_n_u8(0));
    uint8x16_t upper = vcombine_u8(vshr_n_u8(pairs, 4), vdup_n_u8(0));
    uint8x16_t numbers = vqtbl1q_u8(table, vzip1q_u8(lower, upper));

    widen_halves(out, vreinterpretq_u16_u8(vzip1q_u8(vdupq_n_u8(0), numbers)));
    widen_halves(out + 2, vreinterpretq_u16_u8(vzip2q_u8(vdupq_n_u8(0), numbers)));
}

#endif

#endif
