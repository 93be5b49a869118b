/* SPDX-License-Identifier: Apache-2.0 */
/** The search on recorded traces: against the greedy algorithms, and against branch-and-bound. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/traced.h"

enum {
    EVALUATIONS = 300000 /* about ten milliseconds */
};

static const char *const traces[] = {"bert",      "bert_large", "gpt2",   "lstm", "ncf",
                                     "resnet101", "resnet50",   "ugatit", "vgg16"};
static const char *const profiles[] = {"espresso-pcie", "espresso-nvlink"};
static const char *const codecs[] = {"randk:ratio=0.01", "onebit+ef"};

static uint32_t better;

/** What the method finds must not be better. */
static void compare(struct wring_traced *traced, enum wring_search_method method,
                    const struct wring_found *best, const char *name)
{
    struct wring_found other = wring_traced_search(traced, method);

    CHECK(best->time_us <= other.time_us * (1 + 1e-9), "%s: %g us, method %d has %g", name,
          best->time_us, (int)method, other.time_us);
    better += best->time_us < other.time_us * 0.99;
    wring_grouping_finish(&other.grouping);
}

/** A fifth of a second of branch-and-bound finds next to nothing better. */
static void improve(struct wring_traced *traced, const struct wring_found *best, const char *name)
{
    struct wring_bound_params params = {.budget_ns = 200 * WRING_NS_PER_MS};
    double time_us = best->time_us;
    struct wring_grouping grouping;
    struct wring_bound bound;

    REQUIRE(wring_grouping_init(&grouping, traced->trace->n) == WRING_OK, "no memory");
    grouping.n = best->grouping.n;
    memcpy(grouping.end, best->grouping.end, grouping.n * sizeof(*grouping.end));
    memcpy(grouping.option, best->grouping.option, grouping.n * sizeof(*grouping.option));
    if (wring_bound_run(&traced->model->problem, &params, &grouping, &time_us, &bound) == WRING_OK)
        CHECK(best->time_us <= time_us * 1.01, "%s: %g us, where %g us is possible", name,
              best->time_us, time_us);
    else
        CHECK(false, "%s: no bound", name);
    wring_grouping_finish(&grouping);
}

static void check_trace(const char *folder, const char *name, const char *profile,
                        const char *codec)
{
    struct wring_traced traced;
    char path[512];

    snprintf(path, sizeof(path), "%s/%s.json", folder, name);
    REQUIRE(wring_traced_init(&traced, path, profile, codec), "%s is not to be read", path);
    struct wring_found best = wring_traced_search(&traced, WRING_SEARCH_BEST);
    CHECK(best.evaluations <= EVALUATIONS, "%s on %s: %llu evaluations", name, profile,
          (unsigned long long)best.evaluations);
    compare(&traced, WRING_SEARCH_ESPRESSO, &best, name);
    compare(&traced, WRING_SEARCH_MERGECOMP, &best, name);
    improve(&traced, &best, name);
    wring_grouping_finish(&best.grouping);
    wring_traced_finish(&traced);
}

static void recorded_traces(void)
{
    const char *folder = wring_test_traces();

    if (folder == NULL)
        wring_test_skip("WRING_TEST_TRACES names no folder with traces");
    for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++)
        for (size_t j = 0; j < 2; j++)
            check_trace(folder, traces[i], profiles[j], codecs[i % 2]);
    CHECK(better >= 18, "by 1 %% better in %u of 36 comparisons only", better);
}

/** One that goes far finds what is better by a hundredth, where the usual one ends by counting. */
static void goes_farther(void)
{
    static const char *const onebit = "onebit";
    struct wring_traced_where where = {
        .profile = "testbed-pcie-25g", .nodes = 8, .codecs = &onebit, .n_codecs = 1};
    const char *folder = wring_test_traces();
    struct wring_traced traced;
    char path[512];

    if (folder == NULL)
        wring_test_skip("WRING_TEST_TRACES names no folder with traces");
    snprintf(path, sizeof(path), "%s/bert.json", folder);
    REQUIRE(wring_traced_init_where(&traced, path, &where), "%s is not to be read", path);
    struct wring_found near = wring_traced_search(&traced, WRING_SEARCH_BEST);
    traced.params.evaluations = 3000000;
    struct wring_found far = wring_traced_search(&traced, WRING_SEARCH_BEST);
    CHECK(far.time_us < 0.99 * near.time_us, "%g us, and not %g", far.time_us, near.time_us);
    CHECK(far.evaluations > near.evaluations && far.evaluations < 12000000,
          "%llu and %llu evaluations", (unsigned long long)far.evaluations,
          (unsigned long long)near.evaluations);
    wring_grouping_finish(&near.grouping);
    wring_grouping_finish(&far.grouping);
    wring_traced_finish(&traced);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"recorded_traces", recorded_traces}, {"goes_farther", goes_farther}, {NULL, NULL}};
    return wring_test_main(argc, argv, cases);
}
