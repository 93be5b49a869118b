/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/cost_tables.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** All x of the corners of `n` costs, rising, each once, 0 among them. */
static uint32_t collect_corners(const struct wring_cost *costs, uint32_t n, double *x)
{
    uint32_t many = 1, kept = 1;

    x[0] = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t corner = 0; corner < costs[i].n; corner++)
            if (costs[i].corners[corner].x > 0)
                x[many++] = costs[i].corners[corner].x;
    qsort(x, many, sizeof(*x), by_value);
    for (uint32_t i = 1; i < many; i++)
        if (x[i] > x[kept - 1])
            x[kept++] = x[i];
    return kept;
}

/** Add a cost to a lane of all pieces. */
static void add_cost(struct wring_cost_table *table, const struct wring_cost *cost, uint32_t lane)
{
    for (uint32_t i = 0; i < table->n; i++) {
        struct wring_cost_table_piece *piece = &table->pieces[i];
        double us = wring_cost_at(cost, piece->from);
        piece->us[lane] += us;
        if (i + 1 < table->n) {
            double next = table->pieces[i + 1].from;
            piece->slope[lane] += (wring_cost_at(cost, next) - us) / (next - piece->from);
        } else if (cost->n > 0) {
            piece->slope[lane] += cost->slope;
        }
    }
}

/** @param costs  [2 × WRING_PLAN_LANES_MAX] a lane's are at lane and WRING_PLAN_LANES_MAX + lane */
static enum wring_status make_table(struct wring_cost_table *table, const struct wring_cost *costs)
{
    double x[2 * WRING_PLAN_LANES_MAX * WRING_COST_CORNERS + 1];

    table->n = collect_corners(costs, 2 * WRING_PLAN_LANES_MAX, x);
    table->pieces = calloc(table->n, sizeof(*table->pieces));
    if (table->pieces == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < table->n; i++)
        table->pieces[i].from = x[i];
    for (uint32_t i = 0; i < 2 * WRING_PLAN_LANES_MAX; i++)
        add_cost(table, &costs[i], i % WRING_PLAN_LANES_MAX);
    return WRING_OK;
}

/** Errors: WRING_ERR_NO_MEMORY; finish it then too. */
static enum wring_status option_tables_init(struct wring_option_tables *of_option,
                                            const struct wring_option_cost *option,
                                            uint32_t n_lanes)
{
    struct wring_cost first[2 * WRING_PLAN_LANES_MAX] = {0}, each[2 * WRING_PLAN_LANES_MAX] = {0};

    of_option->chunk_elems = option->chunk_elems;
    memcpy(first, option->once, n_lanes * sizeof(*first));
    memcpy(of_option->chunk_elems == 0 ? first + WRING_PLAN_LANES_MAX : each, option->each,
           n_lanes * sizeof(*first));
    enum wring_status status = make_table(&of_option->first, first);
    return status == WRING_OK ? make_table(&of_option->each, each) : status;
}

static void option_tables_finish(struct wring_option_tables *of_option)
{
    free(of_option->first.pieces);
    free(of_option->each.pieces);
}

static bool is_below_at(const struct wring_cost_table *a, const struct wring_cost_table *b,
                        double x, uint32_t n_lanes)
{
    double us_a[WRING_PLAN_LANES_MAX], us_b[WRING_PLAN_LANES_MAX];

    wring_cost_table_look_up(a, x, us_a);
    wring_cost_table_look_up(b, x, us_b);
    for (uint32_t lane = 0; lane < n_lanes; lane++)
        if (us_a[lane] > us_b[lane])
            return false;
    return true;
}

/** At all corners of one of the tables inside the interval. */
static bool is_below_at_corners(const struct wring_cost_table *a, const struct wring_cost_table *b,
                                const struct wring_cost_table *corners, double low, double high,
                                uint32_t n_lanes)
{
    for (uint32_t i = 0; i < corners->n; i++) {
        double x = corners->pieces[i].from;
        if (x > low && x < high && !is_below_at(a, b, x, n_lanes))
            return false;
    }
    return true;
}

/** Between corners both are lines, so that corners and ends say it all. */
static bool is_below_between(const struct wring_cost_table *a, const struct wring_cost_table *b,
                             double low, double high, uint32_t n_lanes)
{
    return is_below_at(a, b, low, n_lanes) && is_below_at(a, b, high, n_lanes) &&
           is_below_at_corners(a, b, a, low, high, n_lanes) &&
           is_below_at_corners(a, b, b, low, high, n_lanes);
}

