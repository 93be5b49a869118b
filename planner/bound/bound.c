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

#include "base/clock.h"
#include "planner/bound/bound_effort.h"
#include "planner/bound/bound_proof.h"
#include "planner/bound/bound_reverse.h"
#include "planner/search/search.h"

enum {
    WIDTH = 16,           /* of the first run that branches */
    NODES_CHEAP = 400000, /* such a run may go without a gain */
    PATIENCE = 24,        /* rounds of the first turn */
    PATIENCE_MAX = 64,
};

static void branch_once(struct wring_proof *proof, uint32_t width)
{
    double bound;

    if (wring_proof_over(proof))
        return;
    if (proof->effort != 0)
        proof->branch.nodes_max =
            proof->branch.nodes +
            (proof->effort - wring_proof_effort(proof)) / WRING_EFFORT_BRANCHED + 1;
    if (wring_branch_run(&proof->branch, proof->best_us, width, proof->deadline_ns,
                         &proof->proposal, &bound))
        wring_proof_propose(proof);
    wring_proof_raise(proof, bound);
}

/** Wider and wider runs, while they pay or cost little. @return whether there is a wider one */
static bool branch(struct wring_proof *proof)
{
    double bound;

    if (wring_proof_over(proof) || !wring_proof_price(proof, &proof->flow, &bound))
        return false;
    wring_group_table_bury(&proof->table, proof->best_us);
    wring_branch_learn(&proof->branch, &proof->flow);
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
static void seek(struct wring_proof *proof)
{
    bool wider = true;

    for (uint32_t patience = PATIENCE; !wring_proof_over(proof);) {
        double bound = proof->bound_us;
        wring_proof_play(proof, patience);
        if (wider)
            wider = branch(proof);
        if (!wider && proof->bound_us <= bound)
            break;
        patience = patience < PATIENCE_MAX ? 2 * patience : patience;
    }
}

/** All is computed on one lane, whatever the grouping. */
static double computing(const struct wring_problem *problem)
{
    double sum = 0;

    for (uint32_t i = 0; i < problem->n_tensors; i++)
        sum += problem->compute_us[i];
    return sum;
}

static enum wring_status run_all(struct wring_proof *proof)
{
    enum wring_status status = wring_proof_init(proof);

    if (status == WRING_OK) {
        wring_proof_start_game(proof);
        seek(proof);
    }
    wring_proof_finish(proof);
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

    wring_proof_raise(&proof, computing(problem));
    enum wring_status status = run_backwards(&proof, problem);
    if (status != WRING_OK)
        return status;
    *time_us = wring_problem_time(problem, grouping);
    *out =
        (struct wring_bound){.time_us = fmin(proof.bound_us * (1 - WRING_PROOF_MARGIN), *time_us),
                             .exact = wring_proof_closed(&proof),
                             .nodes = proof.branch.nodes,
                             .took_ns = wring_now_ns() - begin_ns};
    return WRING_OK;
}
