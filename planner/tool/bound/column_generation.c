/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/bound/column_generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/tool/bound/proof.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX,
    EDGES = 4, /* flow, length, sum, best */
    NAP = 16,  /* steps in which a column is passed over, at most */
};

enum wring_status wring_column_generation_init(struct wring_column_generation *generation,
                                               struct wring_columns *set)
{
    uint32_t n = set->table->problem->n_tensors;
    size_t cells = WRING_FLOW_CELLS(n);
    size_t columns = ((size_t)set->max + 1) / 2 * 2;
    double *memory =
        calloc((2 * EDGES + 2 + 6) * cells + 2 * ((size_t)n + 1) + 7 * columns / 2, sizeof(double));

    *generation = (struct wring_column_generation){.set = set,
                                                   .n_tensors = n,
                                                   .n_lanes = set->table->problem->n_lanes,
                                                   .far_us = INFINITY,
                                                   .memory = memory};
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    struct wring_edges *all[EDGES] = {&generation->flow, &generation->length, &generation->sum,
                                      &generation->best};
    for (int i = 0; i < EDGES; i++, memory += 2 * cells)
        *all[i] = (struct wring_edges){.down = memory, .along = memory + cells};
    generation->masses = (struct wring_masses){.base = memory, .sum = memory + cells};
    generation->cells = (struct wring_column_generation_cell *)(memory + 2 * cells);
    generation->saved_cells = generation->cells + cells;
    generation->values = memory + 8 * cells;
    generation->reach = generation->values + n + 1;
    generation->regret = generation->reach + n + 1;
    generation->chance = generation->regret + columns;
    generation->cost = generation->chance + columns;
    generation->sleep = (uint32_t *)(generation->cost + columns);
    return WRING_OK;
}

void wring_column_generation_finish(struct wring_column_generation *generation)
{
    free(generation->memory);
    generation->memory = NULL;
}

/** The first row in the game: of the first tensor, or the label's before it. */
static uint32_t first_row(const struct wring_column_generation *generation)
{
    return generation->first > 0 ? generation->first - 1 : 0;
}

static void begin_mean(struct wring_column_generation *generation)
{
    wring_edges_zero(generation->n_tensors, &generation->sum);
    generation->weight = 0;
    generation->steps = 0;
}

void wring_column_generation_start(struct wring_column_generation *generation)
{
    generation->first = 0;
    for (size_t at = 0; at < (size_t)generation->n_tensors * STRIDE; at++)
        generation->cells[at] = (struct wring_column_generation_cell){.share = 0.5};
    begin_mean(generation);
}

/** Set the chances of one tensor's columns in proportion to their regrets; without any regret, the
 * best column gets all. */
static void set_chances(struct wring_column_generation *generation, uint32_t begin, uint32_t best,
                        double all)
{
    double part = all > 0 ? 1 / all : 0;

    for (uint32_t i = generation->set->row[begin]; i < generation->set->row[begin + 1]; i++)
        generation->chance[i] = generation->regret[i] * part;
    if (all == 0 && best < generation->set->row[begin + 1])
        generation->chance[best] = 1;
}

void wring_column_generation_resume(struct wring_column_generation *generation)
{
    const struct wring_columns *set = generation->set;

    memset(generation->sleep, 0, set->n * sizeof(*generation->sleep));
    for (uint32_t begin = 0; begin < generation->n_tensors; begin++) {
        double all = 0;
        for (uint32_t i = set->row[begin]; i < set->row[begin + 1]; i++)
            all += generation->regret[i] = set->columns[i].regret;
        set_chances(generation, begin, set->row[begin], all);
    }
}

