/* SPDX-License-Identifier: Apache-2.0 */
/** The bound against plain exhaustion: never above the optimum, and equal to it where it says so.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/bound/bound_arcs.h"
#include "planner/bound/bound_branch.h"
#include "planner/bound/bound_game.h"
#include "planner/bound/bound_groups.h"
#include "planner/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/exhaust.h"
#include "tests/planner/made_problem.h"

enum {
    TENSORS_MAX = 16
};

static bool may_take(const struct wring_problem *problem, uint32_t begin, uint32_t end,
                     uint32_t option)
{
    uint32_t words = wring_problem_words(problem);

    for (uint32_t i = begin; i < end && problem->allowed != NULL; i++)
        if ((problem->allowed[i * words + option / 64] >> option % 64 & 1) == 0)
            return false;
    return end == begin + 1 || problem->max_group_elems == 0 ||
           problem->elems[end] - problem->elems[begin] <= problem->max_group_elems;
}

/** Every grouping with every option: the least time of all that goes on from these ends. */
static double exhaust(const struct wring_problem *problem, uint32_t begin, const double *ends)
{
    double least = INFINITY;

    if (begin == problem->n_tensors)
        return ends[problem->n_lanes - 1];
    for (uint32_t end = begin + 1; end <= problem->n_tensors; end++)
        for (uint32_t option = 0; option < problem->n_options; option++) {
            double once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX],
                after[WRING_PLAN_LANES_MAX];
            if (!may_take(problem, begin, end, option))
                continue;
            uint64_t chunks = wring_problem_group(problem, begin, end, option, once, each);
            memcpy(after, ends, sizeof(after));
            wring_problem_advance(problem, chunks, once, each, after);
            double time = exhaust(problem, end, after);
            least = time < least ? time : least;
        }
    return least;
}

static double optimum(const struct wring_problem *problem)
{
    double ends[WRING_PLAN_LANES_MAX] = {0};
    return exhaust(problem, 0, ends);
}

/** A poor start: each tensor alone, with the first option that it may take. */
static void alone(const struct wring_problem *problem, struct wring_grouping *grouping)
{
    grouping->n = problem->n_tensors;
    for (uint32_t i = 0; i < grouping->n; i++) {
        uint32_t option = 0;
        while (!may_take(problem, i, i + 1, option))
            option++;
        grouping->end[i] = i + 1;
        grouping->option[i] = option;
    }
}

static double alone_us(const struct wring_problem *problem)
{
    uint32_t end[TENSORS_MAX], option[TENSORS_MAX];
    struct wring_grouping grouping = {.end = end, .option = option};

    alone(problem, &grouping);
    return wring_problem_time(problem, &grouping);
}

/** @param seed  tells all of a problem */
static void make(uint32_t seed, uint32_t tensors_max, struct wring_made_problem *made)
{
    struct wring_made_params params = {.n_tensors = 1 + seed % tensors_max,
                                       .n_lanes = 1 + seed / 3 % WRING_PLAN_LANES_MAX,
                                       .n_options = 1 + seed / 5 % 4,
                                       .seed = seed,
                                       .chunked = seed % 2 != 0,
                                       .restricted = seed / 2 % 3 == 0};

    wring_made_random(&params, made);
    if (seed % 7 == 0)
        made->problem.max_group_elems = 50000 + seed % 100 * 1000;
}

static void check_exact(const struct wring_problem *problem, double want, uint32_t seed)
{
    uint32_t end[TENSORS_MAX], option[TENSORS_MAX];
    struct wring_grouping grouping = {.end = end, .option = option};
    struct wring_bound_params params = {.budget_ns = 0};
    struct wring_bound bound;

    alone(problem, &grouping);
    double time = wring_problem_time(problem, &grouping);
    enum wring_status status = wring_bound_run(problem, &params, &grouping, &time, &bound);

    REQUIRE(status == WRING_OK, "seed %u: %d", seed, (int)status);
    CHECK(bound.time_us <= want * (1 + 1e-12), "seed %u: bound %.9g above %.9g", seed,
          bound.time_us, want);
    CHECK(bound.exact, "seed %u: not exact: %.9g of %.9g", seed, bound.time_us, want);
    CHECK(fabs(time - want) <= 1e-9 * want, "seed %u: %.12g, not %.12g", seed, time, want);
    CHECK(wring_problem_time(problem, &grouping) == time, "seed %u: not the grouping", seed);
}

