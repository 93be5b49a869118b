/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/vector/lossless_loop.h"

INLINE __m256i load_rotated(const float *src)
{
    __m256i bits = _mm256_loadu_si256((const __m256i *)src);
    return _mm256_or_si256(_mm256_slli_epi32(bits, 1), _mm256_srli_epi32(bits, 31));
}

/** In each four of elements: their lower halves, then the bytes above, then the exponents. */
INLINE __m256i sort_fours(__m256i r)
{
    const __m128i order = _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm256_shuffle_epi8(r, _mm256_broadcastsi128_si256(order));
}

INLINE __m256i unsort_fours(__m256i fours)
{
    const __m128i order = _mm_setr_epi8(0, 1, 8, 12, 2, 3, 9, 13, 4, 5, 10, 14, 6, 7, 11, 15);
    return _mm256_shuffle_epi8(fours, _mm256_broadcastsi128_si256(order));
}

/** The lower halves of two vectors of fours, in order. */
INLINE __m256i lows_of(__m256i first, __m256i second)
{
    return _mm256_permute4x64_epi64(_mm256_unpacklo_epi64(first, second), 0xD8);
}

/** Undoes in_order(). */
INLINE __m256i out_of_order(__m256i bytes)
{
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

/** The exponents of two vectors' fours in order, or else the bytes before them. */
INLINE __m256i rests_of(__m256i first, __m256i second, bool exponents)
{
    __m256 a = _mm256_castsi256_ps(first), b = _mm256_castsi256_ps(second);
    __m256 bytes = exponents ? _mm256_shuffle_ps(a, b, 0xDD) : _mm256_shuffle_ps(a, b, 0x88);
    return (__m256i)in_order((words)bytes);
}

INLINE void put_others(uint8_t *others, __m256i exponents, uint32_t chosen)
{
    uint8_t each[STEP];

    _mm256_storeu_si256((__m256i *)each, exponents);
    for (; chosen != 0; chosen &= chosen - 1)
        *others++ = each[__builtin_ctz(chosen)];
}

/** Which of 32 distances reach what a width can hold. */
INLINE uint32_t reaching(__m256i distance, unsigned width)
{
    const __m256i far = _mm256_set1_epi8((char)WRING_LOSSLESS_FAR(width));
    return (uint32_t)_mm256_movemask_epi8(
        _mm256_cmpeq_epi8(_mm256_max_epu8(distance, far), distance));
}

INLINE void pack_step(struct parts *to, const float *src, uint64_t live, struct form form)
{
    const __m256i far = _mm256_set1_epi8((char)WRING_LOSSLESS_FAR(form.width));
    __m256i fours[4];

    for (unsigned v = 0; v < 4; v++)
        fours[v] = sort_fours(load_rotated(src + 8 * v));
    __m256i first = _mm256_unpackhi_epi64(fours[0], fours[1]);
    __m256i second = _mm256_unpackhi_epi64(fours[2], fours[3]);
    __m256i exponents = rests_of(first, second, true);
    __m256i distance = _mm256_sub_epi8(_mm256_set1_epi8((char)form.top), exponents);
    uint32_t narrow = (uint32_t)live & reaching(distance, WRING_LOSSLESS_BLOCK_NARROW);
    uint32_t wide = (uint32_t)live & reaching(distance, WRING_LOSSLESS_BLOCK_WIDE);
    distance = _mm256_min_epu8(distance, far);

    _mm256_storeu_si256((__m256i *)to->low, lows_of(fours[0], fours[1]));
    _mm256_storeu_si256((__m256i *)(to->low + 32), lows_of(fours[2], fours[3]));
    _mm256_storeu_si256((__m256i *)to->high, rests_of(first, second, false));
    for (unsigned bit = 0; bit < form.width; bit++) {
        __m256i moved = _mm256_slli_epi16(distance, 7 - (int)bit);
        uint32_t plane = (uint32_t)live & (uint32_t)_mm256_movemask_epi8(moved);
        memcpy(to->planes + bit * to->plane, &plane, sizeof(plane));
    }
    uint32_t others = form.width == WRING_LOSSLESS_BLOCK_NARROW ? narrow : wide;
    if (others != 0)
        put_others(to->others, exponents, others);
    to->others += __builtin_popcount(others);
    to->far.narrow += (uint32_t)__builtin_popcount(narrow);
    if (form.width == WRING_LOSSLESS_BLOCK_WIDE)
        to->far.wide += (uint32_t)__builtin_popcount(wide);
}

/**
 * Put the others where they belong, long before a vector of them is loaded: a load waits for every
 * earlier store of a byte that it takes.
 * @param placed  out, at the places of others alone; [n rounded up to whole steps]
 * @return how many others that were
 */
INLINE uint64_t spread_others(uint8_t *placed, const uint8_t *packed, const uint8_t *others,
                              uint64_t n, unsigned width)
{
    const uint8_t *planes = packed + WRING_LOSSLESS_PLANES(n), *next = others;

    for (uint64_t i = 0; i < n; i += STEP, placed += STEP) {
        uint32_t chosen = n - i < STEP ? (1u << (n - i)) - 1 : UINT32_MAX;
        for (unsigned bit = 0; bit < width; bit++) {
            uint32_t plane = 0;
            const uint8_t *at = planes + bit * WRING_LOSSLESS_PLANE(n) + i / 8;
            if (n - i < STEP)
                memcpy(&plane, at, WRING_LOSSLESS_PLANE(n - i));
            else
                memcpy(&plane, at, sizeof(plane));
            chosen &= plane;
        }
        for (; chosen != 0; chosen &= chosen - 1)
            placed[__builtin_ctz(chosen)] = *next++;
    }
    return (uint64_t)(next - others);
}

/** All bits of byte i: bit i of the word. */
INLINE __m256i spread(uint32_t word)
{
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)word), byte);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
}

