/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/search/rate_table.h"

#include <stdlib.h>
#include <string.h>

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** All x of the corners of `n` costs, rising, each once, 0 among them. */
static uint32_t collect_corners(const struct wring_cost *costs, uint32_t n, double *x)
{
    uint32_t many = 1, kept = 1;

    x[0] = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t corner = 0; corner < costs[i].n; corner++)
            if (costs[i].corners[corner].x > 0)
                x[many++] = costs[i].corners[corner].x;
    qsort(x, many, sizeof(*x), rising);
    for (uint32_t i = 1; i < many; i++)
        if (x[i] > x[kept - 1])
            x[kept++] = x[i];
    return kept;
}

/** Add a cost to a lane of all pieces. */
static void add_cost(struct wring_rate_table *table, const struct wring_cost *cost, uint32_t lane)
{
    for (uint32_t i = 0; i < table->n; i++) {
        struct wring_rate_piece *piece = &table->pieces[i];
        double us = wring_cost_at(cost, piece->from);
        piece->us[lane] += us;
        if (i + 1 < table->n) {
            double next = table->pieces[i + 1].from;
            piece->slope[lane] += (wring_cost_at(cost, next) - us) / (next - piece->from);
        } else if (cost->n > 0) {
            piece->slope[lane] += cost->slope;
        }
    }
}

/** @param costs  [2 × WRING_PLAN_LANES_MAX] a lane's are at lane and WRING_PLAN_LANES_MAX + lane */
static enum wring_status make_table(struct wring_rate_table *table, const struct wring_cost *costs)
{
    double x[2 * WRING_PLAN_LANES_MAX * WRING_COST_CORNERS + 1];

    table->n = collect_corners(costs, 2 * WRING_PLAN_LANES_MAX, x);
    table->pieces = calloc(table->n, sizeof(*table->pieces));
    if (table->pieces == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < table->n; i++)
        table->pieces[i].from = x[i];
    for (uint32_t i = 0; i < 2 * WRING_PLAN_LANES_MAX; i++)
        add_cost(table, &costs[i], i % WRING_PLAN_LANES_MAX);
    return WRING_OK;
}

enum wring_status wring_rate_init(struct wring_rate *rate, const struct wring_option_cost *option,
                                  uint32_t n_lanes)
{
    struct wring_cost first[2 * WRING_PLAN_LANES_MAX] = {0}, each[2 * WRING_PLAN_LANES_MAX] = {0};

    rate->chunk_elems = option->chunk_elems;
    memcpy(first, option->once, n_lanes * sizeof(*first));
    memcpy(rate->chunk_elems == 0 ? first + WRING_PLAN_LANES_MAX : each, option->each,
           n_lanes * sizeof(*first));
    enum wring_status status = make_table(&rate->first, first);
    return status == WRING_OK ? make_table(&rate->each, each) : status;
}

void wring_rate_finish(struct wring_rate *rate)
{
    free(rate->first.pieces);
    free(rate->each.pieces);
}

static bool below_at(const struct wring_rate_table *a, const struct wring_rate_table *b, double x,
                     uint32_t n_lanes)
{
    double us_a[WRING_PLAN_LANES_MAX], us_b[WRING_PLAN_LANES_MAX];

    wring_rate_look_up(a, x, us_a);
    wring_rate_look_up(b, x, us_b);
    for (uint32_t lane = 0; lane < n_lanes; lane++)
        if (us_a[lane] > us_b[lane])
            return false;
    return true;
}

/** At all corners of one of the tables inside the interval. */
static bool below_at_corners(const struct wring_rate_table *a, const struct wring_rate_table *b,
                             const struct wring_rate_table *corners, double low, double high,
                             uint32_t n_lanes)
{
    for (uint32_t i = 0; i < corners->n; i++) {
        double x = corners->pieces[i].from;
        if (x > low && x < high && !below_at(a, b, x, n_lanes))
            return false;
    }
    return true;
}

/** Between corners both are lines, so that corners and ends say it all. */
static bool below(const struct wring_rate_table *a, const struct wring_rate_table *b, double low,
                  double high, uint32_t n_lanes)
{
    return below_at(a, b, low, n_lanes) && below_at(a, b, high, n_lanes) &&
           below_at_corners(a, b, a, low, high, n_lanes) &&
           below_at_corners(a, b, b, low, high, n_lanes);
}

bool wring_rate_below(const struct wring_rate *a, const struct wring_rate *b, double low,
                      double high, uint32_t n_lanes)
{
    double chunk = (double)a->chunk_elems;

    if (a->chunk_elems != b->chunk_elems || !below(&a->first, &b->first, low, high, n_lanes))
        return false;
    if (a->chunk_elems == 0)
        return true;
    /* one chunk is as large as its group; of more, each is more than half as large as they may be
     */
    double least = low < chunk / 2 ? low : chunk / 2, most = high < chunk ? high : chunk;
    return below(&a->each, &b->each, least, most, n_lanes);
}
