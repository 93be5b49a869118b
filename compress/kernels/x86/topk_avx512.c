/* SPDX-License-Identifier: Apache-2.0 */
/** topk's kernels that need masks and a compressing store. */
#include "compress/kernels/vector/topk.h"

#define FEW 16    /* vectors that are ranked without going to memory for them again and again */
#define LOOK 4096 /* elements after which a take knows how dense the block is */

/** Those of 16 elements that are marked. */
INLINE __m512 fed_some(const float *src, const float *residual, uint64_t i, __mmask16 marks)
{
    __m512 value = _mm512_maskz_loadu_ps(marks, src + i);
    if (residual != NULL)
        value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(marks, residual + i));
    return value;
}

/** How many of up to 16 * FEW magnitudes, padded with zeros, are at least the threshold. */
INLINE unsigned count_few(const __m512i *few, unsigned vectors, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold);
    unsigned count = 0;
    for (unsigned v = 0; v < vectors; v++)
        count += (unsigned)__builtin_popcount(bits_of(_mm512_cmpge_epu32_mask(few[v], limit)));
    return count;
}

/** The least of up to 16 * FEW magnitudes that are at least the threshold, which some are. */
INLINE uint32_t least_few(const __m512i *few, unsigned vectors, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold), least = _mm512_set1_epi32(-1);
    for (unsigned v = 0; v < vectors; v++)
        least = _mm512_mask_min_epu32(least, _mm512_cmpge_epu32_mask(few[v], limit), least, few[v]);
    return _mm512_reduce_min_epu32(least);
}

/**
 * As rank_bits(), of few: it starts from the bits that all have in common, and branches on no bit,
 * which nobody could foresee. Most often it ends long before the last bit, where just k are left.
 */
static uint32_t rank_few(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    __m512i few[FEW], low = _mm512_set1_epi32(-1), high = _mm512_setzero_si512();
    unsigned vectors = 0;

    for (uint64_t i = 0; i < n; i += 16, vectors++) {
        __mmask16 live = first_lanes(n - i);
        few[vectors] = (__m512i)magnitude_of(fed_some(src, residual, i, live));
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

static uint32_t rank_near(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    return n <= (uint64_t)LANES * FEW ? rank_few(src, residual, n, k)
                                      : rank_bits(src, residual, n, k);
}

static uint32_t rank_magnitudes(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    return n <= (uint64_t)LANES * FEW ? rank_few(src, residual, n, k)
                                      : rank_by_groups(src, residual, n, k, rank_near);
}

INLINE unsigned gather_16(char *value, char *index, const float *src, const float *residual,
                          uint64_t i, __mmask16 marks)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    unsigned count = (unsigned)__builtin_popcount(bits_of(marks));
    __mmask16 first = first_lanes(count);
    __m512 chosen = _mm512_maskz_compress_ps(marks, fed_some(src, residual, i, marks));
    __m512i where =
        _mm512_add_epi32(_mm512_maskz_compress_epi32(marks, lane), _mm512_set1_epi32((int)i));

    _mm512_mask_storeu_ps(value, first, chosen);
    _mm256_mask_storeu_epi16(index, first, _mm512_cvtepi32_epi16(where));
    return count;
}

static void gather_entries(void *values, void *indices, const uint64_t *map, const float *src,
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

INLINE __m512i indices_of(const struct wring_topk_list *list, uint32_t entry)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)&list->indices[entry]));
}

