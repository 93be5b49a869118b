/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/onebit.h"
#include "compress/kernels/vector/vector.h"

#define STEP WRING_ONEBIT_LANES /* elements at a time: a word of bits */
#define PARTS (STEP / LANES)

/** A value for each lane. */
struct step {
    floats part[PARTS];
};

INLINE struct step zeros(void)
{
    struct step step;
    for (unsigned v = 0; v < PARTS; v++)
        step.part[v] = (floats){0};
    return step;
}

/** Lane j adds lane j + half; see onebit.h. */
INLINE float fold(struct step *sums)
{
    for (unsigned half = PARTS / 2; half > 0; half /= 2)
        for (unsigned v = 0; v < half; v++)
            sums->part[v] += sums->part[v + half];
    return fold_lanes(sums->part[0]);
}

/** @param residual  or NULL, which is known where this is inlined */
INLINE struct step fed(const float *src, const float *residual)
{
    struct step step;
    for (unsigned v = 0; v < PARTS; v++) {
        step.part[v] = load(src + v * LANES);
        if (residual != NULL)
            step.part[v] += load(residual + v * LANES);
    }
    return step;
}

/** The last n elements; +0 behind them adds nothing, and has no sign bit. */
INLINE struct step fed_rest(const float *src, const float *residual, uint64_t n)
{
    struct step step;
    for (unsigned v = 0; v < PARTS; v++) {
        unsigned live = rest_from(n, v * LANES);
        step.part[v] = load_first(src + v * LANES, live);
        if (residual != NULL)
            step.part[v] += load_first(residual + v * LANES, live);
    }
    return step;
}

INLINE floats absolute(floats value)
{
    return (floats)magnitude_of(value);
}

INLINE uint32_t signs_of(struct step step)
{
    uint32_t negatives = 0;
    for (unsigned v = 0; v < PARTS; v++)
        negatives |= bits_of(negative(step.part[v])) << v * LANES;
    return negatives;
}

/** @return the sign bits; the magnitudes go into the sums */
INLINE uint32_t add_step(struct step *sums, struct step step)
{
    for (unsigned v = 0; v < PARTS; v++)
        sums->part[v] += absolute(step.part[v]);
    return signs_of(step);
}

INLINE void signs_step(uint8_t *bits, struct step *sums, const float *src, const float *residual)
{
    uint32_t negatives = add_step(sums, fed(src, residual));
    memcpy(bits, &negatives, sizeof(negatives));
}

/** Whole steps, four at a time. @return how many elements that were */
INLINE uint64_t signs_steps(uint8_t *bits, struct step *sums, const float *src, uint64_t n)
{
    uint64_t i = 0;
    for (; i + 4 * STEP <= n; i += 4 * STEP)
        for (unsigned at = 0; at < 4 * STEP; at += STEP)
            signs_step(bits + (i + at) / 8, sums, src + i + at, NULL);
    for (; i + STEP <= n; i += STEP)
        signs_step(bits + i / 8, sums, src + i, NULL);
    return i;
}

/**
 * The same under feedback. Two streams that take turns line by line are fetched more slowly than
 * one after the other, so a page of the residual is read before its steps.
 */
INLINE uint64_t signs_fed_steps(uint8_t *bits, struct step *sums, const float *src,
                                const float *residual, uint64_t n)
{
    uint64_t i = 0;
    while (i + STEP <= n) {
        uint64_t end = n - i < WRING_PAGE ? n : i + WRING_PAGE;
        if (VECTOR_BYTES == WRING_LINE)
            wring_streaming_read(residual + i, (end - i) * sizeof(*residual));
        for (; i + STEP <= end; i += STEP)
            signs_step(bits + i / 8, sums, src + i, residual + i);
    }
    return i;
}

