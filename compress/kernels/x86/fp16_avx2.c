/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "compress/kernels/fp16.h"
#include "compress/kernels/x86/code16_avx2.h"

#define STEP 8 /* elements at a time; a shorter rest goes through a padded copy */

static inline __m256i finite_lanes(__m256i bits)
{
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(WRING_ABS_BITS));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(WRING_INF_BITS), magnitude);
}

static inline __m128i narrow(__m256 value, __m256i top)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(WRING_ABS_BITS));
    __m256i sign = _mm256_andnot_si256(_mm256_set1_epi32(WRING_ABS_BITS), bits);
    __m256 capped = _mm256_castsi256_ps(_mm256_or_si256(_mm256_min_epu32(magnitude, top), sign));
    __m128i code = _mm256_cvtps_ph(capped, _MM_FROUND_TO_NEAREST_INT);
    __m256i finite = finite_lanes(bits);
    __m128i keep =
        _mm_packs_epi32(_mm256_castsi256_si128(finite), _mm256_extracti128_si256(finite, 1));
    return _mm_blendv_epi8(_mm_set1_epi16(WRING_FP16_NAN), code, keep);
}

static inline __m256 widen(__m128i code)
{
    __m256 value = _mm256_cvtph_ps(code);
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(WRING_NAN_BITS));
    return _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

/** Is one of the codes infinite or NaN? */
static inline bool is_special(__m256i codes)
{
    const __m256i least = _mm256_set1_epi16((short)(2 * WRING_FP16_INF));
    __m256i twice = _mm256_add_epi16(codes, codes); /* without the signs */
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(_mm256_max_epu16(twice, least), twice)) != 0;
}

/** As the processor does it, where that is right. */
static inline __m256i encode_16(const float *src, __m256i top)
{
    __m256 low = _mm256_loadu_ps(src), high = _mm256_loadu_ps(src + 8);
    __m256i codes = _mm256_set_m128i(_mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT),
                                     _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));

    if (__builtin_expect(is_special(codes), 0))
        return _mm256_set_m128i(narrow(high, top), narrow(low, top));
    return codes;
}

/** @return how many of n are done: whole steps of 16. @param streaming code begins a line */
static inline uint64_t encode_steps(uint16_t *code, const float *src, uint64_t n, __m256i top,
                                    bool streaming)
{
    uint64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m256i codes = encode_16(src + i, top);
        if (streaming)
            _mm256_stream_si256((__m256i *)(code + i), codes);
        else
            _mm256_storeu_si256((__m256i *)(code + i), codes);
    }
    return i;
}

static void encode_any(uint16_t *code, const float *src, uint64_t n, __m256i top)
{
    uint64_t i = encode_steps(code, src, n, top, false);
    uint16_t codes[16];
    float rest[16] = {0};

    if (i == n)
        return;
    memcpy(rest, src + i, (n - i) * sizeof(*src));
    encode_steps(codes, rest, 16, top, false);
    memcpy(code + i, codes, (n - i) * sizeof(*code));
}

static uint64_t encode_pages(uint16_t *code, const float *src, uint64_t n, __m256i top)
{
    uint64_t i = 0;
    for (; i + WRING_PAGE <= n; i += WRING_PAGE) {
        wring_streaming_fetch(src + i, WRING_PAGE * sizeof(*src));
        encode_steps(code + i, src + i, WRING_PAGE, top, true);
    }
    _mm_sfence();
    return i;
}

static void encode_avx2(void *code, const float *src, uint64_t n, uint32_t top)
{
    __m256i tops = _mm256_set1_epi32((int)top);
    uint16_t *out = code;
    uint64_t i = 0;

    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(code, 2)) {
        i = WRING_LEAD(code, 2, n);
        encode_any(out, src, i, tops);
        i += encode_pages(out + i, src + i, n - i, tops);
    }
    encode_any(out + i, src + i, n - i, tops);
}

static inline void feedback_8(uint16_t *code, const float *src, float *residual)
{
    __m256 before = _mm256_loadu_ps(residual);
    __m256 value = _mm256_add_ps(_mm256_loadu_ps(src), before);
    __m128i narrowed = narrow(value, _mm256_set1_epi32(WRING_FP16_SATURATE));
    __m256 lost = _mm256_sub_ps(value, _mm256_cvtph_ps(narrowed));
    __m256 finite = _mm256_castsi256_ps(finite_lanes(_mm256_castps_si256(value)));

    _mm_storeu_si128((__m128i *)code, narrowed);
    _mm256_storeu_ps(residual, _mm256_blendv_ps(before, lost, finite));
}

static void encode_feedback_avx2(void *code, const float *src, float *residual, uint64_t n)
{
    uint16_t *out = code, codes[STEP];
    float rest[STEP] = {0}, left[STEP] = {0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        feedback_8(out + i, src + i, residual + i);
    if (i == n)
        return;
    memcpy(rest, src + i, (n - i) * sizeof(*src));
    memcpy(left, residual + i, (n - i) * sizeof(*src));
    feedback_8(codes, rest, left);
    memcpy(out + i, codes, (n - i) * sizeof(*out));
    memcpy(residual + i, left, (n - i) * sizeof(*src));
}

static inline __m256 load_8(const uint16_t *code)
{
    return widen(_mm_loadu_si128((const __m128i *)code));
}

const struct wring_fp16_kernels wring_fp16_avx2 = {
    encode_avx2,
    encode_feedback_avx2,
    decode_avx2,
    decode_add_avx2,
};
