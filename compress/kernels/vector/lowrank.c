/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/lowrank.h"
#include "compress/kernels/vector/vector.h"

#define RANK WRING_LOWRANK_RANK
#define STEP 32 /* lanes of a sum over columns */
#define PARTS (STEP / LANES)
#define BAND 4 /* rows that a column's sums are loaded and stored for */

/** Elements of v from `at` on, those beyond `live` 0. @param residual  or NULL, known where this is
 *  inlined */
INLINE floats fed(const float *src, const float *residual, uint64_t at, unsigned live)
{
    if (live == LANES)
        return residual == NULL ? load(src + at) : load(src + at) + load(residual + at);
    floats value = load_first(src + at, live);
    return residual == NULL ? value : value + load_first(residual + at, live);
}

/* ---- right ---- */

struct sums {
    floats part[RANK][PARTS];
};

INLINE void add_products(struct sums *sums, const float *src, const float *residual, const float *q,
                         uint64_t columns, uint64_t i, uint64_t n)
{
    for (unsigned v = 0; v < PARTS; v++) {
        unsigned live = rest_from(n, v * LANES);
        uint64_t at = i + v * LANES;
        if (live == 0)
            return;
        floats value = fed(src, residual, at, live);
        for (unsigned k = 0; k < RANK; k++) {
            const float *other = q + k * columns + at;
            sums->part[k][v] += value * (live == LANES ? load(other) : load_first(other, live));
        }
    }
}

INLINE float fold(floats part[PARTS])
{
    for (unsigned half = PARTS / 2; half > 0; half /= 2)
        for (unsigned v = 0; v < half; v++)
            part[v] += part[v + half];
    return fold_lanes(part[0]);
}

INLINE void right_any(float *p, const float *src, const float *residual,
                      struct wring_lowrank_shape shape, const float *q)
{
    uint64_t n = shape.columns;

    for (uint64_t row = 0; row < shape.rows; row++) {
        const float *from = src + row * n, *more = residual == NULL ? NULL : residual + row * n;
        struct sums sums;
        uint64_t i = 0;
        memset(&sums, 0, sizeof(sums));
        for (; i + STEP <= n; i += STEP)
            add_products(&sums, from, more, q, n, i, STEP);
        if (i < n)
            add_products(&sums, from, more, q, n, i, n - i);
        for (unsigned k = 0; k < RANK; k++)
            p[k * shape.rows + row] = fold(sums.part[k]);
    }
}

static void right(float *p, const float *src, const float *residual,
                  struct wring_lowrank_shape shape, const float *q)
{
    if (residual == NULL)
        right_any(p, src, NULL, shape, q);
    else
        right_any(p, src, residual, shape, q);
}

/* ---- left ---- */

/** Add the products of some rows to the sums of a vector of columns. */
INLINE void add_band(float *q, const float *src, const float *residual,
                     struct wring_lowrank_shape shape, const float *p, uint64_t row, unsigned rows,
                     uint64_t i, unsigned live)
{
    floats sum[RANK];

    for (unsigned k = 0; k < RANK; k++)
        sum[k] = live == LANES ? load(q + k * shape.columns + i)
                               : load_first(q + k * shape.columns + i, live);
    for (unsigned r = 0; r < rows; r++) {
        floats value = fed(src, residual, (row + r) * shape.columns + i, live);
        for (unsigned k = 0; k < RANK; k++)
            sum[k] += value * all(p[k * shape.rows + row + r]);
    }
    for (unsigned k = 0; k < RANK; k++)
        if (live == LANES)
            store(q + k * shape.columns + i, sum[k]);
        else
            store_first(q + k * shape.columns + i, sum[k], live);
}

INLINE void left_any(float *q, const float *src, const float *residual,
                     struct wring_lowrank_shape shape, const float *p)
{
    uint64_t n = shape.columns, row = 0;

    memset(q, 0, RANK * n * sizeof(*q));
    for (; row < shape.rows; row += BAND) {
        unsigned rows = shape.rows - row < BAND ? (unsigned)(shape.rows - row) : BAND;
        uint64_t i = 0;
        for (; rows == BAND && i + LANES <= n; i += LANES)
            add_band(q, src, residual, shape, p, row, BAND, i, LANES);
        for (; i < n; i += LANES)
            add_band(q, src, residual, shape, p, row, rows, i, rest_from(n - i, 0));
    }
}

static void left(float *q, const float *src, const float *residual,
                 struct wring_lowrank_shape shape, const float *p)
{
    if (residual == NULL)
        left_any(q, src, NULL, shape, p);
    else
        left_any(q, src, residual, shape, p);
}

/* ---- product ---- */

/** What a row has in a vector of columns. */
INLINE floats product_at(struct wring_lowrank_shape shape, const float *p, const float *q,
                         uint64_t row, uint64_t i, unsigned live)
{
    floats sum = {0};

    for (unsigned k = 0; k < RANK; k++) {
        const float *other = q + k * shape.columns + i;
        floats of_rank =
            all(p[k * shape.rows + row]) * (live == LANES ? load(other) : load_first(other, live));
        sum = k == 0 ? of_rank : sum + of_rank;
    }
    return sum;
}

enum what {
    WRITE,
    ADD,
    KEEP
};

/** @param src  of KEEP; @param what  known where this is inlined */
INLINE void each_product(float *dst, const float *src, struct wring_lowrank_shape shape,
                         const float *p, const float *q, enum what what)
{
    for (uint64_t row = 0; row < shape.rows; row++)
        for (uint64_t i = 0; i < shape.columns; i += LANES) {
            unsigned live = rest_from(shape.columns - i, 0);
            uint64_t at = row * shape.columns + i;
            floats value = product_at(shape, p, q, row, i, live);
            if (what == ADD)
                value = fed(dst, NULL, at, live) + value;
            else if (what == KEEP)
                value = fed(src, dst, at, live) - value;
            if (live == LANES)
                store(dst + at, value);
            else
                store_first(dst + at, value, live);
        }
}

static void product(float *dst, struct wring_lowrank_shape shape, const float *p, const float *q)
{
    each_product(dst, NULL, shape, p, q, WRITE);
}

static void product_add(float *dst, struct wring_lowrank_shape shape, const float *p,
                        const float *q)
{
    each_product(dst, NULL, shape, p, q, ADD);
}

static void keep(float *residual, const float *src, struct wring_lowrank_shape shape,
                 const float *p, const float *q)
{
    each_product(residual, src, shape, p, q, KEEP);
}

const struct wring_lowrank_kernels OF_TIER(wring_lowrank) = {
    right, left, product, product_add, keep,
};