static float signs(uint8_t *bits, const float *src, const float *residual, uint64_t n)
{
    struct step sums = zeros();
    uint64_t i = residual == NULL ? signs_steps(bits, &sums, src, n)
                                  : signs_fed_steps(bits, &sums, src, residual, n);

    if (i < n) {
        struct step rest = fed_rest(src + i, residual == NULL ? NULL : residual + i, n - i);
        uint32_t negatives = add_step(&sums, rest);
        memcpy(bits + i / 8, &negatives, (n - i + 7) / 8);
    }
    return fold(&sums);
}

INLINE uint32_t split_step(struct step *plus, struct step *minus, struct step step)
{
    for (unsigned v = 0; v < PARTS; v++) {
        lanes below = whole_lanes(negative(step.part[v]));
        plus->part[v] = add_where(other(below), plus->part[v], absolute(step.part[v]));
        minus->part[v] = add_where(below, minus->part[v], absolute(step.part[v]));
    }
    return signs_of(step);
}

static void signs_split(uint8_t *bits, const float *src, const float *residual, uint64_t n,
                        struct wring_onebit_split *out)
{
    struct step plus = zeros(), minus = zeros();
    uint64_t count = 0, i = 0;

    for (; i + STEP <= n; i += STEP) {
        uint32_t negatives =
            split_step(&plus, &minus, fed(src + i, residual == NULL ? NULL : residual + i));
        memcpy(bits + i / 8, &negatives, sizeof(negatives));
        count += (uint64_t)__builtin_popcount(negatives);
    }
    if (i < n) {
        struct step rest = fed_rest(src + i, residual == NULL ? NULL : residual + i, n - i);
        uint32_t negatives = split_step(&plus, &minus, rest);
        memcpy(bits + i / 8, &negatives, (n - i + 7) / 8);
        count += (uint64_t)__builtin_popcount(negatives);
    }
    *out = (struct wring_onebit_split){fold(&plus), fold(&minus), count};
}

/** v less its level. */
INLINE floats kept(floats value, float above_0, float below_0)
{
    return value - choose(negative(value), all(below_0), all(above_0));
}

static void keep(float *residual, const float *src, uint64_t n, float above_0, float below_0)
{
    uint64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store(residual + i, kept(load(src + i) + load(residual + i), above_0, below_0));
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        floats value = load_first(src + i, live) + load_first(residual + i, live);
        store_first(residual + i, kept(value, above_0, below_0), live);
    }
}

/** The levels of a step's part. */
INLINE floats levels(uint32_t word, unsigned part, float above_0, float below_0)
{
    return choose(lanes_of(word, part * LANES), all(below_0), all(above_0));
}

INLINE uint32_t word_at(const uint8_t *bits, size_t bytes)
{
    uint32_t word = 0;
    memcpy(&word, bits, bytes);
    return word;
}

/** dst = levels, or dst + levels. */
INLINE void spread_any(float *dst, const uint8_t *bits, uint64_t n, float above_0, float below_0,
                       bool add)
{
    uint64_t i = 0;

    for (; i + STEP <= n; i += STEP) {
        uint32_t word = word_at(bits + i / 8, sizeof(word));
        for (unsigned v = 0; v < PARTS; v++) {
            floats level = levels(word, v, above_0, below_0);
            float *at = dst + i + v * LANES;
            store(at, add ? load(at) + level : level);
        }
    }
    if (i == n)
        return;
    uint32_t word = word_at(bits + i / 8, (n - i + 7) / 8);
    for (unsigned v = 0; v < PARTS; v++) {
        floats level = levels(word, v, above_0, below_0);
        float *at = dst + i + v * LANES;
        unsigned live = rest_from(n - i, v * LANES);
        store_first(at, add ? load_first(at, live) + level : level, live);
    }
}

static void spread(float *dst, const uint8_t *bits, uint64_t n, float above_0, float below_0)
{
    spread_any(dst, bits, n, above_0, below_0, false);
}

static void spread_add(float *dst, const uint8_t *bits, uint64_t n, float above_0, float below_0)
{
    spread_any(dst, bits, n, above_0, below_0, true);
}

const struct wring_onebit_kernels OF_TIER(wring_onebit) = {
    signs, signs_split, keep, spread, spread_add,
};