static void equals_exhaustion(void)
{
    for (uint32_t seed = 1; seed <= 600; seed += WRING_TEST_STRIDE) {
        struct wring_made_problem made;
        make(seed, 6, &made);
        check_exact(&made.problem, optimum(&made.problem), seed);
        wring_made_finish(&made);
    }
}

/** Branching alone, with next to no room: its bound holds all the same.
 *  @param tight  in and out: runs whose bound is the optimum, of 8 more */
static void check_narrow(const struct wring_problem *problem, double want, uint32_t seed,
                         uint32_t *tight)
{
    uint32_t end[TENSORS_MAX], option[TENSORS_MAX];
    struct wring_grouping found = {.end = end, .option = option};
    struct wring_group_table table;
    struct wring_arc_set arcs;
    struct wring_game game;
    struct wring_branch branch;

    alone(problem, &found);
    double time = wring_problem_time(problem, &found), bound;
    REQUIRE(wring_group_table_init(&table, problem) == WRING_OK &&
                wring_arc_set_init(&arcs, &table, 1000) == WRING_OK &&
                wring_game_init(&game, &arcs) == WRING_OK &&
                wring_branch_init(&branch, &table, &game, 1 + 6 * (problem->n_tensors + 1)) ==
                    WRING_OK,
            "seed %u: no memory", seed);
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        wring_arc_set_add(&arcs, i, i + 1, option[i]);
    wring_arc_set_settle(&arcs);
    wring_game_start(&game);
    wring_game_step(&game);
    wring_game_rest(&game);
    wring_masses_set(0, problem->n_tensors, &game.best, &table.masses);
    wring_group_table_price(&table, 0, 0);
    wring_branch_learn(&branch, &game.best);
    for (uint32_t width = 1; width <= 8; width++) {
        bool any = wring_branch_run(&branch, time * 2, width, 0, &found, &bound);
        CHECK(bound <= want * (1 + 1e-12), "seed %u, width %u: %.12g above %.12g", seed, width,
              bound, want);
        CHECK(!any || wring_problem_time(problem, &found) >= want * (1 - 1e-12), "seed %u", seed);
        *tight += bound >= want * (1 - 1e-9);
    }
    wring_branch_finish(&branch);
    wring_game_finish(&game);
    wring_arc_set_finish(&arcs);
    wring_group_table_finish(&table);
}

static void narrow_branching(void)
{
    uint32_t tight = 0, runs = 0;

    for (uint32_t seed = 1; seed <= 300; seed += WRING_TEST_STRIDE, runs += 8) {
        struct wring_made_problem made;
        make(seed, 6, &made);
        check_narrow(&made.problem, optimum(&made.problem), seed, &tight);
        wring_made_finish(&made);
    }
    /* labels that went one by one, instead of being merged, would leave it at 84 of 100 */
    CHECK(tight >= 0.9 * runs, "%u of %u bounds are the optimum", tight, runs);
}

static double some(uint32_t *random)
{
    return (double)(wring_test_random(random) >> 8) / 16777216.0;
}

/** A flow that splits at random. */
static void random_flow(const struct wring_problem *problem, uint32_t *random,
                        const struct wring_edges *flow)
{
    wring_edges_zero(problem->n_tensors, flow);
    flow->along[0] = 1;
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        for (uint32_t lane = 0; lane < problem->n_lanes; lane++) {
            size_t at = (size_t)i * WRING_PLAN_LANES_MAX + lane;
            double share = wring_test_random(random) % 3 == 0 ? 0 : some(random);
            share = lane + 1 == problem->n_lanes ? 0 : i + 1 == problem->n_tensors ? 1 : share;
            double here = flow->down[at] + flow->along[at];
            if (lane + 1 < problem->n_lanes)
                flow->down[at + 1] = share * here;
            if (i + 1 < problem->n_tensors)
                flow->along[at + WRING_PLAN_LANES_MAX] = here - share * here;
        }
}

