/* SPDX-License-Identifier: Apache-2.0 */
/** topk's one traversal of a block: elements that reach a threshold are listed, and v becomes
 *  the residual. */
#include "compress/kernels/x86/topk_avx512.h"

#include <string.h>

#include "compress/kernels/streaming.h"

#define STEP WRING_PAGE /* elements that are listed between two looks at the list's end */
#define RUN 4096        /* elements that a first cache holds, beside their results */
#define LOOK 4096       /* elements after which a take knows how dense the block is */

/** 64 elements' marks of 16 each. */
static inline uint64_t join(__mmask16 a, __mmask16 b, __mmask16 c, __mmask16 d)
{
    return _mm512_kunpackd(_mm512_kunpackw(d, c), _mm512_kunpackw(b, a));
}

/** Which of 16 elements reach the limit. */
static inline __mmask16 reach_16(const float *src, const float *residual, unsigned i, __m512i limit)
{
    return _mm512_cmpge_epu32_mask(magnitude_of(fed_whole(src, residual, i)), limit);
}

/** Which of 64 elements reach the limit. */
static inline uint64_t reach_64(const float *src, const float *residual, __m512i limit)
{
    return join(reach_16(src, residual, 0, limit), reach_16(src, residual, 16, limit),
                reach_16(src, residual, 32, limit), reach_16(src, residual, 48, limit));
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
 * written whether they are there or not: the next word overwrites rubbish. They are put together in
 * a register, since each store costs as much as finding what it stores.
 * @param sure  how many are written so: 1..4
 */
static inline uint16_t *list_64(uint16_t *out, uint64_t marks, uint64_t i, unsigned sure)
{
    uint16_t *end = out + _mm_popcnt_u64(marks);
    uint64_t slots = i * 0x0001000100010001u;

    for (unsigned slot = 0; slot < sure; slot++, marks = _blsr_u64(marks))
        slots += _tzcnt_u64(marks) << 16 * slot;
    memcpy(out, &slots, sizeof(slots));
    for (unsigned entry = sure; __builtin_expect(marks != 0, 0); entry++, marks = _blsr_u64(marks))
        out[entry] = (uint16_t)(i + _tzcnt_u64(marks));
    return end;
}

/** The values of the entries from `entry` on, while they are near. */
static inline void take_values(struct wring_topk_list *list, uint32_t entry, const float *src,
                               const float *residual)
{
    for (; entry < list->count; entry++) {
        uint16_t index = list->indices[entry];
        list->values[entry] = residual == NULL ? src[index] : src[index] + residual[index];
    }
}

static uint32_t peak_of(const struct wring_topk_list *list)
{
    __m512i peak = _mm512_setzero_si512();

    for (uint32_t entry = 0; entry < list->count; entry += 16)
        peak = _mm512_max_epu32(
            peak, magnitude_of(fed(list->values, NULL, entry, live_lanes(list->count - entry))));
    return _mm512_reduce_max_epu32(peak);
}

/**
 * Ask for the first line of the page after this one: its address is translated meanwhile, and who
 * fetches ahead has where to begin. wring_streaming_enter() would do, but a call from here puts
 * away the registers and takes as long as it saves.
 */
static inline void enter_next_page(const float *at)
{
    _mm_prefetch((const char *)(((uintptr_t)at | (WRING_PAGE * sizeof(*at) - 1)) + 1), _MM_HINT_T0);
}

/**
 * A step from element i on. Where a residual is read, too, its stream comes by before the next page
 * is needed, and asking early only disturbs both. @return the list's end
 */
static inline uint16_t *list_step(uint16_t *out, const float *src, const float *residual,
                                  uint64_t i, __m512i limit)
{
    if (residual == NULL)
        enter_next_page(src + i);
    for (uint64_t end = i + STEP; i < end; i += 64)
        out = list_64(out, reach_64(src + i, residual == NULL ? NULL : residual + i, limit), i, 3);
    return out;
}

/** Whole runs of elements, and the values of each before it leaves the first cache. */
static inline uint64_t list_runs(struct wring_topk_list *list, const float *src,
                                 const float *residual, uint64_t n, uint64_t run, __m512i limit)
{
    uint16_t *out = list->indices;
    uint64_t i = 0;

    while (i + run <= n && list->count <= WRING_TOPK_LISTED) {
        uint32_t before = list->count;
        for (uint64_t end = i + run; i < end && list->count <= WRING_TOPK_LISTED; i += STEP) {
            out = list_step(out, src, residual, i, limit);
            list->count = (uint32_t)(out - list->indices);
        }
        take_values(list, before, src, residual);
    }
    return i;
}

/** List the elements behind the last run. */
static void list_rest(struct wring_topk_list *list, const float *src, const float *residual,
                      uint64_t i, uint64_t n, __m512i limit)
{
    uint16_t *out = list->indices + list->count;
    uint32_t before = list->count;

    for (; i < n && list->count <= WRING_TOPK_LISTED; i += 64) {
        out = list_64(out, reach_rest(src, residual, i, n, limit), i, 3);
        list->count = (uint32_t)(out - list->indices);
    }
    take_values(list, before, src, residual);
}

void wring_topk_find_avx512(struct wring_topk_list *list, const float *src, const float *residual,
                            uint64_t n, uint32_t threshold)
{
    __m512i limit = _mm512_set1_epi32((int)threshold);

    list->count = 0;
    uint64_t i = residual == NULL /* two loops: each knows whether there is a residual */
                     ? list_runs(list, src, NULL, n, RUN, limit)
                     : list_runs(list, src, residual, n, RUN / 2, limit);
    list_rest(list, src, residual, i, n, limit);
    if (list->count <= WRING_TOPK_LISTED)
        list->peak = peak_of(list);
}

/** Log 16 old values where `far` says so. */
static inline void log_16(struct wring_topk_undo *undo, __m512 old, uint64_t i, __mmask16 far)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m512i index = _mm512_add_epi32(lane, _mm512_set1_epi32((int)i));

    _mm512_storeu_ps(&undo->log[undo->logged], _mm512_maskz_compress_ps(far, old));
    _mm256_storeu_si256((__m256i *)&undo->indices[undo->logged],
                        _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(far, index)));
    undo->logged += (uint32_t)_mm_popcnt_u32(far);
}

