/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/search.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/search/beam.h"
#include "planner/core/search/cost_tables.h"
#include "planner/core/search/search_state.h"

/* Breakpoints: the places among tensors where a beam lets groups end. */

struct wring_breakpoints {
    const struct wring_cost_tables *tables; /* borrowed */
    uint32_t n;                             /* breakpoints, without the one at 0 */
    uint32_t most; /* so many are chosen, and as many more as constraints need */
    uint32_t *at;  /* [n + 1] 0, … rising …, n_tensors; from one to the next can be one group */
    uint32_t *rank; /* [n_tensors − 1] inner places, those first that promise most */
    bool *taken;    /* [n_tensors + 1] */
};

struct border {
    uint32_t at;
    double weight;
};

static int by_weight(const void *a, const void *b)
{
    const struct border *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

/**
 * A cut pays where much can leave early: where the tensor before it is large and the one after it
 * is long in coming. Small shares of the whole keep those apart that have only one of the two.
 */
static enum wring_status rank_borders(struct wring_breakpoints *breakpoints)
{
    const struct wring_cost_tables *tables = breakpoints->tables;
    uint32_t n = tables->n_tensors;
    const struct wring_problem *problem = tables->problem;
    struct border *borders = malloc(n * sizeof(*borders));

    if (borders == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 1; i < n; i++) {
        double elems = (double)(problem->elems[i] - problem->elems[i - 1]);
        borders[i - 1].at = i;
        borders[i - 1].weight = (elems / (double)problem->elems[n] + 1e-9) *
                                (problem->compute_us[i] / (tables->compute_us[n] + 1e-9) + 1e-9);
    }
    qsort(borders, n - 1, sizeof(*borders), by_weight);
    for (uint32_t i = 0; i + 1 < n; i++)
        breakpoints->rank[i] = borders[i].at;
    free(borders);
    return WRING_OK;
}

static void breakpoints_finish(struct wring_breakpoints *breakpoints);

/** Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status breakpoints_init(struct wring_breakpoints *breakpoints,
                                          const struct wring_cost_tables *tables, uint32_t most)
{
    size_t n = tables->n_tensors;

    *breakpoints =
        (struct wring_breakpoints){.tables = tables, .most = most < n ? most : (uint32_t)n};
    breakpoints->at = malloc((n + 1) * sizeof(*breakpoints->at));
    breakpoints->rank = malloc(n * sizeof(*breakpoints->rank));
    breakpoints->taken = malloc((n + 1) * sizeof(*breakpoints->taken));

    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (breakpoints->at != NULL && breakpoints->rank != NULL && breakpoints->taken != NULL)
        status = rank_borders(breakpoints);
    if (status != WRING_OK)
        breakpoints_finish(breakpoints);
    return status;
}

static void breakpoints_finish(struct wring_breakpoints *breakpoints)
{
    free(breakpoints->at);
    free(breakpoints->rank);
    free(breakpoints->taken);
    *breakpoints = (struct wring_breakpoints){0};
}

static void begin_choice(struct wring_breakpoints *breakpoints)
{
    uint32_t n = breakpoints->tables->n_tensors;

    memset(breakpoints->taken, 0, (n + 1) * sizeof(*breakpoints->taken));
    breakpoints->taken[0] = breakpoints->taken[n] = true;
    breakpoints->n = 1;
}

static void take_breakpoint(struct wring_breakpoints *breakpoints, uint32_t at)
{
    if (breakpoints->n >= breakpoints->most || breakpoints->taken[at])
        return;
    breakpoints->taken[at] = true;
    breakpoints->n++;
}

/** More stops where two are farther apart than one group may be. */
static void add_needed_breakpoints(struct wring_breakpoints *breakpoints)
{
    const struct wring_cost_tables *tables = breakpoints->tables;
    uint32_t last = 0;

    for (uint32_t i = 1; i < tables->n_tensors; i++) {
        if (!wring_cost_tables_fit(tables, last, i + 1) ||
            !wring_cost_tables_allow_any(tables, last, i + 1))
            breakpoints->taken[i] = true;
        if (breakpoints->taken[i])
            last = i;
    }
}

/** Fill up with the most promising breakpoints, and list them all. */
static void end_choice(struct wring_breakpoints *breakpoints)
{
    uint32_t n = breakpoints->tables->n_tensors;

    for (uint32_t i = 0; i + 1 < n && breakpoints->n < breakpoints->most; i++)
        take_breakpoint(breakpoints, breakpoints->rank[i]);
    add_needed_breakpoints(breakpoints);
    breakpoints->n = 0;
    breakpoints->at[0] = 0;
    for (uint32_t i = 1; i <= n; i++)
        if (breakpoints->taken[i])
            breakpoints->at[++breakpoints->n] = i;
}

/** The most promising places. */
static void breakpoints_choose(struct wring_breakpoints *breakpoints)
{
    uint32_t n = breakpoints->tables->n_tensors;

    begin_choice(breakpoints);
    for (uint32_t i = 1; i < 4 && i < n; i++) /* whatever comes last has to be small */
        take_breakpoint(breakpoints, n - i);
    end_choice(breakpoints);
}

/** Where the groups of a grouping end, places up to `by` tensors from there, then the promising. */
static void breakpoints_choose_near(struct wring_breakpoints *breakpoints,
                                    const struct wring_grouping *grouping, uint32_t by)
{
    begin_choice(breakpoints);
    for (uint32_t i = 0; i + 1 < grouping->n; i++)
        take_breakpoint(breakpoints, grouping->end[i]);
    for (uint32_t distance = 1; distance <= by; distance++)
        for (uint32_t i = grouping->n; i-- > 0;) {
            if (grouping->end[i] > distance)
                take_breakpoint(breakpoints, grouping->end[i] - distance);
            if (grouping->end[i] + distance < breakpoints->tables->n_tensors)
                take_breakpoint(breakpoints, grouping->end[i] + distance);
        }
    end_choice(breakpoints);
}

/* ---- best ---- */

/*
 * The search proper: a beam over promising breakpoints, local search, and then the same again over
 * the breakpoints around the best grouping, as long as that gains anything. Of many options the
 * later beams try only those by which labels of the first one came along, and those that did best
 * for a group of the best grouping when all were tried there. How far all this goes is counted in
 * evaluations, never in time, so that an answer depends on the problem alone.
 */

enum {
    BREAKPOINTS_MIN = 24,   /* where tensors may be parted, if there are more */
    BREAKPOINTS_MAX = 4096, /* with those that constraints ask for; beyond, no beam */
    NEAR = 2,      /* tensors around a group's end that are breakpoints too, the second time */
    REACH = 12,    /* see wring_beam_params */
    WIDTH_MIN = 8, /* labels of a beam */
};

/** How far a search goes. */
struct reach {
    uint32_t breakpoints; /* where tensors may be parted, of few options */
    uint32_t width;       /* labels of a beam, at most */
    uint32_t passes;      /* of one beam */
    uint32_t cycles;      /* of beam and local search */
    uint32_t marked;      /* options of later beams, of many */
    uint32_t turns;       /* of local search, in a cycle */
    uint64_t pass;        /* evaluations of one pass, about, where that leaves any freedom */
    uint64_t whole;       /* evaluations after which nothing new is begun */
};

/* As far as takes milliseconds, and a tenth of a second. */
static const struct reach near = {64, 64, 6, 3, 8, 2, 80000, 110000};
static const struct reach far = {400, 4096, 20, 30, 24, 20, 1400000, 0};

/* Of the time: what passes and cycles must gain for more of them. */
static const double worth_another = 1e-5;

/* ---- starts ---- */

/* Starting points of a search. */

enum {
    EVEN = 8,     /* groups of a plain start */
    SMALL = 1000, /* tensors times options up to which each option is one tensor by tensor */
    GREEDY = 64,  /* tensors up to which Espresso's answer is one */
};

/** Option by option, a few groups of as many tensors each. @return the best option so */
static uint32_t offer_even(struct wring_search_state *search)
{
    uint32_t n = search->tables->n_tensors, groups = n < EVEN ? n : EVEN, even[EVEN], best = 0;

    for (uint32_t i = 0; i < groups; i++)
        even[i] = (uint32_t)((uint64_t)n * (i + 1) / groups);
    for (uint32_t option = 0; option < search->tables->n_options; option++) {
        double before = search->time_us;
        wring_search_uniform(search, even, groups, option, &search->trial);
        wring_search_offer(search, &search->trial);
        best = search->time_us < before ? option : best;
    }
    return best;
}

static void offer_alone(struct wring_search_state *search, uint32_t option)
{
    wring_search_alone(search, option, &search->trial);
    wring_search_offer(search, &search->trial);
}

/**
 * Offer starting points: nothing coded; each option alike in a few groups; MergeComp's partition
 * with the best of these over the breakpoints; in small problems each option tensor by tensor, and
 * Espresso's answer where there are few tensors. Errors: WRING_ERR_NO_MEMORY.
 */
static enum wring_status offer_starts(struct wring_search_state *search,
                                      const struct wring_breakpoints *breakpoints)
{
    const struct wring_cost_tables *tables = search->tables;
    uint32_t best = offer_even(search);
    enum wring_status status = WRING_OK;

    offer_alone(search, search->params->uncompressed);
    offer_alone(search, best);
    for (uint32_t option = 0; option < tables->n_options; option++)
        if ((uint64_t)tables->n_tensors * tables->n_options <= SMALL)
            offer_alone(search, option);
    if (tables->n_tensors <= GREEDY)
        status = wring_search_espresso(search);
    if (status == WRING_OK)
        status = wring_search_mergecomp(search, best, breakpoints->at + 1, breakpoints->n);
    return status;
}

/**
 * No grouping takes less: all computing, then the last tensor through lanes that are free. 0 where
 * options cut groups into chunks.
 */
static double find_floor(const struct wring_search_state *search)
{
    const struct wring_cost_tables *tables = search->tables;
    uint32_t last = tables->n_tensors - 1;
    double least = DBL_MAX;
    struct wring_task task;

    for (uint32_t option = 0; option < tables->n_options; option++) {
        if (!wring_cost_tables_allow(tables, last, last + 1, option))
            continue;
        if (tables->problem->options[option].chunk_elems != 0)
            return 0; /* of a larger group chunks may be smaller */
        wring_cost_tables_task(tables, last, last + 1, option, &task);
        double us = 0;
        for (uint32_t lane = 0; lane < tables->n_lanes; lane++)
            us += task.took[lane];
        least = us < least ? us : least;
    }
    return tables->compute_us[last] + least;
}

/* ---- cycles ---- */

/** What the cycles of a search have beside it. */
struct cycles {
    struct wring_search_state *search;
    struct reach reach;
    struct wring_breakpoints breakpoints;
    double floor_us;
    double tried_us; /* the grouping for whose groups every option was tried */
    uint32_t tried_groups;
    uint32_t *used; /* [n_options] labels of the last pass */
    bool *marked;   /* [WRING_SIZES × n_options] options of later beams */
    uint32_t *room; /* [WRING_SIZES × n_options] of choices */
    struct wring_choices choices[WRING_SIZES];
};

/** Moves of a pass from breakpoint to breakpoint. */
static double count_moves(uint32_t n_breakpoints)
{
    uint64_t moves = 0;

    for (uint32_t distance = 1; distance <= n_breakpoints;
         distance += distance < REACH ? 1 : 1 + distance / REACH)
        moves += n_breakpoints + 1 - distance;
    return (double)moves;
}

/** Choices at a size, on average. */
static double mean_choices(const struct wring_search_state *search)
{
    uint32_t choices = 0, sizes = 0;

    for (int i = 0; i < WRING_SIZES; i++) {
        choices += search->choices[i].n;
        sizes += search->tables->choices[i].n > 0;
    }
    return (double)choices / sizes;
}

/** As many breakpoints as the narrowest beam may see in a pass. */
static uint32_t choose_breakpoints(const struct wring_search_state *search,
                                   const struct reach *reach)
{
    uint32_t breakpoints = reach->breakpoints;

    while (breakpoints > BREAKPOINTS_MIN &&
           count_moves(breakpoints) * mean_choices(search) * WIDTH_MIN > (double)reach->pass)
        breakpoints -= WIDTH_MIN;
    return breakpoints;
}

/** As wide as a pass may be. Each label costs the more, the more of them there are. */
static uint32_t choose_width(const struct cycles *cycles)
{
    double moves = count_moves(cycles->breakpoints.n) * mean_choices(cycles->search);
    double labels = (double)cycles->reach.pass / moves;
    uint32_t width = WIDTH_MIN;

    while (width < cycles->reach.width && 2 * width * (1 + width / 16.0) <= labels)
        width *= 2;
    return width;
}

static bool is_at_floor(const struct cycles *cycles)
{
    return cycles->search->time_us <= cycles->floor_us * (1 + 1e-12);
}

/** Passes to and fro, as long as they gain anything. */
static void run_passes(struct cycles *cycles, struct wring_beam *beam)
{
    struct wring_search_state *search = cycles->search;
    double before = search->time_us;

    for (uint32_t i = 0; i < cycles->reach.passes && wring_beam_pass(beam, &search->trial); i++) {
        wring_search_offer(search, &search->trial);
        if (wring_beam_complete(beam) || is_at_floor(cycles))
            break;
        if (i % 2 == 0)
            continue;
        if (search->time_us > before * (1 - worth_another) ||
            search->evaluations + wring_beam_evaluations(beam) > cycles->reach.whole)
            break;
        before = search->time_us;
    }
    search->evaluations += wring_beam_evaluations(beam);
    wring_beam_count_options(beam, cycles->used);
}

/** @param guide  see wring_beam_create() */
static enum wring_status run_beam(struct cycles *cycles, const struct wring_grouping *guide)
{
    const struct wring_search_state *search = cycles->search;
    struct wring_beam_params params = {.tables = search->tables,
                                       .choices = search->choices,
                                       .breakpoints = cycles->breakpoints.at,
                                       .n_breakpoints = cycles->breakpoints.n,
                                       .width = choose_width(cycles),
                                       .reach = REACH,
                                       .deadline_ns = search->deadline_ns};
    struct wring_beam *beam;

    if (cycles->breakpoints.n > BREAKPOINTS_MAX)
        return WRING_OK;
    enum wring_status status = wring_beam_create(&params, guide, &beam);
    if (status != WRING_OK)
        return status;
    run_passes(cycles, beam);
    wring_beam_destroy(beam);
    return WRING_OK;
}

static void mark_option(struct cycles *cycles, uint32_t option)
{
    const struct wring_cost_tables *tables = cycles->search->tables;

    for (size_t size = 0; size < WRING_SIZES; size++)
        for (uint32_t i = 0; i < tables->choices[size].n; i++)
            if (tables->choices[size].options[i] == option)
                cycles->marked[size * tables->n_options + option] = true;
}

/** From now on only options that are marked. */
static void narrow_choices(struct cycles *cycles)
{
    struct wring_search_state *search = cycles->search;

    if (search->tables->n_options <= cycles->reach.marked)
        return;
    wring_cost_tables_narrow(search->tables, cycles->marked, cycles->choices, cycles->room);
    search->choices = cycles->choices;
}

/** Options of the best grouping, and those that labels of the beam came by most often. */
static void mark_used(struct cycles *cycles)
{
    struct wring_search_state *search = cycles->search;
    uint32_t n = search->tables->n_options;

    for (uint32_t i = 0; i < search->best.n; i++)
        mark_option(cycles, search->best.option[i]);
    for (uint32_t i = 0; i < cycles->reach.marked; i++) {
        uint32_t most = 0;
        for (uint32_t option = 1; option < n; option++)
            if (cycles->used[option] > cycles->used[most])
                most = option;
        if (cycles->used[most] > 0)
            mark_option(cycles, most);
        cycles->used[most] = 0;
    }
}

/** Every option for each group of the best grouping, if that is not the one which was tried last.
 */
static enum wring_status try_every_option(struct cycles *cycles)
{
    struct wring_search_state *search = cycles->search;

    if (search->tables->n_options <= cycles->reach.marked || is_at_floor(cycles) ||
        (search->time_us == cycles->tried_us && search->best.n == cycles->tried_groups))
        return WRING_OK;
    cycles->tried_us = search->time_us;
    cycles->tried_groups = search->best.n;
    return wring_search_every_option(search, cycles->marked);
}

/** Local search, with few options and with all of them in turn. */
static enum wring_status improve_best(struct cycles *cycles)
{
    struct wring_search_state *search = cycles->search;
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < cycles->reach.turns && status == WRING_OK && !is_at_floor(cycles);
         i++) {
        double before = search->time_us;
        narrow_choices(cycles);
        status = wring_local_search(search);
        if (status == WRING_OK)
            status = try_every_option(cycles);
        if (search->time_us > before * (1 - worth_another))
            break;
    }
    narrow_choices(cycles);
    return status;
}

