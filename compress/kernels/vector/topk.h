/* SPDX-License-Identifier: Apache-2.0 */
/**
 * topk's kernels in vectors of any width; a file for each instruction set has the others, and the
 * table. n, src and residual are those of kernels/topk.h.
 */
#ifndef WRING_KERNELS_X86_TOPK_H
#define WRING_KERNELS_X86_TOPK_H

#include "compress/kernels/topk.h"
#include "compress/kernels/vector/list.h"

#define STEP WRING_PAGE /* elements that are listed between two looks at the list's end */
#define RUN 4096        /* elements that a first cache holds, beside their results */
#define WORD 64         /* elements whose marks are one of a map's words */

INLINE floats fed(const float *src, const float *residual, uint64_t i)
{
    return residual == NULL ? load(src + i) : load(src + i) + load(residual + i);
}

/** The last elements from i on; 0 behind them. */
INLINE floats fed_rest(const float *src, const float *residual, uint64_t i, uint64_t n)
{
    unsigned live = n <= i ? 0 : rest_from(n - i, 0);
    floats value = load_first(src + i, live);
    return residual == NULL ? value : value + load_first(residual + i, live);
}

/** What is above this reaches the threshold, among magnitudes. @param threshold  up to 2^31 */
INLINE words limit_of(uint32_t threshold)
{
    return all_words(threshold - 1);
}

INLINE lanes reaching(floats value, words limit)
{
    return above(magnitude_of(value), limit);
}

/** How many magnitudes are at least the threshold, which is above 0. */
static uint64_t count_from(const float *src, const float *residual, uint64_t n, uint32_t threshold)
{
    words limit = limit_of(threshold), counts[2] = {{0}, {0}};
    uint64_t i = 0, count = 0;

    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (unsigned v = 0; v < 2; v++)
            counts[v] = count_where(reaching(fed(src, residual, i + v * LANES), limit), counts[v]);
    for (; i < n; i += LANES)
        counts[0] = count_where(reaching(fed_rest(src, residual, i, n), limit), counts[0]);
    counts[0] += counts[1];
    for (unsigned lane = 0; lane < LANES; lane++)
        count += counts[0][lane];
    return count;
}

/** Bit by bit from the highest: the largest magnitude that k elements reach. */
static uint32_t rank_bits(const float *src, const float *residual, uint64_t n, uint64_t k)
{
    uint32_t reached = 0;
    for (uint32_t bit = 1u << 30; bit != 0; bit >>= 1)
        if (count_from(src, residual, n, reached | bit) >= k)
            reached |= bit;
    return reached;
}

#define GROUPS 4  /* vectors of largest magnitudes: each lane's is that of a group of elements */
#define NEAR 1024 /* elements that may reach what k groups reach */

/** The largest magnitudes of 4 vectors' lanes. */
INLINE void group_peaks(float *out, const float *src, const float *residual, uint64_t n)
{
    words peaks[GROUPS] = {{0}};
    uint64_t i = 0;

    for (; i + GROUPS * LANES <= n; i += GROUPS * LANES)
        for (unsigned g = 0; g < GROUPS; g++)
            peaks[g] = larger(peaks[g], magnitude_of(fed(src, residual, i + g * LANES)));
    for (; i < n; i += LANES)
        peaks[0] = larger(peaks[0], magnitude_of(fed_rest(src, residual, i, n)));
    for (unsigned g = 0; g < GROUPS; g++)
        store(out + g * LANES, (floats)peaks[g]);
}

/** Those that reach the threshold, in any order. @return how many; more than NEAR: not all are
 *  there */
INLINE uint64_t take_near(float out[NEAR + WORD], const float *src, const float *residual,
                          uint64_t n, uint32_t threshold)
{
    words limit = limit_of(threshold);
    uint64_t count = 0;

    for (uint64_t i = 0; i < n && count <= NEAR; i += LANES) {
        floats value = i + LANES <= n ? fed(src, residual, i) : fed_rest(src, residual, i, n);
        uint32_t marks = bits_of(reaching(value, limit));
        if (marks == 0)
            continue;
        float some[LANES];
        store(some, value);
        for (; marks != 0; marks &= marks - 1)
            out[count++] = some[zeros_below(marks)];
    }
    return count;
}

typedef uint32_t (*rank_fn)(const float *src, const float *residual, uint64_t n, uint64_t k);

/**
 * As rank_bits(), of a few among many. Where k groups have an element that reaches a magnitude, k
 * elements do: so only elements that reach the k-th largest of the groups' peaks need be looked at.
 * @param few  for those, and for peaks
 */
INLINE uint32_t rank_by_groups(const float *src, const float *residual, uint64_t n, uint64_t k,
                               rank_fn few)
{
    float near[NEAR + WORD];

    if (k > GROUPS * LANES / 2 || n < 4 * GROUPS * LANES)
        return rank_bits(src, residual, n, k);
    group_peaks(near, src, residual, n);
    uint32_t least = few(near, NULL, GROUPS * LANES, k);
    if (least == 0)
        return rank_bits(src, residual, n, k);
    uint64_t count = take_near(near, src, residual, n, least);
    return count <= NEAR ? few(near, NULL, count, k) : rank_bits(src, residual, n, k);
}

/** A vector's marks; *peak takes its magnitudes. */
INLINE uint64_t mark_lanes(floats value, words limit, words *peak)
{
    *peak = larger(*peak, magnitude_of(value));
    return bits_of(reaching(value, limit));
}

