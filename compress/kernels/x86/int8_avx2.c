/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/int8.h"

#define STEP 32 /* elements at a time; a shorter rest goes through a padded copy */

static inline __m256i larger(__m256i peak, __m256 value)
{
    __m256i bits = _mm256_castps_si256(value);
    return _mm256_max_epu32(peak, _mm256_and_si256(bits, _mm256_set1_epi32(WRING_ABS_BITS)));
}

static inline void peak_32(__m256i peaks[4], const float *src, const float *residual)
{
    for (int v = 0; v < 4; v++) {
        __m256 value = _mm256_loadu_ps(src + 8 * v);
        if (residual != NULL)
            value = _mm256_add_ps(value, _mm256_loadu_ps(residual + 8 * v));
        peaks[v] = larger(peaks[v], value);
    }
}

static inline uint32_t reduce_max(const __m256i peaks[4])
{
    uint32_t lanes[8], peak = 0;
    __m256i both = _mm256_max_epu32(_mm256_max_epu32(peaks[0], peaks[1]),
                                    _mm256_max_epu32(peaks[2], peaks[3]));
    _mm256_storeu_si256((__m256i *)lanes, both);
    for (int lane = 0; lane < 8; lane++)
        peak = lanes[lane] > peak ? lanes[lane] : peak;
    return peak;
}

static inline uint32_t find_peak(const float *src, const float *residual, uint64_t n)
{
    __m256i peaks[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                        _mm256_setzero_si256()};
    float rest[STEP] = {0}, left[STEP] = {0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        peak_32(peaks, src + i, residual == NULL ? NULL : residual + i);
    if (i < n) {
        memcpy(rest, src + i, (n - i) * sizeof(*src));
        if (residual != NULL)
            memcpy(left, residual + i, (n - i) * sizeof(*src));
        peak_32(peaks, rest, left);
    }
    return reduce_max(peaks);
}

/** The factor for a block's values, and the size of its steps. */
struct scale {
    float inverse, scale;
};

static inline struct scale scale_of(uint32_t peak_bits)
{
    float peak = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128((int)peak_bits)));
    float scale = peak / WRING_INT8_STEPS;

    if (peak < WRING_INT8_TINY)
        return (struct scale){0, 0}; /* all steps become 0 */
    return (struct scale){WRING_INT8_STEPS / peak,
                          scale < WRING_INT8_SCALE_MAX ? scale : WRING_INT8_SCALE_MAX};
}

static inline __m256i steps_of(__m256 value, float inverse)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(value, _mm256_set1_ps(inverse)));
}

static inline void store_steps(int8_t *code, const __m256i steps[4])
{
    __m256i low = _mm256_packs_epi32(steps[0], steps[1]);
    __m256i high = _mm256_packs_epi32(steps[2], steps[3]);
    __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packs work within halves */
    __m256i packed = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
    _mm256_storeu_si256((__m256i *)code, packed);
}

static inline void encode_32(int8_t *code, const float *src, float inverse)
{
    __m256i steps[4];
    for (int v = 0; v < 4; v++)
        steps[v] = steps_of(_mm256_loadu_ps(src + 8 * v), inverse);
    store_steps(code, steps);
}