static uint32_t pick_sampled(float *out, const struct wring_topk_list *list, uint64_t n)
{
    __m512i samples = _mm512_set1_epi32((int)(n / WRING_TOPK_STRIDE));
    uint32_t count = 0;

    for (uint32_t entry = 0; entry < list->count; entry += 16) {
        __m512i index = indices_of(list, entry), sample = _mm512_srli_epi32(index, 4);
        __m512i lane =
            _mm512_srli_epi32(_mm512_mullo_epi32(sample, _mm512_set1_epi32((int)0x9E3779B1)), 28);
        __mmask16 live = first_lanes(list->count - entry);
        live = _mm512_mask_cmplt_epu32_mask(live, sample, samples);
        live = _mm512_mask_cmpeq_epi32_mask(
            live, lane, _mm512_and_si512(index, _mm512_set1_epi32(WRING_TOPK_STRIDE - 1)));
        __m512 values = _mm512_loadu_ps(list->values + entry);
        _mm512_storeu_ps(out + count, _mm512_maskz_compress_ps(live, values));
        count += (uint32_t)__builtin_popcount(bits_of(live));
    }
    return count;
}

static void sift_list(struct wring_topk_list *list, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold);
    uint32_t count = 0;

    for (uint32_t entry = 0; entry < list->count; entry += 16) {
        __m512 values = _mm512_loadu_ps(list->values + entry);
        __m512i indices = indices_of(list, entry);
        __mmask16 kept = _mm512_mask_cmpge_epu32_mask(first_lanes(list->count - entry),
                                                      (__m512i)magnitude_of(values), limit);
        _mm512_storeu_ps(list->values + count, _mm512_maskz_compress_ps(kept, values));
        _mm256_storeu_si256((__m256i *)&list->indices[count],
                            _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(kept, indices)));
        count += (uint32_t)__builtin_popcount(bits_of(kept));
    }
    list->count = count;
}

/** Log 16 old values where `far` says so. */
INLINE void log_16(struct wring_topk_undo *undo, __m512 old, uint64_t i, __mmask16 far)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i index = _mm512_add_epi32(lane, _mm512_set1_epi32((int)i));

    _mm512_storeu_ps(&undo->log[undo->logged], _mm512_maskz_compress_ps(far, old));
    _mm256_storeu_si256((__m256i *)&undo->indices[undo->logged],
                        _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(far, index)));
    undo->logged += (uint32_t)__builtin_popcount(bits_of(far));
}

/** 16 elements: what is needed of them, and v into the residual. */
struct taken {
    __m512 old;
    __m512i step;
    __mmask16 reach;
};

INLINE struct taken take_16(const float *src, float *residual, words limit)
{
    __m512 from = _mm512_loadu_ps(src), old = _mm512_loadu_ps(residual);
    __m512 value = _mm512_add_ps(from, old), back = _mm512_sub_ps(value, from);

    _mm512_storeu_ps(residual, value);
    return (struct taken){old,
                          _mm512_sub_epi32(_mm512_castps_si512(old), _mm512_castps_si512(back)),
                          reaching(value, limit)};
}

/**
 * v of 64 elements into the residual. Its steps go past the caches: nearly always nobody asks for
 * them, and in the second cache they would take the place of the block. No arrays: compilers would
 * keep them in memory.
 * @return which v reach the limit
 */
INLINE uint64_t take_64(struct wring_topk_undo *undo, const float *src, float *residual, uint64_t i,
                        words limit)
{
    const uint64_t column = 0x000F000F000F000F; /* bytes of a line that are one vector's */
    struct taken a = take_16(src + i, residual + i, limit);
    struct taken b = take_16(src + i + 16, residual + i + 16, limit);
    struct taken c = take_16(src + i + 32, residual + i + 32, limit);
    struct taken d = take_16(src + i + 48, residual + i + 48, limit);
    __m512i steps =
        _mm512_packs_epi16(_mm512_packs_epi32(a.step, b.step), _mm512_packs_epi32(c.step, d.step));
    uint64_t far = _mm512_cmpge_epu8_mask(_mm512_abs_epi8(steps), _mm512_set1_epi8(INT8_MAX));

    _mm512_stream_si512((void *)(undo->steps + i), steps);
    if (__builtin_expect(far != 0, 0)) {
        log_16(undo, a.old, i, (__mmask16)_pext_u64(far, column));
        log_16(undo, b.old, i + 16, (__mmask16)_pext_u64(far, column << 4));
        log_16(undo, c.old, i + 32, (__mmask16)_pext_u64(far, column << 8));
        log_16(undo, d.old, i + 48, (__mmask16)_pext_u64(far, column << 12));
    }
    return bits_of_64((lanes[]){a.reach, b.reach, c.reach, d.reach});
}

