/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The lower bound: first the game of groupings against a flow, in which a small set of groups
 * finds the flow and the table of all groups proves what it is worth; then branch and bound with
 * what the flow says of every suffix. Between them groups are buried that cannot be part of
 * anything better than the best known.
 *
 * All that sees the problem from its end. Lanes make up for what is uneven in the middle of a
 * grouping, and cannot at its end, with all that is still on its way: what is decided there tells
 * groupings apart, so that labels of branch and bound begin there.
 *
 * Of more groups than a table holds only the computing bounds the time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/bound/bound_arcs.h"
#include "planner/bound/bound_branch.h"
#include "planner/bound/bound_effort.h"
#include "planner/bound/bound_flow.h"
#include "planner/bound/bound_game.h"
#include "planner/bound/bound_groups.h"
#include "planner/bound/bound_reverse.h"
#include "planner/search/search.h"

/** What rounding may add to a bound, relative: some 1e-13 of sums of that many terms, and spare. */
#define MARGIN 1e-10

enum {
    ARCS_PER_TENSOR = 48,
    LABELS = 400000,
    WIDTH = 16,           /* of the first run that branches */
    NODES_CHEAP = 400000, /* such a run may go without a gain */
    PATIENCE = 24,        /* rounds of the first turn */
    PATIENCE_MAX = 64,
    STEPS = 200, /* of the game between two pricings of the whole table */
};

struct run {
    const struct wring_problem *problem;
    struct wring_group_table table;
    struct wring_arc_set arcs;
    struct wring_game game;
    struct wring_branch branch;
    uint32_t width;                 /* of the next branching run */
    struct wring_edges flow;        /* the one that proved the most */
    struct wring_grouping *best;    /* the caller's */
    struct wring_grouping proposal; /* scratch */
    double best_us, bound_us;
    double proven_us;               /* of bound_us, by `flow` */
    uint64_t begin_ns, deadline_ns; /* 0: none */
    uint64_t effort;                /* that may be spent; 0: no limit */
    void *memory;
};

/** Of all that was looked at: it is the same on every machine. */
static uint64_t effort(const struct run *run)
{
    return WRING_EFFORT_PLAYED * run->game.played + WRING_EFFORT_PRICED * run->table.priced +
           WRING_EFFORT_BRANCHED * run->branch.nodes + WRING_EFFORT_TRIED * run->branch.tried;
}

/** Or of effort. */
static bool out_of_time(const struct run *run)
{
    return (run->effort != 0 && effort(run) >= run->effort) ||
           (run->deadline_ns != 0 && wring_now_ns() >= run->deadline_ns);
}

static bool closed(const struct run *run)
{
    return run->bound_us >= run->best_us * (1 - MARGIN);
}

static void copy_grouping(const struct wring_grouping *from, struct wring_grouping *to)
{
    to->n = from->n;
    memcpy(to->end, from->end, from->n * sizeof(*to->end));
    memcpy(to->option, from->option, from->n * sizeof(*to->option));
}

/** Take run->proposal where it is better than the best. */
static void propose(struct run *run)
{
    double time_us = wring_problem_time(run->problem, &run->proposal);

    if (time_us < run->best_us) {
        run->best_us = time_us;
        copy_grouping(&run->proposal, run->best);
    }
}

static void raise_bound(struct run *run, double bound)
{
    bound = bound < run->best_us ? bound : run->best_us; /* what is buried takes at least that */
    run->bound_us = bound > run->bound_us ? bound : run->bound_us;
}

/** Price the whole table for a flow. @return false: no time */
static bool prove(struct run *run, const struct wring_edges *flow, double *bound)
{
    wring_masses_set(0, run->problem->n_tensors, flow, &run->table.masses);
    if (!wring_group_table_price(&run->table, 0, run->deadline_ns))
        return false;
    *bound = fmin(run->table.rest[0], run->best_us);
    raise_bound(run, *bound);
    if (!isinf(run->table.rest[0])) {
        wring_group_table_best(&run->table, &run->proposal);
        propose(run);
    }
    return true;
}

