/* SPDX-License-Identifier: Apache-2.0 */
/** What AVX2 and AVX-512 do alike: vector.h says what each function does. */
#ifndef WRING_KERNELS_VECTOR_AVX_H
#define WRING_KERNELS_VECTOR_AVX_H

#include "compress/kernels/vector/vector.h"

typedef raw_half half_anywhere __attribute__((aligned(1), may_alias));

INLINE floats all(float value)
{
    return (floats)WIDE(set1_ps)(value);
}

INLINE words all_words(uint32_t value)
{
    return (words)WIDE(set1_epi32)((int)value);
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

INLINE double fold_four_f64(__m256d four)
{
    __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

INLINE uint64_t zeros_below(uint64_t bits)
{
    return _tzcnt_u64(bits); /* the compiler's own function has a branch for 0 */
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

INLINE words min_i32(words a, words b)
{
    return (words)WIDE(min_epi32)((raw)a, (raw)b);
}

INLINE words max_i32(words a, words b)
{
    return (words)WIDE(max_epi32)((raw)a, (raw)b);
}

INLINE words abs_i32(words a)
{
    return (words)WIDE(abs_epi32)((raw)a);
}

INLINE floats min_f32(floats a, floats b)
{
    return (floats)WIDE(min_ps)(a, b);
}

INLINE floats max_f32(floats a, floats b)
{
    return (floats)WIDE(max_ps)(a, b);
}

INLINE doubles widen_half(half_floats value)
{
    return (doubles)WIDE(cvtps_pd)(value);
}

INLINE quads products(quads a, quads b)
{
    return (quads)WIDE(mul_epu32)((raw)a, (raw)b);
}

INLINE words lower_quads(quads a, quads b)
{
    return (words)WIDE(unpacklo_epi64)((raw)a, (raw)b);
}

INLINE words upper_quads(quads a, quads b)
{
    return (words)WIDE(unpackhi_epi64)((raw)a, (raw)b);
}

#endif
