/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "compress/kernels/topk.h"

#define STEP 64 /* elements at a time; a shorter rest goes through a padded copy */

static inline __m256 fed(const float *src, const float *residual)
{
    __m256 value = _mm256_loadu_ps(src);
    return residual == NULL ? value : _mm256_add_ps(value, _mm256_loadu_ps(residual));
}

static inline __m256i magnitude_of(__m256 value)
{
    return _mm256_and_si256(_mm256_castps_si256(value), _mm256_set1_epi32(WRING_ABS_BITS));
}

/** Of 8: -1 in the lanes whose magnitude is above the limit. */
static inline __m256i above(const float *src, const float *residual, __m256i limit)
{
    return _mm256_cmpgt_epi32(magnitude_of(fed(src, residual)), limit);
}

/** How many magnitudes are at least the threshold, which is above 0. */
static uint64_t count_from(const float *src, const float *residual, uint64_t n, uint32_t threshold)
{
    __m256i limit = _mm256_set1_epi32((int)threshold - 1);
    __m256i counts[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16)
        for (unsigned v = 0; v < 2; v++)
            counts[v] = _mm256_sub_epi32(
                counts[v],
                above(src + i + 8 * v, residual == NULL ? NULL : residual + i + 8 * v, limit));
    for (; i < n; i += 8) { /* lanes past the end are +0, which is below any threshold */
        uint64_t left = n - i < 8 ? n - i : 8;
        float rest[8] = {0}, fed_back[8] = {0};
        memcpy(rest, src + i, left * sizeof(*src));
        if (residual != NULL)
            memcpy(fed_back, residual + i, left * sizeof(*src));
        counts[0] = _mm256_sub_epi32(counts[0], above(rest, fed_back, limit));
    }
    uint32_t lanes[8];
    uint64_t count = 0;
    _mm256_storeu_si256((__m256i *)lanes, _mm256_add_epi32(counts[0], counts[1]));
    for (int lane = 0; lane < 8; lane++)
        count += lanes[lane];
    return count;
}

/** Bit by bit from the highest: the largest magnitude that k elements reach. */
static uint32_t rank_avx2(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    uint32_t reached = 0;
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 1)
        if (count_from(src, residual, n, reached | bit) >= k)
            reached |= bit;
    return reached;
}

