/* SPDX-License-Identifier: Apache-2.0 */
#include "compress/kernels/lowrank.h"
#include "compress/kernels/streaming.h"
#include "compress/kernels/vector/vector.h"

#define STEP 32 /* lanes of a sum over columns */
#define PARTS (STEP / LANES)
#define GROUP 4   /* columns of p that a row is read for: their sums are in registers */
#define BAND 4    /* rows that a column's sums are loaded and stored for */
#define TALL 8    /* rows of a product for which a page's columns of q stay in a first cache */
#define MANY 4    /* columns of q: they are more than a first cache holds */
#define AHEAD 512 /* elements by which matrices are asked for before they are needed */

/** Call what is inlined with the rank as a constant. */
#define WITH_RANK(rank, kernel, ...)        \
    ((rank) == 1   ? kernel(__VA_ARGS__, 1) \
     : (rank) == 2 ? kernel(__VA_ARGS__, 2) \
     : (rank) == 4 ? kernel(__VA_ARGS__, 4) \
                   : kernel(__VA_ARGS__, 8))

/** Elements of v from `at` on, those beyond `live` 0. @param residual  or NULL, known where this is
 *  inlined */
INLINE floats fed(const float *src, const float *residual, uint64_t at, unsigned live)
{
    if (live == LANES)
        return residual == NULL ? load(src + at) : load(src + at) + load(residual + at);
    floats value = load_first(src + at, live);
    return residual == NULL ? value : value + load_first(residual + at, live);
}

/**
 * Where q has many columns its loads come between those of the matrices, and processors do not
 * fetch ahead far enough by themselves. @param residual  or NULL, as above
 */
INLINE void ask_ahead(const float *src, const float *residual, uint64_t at, unsigned rank)
{
    if (rank < MANY)
        return;
    __builtin_prefetch(src + at + AHEAD);
    if (residual != NULL)
        __builtin_prefetch(residual + at + AHEAD);
}

/* ---- right ---- */

struct sums {
    floats part[GROUP][PARTS];
};

