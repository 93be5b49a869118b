/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/bound/column_generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/tool/bound/proof.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX
};

enum wring_status wring_columns_init(struct wring_columns *set,
                                     const struct wring_group_table *table, uint32_t max)
{
    size_t n = table->problem->n_tensors;
    size_t arcs_bytes = max * sizeof(struct wring_column);
    size_t rest_bytes = (n + 1) * sizeof(double);
    char *memory = malloc(2 * arcs_bytes + rest_bytes + (3 * n + 1) * sizeof(uint32_t));

    *set = (struct wring_columns){.table = table, .max = max, .memory = memory};
    if (memory == NULL)
        return WRING_ERR_NO_MEMORY;
    set->columns = (struct wring_column *)memory;
    set->spare = set->columns + max;
    set->rest = (double *)(memory + 2 * arcs_bytes);
    set->first = (uint32_t *)(memory + 2 * arcs_bytes + rest_bytes);
    set->best = set->first + n;
    set->row = set->best + n;
    memset(set->first, 0xff, 2 * n * sizeof(uint32_t));
    return WRING_OK;
}

void wring_columns_finish(struct wring_columns *set)
{
    free(set->memory);
    set->memory = NULL;
}

static bool has_column(const struct wring_columns *set, uint32_t begin, uint32_t end,
                       uint32_t option)
{
    for (uint32_t i = set->first[begin]; i != WRING_COLUMN_NONE; i = set->columns[i].next)
        if (set->columns[i].end == end && set->columns[i].option == option)
            return true;
    return false;
}

bool wring_columns_add(struct wring_columns *set, uint32_t begin, uint32_t end, uint32_t option)
{
    if (has_column(set, begin, end, option))
        return true;
    if (set->n == set->max)
        return false;

    struct wring_column *column = &set->columns[set->n];
    *column = (struct wring_column){
        .begin = begin, .end = end, .option = option, .next = set->first[begin]};
    wring_group_cost_of(set->table, begin, end, option, &column->group);
    set->first[begin] = set->n++;
    return true;
}

/** The cheapest step on from a tensor. */
static void add_leaving(struct wring_columns *set, uint32_t begin)
{
    const struct wring_group_table *table = set->table;
    const struct wring_group_pair *pairs = table->pairs + table->row[begin], *best = NULL;
    double least = INFINITY;

    for (uint32_t i = 0; i < table->alive[begin]; i++) {
        double cost = pairs[i].cost + table->rest[pairs[i].end];
        if (cost < least) {
            least = cost;
            best = &pairs[i];
        }
    }
    if (best != NULL)
        wring_columns_add(set, begin, best->end, best->option);
}

/** The cheapest paths to all tensors; set->best serves as scratch. */
static void add_arriving(struct wring_columns *set)
{
    const struct wring_group_table *table = set->table;
    uint32_t n = table->problem->n_tensors;

    memset(set->best, 0xff, n * sizeof(uint32_t));
    for (uint32_t begin = 0; begin < n; begin++) {
        const struct wring_group_pair *pairs = table->pairs + table->row[begin];
        for (uint32_t i = 0; i < table->alive[begin]; i++) {
            uint32_t end = pairs[i].end;
            bool least = table->head[begin] + pairs[i].cost <= table->head[end];
            if (least && set->best[end - 1] == WRING_COLUMN_NONE) {
                set->best[end - 1] = begin;
                wring_columns_add(set, begin, end, pairs[i].option);
            }
        }
    }
}

/**
 * Add what the table found cheap: a cheapest group from each tensor and one to each tensor.
 * @return how many were new
 */
static uint32_t columns_gather(struct wring_columns *set)
{
    uint32_t before = set->n;

    for (uint32_t begin = 0; begin < set->table->problem->n_tensors; begin++)
        add_leaving(set, begin);
    add_arriving(set);
    return set->n - before;
}