static inline void encode_steps(int8_t *code, const float *src, uint64_t n, struct scale scale)
{
    int8_t codes[STEP];
    float rest[STEP] = {0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        encode_32(code + i, src + i, scale.inverse);
    if (i == n)
        return;
    memcpy(rest, src + i, (n - i) * sizeof(*src));
    encode_32(codes, rest, scale.inverse);
    memcpy(code + i, codes, n - i);
}

static inline void feedback_32(int8_t *code, const float *src, float *residual, float inverse,
                               float scale)
{
    __m256i steps[4];
    for (int v = 0; v < 4; v++) {
        __m256 value =
            _mm256_add_ps(_mm256_loadu_ps(src + 8 * v), _mm256_loadu_ps(residual + 8 * v));
        steps[v] = steps_of(value, inverse);
        __m256 decoded = _mm256_mul_ps(_mm256_cvtepi32_ps(steps[v]), _mm256_set1_ps(scale));
        _mm256_storeu_ps(residual + 8 * v, _mm256_sub_ps(value, decoded));
    }
    store_steps(code, steps);
}

static inline void encode_feedback(int8_t *code, const float *src, float *residual, uint64_t n,
                                   struct scale scale)
{
    int8_t codes[STEP];
    float rest[STEP] = {0}, left[STEP] = {0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        feedback_32(code + i, src + i, residual + i, scale.inverse, scale.scale);
    if (i == n)
        return;
    memcpy(rest, src + i, (n - i) * sizeof(*src));
    memcpy(left, residual + i, (n - i) * sizeof(*src));
    feedback_32(codes, rest, left, scale.inverse, scale.scale);
    memcpy(code + i, codes, n - i);
    memcpy(residual + i, left, (n - i) * sizeof(*src));
}

static inline void encode_block(uint8_t *code, const float *src, float *residual, uint64_t n)
{
    uint32_t peak = find_peak(src, residual, n), nan = WRING_NAN_BITS;
    int8_t *steps = (int8_t *)(code + WRING_INT8_HEAD);

    if (__builtin_expect(peak >= WRING_INF_BITS, 0)) {
        memcpy(code, &nan, sizeof(nan));
        memset(steps, 0, n);
        return;
    }
    struct scale scale = scale_of(peak);
    memcpy(code, &scale.scale, sizeof(scale.scale));
    if (residual != NULL)
        encode_feedback(steps, src, residual, n, scale);
    else
        encode_steps(steps, src, n, scale);
}

static void encode_avx2(uint8_t *code, const float *src, float *residual, uint64_t n,
                        uint64_t block)
{
    for (uint64_t i = 0; i < n; i += block, code += WRING_INT8_HEAD + block) {
        uint64_t live = n - i < block ? n - i : block;
        if (residual == NULL) /* each way inlined for itself */
            encode_block(code, src + i, NULL, live);
        else
            encode_block(code, src + i, residual + i, live);
    }
}

static inline __m256 value_of(const int8_t *code, float scale)
{
    __m256i steps = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)code));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(steps), _mm256_set1_ps(scale));
}

static void decode_avx2(float *dst, const int8_t *code, uint64_t n, float scale)
{
    int8_t codes[8] = {0};
    float rest[8];
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        for (unsigned v = 0; v < STEP; v += 8)
            _mm256_storeu_ps(dst + i + v, value_of(code + i + v, scale));
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, value_of(code + i, scale));
    if (i == n)
        return;
    memcpy(codes, code + i, n - i);
    _mm256_storeu_ps(rest, value_of(codes, scale));
    memcpy(dst + i, rest, (n - i) * sizeof(*dst));
}

static inline void add_8(float *dst, const int8_t *code, float scale)
{
    _mm256_storeu_ps(dst, _mm256_add_ps(_mm256_loadu_ps(dst), value_of(code, scale)));
}

static void decode_add_avx2(float *dst, const int8_t *code, uint64_t n, float scale)
{
    int8_t codes[8] = {0};
    float rest[8] = {0};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        for (unsigned v = 0; v < STEP; v += 8)
            add_8(dst + i + v, code + i + v, scale);
    for (; i + 8 <= n; i += 8)
        add_8(dst + i, code + i, scale);
    if (i == n)
        return;
    memcpy(codes, code + i, n - i);
    memcpy(rest, dst + i, (n - i) * sizeof(*dst));
    add_8(rest, codes, scale);
    memcpy(dst + i, rest, (n - i) * sizeof(*dst));
}

const struct wring_int8_kernels wring_int8_avx2 = {
    encode_avx2,
    decode_avx2,
    decode_add_avx2,
};
