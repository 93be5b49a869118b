/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "compress/kernels/far.h"
#include "compress/kernels/pick.h"

#define STEP 512 /* elements that are listed between two looks at the list's end */
#define RUN 4096 /* elements that a first cache holds, beside what is made of them */
#define FEW 8    /* vectors that are ranked without going to memory for them again and again */

static inline __mmask16 live_lanes(uint64_t left)
{
    return left >= 16 ? 0xFFFF : (__mmask16)((1u << left) - 1);
}

static inline __m512 fed_whole(const float *src, const float *residual, uint64_t i)
{
    __m512 value = _mm512_loadu_ps(src + i);
    return residual == NULL ? value : _mm512_add_ps(value, _mm512_loadu_ps(residual + i));
}

static inline __m512 fed(const float *src, const float *residual, uint64_t i, __mmask16 live)
{
    __m512 value = _mm512_maskz_loadu_ps(live, src + i);
    if (residual != NULL)
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(live, residual + i));
    return value;
}

static inline __m512i magnitude_of(__m512 value)
{
    return _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(WRING_ABS_BITS));
}

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

/**
 * As below, of few: it starts from the bits that all have in common, and has no branch for each
 * bit, which nobody could foresee.
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
    for (uint32_t bit = 1u << bits >> 1; bit != 0; bit >>= 1)
        reached |= bit & (0 - (uint32_t)(count_few(few, vectors, reached | bit) >= k));
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

static struct wring_pick_found mark_avx512(uint64_t *map, const float *src, const float *residual,
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
    return (struct wring_pick_found){_mm512_reduce_max_epu32(peak), (uint32_t)count};
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

/** Which of 64 elements reach the limit. */
static inline uint64_t reach_64(const float *src, const float *residual, __m512i limit)
{
    __mmask16 part[4];
    for (unsigned v = 0; v < 4; v++)
        part[v] = _mm512_cmpge_epu32_mask(magnitude_of(fed_whole(src, residual, 16 * v)), limit);
    return _mm512_kunpackd(_mm512_kunpackw(part[3], part[2]), _mm512_kunpackw(part[1], part[0]));
}

static uint64_t reach_rest(const float *src, const float *residual, uint64_t i, uint64_t n,
                           __m512i limit)
{
    uint64_t marks = 0;
    for (uint64_t at = i; at < n && at < i + 64; at += 16) {
        __mmask16 live = live_lanes(n - at);
        __m512i magnitude = magnitude_of(fed(src, residual, at, live));
        marks |= (uint64_t)_mm512_mask_cmpge_epu32_mask(live, magnitude, limit) << (at - i);
    }
    return marks;
}

/**
 * Write the indices of 64 elements' marks. Few words have more than three, so the first ones are
 * written whether they are there or not: what is rubbish the next word writes over.
 */
static inline uint16_t *list_64(uint16_t *out, uint64_t marks, uint64_t i)
{
    uint16_t *end = out + _mm_popcnt_u64(marks);

    for (unsigned entry = 0; entry < 3; entry++, marks = _blsr_u64(marks))
        out[entry] = (uint16_t)(i + _tzcnt_u64(marks));
    for (unsigned entry = 3; __builtin_expect(marks != 0, 0); entry++, marks = _blsr_u64(marks))
        out[entry] = (uint16_t)(i + _tzcnt_u64(marks));
    return end;
}

/** List steps from element i to end. @return the list's end: past `last` it holds not all of them
 */
static inline uint16_t *list_steps(uint16_t *out, const uint16_t *last, const float *src,
                                   const float *residual, uint64_t i, uint64_t end, __m512i limit)
{
    for (; i < end && out <= last; i += STEP)
        for (uint64_t at = i; at < i + STEP; at += 64)
            out = list_64(out, reach_64(src + at, residual == NULL ? NULL : residual + at, limit),
                          at);
    return out;
}

/** The values of the entries from `entry` on, while they are near. */
static inline void take_values(struct wring_pick_list *list, uint32_t entry, const float *src,
                               const float *residual)
{
    for (; entry < list->count; entry++) {
        uint16_t index = list->indices[entry];
        list->values[entry] = residual == NULL ? src[index] : src[index] + residual[index];
    }
}

static uint32_t peak_of(const struct wring_pick_list *list)
{
    __m512i peak = _mm512_setzero_si512();

    for (uint32_t entry = 0; entry < list->count; entry += 16)
        peak = _mm512_max_epu32(
            peak, magnitude_of(fed(list->values, NULL, entry, live_lanes(list->count - entry))));
    return _mm512_reduce_max_epu32(peak);
}

/** Runs of whole steps from element i on; the values of each run before it leaves the first cache
 */
static inline uint64_t list_runs(struct wring_pick_list *list, const float *src,
                                 const float *residual, uint64_t n, uint64_t run, __m512i limit)
{
    const uint16_t *last = list->indices + WRING_PICK_LISTED;
    uint16_t *out = list->indices;
    uint64_t i = 0;

    for (; i + run <= n && out <= last; i += run) {
        uint32_t before = list->count;
        out = list_steps(out, last, src, residual, i, i + run, limit);
        list->count = (uint32_t)(out - list->indices);
        if (out <= last)
            take_values(list, before, src, residual);
    }
    return i;
}

/** What no run holds. */
static void list_rest(struct wring_pick_list *list, const float *src, const float *residual,
                      uint64_t i, uint64_t n, __m512i limit)
{
    const uint16_t *last = list->indices + WRING_PICK_LISTED;
    uint16_t *out = list->indices + list->count;
    uint32_t before = list->count;

    for (; i < n && out <= last; i += 64)
        out = list_64(out, reach_rest(src, residual, i, n, limit), i);
    list->count = (uint32_t)(out - list->indices);
    if (out <= last)
        take_values(list, before, src, residual);
}

