/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/bound/bound_groups.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX
};

/** Options that take this much more than the cheapest are looked at again when it takes as much. */
#define NEAR 1.5

double wring_group_chunks_length(const struct wring_group_took *group, const double *mass,
                                 uint32_t *lane)
{
    double down_to = 0, most = -INFINITY;
    uint32_t best = 0;

    for (uint32_t at = 0; at < STRIDE; at++) {
        down_to += group->once[at] * mass[at];
        double length = down_to + group->more[at] * mass[at];
        if (length > most) {
            most = length;
            best = at;
        }
    }
    if (lane != NULL)
        *lane = best;
    return most;
}

void wring_group_take(const struct wring_group_table *table, uint32_t begin, uint32_t end,
                      uint32_t option, struct wring_group_took *out)
{
    const struct wring_problem *problem = table->problem;
    const struct wring_option_cost *cost = &problem->options[option];
    uint64_t elems = problem->elems[end] - problem->elems[begin];
    uint64_t chunks =
        cost->chunk_elems == 0 ? 1 : (elems + cost->chunk_elems - 1) / cost->chunk_elems;
    double size = (double)elems, chunk = size / (double)chunks;

    *out = (struct wring_group_took){.chunked = chunks > 1};
    for (uint32_t lane = 0; lane < problem->n_lanes; lane++) {
        double each = wring_cost_at(&cost->each[lane], chunk);
        double once = wring_cost_at(&cost->once[lane], size);
        out->took[lane] = chunks == 1 ? once + each : each;
        out->once[lane] = chunks == 1 ? 0 : once;
        out->more[lane] = (double)(chunks - 1) * each;
    }
    out->took[0] += table->computed[end] - table->computed[begin];
}

void wring_masses_set(uint32_t first, uint32_t n_tensors, const struct wring_edges *flow,
                      const struct wring_masses *masses)
{
    double sum[STRIDE] = {0};

    for (size_t i = first; i < n_tensors; i++)
        for (size_t lane = 0, at = i * STRIDE; lane < STRIDE; lane++, at++) {
            masses->base[at] = flow->along[at] - sum[lane];
            masses->sum[at] = sum[lane];
            sum[lane] += flow->down[at];
        }
    memcpy(masses->sum + (size_t)n_tensors * STRIDE, sum, sizeof(sum));
}

/** Drop the options that this tensor may not take. @return how many are left */
static uint32_t keep_allowed(const struct wring_group_table *table, uint32_t tensor, uint32_t n)
{
    uint32_t kept = 0;

    if (table->problem->allowed == NULL)
        return n;
    for (uint32_t i = 0; i < n; i++)
        if (wring_problem_allows(table->problem, tensor, table->active[i]))
            table->active[kept++] = table->active[i];
    return kept;
}

static uint32_t first_active(const struct wring_group_table *table, uint32_t begin)
{
    for (uint32_t o = 0; o < table->problem->n_options; o++) {
        table->active[o] = o;
        table->at_piece[o] = table->first_piece[o];
    }
    return keep_allowed(table, begin, table->problem->n_options);
}

/** Expected length of an option that is one chunk; groups come by rising size. */
static inline double piece_length(const struct wring_group_table *table, uint32_t option,
                                  double elems, const double *mass)
{
    const struct wring_group_piece *piece = &table->pieces[table->at_piece[option]];

    while (elems >= piece->until)
        piece++;
    table->at_piece[option] = (uint32_t)(piece - table->pieces);
    return wring_group_dot(piece->fixed, mass) + elems * wring_group_dot(piece->slope, mass);
}

/** Expected length of an option, without the group's computing. */
static double option_length(const struct wring_group_table *table, uint32_t begin, uint32_t end,
                            uint32_t option, double elems, const double *mass)
{
    struct wring_group_took group;

    if (table->problem->options[option].chunk_elems == 0)
        return piece_length(table, option, elems, mass);
    wring_group_take(table, begin, end, option, &group);
    group.took[0] -= table->computed[end] - table->computed[begin];
    return wring_group_length(&group, mass);
}

/** The options of a row, those first that may be the cheapest of the groups to come. */
struct contest {
    uint32_t n, near; /* of table->active */
    double reach;     /* the others take at least this */
};

/** Compare all anew. Later groups of the row are larger, and touched by more of the flow. */
static void call_all(const struct wring_group_table *table, uint32_t begin, uint32_t end,
                     double elems, const double *mass, struct contest *contest)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < contest->n; i++) {
        uint32_t option = table->active[i];
        table->length[option] = option_length(table, begin, end, option, elems, mass);
        least = fmin(least, table->length[option]);
    }
    contest->near = 0;
    contest->reach = NEAR * least;
    for (uint32_t i = 0; i < contest->n; i++) {
        uint32_t option = table->active[i];
        bool may_fall = table->problem->options[option].chunk_elems != 0;
        if (table->length[option] > contest->reach && !may_fall)
            continue;
        table->active[i] = table->active[contest->near];
        table->active[contest->near++] = option;
    }
}

