/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Local search: along the groups, each time the best change of a group or of two neighbours, until
 * a whole sweep has changed nothing. What a sweep has behind it is in the heads that it carries
 * along, and ahead of it nothing has changed: no evaluation costs more than the groups it changes.
 */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/search/search_state.h"

enum {
    SWEEPS_MAX = 4,
    MANY = 64,       /* groups; of more those are merged that lose nothing by it */
    SPLITS = 8,      /* places that are tried inside a group */
    FARTHEST = 64,   /* tensors by which a border moves at most; 1, 2, 4, … are tried */
    PAIRS_OF_MAX = 8 /* options with which two neighbours are tried in all pairs */
};

/* What the mean lane counts for beside the time: only between changes that take as long. */
static const double tie = 1e-3;

/* Of the time: less is rounding. */
static const double least_gain = 1e-9;

/** One or two groups that come where one or two were. */
struct change {
    uint32_t replaces, n; /* groups */
    uint32_t end[2], option[2];
};

struct sweep {
    struct wring_search_state *search;
    const struct wring_grouping *old;
    struct wring_grouping *new;            /* groups that are done */
    double heads[WRING_PLAN_LANES_MAX];    /* after them */
    double (*tails)[WRING_PLAN_LANES_MAX]; /* [old->n + 1] before each old group */
    uint32_t group, begin;                 /* the old group to come, and its first tensor */
    double stays[3]; /* what one, and two, old groups are worth as they stand */
    double gain;     /* of the best change so far; 0: none */
    struct change best;
};

/** The time; where that is the same, less is worth more on the other lanes too. */
static double worth_of_heads(uint32_t n_lanes, const double *heads, const double *tails)
{
    double sum = 0;

    for (uint32_t lane = 0; lane < n_lanes; lane++)
        sum += heads[lane] + tails[lane];
    return wring_heads_meet(n_lanes, heads, tails) + tie / n_lanes * sum;
}

static bool is_change_allowed(const struct sweep *sweep, const struct change *change)
{
    const struct wring_cost_tables *tables = sweep->search->tables;
    uint32_t begin = sweep->begin;

    for (uint32_t i = 0; i < change->n; begin = change->end[i++])
        if (!wring_cost_tables_allow(tables, begin, change->end[i], change->option[i]) ||
            !wring_cost_tables_fit(tables, begin, change->end[i]))
            return false;
    return true;
}

/** Heads after a change. */
static void advance_by_change(const struct sweep *sweep, const struct change *change, double *heads)
{
    const struct wring_cost_tables *tables = sweep->search->tables;
    uint32_t begin = sweep->begin;
    struct wring_task task;

    memcpy(heads, sweep->heads, sizeof(sweep->heads));
    for (uint32_t i = 0; i < change->n; begin = change->end[i++]) {
        wring_cost_tables_task(tables, begin, change->end[i], change->option[i], &task);
        wring_task_advance(tables->n_lanes, &task, heads, heads);
    }
}

static double worth_of_change(const struct sweep *sweep, const struct change *change)
{
    double heads[WRING_PLAN_LANES_MAX];

    advance_by_change(sweep, change, heads);
    sweep->search->evaluations++;
    return worth_of_heads(sweep->search->tables->n_lanes, heads,
                          sweep->tails[sweep->group + change->replaces]);
}

static double time_of_change(const struct sweep *sweep, const struct change *change)
{
    double heads[WRING_PLAN_LANES_MAX];

    advance_by_change(sweep, change, heads);
    sweep->search->evaluations++;
    return wring_heads_meet(sweep->search->tables->n_lanes, heads,
                            sweep->tails[sweep->group + change->replaces]);
}

static void consider_change(struct sweep *sweep, struct change change)
{
    if (!is_change_allowed(sweep, &change))
        return;
    double stays = sweep->stays[change.replaces], gain = stays - worth_of_change(sweep, &change);
    if (gain > sweep->gain && gain > least_gain * stays) {
        sweep->gain = gain;
        sweep->best = change;
    }
}

static const struct wring_choices *choices_between(const struct sweep *sweep, uint32_t begin,
                                                   uint32_t end)
{
    return wring_cost_tables_choices(sweep->search->tables, sweep->search->choices, begin, end);
}

