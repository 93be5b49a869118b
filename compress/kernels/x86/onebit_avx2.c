/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/onebit.h"

#define STEP 32 /* elements at a time; a shorter rest goes through a padded copy */

/** Lane sums of 32 elements; v = src + residual. */
struct lanes {
    __m256 part[4];
};

static inline struct lanes no_lanes(void)
{
    struct lanes lanes;
    for (int v = 0; v < 4; v++)
        lanes.part[v] = _mm256_setzero_ps();
    return lanes;
}

/** Lane j adds lane j + half; see onebit.h. */
static inline float fold(const struct lanes *lanes)
{
    __m256 low = _mm256_add_ps(lanes->part[0], lanes->part[2]);
    __m256 high = _mm256_add_ps(lanes->part[1], lanes->part[3]);
    __m256 eight = _mm256_add_ps(low, high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

static inline __m256 absolute(__m256 value)
{
    return _mm256_and_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(WRING_ABS_BITS)));
}

static inline __m256 fed(const float *src, const float *residual)
{
    __m256 value = _mm256_loadu_ps(src);
    return residual == NULL ? value : _mm256_add_ps(value, _mm256_loadu_ps(residual));
}

static inline uint32_t signs_32(struct lanes *lanes, const float *src, const float *residual)
{
    uint32_t negative = 0;
    for (int v = 0; v < 4; v++) {
        __m256 value = fed(src + 8 * v, residual == NULL ? NULL : residual + 8 * v);
        negative |= (uint32_t)_mm256_movemask_ps(value) << 8 * v;
        lanes->part[v] = _mm256_add_ps(lanes->part[v], absolute(value));
    }
    return negative;
}

/** The rest of a run, padded with +0, which adds nothing and has no sign bit. */
struct rest {
    float src[STEP], residual[STEP];
};

static void take_rest(struct rest *rest, const float *src, const float *residual, uint64_t n)
{
    memset(rest, 0, sizeof(*rest));
    memcpy(rest->src, src, n * sizeof(*src));
    if (residual != NULL)
        memcpy(rest->residual, residual, n * sizeof(*src));
}

static float signs_avx2(uint8_t *bits, const float *src, const float *residual, uint64_t n)
{
    struct lanes lanes = no_lanes();
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        uint32_t negative = signs_32(&lanes, src + i, residual == NULL ? NULL : residual + i);
        memcpy(bits + i / 8, &negative, 4);
    }
    if (i < n) {
        struct rest rest;
        take_rest(&rest, src + i, residual == NULL ? NULL : residual + i, n - i);
        uint32_t negative = signs_32(&lanes, rest.src, residual == NULL ? NULL : rest.residual);
        memcpy(bits + i / 8, &negative, (n - i + 7) / 8);
    }
    return fold(&lanes);
}

static inline uint32_t split_32(struct lanes *plus, struct lanes *minus, const float *src,
                                const float *residual)
{
    uint32_t negative = 0;
    for (int v = 0; v < 4; v++) {
        __m256 value = fed(src + 8 * v, residual == NULL ? NULL : residual + 8 * v);
        __m256 below = _mm256_castsi256_ps(_mm256_srai_epi32(_mm256_castps_si256(value), 31));
        negative |= (uint32_t)_mm256_movemask_ps(value) << 8 * v;
        plus->part[v] = _mm256_add_ps(plus->part[v], _mm256_andnot_ps(below, absolute(value)));
        minus->part[v] = _mm256_add_ps(minus->part[v], _mm256_and_ps(below, absolute(value)));
    }
    return negative;
}

static void signs_split_avx2(uint8_t *bits, const float *src, const float *residual, uint64_t n,
                             struct wring_onebit_split *out)
{
    struct lanes plus = no_lanes(), minus = no_lanes();
    uint64_t negatives = 0, i = 0;

    for (; i + STEP <= n; i += STEP) {
        uint32_t negative =
            split_32(&plus, &minus, src + i, residual == NULL ? NULL : residual + i);
        memcpy(bits + i / 8, &negative, 4);
        negatives += (uint64_t)__builtin_popcount(negative);
    }
    if (i < n) {
        struct rest rest;
        take_rest(&rest, src + i, residual == NULL ? NULL : residual + i, n - i);
        uint32_t negative =
            split_32(&plus, &minus, rest.src, residual == NULL ? NULL : rest.residual);
        memcpy(bits + i / 8, &negative, (n - i + 7) / 8);
        negatives += (uint64_t)__builtin_popcount(negative);
    }
    *out = (struct wring_onebit_split){fold(&plus), fold(&minus), negatives};
}

static inline void keep_8(float *residual, const float *src, float positive, float negative)
{
    __m256 value = fed(src, residual);
    __m256 level = _mm256_blendv_ps(_mm256_set1_ps(positive), _mm256_set1_ps(negative), value);
    _mm256_storeu_ps(residual, _mm256_sub_ps(value, level));
}

static void keep_avx2(float *residual, const float *src, uint64_t n, float positive, float negative)
{
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        keep_8(residual + i, src + i, positive, negative);
    if (i < n) {
        struct rest rest;
        take_rest(&rest, src + i, residual + i, n - i);
        keep_8(rest.residual, rest.src, positive, negative);
        memcpy(residual + i, rest.residual, (n - i) * sizeof(*src));
    }
}

/** The level of 8 elements: a bit, shifted up to where blendv looks, chooses. */
static inline __m256 levels_8(uint8_t bits, float positive, float negative)
{
    const __m256i shifts = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    __m256i chosen = _mm256_sllv_epi32(_mm256_set1_epi32(bits), shifts);
    return _mm256_blendv_ps(_mm256_set1_ps(positive), _mm256_set1_ps(negative),
                            _mm256_castsi256_ps(chosen));
}

static void spread_avx2(float *dst, const uint8_t *bits, uint64_t n, float positive, float negative)
{
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(dst + i, levels_8(bits[i / 8], positive, negative));
    if (i < n) {
        float rest[8];
        _mm256_storeu_ps(rest, levels_8(bits[i / 8], positive, negative));
        memcpy(dst + i, rest, (n - i) * sizeof(*dst));
    }
}

static inline void add_8(float *dst, uint8_t bits, float positive, float negative)
{
    _mm256_storeu_ps(dst, _mm256_add_ps(_mm256_loadu_ps(dst), levels_8(bits, positive, negative)));
}

static void spread_add_avx2(float *dst, const uint8_t *bits, uint64_t n, float positive,
                            float negative)
{
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        add_8(dst + i, bits[i / 8], positive, negative);
    if (i < n) {
        float rest[8] = {0};
        memcpy(rest, dst + i, (n - i) * sizeof(*dst));
        add_8(rest, bits[i / 8], positive, negative);
        memcpy(dst + i, rest, (n - i) * sizeof(*dst));
    }
}

const struct wring_onebit_kernels wring_onebit_avx2 = {
    signs_avx2, signs_split_avx2, keep_avx2, spread_avx2, spread_add_avx2,
};