/** Is a group still in the table? */
static bool is_group_alive(const struct wring_group_table *table, uint32_t begin, uint32_t end)
{
    const struct wring_group_pair *pairs = table->pairs + table->row[begin];
    uint32_t low = 0, high = table->alive[begin];

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (pairs[middle].end < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low < table->alive[begin] && pairs[low].end == end;
}

/** Take out what is buried, and what leads to tensors that none leaves. @param left  scratch */
static void thin_columns(struct wring_columns *set, uint32_t *left)
{
    uint32_t n = set->table->problem->n_tensors;

    for (uint32_t begin = n; begin-- > 0;) {
        left[begin] = 0;
        for (uint32_t i = set->first[begin]; i != WRING_COLUMN_NONE; i = set->columns[i].next) {
            struct wring_column *column = &set->columns[i];
            bool leads_on = column->end == n || left[column->end] > 0;
            if (!leads_on || !is_group_alive(set->table, begin, column->end))
                column->option = WRING_COLUMN_NONE;
            else
                left[begin]++;
        }
    }
}

void wring_columns_settle(struct wring_columns *set)
{
    uint32_t n = set->table->problem->n_tensors, kept = 0, *left = set->best;
    struct wring_column *sorted = set->spare;

    thin_columns(set, left);
    for (uint32_t begin = 0; begin < n; begin++) {
        set->row[begin] = kept;
        for (uint32_t i = set->first[begin]; i != WRING_COLUMN_NONE; i = set->columns[i].next)
            if (set->columns[i].option != WRING_COLUMN_NONE) {
                sorted[kept] = set->columns[i];
                sorted[kept].next = kept + 1;
                kept++;
            }
        set->first[begin] = kept > set->row[begin] ? set->row[begin] : WRING_COLUMN_NONE;
        if (kept > set->row[begin])
            sorted[kept - 1].next = WRING_COLUMN_NONE;
    }
    set->row[n] = set->n = kept;
    set->spare = set->columns;
    set->columns = sorted;
}

/** Of settled columns: the least expected length of groupings of the tensors from `first` on. */
static double columns_price(struct wring_columns *set, uint32_t first,
                            const struct wring_masses *masses)
{
    uint32_t n = set->table->problem->n_tensors;

    set->rest[n] = 0;
    for (uint32_t begin = n; begin-- > first;) {
        double least = INFINITY;
        for (uint32_t i = set->row[begin]; i < set->row[begin + 1]; i++) {
            const struct wring_column *column = &set->columns[i];
            double mass[STRIDE];
            wring_masses_of(masses, begin, column->end, mass);
            double rest = wring_group_length(&column->group, mass) + set->rest[column->end];
            if (rest < least) {
                least = rest;
                set->best[begin] = i;
            }
        }
        set->rest[begin] = least;
    }
    return set->rest[first];
}

void wring_column_chunks_lengths(const struct wring_column *column,
                                 const struct wring_masses *masses, double *lanes)
{
    double mass[STRIDE];
    uint32_t lane;

    memcpy(lanes, column->group.took, STRIDE * sizeof(*lanes));
    wring_masses_of(masses, column->begin, column->end, mass);
    wring_group_chunks_length(&column->group, mass, &lane);
    for (uint32_t at = 0; at < STRIDE; at++)
        if (column->group.backwards ? at >= lane : at <= lane)
            lanes[at] += column->group.once[at];
    lanes[lane] += column->group.more[lane];
}

/** The best grouping of the last pricing, from tensor 0 on. @param out  room for n groups */
static void columns_best(const struct wring_columns *set, struct wring_grouping *out)
{
    out->n = 0;
    for (uint32_t begin = 0; begin < set->table->problem->n_tensors;) {
        const struct wring_column *column = &set->columns[set->best[begin]];
        out->option[out->n] = column->option;
        begin = out->end[out->n++] = column->end;
    }
}

/* ---- column generation ---- */

enum {
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
static double expect_costs(struct wring_column_generation *generation, uint32_t begin,
                           uint32_t *best)
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
    double mean = expect_costs(generation, begin, &best), all = 0;

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

/** A cell's worth; updates the regrets of its two steps on. */
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
    double worth = columns_price(&proof->columns, 0, &proof->generation.masses);
    columns_best(&proof->columns, &proof->proposal);
    wring_proof_propose(proof);
    return worth;
}

/** One iteration: the generation goes on, the table proves what it found. @return whether to go on
 */
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
    uint32_t added = columns_gather(&proof->columns);
    wring_group_table_bury(&proof->table, proof->best_us);
    wring_columns_settle(&proof->columns);
    *settled = added == 0 || worth - bound < 0.2 * (proof->best_us - bound);
    return proof->columns.row[1] > 0; /* else all is buried but by rounding */
}

void wring_proof_generate(struct wring_proof *proof, uint32_t patience)
{
    double mark = -INFINITY;
    bool settled = false;

    for (uint32_t iteration = 0; !wring_proof_over(proof); iteration++) {
        if (iteration % patience == 0) {
            if (settled && proof->proven_us - mark < 0.02 * (proof->best_us - proof->proven_us))
                break;
            mark = proof->proven_us;
        }
        if (!step_once(proof, &settled))
            break;
    }
}
