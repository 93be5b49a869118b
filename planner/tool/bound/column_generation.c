/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/bound/column_generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/tool/bound/proof.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX,
    EDGES = 4, /* flow, length, sum, best */
    NAP = 16,  /* steps in which an arc is passed over, at most */
};

enum wring_status wring_game_init(struct wring_game *game, struct wring_arc_set *set)
{
    uint32_t n = set->table->problem->n_tensors;
    size_t cells = WRING_FLOW_CELLS(n);
    size_t arcs = ((size_t)set->max + 1) / 2 * 2;
    double *memory =
        calloc((2 * EDGES + 2 + 6) * cells + 2 * ((size_t)n + 1) + 7 * arcs / 2, sizeof(double));

    *game = (struct wring_game){.set = set,
                                .n_tensors = n,
                                .n_lanes = set->table->problem->n_lanes,
                                .far_us = INFINITY,
                                .memory = memory};
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    struct wring_edges *all[EDGES] = {&game->flow, &game->length, &game->sum, &game->best};
    for (int i = 0; i < EDGES; i++, memory += 2 * cells)
        *all[i] = (struct wring_edges){.down = memory, .along = memory + cells};
    game->masses = (struct wring_masses){.base = memory, .sum = memory + cells};
    game->cells = (struct wring_game_cell *)(memory + 2 * cells);
    game->saved_cells = game->cells + cells;
    game->values = memory + 8 * cells;
    game->reach = game->values + n + 1;
    game->regret = game->reach + n + 1;
    game->chance = game->regret + arcs;
    game->cost = game->chance + arcs;
    game->sleep = (uint32_t *)(game->cost + arcs);
    return WRING_OK;
}

void wring_game_finish(struct wring_game *game)
{
    free(game->memory);
    game->memory = NULL;
}

/** The first row in the game: of the first tensor, or the label's before it. */
static uint32_t first_row(const struct wring_game *game)
{
    return game->first > 0 ? game->first - 1 : 0;
}

static void begin_mean(struct wring_game *game)
{
    wring_edges_zero(game->n_tensors, &game->sum);
    game->weight = 0;
    game->steps = 0;
}

void wring_game_start(struct wring_game *game)
{
    game->first = 0;
    for (size_t at = 0; at < (size_t)game->n_tensors * STRIDE; at++)
        game->cells[at] = (struct wring_game_cell){.share = 0.5};
    begin_mean(game);
}

/** Set the chances of one tensor's arcs in proportion to their regrets; without any regret, the
 * best arc gets all. */
static void set_chances(struct wring_game *game, uint32_t begin, uint32_t best, double all)
{
    double part = all > 0 ? 1 / all : 0;

    for (uint32_t i = game->set->row[begin]; i < game->set->row[begin + 1]; i++)
        game->chance[i] = game->regret[i] * part;
    if (all == 0 && best < game->set->row[begin + 1])
        game->chance[best] = 1;
}

void wring_game_resume(struct wring_game *game)
{
    const struct wring_arc_set *set = game->set;

    memset(game->sleep, 0, set->n * sizeof(*game->sleep));
    for (uint32_t begin = 0; begin < game->n_tensors; begin++) {
        double all = 0;
        for (uint32_t i = set->row[begin]; i < set->row[begin + 1]; i++)
            all += game->regret[i] = set->arcs[i].regret;
        set_chances(game, begin, set->row[begin], all);
    }
}

/** The flow that the cells' shares make. */
static void set_flow(struct wring_game *game)
{
    uint32_t n = game->n_tensors, lanes = game->n_lanes;
    size_t skip = (size_t)first_row(game) * STRIDE;
    struct wring_edges from = {.down = game->flow.down + skip, .along = game->flow.along + skip};

    wring_edges_zero(n - first_row(game), &from);
    from.along[0] = 1;
    for (uint32_t i = first_row(game); i < n; i++) {
        double *down = game->flow.down + (size_t)i * STRIDE;
        double *along = game->flow.along + (size_t)i * STRIDE;
        const struct wring_game_cell *cells = game->cells + (size_t)i * STRIDE;
        for (uint32_t lane = 0; lane < lanes; lane++) {
            double here = down[lane] + along[lane];
            double share = lane + 1 == lanes ? 0 : i + 1 == n ? 1 : cells[lane].share;
            if (lane + 1 < lanes)
                down[lane + 1] = share * here;
            if (i + 1 < n)
                along[STRIDE + lane] = here - share * here;
        }
    }
}