static enum wring_status first_cycle(struct cycles *cycles)
{
    breakpoints_choose(&cycles->breakpoints);
    enum wring_status status = offer_starts(cycles->search, &cycles->breakpoints);
    if (status == WRING_OK)
        status = run_beam(cycles, NULL);
    if (status != WRING_OK)
        return status;
    mark_used(cycles);
    return improve_best(cycles);
}

static enum wring_status next_cycle(struct cycles *cycles)
{
    cycles->breakpoints.most = cycles->reach.breakpoints;
    breakpoints_choose_near(&cycles->breakpoints, &cycles->search->best, NEAR);
    enum wring_status status = run_beam(cycles, &cycles->search->best);
    return status == WRING_OK ? improve_best(cycles) : status;
}

static enum wring_status run_cycles(struct cycles *cycles)
{
    struct wring_search_state *search = cycles->search;
    enum wring_status status = first_cycle(cycles);

    for (uint32_t i = 1; i < cycles->reach.cycles && status == WRING_OK; i++) {
        double before = search->time_us;
        if (is_at_floor(cycles) || search->evaluations > cycles->reach.whole ||
            wring_search_late(search))
            break;
        status = next_cycle(cycles);
        if (search->time_us > before * (1 - worth_another))
            break;
    }
    return status;
}

