/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/onebit.h"
#include "compress/kernels/streaming.h"

/** Of the 32 elements of a step, those that exist. */
static inline uint32_t live_lanes(uint64_t left)
{
    return left >= 32 ? 0xFFFFFFFF : (1u << left) - 1;
}

static inline size_t live_bytes(uint64_t left)
{
    return left >= 32 ? 4 : (left + 7) / 8;
}

static inline __m512 fed(const float *src, const float *residual, __mmask16 live)
{
    __m512 value = _mm512_maskz_loadu_ps(live, src);
    return residual == NULL ? value : _mm512_add_ps(value, _mm512_maskz_loadu_ps(live, residual));
}

static inline __m512 absolute(__m512 value)
{
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(WRING_ABS_BITS)));
}

static inline __mmask16 negative_lanes(__m512 value)
{
    return _mm512_movepi32_mask(_mm512_castps_si512(value));
}

/** Lane j adds lane j + half; see onebit.h. */
static inline float fold(const __m512 lanes[2])
{
    __m512 sixteen = _mm512_add_ps(lanes[0], lanes[1]);
    __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(sixteen), _mm512_extractf32x8_ps(sixteen, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline __m512 fed_whole(const float *src, const float *residual, uint64_t i)
{
    __m512 value = _mm512_loadu_ps(src + i);
    return residual == NULL ? value : _mm512_add_ps(value, _mm512_loadu_ps(residual + i));
}

/** 32 elements: their sign bits; their magnitudes go into the lanes. */
static inline void signs_32(uint8_t *bits, __m512 lanes[2], const float *src, const float *residual)
{
    __m512 low = fed_whole(src, residual, 0), high = fed_whole(src, residual, 16);
    uint32_t negative = _mm512_kunpackw(negative_lanes(high), negative_lanes(low));

    lanes[0] = _mm512_add_ps(lanes[0], absolute(low));
    lanes[1] = _mm512_add_ps(lanes[1], absolute(high));
    memcpy(bits, &negative, 4);
}

/** Whole steps of 128 elements. @return how many elements that were */
static inline uint64_t signs_steps(uint8_t *bits, __m512 lanes[2], const float *src, uint64_t n)
{
    uint64_t i = 0;
    for (; i + 128 <= n; i += 128)
        for (unsigned at = 0; at < 128; at += 32)
            signs_32(bits + (i + at) / 8, lanes, src + i + at, NULL);
    return i;
}

/**
 * The same under feedback, of 32 elements. Two streams that take turns line by line are fetched
 * more slowly than one after the other, so a page of the residual is read before its steps.
 */
static inline uint64_t signs_fed_steps(uint8_t *bits, __m512 lanes[2], const float *src,
                                       const float *residual, uint64_t n)
{
    uint64_t i = 0;
    while (i + 32 <= n) {
        uint64_t end = n - i < WRING_PAGE ? n : i + WRING_PAGE;
        wring_streaming_read(residual + i, (end - i) * sizeof(*residual));
        for (; i + 32 <= end; i += 32)
            signs_32(bits + i / 8, lanes, src + i, residual + i);
    }
    return i;
}

static float signs_avx512(uint8_t *bits, const float *src, const float *residual, uint64_t n)
{
    __m512 lanes[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    uint64_t i;

    if (residual == NULL)
        i = signs_steps(bits, lanes, src, n);
    else
        i = signs_fed_steps(bits, lanes, src, residual, n);
    for (; i < n; i += 32) {
        uint32_t live = live_lanes(n - i), negative = 0;
        for (unsigned v = 0; v < 2; v++) {
            __mmask16 here = (__mmask16)(live >> 16 * v);
            __m512 value = here == 0 ? _mm512_setzero_ps()
                                     : fed(src + i + 16 * v,
                                           residual == NULL ? NULL : residual + i + 16 * v, here);
            negative |= (uint32_t)negative_lanes(value) << 16 * v;
            lanes[v] = _mm512_add_ps(lanes[v], absolute(value));
        }
        memcpy(bits + i / 8, &negative, live_bytes(n - i));
    }
    return fold(lanes);
}

static void signs_split_avx512(uint8_t *bits, const float *src, const float *residual, uint64_t n,
                               struct wring_onebit_split *out)
{
    __m512 plus[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    __m512 minus[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    uint64_t negatives = 0;

    for (uint64_t i = 0; i < n; i += 32) {
        uint32_t live = live_lanes(n - i), negative = 0;
        for (unsigned v = 0; v < 2; v++) {
            __mmask16 here = (__mmask16)(live >> 16 * v);
            __m512 value = here == 0 ? _mm512_setzero_ps()
                                     : fed(src + i + 16 * v,
                                           residual == NULL ? NULL : residual + i + 16 * v, here);
            __mmask16 below = negative_lanes(value);
            negative |= (uint32_t)below << 16 * v;
            plus[v] = _mm512_mask_add_ps(plus[v], _knot_mask16(below), plus[v], absolute(value));
            minus[v] = _mm512_mask_add_ps(minus[v], below, minus[v], absolute(value));
        }
        negatives += (uint64_t)__builtin_popcount(negative);
        memcpy(bits + i / 8, &negative, live_bytes(n - i));
    }
    *out = (struct wring_onebit_split){fold(plus), fold(minus), negatives};
}

static void keep_avx512(float *residual, const float *src, uint64_t n, float positive,
                        float negative)
{
    __m512 above = _mm512_set1_ps(positive), below = _mm512_set1_ps(negative);
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512 value = fed_whole(src, residual, i);
        __m512 level = _mm512_mask_mov_ps(above, negative_lanes(value), below);
        _mm512_storeu_ps(residual + i, _mm512_sub_ps(value, level));
    }
    for (; i < n; i += 16) {
        __mmask16 live = (__mmask16)live_lanes(n - i);
        __m512 value = fed(src + i, residual + i, live);
        __m512 level = _mm512_mask_mov_ps(above, negative_lanes(value), below);
        _mm512_mask_storeu_ps(residual + i, live, _mm512_sub_ps(value, level));
    }
}

static inline uint32_t bits_of(const uint8_t *bits, uint64_t left)
{
    uint32_t word = 0;
    if (left >= 32)
        memcpy(&word, bits, 4);
    else
        memcpy(&word, bits, live_bytes(left));
    return word;
}

static void spread_avx512(float *dst, const uint8_t *bits, uint64_t n, float positive,
                          float negative)
{
    __m512 above = _mm512_set1_ps(positive), below = _mm512_set1_ps(negative);
    uint64_t i = 0;

    for (; i + 32 <= n; i += 32) {
        uint32_t word = bits_of(bits + i / 8, 32);
        _mm512_storeu_ps(dst + i, _mm512_mask_mov_ps(above, (__mmask16)word, below));
        _mm512_storeu_ps(dst + i + 16, _mm512_mask_mov_ps(above, (__mmask16)(word >> 16), below));
    }
    for (; i < n; i += 16) {
        uint32_t word = bits_of(bits + i / 8, n - i);
        _mm512_mask_storeu_ps(dst + i, (__mmask16)live_lanes(n - i),
                              _mm512_mask_mov_ps(above, (__mmask16)word, below));
    }
}

static void spread_add_avx512(float *dst, const uint8_t *bits, uint64_t n, float positive,
                              float negative)
{
    __m512 above = _mm512_set1_ps(positive), below = _mm512_set1_ps(negative);
    uint64_t i = 0;

    for (; i + 32 <= n; i += 32) {
        uint32_t word = bits_of(bits + i / 8, 32);
        for (unsigned v = 0; v < 2; v++) {
            __m512 level = _mm512_mask_mov_ps(above, (__mmask16)(word >> 16 * v), below);
            float *at = dst + i + 16 * v;
            _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), level));
        }
    }
    for (; i < n; i += 16) {
        __mmask16 live = (__mmask16)live_lanes(n - i);
        uint32_t word = bits_of(bits + i / 8, n - i);
        __m512 level = _mm512_mask_mov_ps(above, (__mmask16)word, below);
        _mm512_mask_storeu_ps(dst + i, live,
                              _mm512_add_ps(_mm512_maskz_loadu_ps(live, dst + i), level));
    }
}

const struct wring_onebit_kernels wring_onebit_avx512 = {
    signs_avx512, signs_split_avx512, keep_avx512, spread_avx512, spread_add_avx512,
};
