/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How far from the exact optimum plans are: random traces on the built-in profiles, with all of
 * their options. Each is exhausted, merging and all, and settled by branch-and-bound, and both must
 * agree. Exhaustion itself, which drops what cannot be best, is held against all groupings that
 * there are.
 *
 *     test_planner_optimum --all [TRACES [FIRST]]
 *
 * prints the distances of so many traces (200 unless told otherwise) of each size on each profile.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/exhaust.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_trace.h"

enum {
    FEW = 7, /* tensors, at most */
    MANY = 12,
    TRACES = 200,
    TRACES_MAX = 10000
};

static const char *const profiles[] = {"espresso-pcie", "espresso-nvlink"};
#define PROFILES (sizeof(profiles) / sizeof(*profiles))

/** A problem of its own for each seed. */
struct made {
    struct wring_made_trace trace;
    struct wring_profile *profile;
    struct wring_cost_model *model;
};

/** @param sites  who may code, a bit each; 0: device and CPU */
static void make(uint32_t seed, uint32_t n, const char *profile, uint32_t sites, struct made *made)
{
    static const char *const codecs[] = {"randk:ratio=0.01", "onebit+ef", "dgc:ratio=0.001",
                                         "onebit"};
    uint32_t random = seed * 2654435761u + 17;
    bool two = wring_test_random(&random) % 4 == 0; /* codecs to choose from */

    wring_made_random_trace(n, &random, &made->trace);
    made->profile = wring_profile_builtin(profile);
    if (made->profile == NULL)
        abort();
    struct wring_cost_model_params params = {
        .trace = &made->trace.trace,
        .profile = made->profile,
        .timeline = WRING_TIMELINE_PHASES,
        .codecs = &codecs[wring_test_random(&random) % (two ? 3 : 4)],
        .n_codecs = two ? 2 : 1,
        .sites = sites,
        .link_scale = wring_test_random(&random) % 3 == 0 ? 2.5 : 1};
    made->model = wring_made_model(&params);
    if (made->model == NULL)
        abort();
}

static void finish(struct made *made)
{
    wring_cost_model_destroy(made->model);
    wring_profile_destroy(made->profile);
}

static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-9 * b;
}

/* ---- how far it is ---- */

static struct wring_found search(const struct wring_cost_model *model)
{
    struct wring_search_params params = {.method = WRING_SEARCH_BEST,
                                         .offload = model->offload,
                                         .on_device = model->on_device,
                                         .uncompressed = model->uncompressed};
    struct wring_found found;

    if (wring_search_run(&model->problem, &params, &found) != WRING_OK)
        abort();
    return found;
}

/** Branch-and-bound. @param budget_ns  0: as far as it gets @return whether that is to the end */
static bool settle(const struct wring_cost_model *model, struct wring_found *found, uint32_t seed,
                   uint64_t budget_ns)
{
    struct wring_bound_params params = {.budget_ns = budget_ns};
    struct wring_bound bound;

    if (wring_bound_run(&model->problem, &params, &found->grouping, &found->time_us, &bound) !=
        WRING_OK)
        abort();
    CHECK(bound.time_us <= found->time_us, "trace %u: %.12g us is proved of %.12g", seed,
          bound.time_us, found->time_us);
    CHECK(wring_problem_time(&model->problem, &found->grouping) == found->time_us, "trace %u",
          seed);
    return bound.exact;
}

/** What becomes of one trace. */
struct outcome {
    double far;   /* the search's plan above the optimum, as a share of that */
    bool settled; /* by branch-and-bound */
};

static struct outcome look(uint32_t seed, uint32_t n, const char *profile, uint64_t budget_ns)
{
    struct outcome outcome;
    struct made made;

