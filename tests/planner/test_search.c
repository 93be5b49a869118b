/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The search: incremental arithmetic against the definition, what is found against all there is,
 * against the algorithms it starts from, and odd problems. With --bench [TRACE...]: how fast it is.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/search/cost_tables.h"
#include "planner/core/search/search.h"
#include "planner/tool/bound/groups.h"
#include "tests/lib/test.h"
#include "tests/planner/bench_search.h"
#include "tests/planner/exhaust.h"
#include "tests/planner/made_problem.h"

static const enum wring_search_method methods[] = {WRING_SEARCH_BEST, WRING_SEARCH_ESPRESSO,
                                                   WRING_SEARCH_MERGECOMP};
#define METHODS (sizeof(methods) / sizeof(*methods))

/* Of the options of wring_made_fabric(): Rand-k and OneBit on the device have twins on the CPU. */
static const uint32_t fabric_offload[] = {8, 8, 4, 4, 8, 7, 7, 8};

/** Tensors of 1 to `most` elements, ready at odd times. */
static void make_fabric(uint32_t n, uint32_t most, uint32_t seed, struct wring_made_problem *made)
{
    uint64_t *elems = calloc(n, sizeof(*elems));
    double *ready_us = calloc(n, sizeof(*ready_us)), at = 0;
    uint32_t random = seed * 2654435761u + 7;

    for (uint32_t i = 0; i < n; i++) {
        at += wring_test_random(&random) % 3000;
        ready_us[i] = at;
        elems[i] = 1 + wring_test_random(&random) % (wring_test_random(&random) % 3 ? 9000 : most);
    }
    wring_made_fabric(n, elems, ready_us, seed % 2 != 0, 1 + seed % 10, made);
    free(elems);
    free(ready_us);
}

/** A small problem of any kind. */
static void make_small(uint32_t seed, struct wring_made_problem *made)
{
    uint32_t random = seed * 7919 + 13, n = 2 + wring_test_random(&random) % 6;

    if (seed % 4 == 3) {
        make_fabric(n < 6 ? n : 5, 20000000, seed, made);
    } else {
        struct wring_made_params params = {.n_tensors = n,
                                           .n_lanes = 1 + wring_test_random(&random) % 6,
                                           .n_options = 1 + wring_test_random(&random) % 5,
                                           .seed = seed,
                                           .chunked = seed % 2 != 0,
                                           .restricted = seed % 3 == 0};
        wring_made_random(&params, made);
    }
    if (seed % 5 == 0)
        made->problem.max_group_elems = 1 + wring_test_random(&random) % 1000000;
}

/** Search, and check that the answer is one. @return its time; 0 where there is none */
static double search(const struct wring_problem *problem, enum wring_search_method method,
                     const uint32_t *offload)
{
    struct wring_search_params params = {.method = method, .offload = offload};
    struct wring_found found;

    enum wring_status status = wring_search_run(problem, &params, &found);
    CHECK(status == WRING_OK, "method %d: %s", method, wring_status_text(status));
    if (status != WRING_OK)
        return 0;
    CHECK(wring_exhaust_valid(problem, &found.grouping), "method %d: no valid grouping", method);
    CHECK(found.time_us == wring_problem_time(problem, &found.grouping), "method %d: %g us, not %g",
          method, found.time_us, wring_problem_time(problem, &found.grouping));
    wring_grouping_finish(&found.grouping);
    return found.time_us;
}

static void random_grouping(const struct wring_problem *problem, uint32_t *random,
                            struct wring_grouping *grouping)
{
    grouping->n = 0;
    for (uint32_t end = 0; end < problem->n_tensors;) {
        end += 1 + wring_test_random(random) % (problem->n_tensors - end);
        grouping->end[grouping->n] = end;
        grouping->option[grouping->n++] = wring_test_random(random) % problem->n_options;
    }
}

static bool close_to(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (1 + fabs(a));
}

/** At every cut of a grouping, heads from the left and tails from the right make its time. */
static void check_cuts(const struct wring_cost_tables *tables,
                       const struct wring_grouping *grouping)
{
    double time = wring_problem_time(tables->problem, grouping), heads[WRING_PLAN_LANES_MAX] = {0};
    uint32_t n = grouping->n, n_lanes = tables->n_lanes;
    struct wring_task task;

    for (uint32_t cut = 0; cut <= n; cut++) {
        double tails[WRING_PLAN_LANES_MAX] = {0};
        for (uint32_t i = n; i-- > cut;) {
            wring_cost_tables_task(tables, i > 0 ? grouping->end[i - 1] : 0, grouping->end[i],
                                   grouping->option[i], &task);
            wring_task_retreat(n_lanes, &task, tails, tails);
        }
        double met = wring_heads_meet(n_lanes, heads, tails);
        CHECK(close_to(time, met), "cut %u of %u: %.12g, not %.12g", cut, n, met, time);
        if (cut == n)
            break;
        wring_cost_tables_task(tables, cut > 0 ? grouping->end[cut - 1] : 0, grouping->end[cut],
                               grouping->option[cut], &task);
        wring_task_advance(n_lanes, &task, heads, heads);
    }
}