/** The flow that the cells' shares make. */
static void set_flow(struct wring_column_generation *generation)
{
    uint32_t n = generation->n_tensors, lanes = generation->n_lanes;
    size_t skip = (size_t)first_row(generation) * STRIDE;
    struct wring_edges from = {.down = generation->flow.down + skip,
                               .along = generation->flow.along + skip};

    wring_edges_zero(n - first_row(generation), &from);
    from.along[0] = 1;
    for (uint32_t i = first_row(generation); i < n; i++) {
        double *down = generation->flow.down + (size_t)i * STRIDE;
        double *along = generation->flow.along + (size_t)i * STRIDE;
        const struct wring_column_generation_cell *cells = generation->cells + (size_t)i * STRIDE;
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

static void add_to_mean(struct wring_column_generation *generation)
{
    double steps = ++generation->steps, weight = steps * steps;
    size_t from = (size_t)first_row(generation) * STRIDE,
           to = (size_t)generation->n_tensors * STRIDE;

    for (size_t at = from; at < to; at++) {
        generation->sum.down[at] += weight * generation->flow.down[at];
        generation->sum.along[at] += weight * generation->flow.along[at];
    }
    generation->weight += weight;
}

/** Work out the expected costs of one tensor's columns that are awake. @param best  out: the
 * cheapest
 *  @return that of the mixture */
static double expect(struct wring_column_generation *generation, uint32_t begin, uint32_t *best)
{
    const struct wring_columns *set = generation->set;
    double mean = 0, chances = 0, least = INFINITY, mass[STRIDE];

    for (uint32_t i = set->row[begin]; i < set->row[begin + 1]; i++) {
        const struct wring_column *column = &set->columns[i];
        generation->cost[i] = INFINITY;
        if (generation->sleep[i] > 0) {
            generation->sleep[i]--;
            continue;
        }
        wring_masses_of(&generation->masses, begin, column->end, mass);
        double cost = wring_group_length(&column->group, mass) + generation->values[column->end];
        generation->cost[i] = cost;
        generation->played++;
        mean += generation->chance[i] * cost;
        chances += generation->chance[i];
        *best = cost < least ? i : *best;
        least = cost < least ? cost : least;
    }
    return chances > 0 ? mean / chances : least; /* some may have gone */
}

/** Columns that regret nothing are looked at the more seldom, the more they take than the mixture.
 */
static void lay_down(struct wring_column_generation *generation, uint32_t begin, uint32_t best,
                     double mean)
{
    double part = NAP / generation->far_us;

    for (uint32_t i = generation->set->row[begin]; i < generation->set->row[begin + 1]; i++) {
        if (generation->regret[i] > 0 || generation->cost[i] == INFINITY || i == best)
            continue;
        double nap = part * (generation->cost[i] - mean);
        generation->sleep[i] = nap < NAP ? (uint32_t)nap : NAP;
    }
}

/** Update the regrets of one tensor's columns against the mixture, and make the next mixture of
 * them.
 */
static void step_tensor(struct wring_column_generation *generation, uint32_t begin)
{
    uint32_t best = generation->set->row[begin];
    double mean = expect(generation, begin, &best), all = 0;

    for (uint32_t i = generation->set->row[begin]; i < generation->set->row[begin + 1]; i++) {
        double regret = generation->regret[i] + (mean - generation->cost[i]);
        generation->regret[i] = regret > 0 ? regret : 0;
        all += generation->regret[i];
    }
    generation->values[begin] = mean;
    lay_down(generation, begin, best, mean);
    set_chances(generation, begin, best, all);
}

static void step_groupings(struct wring_column_generation *generation)
{
    wring_masses_set(first_row(generation), generation->n_tensors, &generation->flow,
                     &generation->masses);
    generation->values[generation->n_tensors] = 0;
    for (uint32_t begin = generation->n_tensors; begin-- > generation->first;)
        step_tensor(generation, begin);
}

/** Set the edges' expected lengths in the mixture, from the columns that begin or end at each
 * tensor.
 */
static void set_lengths(struct wring_column_generation *generation)
{
    uint32_t n = generation->n_tensors;
    size_t skip = (size_t)generation->first * STRIDE;
    struct wring_edges from = {.down = generation->length.down + skip,
                               .along = generation->length.along + skip};

    wring_edges_zero(n - generation->first, &from);
    memset(generation->reach, 0, ((size_t)n + 1) * sizeof(*generation->reach));
    generation->reach[generation->first] = 1;
    for (uint32_t i = generation->first; i < n; i++) {
        double *along = generation->length.along + (size_t)i * STRIDE;
        double *down = generation->length.down + (size_t)i * STRIDE;
        for (uint32_t at = generation->set->row[i]; at < generation->set->row[i + 1]; at++) {
            double part = generation->reach[i] * generation->chance[at], room[STRIDE];
            if (part <= 0)
                continue;
            const struct wring_column *column = &generation->set->columns[at];
            const double *lanes = wring_column_lengths(column, &generation->masses, room);
            generation->reach[column->end] += part;
            double *end = generation->length.down + (size_t)column->end * STRIDE;
            for (uint32_t lane = 0; lane < STRIDE; lane++) {
                along[lane] += part * lanes[lane];
                end[lane] -= column->end < n ? part * lanes[lane] : 0;
            }
        }
        for (uint32_t lane = 0; lane < STRIDE; lane++)
            down[lane] += along[lane] + (i > generation->first ? (down - STRIDE)[lane] : 0);
    }
}

/** A cell's worth; updates the regrets of its two ways on. */
static double step_cell(struct wring_column_generation_cell *cell, double down, double along)
{
    double worth = cell->share * down + (1 - cell->share) * along;
    double more_down = cell->down + down - worth, more_along = cell->along + along - worth;

    cell->down = more_down > 0 ? more_down : 0;
    cell->along = more_along > 0 ? more_along : 0;
    if (cell->down + cell->along > 0)
        cell->share = cell->down / (cell->down + cell->along);
    return worth;
}

static void step_flow(struct wring_column_generation *generation)
{
    uint32_t n = generation->n_tensors, lanes = generation->n_lanes;
    double after[STRIDE] = {0}, worth = 0;

    for (uint32_t i = n; i-- > first_row(generation);) {
        const double *down = generation->length.down + (size_t)i * STRIDE;
        const double *along = generation->length.along + ((size_t)i + 1) * STRIDE;
        struct wring_column_generation_cell *cells = generation->cells + (size_t)i * STRIDE;
        for (uint32_t lane = lanes; lane-- > 0;) {
            if (lane + 1 == lanes)
                worth = i + 1 < n ? along[lane] + after[lane] : 0;
            else if (i + 1 == n)
                worth = down[lane + 1] + worth;
            else
                worth = step_cell(&cells[lane], down[lane + 1] + worth, along[lane] + after[lane]);
            after[lane] = worth;
        }
    }
}

void wring_column_generation_step(struct wring_column_generation *generation)
{
    set_flow(generation);
    add_to_mean(generation);
    step_groupings(generation);
    set_lengths(generation);
    step_flow(generation);
    generation->played +=
        (uint64_t)(generation->n_tensors - generation->first) * generation->n_lanes;
}

void wring_column_generation_rest(struct wring_column_generation *generation)
{
    size_t from = (size_t)first_row(generation) * STRIDE,
           to = (size_t)generation->n_tensors * STRIDE;

    for (size_t at = from; at < to; at++) {
        generation->best.down[at] = generation->sum.down[at] / generation->weight;
        generation->best.along[at] = generation->sum.along[at] / generation->weight;
    }
    for (uint32_t i = 0; i < generation->set->n && generation->first == 0; i++)
        generation->set->columns[i].regret = generation->regret[i];
    begin_mean(generation);
}

static void put_label(const struct wring_edges *edges, uint32_t row, uint32_t lanes,
                      const double *ends)
{
    double *down = edges->down + (size_t)row * STRIDE;

    edges->along[(size_t)row * STRIDE] = ends[0];
    for (uint32_t lane = 1; lane < lanes; lane++)
        down[lane] = ends[lane] - ends[lane - 1];
}

void wring_column_generation_enter(struct wring_column_generation *generation, uint32_t first,
                                   const double *ends)
{
    memcpy(generation->saved_cells, generation->cells,
           (size_t)generation->n_tensors * STRIDE * sizeof(*generation->cells));
    generation->first = first;
    put_label(&generation->length, first - 1, generation->n_lanes, ends);
    wring_column_generation_resume(generation);
    begin_mean(generation);
}

void wring_column_generation_leave(struct wring_column_generation *generation)
{
    memcpy(generation->cells, generation->saved_cells,
           (size_t)generation->n_tensors * STRIDE * sizeof(*generation->cells));
    generation->first = 0;
    begin_mean(generation);
}

/* ---- play ---- */

/* A proof's game: groupings against a flow, and the table that says what the flow is worth. */

enum {
    STEPS = 200, /* of the game between two pricings of the whole table */
};

/** Columns that take so much of the gap more than the mixture are looked at the most seldom. */
static const double FAR_PART = 0.25;

static uint32_t first_allowed(const struct wring_problem *problem, uint32_t tensor)
{
    uint32_t option = 0;

    while (!wring_problem_allows(problem, tensor, option))
        option++;
    return option;
}

void wring_proof_start_generation(struct wring_proof *proof)
{
    uint32_t begin = 0;

    for (uint32_t group = 0; group < proof->best->n; group++) {
        wring_columns_add(&proof->columns, begin, proof->best->end[group],
                          proof->best->option[group]);
        begin = proof->best->end[group];
    }
    for (uint32_t i = 0; i < proof->problem->n_tensors; i++)
        wring_columns_add(&proof->columns, i, i + 1, first_allowed(proof->problem, i));
    wring_columns_settle(&proof->columns);
    wring_column_generation_start(&proof->generation);
}

/** Steps of the game. @return what its flow is worth among the columns */
static double step_steps(struct wring_proof *proof)
{
    wring_column_generation_resume(&proof->generation);
    for (int step = 0; step < STEPS && (step == 0 || !wring_proof_over(proof)); step++)
        wring_column_generation_step(&proof->generation);
    wring_column_generation_rest(&proof->generation);
    wring_masses_set(0, proof->problem->n_tensors, &proof->generation.best,
                     &proof->generation.masses);
    double worth = wring_columns_price(&proof->columns, 0, &proof->generation.masses);
    wring_columns_best(&proof->columns, &proof->proposal);
    wring_proof_propose(proof);
    return worth;
}

/** One round: the game goes on, the table proves what it found. @return whether to go on */
static bool step_once(struct wring_proof *proof, bool *settled)
{
    proof->generation.far_us = FAR_PART * (proof->best_us - proof->bound_us);
    double worth = step_steps(proof), bound;

    if (!wring_proof_price(proof, &proof->generation.best, &bound))
        return false;
    if (bound > proof->proven_us) {
        proof->proven_us = bound;
        wring_edges_copy(proof->problem->n_tensors, &proof->generation.best, &proof->flow);
    }
    uint32_t added = wring_columns_gather(&proof->columns);
    wring_group_table_bury(&proof->table, proof->best_us);
    wring_columns_settle(&proof->columns);
    *settled = added == 0 || worth - bound < 0.2 * (proof->best_us - bound);
    return proof->columns.row[1] > 0; /* else all is buried but by rounding */
}

void wring_proof_generate(struct wring_proof *proof, uint32_t patience)
{
    double mark = -INFINITY;
    bool settled = false;

    for (uint32_t round = 0; !wring_proof_over(proof); round++) {
        if (round % patience == 0) {
            if (settled && proof->proven_us - mark < 0.02 * (proof->best_us - proof->proven_us))
                break;
            mark = proof->proven_us;
        }
        if (!step_once(proof, &settled))
            break;
    }
}