/** All that is known here. */
static enum wring_status search_best(struct wring_search_state *search)
{
    size_t n = search->tables->n_options;
    struct cycles cycles = {.search = search, .reach = near, .floor_us = find_floor(search)};

    if (search->params->evaluations > 0) {
        cycles.reach = far;
        cycles.reach.whole = search->params->evaluations;
    }
    enum wring_status status = breakpoints_init(&cycles.breakpoints, search->tables,
                                                choose_breakpoints(search, &cycles.reach));
    if (status != WRING_OK)
        return status;
    cycles.used = calloc(n, sizeof(*cycles.used));
    cycles.marked = calloc(WRING_SIZES * n, sizeof(*cycles.marked));
    cycles.room = malloc(WRING_SIZES * n * sizeof(*cycles.room));
    status = WRING_ERR_NO_MEMORY;
    if (cycles.used != NULL && cycles.marked != NULL && cycles.room != NULL)
        status = run_cycles(&cycles);
    if (status == WRING_OK)
        status = wring_local_search_merge(search);
    search->choices = search->tables->choices;
    free(cycles.used);
    free(cycles.marked);
    free(cycles.room);
    breakpoints_finish(&cycles.breakpoints);
    return status;
}

/* ---- search ---- */

/** Each option in turn, cuts anywhere. */
static enum wring_status search_mergecomp(struct wring_search_state *search)
{
    uint32_t n = search->tables->n_tensors, *breakpoints = malloc(n * sizeof(*breakpoints));
    enum wring_status status = WRING_OK;