/** Does `a` take no longer than `b`, on any lane, for any group of low to high elements? */
static bool are_tables_below(const struct wring_option_tables *a,
                             const struct wring_option_tables *b, double low, double high,
                             uint32_t n_lanes)
{
    double chunk = (double)a->chunk_elems;

    if (a->chunk_elems != b->chunk_elems ||
        !is_below_between(&a->first, &b->first, low, high, n_lanes))
        return false;
    if (a->chunk_elems == 0)
        return true;
    /* one chunk is as large as its group; of more, each is more than half as large as they may be
     */
    double least = low < chunk / 2 ? low : chunk / 2, most = high < chunk ? high : chunk;
    return is_below_between(&a->each, &b->each, least, most, n_lanes);
}

/* ---- rate choices ---- */

enum {
    SETS_MAX = 1 << WRING_PLAN_LANES_MAX, /* of lanes */
    FEW = 16,                             /* options */
};

/** How many tensors may take an option, of those that may take any of its family. */
enum kind {
    NO,
    SOME,
    EVERY,
};

/** Choices being found. */
struct finding {
    const struct wring_cost_tables *tables;
    enum kind *kinds; /* [n_options] */
    uint32_t *family; /* [n_options] the same number: tensors choose between them, or between both
                         and others. Options for other types of elements are another family */
    bool *marked;     /* [n_options] at the present size */
    double *least;    /* [SETS_MAX] what a set of lanes takes together, at least */
    uint32_t *who;    /* [SETS_MAX] with which option */
};

static bool may_take(const struct wring_problem *problem, uint32_t tensor, uint32_t option)
{
    uint64_t word = problem->allowed[(uint64_t)tensor * wring_problem_words(problem) + option / 64];
    return (word >> (option % 64) & 1) != 0;
}

/** Errors: WRING_ERR_INVALID (a tensor may take no option), WRING_ERR_NO_MEMORY. */
static enum wring_status tables_find_first(struct wring_cost_tables *tables)
{
    tables->first = malloc(tables->n_tensors * sizeof(*tables->first));
    if (tables->first == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < tables->n_tensors; i++) {
        uint32_t option = 0;
        while (option < tables->n_options && !may_take(tables->problem, i, option))
            option++;
        if (option == tables->n_options)
            return WRING_ERR_INVALID;
        tables->first[i] = option;
    }
    return WRING_OK;
}

/** Errors: as the former. */
static enum wring_status tables_find_barred(struct wring_cost_tables *tables)
{
    uint64_t stride = (uint64_t)tables->n_tensors + 1;

    tables->barred = malloc(tables->n_options * stride * sizeof(*tables->barred));
    if (tables->barred == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t option = 0; option < tables->n_options; option++) {
        uint32_t *barred = tables->barred + option * stride;
        barred[tables->n_tensors] = tables->n_tensors;
        for (uint32_t i = tables->n_tensors; i-- > 0;)
            barred[i] = may_take(tables->problem, i, option) ? barred[i + 1] : i;
    }
    return tables_find_first(tables);
}

bool wring_cost_tables_allow_any(const struct wring_cost_tables *tables, uint32_t begin,
                                 uint32_t end)
{
    for (uint32_t option = 0; option < tables->n_options; option++)
        if (wring_cost_tables_allow(tables, begin, end, option))
            return true;
    return false;
}

/** May each tensor that may take `b` take `a` instead? */
static bool may_stand_in(const struct wring_cost_tables *tables, uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; tables->barred != NULL && i < tables->n_tensors; i++)
        if (wring_cost_tables_allow(tables, i, i + 1, b) &&
            !wring_cost_tables_allow(tables, i, i + 1, a))
            return false;
    return true;
}

/** Is there an option that is as good at these sizes? Of those that are alike the first stays. */
static bool is_beaten(const struct wring_cost_tables *tables, uint32_t option, double low,
                      double high)
{
    const struct wring_option_tables *of_option = tables->of_option;

    for (uint32_t other = 0; other < tables->n_options; other++) {
        if (other == option ||
            !are_tables_below(&of_option[other], &of_option[option], low, high, tables->n_lanes))
            continue;
        bool alike =
            are_tables_below(&of_option[option], &of_option[other], low, high, tables->n_lanes) &&
            may_stand_in(tables, option, other);
        if (may_stand_in(tables, other, option) && (!alike || other < option))
            return true;
    }
    return false;
}

/** Sums over each set of lanes, a bit per lane, n_lanes ≥ 1. @param sum  out, [1 << n_lanes] */
static void sum_sets(uint32_t n_lanes, const double *us, double *sum)
{
    sum[0] = 0;
    sum[1] = us[0];
    for (uint32_t lane = 1; lane < n_lanes; lane++) {
        wring_pair more = {us[lane], us[lane]};
        for (uint32_t i = 0; i < 1u << lane; i += 2)
            wring_pair_store(sum + i + (1u << lane), wring_pair_load(sum + i) + more);
    }
}

