/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/bound/bound_game.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    STRIDE = WRING_PLAN_LANES_MAX,
    EDGES = 4, /* flow, length, sum, best */
    NAP = 16,  /* steps in which an arc is passed over, at most */
};

enum wring_status wring_game_init(struct wring_game *game, struct wring_arc_set *set)
{
    uint32_t n = set->table->problem->n_tensors;
    size_t cells = WRING_FLOW_ROOM(n);
    double *memory =
        calloc((2 * EDGES + 2 + 6) * cells + 2 * set->max + 2 * ((size_t)n + 1), sizeof(double));

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
    game->saved_arcs = memory + 8 * cells;
    game->values = game->saved_arcs + 2 * (size_t)set->max;
    game->reach = game->values + n + 1;
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

/** An arc that regrets nothing is looked at the more seldom, the more it takes than the mixture. */
static uint32_t nap(const struct wring_game *game, double more_us)
{
    return more_us >= game->far_us ? NAP : (uint32_t)(NAP * (more_us / game->far_us));
}

/** What is expected of the arcs of one tensor, and what each is better by. */
static void play_tensor(struct wring_game *game, uint32_t begin)
{
    struct wring_arc *arcs = game->set->arcs + game->set->row[begin];
    uint32_t n = game->set->row[begin + 1] - game->set->row[begin], best = 0;
    double mean = 0, chances = 0, all = 0, least = INFINITY;

    for (uint32_t i = 0; i < n; i++) {
        double mass[STRIDE];
        if (arcs[i].sleep > 0)
            continue;
        wring_masses_of(&game->masses, begin, arcs[i].end, mass);
        arcs[i].cost = wring_group_length(&arcs[i].group, mass) + game->values[arcs[i].end];
        game->played++;
        mean += arcs[i].chance * arcs[i].cost;
        chances += arcs[i].chance;
        best = arcs[i].cost < least ? i : best;
        least = arcs[i].cost < least ? arcs[i].cost : least;
    }
    if (least == INFINITY)
        return;
    mean = chances > 0 ? mean / chances : least; /* some may have gone */
    game->values[begin] = mean;
    for (uint32_t i = 0; i < n; i++) {
        if (arcs[i].sleep > 0) {
            arcs[i].sleep--;
            continue;
        }
        double regret = arcs[i].regret + mean - arcs[i].cost;
        arcs[i].regret = regret > 0 ? regret : 0;
        arcs[i].sleep = regret > 0 || i == best ? 0 : nap(game, arcs[i].cost - mean);
        all += arcs[i].regret;
    }
    for (uint32_t i = 0; i < n; i++)
        arcs[i].chance = all > 0 ? arcs[i].regret / all : i == best;
}

static void play_groupings(struct wring_game *game)
{
    wring_masses_set(first_row(game), game->n_tensors, &game->flow, &game->masses);
    game->values[game->n_tensors] = 0;
    for (uint32_t begin = game->n_tensors; begin-- > game->first;)
        play_tensor(game, begin);
}

/** How long edges are in the mixture, from what begins and ends at each tensor. */
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
            const struct wring_arc *arc = &game->set->arcs[at];
            double part = game->reach[i] * arc->chance, lanes[STRIDE];
            if (part <= 0)
                continue;
            game->reach[arc->end] += part;
            wring_arc_lengths(arc, &game->masses, lanes);
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

/** What a cell is worth, and what each way on is better by. */
static double play_cell(struct wring_game_cell *cell, double down, double along)
{
    double worth = cell->share * down + (1 - cell->share) * along;

    cell->down = fmax(cell->down + down - worth, 0);
    cell->along = fmax(cell->along + along - worth, 0);
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
    const struct wring_arc_set *set = game->set;

    memcpy(game->saved_cells, game->cells, (size_t)game->n_tensors * STRIDE * sizeof(*game->cells));
    for (uint32_t i = 0; i < set->n; i++) {
        game->saved_arcs[2 * (size_t)i] = set->arcs[i].regret;
        game->saved_arcs[2 * (size_t)i + 1] = set->arcs[i].chance;
        set->arcs[i].sleep = 0;
    }
    game->first = first;
    put_label(&game->length, first - 1, game->n_lanes, ends);
    begin_mean(game);
}

void wring_game_leave(struct wring_game *game)
{
    const struct wring_arc_set *set = game->set;

    memcpy(game->cells, game->saved_cells, (size_t)game->n_tensors * STRIDE * sizeof(*game->cells));
    for (uint32_t i = 0; i < set->n; i++) {
        set->arcs[i].regret = game->saved_arcs[2 * (size_t)i];
        set->arcs[i].chance = game->saved_arcs[2 * (size_t)i + 1];
        set->arcs[i].sleep = 0;
    }
    game->first = 0;
    begin_mean(game);
}