static void heads_and_tails(void)
{
    uint32_t random = 5;

    for (uint32_t seed = 1; seed <= 300; seed++) {
        struct wring_made_problem made;
        struct wring_grouping grouping;
        struct wring_cost_tables tables;

        make_small(seed, &made);
        REQUIRE(wring_cost_tables_init(&tables, &made.problem) == WRING_OK, "seed %u", seed);
        REQUIRE(wring_grouping_init(&grouping, made.problem.n_tensors) == WRING_OK, "no memory");
        for (int i = 0; i < 10; i++) {
            random_grouping(&made.problem, &random, &grouping);
            check_cuts(&tables, &grouping);
        }
        wring_grouping_finish(&grouping);
        wring_cost_tables_finish(&tables);
        wring_made_finish(&made);
    }
}

/** Small problems: all there is. */
static void optimum(void)
{
    uint32_t off = 0;

    for (uint32_t seed = 1; seed <= 240; seed++) {
        struct wring_made_problem made;
        make_small(seed, &made);
        double best = wring_exhaust(&made.problem);
        double got = search(&made.problem, WRING_SEARCH_BEST, NULL);
        CHECK(got >= best * (1 - 1e-9), "seed %u: %g us, less than is possible", seed, got);
        CHECK(got <= best * 1.01, "seed %u: %g us, %.3f %% over the optimum", seed, got,
              100 * (got / best - 1));
        off += got > best * (1 + 1e-9);
        wring_made_finish(&made);
    }
    CHECK(off < 24, "%u of 240 answers are not the optimum", off);
}

/** Each tensor by itself, or all together, all with one option; where that may be. */
static double uniform(const struct wring_problem *problem, uint32_t option, bool merged)
{
    struct wring_grouping grouping;
    double time = HUGE_VAL;

    if (wring_grouping_init(&grouping, problem->n_tensors) != WRING_OK)
        return time;
    grouping.n = merged ? 1 : problem->n_tensors;
    for (uint32_t i = 0; i < grouping.n; i++) {
        grouping.end[i] = merged ? problem->n_tensors : i + 1;
        grouping.option[i] = option;
    }
    if (wring_exhaust_valid(problem, &grouping))
        time = wring_problem_time(problem, &grouping);
    wring_grouping_finish(&grouping);
    return time;
}

/** Never worse than what it could start from; the answer is valid whatever is forbidden. */
static void check_starts(const struct wring_problem *problem, uint32_t seed)
{
    const uint32_t *offload = problem->n_options == 8 ? fabric_offload : NULL;
    double best = search(problem, WRING_SEARCH_BEST, offload);

    for (size_t i = 1; i < METHODS; i++) {
        double other = search(problem, methods[i], offload);
        CHECK(best <= other * (1 + 1e-9), "seed %u: %g us, method %zu has %g", seed, best, i,
              other);
    }
    for (uint32_t option = 0; option < problem->n_options; option++)
        for (int merged = 0; merged < 2; merged++) {
            double other = uniform(problem, option, merged != 0);
            CHECK(best <= other * (1 + 1e-9), "seed %u: %g us, option %u alone has %g", seed, best,
                  option, other);
        }
}

static void starts(void)
{
    for (uint32_t seed = 1; seed <= 40; seed++) {
        struct wring_made_params params = {.n_tensors = 1 + seed * 7 % 150,
                                           .n_lanes = 1 + seed % 8,
                                           .n_options = 1 + seed % 90,
                                           .seed = seed,
                                           .chunked = seed % 3 == 1,
                                           .restricted = seed % 4 == 1};
        struct wring_made_problem made;
        if (seed % 2 == 0)
            make_fabric(seed * 5, 9000000, seed, &made);
        else
            wring_made_random(&params, &made);
        if (seed % 5 == 0)
            made.problem.max_group_elems = 100000 * seed;
        check_starts(&made.problem, seed);
        wring_made_finish(&made);
    }
}

static bool same(const struct wring_found *a, const struct wring_found *b)
{
    size_t bytes = a->grouping.n * sizeof(uint32_t);

    return a->grouping.n == b->grouping.n && a->time_us == b->time_us &&
           a->evaluations == b->evaluations &&
           memcmp(a->grouping.end, b->grouping.end, bytes) == 0 &&
           memcmp(a->grouping.option, b->grouping.option, bytes) == 0;
}

