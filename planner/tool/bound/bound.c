/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The lower bound. First comes the game of groupings against a flow. A small set of groups finds
 * the flow, and the table of all groups proves the bound that it gives. Branch and bound follows,
 * with the flow's bounds of every suffix. Between them, groups that cannot be part of anything
 * better than the best known grouping are buried.
 *
 * All of that works on the reversed problem. In the middle of a grouping the lanes even out
 * differences; at its end, with work still in flight, they cannot. Decisions at the end tell
 * groupings apart, so the labels of branch and bound begin there.
 *
 * If there are more groups than a table holds, only the computing bounds the time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/search/search.h"
#include "planner/tool/bound/flow.h"
#include "planner/tool/bound/proof.h"

enum {
    COLUMNS_PER_TENSOR = 48,
    LABELS = 400000,
};

/**
 * Take the memory that proof->problem asks for. The caller has set it, the best grouping and its
 * time, the bound, and the limits. Errors: WRING_ERR_NO_MEMORY, WRING_ERR_INVALID (some tensor may
 * take no option); finish it then, too.
 */
static enum wring_status proof_init(struct wring_proof *proof)
{
    const struct wring_problem *problem = proof->problem;
    size_t cells = WRING_FLOW_CELLS(problem->n_tensors);
    uint32_t n = problem->n_tensors;
    double *memory = calloc(2 * cells, sizeof(double) + sizeof(uint32_t));

    proof->memory = memory;
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    proof->flow = (struct wring_edges){.down = memory, .along = memory + cells};
    proof->proposal.end = (uint32_t *)(memory + 2 * cells);
    proof->proposal.option = proof->proposal.end + cells;

    enum wring_status status = wring_group_table_init(&proof->table, problem);
    if (status == WRING_OK)
        status = wring_columns_init(&proof->columns, &proof->table, COLUMNS_PER_TENSOR * n + 64);
    if (status == WRING_OK)
        status = wring_column_generation_init(&proof->generation, &proof->columns);
    if (status == WRING_OK)
        status = wring_branch_init(&proof->branch, &proof->table, &proof->generation, LABELS);
    return status;
}

static void proof_finish(struct wring_proof *proof)
{
    wring_branch_finish(&proof->branch);
    wring_column_generation_finish(&proof->generation);
    wring_columns_finish(&proof->columns);
    wring_group_table_finish(&proof->table);
    free(proof->memory);
}

/** The effort so far, in nanoseconds of bound/proof.h. */
static uint64_t proof_effort(const struct wring_proof *proof)
{
    return WRING_EFFORT_PLAYED * proof->generation.played +
           WRING_EFFORT_PRICED * proof->table.priced + WRING_EFFORT_BRANCHED * proof->branch.nodes +
           WRING_EFFORT_TRIED * proof->branch.tried;
}

/** Or of effort. */
static bool is_out_of_time(const struct wring_proof *proof)
{
    return (proof->effort != 0 && proof_effort(proof) >= proof->effort) ||
           (proof->deadline_ns != 0 && wring_now_ns() >= proof->deadline_ns);
}

static bool is_proof_closed(const struct wring_proof *proof);

bool wring_proof_over(const struct wring_proof *proof)
{
    return is_proof_closed(proof) || is_out_of_time(proof);
}

/** Is the best grouping the optimum, but for rounding? */
static bool is_proof_closed(const struct wring_proof *proof)
{
    return proof->bound_us >= proof->best_us * (1 - WRING_PROOF_MARGIN);
}

static void copy_grouping(const struct wring_grouping *from, struct wring_grouping *to)
{
    to->n = from->n;
    memcpy(to->end, from->end, from->n * sizeof(*to->end));
    memcpy(to->option, from->option, from->n * sizeof(*to->option));
}

void wring_proof_propose(struct wring_proof *proof)
{
    double time_us = wring_problem_time(proof->problem, &proof->proposal);

    if (time_us < proof->best_us) {
        proof->best_us = time_us;
        copy_grouping(&proof->proposal, proof->best);
    }
}

/** No grouping that is still looked for takes less than this. */
static void proof_raise(struct wring_proof *proof, double bound_us)
{
    bound_us = fmin(bound_us, proof->best_us); /* what is buried takes at least that */
    proof->bound_us = fmax(bound_us, proof->bound_us);
}

bool wring_proof_price(struct wring_proof *proof, const struct wring_edges *flow, double *bound_us)
{
    wring_masses_set(0, proof->problem->n_tensors, flow, &proof->table.masses);
    if (!wring_group_table_price(&proof->table, 0, proof->deadline_ns))
        return false;
    *bound_us = fmin(proof->table.rest[0], proof->best_us);
    proof_raise(proof, *bound_us);
    if (!isinf(proof->table.rest[0])) {
        wring_group_table_best(&proof->table, &proof->proposal);
        wring_proof_propose(proof);
    }
    return true;
}

