/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "compress/kernels/narrow.h"

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

/** The code of each lane, in its lower half. */
static inline __m512i narrow(__m512 value)
{
    __m512i magnitude = magnitude_of(value);
    __m512i capped = _mm512_min_epu32(magnitude, _mm512_set1_epi32(WRING_NARROW_TOP));
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(capped, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(_mm512_add_epi32(capped, _mm512_set1_epi32(0x7FFF)), odd);
    __m512i sign = _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(value), 16),
                                    _mm512_set1_epi32(0x8000));
    __m512i code = _mm512_or_si512(_mm512_srli_epi32(rounded, 16), sign);
    return _mm512_mask_mov_epi32(_mm512_set1_epi32(WRING_NARROW_NAN), is_finite(magnitude), code);
}

static inline __m512 widen(__m256i code)
{
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(code), 16);
    __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(WRING_ABS_BITS));
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(_mm512_set1_epi32(WRING_NAN_BITS), is_finite(magnitude), bits));
}

static void encode_avx512(void *code, const float *src, uint64_t n)
{
    uint16_t *out = code;
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16)
        _mm256_storeu_si256((__m256i *)(out + i),
                            _mm512_cvtepi32_epi16(narrow(_mm512_loadu_ps(src + i))));
    if (i < n) {
        __mmask16 live = live_lanes(n - i);
        __m512i last = narrow(_mm512_maskz_loadu_ps(live, src + i));
        _mm256_mask_storeu_epi16(out + i, live, _mm512_cvtepi32_epi16(last));
    }
}

static inline void feedback_16(uint16_t *code, const float *src, float *residual, __mmask16 live)
{
    __m512 value =
        _mm512_add_ps(_mm512_maskz_loadu_ps(live, src), _mm512_maskz_loadu_ps(live, residual));
    __m512i narrowed = narrow(value);
    __m512 lost = _mm512_sub_ps(value, _mm512_castsi512_ps(_mm512_slli_epi32(narrowed, 16)));

    _mm256_mask_storeu_epi16(code, live, _mm512_cvtepi32_epi16(narrowed));
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

const struct wring_narrow_kernels wring_narrow_avx512 = {
    encode_avx512,
    encode_feedback_avx512,
    decode_avx512,
    decode_add_avx512,
};