    make(seed, n, profile, 0, &made);
    struct wring_found found = search(made.model);
    double found_us = found.time_us;
    double least_us = wring_exhaust_prefixes(&made.model->problem, found_us * (1 + 1e-9));
    outcome.settled = settle(made.model, &found, seed, budget_ns);
    CHECK(found.time_us >= least_us * (1 - 1e-12), "trace %u on %s: %.12g us, %.12g is the least",
          seed, profile, found.time_us, least_us);
    CHECK(!outcome.settled || same(found.time_us, least_us),
          "trace %u on %s: settled at %.12g, exhausted %.12g", seed, profile, found.time_us,
          least_us);
    outcome.far = same(found_us, least_us) ? 0 : found_us / least_us - 1;
    wring_grouping_finish(&found.grouping);
    finish(&made);
    return outcome;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Traces of `least` to `most` tensors on one profile; held against the bar. */
static void compare(uint32_t first, uint32_t traces, uint32_t least, uint32_t most,
                    const char *profile, bool all)
{
    static double far[TRACES_MAX];
    uint32_t n = 0, optimal = 0, settled = 0;

    for (uint32_t i = 0; i < traces; i += all ? 1 : WRING_TEST_STRIDE) {
        uint32_t seed = first + i, tensors = least + seed % (most - least + 1);
        struct outcome outcome = look(seed, tensors, profile, all ? 2 * WRING_NS_PER_S : 0);
        far[n++] = outcome.far;
        optimal += outcome.far == 0;
        settled += outcome.settled;
    }
    qsort(far, n, sizeof(*far), by_value);
    double median = far[n / 2], worst = far[n - 1];
    CHECK(median == 0, "%s: %.3f %% off in the middle", profile, 100 * median);
    CHECK(worst <= 0.01, "%s: %.3f %% off at worst", profile, 100 * worst);
    CHECK(all || settled == n, "%s: %u of %u settled by branch-and-bound", profile, settled, n);
    if (all)
        printf("| %s | %u to %u | %u | %u | %u | %.3f %% | %.3f %% | %.3f %% |\n", profile, least,
               most, n, settled, optimal, 100 * median, 100 * far[n * 9 / 10], 100 * worst);
}

/** A part of what --all looks at. */
static void some_traces(void)
{
    for (size_t i = 0; i < PROFILES; i++) {
        compare(1 + 20 * (uint32_t)i, 10, 1, FEW, profiles[i], false);
        compare(5 + 5 * (uint32_t)i, 2, FEW + 1, MANY, profiles[i], false);
    }
}

/* ---- whether exhaustion leaves anything out ---- */

static void check_prefixes(const struct wring_problem *problem, uint32_t seed)
{
    double all = wring_exhaust(problem), prefixes = wring_exhaust_prefixes(problem, DBL_MAX);
    double limited = wring_exhaust_prefixes(problem, all * (1 + 1e-9));

    CHECK(all == prefixes, "trace %u: %.12g, not %.12g", seed, prefixes, all);
    CHECK(all == limited, "trace %u: with a limit %.12g, not %.12g", seed, limited, all);
    CHECK(wring_exhaust_prefixes(problem, all * 0.999) > all * 0.999, "trace %u: beyond the least",
          seed);
}

/** With all options two tensors, with those of a device three. */
static void prefixes_of_all_options(void)
{
    for (uint32_t seed = 1; seed <= 8; seed += WRING_TEST_STRIDE) {
        struct made made;
        uint32_t sites = seed % 2 == 0 ? 1u << WRING_SITE_DEVICE : 0;
        make(seed, sites == 0 ? 2 : 3, profiles[seed / 4 % PROFILES], sites, &made);
        check_prefixes(&made.model->problem, seed);
        finish(&made);
    }
}

/** Seven tensors, and some of the options: drawn for each trace. */
static void prefixes_of_seven(void)
{
    enum {
        OPTIONS = 4
    };

    for (uint32_t seed = 1; seed <= 8; seed += WRING_TEST_STRIDE) {
        struct wring_option_cost options[OPTIONS];
        struct made made;
        make(seed, FEW, profiles[seed % PROFILES], 0, &made);
        struct wring_problem part = made.model->problem;
        uint32_t random = seed;
        for (uint32_t i = 0; i < OPTIONS; i++)
            options[i] = part.options[wring_test_random(&random) % part.n_options];
        part.options = options;
        part.n_options = OPTIONS;
        part.allowed = NULL;
        check_prefixes(&part, seed);
        finish(&made);
    }
}

static int all_traces(uint32_t traces, uint32_t first)
{
    if (traces < 1 || traces > TRACES_MAX)
        return 2;
    printf("| profile | tensors | traces | settled | optimal | median | 9 of 10 | worst |\n"
           "|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < PROFILES; i++) {
        compare(first, traces, 1, FEW, profiles[i], true);
        compare(first, traces, FEW + 1, MANY, profiles[i], true);
        fflush(stdout);
    }
    return wring_test_failures() > 0;
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"some_traces", some_traces},
        {"prefixes_of_all_options", prefixes_of_all_options},
        {"prefixes_of_seven", prefixes_of_seven},
        {NULL, NULL},
    };
    if (argc > 1 && strcmp(argv[1], "--all") == 0)
        return all_traces(argc > 2 ? (uint32_t)atoi(argv[2]) : TRACES,
                          argc > 3 ? (uint32_t)atoi(argv[3]) : 1);
    return wring_test_main(argc, argv, cases);
}