/** 16 elements: what is needed of them, and v into the residual. */
struct taken {
    __m512 old;
    __m512i step;
    __mmask16 reach;
};

static inline struct taken take_16(const float *src, float *residual, __m512i limit)
{
    __m512 from = _mm512_loadu_ps(src), old = _mm512_loadu_ps(residual);
    __m512 value = _mm512_add_ps(from, old), back = _mm512_sub_ps(value, from);

    _mm512_storeu_ps(residual, value);
    return (struct taken){old,
                          _mm512_sub_epi32(_mm512_castps_si512(old), _mm512_castps_si512(back)),
                          _mm512_cmpge_epu32_mask(magnitude_of(value), limit)};
}

/**
 * v of 64 elements into the residual. Its steps go past the caches: nearly always nobody asks for
 * them, and in the second cache they would take the place of the block. No arrays: compilers would
 * keep them in memory.
 * @return which v reach the limit
 */
__attribute__((always_inline)) static inline uint64_t take_64(struct wring_topk_undo *undo,
                                                              const float *src, float *residual,
                                                              uint64_t i, __m512i limit)
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
    return join(a.reach, b.reach, c.reach, d.reach);
}

/** A page from element i on. @return the list's end */
static inline uint16_t *take_page(uint16_t *out, struct wring_topk_undo *undo, const float *src,
                                  float *residual, uint64_t i, __m512i limit)
{
    for (uint64_t at = i; at < i + WRING_PAGE; at += 64)
        out = list_64(out, take_64(undo, src, residual, at, limit), at, 4);
    return out;
}

void wring_topk_give_back_avx512(const struct wring_topk_undo *undo, const float *src,
                                 float *residual)
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
static uint32_t tighten(struct wring_topk_list *list, uint32_t threshold, uint64_t enough)
{
    if (enough == 0 || list->count <= enough)
        return threshold;
    threshold = wring_topk_avx512.rank(list->values, NULL, list->count, enough);
    threshold = threshold < WRING_INF_BITS ? threshold : WRING_INF_BITS;
    wring_topk_avx512.sift(list, threshold);
    return threshold;
}

/**
 * Page by page, the residual's read first: it is what the page's stores have to wait for. While it
 * comes, the values of the page before are taken.
 */
bool wring_topk_take_avx512(struct wring_topk_list *list, struct wring_topk_undo *undo,
                            const float *src, float *residual, uint64_t n, uint32_t *threshold,
                            uint64_t enough)
{
    __m512i limit = _mm512_set1_epi32((int)*threshold);
    uint16_t *out = list->indices;
    uint32_t valued = 0;
    bool fits = n % WRING_PAGE == 0;

    list->count = undo->logged = 0;
    undo->n = 0;
    while (fits && undo->n < n) {
        wring_streaming_read(residual + undo->n, WRING_PAGE * sizeof(*residual));
        take_values(list, valued, residual, NULL);
        if (undo->n == LOOK) {
            *threshold = tighten(list, *threshold, enough * LOOK / n);
            limit = _mm512_set1_epi32((int)*threshold);
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
        wring_topk_give_back_avx512(undo, src, residual);
    }
    return fits;
}