/** A page from element i on. @return the list's end */
INLINE uint16_t *take_page(uint16_t *out, struct wring_topk_undo *undo, const float *src,
                           float *residual, uint64_t i, words limit)
{
    for (uint64_t at = i; at < i + WRING_PAGE; at += 64)
        out = list_64(out, take_64(undo, src, residual, at, limit), at, 4);
    return out;
}

static void give_back(const struct wring_topk_undo *undo, const float *src, float *residual)
{
    const __m512i columns = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);

    for (uint64_t i = 0; i < undo->n; i += 64) {
        int8_t steps[64];
        _mm512_storeu_si512(steps,
                            _mm512_permutexvar_epi32(columns, _mm512_load_si512(undo->steps + i)));
        for (unsigned v = 0; v < 64; v += 16) {
            __m512i step = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(steps + v)));
            __m512 back =
                _mm512_sub_ps(_mm512_loadu_ps(residual + i + v), _mm512_loadu_ps(src + i + v));
            _mm512_storeu_si512(residual + i + v,
                                _mm512_add_epi32(_mm512_castps_si512(back), step));
        }
    }
    for (uint32_t entry = 0; entry < undo->logged; entry++)
        residual[undo->indices[entry]] = undo->log[entry];
}

/** Leave `enough` entries in the list, and their equals. @return the threshold that all reach */
static uint32_t tighten_list(struct wring_topk_list *list, uint32_t threshold, uint64_t enough)
{
    if (enough == 0 || list->count <= enough)
        return threshold;
    threshold = rank_magnitudes(list->values, NULL, list->count, enough);
    threshold = threshold < WRING_INF_BITS ? threshold : WRING_INF_BITS;
    sift_list(list, threshold);
    return threshold;
}

/**
 * Page by page, the residual's read first: it is what the page's stores have to wait for. While it
 * comes, the values of the page before are taken.
 */
static bool take_block(struct wring_topk_list *list, struct wring_topk_undo *undo, const float *src,
                       float *residual, uint64_t n, uint32_t *threshold, uint64_t enough)
{
    words limit = limit_of(*threshold);
    uint16_t *out = list->indices;
    uint32_t valued = 0;
    bool fits = n % WRING_PAGE == 0;

    list->count = undo->logged = 0;
    undo->n = 0;
    while (fits && undo->n < n) {
        wring_streaming_read(residual + undo->n, WRING_PAGE * sizeof(*residual));
        take_values(list, valued, residual, NULL);
        if (undo->n == LOOK) {
            *threshold = tighten_list(list, *threshold, enough * LOOK / n);
            limit = limit_of(*threshold);
            out = list->indices + list->count;
        }
        valued = list->count;
        out = take_page(out, undo, src, residual, undo->n, limit);
        undo->n += WRING_PAGE;
        list->count = (uint32_t)(out - list->indices);
        fits = list->count <= WRING_TOPK_LISTED && undo->logged <= WRING_TOPK_LOGGED;
    }
    if (fits) {
        take_values(list, valued, residual, NULL);
        list->peak = peak_of(list);
    } else {
        give_back(undo, src, residual);
    }
    return fits;
}

const struct wring_topk_kernels wring_topk_avx512 = {
    .rank = rank_magnitudes,
    .mark = mark,
    .gather = gather_entries,
    .retain = retain,
    .find = find,
    .sampled = pick_sampled,
    .sift = sift_list,
    .take = take_block,
    .give_back = give_back,
    .leave = leave,
};