static uint32_t first_allowed(const struct wring_problem *problem, uint32_t tensor)
{
    uint32_t option = 0;

    while (!wring_problem_allows(problem, tensor, option))
        option++;
    return option;
}

/** The game begins with the best known grouping, and each tensor by itself. */
static void start_game(struct run *run)
{
    uint32_t begin = 0;

    for (uint32_t group = 0; group < run->best->n; group++) {
        wring_arc_set_add(&run->arcs, begin, run->best->end[group], run->best->option[group]);
        begin = run->best->end[group];
    }
    for (uint32_t i = 0; i < run->problem->n_tensors; i++)
        wring_arc_set_add(&run->arcs, i, i + 1, first_allowed(run->problem, i));
    wring_arc_set_settle(&run->arcs);
    wring_game_start(&run->game);
}

/** Steps of the game. @return what its flow is worth among the arcs */
static double play_steps(struct run *run)
{
    for (int step = 0; step < STEPS && (step == 0 || !out_of_time(run)); step++)
        wring_game_step(&run->game);
    wring_game_rest(&run->game);
    wring_masses_set(0, run->problem->n_tensors, &run->game.best, &run->game.masses);
    double worth = wring_arc_set_price(&run->arcs, 0, &run->game.masses);
    wring_arc_set_best(&run->arcs, &run->proposal);
    propose(run);
    return worth;
}

/** One round: the game goes on, the table proves what it found. @return whether to go on */
static bool play_round(struct run *run, bool *settled)
{
    run->game.far_us = run->best_us - run->bound_us;
    double worth = play_steps(run), bound;

    if (!prove(run, &run->game.best, &bound))
        return false;
    if (bound > run->proven_us) {
        run->proven_us = bound;
        wring_edges_copy(run->problem->n_tensors, &run->game.best, &run->flow);
    }
    uint32_t added = wring_arc_set_gather(&run->arcs);
    wring_group_table_bury(&run->table, run->best_us);
    wring_arc_set_settle(&run->arcs);
    *settled = added == 0 || worth - bound < 0.2 * (run->best_us - bound);
    return run->arcs.row[1] > 0; /* else all is buried but by rounding */
}

/**
 * Play until `patience` rounds together gain less than a fiftieth of the gap, and the arcs are
 * worth about as much as the whole table: else they lack some, and rounds bring them.
 */
static void play(struct run *run, uint32_t patience)
{
    double mark = -INFINITY;
    bool settled = false;

    for (uint32_t round = 0; !closed(run) && !out_of_time(run); round++) {
        if (round % patience == 0) {
            if (settled && run->proven_us - mark < 0.02 * (run->best_us - run->proven_us))
                break;
            mark = run->proven_us;
        }
        if (!play_round(run, &settled))
            break;
    }
}

static void branch_once(struct run *run, uint32_t width)
{
    double bound;

    if (closed(run) || out_of_time(run))
        return;
    if (run->effort != 0)
        run->branch.nodes_max =
            run->branch.nodes + (run->effort - effort(run)) / WRING_EFFORT_BRANCHED + 1;
    if (wring_branch_run(&run->branch, run->best_us, width, run->deadline_ns, &run->proposal,
                         &bound))
        propose(run);
    raise_bound(run, bound);
}

/** Wider and wider runs, while they pay or cost little. @return whether there is a wider one */
static bool branch(struct run *run)
{
    double bound;

    if (closed(run) || out_of_time(run) || !prove(run, &run->flow, &bound))
        return false;
    wring_group_table_bury(&run->table, run->best_us);
    wring_branch_learn(&run->branch, &run->flow);
    while (!closed(run) && !out_of_time(run) && run->width <= 2 * run->branch.room) {
        double gap = run->best_us - run->bound_us;
        uint64_t nodes = run->branch.nodes;
        branch_once(run, run->width);
        run->width *= 2;
        if (run->best_us - run->bound_us > 0.99 * gap && run->branch.nodes - nodes > NODES_CHEAP)
            break;
    }
    return run->width <= 2 * run->branch.room;
}

