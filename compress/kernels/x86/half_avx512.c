/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "compress/kernels/half.h"

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

static inline __m512i magnitude_of(__m512 value)
{
    return _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(WRING_ABS_BITS));
}

static inline __mmask16 is_finite(__m512i magnitude)
{
    return _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(WRING_INF_BITS));
}

static inline __m256i narrow(__m512 value, __m512i top)
{
    __m512i magnitude = magnitude_of(value);
    __m512i sign =
        _mm512_andnot_si512(_mm512_set1_epi32(WRING_ABS_BITS), _mm512_castps_si512(value));
    __m512i capped = _mm512_or_si512(_mm512_min_epu32(magnitude, top), sign);
    __m256i code = _mm512_cvtps_ph(_mm512_castsi512_ps(capped), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_mask_mov_epi16(_mm256_set1_epi16(WRING_HALF_NAN), is_finite(magnitude), code);
}

static inline __m512 widen(__m256i code)
{
    __m512 value = _mm512_cvtph_ps(code);
    __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(value, nan, _mm512_castsi512_ps(_mm512_set1_epi32(WRING_NAN_BITS)));
}

static void encode_avx512(void *code, const float *src, uint64_t n, uint32_t top)
{
    __m512i tops = _mm512_set1_epi32((int)top);
    uint16_t *out = code;
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(out + i), narrow(_mm512_loadu_ps(src + i), tops));
    if (i < n) {
        __mmask16 live = live_lanes(n - i);
        __m256i last = narrow(_mm512_maskz_loadu_ps(live, src + i), tops);
        _mm256_mask_storeu_epi16(out + i, live, last);
    }
}

static inline void feedback_16(uint16_t *code, const float *src, float *residual, __mmask16 live)
{
    __m512 value =
        _mm512_add_ps(_mm512_maskz_loadu_ps(live, src), _mm512_maskz_loadu_ps(live, residual));
    __m256i narrowed = narrow(value, _mm512_set1_epi32(WRING_HALF_SATURATE));
    __m512 lost = _mm512_sub_ps(value, _mm512_cvtph_ps(narrowed));

    _mm256_mask_storeu_epi16(code, live, narrowed);
    _mm512_mask_storeu_ps(residual, live & is_finite(magnitude_of(value)), lost);
}

static void encode_feedback_avx512(void *code, const float *src, float *residual, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16)
        feedback_16((uint16_t *)code + i, src + i, residual + i, live_lanes(n - i));
}

static void decode_avx512(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm512_storeu_ps(dst + i, widen(_mm256_loadu_si256((const __m256i *)(in + i))));
    if (i < n) {
        __mmask16 live = live_lanes(n - i);
        _mm512_mask_storeu_ps(dst + i, live, widen(_mm256_maskz_loadu_epi16(live, in + i)));
    }
}

static void decode_add_avx512(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512 value = widen(_mm256_loadu_si256((const __m256i *)(in + i)));
        _mm512_storeu_ps(dst + i, _mm512_add_ps(_mm512_loadu_ps(dst + i), value));
    }
    if (i < n) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = widen(_mm256_maskz_loadu_epi16(live, in + i));
        _mm512_mask_storeu_ps(dst + i, live,
                              _mm512_add_ps(_mm512_maskz_loadu_ps(live, dst + i), value));
    }
}

const struct wring_half_kernels wring_half_avx512 = {
    encode_avx512,
    encode_feedback_avx512,
    decode_avx512,
    decode_add_avx512,
};