    if (breakpoints == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        breakpoints[i] = i + 1;
    for (uint32_t i = 0; i < search->tables->n_options && status == WRING_OK; i++)
        status = wring_search_mergecomp(search, i, breakpoints, n);
    free(breakpoints);
    return status;
}

static enum wring_status search_by_method(struct wring_search_state *search)
{
    switch (search->params->method) {
    case WRING_SEARCH_BEST:
        return search_best(search);
    case WRING_SEARCH_ESPRESSO:
        return wring_search_espresso(search);
    case WRING_SEARCH_MERGECOMP:
        return search_mergecomp(search);
    }
    return WRING_ERR_INVALID;
}

static bool are_params_sound(const struct wring_problem *problem,
                             const struct wring_search_params *params)
{
    if (params->uncompressed >= problem->n_options)
        return false;
    for (uint32_t i = 0; params->offload != NULL && i < problem->n_options; i++)
        if (params->offload[i] > problem->n_options)
            return false;
    return true;
}

static enum wring_status run_search(struct wring_search_state *state, struct wring_found *out)
{
    enum wring_status status = wring_grouping_init(&state->best, state->tables->n_tensors);
    if (status != WRING_OK)
        return status;
    status = wring_grouping_init(&state->trial, state->tables->n_tensors);
    if (status != WRING_OK)
        goto finish_best;