/** Whatever the flow, what the table makes of it is no more than the optimum. */
static void any_flow_bounds(void)
{
    double down[TENSORS_MAX * WRING_PLAN_LANES_MAX], along[TENSORS_MAX * WRING_PLAN_LANES_MAX];
    struct wring_edges flow = {.down = down, .along = along};
    uint32_t random = 5;

    for (uint32_t seed = 1; seed <= 300; seed += WRING_TEST_STRIDE) {
        struct wring_made_problem made;
        struct wring_group_table table;
        make(seed, 5, &made);
        double want = optimum(&made.problem), bound;
        REQUIRE(wring_group_table_init(&table, &made.problem) == WRING_OK, "seed %u", seed);
        for (int round = 0; round < 20; round++) {
            random_flow(&made.problem, &random, &flow);
            wring_masses_set(0, made.problem.n_tensors, &flow, &table.masses);
            wring_group_table_price(&table, 0, 0);
            bound = table.rest[0];
            CHECK(bound <= want * (1 + 1e-12), "seed %u: %.12g above %.12g", seed, bound, want);
        }
        wring_group_table_finish(&table);
        wring_made_finish(&made);
    }
}

/** Tensors like a network's, on a fabric like a cluster's. */
static void make_fabric(uint32_t seed, uint32_t n, struct wring_made_problem *made)
{
    uint32_t random = seed * 2654435761u + 1;
    uint64_t elems[TENSORS_MAX];
    double ready[TENSORS_MAX], now = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t most = wring_test_random(&random) % 3 == 0 ? 20000000 : 200000;
        elems[i] = 1 + wring_test_random(&random) % most;
        now += 1 + wring_test_random(&random) % 9000;
        ready[i] = now;
    }
    wring_made_fabric(n, elems, ready, seed % 2 == 0, seed % 3 == 0 ? 2.5 : 1, made);
}

static void fabrics(void)
{
    for (uint32_t seed = 1; seed <= 100; seed += WRING_TEST_STRIDE) {
        struct wring_made_problem made;
        make_fabric(seed, 1 + seed % 5, &made);
        double all = optimum(&made.problem),
               front = wring_exhaust_prefixes(&made.problem, alone_us(&made.problem));
        CHECK(fabs(all - front) <= 1e-12 * all, "seed %u: %.12g, not %.12g", seed, front, all);
        check_exact(&made.problem, all, seed);
        wring_made_finish(&made);
    }
}

static void fabrics_of_twelve(void)
{
    for (uint32_t seed = 1; seed <= 60; seed += WRING_TEST_STRIDE) {
        struct wring_made_problem made;
        make_fabric(seed, 6 + seed % 7, &made);
        check_exact(&made.problem, wring_exhaust_prefixes(&made.problem, alone_us(&made.problem)),
                    seed);
        wring_made_finish(&made);
    }
}

enum {
    MANY = 300
};

static void run_many(struct wring_bound_params limits, double *time_us, struct wring_bound *bound)
{
    static uint32_t end[MANY], option[MANY];
    struct wring_made_params params = {
        .n_tensors = MANY, .n_lanes = 6, .n_options = 12, .seed = 9, .chunked = true};
    struct wring_grouping grouping = {.end = end, .option = option};
    struct wring_made_problem made;

    wring_made_random(&params, &made);
    alone(&made.problem, &grouping);
    *time_us = wring_problem_time(&made.problem, &grouping);
    CHECK(wring_bound_run(&made.problem, &limits, &grouping, time_us, bound) == WRING_OK, "failed");
    CHECK(wring_problem_time(&made.problem, &grouping) == *time_us, "not the grouping's time");
    wring_made_finish(&made);
}

