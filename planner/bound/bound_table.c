/* SPDX-License-Identifier: Apache-2.0 */
/** The table of all groups: its memory, and options cut into the lines between their corners. */
#include <math.h>
#include <stdlib.h>

#include "planner/bound/bound_groups.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX
};

static void put_corners(const struct wring_cost *cost, double *x, uint32_t *n)
{
    for (uint32_t i = 0; i < cost->n; i++)
        x[(*n)++] = cost->corners[i].x;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum {
    CORNERS_MAX = 2 * WRING_PLAN_LANES_MAX * WRING_COST_CORNERS
};

/** All sizes above 0 at which some lane's cost bends, rising. @return how many */
static uint32_t bends(const struct wring_problem *problem, uint32_t option, double *x)
{
    const struct wring_option_cost *cost = &problem->options[option];
    uint32_t n = 0, kept = 0;

    for (uint32_t lane = 0; lane < problem->n_lanes; lane++) {
        put_corners(&cost->once[lane], x, &n);
        put_corners(&cost->each[lane], x, &n);
    }
    qsort(x, n, sizeof(*x), by_value);
    for (uint32_t i = 0; i < n; i++)
        if (x[i] > (kept > 0 ? x[kept - 1] : 0))
            x[kept++] = x[i];
    return kept;
}

/** Add the line that a cost follows from `from` on. */
static void add_line(const struct wring_cost *cost, double from, double *fixed, double *slope)
{
    uint32_t i = 0;
    double rise = 0;

    if (cost->n == 0)
        return;
    while (i < cost->n && cost->corners[i].x <= from)
        i++;
    if (i == cost->n)
        rise = cost->slope;
    else if (i > 0)
        rise = (cost->corners[i].y - cost->corners[i - 1].y) /
               (cost->corners[i].x - cost->corners[i - 1].x);
    *slope += rise;
    *fixed += wring_cost_at(cost, from) - rise * from;
}

static void set_pieces(const struct wring_problem *problem, uint32_t option,
                       struct wring_group_piece *pieces)
{
    const struct wring_option_cost *cost = &problem->options[option];
    double x[CORNERS_MAX], from = 0;
    uint32_t n = bends(problem, option, x);

    for (uint32_t i = 0; i <= n; i++) {
        pieces[i] = (struct wring_group_piece){.until = i < n ? x[i] : INFINITY};
        for (uint32_t lane = 0; lane < problem->n_lanes; lane++) {
            add_line(&cost->once[lane], from, &pieces[i].fixed[lane], &pieces[i].slope[lane]);
            add_line(&cost->each[lane], from, &pieces[i].fixed[lane], &pieces[i].slope[lane]);
        }
        from = pieces[i].until;
    }
}

/** Ends of groups that may begin here. */
static uint32_t count_ends(const struct wring_problem *problem, uint32_t begin)
{
    uint32_t end = begin + 1;

    if (problem->max_group_elems == 0)
        return problem->n_tensors - begin;
    while (end < problem->n_tensors &&
           problem->elems[end + 1] - problem->elems[begin] <= problem->max_group_elems)
        end++;
    return end - begin;
}

static size_t count_pairs(const struct wring_problem *problem)
{
    size_t pairs = 0;

    for (uint32_t begin = 0; begin < problem->n_tensors && pairs <= WRING_GROUP_PAIRS_MAX; begin++)
        pairs += count_ends(problem, begin);
    return pairs;
}

bool wring_group_table_fits(const struct wring_problem *problem)
{
    return count_pairs(problem) <= WRING_GROUP_PAIRS_MAX;
}

static size_t count_pieces(const struct wring_problem *problem)
{
    double x[CORNERS_MAX];
    size_t pieces = 0;

    for (uint32_t o = 0; o < problem->n_options; o++)
        pieces += bends(problem, o, x) + 1;
    return pieces;
}

/** Cut `bytes` off the memory, aligned; with NULL memory only counts. */
static void *cut(char *memory, size_t *used, size_t bytes)
{
    void *part = memory == NULL ? NULL : memory + *used;

    *used += (bytes + 63) / 64 * 64;
    return part;
}

static size_t lay_out(struct wring_group_table *table, size_t pairs, size_t pieces)
{
    size_t n = table->problem->n_tensors, options = table->problem->n_options, used = 0;
    char *memory = table->memory;

    table->computed = cut(memory, &used, (n + 1) * sizeof(double));
    table->masses.base = cut(memory, &used, n * STRIDE * sizeof(double));
    table->masses.sum = cut(memory, &used, (n + 1) * STRIDE * sizeof(double));
    table->pieces = cut(memory, &used, pieces * sizeof(*table->pieces));
    table->first_piece = cut(memory, &used, (options + 1) * sizeof(uint32_t));
    table->pairs = cut(memory, &used, pairs * sizeof(*table->pairs));
    table->row = cut(memory, &used, (n + 1) * sizeof(*table->row));
    table->alive = cut(memory, &used, n * sizeof(uint32_t));
    table->active = cut(memory, &used, options * sizeof(uint32_t));
    table->at_piece = cut(memory, &used, options * sizeof(uint32_t));
    table->at_least = cut(memory, &used, options * sizeof(double));
    table->head = cut(memory, &used, (n + 1) * sizeof(double));
    table->rest = cut(memory, &used, (n + 1) * sizeof(double));
    return used;
}

static void fill(struct wring_group_table *table)
{
    const struct wring_problem *problem = table->problem;
    double x[CORNERS_MAX];

    table->first_piece[0] = 0;
    for (uint32_t o = 0; o < problem->n_options; o++) {
        set_pieces(problem, o, table->pieces + table->first_piece[o]);
        table->first_piece[o + 1] = table->first_piece[o] + bends(problem, o, x) + 1;
    }
    table->computed[0] = 0;
    table->row[0] = 0;
    for (uint32_t begin = 0; begin < problem->n_tensors; begin++) {
        table->computed[begin + 1] = table->computed[begin] + problem->compute_us[begin];
        table->alive[begin] = count_ends(problem, begin);
        table->row[begin + 1] = table->row[begin] + table->alive[begin];
        for (uint32_t i = 0; i < table->alive[begin]; i++)
            table->pairs[table->row[begin] + i] = (struct wring_group_pair){.end = begin + 1 + i};
    }
}

static bool can_travel(const struct wring_problem *problem, uint32_t tensor)
{
    for (uint32_t option = 0; option < problem->n_options; option++)
        if (wring_problem_allows(problem, tensor, option))
            return true;
    return false;
}

static bool all_can_travel(const struct wring_problem *problem)
{
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        if (!can_travel(problem, i))
            return false;
    return true;
}

enum wring_status wring_group_table_init(struct wring_group_table *table,
                                         const struct wring_problem *problem)
{
    size_t pairs = count_pairs(problem), pieces = count_pieces(problem);

    *table = (struct wring_group_table){.problem = problem};
    if (!all_can_travel(problem))
        return WRING_ERR_INVALID;
    table->memory = malloc(lay_out(table, pairs, pieces));
    if (table->memory == NULL)
        return WRING_ERR_NO_MEMORY;
    lay_out(table, pairs, pieces);
    fill(table);
    return WRING_OK;
}

void wring_group_table_finish(struct wring_group_table *table)
{
    free(table->memory);
    table->memory = NULL;
}
