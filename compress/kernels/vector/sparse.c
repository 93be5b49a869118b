/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/sparse.h"
#include "compress/kernels/vector/list.h"

#define PARTS 4 /* vectors at a time, none of which waits for another */

/** @param residual  or NULL, which is known where this is inlined */
INLINE words magnitude_at(const float *src, const float *residual, uint64_t i)
{
    floats value = load(src + i);
    return magnitude_of(residual != NULL ? value + load(residual + i) : value);
}

INLINE words magnitude_of_rest(const float *src, const float *residual, uint64_t i, unsigned live)
{
    floats value = load_first(src + i, live);
    return magnitude_of(residual != NULL ? value + load_first(residual + i, live) : value);
}

INLINE uint32_t peak_of(const float *src, const float *residual, uint64_t n)
{
    words peaks[PARTS] = {{0}};
    uint64_t i = 0;

    for (; i + PARTS * LANES <= n; i += PARTS * LANES)
        for (unsigned v = 0; v < PARTS; v++)
            peaks[v] = larger(peaks[v], magnitude_at(src, residual, i + v * LANES));
    for (; i < n; i += LANES)
        peaks[0] = larger(peaks[0], magnitude_of_rest(src, residual, i, rest_from(n - i, 0)));
    return largest_of(larger(larger(peaks[0], peaks[1]), larger(peaks[2], peaks[3])));
}

static uint32_t peak(const float *src, const float *residual, uint64_t n)
{
    return residual != NULL ? peak_of(src, residual, n) : peak_of(src, NULL, n);
}

static void feed(float *residual, const float *src, uint64_t n)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES)
        store(residual + i, load(src + i) + load(residual + i));
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        store_first(residual + i, load_first(src + i, live) + load_first(residual + i, live), live);
    }
}

/* ---- sums of squares ---- */

#define STEP WRING_SPARSE_LANES
#define FLOATS (STEP / LANES) /* vectors of a step */

/** Lanes of a sum. */
struct lanes_of_sum {
    doubles part[2 * FLOATS];
};

INLINE void add_squares(struct lanes_of_sum *sum, unsigned v, floats value)
{
    doubles lower = lower_f64(value), upper = upper_f64(value);
    sum->part[2 * v] += lower * lower;
    sum->part[2 * v + 1] += upper * upper;
}

INLINE double fold_squares(struct lanes_of_sum *sum)
{
    for (unsigned half = FLOATS; half > 0; half /= 2)
        for (unsigned v = 0; v < half; v++)
            sum->part[v] += sum->part[v + half];
    return fold_lanes_f64(sum->part[0]);
}

INLINE double squares_of(const float *src, const float *residual, uint64_t n)
{
    struct lanes_of_sum sum = {{{0}}};
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP)
        for (unsigned v = 0; v < FLOATS; v++) {
            floats value = load(src + i + v * LANES);
            add_squares(&sum, v, residual != NULL ? value + load(residual + i + v * LANES) : value);
        }
    for (unsigned v = 0; i < n && v < FLOATS; v++) { /* +0 behind the last one adds nothing */
        unsigned live = rest_from(n - i, v * LANES);
        floats value = load_first(src + i + v * LANES, live);
        if (residual != NULL)
            value += load_first(residual + i + v * LANES, live);
        add_squares(&sum, v, value);
    }
    return fold_squares(&sum);
}

static double squares(const float *src, const float *residual, uint64_t n)
{
    return residual != NULL ? squares_of(src, residual, n) : squares_of(src, NULL, n);
}

/* ---- momentum ---- */

INLINE floats momentum_of(floats u, floats src, struct wring_sparse_step step)
{
    return all(step.momentum) * u + all(step.factor) * src;
}

/** What u and v come to: the larger magnitudes of both. */
INLINE words foreseen(floats u, floats v, floats src, struct wring_sparse_step step)
{
    floats next = momentum_of(u, src, step);
    return larger(magnitude_of(next), magnitude_of(v + next));
}

static uint32_t foresee(const float *u, const float *v, const float *src, uint64_t n,
                        struct wring_sparse_step step)
{
    words peaks[2] = {{0}};
    uint64_t i = 0;

    for (; i + 2 * LANES <= n; i += 2 * LANES)
        for (unsigned p = 0; p < 2; p++) {
            uint64_t at = i + p * LANES;
            peaks[p] = larger(peaks[p], foreseen(load(u + at), load(v + at), load(src + at), step));
        }
    for (; i < n; i += LANES) {
        unsigned live = rest_from(n - i, 0);
        peaks[0] = larger(peaks[0], foreseen(load_first(u + i, live), load_first(v + i, live),
                                             load_first(src + i, live), step));
    }
    return largest_of(larger(peaks[0], peaks[1]));
}

static void advance(float *u, float *v, const float *src, uint64_t n, struct wring_sparse_step step)
{
    uint64_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        floats next = momentum_of(load(u + i), load(src + i), step);
        store(u + i, next);
        store(v + i, load(v + i) + next);
    }
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        floats next = momentum_of(load_first(u + i, live), load_first(src + i, live), step);
        store_first(v + i, load_first(v + i, live) + next, live);
        store_first(u + i, next, live);
    }
}

static uint64_t list(uint16_t *out, const uint64_t *map, uint64_t n_words)
{
    uint16_t *end = out;

    for (uint64_t word = 0; word < n_words; word++)
        end = list_64(end, map[word], word * 64, 2);
    return (uint64_t)(end - out);
}

const struct wring_sparse_kernels OF_TIER(wring_sparse) = {
    peak, feed, squares, foresee, advance, list,
};
