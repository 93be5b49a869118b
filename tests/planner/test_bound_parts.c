/* SPDX-License-Identifier: Apache-2.0 */
/** What the bound is made of, each alone: none of it says more than is so. */
#include <math.h>
#include <string.h>

#include "planner/tool/bound/branch.h"
#include "planner/tool/bound/column_generation.h"
#include "planner/tool/bound/groups.h"
#include "tests/lib/test.h"
#include "tests/planner/exhaust.h"
#include "tests/planner/made_problem.h"

enum {
    TENSORS_MAX = 16,
    ARCS = 1000,
};

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
        wring_made_small(seed, 5, &made);
        double want = wring_exhaust(&made.problem), bound;
        REQUIRE(wring_group_table_init(&table, &made.problem) == WRING_OK, "seed %u", seed);
        for (int turn = 0; turn < 20; turn++) {
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

struct parts {
    struct wring_group_table table;
    struct wring_columns columns;
    struct wring_column_generation generation;
    struct wring_branch branch;
    uint32_t end[TENSORS_MAX], option[TENSORS_MAX];
    struct wring_grouping grouping; /* a poor one */
    double time_us;                 /* that it takes */
};

/** @param room  labels of a prefix */
static void start(const struct wring_problem *problem, uint32_t room, struct parts *parts)
{
    *parts = (struct parts){.grouping = {.end = parts->end, .option = parts->option}};
    wring_made_alone(problem, &parts->grouping);
    parts->time_us = wring_problem_time(problem, &parts->grouping);
    REQUIRE(wring_group_table_init(&parts->table, problem) == WRING_OK &&
                wring_columns_init(&parts->columns, &parts->table, ARCS) == WRING_OK &&
                wring_column_generation_init(&parts->generation, &parts->columns) == WRING_OK &&
                wring_branch_init(&parts->branch, &parts->table, &parts->generation,
                                  1 + room * (problem->n_tensors + 1)) == WRING_OK,
            "no memory");
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        wring_columns_add(&parts->columns, i, i + 1, 0);
}

static void finish(struct parts *parts)
{
    wring_branch_finish(&parts->branch);
    wring_column_generation_finish(&parts->generation);
    wring_columns_finish(&parts->columns);
    wring_group_table_finish(&parts->table);
}

/** @return what the table makes of the flow that so many steps of the game find */
static double play(struct parts *parts, uint32_t steps)
{
    wring_columns_settle(&parts->columns);
    wring_column_generation_start(&parts->generation);
    wring_column_generation_resume(&parts->generation);
    for (uint32_t i = 0; i < steps; i++)
        wring_column_generation_step(&parts->generation);
    wring_column_generation_rest(&parts->generation);
    wring_masses_set(0, parts->table.problem->n_tensors, &parts->generation.best,
                     &parts->table.masses);
    wring_group_table_price(&parts->table, 0, 0);
    return parts->table.rest[0];
}

/** All groups there can be, with every option. */
static void add_all_arcs(struct parts *parts)
{
    const struct wring_problem *problem = parts->table.problem;

    for (uint32_t begin = 0; begin < problem->n_tensors; begin++)
        for (uint32_t option = 0; option < problem->n_options; option++)
            for (uint32_t end = begin + 1;
                 end <= problem->n_tensors && wring_problem_allows(problem, end - 1, option); end++)
                if (end == begin + 1 || problem->max_group_elems == 0 ||
                    problem->elems[end] - problem->elems[begin] <= problem->max_group_elems)
                    wring_columns_add(&parts->columns, begin, end, option);
}

/** @param far_us  see wring_column_generation. @return what is proved of the optimum */
static double play_all(const struct wring_problem *problem, double far_us, uint64_t *played)
{
    struct parts parts;

    start(problem, 1, &parts);
    add_all_arcs(&parts);
    parts.generation.far_us = far_us;
    double bound = play(&parts, 400);
    *played += parts.generation.played;
    finish(&parts);
    return bound;
}

/** Arcs that take far more are passed over for a while: less is looked at, and as much proved. */
static void far_arcs_sleep(void)
{
    uint64_t asleep = 0, awake = 0;
    double proved = 0, proved_awake = 0;

    for (uint32_t seed = 1; seed <= 300; seed += WRING_TEST_STRIDE) {
        struct wring_made_problem made;
        wring_made_small(seed, 6, &made);
        double want = wring_exhaust(&made.problem);
        double with = play_all(&made.problem, 0.1 * want, &asleep);
        double without = play_all(&made.problem, INFINITY, &awake);
        CHECK(with <= want * (1 + 1e-12), "seed %u: %.12g above %.12g", seed, with, want);
        CHECK(without <= want * (1 + 1e-12), "seed %u: %.12g above %.12g", seed, without, want);
        proved += with / want;
        proved_awake += without / want;
        wring_made_finish(&made);
    }
    CHECK(asleep < 0.8 * awake, "%llu of %llu looks", (unsigned long long)asleep,
          (unsigned long long)awake);
    CHECK(proved > 0.999 * proved_awake, "%g of %g are proved", proved, proved_awake);
}

/** Branching alone, with next to no room: its bound holds all the same.
 *  @param tight  in and out: runs whose bound is the optimum, of 8 more */
static void check_narrow(const struct wring_problem *problem, double want, uint32_t seed,
                         uint32_t *tight)
{
    struct parts parts;
    double bound;

    start(problem, 6, &parts);
    play(&parts, 1);
    wring_suffix_bound_learn(&parts.branch, &parts.generation.best);
    for (uint32_t width = 1; width <= 8; width++) {
        bool any =
            wring_branch_run(&parts.branch, parts.time_us * 2, width, 0, &parts.grouping, &bound);
        CHECK(bound <= want * (1 + 1e-12), "seed %u, width %u: %.12g above %.12g", seed, width,
              bound, want);
        CHECK(!any || wring_problem_time(problem, &parts.grouping) >= want * (1 - 1e-12), "seed %u",
              seed);
        *tight += bound >= want * (1 - 1e-9);
    }
    finish(&parts);
}

static void narrow_branching(void)
{
    uint32_t tight = 0, runs = 0;

    for (uint32_t seed = 1; seed <= 300; seed += WRING_TEST_STRIDE, runs += 8) {
        struct wring_made_problem made;
        wring_made_small(seed, 6, &made);
        check_narrow(&made.problem, wring_exhaust(&made.problem), seed, &tight);
        wring_made_finish(&made);
    }
    /* labels that went one by one, instead of being merged, would leave it at 84 of 100 */
    CHECK(tight >= 0.9 * runs, "%u of %u bounds are the optimum", tight, runs);
}

/** Branching with all the room it asks for. @return labels that were looked at */
static uint64_t branch_wide(const struct wring_problem *problem, bool waits, double want,
                            uint32_t seed)
{
    struct parts parts;
    double bound;

    start(problem, 2000, &parts);
    play(&parts, 1);
    wring_suffix_bound_learn(&parts.branch, &parts.generation.best);
    for (size_t i = 0; i < (size_t)problem->n_tensors * WRING_PLAN_LANES_MAX && !waits; i++)
        parts.branch.arrive[i] = -INFINITY;
    bool any = wring_branch_run(&parts.branch, parts.time_us * 2, 2000, 0, &parts.grouping, &bound);
    CHECK(any && fabs(wring_problem_time(problem, &parts.grouping) - want) <= 1e-9 * want,
          "seed %u: not the optimum", seed);
    CHECK(fabs(bound - want) <= 1e-9 * want, "seed %u: %.12g, not %.12g", seed, bound, want);
    uint64_t nodes = parts.branch.nodes;
    finish(&parts);
    return nodes;
}

/** Lanes that wait for the next group are as good as busy: more labels are as good as others. */
static void waiting_lanes_are_busy(void)
{
    uint64_t with = 0, without = 0;

    for (uint32_t seed = 1; seed <= 300; seed += WRING_TEST_STRIDE) {
        struct wring_made_problem made;
        wring_made_small(seed, 6, &made);
        double want = wring_exhaust(&made.problem);
        with += branch_wide(&made.problem, true, want, seed);
        without += branch_wide(&made.problem, false, want, seed);
        wring_made_finish(&made);
    }
    CHECK(with < without, "%llu labels, and %llu", (unsigned long long)with,
          (unsigned long long)without);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"any_flow_bounds", any_flow_bounds},
        {"far_arcs_sleep", far_arcs_sleep},
        {"narrow_branching", narrow_branching},
        {"waiting_lanes_are_busy", waiting_lanes_are_busy},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
