/* SPDX-License-Identifier: Apache-2.0 */
/** Tables: an option's costs on all lanes, piece by piece between the corners of any of them. */
#ifndef WRING_PLANNER_CORE_SEARCH_COST_TABLES_H
#define WRING_PLANNER_CORE_SEARCH_COST_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "planner/core/problem.h"
#include "planner/core/two_doubles.h"
#include <wring/status.h>

/** Between two corners. Lanes that the problem does not have cost nothing. */
struct wring_cost_table_piece {
    double from;                        /* elements */
    double us[WRING_PLAN_LANES_MAX];    /* there */
    double slope[WRING_PLAN_LANES_MAX]; /* from there on */
};

/** Costs by one size. */
struct wring_cost_table {
    uint32_t n;
    struct wring_cost_table_piece *pieces; /* [n] rising, the first from 0 */
};

struct wring_option_tables {
    uint64_t chunk_elems;
    struct wring_cost_table first; /* by elements of the group: once, with each where that is one
                                      chunk */
    struct wring_cost_table each;  /* by elements of a chunk, where groups are cut */
};

/** Costs at a size, on all lanes that there may be: no count to look at. @param us  out, of those
 */
static inline void wring_cost_table_look_up(const struct wring_cost_table *table, double x,
                                            double *us)
{
    const struct wring_cost_table_piece *piece = table->pieces + table->n - 1;

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
static inline void wring_option_tables_loads(const struct wring_option_tables *of_option,
                                             uint64_t elems, uint32_t n_lanes, double *us)
{
    wring_cost_table_look_up(&of_option->first, (double)elems, us);
    if (of_option->chunk_elems == 0)
        return;
    double each[WRING_PLAN_LANES_MAX];
    double chunks = (double)((elems + of_option->chunk_elems - 1) / of_option->chunk_elems);
    wring_cost_table_look_up(&of_option->each, (double)elems / chunks, each);
    for (uint32_t lane = 0; lane < n_lanes; lane++)
        us[lane] += chunks * each[lane];
}

/*
 * Rates are a problem's costs in tables that give a group's task in a few nanoseconds. Searches
 * step over a task in two directions. Heads go from the ends of the lanes before a group to those
 * after it. Tails go from the time that remains after it to that before it. The time of a whole
 * grouping is, between any two of its groups,
 *
 *     max over lanes of heads[lane] + tails[lane]
 *
 * so that a change of one group is known from heads before and tails after it.
 *
 * Read-only once built; threads: safe.
 */

/** What a group takes, with computing. */
struct wring_task {
    double took[WRING_PLAN_LANES_MAX]; /* of the first chunk */
    double each[WRING_PLAN_LANES_MAX]; /* of every chunk after it; set where there are any */
    double more;                       /* chunks after the first */
};

struct wring_option_tables; /* an option's tables */

#define WRING_SIZES 32 /* groups of 4^i to 4^(i + 1) elements */

/**
 * Options worth a try at some size. If there are few, these are all that no other beats on every
 * lane. If there are many, these are the ones that take least on some set of lanes together. For
 * any busy lanes of a plan, an option that spares them is among these.
 */
struct wring_choices {
    uint32_t n;
    uint32_t *options; /* [n] rising; NULL where no group has that size */
};

struct wring_cost_tables {
    const struct wring_problem *problem; /* borrowed */
    uint32_t n_lanes, n_tensors, n_options;
    double *compute_us;                    /* [n_tensors + 1] of all tensors before this one */
    struct wring_option_tables *of_option; /* [n_options] */
    struct wring_choices *choices; /* [WRING_SIZES] options worth a thought, by size of the group */
    uint32_t *barred; /* [n_options × (n_tensors + 1)] the first tensor from here on that may not
                         take the option; NULL: any may take any */
    uint32_t *first;  /* [n_tensors] the first option that each may take; NULL likewise */
};

/**
 * Errors: WRING_ERR_INVALID (a tensor may take no option or has no elements, too many lanes, no
 * options), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_cost_tables_init(struct wring_cost_tables *tables,
                                         const struct wring_problem *problem);

void wring_cost_tables_finish(struct wring_cost_tables *tables);

/** What the tensors [begin, end) take as one group. */
void wring_cost_tables_task(const struct wring_cost_tables *tables, uint32_t begin, uint32_t end,
                            uint32_t option, struct wring_task *task);

/** A group of so many elements is of that size. */
static inline int wring_cost_tables_size(uint64_t elems)
{
    return (63 - __builtin_clzll(elems)) / 2;
}

/** Which of the choices the tensors [begin, end) as one group have; not all may be taken. */
static inline const struct wring_choices *wring_cost_tables_choices(
    const struct wring_cost_tables *tables, const struct wring_choices *choices, uint32_t begin,
    uint32_t end)
{
    uint64_t elems = tables->problem->elems[end] - tables->problem->elems[begin];

    return &choices[wring_cost_tables_size(elems)];
}

/**
 * Other choices: of each size those that the caller has marked; where none are, all stay.
 *
 * @param marked   in,  [WRING_SIZES × n_options]
 * @param choices  out, [WRING_SIZES]
 * @param room     scratch that the choices point into, [WRING_SIZES × n_options]
 */
void wring_cost_tables_narrow(const struct wring_cost_tables *tables, const bool *marked,
                              struct wring_choices *choices, uint32_t *room);

/** May every one of the tensors [begin, end) take the option? */
static inline bool wring_cost_tables_allow(const struct wring_cost_tables *tables, uint32_t begin,
                                           uint32_t end, uint32_t option)
{
    return tables->barred == NULL ||
           tables->barred[(uint64_t)option * (tables->n_tensors + 1) + begin] >= end;
}

/** May the tensors [begin, end) take any option at all, all of them the same? */
bool wring_cost_tables_allow_any(const struct wring_cost_tables *tables, uint32_t begin,
                                 uint32_t end);

/** Are the tensors [begin, end) small enough to be one group? */
static inline bool wring_cost_tables_fit(const struct wring_cost_tables *tables, uint32_t begin,
                                         uint32_t end)
{
    const struct wring_problem *problem = tables->problem;

    return problem->max_group_elems == 0 || end == begin + 1 ||
           problem->elems[end] - problem->elems[begin] <= problem->max_group_elems;
}

/** Chunks after the first, forwards and backwards. */
void wring_task_advance_more(uint32_t n_lanes, const struct wring_task *task, double *heads);
void wring_task_retreat_more(uint32_t n_lanes, const struct wring_task *task, double *tails);

static inline double wring_later(double a, double b)
{
    return a > b ? a : b;
}

/** Heads before the group to heads after it. In place is fine. */
static inline void wring_task_advance(uint32_t n_lanes, const struct wring_task *task,
                                      const double *before, double *after)
{
    double left = 0;

    for (uint32_t lane = 0; lane < n_lanes; lane++)
        left = after[lane] = wring_later(before[lane], left) + task->took[lane];
    if (task->more > 0)
        wring_task_advance_more(n_lanes, task, after);
}

/** Tails after the group to tails before it. In place is fine. */
static inline void wring_task_retreat(uint32_t n_lanes, const struct wring_task *task,
                                      const double *after, double *before)
{
    double left = 0;

    if (task->more > 0) {
        for (uint32_t lane = 0; lane < n_lanes; lane++)
            before[lane] = after[lane];
        wring_task_retreat_more(n_lanes, task, before);
        after = before;
    }
    for (uint32_t lane = n_lanes; lane-- > 0;)
        left = before[lane] = wring_later(after[lane], left) + task->took[lane];
}

/** The longest path through a cut: heads on one side, tails on the other. */
static inline double wring_heads_meet(uint32_t n_lanes, const double *heads, const double *tails)
{
    double time = 0;

    for (uint32_t lane = 0; lane < n_lanes; lane++)
        time = wring_later(time, heads[lane] + tails[lane]);
    return time;
}

/* Two options for one group, tried side by side. */

/** From heads + tails, with the one task and with the other. */
struct wring_two_times {
    wring_pair most; /* the time of the whole */
    wring_pair sum;  /* over the lanes */
};

/**
 * The time of a grouping with each of two tasks in one place.
 *
 * @param one, other  the tasks; may be the same
 * @param backward    `from` has tails after the group and `to` heads before it; else heads before
 *                    and tails after it
 * @param from        in, [n_lanes]
 * @param to          in, `stride` doubles from one lane to the next
 */
struct wring_two_times wring_two_tasks_meet(uint32_t n_lanes, const struct wring_task *one,
                                            const struct wring_task *other, bool backward,
                                            const double *from, const double *to, uint32_t stride);

#endif
