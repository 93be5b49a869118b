/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "compress/kernels/quant.h"

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

static inline __m512 fed(const float *src, const float *residual, __mmask16 live)
{
    __m512 value = _mm512_maskz_loadu_ps(live, src);
    return residual == NULL ? value : _mm512_add_ps(value, _mm512_maskz_loadu_ps(live, residual));
}

static inline __m512i larger(__m512i peak, __m512 value)
{
    __m512i bits = _mm512_castps_si512(value);
    return _mm512_max_epu32(peak, _mm512_and_si512(bits, _mm512_set1_epi32(WRING_ABS_BITS)));
}

static uint32_t peak_avx512(const float *src, const float *residual, uint64_t n)
{
    __m512i even = _mm512_setzero_si512(), odd = even;
    const float *second = residual == NULL ? NULL : residual + 16;

    for (uint64_t i = 0; i < n; i += 32) {
        even =
            larger(even, fed(src + i, residual == NULL ? NULL : residual + i, live_lanes(n - i)));
        if (n - i > 16)
            odd = larger(
                odd, fed(src + i + 16, second == NULL ? NULL : second + i, live_lanes(n - i - 16)));
    }
    return _mm512_reduce_max_epu32(_mm512_max_epu32(even, odd));
}

static inline __m512i steps_of(__m512 value, float inverse)
{
    return _mm512_cvtps_epi32(_mm512_mul_ps(value, _mm512_set1_ps(inverse)));
}

static void encode_avx512(int8_t *code, const float *src, uint64_t n, float inverse)
{
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm_storeu_si128((__m128i *)(code + i),
                         _mm512_cvtsepi32_epi8(steps_of(_mm512_loadu_ps(src + i), inverse)));
    if (i < n) {
        __mmask16 live = live_lanes(n - i);
        __m512i steps = steps_of(_mm512_maskz_loadu_ps(live, src + i), inverse);
        _mm_mask_storeu_epi8(code + i, live, _mm512_cvtsepi32_epi8(steps));
    }
}

static inline void feedback_16(int8_t *code, const float *src, float *residual, float inverse,
                               float scale, __mmask16 live)
{
    __m512 value = fed(src, residual, live);
    __m512i steps = steps_of(value, inverse);
    __m512 decoded = _mm512_mul_ps(_mm512_cvtepi32_ps(steps), _mm512_set1_ps(scale));

    _mm_mask_storeu_epi8(code, live, _mm512_cvtsepi32_epi8(steps));
    _mm512_mask_storeu_ps(residual, live, _mm512_sub_ps(value, decoded));
}

static void encode_feedback_avx512(int8_t *code, const float *src, float *residual, uint64_t n,
                                   float inverse, float scale)
{
    for (uint64_t i = 0; i < n; i += 16)
        feedback_16(code + i, src + i, residual + i, inverse, scale, live_lanes(n - i));
}

static inline __m512 value_of(__m128i code, float scale)
{
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(code)), _mm512_set1_ps(scale));
}

static void decode_avx512(float *dst, const int8_t *code, uint64_t n, float scale)
{
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i, value_of(_mm_loadu_si128((const __m128i *)(code + i)), scale));
    if (i < n) {
        __mmask16 live = live_lanes(n - i);
        _mm512_mask_storeu_ps(dst + i, live, value_of(_mm_maskz_loadu_epi8(live, code + i), scale));
    }
}

static void decode_add_avx512(float *dst, const int8_t *code, uint64_t n, float scale)
{
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 value = value_of(_mm_loadu_si128((const __m128i *)(code + i)), scale);
        _mm512_storeu_ps(dst + i, _mm512_add_ps(_mm512_loadu_ps(dst + i), value));
    }
    if (i < n) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = value_of(_mm_maskz_loadu_epi8(live, code + i), scale);
        _mm512_mask_storeu_ps(dst + i, live,
                              _mm512_add_ps(_mm512_maskz_loadu_ps(live, dst + i), value));
    }
}

const struct wring_quant_kernels wring_quant_avx512 = {
    peak_avx512, encode_avx512, encode_feedback_avx512, decode_avx512, decode_add_avx512,
};