static void add_to_mean(struct wring_game *game)
{
    double steps = ++game->steps, weight = steps * steps;
    size_t from = (size_t)first_row(game) * STRIDE, to = (size_t)game->n_tensors * STRIDE;

    for (size_t at = from; at < to; at++) {
        game->sum.down[at] += weight * game->flow.down[at];
        game->sum.along[at] += weight * game->flow.along[at];
    }
    game->weight += weight;
}

/** Work out the expected costs of one tensor's arcs that are awake. @param best  out: the cheapest
 *  @return that of the mixture */
static double expect(struct wring_game *game, uint32_t begin, uint32_t *best)
{
    const struct wring_arc_set *set = game->set;
    double mean = 0, chances = 0, least = INFINITY, mass[STRIDE];

    for (uint32_t i = set->row[begin]; i < set->row[begin + 1]; i++) {
        const struct wring_arc *arc = &set->arcs[i];
        game->cost[i] = INFINITY;
        if (game->sleep[i] > 0) {
            game->sleep[i]--;
            continue;
        }
        wring_masses_of(&game->masses, begin, arc->end, mass);
        double cost = wring_group_length(&arc->group, mass) + game->values[arc->end];
        game->cost[i] = cost;
        game->played++;
        mean += game->chance[i] * cost;
        chances += game->chance[i];
        *best = cost < least ? i : *best;
        least = cost < least ? cost : least;
    }
    return chances > 0 ? mean / chances : least; /* some may have gone */
}

/** Arcs that regret nothing are looked at the more seldom, the more they take than the mixture. */
static void lay_down(struct wring_game *game, uint32_t begin, uint32_t best, double mean)
{
    double part = NAP / game->far_us;

    for (uint32_t i = game->set->row[begin]; i < game->set->row[begin + 1]; i++) {
        if (game->regret[i] > 0 || game->cost[i] == INFINITY || i == best)
            continue;
        double nap = part * (game->cost[i] - mean);
        game->sleep[i] = nap < NAP ? (uint32_t)nap : NAP;
    }
}

/** Update the regrets of one tensor's arcs against the mixture, and make the next mixture of them.
 */
static void play_tensor(struct wring_game *game, uint32_t begin)
{
    uint32_t best = game->set->row[begin];
    double mean = expect(game, begin, &best), all = 0;

    for (uint32_t i = game->set->row[begin]; i < game->set->row[begin + 1]; i++) {
        double regret = game->regret[i] + (mean - game->cost[i]);
        game->regret[i] = regret > 0 ? regret : 0;
        all += game->regret[i];
    }
    game->values[begin] = mean;
    lay_down(game, begin, best, mean);
    set_chances(game, begin, best, all);
}

static void play_groupings(struct wring_game *game)
{
    wring_masses_set(first_row(game), game->n_tensors, &game->flow, &game->masses);
    game->values[game->n_tensors] = 0;
    for (uint32_t begin = game->n_tensors; begin-- > game->first;)
        play_tensor(game, begin);
}

/** Set the edges' expected lengths in the mixture, from the arcs that begin or end at each tensor.
 */