/* ---- bound ---- */

enum {
    WIDTH = 16,           /* of the first run that branches */
    NODES_CHEAP = 400000, /* such a run may go without a gain */
    PATIENCE = 24,        /* iterations of the first turn */
    PATIENCE_MAX = 64,
};

static void branch_once(struct wring_proof *proof, uint32_t width)
{
    double bound;

    if (wring_proof_over(proof))
        return;
    if (proof->effort != 0)
        proof->branch.nodes_max =
            proof->branch.nodes + (proof->effort - proof_effort(proof)) / WRING_EFFORT_BRANCHED + 1;
    if (wring_branch_run(&proof->branch, proof->best_us, width, proof->deadline_ns,
                         &proof->proposal, &bound))
        wring_proof_propose(proof);
    proof_raise(proof, bound);
}

/** Wider and wider runs, while they pay or cost little. @return whether there is a wider one */
static bool branch_wider(struct wring_proof *proof)
{
    double bound;

    if (wring_proof_over(proof) || !wring_proof_price(proof, &proof->flow, &bound))
        return false;
    wring_group_table_bury(&proof->table, proof->best_us);
    wring_suffix_bound_learn(&proof->branch, &proof->flow);
    while (!wring_proof_over(proof) && proof->width <= 2 * proof->branch.room) {
        double gap = proof->best_us - proof->bound_us;
        uint64_t nodes = proof->branch.nodes;
        branch_once(proof, proof->width);
        proof->width *= 2;
        if (proof->best_us - proof->bound_us > 0.99 * gap &&
            proof->branch.nodes - nodes > NODES_CHEAP)
            break;
    }
    return proof->width <= 2 * proof->branch.room;
}

/** Turns of both, more patient ones each time. */
static void search_in_turns(struct wring_proof *proof)
{
    bool wider = true;

    for (uint32_t patience = PATIENCE; !wring_proof_over(proof);) {
        double bound = proof->bound_us;
        wring_proof_generate(proof, patience);
        if (wider)
            wider = branch_wider(proof);
        if (!wider && proof->bound_us <= bound)
            break;
        patience = patience < PATIENCE_MAX ? 2 * patience : patience;
    }
}

/** All is computed on one lane, whatever the grouping. */
static double sum_computing(const struct wring_problem *problem)
{
    double sum = 0;

    for (uint32_t i = 0; i < problem->n_tensors; i++)
        sum += problem->compute_us[i];
    return sum;
}

static enum wring_status run_all(struct wring_proof *proof)
{
    enum wring_status status = proof_init(proof);

    if (status == WRING_OK) {
        wring_proof_start_generation(proof);
        search_in_turns(proof);
    }
    proof_finish(proof);
    return status;
}

/** Seen from its end, unless only computing can bound it. */
static enum wring_status run_backwards(struct wring_proof *proof,
                                       const struct wring_problem *problem)
{
    struct wring_reversed reversed;

    if (!wring_group_table_fits(problem))
        return WRING_OK;
    enum wring_status status = wring_reversed_init(&reversed, problem);
    if (status != WRING_OK)
        return status;
    proof->problem = &reversed.problem;
    wring_grouping_reverse(proof->best);
    status = run_all(proof);
    wring_grouping_reverse(proof->best);
    wring_reversed_finish(&reversed);
    return status;
}

enum wring_status wring_bound_run(const struct wring_problem *problem,
                                  const struct wring_bound_params *params,
                                  struct wring_grouping *grouping, double *time_us,
                                  struct wring_bound *out)
{
    uint64_t begin_ns = wring_now_ns();
    struct wring_proof proof = {
        .best = grouping,
        .best_us = *time_us,
        .width = WIDTH,
        .effort = params->effort,
        .deadline_ns = params->budget_ns == 0 ? 0 : begin_ns + params->budget_ns,
    };

    proof_raise(&proof, sum_computing(problem));
    enum wring_status status = run_backwards(&proof, problem);
    if (status != WRING_OK)
        return status;
    *time_us = wring_problem_time(problem, grouping);
    *out =
        (struct wring_bound){.time_us = fmin(proof.bound_us * (1 - WRING_PROOF_MARGIN), *time_us),
                             .exact = is_proof_closed(&proof),
                             .nodes = proof.branch.nodes,
                             .took_ns = wring_now_ns() - begin_ns};
    return WRING_OK;
}
