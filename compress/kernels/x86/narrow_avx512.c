/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>

#include "compress/kernels/narrow.h"
#include "compress/kernels/store.h"

#define STEP 32 /* elements at a time: a line of code, two of values */

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

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

/** Would one of the values become infinite, or is it already, or NaN? */
static inline bool is_special(__m512i low, __m512i high)
{
    __m512i largest = _mm512_max_epu32(magnitude_of(low), magnitude_of(high));
    return _mm512_cmpgt_epu32_mask(largest, _mm512_set1_epi32(WRING_NARROW_TOP)) != 0;
}

/** The upper halves of all lanes of both. */
static inline __m512i upper_halves(__m512i low, __m512i high)
{
    const __m512i odd_words =
        _mm512_set_epi16(63, 61, 59, 57, 55, 53, 51, 49, 47, 45, 43, 41, 39, 37, 35, 33, 31, 29, 27,
                         25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return _mm512_permutex2var_epi16(low, odd_words, high);
}

/** Of any values: the code of each lane in its upper half, above zeros. */
static inline __m512i narrow(__m512i bits)
{
    __m512i top = _mm512_set1_epi32(WRING_NARROW_TOP);
    __m512i sign = _mm512_andnot_si512(_mm512_set1_epi32(WRING_ABS_BITS), bits);
    __m512i capped = _mm512_or_si512(_mm512_min_epu32(magnitude_of(bits), top), sign);
    __m512i code = _mm512_and_si512(round_up(capped), _mm512_set1_epi32((int)0xFFFF0000));
    return _mm512_mask_mov_epi32(_mm512_set1_epi32(WRING_NAN_BITS), is_finite(bits), code);
}

static inline void put_codes(uint16_t *at, __mmask16 live, __m512i codes)
{
    _mm256_mask_storeu_epi16(at, live, _mm512_cvtepi32_epi16(_mm512_srli_epi32(codes, 16)));
}

static inline void put_line(void *at, __m512i line, bool streaming)
{
    if (streaming)
        _mm512_stream_si512(at, line);
    else
        _mm512_storeu_si512(at, line);
}

/** Any number of any values. */
static void encode_any(uint16_t *code, const float *src, uint64_t n)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        put_codes(code + i, live, narrow(_mm512_maskz_loadu_epi32(live, src + i)));
    }
}

/** @return how many of n are done: whole steps */
static inline uint64_t encode_steps(uint16_t *code, const float *src, uint64_t n, bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m512i low = _mm512_loadu_si512(src + i), high = _mm512_loadu_si512(src + i + 16);
        if (__builtin_expect(is_special(low, high), 0))
            encode_any(code + i, src + i, STEP);
        else
            put_line(code + i, upper_halves(round_up(low), round_up(high)), streaming);
    }
    return i;
}

static void encode_avx512(void *code, const float *src, uint64_t n)
{
    uint64_t i = WRING_LEAD(code, 2, n);

    encode_any(code, src, i);
    if (WRING_STREAMS(code, 2, n)) {
        i += encode_steps((uint16_t *)code + i, src + i, n - i, true);
        _mm_sfence();
    } else {
        i += encode_steps((uint16_t *)code + i, src + i, n - i, false);
    }
    encode_any((uint16_t *)code + i, src + i, n - i);
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

static void encode_feedback_avx512(void *code, const float *src, float *residual, uint64_t n)
{
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000);
    uint16_t *out = code;
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        __m512i low = fed(_mm512_loadu_ps(src + i), _mm512_loadu_ps(residual + i));
        __m512i high = fed(_mm512_loadu_ps(src + i + 16), _mm512_loadu_ps(residual + i + 16));
        if (__builtin_expect(is_special(low, high), 0)) {
            feedback_any(out + i, src + i, residual + i, STEP);
            continue;
        }
        __m512i low_code = round_up(low), high_code = round_up(high);
        _mm512_storeu_si512(out + i, upper_halves(low_code, high_code));
        _mm512_storeu_ps(residual + i, lost(low, _mm512_and_si512(low_code, upper)));
        _mm512_storeu_ps(residual + i + 16, lost(high, _mm512_and_si512(high_code, upper)));
    }
    feedback_any(out + i, src + i, residual + i, n - i);
}

static inline __m512 widen(__m256i code)
{
    __m512i bits = _mm512_slli_epi32(_mm512_cvtepu16_epi32(code), 16);
    return _mm512_castsi512_ps(
        _mm512_mask_mov_epi32(_mm512_set1_epi32(WRING_NAN_BITS), is_finite(bits), bits));
}

/** The last few elements, in decode and decode_add alike. */
static void decode_any(float *dst, const uint16_t *code, uint64_t n, bool add)
{
    for (uint64_t i = 0; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = widen(_mm256_maskz_loadu_epi16(live, code + i));
        if (add)
            value = _mm512_add_ps(_mm512_maskz_loadu_ps(live, dst + i), value);
        _mm512_mask_storeu_ps(dst + i, live, value);
    }
}

static inline uint64_t decode_steps(float *dst, const uint16_t *code, uint64_t n, bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m256i low = _mm256_loadu_si256((const __m256i *)(code + i));
        __m256i high = _mm256_loadu_si256((const __m256i *)(code + i + 16));
        put_line(dst + i, _mm512_castps_si512(widen(low)), streaming);
        put_line(dst + i + 16, _mm512_castps_si512(widen(high)), streaming);
    }
    return i;
}

static void decode_avx512(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint64_t i = WRING_LEAD(dst, 4, n);

    decode_any(dst, in, i, false);
    if (WRING_STREAMS(dst, 4, n)) {
        i += decode_steps(dst + i, in + i, n - i, true);
        _mm_sfence();
    } else {
        i += decode_steps(dst + i, in + i, n - i, false);
    }
    decode_any(dst + i, in + i, n - i, false);
}

static inline void add_16(float *dst, const uint16_t *code)
{
    __m512 value = widen(_mm256_loadu_si256((const __m256i *)code));
    _mm512_storeu_ps(dst, _mm512_add_ps(_mm512_loadu_ps(dst), value));
}

static void decode_add_avx512(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint64_t i = WRING_LEAD(dst, 4, n);

    decode_any(dst, in, i, true);
    for (; i + STEP <= n; i += STEP) {
        add_16(dst + i, in + i);
        add_16(dst + i + 16, in + i + 16);
    }
    decode_any(dst + i, in + i, n - i, true);
}

const struct wring_narrow_kernels wring_narrow_avx512 = {
    encode_avx512,
    encode_feedback_avx512,
    decode_avx512,
    decode_add_avx512,
};