/** Of which sets does this option take less than those before? Seldom of many. */
static void take_least(const struct finding *finding, uint32_t sets, const double *sum,
                       uint32_t option)
{
    double *least = finding->least;

    for (uint32_t i = 0; i < sets; i += 2) {
        if (wring_pair_above(wring_pair_load(least + i), wring_pair_load(sum + i)) == 0)
            continue;
        for (uint32_t j = i; j < i + 2; j++)
            if (sum[j] < least[j]) {
                least[j] = sum[j];
                finding->who[j] = option;
            }
    }
}

/** Mark the options of a kind that take least on some set of lanes together, at a size. */
static void mark_least(const struct finding *finding, uint32_t family, uint64_t elems,
                       enum kind kind)
{
    const struct wring_cost_tables *tables = finding->tables;
    uint32_t sets = 1u << tables->n_lanes;
    double us[WRING_PLAN_LANES_MAX], sum[SETS_MAX];

    finding->least[0] = 0; /* no lanes: nothing takes less */
    for (uint32_t i = 1; i < sets; i++)
        finding->least[i] = DBL_MAX;
    for (uint32_t option = 0; option < tables->n_options; option++) {
        if (finding->family[option] != family || finding->kinds[option] < kind)
            continue;
        wring_option_tables_loads(&tables->of_option[option], elems, tables->n_lanes, us);
        sum_sets(tables->n_lanes, us, sum);
        take_least(finding, sets, sum, option);
    }
    for (uint32_t i = 1; i < sets && finding->least[i] < DBL_MAX; i++)
        finding->marked[finding->who[i]] = true;
}

/** Where there are few options, leave out only those that are useless for sure. */
static void mark_unbeaten(const struct finding *finding, double low, double high)
{
    for (uint32_t option = 0; option < finding->tables->n_options; option++)
        finding->marked[option] = !is_beaten(finding->tables, option, low, high);
}

/** Of each family those that tensors of it choose between. */
static void mark_least_of_all(const struct finding *finding, uint64_t elems)
{
    for (uint32_t i = 0; i < finding->tables->n_options; i++) {
        if (finding->family[i] != i || finding->kinds[i] == NO)
            continue;
        mark_least(finding, i, elems, EVERY);
        if (finding->tables->barred != NULL) /* else any may take any */
            mark_least(finding, i, elems, SOME);
    }
}

static enum wring_status find_choices_at_size(const struct finding *finding, int size)
{
    const struct wring_cost_tables *tables = finding->tables;
    struct wring_choices *choices = &tables->choices[size];

    memset(finding->marked, 0, tables->n_options * sizeof(*finding->marked));
    if (tables->n_options <= FEW) {
        mark_unbeaten(finding, ldexp(1, 2 * size), ldexp(1, 2 * size + 2));
    } else {
        mark_least_of_all(finding, UINT64_C(2) << 2 * size);
    }
    choices->options = malloc(tables->n_options * sizeof(*choices->options));
    if (choices->options == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t option = 0; option < tables->n_options; option++)
        if (finding->marked[option])
            choices->options[choices->n++] = option;
    return WRING_OK;
}

static enum wring_status find_choices_per_size(const struct finding *finding)
{
    uint32_t n = finding->tables->n_tensors;
    const uint64_t *elems = finding->tables->problem->elems;
    uint64_t least = elems[1] - elems[0];

    for (uint32_t i = 1; i < n; i++)
        if (elems[i + 1] - elems[i] < least)
            least = elems[i + 1] - elems[i];
    for (int size = wring_cost_tables_size(least);
         size <= wring_cost_tables_size(elems[n] - elems[0]); size++) {
        enum wring_status status = find_choices_at_size(finding, size);
        if (status != WRING_OK)
            return status;
    }
    return WRING_OK;
}

/** The option with which a family is named. */
static uint32_t find_head(uint32_t *family, uint32_t option)
{
    while (family[option] != option)
        option = family[option] = family[family[option]];
    return option;
}

static void find_families(const struct finding *finding)
{
    const struct wring_cost_tables *tables = finding->tables;
    uint32_t *family = finding->family;

    for (uint32_t option = 0; option < tables->n_options; option++)
        family[option] = tables->barred == NULL ? 0 : option;
    for (uint32_t i = 0; tables->barred != NULL && i < tables->n_tensors; i++)
        for (uint32_t option = tables->first[i] + 1; option < tables->n_options; option++)
            if (may_take(tables->problem, i, option))
                family[find_head(family, option)] = find_head(family, tables->first[i]);
    for (uint32_t option = 0; option < tables->n_options; option++)
        family[option] = find_head(family, option);
}

