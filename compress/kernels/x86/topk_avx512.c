/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/x86/topk_avx512.h"

#define FEW 16 /* vectors that are ranked without going to memory for them again and again */

/** How many magnitudes are at least the threshold. */
static uint64_t count_from(const float *src, const float *residual, uint64_t n, uint32_t threshold)
{
    const __m512i abs = _mm512_set1_epi32(WRING_ABS_BITS), one = _mm512_set1_epi32(1);
    __m512i limit = _mm512_set1_epi32((int)threshold);
    __m512i counts[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    uint64_t i = 0;

    for (; i + 32 <= n; i += 32)
        for (unsigned v = 0; v < 2; v++) {
            __m512i bits = _mm512_castps_si512(fed_whole(src, residual, i + 16 * v));
            __mmask16 above = _mm512_cmpge_epu32_mask(_mm512_and_si512(bits, abs), limit);
            counts[v] = _mm512_mask_add_epi32(counts[v], above, counts[v], one);
        }
    for (; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        __m512i bits = _mm512_castps_si512(fed(src, residual, i, live));
        __mmask16 above = _mm512_mask_cmpge_epu32_mask(live, _mm512_and_si512(bits, abs), limit);
        counts[0] = _mm512_mask_add_epi32(counts[0], above, counts[0], one);
    }
    return (uint64_t)_mm512_reduce_add_epi32(_mm512_add_epi32(counts[0], counts[1]));
}

/** How many of up to 16 * FEW magnitudes, padded with zeros, are at least the threshold. */
static inline unsigned count_few(const __m512i *few, unsigned vectors, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold);
    unsigned count = 0;
    for (unsigned v = 0; v < vectors; v++)
        count += (unsigned)__builtin_popcount(_mm512_cmpge_epu32_mask(few[v], limit));
    return count;
}

/** The least of up to 16 * FEW magnitudes that are at least the threshold, which some are. */
static inline uint32_t least_few(const __m512i *few, unsigned vectors, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold), least = _mm512_set1_epi32(-1);
    for (unsigned v = 0; v < vectors; v++)
        least = _mm512_mask_min_epu32(least, _mm512_cmpge_epu32_mask(few[v], limit), least, few[v]);
    return _mm512_reduce_min_epu32(least);
}

/**
 * As below, of few: it starts from the bits that all have in common, and branches on no bit, which
 * nobody could foresee. Most often it ends long before the last bit, where just k are left.
 */
static uint32_t rank_few(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    __m512i few[FEW], low = _mm512_set1_epi32(-1), high = _mm512_setzero_si512();
    unsigned vectors = 0;

    for (uint64_t i = 0; i < n; i += 16, vectors++) {
        __mmask16 live = live_lanes(n - i);
        few[vectors] = magnitude_of(fed(src, residual, i, live));
        low = _mm512_mask_min_epu32(low, live, low, few[vectors]);
        high = _mm512_max_epu32(high, few[vectors]);
    }
    uint32_t least = _mm512_reduce_min_epu32(low), differ = least ^ _mm512_reduce_max_epu32(high);
    unsigned bits = differ == 0 ? 0 : 32 - (unsigned)__builtin_clz(differ);
    uint32_t reached = least >> bits << bits;
    for (uint32_t bit = 1u << bits >> 1; bit != 0; bit >>= 1) {
        unsigned count = count_few(few, vectors, reached | bit);
        reached |= bit & (0 - (uint32_t)(count >= k));
        if (count == k)
            return least_few(few, vectors, reached);
    }
    return reached;
}

/** Bit by bit from the highest: the largest magnitude that k elements reach. */
static uint32_t rank_avx512(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    uint32_t reached = 0;
    if (n <= (uint64_t)16 * FEW)
        return rank_few(src, residual, n, k);
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 1)
        if (count_from(src, residual, n, reached | bit) >= k)
            reached |= bit;
    return reached;
}

/** 16 elements: their marks; *peak takes their magnitudes. */
static inline uint64_t mark_16(__m512 value, __mmask16 live, __m512i threshold, __m512i *peak)
{
    __m512i magnitude =
        _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(WRING_ABS_BITS));
    *peak = _mm512_max_epu32(*peak, magnitude);
    return _mm512_mask_cmpge_epu32_mask(live, magnitude, threshold);
}

static struct wring_topk_found mark_avx512(uint64_t *map, const float *src, const float *residual,
                                           uint64_t n, uint32_t threshold)
{
    __m512i peak = _mm512_setzero_si512(), limit = _mm512_set1_epi32((int)threshold);
    uint64_t i = 0, count = 0;

    for (; i + 64 <= n; i += 64) {
        uint64_t marks = 0;
        for (unsigned v = 0; v < 64; v += 16)
            marks |= mark_16(fed_whole(src, residual, i + v), 0xFFFF, limit, &peak) << v;
        map[i / 64] = marks;
        count += (uint64_t)__builtin_popcountll(marks);
    }
    uint64_t marks = 0, word = i;
    for (; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i);
        marks |= mark_16(fed(src, residual, i, live), live, limit, &peak) << (i - word);
    }
    if (word < n)
        map[word / 64] = marks;
    count += (uint64_t)__builtin_popcountll(marks);
    return (struct wring_topk_found){_mm512_reduce_max_epu32(peak), (uint32_t)count};
}