INLINE __m256i load_exponents(const struct sources *from, struct form form)
{
    const __m256i far = _mm256_set1_epi8((char)WRING_LOSSLESS_FAR(form.width));
    __m256i distance = _mm256_setzero_si256();

    for (unsigned bit = 0; bit < form.width; bit++) {
        uint32_t plane;
        memcpy(&plane, from->planes + bit * from->plane, sizeof(plane));
        __m256i step = _mm256_and_si256(spread(plane), _mm256_set1_epi8((char)(1 << bit)));
        distance = _mm256_or_si256(distance, step);
    }
    return _mm256_blendv_epi8(_mm256_sub_epi8(_mm256_set1_epi8((char)form.top), distance),
                              _mm256_loadu_si256((const __m256i *)from->others),
                              _mm256_cmpeq_epi8(distance, far));
}

INLINE void put_8(float *dst, __m256i r, bool add)
{
    __m256i bits = _mm256_or_si256(_mm256_srli_epi32(r, 1), _mm256_slli_epi32(r, 31));
    __m256 value = _mm256_castsi256_ps(bits);
    _mm256_storeu_ps(dst, add ? _mm256_add_ps(_mm256_loadu_ps(dst), value) : value);
}

/** The others are in their places already, and each of these is looked at. */
INLINE void unpack_step(float *dst, struct sources *from, uint64_t live, struct form form, bool add)
{
    __m256i high = out_of_order(_mm256_loadu_si256((const __m256i *)from->high));
    __m256i exponents = out_of_order(load_exponents(from, form));
    __m256i rests[2] = {_mm256_unpacklo_epi32(high, exponents),
                        _mm256_unpackhi_epi32(high, exponents)};

    (void)live;
    for (unsigned half = 0; half < 2; half++) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(from->low + 32 * half));
        low = _mm256_permute4x64_epi64(low, 0xD8);
        put_8(dst + 16 * half, unsort_fours(_mm256_unpacklo_epi64(low, rests[half])), add);
        put_8(dst + 16 * half + 8, unsort_fours(_mm256_unpackhi_epi64(low, rests[half])), add);
    }
    from->others += STEP;
}

INLINE uint64_t unpack_all(float *dst, const uint8_t *packed, const uint8_t *others, uint64_t n,
                           struct form form, bool add)
{
    uint8_t placed[WRING_LOSSLESS_BLOCK_MAX];
    uint64_t taken = spread_others(placed, packed, others, n, form.width);
    struct sources from = sources_of(packed, placed, n);

    unpack(dst, &from, n, form, add);
    return taken;
}

const struct wring_lossless_tier_kernels wring_lossless_avx2 = {
    peak_block, pack_block, false, unpack_block, unpack_add_block,
};