/** The families are known. */
static enum kind kind_of(const struct finding *finding, uint32_t option)
{
    const struct wring_cost_tables *tables = finding->tables;
    uint32_t may = 0, might = 0;

    if (tables->barred == NULL)
        return EVERY;
    for (uint32_t i = 0; i < tables->n_tensors; i++) {
        may += wring_cost_tables_allow(tables, i, i + 1, option);
        might += finding->family[tables->first[i]] == finding->family[option];
    }
    return may == 0 ? NO : may == might ? EVERY : SOME;
}

/** After the former. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status tables_find_choices(struct wring_cost_tables *tables)
{
    double least[SETS_MAX];
    uint32_t who[SETS_MAX];
    struct finding finding = {.tables = tables, .least = least, .who = who};
    enum wring_status status = WRING_ERR_NO_MEMORY;

    finding.kinds = malloc(tables->n_options * sizeof(*finding.kinds));
    finding.family = malloc(tables->n_options * sizeof(*finding.family));
    finding.marked = malloc(tables->n_options * sizeof(*finding.marked));
    if (finding.kinds != NULL && finding.family != NULL && finding.marked != NULL) {
        find_families(&finding);
        for (uint32_t option = 0; option < tables->n_options; option++)
            finding.kinds[option] = kind_of(&finding, option);
        status = find_choices_per_size(&finding);
    }
    free(finding.kinds);
    free(finding.family);
    free(finding.marked);
    return status;
}

void wring_cost_tables_narrow(const struct wring_cost_tables *tables, const bool *marked,
                              struct wring_choices *choices, uint32_t *room)
{
    uint32_t n = tables->n_options;

    for (int size = 0; size < WRING_SIZES; size++, room += n, marked += n) {
        choices[size] = (struct wring_choices){.options = room};
        for (uint32_t option = 0; option < n; option++)
            if (marked[option])
                room[choices[size].n++] = option;
        if (choices[size].n == 0 || tables->choices[size].n == 0)
            choices[size] = tables->choices[size];
    }
}

/* ---- rates ---- */

static enum wring_status fill_tables(struct wring_cost_tables *tables,
                                     const struct wring_problem *problem)
{
    for (uint32_t i = 0; i < tables->n_tensors; i++)
        tables->compute_us[i + 1] = tables->compute_us[i] + problem->compute_us[i];
    for (uint32_t i = 0; i < tables->n_options; i++) {
        enum wring_status status =
            option_tables_init(&tables->of_option[i], &problem->options[i], tables->n_lanes);
        if (status != WRING_OK)
            return status;
    }
    if (problem->allowed != NULL) {
        enum wring_status status = tables_find_barred(tables);
        if (status != WRING_OK)
            return status;
    }
    return tables_find_choices(tables);
}

static bool is_problem_sound(const struct wring_problem *problem)
{
    if (problem->n_tensors == 0 || problem->n_options == 0 || problem->n_lanes == 0 ||
        problem->n_lanes > WRING_PLAN_LANES_MAX)
        return false;
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        if (problem->elems[i + 1] <= problem->elems[i])
            return false;
    return true;
}

enum wring_status wring_cost_tables_init(struct wring_cost_tables *tables,
                                         const struct wring_problem *problem)
{
    if (!is_problem_sound(problem))
        return WRING_ERR_INVALID;
    *tables = (struct wring_cost_tables){.problem = problem,
                                         .n_lanes = problem->n_lanes,
                                         .n_tensors = problem->n_tensors,
                                         .n_options = problem->n_options};
    tables->compute_us = calloc((size_t)problem->n_tensors + 1, sizeof(*tables->compute_us));
    tables->of_option = calloc(problem->n_options, sizeof(*tables->of_option));
    tables->choices = calloc(WRING_SIZES, sizeof(*tables->choices));

    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (tables->compute_us != NULL && tables->of_option != NULL && tables->choices != NULL)
        status = fill_tables(tables, problem);
    if (status != WRING_OK)
        wring_cost_tables_finish(tables);
    return status;
}

void wring_cost_tables_finish(struct wring_cost_tables *tables)
{
    for (uint32_t i = 0; tables->of_option != NULL && i < tables->n_options; i++)
        option_tables_finish(&tables->of_option[i]);
    for (uint32_t i = 0; tables->choices != NULL && i < WRING_SIZES; i++)
        free(tables->choices[i].options);
    free(tables->of_option);
    free(tables->choices);
    free(tables->compute_us);
    free(tables->barred);
    free(tables->first);
    *tables = (struct wring_cost_tables){0};
}