static inline unsigned gather_16(char *value, char *index, const float *src, const float *residual,
                                 uint64_t i, __mmask16 marks)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    unsigned count = (unsigned)__builtin_popcount(marks);
    __mmask16 first = live_lanes(count);
    __m512 chosen = _mm512_maskz_compress_ps(marks, fed(src, residual, i, marks));
    __m512i where =
        _mm512_add_epi32(_mm512_maskz_compress_epi32(marks, lane), _mm512_set1_epi32((int)i));

    _mm512_mask_storeu_ps(value, first, chosen);
    _mm256_mask_storeu_epi16(index, first, _mm512_cvtepi32_epi16(where));
    return count;
}

static void gather_avx512(void *values, void *indices, const uint64_t *map, const float *src,
                          const float *residual, uint64_t n)
{
    char *value = values, *index = indices;

    for (uint64_t i = 0; i < n; i += 64)
        for (uint64_t left = map[i / 64]; left != 0;) {
            unsigned at = (unsigned)__builtin_ctzll(left) & 48u; /* the 16 that hold the next */
            unsigned count =
                gather_16(value, index, src, residual, i + at, (__mmask16)(left >> at));
            value += 4 * count;
            index += 2 * count;
            left &= ~(0xFFFFull << at);
        }
}

static void retain_avx512(float *residual, const float *src, const uint64_t *map, uint64_t n)
{
    uint64_t i = 0;

    for (; i + 64 <= n; i += 64)
        for (unsigned v = 0; v < 64; v += 16) {
            __mmask16 kept = (__mmask16)(~map[i / 64] >> v);
            _mm512_storeu_ps(residual + i + v,
                             _mm512_maskz_mov_ps(kept, fed_whole(src, residual, i + v)));
        }
    for (; i < n; i += 16) {
        __mmask16 live = live_lanes(n - i), marks = (__mmask16)(map[i / 64] >> i % 64);
        __m512 value = _mm512_maskz_mov_ps(_knot_mask16(marks), fed(src, residual, i, live));
        _mm512_mask_storeu_ps(residual + i, live, value);
    }
}

static inline __m512i indices_of(const struct wring_topk_list *list, uint32_t entry)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)&list->indices[entry]));
}

static uint32_t sampled_avx512(float *out, const struct wring_topk_list *list, uint64_t n)
{
    __m512i samples = _mm512_set1_epi32((int)(n / WRING_TOPK_STRIDE));
    uint32_t count = 0;

    for (uint32_t entry = 0; entry < list->count; entry += 16) {
        __m512i index = indices_of(list, entry), sample = _mm512_srli_epi32(index, 4);
        __m512i lane =
            _mm512_srli_epi32(_mm512_mullo_epi32(sample, _mm512_set1_epi32((int)0x9E3779B1)), 28);
        __mmask16 live = live_lanes(list->count - entry);
        live = _mm512_mask_cmplt_epu32_mask(live, sample, samples);
        live = _mm512_mask_cmpeq_epi32_mask(
            live, lane, _mm512_and_si512(index, _mm512_set1_epi32(WRING_TOPK_STRIDE - 1)));
        __m512 values = _mm512_loadu_ps(list->values + entry);
        _mm512_storeu_ps(out + count, _mm512_maskz_compress_ps(live, values));
        count += (uint32_t)__builtin_popcount(live);
    }
    return count;
}

static void sift_avx512(struct wring_topk_list *list, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold);
    uint32_t count = 0;

    for (uint32_t entry = 0; entry < list->count; entry += 16) {
        __m512 values = _mm512_loadu_ps(list->values + entry);
        __m512i indices = indices_of(list, entry);
        __mmask16 kept = _mm512_mask_cmpge_epu32_mask(live_lanes(list->count - entry),
                                                      magnitude_of(values), limit);
        _mm512_storeu_ps(list->values + count, _mm512_maskz_compress_ps(kept, values));
        _mm256_storeu_si256((__m256i *)&list->indices[count],
                            _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(kept, indices)));
        count += (uint32_t)__builtin_popcount(kept);
    }
    list->count = count;
}

static void leave_avx512(float *residual, const float *src, uint64_t n, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold);
    uint64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m512 value = fed_whole(src, residual, i);
        __mmask16 kept = _mm512_cmplt_epu32_mask(magnitude_of(value), limit);
        _mm512_storeu_ps(residual + i, _mm512_maskz_mov_ps(kept, value));
    }
    if (i < n) {
        __mmask16 live = live_lanes(n - i);
        __m512 value = fed(src, residual, i, live);
        __mmask16 kept = _mm512_cmplt_epu32_mask(magnitude_of(value), limit);
        _mm512_mask_storeu_ps(residual + i, live, _mm512_maskz_mov_ps(kept, value));
    }
}

const struct wring_topk_kernels wring_topk_avx512 = {
    .rank = rank_avx512,
    .mark = mark_avx512,
    .gather = gather_avx512,
    .retain = retain_avx512,
    .find = wring_topk_find_avx512,
    .sampled = sampled_avx512,
    .sift = sift_avx512,
    .take = wring_topk_take_avx512,
    .give_back = wring_topk_give_back_avx512,
    .leave = leave_avx512,
};
