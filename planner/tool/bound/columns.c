/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/bound/columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static bool holds(const struct wring_columns *set, uint32_t begin, uint32_t end, uint32_t option)
{
    for (uint32_t i = set->first[begin]; i != WRING_COLUMN_NONE; i = set->columns[i].next)
        if (set->columns[i].end == end && set->columns[i].option == option)
            return true;
    return false;
}

bool wring_columns_add(struct wring_columns *set, uint32_t begin, uint32_t end, uint32_t option)
{
    if (holds(set, begin, end, option))
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

/** The cheapest way on from a tensor. */
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

/** The cheapest ways to all tensors; set->best serves as scratch. */
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

uint32_t wring_columns_gather(struct wring_columns *set)
{
    uint32_t before = set->n;

    for (uint32_t begin = 0; begin < set->table->problem->n_tensors; begin++)
        add_leaving(set, begin);
    add_arriving(set);
    return set->n - before;
}

/** Is a group still in the table? */
static bool alive(const struct wring_group_table *table, uint32_t begin, uint32_t end)
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
static void thin(struct wring_columns *set, uint32_t *left)
{
    uint32_t n = set->table->problem->n_tensors;

    for (uint32_t begin = n; begin-- > 0;) {
        left[begin] = 0;
        for (uint32_t i = set->first[begin]; i != WRING_COLUMN_NONE; i = set->columns[i].next) {
            struct wring_column *column = &set->columns[i];
            bool leads_on = column->end == n || left[column->end] > 0;
            if (!leads_on || !alive(set->table, begin, column->end))
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

    thin(set, left);
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

double wring_columns_price(struct wring_columns *set, uint32_t first,
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

void wring_columns_best(const struct wring_columns *set, struct wring_grouping *out)
{
    out->n = 0;
    for (uint32_t begin = 0; begin < set->table->problem->n_tensors;) {
        const struct wring_column *column = &set->columns[set->best[begin]];
        out->option[out->n] = column->option;
        begin = out->end[out->n++] = column->end;
    }
}
