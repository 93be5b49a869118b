/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Tries every option, group by group of the best grouping so far. It makes the best change, and
 * marks the options that the next beam should try. A few choices per size cannot hold all options
 * that may pay. That depends on the lanes that a plan leaves idle, which are known here. After a
 * sweep that changed options, further sweeps try the marked ones alone.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/search/cost_tables.h"
#include "planner/core/search/search_state.h"

enum {
    SWEEPS_MAX = 3,
    VIEWS = 4, /* see blurs */
};

/* Weight of the mean lane beside the time, per view. The first finds the option that is best now,
 * the others those that would be best if other groups made room. */
static const double blurs[VIEWS] = {1e-3, 0.1, 0.5, 3};

/* Part of the time; a smaller gain is rounding. */
static const double least_gain = 1e-9;

struct trial {
    struct wring_search_state *search;
    struct wring_grouping *grouping;
    double (*tails)[WRING_PLAN_LANES_MAX]; /* [n + 1] before each group */
    double heads[WRING_PLAN_LANES_MAX];    /* before the present group */
    uint32_t group, begin, end;
    uint32_t best[VIEWS]; /* options */
};

static void work_out_tails(struct trial *trial)
{
    const struct wring_cost_tables *tables = trial->search->tables;
    const struct wring_grouping *grouping = trial->grouping;
    struct wring_task task;

    memset(trial->tails[grouping->n], 0, sizeof(*trial->tails));
    for (uint32_t i = grouping->n; i-- > 0;) {
        uint32_t begin = i > 0 ? grouping->end[i - 1] : 0;
        wring_cost_tables_task(tables, begin, grouping->end[i], grouping->option[i], &task);
        wring_task_retreat(tables->n_lanes, &task, trial->tails[i + 1], trial->tails[i]);
    }
}

/** Try options in place of the present one, as each of the views has it.
 *  @param options  [2] @param n  of them; 1: the other one is not looked at
 *  @param least    [VIEWS] in and out */
static void try_two(struct trial *trial, const uint32_t *options, uint32_t n, double *least)
{
    const struct wring_cost_tables *tables = trial->search->tables;
    struct wring_task one, other;

    wring_cost_tables_task(tables, trial->begin, trial->end, options[0], &one);
    if (n == 2)
        wring_cost_tables_task(tables, trial->begin, trial->end, options[1], &other);
    struct wring_two_times times =
        wring_two_tasks_meet(tables->n_lanes, &one, n == 2 ? &other : &one, false, trial->heads,
                             trial->tails[trial->group + 1], 1);
    for (int view = 0; view < VIEWS; view++) {
        double mean = blurs[view] / tables->n_lanes;
        wring_pair worth = times.most + (wring_pair){mean, mean} * times.sum;
        wring_pair before = {least[view], least[view]};
        if (wring_pair_above(before, worth) == 0)
            continue;
        for (uint32_t i = 0; i < n; i++)
            if (worth[i] < least[view]) {
                least[view] = worth[i];
                trial->best[view] = options[i];
            }
    }
    trial->search->evaluations += n;
}

/** @param marked  [n_options] those to be tried; NULL: all
 *  @return whether another option than the present one is best for the time */
static bool try_options(struct trial *trial, const bool *marked)
{
    const struct wring_cost_tables *tables = trial->search->tables;
    uint32_t present = trial->grouping->option[trial->group], options[2] = {present}, n = 0;
    double least[VIEWS];

    for (int view = 0; view < VIEWS; view++)
        least[view] = DBL_MAX;
    try_two(trial, options, 1, least);
    least[0] *= 1 - least_gain;
    for (uint32_t option = 0; option < tables->n_options; option++) {
        if (!wring_cost_tables_allow(tables, trial->begin, trial->end, option) ||
            (marked != NULL && !marked[option]))
            continue;
        options[n++] = option;
        if (n == 2) {
            try_two(trial, options, 2, least);
            n = 0;
        }
    }
    if (n == 1)
        try_two(trial, options, 1, least);
    return trial->best[0] != present;
}

static int size_of(const struct trial *trial)
{
    const uint64_t *elems = trial->search->tables->problem->elems;

    return wring_cost_tables_size(elems[trial->end] - elems[trial->begin]);
}

/** At sizes that the next groups may have. */
static void mark_best_options(const struct trial *trial, bool *marked)
{
    const struct wring_cost_tables *tables = trial->search->tables;
    int size = size_of(trial), first = size > 0 ? size - 1 : 0;

    for (int i = first; i <= size + 1 && i < WRING_SIZES; i++)
        for (int view = 0; view < VIEWS; view++)
            marked[(size_t)i * tables->n_options + trial->best[view]] = true;
}

static void step_over_group(struct trial *trial)
{
    const struct wring_cost_tables *tables = trial->search->tables;
    struct wring_task task;

    wring_cost_tables_task(tables, trial->begin, trial->end, trial->grouping->option[trial->group],
                           &task);
    wring_task_advance(tables->n_lanes, &task, trial->heads, trial->heads);
    trial->begin = trial->end;
}

/** @param all  try all options, not those alone that are marked
 *  @return options changed */
static uint32_t sweep_groups(struct trial *trial, bool all, bool *marked)
{
    uint32_t changes = 0, n_options = trial->search->tables->n_options;

    work_out_tails(trial);
    memset(trial->heads, 0, sizeof(trial->heads));
    trial->begin = 0;
    for (trial->group = 0; trial->group < trial->grouping->n; trial->group++) {
        trial->end = trial->grouping->end[trial->group];
        if (wring_search_late(trial->search))
            return 0;
        changes += try_options(trial, all ? NULL : marked + (size_t)size_of(trial) * n_options);
        trial->grouping->option[trial->group] = trial->best[0];
        mark_best_options(trial, marked);
        step_over_group(trial);
    }
    return changes;
}

enum wring_status wring_search_every_option(struct wring_search_state *search, bool *marked)
{
    struct trial trial = {.search = search, .grouping = &search->trial};

    trial.tails = malloc(((size_t)search->tables->n_tensors + 1) * sizeof(*trial.tails));
    if (trial.tails == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_search_copy(&search->trial, &search->best);
    for (int i = 0; i < SWEEPS_MAX && sweep_groups(&trial, i == 0, marked) > 0; i++)
        wring_search_offer(search, &search->trial);
    free(trial.tails);
    return WRING_OK;
}