/** Turns of both, more patient ones each time. */
static void seek(struct run *run)
{
    bool wider = true;

    for (uint32_t patience = PATIENCE; !closed(run) && !out_of_time(run);) {
        double bound = run->bound_us;
        play(run, patience);
        if (wider)
            wider = branch(run);
        if (!wider && run->bound_us <= bound)
            break;
        patience = patience < PATIENCE_MAX ? 2 * patience : patience;
    }
}

static enum wring_status start(struct run *run, const struct wring_problem *problem)
{
    size_t cells = WRING_FLOW_ROOM(problem->n_tensors);
    uint32_t n = problem->n_tensors;
    double *memory = calloc(2 * cells, sizeof(double) + sizeof(uint32_t));

    run->memory = memory;
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    run->flow = (struct wring_edges){.down = memory, .along = memory + cells};
    run->proposal.end = (uint32_t *)(memory + 2 * cells);
    run->proposal.option = run->proposal.end + cells;

    enum wring_status status = wring_group_table_init(&run->table, problem);
    if (status == WRING_OK)
        status = wring_arc_set_init(&run->arcs, &run->table, ARCS_PER_TENSOR * n + 64);
    if (status == WRING_OK)
        status = wring_game_init(&run->game, &run->arcs);
    if (status == WRING_OK)
        status = wring_branch_init(&run->branch, &run->table, &run->game, LABELS);
    return status;
}

static void finish(struct run *run)
{
    wring_branch_finish(&run->branch);
    wring_game_finish(&run->game);
    wring_arc_set_finish(&run->arcs);
    wring_group_table_finish(&run->table);
    free(run->memory);
}

/** All is computed on one lane, whatever the grouping. */
static double computing(const struct wring_problem *problem)
{
    double sum = 0;

    for (uint32_t i = 0; i < problem->n_tensors; i++)
        sum += problem->compute_us[i];
    return sum;
}

static enum wring_status run_all(struct run *run)
{
    enum wring_status status = start(run, run->problem);

    if (status == WRING_OK) {
        start_game(run);
        seek(run);
    }
    finish(run);
    return status;
}

/** Seen from its end, unless only computing can bound it. */
static enum wring_status run_backwards(struct run *run, const struct wring_problem *problem)
{
    struct wring_reversed reversed;

    if (!wring_group_table_fits(problem))
        return WRING_OK;
    enum wring_status status = wring_reversed_init(&reversed, problem);
    if (status != WRING_OK)
        return status;
    run->problem = &reversed.problem;
    wring_grouping_reverse(run->best);
    status = run_all(run);
    wring_grouping_reverse(run->best);
    wring_reversed_finish(&reversed);
    return status;
}

enum wring_status wring_bound_run(const struct wring_problem *problem,
                                  const struct wring_bound_params *params,
                                  struct wring_grouping *grouping, double *time_us,
                                  struct wring_bound *out)
{
    struct run run = {.best = grouping, .best_us = *time_us, .width = WIDTH};

    run.begin_ns = wring_now_ns();
    run.effort = params->effort;
    run.deadline_ns = params->budget_ns == 0 ? 0 : run.begin_ns + params->budget_ns;
    raise_bound(&run, computing(problem));
    enum wring_status status = run_backwards(&run, problem);
    if (status != WRING_OK)
        return status;
    *time_us = wring_problem_time(problem, grouping);
    *out = (struct wring_bound){.time_us = fmin(run.bound_us * (1 - MARGIN), *time_us),
                                .exact = closed(&run),
                                .nodes = run.branch.nodes,
                                .took_ns = wring_now_ns() - run.begin_ns};
    return WRING_OK;
}
