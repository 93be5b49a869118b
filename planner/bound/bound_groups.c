/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/bound/bound_groups.h"

#include <math.h>

#include "base/clock.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX
};

/** Options that take this much more than the cheapest are looked at again when it takes as much. */
static const double MIDDLE = 2, NEAR = 1.15;

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

void wring_group_row_start(const struct wring_group_table *table, uint32_t begin,
                           struct wring_group_row *row)
{
    for (uint32_t o = 0; o < table->problem->n_options; o++) {
        table->active[o] = o;
        table->at_piece[o] = table->first_piece[o];
        table->at_least[o] = 0;
    }
    *row = (struct wring_group_row){.begin = begin,
                                    .next = begin + 1,
                                    .n = keep_allowed(table, begin, table->problem->n_options)};
}

uint32_t wring_group_row_reach(const struct wring_group_table *table, uint32_t end,
                               struct wring_group_row *row)
{
    while (row->next < end)
        row->n = keep_allowed(table, row->next++, row->n);
    return row->n;
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
    group.took[wring_problem_computes(table->problem)] -=
        table->computed[end] - table->computed[begin];
    return wring_group_length(&group, mass);
}

double wring_group_row_length(const struct wring_group_table *table,
                              const struct wring_group_row *row, uint32_t option,
                              const double *mass)
{
    const uint64_t *elems = table->problem->elems;

    return option_length(table, row->begin, row->next, option,
                         (double)(elems[row->next] - elems[row->begin]), mass);
}

/**
 * The options of a row, those first that may be the cheapest of the groups to come: later groups of
 * the row are larger, and touched by more of the flow, so that no length falls.
 */
struct contest {
    uint32_t n, middle, near;        /* of table->active */
    double reach_middle, reach_near; /* those beyond take at least this */
};

/** A group of the row, under a flow. */
struct entry {
    uint32_t begin, end;
    double elems;
    double mass[STRIDE];
};

/** What an option takes of a group of the row, which larger groups do not fall below. */
static double look_at(const struct wring_group_table *table, const struct entry *entry,
                      uint32_t option)
{
    bool may_fall = table->problem->options[option].chunk_elems != 0;
    double length =
        option_length(table, entry->begin, entry->end, option, entry->elems, entry->mass);

    table->at_least[option] = may_fall ? 0 : length;
    return length;
}

/** Put those of the first n options first that take no more than `times` as long as the cheapest,
 *  or are cut into chunks and may fall. @return how many. @param least  that some option takes
 *  @param reach  out: what others take */
static uint32_t sift(const struct wring_group_table *table, const struct entry *entry, uint32_t n,
                     double times, double least, double *reach)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (table->at_least[table->active[i]] > times * least)
            continue;
        double length = look_at(table, entry, table->active[i]);
        least = length < least ? length : least;
    }
    *reach = times * least;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t option = table->active[i];
        if (table->at_least[option] > *reach)
            continue;
        table->active[i] = table->active[kept];
        table->active[kept++] = option;
    }
    return kept;
}

/** The cheapest of the options that are near; it comes first. @return its length without computing
 */
static double call_near(const struct wring_group_table *table, const struct entry *entry,
                        const struct contest *contest)
{
    double least = INFINITY;
    uint32_t best = 0;

    for (uint32_t i = 0; i < contest->near; i++) {
        uint32_t option = table->active[i];
        if (table->at_least[option] >= least)
            continue;
        double length = look_at(table, entry, option);
        if (length < least) {
            least = length;
            best = i;
        }
    }
    uint32_t option = table->active[best];
    table->active[best] = table->active[0];
    table->active[0] = option;
    return least;
}

/** The cheapest of all, those that have come near among them; it comes first. */
static double call(const struct wring_group_table *table, const struct entry *entry,
                   struct contest *contest)
{
    double least = call_near(table, entry, contest);

    if (least <= contest->reach_near)
        return least;
    if (least > contest->reach_middle)
        contest->middle = sift(table, entry, contest->n, MIDDLE, least, &contest->reach_middle);
    contest->near = sift(table, entry, contest->middle, NEAR, least, &contest->reach_near);
    contest->reach_near = fmin(contest->reach_near, contest->reach_middle);
    return call_near(table, entry, contest);
}

static void price_pair(const struct wring_group_table *table, uint32_t begin,
                       struct contest *contest, struct wring_group_pair *pair)
{
    const struct wring_problem *problem = table->problem;
    double computed = table->computed[pair->end] - table->computed[begin];
    struct entry entry = {.begin = begin,
                          .end = pair->end,
                          .elems = (double)(problem->elems[pair->end] - problem->elems[begin])};

    wring_masses_of(&table->masses, begin, pair->end, entry.mass);
    pair->cost =
        call(table, &entry, contest) + computed * entry.mass[wring_problem_computes(problem)];
    pair->option = table->active[0];
}

/** Price what begins at one tensor, and the rest from it. */
static void price_row(struct wring_group_table *table, uint32_t begin)
{
    struct wring_group_pair *pairs = table->pairs + table->row[begin];
    struct contest contest = {0};
    struct wring_group_row row;
    double rest = INFINITY;
    uint32_t i;

    wring_group_row_start(table, begin, &row);
    for (i = 0; i < table->alive[begin] && wring_group_row_reach(table, pairs[i].end, &row) > 0;
         i++) {
        if (row.n != contest.n)
            contest =
                (struct contest){.n = row.n, .reach_middle = -INFINITY, .reach_near = -INFINITY};
        price_pair(table, begin, &contest, &pairs[i]);
        table->priced++;
        double cost = pairs[i].cost + table->rest[pairs[i].end];
        rest = cost < rest ? cost : rest;
    }
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