static void set_lengths(struct wring_game *game)
{
    uint32_t n = game->n_tensors;
    size_t skip = (size_t)game->first * STRIDE;
    struct wring_edges from = {.down = game->length.down + skip,
                               .along = game->length.along + skip};

    wring_edges_zero(n - game->first, &from);
    memset(game->reach, 0, ((size_t)n + 1) * sizeof(*game->reach));
    game->reach[game->first] = 1;
    for (uint32_t i = game->first; i < n; i++) {
        double *along = game->length.along + (size_t)i * STRIDE;
        double *down = game->length.down + (size_t)i * STRIDE;
        for (uint32_t at = game->set->row[i]; at < game->set->row[i + 1]; at++) {
            double part = game->reach[i] * game->chance[at], room[STRIDE];
            if (part <= 0)
                continue;
            const struct wring_arc *arc = &game->set->arcs[at];
            const double *lanes = wring_arc_lengths(arc, &game->masses, room);
            game->reach[arc->end] += part;
            double *end = game->length.down + (size_t)arc->end * STRIDE;
            for (uint32_t lane = 0; lane < STRIDE; lane++) {
                along[lane] += part * lanes[lane];
                end[lane] -= arc->end < n ? part * lanes[lane] : 0;
            }
        }
        for (uint32_t lane = 0; lane < STRIDE; lane++)
            down[lane] += along[lane] + (i > game->first ? (down - STRIDE)[lane] : 0);
    }
}

/** A cell's worth; updates the regrets of its two ways on. */
static double play_cell(struct wring_game_cell *cell, double down, double along)
{
    double worth = cell->share * down + (1 - cell->share) * along;
    double more_down = cell->down + down - worth, more_along = cell->along + along - worth;

    cell->down = more_down > 0 ? more_down : 0;
    cell->along = more_along > 0 ? more_along : 0;
    if (cell->down + cell->along > 0)
        cell->share = cell->down / (cell->down + cell->along);
    return worth;
}

static void play_flow(struct wring_game *game)
{
    uint32_t n = game->n_tensors, lanes = game->n_lanes;
    double after[STRIDE] = {0}, worth = 0;

    for (uint32_t i = n; i-- > first_row(game);) {
        const double *down = game->length.down + (size_t)i * STRIDE;
        const double *along = game->length.along + ((size_t)i + 1) * STRIDE;
        struct wring_game_cell *cells = game->cells + (size_t)i * STRIDE;
        for (uint32_t lane = lanes; lane-- > 0;) {
            if (lane + 1 == lanes)
                worth = i + 1 < n ? along[lane] + after[lane] : 0;
            else if (i + 1 == n)
                worth = down[lane + 1] + worth;
            else
                worth = play_cell(&cells[lane], down[lane + 1] + worth, along[lane] + after[lane]);
            after[lane] = worth;
        }
    }
}

void wring_game_step(struct wring_game *game)
{
    set_flow(game);
    add_to_mean(game);
    play_groupings(game);
    set_lengths(game);
    play_flow(game);
    game->played += (uint64_t)(game->n_tensors - game->first) * game->n_lanes;
}

void wring_game_rest(struct wring_game *game)
{
    size_t from = (size_t)first_row(game) * STRIDE, to = (size_t)game->n_tensors * STRIDE;

    for (size_t at = from; at < to; at++) {
        game->best.down[at] = game->sum.down[at] / game->weight;
        game->best.along[at] = game->sum.along[at] / game->weight;
    }
    for (uint32_t i = 0; i < game->set->n && game->first == 0; i++)
        game->set->arcs[i].regret = game->regret[i];
    begin_mean(game);
}

static void put_label(const struct wring_edges *edges, uint32_t row, uint32_t lanes,
                      const double *ends)
{
    double *down = edges->down + (size_t)row * STRIDE;

    edges->along[(size_t)row * STRIDE] = ends[0];
    for (uint32_t lane = 1; lane < lanes; lane++)
        down[lane] = ends[lane] - ends[lane - 1];
}

void wring_game_enter(struct wring_game *game, uint32_t first, const double *ends)
{
    memcpy(game->saved_cells, game->cells, (size_t)game->n_tensors * STRIDE * sizeof(*game->cells));
    game->first = first;
    put_label(&game->length, first - 1, game->n_lanes, ends);
    wring_game_resume(game);
    begin_mean(game);
}

void wring_game_leave(struct wring_game *game)
{
    memcpy(game->cells, game->saved_cells, (size_t)game->n_tensors * STRIDE * sizeof(*game->cells));
    game->first = 0;
    begin_mean(game);
}

/* ---- play ---- */

/* A proof's game: groupings against a flow, and the table that says what the flow is worth. */

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