static struct wring_topk_found mark(uint64_t *map, const float *src, const float *residual,
                                    uint64_t n, uint32_t threshold)
{
    words peak = {0}, limit = limit_of(threshold);
    uint64_t i = 0, count = 0;

    for (; i + WORD <= n; i += WORD) {
        uint64_t marks = 0;
        for (unsigned v = 0; v < WORD; v += LANES)
            marks |= mark_lanes(fed(src, residual, i + v), limit, &peak) << v;
        map[i / WORD] = marks;
        count += (uint64_t)__builtin_popcountll(marks);
    }
    if (i < n) {
        uint64_t marks = 0;
        for (unsigned v = 0; v < WORD; v += LANES)
            marks |= mark_lanes(fed_rest(src, residual, i + v, n), limit, &peak) << v;
        map[i / WORD] = marks & ((UINT64_C(1) << (n - i)) - 1);
        count += (uint64_t)__builtin_popcountll(map[i / WORD]);
    }
    return (struct wring_topk_found){largest_of(peak), (uint32_t)count};
}

INLINE floats unmarked(floats value, uint64_t marks, unsigned from)
{
    return choose(lanes_of((uint32_t)(marks >> (from & 32)), from % 32), (floats){0}, value);
}

static void retain(float *residual, const float *src, const uint64_t *map, uint64_t n)
{
    uint64_t i = 0;

    for (; i + WORD <= n; i += WORD)
        for (unsigned v = 0; v < WORD; v += LANES)
            store(residual + i + v, unmarked(fed(src, residual, i + v), map[i / WORD], v));
    for (unsigned v = 0; i + v < n; v += LANES)
        store_first(residual + i + v, unmarked(fed_rest(src, residual, i + v, n), map[i / WORD], v),
                    rest_from(n - i, v));
}

static void leave(float *residual, const float *src, uint64_t n, uint32_t threshold)
{
    words limit = limit_of(threshold);
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        floats value = fed(src, residual, i);
        store(residual + i, choose(reaching(value, limit), (floats){0}, value));
    }
    if (i < n) {
        floats value = fed_rest(src, residual, i, n);
        store_first(residual + i, choose(reaching(value, limit), (floats){0}, value),
                    rest_from(n - i, 0));
    }
}

/* ---- the list of elements that reach a threshold ---- */

/** Which of 64 elements do. */
INLINE uint64_t reach_64(const float *src, const float *residual, uint64_t i, words limit)
{
    lanes reach[WORD / LANES];
    for (unsigned v = 0; v < WORD / LANES; v++)
        reach[v] = reaching(fed(src, residual, i + v * LANES), limit);
    return bits_of_64(reach);
}

static uint64_t reach_rest(const float *src, const float *residual, uint64_t i, uint64_t n,
                           words limit)
{
    uint64_t marks = 0;
    for (unsigned v = 0; v < WORD; v += LANES)
        marks |= (uint64_t)bits_of(reaching(fed_rest(src, residual, i + v, n), limit)) << v;
    return marks;
}

/** The values of the entries from `entry` on, while they are near. */
INLINE void take_values(struct wring_topk_list *list, uint32_t entry, const float *src,
                        const float *residual)
{
    for (; entry < list->count; entry++) {
        uint16_t index = list->indices[entry];
        list->values[entry] = residual == NULL ? src[index] : src[index] + residual[index];
    }
}

static uint32_t peak_of(const struct wring_topk_list *list)
{
    words peak = {0};
    for (uint32_t entry = 0; entry < list->count; entry += LANES)
        peak = larger(peak, magnitude_of(fed_rest(list->values, NULL, entry, list->count)));
    return largest_of(peak);
}

/**
 * Ask for the first line of the page after this one: its address is translated meanwhile, and who
 * fetches ahead has where to begin. wring_streaming_enter() would do, but a call from here puts
 * away the registers and takes as long as it saves.
 */
INLINE void enter_next_page(const float *at)
{
    __builtin_prefetch((const char *)(((uintptr_t)at | (WRING_PAGE * sizeof(*at) - 1)) + 1));
}

/**
 * A step from element i on. Where a residual is read, too, its stream comes by before the next page
 * is needed, and asking early only disturbs both. @return the list's end
 */
INLINE uint16_t *list_step(uint16_t *out, const float *src, const float *residual, uint64_t i,
                           words limit)
{
    if (residual == NULL)
        enter_next_page(src + i);
    for (uint64_t end = i + STEP; i < end; i += 64)
        out = list_64(out, reach_64(src, residual, i, limit), i, 3);
    return out;
}

/** Whole runs of elements, and the values of each before it leaves the first cache. */
INLINE uint64_t list_runs(struct wring_topk_list *list, const float *src, const float *residual,
                          uint64_t n, uint64_t run, words limit)
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
                      uint64_t i, uint64_t n, words limit)
{
    uint16_t *out = list->indices + list->count;
    uint32_t before = list->count;

    for (; i < n && list->count <= WRING_TOPK_LISTED; i += 64) {
        out = list_64(out, reach_rest(src, residual, i, n, limit), i, 3);
        list->count = (uint32_t)(out - list->indices);
    }
    take_values(list, before, src, residual);
}

static void find(struct wring_topk_list *list, const float *src, const float *residual, uint64_t n,
                 uint32_t threshold)
{
    words limit = limit_of(threshold);

    list->count = 0;
    uint64_t i = residual == NULL /* two loops: each knows whether there is a residual */
                     ? list_runs(list, src, NULL, n, RUN, limit)
                     : list_runs(list, src, residual, n, RUN / 2, limit);
    list_rest(list, src, residual, i, n, limit);
    if (list->count <= WRING_TOPK_LISTED)
        list->peak = peak_of(list);
}

#endif