static void find_avx512(struct wring_pick_list *list, const float *src, const float *residual,
                        uint64_t n, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold);

    list->count = 0;
    uint64_t i = residual == NULL /* two loops: each knows whether there is a residual */
                     ? list_runs(list, src, NULL, n, RUN, limit)
                     : list_runs(list, src, residual, n, RUN / 2, limit);
    list_rest(list, src, residual, i, n, limit);
    if (list->count <= WRING_PICK_LISTED)
        list->peak = peak_of(list);
}

static inline __m512i indices_of(const struct wring_pick_list *list, uint32_t entry)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)&list->indices[entry]));
}

static uint32_t sampled_avx512(float *out, const struct wring_pick_list *list, uint64_t n)
{
    __m512i samples = _mm512_set1_epi32((int)(n / WRING_PICK_STRIDE));
    uint32_t count = 0;

    for (uint32_t entry = 0; entry < list->count; entry += 16) {
        __m512i index = indices_of(list, entry), sample = _mm512_srli_epi32(index, 4);
        __m512i lane =
            _mm512_srli_epi32(_mm512_mullo_epi32(sample, _mm512_set1_epi32((int)0x9E3779B1)), 28);
        __mmask16 live = live_lanes(list->count - entry);
        live = _mm512_mask_cmplt_epu32_mask(live, sample, samples);
        live = _mm512_mask_cmpeq_epi32_mask(
            live, lane, _mm512_and_si512(index, _mm512_set1_epi32(WRING_PICK_STRIDE - 1)));
        __m512 values = _mm512_loadu_ps(list->values + entry);
        _mm512_storeu_ps(out + count, _mm512_maskz_compress_ps(live, values));
        count += (uint32_t)__builtin_popcount(live);
    }
    return count;
}

static void sift_avx512(struct wring_pick_list *list, uint32_t threshold)
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

/** Where a take has come to. */
struct taking {
    uint16_t *index;
    uint16_t *lost;
    float *log;
};

/** v of 16 elements into the residual; what v - src is not the old residual of is logged. */
static inline __m512 take_16(struct taking *taking, const float *src, float *residual)
{
    __m512 from = _mm512_loadu_ps(src), before = _mm512_loadu_ps(residual);
    __m512 value = _mm512_add_ps(from, before), back = _mm512_sub_ps(value, from);
    __mmask16 lost =
        _mm512_cmpneq_epi32_mask(_mm512_castps_si512(back), _mm512_castps_si512(before));

    *taking->lost++ = lost;
    _mm512_storeu_ps(taking->log, _mm512_maskz_compress_ps(lost, before));
    taking->log += __builtin_popcount(lost);
    _mm512_storeu_ps(residual, value);
    return value;
}

/** A page from element i on. */
static inline void take_page(struct taking *taking, const float *src, float *residual, uint64_t i,
                             __m512i limit)
{
    for (uint64_t at = i; at < i + WRING_PAGE; at += 64) {
        __mmask16 part[4];
        for (unsigned v = 0; v < 4; v++)
            part[v] = _mm512_cmpge_epu32_mask(
                magnitude_of(take_16(taking, src + at + 16 * v, residual + at + 16 * v)), limit);
        taking->index = list_64(
            taking->index,
            _mm512_kunpackd(_mm512_kunpackw(part[3], part[2]), _mm512_kunpackw(part[1], part[0])),
            at);
    }
}

static void give_back_avx512(const struct wring_pick_undo *undo, const float *src, float *residual)
{
    const float *log = undo->log;

    for (uint64_t i = 0; i < undo->n; i += 16) {
        __mmask16 lost = undo->lost[i / 16];
        __m512 back = _mm512_sub_ps(_mm512_loadu_ps(residual + i), _mm512_loadu_ps(src + i));
        _mm512_storeu_ps(residual + i, _mm512_mask_expand_ps(back, lost, _mm512_loadu_ps(log)));
        log += __builtin_popcount(lost);
    }
}

/** Page by page, the residual's read first: it is what the page's stores have to wait for. */
static bool take_avx512(struct wring_pick_list *list, struct wring_pick_undo *undo,
                        const float *src, float *residual, uint64_t n, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold);
    struct taking taking = {list->indices, undo->lost, undo->log};
    const uint16_t *last = list->indices + WRING_PICK_LISTED;
    const float *full = undo->log + WRING_PICK_LOGGED;
    bool fits = n % WRING_PAGE == 0;

    list->count = 0;
    undo->n = 0;
    while (fits && undo->n < n) {
        uint32_t before = list->count;
        wring_far_read(residual + undo->n, WRING_PAGE * sizeof(*residual));
        take_page(&taking, src, residual, undo->n, limit);
        undo->n += WRING_PAGE;
        list->count = (uint32_t)(taking.index - list->indices);
        fits = taking.index <= last && taking.log <= full;
        if (fits)
            take_values(list, before, residual, NULL);
    }
    if (fits)
        list->peak = peak_of(list);
    else
        give_back_avx512(undo, src, residual);
    return fits;
}

const struct wring_pick_kernels wring_pick_avx512 = {
    .rank = rank_avx512,
    .mark = mark_avx512,
    .gather = gather_avx512,
    .retain = retain_avx512,
    .find = find_avx512,
    .sampled = sampled_avx512,
    .sift = sift_avx512,
    .take = take_avx512,
    .give_back = give_back_avx512,
    .leave = leave_avx512,
};
