/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/rotate.h"
#include "compress/kernels/vector/vector.h"

#define STEP 32 /* elements: a word of signs */
#define PARTS (STEP / LANES)
#define HALVES (2 * PARTS) /* vectors of binary64 for a step */

/* ---- power ---- */

struct sums {
    doubles part[HALVES]; /* lane j of the step is lane j % (LANES / 2) of part j / (LANES / 2) */
};

/** @param value  [STEP] */
INLINE void add_squares(struct sums *sums, const float *src, const float *residual)
{
    for (unsigned v = 0; v < HALVES; v++) {
        doubles wide;
        if (residual == NULL) {
            wide = widen_floats(src + v * (LANES / 2));
        } else {
            float fed[LANES / 2];
            for (unsigned j = 0; j < LANES / 2; j++)
                fed[j] = src[v * (LANES / 2) + j] + residual[v * (LANES / 2) + j];
            wide = widen_floats(fed);
        }
        sums->part[v] += wide * wide;
    }
}

/** Lane j adds lane j + half, for half = 16, 8, … */
INLINE double fold_sums(struct sums *sums)
{
    double left[LANES / 2];

    for (unsigned half = HALVES / 2; half > 0; half /= 2)
        for (unsigned v = 0; v < half; v++)
            sums->part[v] += sums->part[v + half];
    memcpy(left, &sums->part[0], sizeof(left));
    for (unsigned half = LANES / 4; half > 0; half /= 2)
        for (unsigned j = 0; j < half; j++)
            left[j] += left[j + half];
    return left[0];
}

INLINE double power_any(const float *src, const float *residual, uint64_t n)
{
    struct sums sums;
    uint64_t i = 0;

    memset(&sums, 0, sizeof(sums));
    for (; i + STEP <= n; i += STEP)
        add_squares(&sums, src + i, residual == NULL ? NULL : residual + i);
    if (i < n) {
        float rest[STEP] = {0}, more[STEP] = {0};
        memcpy(rest, src + i, (n - i) * sizeof(*src));
        if (residual != NULL)
            memcpy(more, residual + i, (n - i) * sizeof(*src));
        add_squares(&sums, rest, residual == NULL ? NULL : more);
    }
    return fold_sums(&sums);
}

static double power(const float *src, const float *residual, uint64_t n)
{
    return residual == NULL ? power_any(src, NULL, n) : power_any(src, residual, n);
}

/* ---- rotation ---- */

/** The stage h within a vector: (a, b) becomes (a + b, a - b), as b + a and a + -b. */
INLINE floats stage_within(floats x, unsigned h)
{
    const words numbers = LANE_NUMBERS;
    words minus = (words)((numbers & h) != 0) & WRING_SIGN_BITS;
    return swap_lanes(x, h) + (floats)((words)x ^ minus);
}

/** All stages below LANES. */
INLINE floats stages_within(floats x)
{
    x = stage_within(stage_within(x, 1), 2);
    if (LANES > 4)
        x = stage_within(x, 4);
    return LANES > 8 ? stage_within(x, 8) : x;
}

INLINE void butterfly(floats *a, floats *b)
{
    floats sum = *a + *b, difference = *a - *b;
    *a = sum;
    *b = difference;
}

/** The stage h, of LANES and more. */
INLINE void stage(float *x, uint64_t m, uint64_t h)
{
    for (uint64_t i = 0; i < m; i += 2 * h)
        for (uint64_t j = i; j < i + h; j += LANES) {
            floats a = load(x + j), b = load(x + j + h);
            butterfly(&a, &b);
            store(x + j, a), store(x + j + h, b);
        }
}

/** The stages h and 2 h at once. */
INLINE void two_stages(float *x, uint64_t m, uint64_t h)
{
    for (uint64_t i = 0; i < m; i += 4 * h)
        for (uint64_t j = i; j < i + h; j += LANES) {
            floats a = load(x + j), b = load(x + j + h);
            floats c = load(x + j + 2 * h), d = load(x + j + 3 * h);
            butterfly(&a, &b), butterfly(&c, &d);
            butterfly(&a, &c), butterfly(&b, &d);
            store(x + j, a), store(x + j + h, b);
            store(x + j + 2 * h, c), store(x + j + 3 * h, d);
        }
}

/** All stages from LANES on. */
INLINE void stages_beyond(float *x, uint64_t m)
{
    uint64_t h = LANES;

    for (; 2 * h < m; h *= 4)
        two_stages(x, m, h);
    if (h < m)
        stage(x, m, h);
}

INLINE floats flipped(floats x, uint32_t signs, unsigned from)
{
    floats minus = (floats)((words)x ^ WRING_SIGN_BITS);
    return choose(lanes_of(signs, from), minus, x);
}

INLINE void forward_any(float *out, const float *src, const float *residual, uint64_t n,
                        const uint32_t *signs, uint64_t m)
{
    for (uint64_t i = 0; i < m; i += LANES) {
        unsigned live = i < n ? rest_from(n - i, 0) : 0;
        floats x = {0};
        if (live == LANES)
            x = residual == NULL ? load(src + i) : load(src + i) + load(residual + i);
        else if (live > 0 && residual == NULL)
            x = load_first(src + i, live);
        else if (live > 0)
            x = load_first(src + i, live) + load_first(residual + i, live);
        store(out + i, stages_within(flipped(x, signs[i / STEP], i % STEP)));
    }
    stages_beyond(out, m);
}

static void forward(float *out, const float *src, const float *residual, uint64_t n,
                    const uint32_t *signs, uint64_t m)
{
    if (residual == NULL)
        forward_any(out, src, NULL, n, signs, m);
    else
        forward_any(out, src, residual, n, signs, m);
}

INLINE void back_any(float *dst, float *x, uint64_t n, const uint32_t *signs, uint64_t m, bool add)
{
    uint64_t i = 0;

    for (uint64_t j = 0; j < m; j += LANES)
        store(x + j, stages_within(load(x + j)));
    stages_beyond(x, m);
    for (; i + LANES <= n; i += LANES) {
        floats value = flipped(load(x + i), signs[i / STEP], i % STEP);
        store(dst + i, add ? load(dst + i) + value : value);
    }
    if (i < n) {
        unsigned live = rest_from(n - i, 0);
        floats value = flipped(load(x + i), signs[i / STEP], i % STEP);
        store_first(dst + i, add ? load_first(dst + i, live) + value : value, live);
    }
}

static void back(float *dst, float *x, uint64_t n, const uint32_t *signs, uint64_t m)
{
    back_any(dst, x, n, signs, m, false);
}

static void back_add(float *dst, float *x, uint64_t n, const uint32_t *signs, uint64_t m)
{
    back_any(dst, x, n, signs, m, true);
}

const struct wring_rotate_kernels OF_TIER(wring_rotate) = {power, forward, back, back_add};
