/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/fp16.h"
#include "compress/kernels/x86/code16_avx512.h"

static inline __mmask16 is_finite(__m512 value)
{
    __m512i magnitude =
        _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(WRING_ABS_BITS));
    return _mm512_cmplt_epu32_mask(magnitude, _mm512_set1_epi32(WRING_INF_BITS));
}

/** Of any values. */
static inline __m256i narrow(__m512 value, __m512i top)
{
    __m512i bits = _mm512_castps_si512(value);
    __m512i magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(WRING_ABS_BITS));
    __m512i sign = _mm512_andnot_si512(_mm512_set1_epi32(WRING_ABS_BITS), bits);
    __m512i capped = _mm512_or_si512(_mm512_min_epu32(magnitude, top), sign);
    __m256i code = _mm512_cvtps_ph(_mm512_castsi512_ps(capped), _MM_FROUND_TO_NEAREST_INT);
    return _mm256_mask_mov_epi16(_mm256_set1_epi16(WRING_FP16_NAN), is_finite(value), code);
}

/** As the processor does it: right, unless is_special() objects to the code. */
static inline __m512i narrow_32(__m512 low, __m512 high)
{
    __m512i code = _mm512_castsi256_si512(_mm512_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
    return _mm512_inserti64x4(code, _mm512_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT), 1);
}

/** Is one of the codes infinite or NaN? */
static inline bool is_special(__m512i code)
{
    __m512i twice = _mm512_add_epi16(code, code); /* without the signs */
    return _mm512_cmpge_epu16_mask(twice, _mm512_set1_epi16((short)(2 * WRING_FP16_INF))) != 0;
}

static inline __m512 widen(__m256i code)
{
    __m512 value = _mm512_cvtph_ps(code);
    __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(value, nan, _mm512_castsi512_ps(_mm512_set1_epi32(WRING_NAN_BITS)));
}

/** Any number of any values. */
static void encode_any(uint16_t *code, const float *src, uint64_t n, __m512i top)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m256i narrowed = narrow(_mm512_maskz_loadu_ps(live, src + i), top);
        _mm256_mask_storeu_epi16(code + i, live, narrowed);
    }
}

/** @return how many of n are done: whole steps */
static inline uint64_t encode_steps(uint16_t *code, const float *src, uint64_t n, __m512i top,
                                    bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m512i line = narrow_32(_mm512_loadu_ps(src + i), _mm512_loadu_ps(src + i + 16));
        if (__builtin_expect(is_special(line), 0))
            encode_any(code + i, src + i, STEP, top);
        else
            put_line(code + i, line, streaming);
    }
    return i;
}

static uint64_t encode_pages(uint16_t *code, const float *src, uint64_t n, __m512i top)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_fetch(src + i, WRING_PAGE * sizeof(*src));
        encode_steps(code + i, src + i, WRING_PAGE, top, true);
    }
    _mm_sfence();
    return i;
}

static void encode_avx512(void *code, const float *src, uint64_t n, uint32_t top)
{
    __m512i tops = _mm512_set1_epi32((int)top);
    uint64_t i = WRING_LEAD(code, 2, n);
    uint16_t *out = code;

    encode_any(out, src, i, tops);
    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(code, 2))
        i += encode_pages(out + i, src + i, n - i, tops);
    i += encode_steps(out + i, src + i, n - i, tops, false);
    encode_any(out + i, src + i, n - i, tops);
}

static void feedback_any(uint16_t *code, const float *src, float *residual, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = _mm512_add_ps(_mm512_maskz_loadu_ps(live, src + i),
                                     _mm512_maskz_loadu_ps(live, residual + i));
        __m256i narrowed = narrow(value, _mm512_set1_epi32(WRING_FP16_SATURATE));
        __m512 lost = _mm512_sub_ps(value, _mm512_cvtph_ps(narrowed));
        _mm256_mask_storeu_epi16(code + i, live, narrowed);
        _mm512_mask_storeu_ps(residual + i, live & is_finite(value), lost);
    }
}

static inline uint64_t feedback_steps(uint16_t *code, const float *src, float *residual, uint64_t n,
                                      bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m512 low = _mm512_add_ps(_mm512_loadu_ps(src + i), _mm512_loadu_ps(residual + i));
        __m512 high =
            _mm512_add_ps(_mm512_loadu_ps(src + i + 16), _mm512_loadu_ps(residual + i + 16));
        __m512i line = narrow_32(low, high);
        if (__builtin_expect(is_special(line), 0)) {
            feedback_any(code + i, src + i, residual + i, STEP);
            continue;
        }
        __m512 low_sent = _mm512_cvtph_ps(_mm512_castsi512_si256(line));
        __m512 high_sent = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(line, 1));
        put_line(code + i, line, streaming);
        _mm512_storeu_ps(residual + i, _mm512_sub_ps(low, low_sent));
        _mm512_storeu_ps(residual + i + 16, _mm512_sub_ps(high, high_sent));
    }
    return i;
}

static inline void add_16(float *dst, const uint16_t *code)
{
    /* a NaN may keep its payload */
    __m512 value = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)code));
    _mm512_storeu_ps(dst, _mm512_add_ps(_mm512_loadu_ps(dst), value));
}

static inline uint64_t add_steps(float *dst, const uint16_t *code, uint64_t n)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        add_16(dst + i, code + i);
        add_16(dst + i + 16, code + i + 16);
    }
    return i;
}

const struct wring_fp16_kernels wring_fp16_avx512 = {
    encode_avx512,
    encode_feedback_avx512,
    decode_avx512,
    decode_add_avx512,
};
