/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "compress/kernels/pick.h"

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

static inline __m512 fed(const float *src, const float *residual, uint64_t i, __mmask16 live)
{
    __m512 value = _mm512_maskz_loadu_ps(live, src + i);
    if (residual != NULL)
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(live, residual + i));
    return value;
}

/** 16 elements: their marks; *peak takes their magnitudes. */
static inline uint64_t mark_16(const float *src, const float *residual, uint64_t i, __mmask16 live,
                               __m512i threshold, __m512i *peak)
{
    __m512i magnitude = _mm512_and_si512(_mm512_castps_si512(fed(src, residual, i, live)),
                                         _mm512_set1_epi32(WRING_ABS_BITS));
    *peak = _mm512_max_epu32(*peak, magnitude);
    return _mm512_mask_cmpge_epu32_mask(live, magnitude, threshold);
}

static uint32_t mark_avx512(uint64_t *map, const float *src, const float *residual, uint64_t n,
                            uint32_t threshold)
{
    __m512i peak = _mm512_setzero_si512(), limit = _mm512_set1_epi32((int)threshold);
    uint64_t i = 0;

    for (; i + 64 <= n; i += 64)
        map[i / 64] = mark_16(src, residual, i, 0xFFFF, limit, &peak) |
                      mark_16(src, residual, i + 16, 0xFFFF, limit, &peak) << 16 |
                      mark_16(src, residual, i + 32, 0xFFFF, limit, &peak) << 32 |
                      mark_16(src, residual, i + 48, 0xFFFF, limit, &peak) << 48;
    if (i < n)
        map[i / 64] = 0;
    for (uint64_t word = i; i < n; i += 16)
        map[word / 64] |= mark_16(src, residual, i, live_lanes(n - i), limit, &peak) << (i - word);
    return _mm512_reduce_max_epu32(peak);
}

static inline unsigned gather_16(char *value, char *index, const float *src, const float *residual,
                                 uint64_t i, __mmask16 marks)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    unsigned count = (unsigned)__builtin_popcount(marks);
    __mmask16 first = live_lanes(count);
    __m512 chosen = _mm512_maskz_compress_ps(marks, fed(src, residual, i, marks));
    __m512i where =
        _mm512_add_epi32(_mm512_maskz_compress_epi32(marks, lane), _mm512_set1_epi32((int)i));

    _mm512_mask_storeu_ps(value, first, chosen);
    _mm256_mask_storeu_epi16(index, first, _mm512_cvtepi32_epi16(where));
    return count;
}

static void gather_avx512(void *values, void *indices, const uint64_t *map, const float *src,
                          const float *residual, uint64_t n)
{
    char *value = values, *index = indices;

    for (uint64_t i = 0; i < n; i += 64)
        for (uint64_t left = map[i / 64]; left != 0;) {
            unsigned at = (unsigned)__builtin_ctzll(left) & 48u; /* the 16 that hold the next */
            unsigned count =
                gather_16(value, index, src, residual, i + at, (__mmask16)(left >> at));
            value += 4 * count;
            index += 2 * count;
            left &= ~(0xFFFFull << at);
        }
}

static void retain_avx512(float *residual, const float *src, const uint64_t *map, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i), marks = (__mmask16)(map[i / 64] >> i % 64);
        __m512 value = _mm512_maskz_mov_ps(_knot_mask16(marks), fed(src, residual, i, live));
        _mm512_mask_storeu_ps(residual + i, live, value);
    }
}

const struct wring_pick_kernels wring_pick_avx512 = {mark_avx512, gather_avx512, retain_avx512};
