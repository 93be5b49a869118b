/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/bound/bound_proof.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/bound/bound_effort.h"

enum {
    ARCS_PER_TENSOR = 48,
    LABELS = 400000,
};

enum wring_status wring_proof_init(struct wring_proof *proof)
{
    const struct wring_problem *problem = proof->problem;
    size_t cells = WRING_FLOW_ROOM(problem->n_tensors);
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
        status = wring_arc_set_init(&proof->arcs, &proof->table, ARCS_PER_TENSOR * n + 64);
    if (status == WRING_OK)
        status = wring_game_init(&proof->game, &proof->arcs);
    if (status == WRING_OK)
        status = wring_branch_init(&proof->branch, &proof->table, &proof->game, LABELS);
    return status;
}

void wring_proof_finish(struct wring_proof *proof)
{
    wring_branch_finish(&proof->branch);
    wring_game_finish(&proof->game);
    wring_arc_set_finish(&proof->arcs);
    wring_group_table_finish(&proof->table);
    free(proof->memory);
}

uint64_t wring_proof_effort(const struct wring_proof *proof)
{
    return WRING_EFFORT_PLAYED * proof->game.played + WRING_EFFORT_PRICED * proof->table.priced +
           WRING_EFFORT_BRANCHED * proof->branch.nodes + WRING_EFFORT_TRIED * proof->branch.tried;
}

/** Or of effort. */
static bool out_of_time(const struct wring_proof *proof)
{
    return (proof->effort != 0 && wring_proof_effort(proof) >= proof->effort) ||
           (proof->deadline_ns != 0 && wring_now_ns() >= proof->deadline_ns);
}

bool wring_proof_over(const struct wring_proof *proof)
{
    return wring_proof_closed(proof) || out_of_time(proof);
}

bool wring_proof_closed(const struct wring_proof *proof)
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

void wring_proof_raise(struct wring_proof *proof, double bound_us)
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
    wring_proof_raise(proof, *bound_us);
    if (!isinf(proof->table.rest[0])) {
        wring_group_table_best(&proof->table, &proof->proposal);
        wring_proof_propose(proof);
    }
    return true;
}
