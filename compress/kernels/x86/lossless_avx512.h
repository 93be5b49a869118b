/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A step of 64 elements in vectors of 512 bits. Each instruction set defines these behind the
 * include:
 *
 *     vector lows_of(vector first, vector second)     of 32 r: the lower halves
 *     vector rests_of(vector first, vector second)    the bytes above these, then the exponents
 *     vector r_of(vector lows, vector rests, bool second)    back: 16 r, the first or the second
 *     void put_planes(uint8_t *planes, uint64_t plane, vector distance, unsigned width)
 *     void put_others(uint8_t *others, vector exponents, uint64_t chosen)
 *     vector take_others(vector exponents, uint64_t chosen, const uint8_t *others)
 */
#ifndef WRING_KERNELS_LOSSLESS_AVX512_H
#define WRING_KERNELS_LOSSLESS_AVX512_H

#include "compress/kernels/vector/lossless_loop.h"

typedef raw vector;

INLINE vector lows_of(vector first, vector second);
INLINE vector rests_of(vector first, vector second);
INLINE vector r_of(vector lows, vector rests, bool second);
INLINE void put_planes(uint8_t *planes, uint64_t plane, vector distance, unsigned width);
INLINE void put_others(uint8_t *others, vector exponents, uint64_t chosen);
INLINE vector take_others(vector exponents, uint64_t chosen, const uint8_t *others);

INLINE uint64_t reaching(vector distance, unsigned width, uint64_t live)
{
    return live &
           _mm512_cmpge_epu8_mask(distance, _mm512_set1_epi8((char)WRING_LOSSLESS_FAR(width)));
}

INLINE uint32_t count(uint64_t marks)
{
    return (uint32_t)_mm_popcnt_u64(marks);
}

/** Narrow distances leave one or two of most steps, which branches do not foresee; wide ones none.
 */
INLINE bool has_others(uint64_t others, unsigned width)
{
    return width == WRING_LOSSLESS_BLOCK_NARROW || others != 0;
}

/** A step's elements taken apart. */
struct apart {
    vector low[2], high, exponents;
};

INLINE struct apart take_apart(const float *src)
{
    vector r[4];

    for (unsigned v = 0; v < 4; v++)
        r[v] = _mm512_rol_epi32(_mm512_loadu_si512(src + 16 * v), 1);
    vector first = rests_of(r[0], r[1]), second = rests_of(r[2], r[3]);
    return (struct apart){
        .low = {lows_of(r[0], r[1]), lows_of(r[2], r[3])},
        .high = _mm512_shuffle_i64x2(first, second, 0x44),
        .exponents = _mm512_shuffle_i64x2(first, second, 0xEE),
    };
}

/** Write all parts that depend on the exponents. */
INLINE void put_exponents(struct parts *to, vector exponents, uint64_t live, struct form form)
{
    vector distance = _mm512_sub_epi8(_mm512_set1_epi8((char)form.top), exponents);
    uint64_t narrow = reaching(distance, WRING_LOSSLESS_BLOCK_NARROW, live);
    uint64_t wide = reaching(distance, WRING_LOSSLESS_BLOCK_WIDE, live);
    uint64_t others = form.width == WRING_LOSSLESS_BLOCK_NARROW ? narrow : wide;

    distance = _mm512_min_epu8(distance, _mm512_set1_epi8((char)WRING_LOSSLESS_FAR(form.width)));
    if (live != ALL_LIVE)
        distance = _mm512_maskz_mov_epi8(live, distance);
    put_planes(to->planes, to->plane, distance, form.width);
    if (has_others(others, form.width))
        put_others(to->others, exponents, others);
    to->others += count(others);
    to->far.narrow += count(narrow);
    if (form.width == WRING_LOSSLESS_BLOCK_WIDE)
        to->far.wide += count(wide);
}

INLINE void pack_step(struct parts *to, const float *src, uint64_t live, struct form form)
{
    struct apart apart = take_apart(src);

    _mm512_storeu_si512(to->low, apart.low[0]);
    _mm512_storeu_si512(to->low + 64, apart.low[1]);
    _mm512_storeu_si512(to->high, apart.high);
    put_exponents(to, apart.exponents, live, form);
}

INLINE void put_16(float *dst, vector r, bool add)
{
    __m512 value = _mm512_castsi512_ps(_mm512_ror_epi32(r, 1));
    _mm512_storeu_ps(dst, add ? _mm512_add_ps(_mm512_loadu_ps(dst), value) : value);
}

INLINE void unpack_step(float *dst, struct sources *from, uint64_t live, struct form form, bool add)
{
    vector exponents = _mm512_set1_epi8((char)form.top);
    vector low = _mm512_loadu_si512(from->low), next = _mm512_loadu_si512(from->low + 64);
    vector high = _mm512_loadu_si512(from->high);
    uint64_t others = live;

    for (unsigned bit = 0; bit < form.width; bit++) {
        uint64_t plane;
        memcpy(&plane, from->planes + bit * from->plane, sizeof(plane));
        exponents =
            _mm512_mask_sub_epi8(exponents, plane, exponents, _mm512_set1_epi8((char)(1 << bit)));
        others &= plane;
    }
    if (has_others(others, form.width))
        exponents = take_others(exponents, others, from->others);
    from->others += count(others);
    vector first = _mm512_shuffle_i64x2(high, exponents, 0x44);
    vector second = _mm512_shuffle_i64x2(high, exponents, 0xEE);
    put_16(dst, r_of(low, first, false), add);
    put_16(dst + 16, r_of(low, first, true), add);
    put_16(dst + 32, r_of(next, second, false), add);
    put_16(dst + 48, r_of(next, second, true), add);
}

/** The whole of wring_lossless_tier_kernels' unpack. */
INLINE uint64_t unpack_all(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                           struct form form, bool add)
{
    struct sources from = sources_of(packed, others, n);
    unpack(dst, &from, n, form, add);
    return (uint64_t)(from.others - others);
}

#endif