/** threshold is at most 2^31, so that "at least it" is "above one less" among signed numbers. */
static inline uint64_t mark_64(const float *src, const float *residual, uint32_t threshold,
                               __m256i *peak)
{
    __m256i limit = _mm256_set1_epi32((int)threshold - 1);
    uint64_t marks = 0;

    for (int v = 0; v < 8; v++) {
        __m256 value = fed(src + 8 * v, residual == NULL ? NULL : residual + 8 * v);
        __m256i magnitude = magnitude_of(value);
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

static struct wring_topk_found mark_avx2(uint64_t *map, const float *src, const float *residual,
                                         uint64_t n, uint32_t threshold)
{
    __m256i peak = _mm256_setzero_si256();
    uint64_t i = 0, count = 0;

    for (; i + STEP <= n; i += STEP) {
        map[i / 64] = mark_64(src + i, residual == NULL ? NULL : residual + i, threshold, &peak);
        count += (uint64_t)__builtin_popcountll(map[i / 64]);
    }
    if (i < n) {
        float rest[STEP] = {0}, left[STEP] = {0};
        memcpy(rest, src + i, (n - i) * sizeof(*src));
        if (residual != NULL)
            memcpy(left, residual + i, (n - i) * sizeof(*src));
        uint64_t marks = mark_64(rest, residual == NULL ? NULL : left, threshold, &peak);
        map[i / 64] = marks & ((1ull << (n - i)) - 1);
        count += (uint64_t)__builtin_popcountll(map[i / 64]);
    }
    return (struct wring_topk_found){reduce_max(peak), (uint32_t)count};
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

/** Which of 64 elements are above the limit. */
static inline uint64_t above_64(const float *src, const float *residual, __m256i limit)
{
    uint64_t marks = 0;
    for (int v = 0; v < 8; v++) {
        __m256i chosen = above(src + 8 * v, residual == NULL ? NULL : residual + 8 * v, limit);
        marks |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(chosen)) << 8 * v;
    }
    return marks;
}

/** The limit is not negative, so that the padding is not above it. */
static uint64_t above_rest(const float *src, const float *residual, uint64_t n, __m256i limit)
{
    float rest[STEP] = {0}, left[STEP] = {0};
    memcpy(rest, src, n * sizeof(*src));
    if (residual != NULL)
        memcpy(left, residual, n * sizeof(*src));
    return above_64(rest, left, limit);
}

/**
 * Write the indices of 64 elements' marks. Few words have more than three, so the first ones are
 * written whether they are there or not: what is rubbish the next word writes over.
 */
static inline uint32_t list_64(uint16_t *out, uint64_t marks, uint64_t i)
{
    uint32_t count = (uint32_t)__builtin_popcountll(marks);

    for (unsigned entry = 0; entry < 3; entry++, marks = _blsr_u64(marks))
        out[entry] = (uint16_t)(i + _tzcnt_u64(marks));
    for (unsigned entry = 3; __builtin_expect(marks != 0, 0); entry++, marks = _blsr_u64(marks))
        out[entry] = (uint16_t)(i + _tzcnt_u64(marks));
    return count;
}

static void take_values(struct wring_topk_list *list, const float *src, const float *residual)
{
    uint32_t peak = 0;

    for (uint32_t entry = 0; entry < list->count; entry++) {
        uint16_t index = list->indices[entry];
        list->values[entry] = residual == NULL ? src[index] : src[index] + residual[index];
    }
    for (uint32_t entry = 0; entry < list->count; entry++) {
        uint32_t bits;
        memcpy(&bits, &list->values[entry], sizeof(bits));
        bits &= WRING_ABS_BITS;
        peak = bits > peak ? bits : peak;
    }
    list->peak = peak;
}

static void find_avx2(struct wring_topk_list *list, const float *src, const float *residual,
                      uint64_t n, uint32_t threshold)
{
    __m256i limit = _mm256_set1_epi32((int)threshold - 1);
    uint32_t count = 0;
    uint64_t i = 0;

    for (; i + STEP <= n && count <= WRING_TOPK_LISTED; i += STEP)
        count += list_64(list->indices + count,
                         above_64(src + i, residual == NULL ? NULL : residual + i, limit), i);
    if (i < n && count <= WRING_TOPK_LISTED)
        count +=
            list_64(list->indices + count,
                    above_rest(src + i, residual == NULL ? NULL : residual + i, n - i, limit), i);
    list->count = count;
    if (count <= WRING_TOPK_LISTED)
        take_values(list, src, residual);
}

static inline void leave_8(float *residual, const float *src, __m256i limit)
{
    __m256 value = fed(src, residual);
    __m256i sent = _mm256_cmpgt_epi32(magnitude_of(value), limit);
    _mm256_storeu_ps(residual, _mm256_andnot_ps(_mm256_castsi256_ps(sent), value));
}

static void leave_avx2(float *residual, const float *src, uint64_t n, uint32_t threshold)
{
    __m256i limit = _mm256_set1_epi32((int)threshold - 1);
    uint64_t i = 0;

    for (; i + 8 <= n; i += 8)
        leave_8(residual + i, src + i, limit);
    if (i < n) {
        float rest[8] = {0}, left[8] = {0};
        memcpy(rest, src + i, (n - i) * sizeof(*src));
        memcpy(left, residual + i, (n - i) * sizeof(*src));
        leave_8(left, rest, limit);
        memcpy(residual + i, left, (n - i) * sizeof(*src));
    }
}

const struct wring_topk_kernels wring_topk_avx2 = {
    .rank = rank_avx2,
    .mark = mark_avx2,
    .gather = wring_topk_gather,
    .retain = retain_avx2,
    .find = find_avx2,
    .sampled = wring_topk_sampled,
    .sift = wring_topk_sift,
    .take = wring_topk_take_never,
    .give_back = wring_topk_give_nothing_back,
    .leave = leave_avx2,
};
