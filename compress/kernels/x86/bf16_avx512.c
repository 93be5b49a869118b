/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/bf16.h"
#include "compress/kernels/x86/code16_avx512.h"

static inline __m512i magnitude_of(__m512i bits)
{
    return _mm512_and_si512(bits, _mm512_set1_epi32(WRING_ABS_BITS));
}

static inline __mmask16 is_finite(__m512i bits)
{
    return _mm512_cmplt_epu32_mask(magnitude_of(bits), _mm512_set1_epi32(WRING_INF_BITS));
}

/** The upper half of each lane becomes the code; the lower one is rubbish. Finite values only. */
static inline __m512i round_up(__m512i bits)
{
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
}

/** May one of the values round to infinity, or is it infinite already, or NaN? */
static inline bool is_near_top(__m512i upper_halves)
{
    __m512i twice = _mm512_add_epi16(upper_halves, upper_halves); /* without the signs */
    return _mm512_cmpge_epu16_mask(twice, _mm512_set1_epi16((short)(2 * (WRING_BF16_TOP >> 16)))) !=
           0;
}

/** Of any values: the code of each lane in its upper half, above zeros. */
static inline __m512i narrow(__m512i bits)
{
    __m512i top = _mm512_set1_epi32(WRING_BF16_TOP);
    __m512i sign = _mm512_andnot_si512(_mm512_set1_epi32(WRING_ABS_BITS), bits);
    __m512i capped = _mm512_or_si512(_mm512_min_epu32(magnitude_of(bits), top), sign);
    __m512i code = _mm512_and_si512(round_up(capped), _mm512_set1_epi32((int)0xFFFF0000));
    return _mm512_mask_mov_epi32(_mm512_set1_epi32(WRING_NAN_BITS), is_finite(bits), code);
}

static inline void put_codes(uint16_t *at, __mmask16 live, __m512i codes)
{
    _mm256_mask_storeu_epi16(at, live, _mm512_cvtepi32_epi16(_mm512_srli_epi32(codes, 16)));
}

/** Any number of any values. */
static void encode_any(uint16_t *code, const float *src, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        put_codes(code + i, live, narrow(_mm512_maskz_loadu_epi32(live, src + i)));
    }
}

/** Every other word of both, from the first on or from the second. */
static inline __m512i words(__m512i low, __m512i high, bool upper)
{
    const __m512i first =
        _mm512_set_epi16(62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26,
                         24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i index = upper ? _mm512_add_epi16(first, _mm512_set1_epi16(1)) : first;
    return _mm512_permutex2var_epi16(low, index, high);
}

/** upper halves plus the carry of lower + 0x7FFF + (upper & 1) */
static inline __m512i round_halves(__m512i upper, __m512i lower)
{
    __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi16(1));
    __mmask32 carry =
        _mm512_cmpgt_epu16_mask(_mm512_adds_epu16(lower, odd), _mm512_set1_epi16((short)0x8000));
    return _mm512_mask_add_epi16(upper, carry, upper, _mm512_set1_epi16(1));
}

/** @return how many of n are done: whole steps */
static inline uint64_t encode_steps(uint16_t *code, const float *src, uint64_t n, bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m512i low = _mm512_loadu_si512(src + i), high = _mm512_loadu_si512(src + i + 16);
        __m512i upper = words(low, high, true);
        if (__builtin_expect(is_near_top(upper), 0))
            encode_any(code + i, src + i, STEP);
        else
            put_line(code + i, round_halves(upper, words(low, high, false)), streaming);
    }
    return i;
}

static uint64_t encode_pages(uint16_t *code, const float *src, uint64_t n)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_fetch(src + i, WRING_PAGE * sizeof(*src));
        encode_steps(code + i, src + i, WRING_PAGE, true);
    }
    _mm_sfence();
    return i;
}

static void encode_avx512(void *code, const float *src, uint64_t n)
{
    uint64_t i = WRING_LEAD(code, 2, n);
    uint16_t *out = code;

    encode_any(out, src, i);
    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(code, 2))
        i += encode_pages(out + i, src + i, n - i);
    i += encode_steps(out + i, src + i, n - i, false);
    encode_any(out + i, src + i, n - i);
}

static inline __m512i fed(__m512 src, __m512 residual)
{
    return _mm512_castps_si512(_mm512_add_ps(src, residual));
}

/** value - code, both as bits. */
static inline __m512 lost(__m512i value, __m512i code)
{
    return _mm512_sub_ps(_mm512_castsi512_ps(value), _mm512_castsi512_ps(code));
}

static void feedback_any(uint16_t *code, const float *src, float *residual, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512i value =
            fed(_mm512_maskz_loadu_ps(live, src + i), _mm512_maskz_loadu_ps(live, residual + i));
        __m512i narrowed = narrow(value);
        put_codes(code + i, live, narrowed);
        _mm512_mask_storeu_ps(residual + i, live & is_finite(value), lost(value, narrowed));
    }
}

static inline uint64_t feedback_steps(uint16_t *code, const float *src, float *residual, uint64_t n,
                                      bool streaming)
{
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000);
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        __m512i low = fed(_mm512_loadu_ps(src + i), _mm512_loadu_ps(residual + i));
        __m512i high = fed(_mm512_loadu_ps(src + i + 16), _mm512_loadu_ps(residual + i + 16));
        __m512i low_code = round_up(low), high_code = round_up(high);
        if (__builtin_expect(is_near_top(words(low, high, true)), 0)) {
            feedback_any(code + i, src + i, residual + i, STEP);
            continue;
        }
        put_line(code + i, words(low_code, high_code, true), streaming);
        _mm512_storeu_ps(residual + i, lost(low, _mm512_and_si512(low_code, upper)));
        _mm512_storeu_ps(residual + i + 16, lost(high, _mm512_and_si512(high_code, upper)));
    }
    return i;
}

static inline __m512 widen(__m256i code)
{
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(code), 16);
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(_mm512_set1_epi32(WRING_NAN_BITS), is_finite(bits), bits));
}

/** Has a code all exponent bits? It decodes to NaN. */
static inline bool is_special(__m512i codes)
{
    __m512i twice = _mm512_add_epi16(codes, codes); /* without the signs */
    return _mm512_cmpge_epu16_mask(twice, _mm512_set1_epi16((short)(2 * (WRING_INF_BITS >> 16)))) !=
           0;
}

static inline void add_16(float *dst, __m256i code)
{
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(code), 16);
    _mm512_storeu_ps(dst, _mm512_add_ps(_mm512_loadu_ps(dst), _mm512_castsi512_ps(bits)));
}

static inline uint64_t add_steps(float *dst, const uint16_t *code, uint64_t n)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m512i codes = _mm512_loadu_si512(code + i); /* once: it may change meanwhile */
        if (__builtin_expect(is_special(codes), 0)) {
            decode_any(dst + i, code + i, STEP, true);
            continue;
        }
        add_16(dst + i, _mm512_castsi512_si256(codes));
        add_16(dst + i + 16, _mm512_extracti64x4_epi64(codes, 1));
    }
    return i;
}

const struct wring_bf16_kernels wring_bf16_avx512 = {
    encode_avx512,
    encode_feedback_avx512,
    decode_avx512,
    decode_add_avx512,
};
