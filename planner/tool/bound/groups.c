/* SPDX-License-Identifier: Apache-2.0 */
/** What a group takes, and how much of a flow touches it. */
#include "planner/tool/bound/groups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
    STRIDE = WRING_PLAN_LANES_MAX
};

double wring_group_chunks_length(const struct wring_group_cost *group, const double *mass,
                                 uint32_t *lane)
{
    double passed = 0, most = -INFINITY;
    uint32_t best = 0;

    for (uint32_t i = 0; i < STRIDE; i++) {
        uint32_t at = group->backwards ? STRIDE - 1 - i : i;
        passed += group->once[at] * mass[at];
        double length = passed + group->more[at] * mass[at];
        if (length > most) {
            most = length;
            best = at;
        }
    }
    if (lane != NULL)
        *lane = best;
    return most;
}

void wring_group_cost_of(const struct wring_group_table *table, uint32_t begin, uint32_t end,
                         uint32_t option, struct wring_group_cost *out)
{
    const struct wring_problem *problem = table->problem;
    const struct wring_option_cost *cost = &problem->options[option];
    uint64_t elems = problem->elems[end] - problem->elems[begin];
    uint64_t chunks =
        cost->chunk_elems == 0 ? 1 : (elems + cost->chunk_elems - 1) / cost->chunk_elems;
    double size = (double)elems, chunk = size / (double)chunks;

    *out = (struct wring_group_cost){.chunked = chunks > 1, .backwards = problem->backwards};
    for (uint32_t lane = 0; lane < problem->n_lanes; lane++) {
        double each = wring_cost_at(&cost->each[lane], chunk);
        double once = wring_cost_at(&cost->once[lane], size);
        out->took[lane] = chunks == 1 ? once + each : each;
        out->once[lane] = chunks == 1 ? 0 : once;
        out->more[lane] = (double)(chunks - 1) * each;
    }
    out->took[wring_problem_computes(problem)] += table->computed[end] - table->computed[begin];
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

/* ---- table ---- */

/* The table of all groups: its memory, and options cut into the lines between their corners. */

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
static uint32_t list_bends(const struct wring_problem *problem, uint32_t option, double *x)
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
    uint32_t n = list_bends(problem, option, x);

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
        pieces += list_bends(problem, o, x) + 1;
    return pieces;
}

/** Cut `bytes` off the memory, aligned; with NULL memory only counts. */
static void *cut_memory(char *memory, size_t *used, size_t bytes)
{
    void *part = memory == NULL ? NULL : memory + *used;

    *used += (bytes + 63) / 64 * 64;
    return part;
}

static size_t lay_out(struct wring_group_table *table, size_t pairs, size_t pieces)
{
    size_t n = table->problem->n_tensors, options = table->problem->n_options, used = 0;
    char *memory = table->memory;

    table->computed = cut_memory(memory, &used, (n + 1) * sizeof(double));
    table->masses.base = cut_memory(memory, &used, n * STRIDE * sizeof(double));
    table->masses.sum = cut_memory(memory, &used, (n + 1) * STRIDE * sizeof(double));
    table->pieces = cut_memory(memory, &used, pieces * sizeof(*table->pieces));
    table->first_piece = cut_memory(memory, &used, (options + 1) * sizeof(uint32_t));
    table->pairs = cut_memory(memory, &used, pairs * sizeof(*table->pairs));
    table->row = cut_memory(memory, &used, (n + 1) * sizeof(*table->row));
    table->alive = cut_memory(memory, &used, n * sizeof(uint32_t));
    table->active = cut_memory(memory, &used, options * sizeof(uint32_t));
    table->at_piece = cut_memory(memory, &used, options * sizeof(uint32_t));
    table->at_least = cut_memory(memory, &used, options * sizeof(double));
    table->head = cut_memory(memory, &used, (n + 1) * sizeof(double));
    table->rest = cut_memory(memory, &used, (n + 1) * sizeof(double));
    return used;
}

static void fill_table(struct wring_group_table *table)
{
    const struct wring_problem *problem = table->problem;
    double x[CORNERS_MAX];

    table->first_piece[0] = 0;
    for (uint32_t o = 0; o < problem->n_options; o++) {
        set_pieces(problem, o, table->pieces + table->first_piece[o]);
        table->first_piece[o + 1] = table->first_piece[o] + list_bends(problem, o, x) + 1;
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
    fill_table(table);
    return WRING_OK;
}

void wring_group_table_finish(struct wring_group_table *table)
{
    free(table->memory);
    table->memory = NULL;
}

/* ---- groups ---- */

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
    struct wring_group_cost group;

    if (table->problem->options[option].chunk_elems == 0)
        return piece_length(table, option, elems, mass);
    wring_group_cost_of(table, begin, end, option, &group);
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
static double note_option_length(const struct wring_group_table *table, const struct entry *entry,
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
static uint32_t sift_options(const struct wring_group_table *table, const struct entry *entry,
                             uint32_t n, double times, double least, double *reach)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (table->at_least[table->active[i]] > times * least)
            continue;
        double length = note_option_length(table, entry, table->active[i]);
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
static double find_cheapest_near(const struct wring_group_table *table, const struct entry *entry,
                                 const struct contest *contest)
{
    double least = INFINITY;
    uint32_t best = 0;

    for (uint32_t i = 0; i < contest->near; i++) {
        uint32_t option = table->active[i];
        if (table->at_least[option] >= least)
            continue;
        double length = note_option_length(table, entry, option);
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
static double find_cheapest(const struct wring_group_table *table, const struct entry *entry,
                            struct contest *contest)
{
    double least = find_cheapest_near(table, entry, contest);

    if (least <= contest->reach_near)
        return least;
    if (least > contest->reach_middle)
        contest->middle =
            sift_options(table, entry, contest->n, MIDDLE, least, &contest->reach_middle);
    contest->near = sift_options(table, entry, contest->middle, NEAR, least, &contest->reach_near);
    contest->reach_near = fmin(contest->reach_near, contest->reach_middle);
    return find_cheapest_near(table, entry, contest);
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
    pair->cost = find_cheapest(table, &entry, contest) +
                 computed * entry.mass[wring_problem_computes(problem)];
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