/** The cheapest of the options that are near. @return its length without computing */
static double call_near(const struct wring_group_table *table, uint32_t begin, double elems,
                        const double *mass, const struct contest *contest,
                        struct wring_group_pair *pair)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < contest->near; i++) {
        uint32_t option = table->active[i];
        double length = option_length(table, begin, pair->end, option, elems, mass);
        if (length < least) {
            least = length;
            pair->option = option;
        }
    }
    return least;
}

static void price_pair(const struct wring_group_table *table, uint32_t begin,
                       struct contest *contest, struct wring_group_pair *pair)
{
    const struct wring_problem *problem = table->problem;
    double elems = (double)(problem->elems[pair->end] - problem->elems[begin]);
    double computed = table->computed[pair->end] - table->computed[begin];
    double mass[STRIDE], least;

    wring_masses_of(&table->masses, begin, pair->end, mass);
    least = call_near(table, begin, elems, mass, contest, pair);
    if (least > contest->reach) {
        call_all(table, begin, pair->end, elems, mass, contest);
        least = call_near(table, begin, elems, mass, contest, pair);
    }
    pair->cost = least + computed * mass[0];
}

/** Price what begins at one tensor, and the rest from it. */
static void price_row(struct wring_group_table *table, uint32_t begin)
{
    struct wring_group_pair *pairs = table->pairs + table->row[begin];
    struct contest contest = {.n = first_active(table, begin), .reach = -INFINITY};
    double rest = INFINITY;
    uint32_t next = begin + 1, i;

    for (i = 0; i < table->alive[begin]; i++) {
        uint32_t before = contest.n;
        while (next < pairs[i].end)
            contest.n = keep_allowed(table, next++, contest.n);
        if (contest.n == 0)
            break;
        if (contest.n < before)
            contest = (struct contest){.n = contest.n, .reach = -INFINITY};
        price_pair(table, begin, &contest, &pairs[i]);
        double cost = pairs[i].cost + table->rest[pairs[i].end];
        rest = cost < rest ? cost : rest;
    }
    table->priced += i;
    table->alive[begin] = i; /* what comes after it may take no option */
    table->rest[begin] = rest;
}

static void set_heads(struct wring_group_table *table)
{
    uint32_t n = table->problem->n_tensors;

    for (uint32_t i = 1; i <= n; i++)
        table->head[i] = INFINITY;
    table->head[0] = 0;
    for (uint32_t begin = 0; begin < n; begin++) {
        const struct wring_group_pair *pairs = table->pairs + table->row[begin];
        for (uint32_t i = 0; i < table->alive[begin]; i++) {
            double cost = table->head[begin] + pairs[i].cost;
            if (cost < table->head[pairs[i].end])
                table->head[pairs[i].end] = cost;
        }
    }
}

bool wring_group_table_price(struct wring_group_table *table, uint32_t first, uint64_t deadline_ns)
{
    uint32_t n = table->problem->n_tensors;

    table->rest[n] = 0;
    for (uint32_t begin = n; begin-- > first;) {
        if (deadline_ns != 0 && wring_now_ns() >= deadline_ns)
            return false;
        price_row(table, begin);
    }
    if (first == 0)
        set_heads(table);
    return true;
}

void wring_group_table_bury(struct wring_group_table *table, double time_us)
{
    for (uint32_t begin = 0; begin < table->problem->n_tensors; begin++) {
        struct wring_group_pair *pairs = table->pairs + table->row[begin];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < table->alive[begin]; i++) {
            double around = table->head[begin] + pairs[i].cost + table->rest[pairs[i].end];
            if (around > pairs[i].least)
                pairs[i].least = around;
            if (pairs[i].least < time_us)
                pairs[kept++] = pairs[i];
        }
        table->alive[begin] = kept;
    }
}

void wring_group_table_best(const struct wring_group_table *table, struct wring_grouping *out)
{
    out->n = 0;
    for (uint32_t begin = 0; begin < table->problem->n_tensors;) {
        const struct wring_group_pair *pairs = table->pairs + table->row[begin], *best = pairs;
        for (uint32_t i = 1; i < table->alive[begin]; i++)
            if (pairs[i].cost + table->rest[pairs[i].end] < best->cost + table->rest[best->end])
                best = &pairs[i];
        out->option[out->n] = best->option;
        begin = out->end[out->n++] = best->end;
    }
}
