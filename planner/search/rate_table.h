/* SPDX-License-Identifier: Apache-2.0 */
/** Tables: an option's costs on all lanes, piece by piece between the corners of any of them. */
#ifndef WRING_PLANNER_RATE_TABLE_H
#define WRING_PLANNER_RATE_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/problem.h"
#include "planner/two_doubles.h"
#include <wring/status.h>

/** Between two corners. Lanes that the problem does not have cost nothing. */
struct wring_rate_piece {
    double from;                        /* elements */
    double us[WRING_PLAN_LANES_MAX];    /* there */
    double slope[WRING_PLAN_LANES_MAX]; /* from there on */
};

/** Costs by one size. */
struct wring_rate_table {
    uint32_t n;
    struct wring_rate_piece *pieces; /* [n] rising, the first from 0 */
};

struct wring_rate {
    uint64_t chunk_elems;
    struct wring_rate_table first; /* by elements of the group: once, with each where that is one
                                      chunk */
    struct wring_rate_table each;  /* by elements of a chunk, where groups are cut */
};

/** Errors: WRING_ERR_NO_MEMORY; finish it then too. */
enum wring_status wring_rate_init(struct wring_rate *rate, const struct wring_option_cost *option,
                                  uint32_t n_lanes);

void wring_rate_finish(struct wring_rate *rate);

/** Does `a` take no longer than `b`, on any lane, for any group of low to high elements? */
bool wring_rate_below(const struct wring_rate *a, const struct wring_rate *b, double low,
                      double high, uint32_t n_lanes);

/** Costs at a size, on all lanes that there may be: no count to look at. @param us  out, of those
 */
static inline void wring_rate_look_up(const struct wring_rate_table *table, double x, double *us)
{
    const struct wring_rate_piece *piece = table->pieces + table->n - 1;

    while (piece->from > x)
        piece--;
    double over = x - piece->from;
#pragma GCC unroll 4
    for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX; lane += 2)
        wring_pair_store(us + lane,
                         wring_pair_load(piece->us + lane) +
                             (wring_pair){over, over} * wring_pair_load(piece->slope + lane));
}

/** What a group of `elems` takes on each lane in all, however many chunks it has.
 *  @param us  out, [WRING_PLAN_LANES_MAX] */
static inline void wring_rate_loads(const struct wring_rate *rate, uint64_t elems, uint32_t n_lanes,
                                    double *us)
{
    wring_rate_look_up(&rate->first, (double)elems, us);
    if (rate->chunk_elems == 0)
        return;
    double each[WRING_PLAN_LANES_MAX];
    double chunks = (double)((elems + rate->chunk_elems - 1) / rate->chunk_elems);
    wring_rate_look_up(&rate->each, (double)elems / chunks, each);
    for (uint32_t lane = 0; lane < n_lanes; lane++)
        us[lane] += chunks * each[lane];
}

#endif