static void keeps_to_its_budget(void)
{
    struct wring_bound bound;
    double time_us;

    run_many((struct wring_bound_params){.budget_ns = 20000000}, &time_us,
             &bound); /* without one it takes longer than that */
    CHECK(bound.took_ns < UINT64_C(20000000000), "took %.1f ms", (double)bound.took_ns / 1e6);
    CHECK(bound.time_us > 0 && bound.time_us <= time_us, "%g of %g", bound.time_us, time_us);
}

/** An effort is the same on every machine, and so are plan and bound; more of it proves no less. */
static void the_same_for_the_same_effort(void)
{
    struct wring_bound bounds[3];
    double time_us[3];

    for (int i = 0; i < 3; i++)
        run_many((struct wring_bound_params){.effort = i < 2 ? 20000000 : 300000000}, &time_us[i],
                 &bounds[i]);
    CHECK(bounds[0].time_us == bounds[1].time_us && bounds[0].nodes == bounds[1].nodes &&
              time_us[0] == time_us[1],
          "%.17g and %.17g, plans %.17g and %.17g", bounds[0].time_us, bounds[1].time_us,
          time_us[0], time_us[1]);
    CHECK(!bounds[1].exact && bounds[2].time_us > bounds[1].time_us && time_us[2] <= time_us[1],
          "more proves %g and not %g, and finds %g, not %g", bounds[2].time_us, bounds[1].time_us,
          time_us[2], time_us[1]);
}

/** Of no more than one tensor, of nothing that costs, and of more groups than a table holds. */
static void odd_problems(void)
{
    static uint32_t end[5000], option[5000];
    static double compute_us[5000];
    static uint64_t elems[5001];
    struct wring_option_cost nothing = {0};
    struct wring_grouping grouping = {.end = end, .option = option};
    struct wring_bound_params limits = {.budget_ns = 1000000000};
    static const uint32_t tensors[] = {1, 2, 100, 5000};

    for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++) {
        struct wring_problem problem = {.n_tensors = tensors[i],
                                        .n_lanes = 1 + (uint32_t)i * 2,
                                        .n_options = 1,
                                        .compute_us = compute_us,
                                        .elems = elems,
                                        .options = &nothing};
        struct wring_bound bound;
        for (int round = 0; round < 2; round++) {
            for (uint32_t t = 0; t < tensors[i]; t++) {
                compute_us[t] = round;
                elems[t + 1] = elems[t] + 1;
            }
            alone(&problem, &grouping);
            double time = wring_problem_time(&problem, &grouping);
            REQUIRE(wring_bound_run(&problem, &limits, &grouping, &time, &bound) == WRING_OK,
                    "%u tensors", tensors[i]);
            CHECK(bound.exact && bound.time_us <= time && bound.time_us >= time * (1 - 1e-9),
                  "%u tensors: %g of %g", tensors[i], bound.time_us, time);
        }
    }
}

static void no_option_allowed(void)
{
    struct wring_made_params params = {
        .n_tensors = 3, .n_lanes = 2, .n_options = 2, .seed = 1, .restricted = true};
    uint32_t end[3], option[3];
    struct wring_grouping grouping = {.end = end, .option = option};
    struct wring_bound_params limits = {.budget_ns = 0};
    struct wring_made_problem made;
    struct wring_bound bound;

    wring_made_random(&params, &made);
    alone(&made.problem, &grouping);
    double time = wring_problem_time(&made.problem, &grouping);
    made.allowed[1] = 0;
    CHECK(wring_bound_run(&made.problem, &limits, &grouping, &time, &bound) == WRING_ERR_INVALID,
          "a tensor that may travel no way got a bound");
    wring_made_finish(&made);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"equals_exhaustion", equals_exhaustion},
        {"any_flow_bounds", any_flow_bounds},
        {"narrow_branching", narrow_branching},
        {"fabrics", fabrics},
        {"fabrics_of_twelve", fabrics_of_twelve},
        {"keeps_to_its_budget", keeps_to_its_budget},
        {"the_same_for_the_same_effort", the_same_for_the_same_effort},
        {"odd_problems", odd_problems},
        {"no_option_allowed", no_option_allowed},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