static void consider_split(struct sweep *sweep, uint32_t at, uint32_t end, uint32_t option)
{
    const struct wring_choices *first = choices_between(sweep, sweep->begin, at);
    const struct wring_choices *second = choices_between(sweep, at, end);

    for (uint32_t i = 0; i < second->n; i++)
        consider_change(sweep, (struct change){1, 2, {at, end}, {option, second->options[i]}});
    for (uint32_t i = 0; i < first->n; i++)
        if (first->options[i] != option)
            consider_change(sweep, (struct change){1, 2, {at, end}, {first->options[i], option}});
}

/** All that one group can become. */
static void consider_one(struct sweep *sweep)
{
    uint32_t end = sweep->old->end[sweep->group], option = sweep->old->option[sweep->group];
    uint32_t tensors = end - sweep->begin, tries = tensors - 1 < SPLITS ? tensors - 1 : SPLITS;
    const struct wring_choices *other = choices_between(sweep, sweep->begin, end);

    for (uint32_t i = 0; i < other->n; i++)
        if (other->options[i] != option)
            consider_change(sweep, (struct change){1, 1, {end}, {other->options[i]}});
    for (uint32_t i = 1; i <= tries; i++)
        consider_split(sweep, sweep->begin + (uint32_t)((uint64_t)tensors * i / (tries + 1)), end,
                       option);
}

/** Two neighbours with all pairs of options. */
static void consider_pairs(struct sweep *sweep, const uint32_t *end)
{
    const struct wring_choices *first = choices_between(sweep, sweep->begin, end[0]);
    const struct wring_choices *second = choices_between(sweep, end[0], end[1]);

    if (first->n > PAIRS_OF_MAX || second->n > PAIRS_OF_MAX)
        return;
    for (uint32_t i = 0; i < first->n; i++)
        for (uint32_t j = 0; j < second->n; j++)
            consider_change(
                sweep,
                (struct change){2, 2, {end[0], end[1]}, {first->options[i], second->options[j]}});
}

/** All that two neighbours can become. */
static void consider_two(struct sweep *sweep)
{
    const uint32_t *end = sweep->old->end + sweep->group;
    const uint32_t *option = sweep->old->option + sweep->group;
    const struct wring_choices *merged = choices_between(sweep, sweep->begin, end[1]);

    for (uint32_t i = 0; i < merged->n; i++)
        consider_change(sweep, (struct change){2, 1, {end[1]}, {merged->options[i]}});
    for (uint32_t by = 1; by <= FARTHEST; by *= 2) {
        if (by < end[0] - sweep->begin)
            consider_change(sweep,
                            (struct change){2, 2, {end[0] - by, end[1]}, {option[0], option[1]}});
        if (by < end[1] - end[0])
            consider_change(sweep,
                            (struct change){2, 2, {end[0] + by, end[1]}, {option[0], option[1]}});
    }
    consider_pairs(sweep, end);
}

/** The old group to come, or the two, as they stand. */
static struct change standing_groups(const struct sweep *sweep, uint32_t n)
{
    struct change change = {.replaces = n, .n = n};

    for (uint32_t i = 0; i < n; i++) {
        change.end[i] = sweep->old->end[sweep->group + i];
        change.option[i] = sweep->old->option[sweep->group + i];
    }
    return change;
}

static void make_change(struct sweep *sweep, const struct change *change)
{
    double heads[WRING_PLAN_LANES_MAX];

    advance_by_change(sweep, change, heads);
    memcpy(sweep->heads, heads, sizeof(heads));
    for (uint32_t i = 0; i < change->n; i++) {
        sweep->new->end[sweep->new->n] = sweep->begin = change->end[i];
        sweep->new->option[sweep->new->n++] = change->option[i];
    }
    sweep->group += change->replaces;
}

/** Two neighbours in one group, if that costs no time. @return whether it was done */
static bool step_merging(struct sweep *sweep)
{
    struct change one = standing_groups(sweep, 1), best = {0};
    double least = DBL_MAX;

    for (uint32_t i = 0; sweep->group + 1 < sweep->old->n && i < 2; i++) {
        uint32_t at = sweep->group + 1;
        struct change merged = {
            2, 1, {sweep->old->end[at]}, {sweep->old->option[sweep->group + i]}};
        double us = is_change_allowed(sweep, &merged) ? time_of_change(sweep, &merged) : DBL_MAX;
        if (us < least) {
            least = us;
            best = merged;
        }
    }
    bool merges = least <= sweep->search->time_us * (1 + WRING_SEARCH_ROUNDING);
    make_change(sweep, merges ? &best : &one);
    return merges;
}

