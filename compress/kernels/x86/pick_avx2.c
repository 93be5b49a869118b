/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/pick.h"

#define STEP 64 /* elements at a time; a shorter rest goes through a padded copy */

static inline __m256 fed(const float *src, const float *residual)
{
    __m256 value = _mm256_loadu_ps(src);
    return residual == NULL ? value : _mm256_add_ps(value, _mm256_loadu_ps(residual));
}

/** threshold is at most 2^31, so that "at least it" is "above one less" among signed numbers. */
static inline uint64_t mark_64(const float *src, const float *residual, uint32_t threshold,
                               __m256i *peak)
{
    __m256i limit = _mm256_set1_epi32((int)threshold - 1);
    uint64_t marks = 0;

    for (int v = 0; v < 8; v++) {
        __m256 value = fed(src + 8 * v, residual == NULL ? NULL : residual + 8 * v);
        __m256i magnitude =
            _mm256_and_si256(_mm256_castps_si256(value), _mm256_set1_epi32(WRING_ABS_BITS));
        __m256i chosen = _mm256_cmpgt_epi32(magnitude, limit);
        *peak = _mm256_max_epu32(*peak, magnitude);
        marks |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(chosen)) << 8 * v;
    }
    return marks;
}

static inline uint32_t reduce_max(__m256i peaks)
{
    uint32_t lanes[8], peak = 0;
    _mm256_storeu_si256((__m256i *)lanes, peaks);
    for (int lane = 0; lane < 8; lane++)
        peak = lanes[lane] > peak ? lanes[lane] : peak;
    return peak;
}

static uint32_t mark_avx2(uint64_t *map, const float *src, const float *residual, uint64_t n,
                          uint32_t threshold)
{
    __m256i peak = _mm256_setzero_si256();
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        map[i / 64] = mark_64(src + i, residual == NULL ? NULL : residual + i, threshold, &peak);
    if (i < n) {
        float rest[STEP] = {0}, left[STEP] = {0};
        memcpy(rest, src + i, (n - i) * sizeof(*src));
        if (residual != NULL)
            memcpy(left, residual + i, (n - i) * sizeof(*src));
        uint64_t marks = mark_64(rest, residual == NULL ? NULL : left, threshold, &peak);
        map[i / 64] = marks & ((1ull << (n - i)) - 1);
    }
    return reduce_max(peak);
}

static inline void retain_8(float *residual, const float *src, uint8_t marks)
{
    const __m256i shifts = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
    __m256i chosen = _mm256_sllv_epi32(_mm256_set1_epi32(marks), shifts);
    __m256 kept =
        _mm256_blendv_ps(fed(src, residual), _mm256_setzero_ps(), _mm256_castsi256_ps(chosen));
    _mm256_storeu_ps(residual, kept);
}

static void retain_avx2(float *residual, const float *src, const uint64_t *map, uint64_t n)
{
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8)
        retain_8(residual + i, src + i, (uint8_t)(map[i / 64] >> i % 64));
    if (i < n) {
        float rest[8] = {0}, left[8] = {0};
        memcpy(rest, src + i, (n - i) * sizeof(*src));
        memcpy(left, residual + i, (n - i) * sizeof(*src));
        retain_8(left, rest, (uint8_t)(map[i / 64] >> i % 64));
        memcpy(residual + i, left, (n - i) * sizeof(*src));
    }
}

const struct wring_pick_kernels wring_pick_avx2 = {mark_avx2, wring_pick_gather, retain_avx2};
