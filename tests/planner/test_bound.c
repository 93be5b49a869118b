/* SPDX-License-Identifier: Apache-2.0 */
/** The bound against plain exhaustion: never above the optimum, and equal to it where it says so.
 */
#include <math.h>

#include "base/clock.h"
#include "planner/core/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/exhaust.h"
#include "tests/planner/made_problem.h"

enum {
    TENSORS_MAX = 16
};

static double alone_us(const struct wring_problem *problem)
{
    uint32_t end[TENSORS_MAX], option[TENSORS_MAX];
    struct wring_grouping grouping = {.end = end, .option = option};

    wring_made_alone(problem, &grouping);
    return wring_problem_time(problem, &grouping);
}

static void check_exact(const struct wring_problem *problem, double want, uint32_t seed)
{
    uint32_t end[TENSORS_MAX], option[TENSORS_MAX];
    struct wring_grouping grouping = {.end = end, .option = option};
    struct wring_bound_params params = {.budget_ns = 0};
    struct wring_bound bound;

    wring_made_alone(problem, &grouping);
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
        wring_made_small(seed, 6, &made);
        check_exact(&made.problem, wring_exhaust(&made.problem), seed);
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
        double all = wring_exhaust(&made.problem),
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
    wring_made_alone(&made.problem, &grouping);
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
    struct wring_bound_params limits = {.budget_ns = 60 * WRING_NS_PER_S};
    static const uint32_t tensors[] = {1, 2, 100, 5000};

    for (size_t i = 0; i < sizeof(tensors) / sizeof(*tensors); i++) {
        struct wring_problem problem = {.n_tensors = tensors[i],
                                        .n_lanes = 1 + (uint32_t)i * 2,
                                        .n_options = 1,
                                        .compute_us = compute_us,
                                        .elems = elems,
                                        .options = &nothing};
        struct wring_bound bound;
        for (int turn = 0; turn < 2; turn++) {
            for (uint32_t t = 0; t < tensors[i]; t++) {
                compute_us[t] = turn;
                elems[t + 1] = elems[t] + 1;
            }
            wring_made_alone(&problem, &grouping);
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
    wring_made_alone(&made.problem, &grouping);
    double time = wring_problem_time(&made.problem, &grouping);
    made.allowed[1] = 0;
    CHECK(wring_bound_run(&made.problem, &limits, &grouping, &time, &bound) == WRING_ERR_INVALID,
          "a tensor with no option got a bound");
    wring_made_finish(&made);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"equals_exhaustion", equals_exhaustion},
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