INLINE void add_products(struct sums *sums, const float *src, const float *residual, const float *q,
                         uint64_t columns, uint64_t i, uint64_t n, unsigned group)
{
    for (unsigned v = 0; v < PARTS; v++) {
        unsigned live = rest_from(n, v * LANES);
        uint64_t at = i + v * LANES;
        if (live == 0)
            return;
        ask_ahead(src, residual, at, group);
        floats value = fed(src, residual, at, live);
        for (unsigned k = 0; k < group; k++) {
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

/** A row's number in each of some columns of p, which begin at that number of the first. */
INLINE void right_row(float *p, const float *src, const float *residual,
                      struct wring_lowrank_shape shape, const float *q, unsigned group)
{
    uint64_t n = shape.columns, i = 0;
    struct sums sums;

    memset(&sums, 0, sizeof(sums));
    for (; i + STEP <= n; i += STEP)
        add_products(&sums, src, residual, q, n, i, STEP, group);
    if (i < n)
        add_products(&sums, src, residual, q, n, i, n - i, group);
    for (unsigned k = 0; k < group; k++)
        p[k * shape.rows] = fold(sums.part[k]);
}

/** @param rank  known where this is inlined, as below */
INLINE void right_any(float *p, const float *src, const float *residual,
                      struct wring_lowrank_shape shape, const float *q, unsigned rank)
{
    const unsigned group = rank < GROUP ? rank : GROUP;

    for (uint64_t row = 0; row < shape.rows; row++) {
        uint64_t at = row * shape.columns;
        for (unsigned k = 0; k < rank; k += group)
            right_row(p + k * shape.rows + row, src + at, residual == NULL ? NULL : residual + at,
                      shape, q + k * shape.columns, group);
    }
}

static void right(float *p, const float *src, const float *residual,
                  struct wring_lowrank_shape shape, const float *q)
{
    if (residual == NULL)
        WITH_RANK(shape.rank, right_any, p, src, NULL, shape, q);
    else
        WITH_RANK(shape.rank, right_any, p, src, residual, shape, q);
}

/* ---- left ---- */

/** Add the products of some rows to the sums of a vector of columns. */
INLINE void add_band(float *q, const float *src, const float *residual,
                     struct wring_lowrank_shape shape, const float *p, uint64_t row, unsigned rows,
                     uint64_t i, unsigned live, unsigned rank)
{
    floats sum[WRING_LOWRANK_RANK_MAX];

    for (unsigned k = 0; k < rank; k++)
        sum[k] = live == LANES ? load(q + k * shape.columns + i)
                               : load_first(q + k * shape.columns + i, live);
    for (unsigned r = 0; r < rows; r++) {
        uint64_t at = (row + r) * shape.columns + i;
        ask_ahead(src, residual, at, rank);
        floats value = fed(src, residual, at, live);
        for (unsigned k = 0; k < rank; k++)
            sum[k] += value * all(p[k * shape.rows + row + r]);
    }
    for (unsigned k = 0; k < rank; k++)
        if (live == LANES)
            store(q + k * shape.columns + i, sum[k]);
        else
            store_first(q + k * shape.columns + i, sum[k], live);
}

INLINE void left_any(float *q, const float *src, const float *residual,
                     struct wring_lowrank_shape shape, const float *p, unsigned rank)
{
    uint64_t n = shape.columns, row = 0;

    memset(q, 0, rank * n * sizeof(*q));
    for (; row < shape.rows; row += BAND) {
        unsigned rows = shape.rows - row < BAND ? (unsigned)(shape.rows - row) : BAND;
        uint64_t i = 0;
        for (; rows == BAND && i + LANES <= n; i += LANES)
            add_band(q, src, residual, shape, p, row, BAND, i, LANES, rank);
        for (; i < n; i += LANES)
            add_band(q, src, residual, shape, p, row, rows, i, rest_from(n - i, 0), rank);
    }
}

static void left(float *q, const float *src, const float *residual,
                 struct wring_lowrank_shape shape, const float *p)
{
    if (residual == NULL)
        WITH_RANK(shape.rank, left_any, q, src, NULL, shape, p);
    else
        WITH_RANK(shape.rank, left_any, q, src, residual, shape, p);
}

/* ---- product ---- */

/** What a row has in a vector of columns. @param p  the row's numbers, each in all lanes */
INLINE floats product_at(const floats *p, const float *q, uint64_t columns, unsigned live,
                         unsigned rank)
{
    floats sum = {0};

    for (unsigned k = 0; k < rank; k++) {
        const float *other = q + k * columns;
        floats of_rank = p[k] * (live == LANES ? load(other) : load_first(other, live));
        sum = k == 0 ? of_rank : sum + of_rank;
    }
    return sum;
}

enum what {
    WRITE,
    STREAM, /* past the caches */
    ADD,
    KEEP
};

/** @param src  of KEEP, as below; @param what  known where this is inlined, as below */
INLINE void put_product(float *dst, const float *src, floats value, enum what what, unsigned live)
{
    if (what == ADD)
        value = fed(dst, NULL, 0, live) + value;
    else if (what == KEEP)
        value = fed(src, dst, 0, live) - value;
    if (live == LANES)
        put(dst, (words)value, what == STREAM);
    else
        store_first(dst, value, live);
}

/** Some columns of a row. @param p  the row's number in the first column */
INLINE void product_run(float *dst, const float *src, struct wring_lowrank_shape shape,
                        const float *p, const float *q, uint64_t n, enum what what, unsigned rank)
{
    floats row[WRING_LOWRANK_RANK_MAX];

    for (unsigned k = 0; k < rank; k++)
        row[k] = all(p[k * shape.rows]);
    for (uint64_t i = 0; i < n; i += LANES) {
        unsigned live = rest_from(n - i, 0);
        if (what == ADD || what == KEEP)
            ask_ahead(dst, what == KEEP ? src : NULL, i, rank);
        put_product(dst + i, src + i, product_at(row, q + i, shape.columns, live, rank), what,
                    live);
    }
}

/** @param rank  known where this is inlined */
INLINE void each_product(float *dst, const float *src, struct wring_lowrank_shape shape,
                         const float *p, const float *q, enum what what, unsigned rank)
{
    const uint64_t columns = shape.columns, run = rank < MANY ? columns : WRING_PAGE;
    const uint64_t tall = rank < MANY ? 1 : TALL;

    for (uint64_t band = 0; band < shape.rows; band += tall) {
        uint64_t end = shape.rows - band < tall ? shape.rows : band + tall;
        for (uint64_t from = 0; from < columns; from += run) {
            uint64_t n = columns - from < run ? columns - from : run;
            for (uint64_t row = band; row < end; row++)
                product_run(dst + row * columns + from, src + row * columns + from, shape, p + row,
                            q + from, n, what, rank);
        }
    }
}

/** Do whole lines go past the caches? */
static bool is_streamed(const float *dst, struct wring_lowrank_shape shape)
{
    return VECTOR_BYTES == WRING_LINE && WRING_IS_LONG(shape.rows * shape.columns) &&
           WRING_TO_LINE(dst) == 0 && shape.columns % LANES == 0;
}

static void product(float *dst, struct wring_lowrank_shape shape, const float *p, const float *q)
{
    if (!is_streamed(dst, shape)) {
        WITH_RANK(shape.rank, each_product, dst, dst, shape, p, q, WRITE);
        return;
    }
    WITH_RANK(shape.rank, each_product, dst, dst, shape, p, q, STREAM);
    wring_streaming_settle();
}

static void product_add(float *dst, struct wring_lowrank_shape shape, const float *p,
                        const float *q)
{
    WITH_RANK(shape.rank, each_product, dst, dst, shape, p, q, ADD);
}

static void keep(float *residual, const float *src, struct wring_lowrank_shape shape,
                 const float *p, const float *q)
{
    WITH_RANK(shape.rank, each_product, residual, src, shape, p, q, KEEP);
}

const struct wring_lowrank_kernels OF_TIER(wring_lowrank) = {
    right, left, product, product_add, keep,
};