    status = search_by_method(state);
    wring_grouping_finish(&state->trial);
    if (status != WRING_OK)
        goto finish_best;
    *out = (struct wring_found){.grouping = state->best,
                                .time_us = wring_problem_time(state->tables->problem, &state->best),
                                .evaluations = state->evaluations};
    return WRING_OK;

finish_best:
    wring_grouping_finish(&state->best);
    return status;
}

enum wring_status wring_search_run(const struct wring_problem *problem,
                                   const struct wring_search_params *params,
                                   struct wring_found *out)
{
    uint64_t began_ns = wring_now_ns();
    struct wring_cost_tables tables;

    if (!are_params_sound(problem, params))
        return WRING_ERR_INVALID;
    enum wring_status status = wring_cost_tables_init(&tables, problem);
    if (status != WRING_OK)
        return status;
    struct wring_search_state state = {
        .tables = &tables,
        .params = params,
        .choices = tables.choices,
        .deadline_ns = params->budget_ns == 0 ? WRING_NEVER : wring_deadline_in(params->budget_ns),
        .time_us = DBL_MAX};
    status = run_search(&state, out);
    wring_cost_tables_finish(&tables);
    if (status == WRING_OK)
        out->took_ns = wring_now_ns() - began_ns;
    return status;
}

enum wring_status wring_search_merge(const struct wring_problem *problem,
                                     struct wring_grouping *grouping, double *time_us)
{
    struct wring_search_params params = {.method = WRING_SEARCH_BEST};
    struct wring_cost_tables tables;

    enum wring_status status = wring_cost_tables_init(&tables, problem);
    if (status != WRING_OK)
        return status;
    struct wring_search_state state = {.tables = &tables,
                                       .params = &params,
                                       .choices = tables.choices,
                                       .deadline_ns = WRING_NEVER,
                                       .best = *grouping,
                                       .time_us = *time_us};
    status = wring_grouping_init(&state.trial, problem->n_tensors);
    if (status == WRING_OK)
        status = wring_local_search_merge(&state);
    wring_grouping_finish(&state.trial);
    wring_cost_tables_finish(&tables);
    if (status != WRING_OK)
        return status;
    grouping->n = state.best.n; /* its groups were changed in place */
    *time_us = wring_problem_time(problem, grouping);
    return WRING_OK;
}