/** One step of a sweep. @return whether anything was changed */
static bool step_improving(struct sweep *sweep)
{
    struct change one = standing_groups(sweep, 1), two;

    sweep->gain = 0;
    sweep->stays[1] = worth_of_change(sweep, &one);
    consider_one(sweep);
    if (sweep->group + 1 < sweep->old->n) {
        two = standing_groups(sweep, 2);
        sweep->stays[2] = worth_of_change(sweep, &two);
        consider_two(sweep);
    }
    make_change(sweep, sweep->gain > 0 ? &sweep->best : &one);
    return sweep->gain > 0;
}

static void work_out_tails(struct sweep *sweep)
{
    const struct wring_cost_tables *tables = sweep->search->tables;
    const struct wring_grouping *old = sweep->old;
    struct wring_task task;

    memset(sweep->tails[old->n], 0, sizeof(*sweep->tails));
    for (uint32_t i = old->n; i-- > 0;) {
        wring_cost_tables_task(tables, i > 0 ? old->end[i - 1] : 0, old->end[i], old->option[i],
                               &task);
        wring_task_retreat(tables->n_lanes, &task, sweep->tails[i + 1], sweep->tails[i]);
    }
}

/** @return changes; the new grouping is whole however little time there was */
static uint32_t sweep_once(struct sweep *sweep, bool (*step)(struct sweep *),
                           const struct wring_grouping *old, struct wring_grouping *new)
{
    uint32_t changes = 0;

    sweep->old = old;
    sweep->new = new;
    sweep->group = sweep->begin = new->n = 0;
    memset(sweep->heads, 0, sizeof(sweep->heads));
    work_out_tails(sweep);
    while (sweep->group < old->n)
        if (!wring_search_late(sweep->search)) {
            changes += step(sweep);
        } else {
            struct change none = standing_groups(sweep, 1);
            make_change(sweep, &none);
        }
    return changes;
}

/** Merge neighbours, in sweeps, until a sweep has changed nothing. @param old  scratch */
static void merge_in_sweeps(struct sweep *sweep, struct wring_grouping *old)
{
    struct wring_search_state *search = sweep->search;

    wring_search_copy(old, &search->best);
    while (sweep_once(sweep, step_merging, old, &search->trial) > 0) {
        wring_search_offer(search, &search->trial);
        wring_search_copy(old, &search->trial);
    }
}

static void improve_in_sweeps(struct sweep *sweep, struct wring_grouping *old)
{
    struct wring_search_state *search = sweep->search;

    wring_search_copy(old, &search->best);
    for (int i = 0; i < SWEEPS_MAX && sweep_once(sweep, step_improving, old, &search->trial); i++) {
        wring_search_offer(search, &search->trial);
        wring_search_copy(old, &search->trial);
    }
    if (search->best.n > MANY)
        merge_in_sweeps(sweep, old);
}

static enum wring_status run_sweeps(struct wring_search_state *search,
                                    void (*what)(struct sweep *, struct wring_grouping *))
{
    uint32_t n_tensors = search->tables->n_tensors;
    struct sweep sweep = {.search = search};
    struct wring_grouping old;

    enum wring_status status = wring_grouping_init(&old, n_tensors);
    if (status != WRING_OK)
        return status;
    sweep.tails = malloc(((size_t)n_tensors + 1) * sizeof(*sweep.tails));
    if (sweep.tails != NULL)
        what(&sweep, &old);
    else
        status = WRING_ERR_NO_MEMORY;
    free(sweep.tails);
    wring_grouping_finish(&old);
    return status;
}

enum wring_status wring_local_search(struct wring_search_state *search)
{
    return run_sweeps(search, improve_in_sweeps);
}

enum wring_status wring_local_search_merge(struct wring_search_state *search)
{
    return run_sweeps(search, merge_in_sweeps);
}