/** The same problem, the same answer; a budget that is not used up changes nothing. */
static void determinism(void)
{
    struct wring_made_problem made;

    make_fabric(120, 9000000, 3, &made);
    for (size_t i = 0; i < METHODS; i++) {
        struct wring_search_params params = {.method = methods[i], .offload = fabric_offload};
        struct wring_found first, second;
        REQUIRE(wring_search_run(&made.problem, &params, &first) == WRING_OK, "method %zu", i);
        params.budget_ns = UINT64_C(600000000000);
        REQUIRE(wring_search_run(&made.problem, &params, &second) == WRING_OK, "method %zu", i);
        CHECK(same(&first, &second), "method %zu: two answers", i);
        wring_grouping_finish(&first.grouping);
        wring_grouping_finish(&second.grouping);
    }
    wring_made_finish(&made);
}

/** A budget of next to nothing, on a problem that is far too large for it. */
static void budget(void)
{
    struct wring_made_params random = {
        .n_tensors = 20000, .n_lanes = 8, .n_options = 60, .seed = 9, .restricted = true};
    struct wring_made_problem made;

    wring_made_random(&random, &made);
    for (size_t i = 0; i < METHODS; i++) {
        struct wring_search_params params = {.method = methods[i], .budget_ns = 1000000};
        struct wring_found found;
        REQUIRE(wring_search_run(&made.problem, &params, &found) == WRING_OK, "method %zu", i);
        CHECK(wring_exhaust_valid(&made.problem, &found.grouping), "method %zu: not valid", i);
        CHECK(found.took_ns < 20000000000, "method %zu: %g s", i, 1e-9 * (double)found.took_ns);
        wring_grouping_finish(&found.grouping);
    }
    wring_made_finish(&made);
}

static void all_methods(const struct wring_problem *problem)
{
    for (size_t i = 0; i < METHODS; i++)
        search(problem, methods[i], NULL);
}

/** One tensor; equal ones; nothing to compute; sizes at the upper end of what traces allow. */
static void odd_problems(void)
{
    struct wring_made_params params = {.n_tensors = 1, .n_lanes = 1, .n_options = 1, .seed = 1};
    struct wring_made_problem made;

    wring_made_random(&params, &made);
    all_methods(&made.problem);
    wring_made_finish(&made);

    uint64_t equal[40], huge[3] = {UINT64_C(1) << 38, 1, UINT64_C(1) << 39};
    double never[40] = {0};
    for (int i = 0; i < 40; i++)
        equal[i] = 1000000;
    wring_made_fabric(40, equal, never, false, 1, &made);
    all_methods(&made.problem);
    wring_made_finish(&made);
    wring_made_fabric(3, huge, never, true, 10, &made);
    all_methods(&made.problem);
    wring_made_finish(&made);
}

/** Each tensor by itself, with the first option that it may take. */
static void part(const struct wring_problem *problem, struct wring_grouping *grouping)
{
    grouping->n = problem->n_tensors;
    for (uint32_t i = 0; i < problem->n_tensors; i++) {
        grouping->end[i] = i + 1;
        grouping->option[i] = 0;
        while (!wring_problem_allows(problem, i, grouping->option[i]))
            grouping->option[i]++;
    }
}

/** What a grouping takes with two neighbours in one group; infinite where that may not be. */
static double merged_time(const struct wring_problem *problem, const struct wring_grouping *from,
                          uint32_t first, uint32_t option, struct wring_grouping *scratch)
{
    scratch->n = 0;
    for (uint32_t i = 0; i < from->n; i++) {
        scratch->end[scratch->n] = from->end[i];
        scratch->option[scratch->n] = i == first + 1 ? option : from->option[i];
        scratch->n += i != first;
    }
    return wring_exhaust_valid(problem, scratch) ? wring_problem_time(problem, scratch) : INFINITY;
}

