/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The few groups that matter: those that were cheap under some flow. The best response among them
 * takes microseconds, so that the bound is sought with them, and proven with the whole table.
 *
 * Columns are added at the end; wring_columns_settle() puts them where they begin, after which they
 * can be priced and played with.
 *
 * A set has one owner and one thread. All memory is taken by init.
 */
#ifndef WRING_BOUND_COLUMNS_H
#define WRING_BOUND_COLUMNS_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/tool/bound/groups.h"

#define WRING_COLUMN_NONE UINT32_MAX

struct wring_column {
    double regret; /* the game's, at its last rest */
    uint32_t begin, end, option;
    uint32_t next; /* with the same begin */
    struct wring_group_cost group;
};

struct wring_columns {
    const struct wring_group_table *table; /* borrowed */
    struct wring_column *columns;          /* [max] by begin, but for those added since */
    struct wring_column *spare;            /* [max] */
    uint32_t n, max;
    uint32_t *row;   /* [n_tensors + 1] where the columns of each tensor begin */
    uint32_t *first; /* [n_tensors] */
    uint32_t *best;  /* [n_tensors] after a pricing: with which column it goes on best */
    double *rest;    /* [n_tensors + 1] */
    void *memory;
};

/** Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_columns_init(struct wring_columns *set,
                                     const struct wring_group_table *table, uint32_t max);

void wring_columns_finish(struct wring_columns *set);

/**
 * Add a column, with nothing regretted; one that is in the set already is fine.
 * @return false where there is no room
 */
bool wring_columns_add(struct wring_columns *set, uint32_t begin, uint32_t end, uint32_t option);

/**
 * Add what the table found cheap: a cheapest group from each tensor and one to each tensor.
 * @return how many were new
 */
uint32_t wring_columns_gather(struct wring_columns *set);

/** Put the columns in their order. Those go that the table has buried, or that lead nowhere. */
void wring_columns_settle(struct wring_columns *set);

/** Of settled columns: the least expected length of groupings of the tensors from `first` on. */
double wring_columns_price(struct wring_columns *set, uint32_t first,
                           const struct wring_masses *masses);

/** The best grouping of the last pricing, from tensor 0 on. @param out  room for n groups */
void wring_columns_best(const struct wring_columns *set, struct wring_grouping *out);

/** What wring_column_lengths() says of a column in several chunks: that part of which a flow makes
 * most.
 *  @param lanes  out, [WRING_PLAN_LANES_MAX] */
void wring_column_chunks_lengths(const struct wring_column *column,
                                 const struct wring_masses *masses, double *lanes);

/**
 * How long a column is per lane that a path touches.
 * @param room  scratch, [WRING_PLAN_LANES_MAX]
 * @return [WRING_PLAN_LANES_MAX] the column's own, or `room`
 */
static inline const double *wring_column_lengths(const struct wring_column *column,
                                                 const struct wring_masses *masses, double *room)
{
    if (!column->group.chunked)
        return column->group.took;
    wring_column_chunks_lengths(column, masses, room);
    return room;
}

#endif
