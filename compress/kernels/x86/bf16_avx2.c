/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "compress/kernels/bf16.h"
#include "compress/kernels/x86/code16_avx2.h"

#define STEP 16 /* elements at a time; a shorter rest goes through a padded copy */

static inline __m256i finite_lanes(__m256i bits)
{
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(WRING_ABS_BITS));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(WRING_INF_BITS), magnitude);
}

/** The upper half of each lane becomes the code; the lower one is rubbish. Finite values only. */
static inline __m256i round_up(__m256i bits)
{
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    return _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
}

/** Of any values: the code of each lane, in its lower half. */
static inline __m256i narrow(__m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(WRING_ABS_BITS));
    __m256i capped = _mm256_min_epu32(magnitude, _mm256_set1_epi32(WRING_BF16_TOP));
    __m256i sign = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(0x8000));
    __m256i code = _mm256_or_si256(_mm256_srli_epi32(round_up(capped), 16), sign);
    return _mm256_blendv_epi8(_mm256_set1_epi32(WRING_BF16_NAN), code, finite_lanes(bits));
}

/** Would one of the values become infinite, or is it already, or NaN? */
static inline bool is_special(__m256i low, __m256i high)
{
    const __m256i magnitude = _mm256_set1_epi32(WRING_ABS_BITS);
    __m256i largest =
        _mm256_max_epu32(_mm256_and_si256(low, magnitude), _mm256_and_si256(high, magnitude));
    __m256i above = _mm256_cmpgt_epi32(largest, _mm256_set1_epi32(WRING_BF16_TOP));
    return !_mm256_testz_si256(above, above);
}

static inline __m256i pack(__m256i low, __m256i high)
{
    /* interleaves halves: put them back */
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
}

static inline __m256 load_8(const uint16_t *code)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)code));
    __m256i bits = _mm256_slli_epi32(wide, 16);
    return _mm256_castsi256_ps(
        _mm256_blendv_epi8(_mm256_set1_epi32(WRING_NAN_BITS), bits, finite_lanes(bits)));
}

static inline __m256i encode_16(const float *src)
{
    __m256 low = _mm256_loadu_ps(src), high = _mm256_loadu_ps(src + 8);
    __m256i low_bits = _mm256_castps_si256(low), high_bits = _mm256_castps_si256(high);

    if (__builtin_expect(is_special(low_bits, high_bits), 0))
        return pack(narrow(low), narrow(high));
    return pack(_mm256_srli_epi32(round_up(low_bits), 16),
                _mm256_srli_epi32(round_up(high_bits), 16));
}

/** @return how many of n are done: whole steps. @param streaming code begins a line */
static inline uint64_t encode_steps(uint16_t *code, const float *src, uint64_t n, bool streaming)
{
    uint64_t i = 0;
    for (; i + STEP <= n; i += STEP) {
        __m256i codes = encode_16(src + i);
        if (streaming)
            _mm256_stream_si256((__m256i *)(code + i), codes);
        else
            _mm256_storeu_si256((__m256i *)(code + i), codes);
    }
    return i;
}

static void encode_any(uint16_t *code, const float *src, uint64_t n)
{
    uint64_t i = encode_steps(code, src, n, false);
    uint16_t codes[STEP];
    float rest[STEP] = {0};

    if (i == n)
        return;
    memcpy(rest, src + i, (n - i) * sizeof(*src));
    encode_steps(codes, rest, STEP, false);
    memcpy(code + i, codes, (n - i) * sizeof(*code));
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

static void encode_avx2(void *code, const float *src, uint64_t n)
{
    uint16_t *out = code;
    uint64_t i = 0;

    if (WRING_IS_LONG(n) && WRING_MEETS_LINE(code, 2)) {
        i = WRING_LEAD(code, 2, n);
        encode_any(out, src, i);
        i += encode_pages(out + i, src + i, n - i);
    }
    encode_any(out + i, src + i, n - i);
}

static inline __m256i feedback_8(const float *src, float *residual)
{
    __m256 before = _mm256_loadu_ps(residual);
    __m256 value = _mm256_add_ps(_mm256_loadu_ps(src), before);
    __m256i code = narrow(value);
    __m256 lost = _mm256_sub_ps(value, _mm256_castsi256_ps(_mm256_slli_epi32(code, 16)));
    __m256 finite = _mm256_castsi256_ps(finite_lanes(_mm256_castps_si256(value)));

    _mm256_storeu_ps(residual, _mm256_blendv_ps(before, lost, finite));
    return code;
}

static inline void feedback_16(uint16_t *code, const float *src, float *residual)
{
    __m256i low = feedback_8(src, residual);
    _mm256_storeu_si256((__m256i *)code, pack(low, feedback_8(src + 8, residual + 8)));
}

static void encode_feedback_avx2(void *code, const float *src, float *residual, uint64_t n)
{
    uint16_t *out = code, codes[STEP];
    float rest[STEP] = {0}, left[STEP] = {0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        feedback_16(out + i, src + i, residual + i);
    if (i == n)
        return;
    memcpy(rest, src + i, (n - i) * sizeof(*src));
    memcpy(left, residual + i, (n - i) * sizeof(*src));
    feedback_16(codes, rest, left);
    memcpy(out + i, codes, (n - i) * sizeof(*out));
    memcpy(residual + i, left, (n - i) * sizeof(*src));
}

const struct wring_bf16_kernels wring_bf16_avx2 = {
    encode_avx2,
    encode_feedback_avx2,
    decode_avx2,
    decode_add_avx2,
};