/** Merging costs nothing, and leaves no neighbours that could be merged for nothing. */
static void merging(void)
{
    uint32_t gone = 0;

    for (uint32_t seed = 1; seed <= 60; seed++) {
        struct wring_made_problem made;
        struct wring_grouping grouping, scratch;
        make_small(seed, &made);
        const struct wring_problem *problem = &made.problem;
        REQUIRE(wring_grouping_init(&grouping, problem->n_tensors) == WRING_OK &&
                    wring_grouping_init(&scratch, problem->n_tensors) == WRING_OK,
                "no memory");
        part(problem, &grouping);
        double before_us = wring_problem_time(problem, &grouping), time_us = before_us;
        CHECK(wring_search_merge(problem, &grouping, &time_us) == WRING_OK, "seed %u", seed);
        CHECK(wring_exhaust_valid(problem, &grouping) && time_us <= before_us * (1 + 1e-9) &&
                  close_to(time_us, wring_problem_time(problem, &grouping)),
              "seed %u: %.12g us, and %.12g before", seed, time_us, before_us);
        for (uint32_t i = 0; i + 1 < grouping.n; i++)
            for (uint32_t j = 0; j < 2; j++) {
                double us = merged_time(problem, &grouping, i, grouping.option[i + j], &scratch);
                CHECK(us > time_us * (1 + 1e-12), "seed %u: groups %u and %u: %.12g us, not %.12g",
                      seed, i, i + 1, us, time_us);
            }
        gone += problem->n_tensors - grouping.n;
        wring_grouping_finish(&grouping);
        wring_grouping_finish(&scratch);
        wring_made_finish(&made);
    }
    CHECK(gone >= 20, "%u groups only were merged", gone);
}

static void refuse(const struct wring_problem *problem, uint32_t uncompressed,
                   const uint32_t *offload, const char *why)
{
    for (size_t i = 0; i < METHODS; i++) {
        struct wring_search_params params = {
            .method = methods[i], .offload = offload, .uncompressed = uncompressed};
        struct wring_found found;
        enum wring_status status = wring_search_run(problem, &params, &found);
        CHECK(status == WRING_ERR_INVALID, "%s: %s", why, wring_status_text(status));
    }
}

static void refusals(void)
{
    struct wring_made_params params = {
        .n_tensors = 9, .n_lanes = 3, .n_options = 3, .seed = 4, .restricted = true};
    uint32_t beyond[] = {0, 4, 0};
    struct wring_made_problem made;

    wring_made_random(&params, &made);
    struct wring_problem problem = made.problem;
    refuse(&problem, 3, NULL, "an option uncompressed that is none");
    refuse(&problem, 0, beyond, "an option to offload to that is none");
    problem.n_tensors = 0;
    refuse(&problem, 0, NULL, "no tensors");
    problem = made.problem;
    problem.n_options = 0;
    refuse(&problem, 0, NULL, "no options");
    problem = made.problem;
    problem.n_lanes = WRING_PLAN_LANES_MAX + 1;
    refuse(&problem, 0, NULL, "too many lanes");
    made.allowed[5] = 0;
    refuse(&made.problem, 0, NULL, "a tensor that may take nothing");
    made.allowed[5] = 1;
    made.elems[4] = made.elems[3];
    refuse(&made.problem, 0, NULL, "a tensor without elements");
    wring_made_finish(&made);
}

static bool is_chosen(const struct wring_choices *choices, uint32_t option)
{
    for (uint32_t i = 0; i < choices->n; i++)
        if (choices->options[i] == option)
            return true;
    return false;
}

/** Tensors of two types, whose options cost as much: what is worth a try for one type is for both.
 */
static void two_families(void)
{
    enum {
        FAMILY = 12 /* options: of both more than are looked at one by one */
    };
    const struct wring_made_params params = {
        .n_tensors = 8, .n_lanes = 3, .n_options = 2 * FAMILY, .seed = 5, .restricted = true};
    struct wring_made_problem made;
    struct wring_cost_tables tables;
    uint32_t chosen = 0;

    wring_made_random(&params, &made);
    for (uint32_t i = 0; i < FAMILY; i++)
        made.options[FAMILY + i] = made.options[i];
    for (uint32_t i = 0; i < params.n_tensors; i++)
        made.allowed[i] = ((UINT64_C(1) << FAMILY) - 1) << (i % 2 * FAMILY);
    REQUIRE(wring_cost_tables_init(&tables, &made.problem) == WRING_OK, "tables");
    for (int size = 0; size < WRING_SIZES; size++)
        for (uint32_t i = 0; i < FAMILY; i++) {
            bool one = is_chosen(&tables.choices[size], i);
            CHECK(is_chosen(&tables.choices[size], FAMILY + i) == one,
                  "size %d, option %u: it is worth a try for one type alone", size, i);
            chosen += one;
        }
    CHECK(chosen > 0, "nothing is worth a try");
    wring_cost_tables_finish(&tables);
    wring_made_finish(&made);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"heads_and_tails", heads_and_tails},
        {"optimum", optimum},
        {"starts", starts},
        {"determinism", determinism},
        {"budget", budget},
        {"odd_problems", odd_problems},
        {"merging", merging},
        {"two_families", two_families},
        {"refusals", refusals},
        {NULL, NULL},
    };
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return wring_bench_search(argc - 2, argv + 2);
    return wring_test_main(argc, argv, cases);
}
