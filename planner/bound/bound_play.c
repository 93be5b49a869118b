/* SPDX-License-Identifier: Apache-2.0 */
/** A proof's game: groupings against a flow, and the table that says what the flow is worth. */
#include <math.h>

#include "planner/bound/bound_proof.h"

enum {
    STEPS = 200, /* of the game between two pricings of the whole table */
};

/** Arcs that take so much of the gap more than the mixture are looked at the most seldom. */
static const double FAR_PART = 0.25;

static uint32_t first_allowed(const struct wring_problem *problem, uint32_t tensor)
{
    uint32_t option = 0;

    while (!wring_problem_allows(problem, tensor, option))
        option++;
    return option;
}

void wring_proof_start_game(struct wring_proof *proof)
{
    uint32_t begin = 0;

    for (uint32_t group = 0; group < proof->best->n; group++) {
        wring_arc_set_add(&proof->arcs, begin, proof->best->end[group], proof->best->option[group]);
        begin = proof->best->end[group];
    }
    for (uint32_t i = 0; i < proof->problem->n_tensors; i++)
        wring_arc_set_add(&proof->arcs, i, i + 1, first_allowed(proof->problem, i));
    wring_arc_set_settle(&proof->arcs);
    wring_game_start(&proof->game);
}

/** Steps of the game. @return what its flow is worth among the arcs */
static double play_steps(struct wring_proof *proof)
{
    wring_game_resume(&proof->game);
    for (int step = 0; step < STEPS && (step == 0 || !wring_proof_over(proof)); step++)
        wring_game_step(&proof->game);
    wring_game_rest(&proof->game);
    wring_masses_set(0, proof->problem->n_tensors, &proof->game.best, &proof->game.masses);
    double worth = wring_arc_set_price(&proof->arcs, 0, &proof->game.masses);
    wring_arc_set_best(&proof->arcs, &proof->proposal);
    wring_proof_propose(proof);
    return worth;
}

/** One round: the game goes on, the table proves what it found. @return whether to go on */
static bool play_round(struct wring_proof *proof, bool *settled)
{
    proof->game.far_us = FAR_PART * (proof->best_us - proof->bound_us);
    double worth = play_steps(proof), bound;

    if (!wring_proof_price(proof, &proof->game.best, &bound))
        return false;
    if (bound > proof->proven_us) {
        proof->proven_us = bound;
        wring_edges_copy(proof->problem->n_tensors, &proof->game.best, &proof->flow);
    }
    uint32_t added = wring_arc_set_gather(&proof->arcs);
    wring_group_table_bury(&proof->table, proof->best_us);
    wring_arc_set_settle(&proof->arcs);
    *settled = added == 0 || worth - bound < 0.2 * (proof->best_us - bound);
    return proof->arcs.row[1] > 0; /* else all is buried but by rounding */
}

void wring_proof_play(struct wring_proof *proof, uint32_t patience)
{
    double mark = -INFINITY;
    bool settled = false;

    for (uint32_t round = 0; !wring_proof_over(proof); round++) {
        if (round % patience == 0) {
            if (settled && proof->proven_us - mark < 0.02 * (proof->best_us - proof->proven_us))
                break;
            mark = proof->proven_us;
        }
        if (!play_round(proof, &settled))
            break;
    }
}
