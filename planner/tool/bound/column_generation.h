/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The game between a mixture of groupings and a flow, played among the columns of a set. Groupings
 * minimise the expected length, flows maximise it. The length that the best grouping has against a
 * flow bounds the time of all groupings from below.
 *
 * Both sides decide place by place. A grouping chooses at each tensor the column to go on with. A
 * flow chooses in each cell of the grid the part that goes down. Each place keeps a regret per
 * choice: by how much it would have been better than the choices so far, never less than 0. It
 * chooses in proportion to the regrets (regret matching+, Tammelin 2014). The places' regrets bound
 * the regret of the whole, as in counterfactual regret minimisation (Zinkevich et al. 2007). The
 * mean of the flows, weighted towards later ones, comes close to the best flow, and needs no step
 * length.
 *
 * The game can also be played for a suffix, behind a label: the times at which the lanes finish the
 * tensors before it. The label takes the row of the tensor before. In that row, the step down to a
 * lane is as long as the lane is busy.
 *
 * Owner and threads: one. All memory is taken by init.
 */
#ifndef WRING_BOUND_COLUMN_GENERATION_H
#define WRING_BOUND_COLUMN_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/tool/bound/groups.h"

/*
 * The few groups that matter: those that were cheap under some flow. The best response among them
 * takes microseconds, so that the bound is sought with them, and proven with the whole table.
 *
 * Columns are added at the end; wring_columns_settle() puts them where they begin, after which they
 * can be priced and played with.
 *
 * A set has one owner and one thread. All memory is taken by init.
 */

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

/** Put the columns in their order. Those go that the table has buried, or that lead nowhere. */
void wring_columns_settle(struct wring_columns *set);

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

/** A cell of the grid: the regrets of its two steps on, and the share of the flow that goes down.
 */
struct wring_column_generation_cell {
    double down, along, share;
};

struct wring_column_generation {
    struct wring_columns *set; /* borrowed */
    uint32_t n_tensors, n_lanes;
    uint32_t first;                             /* the tensor at which the game begins */
    struct wring_column_generation_cell *cells; /* [n × WRING_PLAN_LANES_MAX] */
    struct wring_column_generation_cell
        *saved_cells;        /* of the whole game, while a suffix is played */
    double *regret, *chance; /* [set->max] of the columns */
    double *cost;            /* [set->max] in this step; of those asleep infinite */
    uint32_t *sleep;         /* [set->max] steps in which a column is passed over */
    struct wring_masses masses;
    struct wring_edges flow;   /* the present one */
    struct wring_edges length; /* of the edges, in the present mixture */
    struct wring_edges sum;    /* of flows since the last rest, each with its weight */
    struct wring_edges best;   /* the mean flow, after wring_column_generation_rest() */
    double *values;            /* [n + 1] what goes on from a tensor takes */
    double *reach;             /* [n + 1] which part of the mixture comes by it */
    double weight;             /* of all flows in `sum` */
    double far_us;             /* columns that take so much more than the mixture nap longest */
    uint32_t steps;            /* since the last rest */
    uint64_t played;           /* columns and edges that were looked at, ever */
    void *memory;
};

/** Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_column_generation_init(struct wring_column_generation *generation,
                                               struct wring_columns *set);

void wring_column_generation_finish(struct wring_column_generation *generation);

/** Begin: the flow goes half and half. */
void wring_column_generation_start(struct wring_column_generation *generation);

/** Go on after the columns were settled: one at least leaves each tensor. */
void wring_column_generation_resume(struct wring_column_generation *generation);

/** One step of each side. */
void wring_column_generation_step(struct wring_column_generation *generation);

/** Work out the mean flow since the last rest, into `best`; columns keep what the whole game
 * regrets. The mean begins anew. */
void wring_column_generation_rest(struct wring_column_generation *generation);

/** Go on behind a label, 0 < first; the whole game is kept aside. @param ends  rising by lane */
void wring_column_generation_enter(struct wring_column_generation *generation, uint32_t first,
                                   const double *ends);

/** Back to the whole game. */
void wring_column_generation_leave(struct wring_column_generation *generation);

#endif