void wring_cost_tables_task(const struct wring_cost_tables *tables, uint32_t begin, uint32_t end,
                            uint32_t option, struct wring_task *task)
{
    const struct wring_option_tables *of_option = &tables->of_option[option];
    uint64_t elems = tables->problem->elems[end] - tables->problem->elems[begin];

    wring_cost_table_look_up(&of_option->first, (double)elems, task->took);
    task->more = 0;
    if (of_option->chunk_elems != 0) {
        uint64_t chunks = (elems + of_option->chunk_elems - 1) / of_option->chunk_elems;
        wring_cost_table_look_up(&of_option->each, (double)elems / (double)chunks, task->each);
        for (uint32_t lane = 0; lane < tables->n_lanes; lane++)
            task->took[lane] += task->each[lane];
        task->more = (double)(chunks - 1);
    }
    task->took[0] += tables->compute_us[end] - tables->compute_us[begin];
}

void wring_task_advance_more(uint32_t n_lanes, const struct wring_task *task, double *heads)
{
    double before[WRING_PLAN_LANES_MAX];

    memcpy(before, heads, n_lanes * sizeof(*before));
    for (uint32_t last = 0; last < n_lanes; last++) {
        double sum = 0, longest = 0;
        for (uint32_t first = last + 1; first-- > 0;) {
            sum += task->each[first];
            longest = wring_later(longest, task->each[first]);
            heads[last] =
                wring_later(heads[last], before[first] + sum + (task->more - 1) * longest);
        }
    }
}

void wring_task_retreat_more(uint32_t n_lanes, const struct wring_task *task, double *tails)
{
    double after[WRING_PLAN_LANES_MAX];

    memcpy(after, tails, n_lanes * sizeof(*after));
    for (uint32_t first = 0; first < n_lanes; first++) {
        double sum = 0, longest = 0;
        for (uint32_t last = first; last < n_lanes; last++) {
            sum += task->each[last];
            longest = wring_later(longest, task->each[last]);
            tails[first] =
                wring_later(tails[first], after[last] + sum + (task->more - 1) * longest);
        }
    }
}

/* ---- simd eval ---- */

/** Chunks are seldom enough to go one by one. @param lanes  out, [n_lanes] */
static void step_chunked(uint32_t n_lanes, const struct wring_task *const *tasks, bool backward,
                         const double *from, wring_pair *lanes)
{
    double after[WRING_PLAN_LANES_MAX];

    for (int i = 0; i < 2; i++) {
        if (backward)
            wring_task_retreat(n_lanes, tasks[i], from, after);
        else
            wring_task_advance(n_lanes, tasks[i], from, after);
        for (uint32_t lane = 0; lane < n_lanes; lane++)
            lanes[lane][i] = after[lane];
    }
}

static void step_back(uint32_t n_lanes, const struct wring_task *one,
                      const struct wring_task *other, const double *from, wring_pair *lanes)
{
    wring_pair left = {0};

    for (uint32_t lane = n_lanes; lane-- > 0;)
        lanes[lane] = left = wring_pair_later((wring_pair){from[lane], from[lane]}, left) +
                             (wring_pair){one->took[lane], other->took[lane]};
}

static void step_on(uint32_t n_lanes, const struct wring_task *one, const struct wring_task *other,
                    const double *from, wring_pair *lanes)
{
    wring_pair left = {0};

    for (uint32_t lane = 0; lane < n_lanes; lane++)
        lanes[lane] = left = wring_pair_later((wring_pair){from[lane], from[lane]}, left) +
                             (wring_pair){one->took[lane], other->took[lane]};
}

struct wring_two_times wring_two_tasks_meet(uint32_t n_lanes, const struct wring_task *one,
                                            const struct wring_task *other, bool backward,
                                            const double *from, const double *to, uint32_t stride)
{
    struct wring_two_times times = {{0}, {0}};
    wring_pair lanes[WRING_PLAN_LANES_MAX];

    if (one->more > 0 || other->more > 0)
        step_chunked(n_lanes, (const struct wring_task *const[]){one, other}, backward, from,
                     lanes);
    else if (backward)
        step_back(n_lanes, one, other, from, lanes);
    else
        step_on(n_lanes, one, other, from, lanes);
    for (uint32_t lane = 0; lane < n_lanes; lane++, to += stride) {
        wring_pair time = lanes[lane] + (wring_pair){*to, *to};
        times.most = wring_pair_later(times.most, time);
        times.sum += time;
    }
    return times;
}
