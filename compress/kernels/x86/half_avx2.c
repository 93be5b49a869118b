/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/half.h"

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
    return _mm_blendv_epi8(_mm_set1_epi16(WRING_HALF_NAN), code, keep);
}

static inline __m256 widen(__m128i code)
{
    __m256 value = _mm256_cvtph_ps(code);
    __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(WRING_NAN_BITS));
    return _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

static inline void encode_8(uint16_t *code, const float *src, __m256i top)
{
    _mm_storeu_si128((__m128i *)code, narrow(_mm256_loadu_ps(src), top));
}

static void encode_avx2(void *code, const float *src, uint64_t n, uint32_t top)
{
    __m256i tops = _mm256_set1_epi32((int)top);
    uint16_t *out = code, codes[STEP];
    float rest[STEP] = {0};
    uint64_t i = 0;

    for (; i + 2 * STEP <= n; i += 2 * STEP) {
        encode_8(out + i, src + i, tops);
        encode_8(out + i + STEP, src + i + STEP, tops);
    }
    for (; i + STEP <= n; i += STEP)
        encode_8(out + i, src + i, tops);
    if (i == n)
        return;
    memcpy(rest, src + i, (n - i) * sizeof(*src));
    encode_8(codes, rest, tops);
    memcpy(out + i, codes, (n - i) * sizeof(*out));
}

static inline void feedback_8(uint16_t *code, const float *src, float *residual)
{
    __m256 before = _mm256_loadu_ps(residual);
    __m256 value = _mm256_add_ps(_mm256_loadu_ps(src), before);
    __m128i narrowed = narrow(value, _mm256_set1_epi32(WRING_HALF_SATURATE));
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

static void decode_avx2(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint16_t codes[STEP] = {0};
    float rest[STEP];
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        _mm256_storeu_ps(dst + i, load_8(in + i));
    if (i == n)
        return;
    memcpy(codes, in + i, (n - i) * sizeof(*in));
    _mm256_storeu_ps(rest, load_8(codes));
    memcpy(dst + i, rest, (n - i) * sizeof(*dst));
}

static inline void add_8(float *dst, const uint16_t *code)
{
    _mm256_storeu_ps(dst, _mm256_add_ps(_mm256_loadu_ps(dst), load_8(code)));
}

static void decode_add_avx2(float *dst, const void *code, uint64_t n)
{
    const uint16_t *in = code;
    uint16_t codes[STEP] = {0};
    float rest[STEP] = {0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        add_8(dst + i, in + i);
    if (i == n)
        return;
    memcpy(codes, in + i, (n - i) * sizeof(*in));
    memcpy(rest, dst + i, (n - i) * sizeof(*dst));
    add_8(rest, codes);
    memcpy(dst + i, rest, (n - i) * sizeof(*dst));
}

const struct wring_half_kernels wring_half_avx2 = {
    encode_avx2,
    encode_feedback_avx2,
    decode_avx2,
    decode_add_avx2,
};
