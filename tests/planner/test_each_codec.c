/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A plan from a set of codecs takes no longer than one from any of them alone. Nothing here is
 * timed: each search ends by itself. Among the cases are some in which the set's own search misses
 * what a codec alone finds.
 */
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "planner/tool/each_codec.h"
#include "tests/lib/test.h"
#include "tests/planner/traced.h"

enum {
    CODECS = 4,
};

/* sums that were added up in another order */
static const double rounding = 1e-9;

static const char *const codecs[CODECS] = {"onebit", "onebit+ef", "randk:ratio=0.01",
                                           "dgc:ratio=0.01"};
static const struct wring_log warnings = {.level = WRING_LOG_WARN};

struct scenario {
    const char *trace, *profile;
    uint32_t nodes;
    enum wring_timeline timeline;
};

/** Aborts where that cannot be. @param taken  in, [n] borrowed by it */
static struct wring_traced load(const struct scenario *scenario, const char *path,
                                const char *const *taken, uint32_t n)
{
    struct wring_traced_where where = {.profile = scenario->profile,
                                       .nodes = scenario->nodes,
                                       .timeline = scenario->timeline,
                                       .codecs = taken,
                                       .n_codecs = n};
    struct wring_traced traced;

    if (!wring_traced_init_where(&traced, path, &where))
        abort();
    return traced;
}

static double time_alone(const struct scenario *scenario, const char *path,
                         const char *const *codec)
{
    struct wring_traced traced = load(scenario, path, codec, 1);
    struct wring_found found = wring_traced_search(&traced, WRING_SEARCH_BEST);

    wring_grouping_finish(&found.grouping);
    wring_traced_finish(&traced);
    return found.time_us;
}

/** The least time with a codec alone. */
static double least_alone(const struct scenario *scenario, const char *path)
{
    double least = INFINITY;

    for (uint32_t i = 0; i < CODECS; i++)
        least = fmin(least, time_alone(scenario, path, &codecs[i]));
    return least;
}

/** @param first  out: before each codec was tried alone */
static double time_of_all(const struct scenario *scenario, const char *path, double *first)
{
    struct wring_traced traced = load(scenario, path, codecs, CODECS);
    struct wring_found found = wring_traced_search(&traced, WRING_SEARCH_BEST);

    *first = found.time_us;
    if (wring_each_codec_search(&traced.asked, traced.model, WRING_SEARCH_BEST, WRING_NEVER,
                                &warnings, &found) != WRING_OK)
        abort();
    CHECK(found.time_us == wring_problem_time(&traced.model->problem, &found.grouping),
          "%s: %g us are not the plan's", scenario->trace, found.time_us);
    wring_grouping_finish(&found.grouping);
    wring_traced_finish(&traced);
    return found.time_us;
}

/** @return how many the first answers were worse than a codec alone */
static uint32_t check_scenarios(const char *folder, const struct scenario *scenarios, size_t n)
{
    uint32_t missed = 0;
    char path[512];

    for (size_t i = 0; i < n; i++) {
        const struct scenario *scenario = &scenarios[i];
        if (wring_tensor_trace_find(scenario->trace, folder, &warnings, path, sizeof(path)) !=
            WRING_OK)
            abort();
        double first, all = time_of_all(scenario, path, &first),
                      least = least_alone(scenario, path);
        CHECK(all <= least * (1 + rounding),
              "%s on %s, %u nodes: all codecs take %.9g us, one of them %.9g", scenario->trace,
              scenario->profile, scenario->nodes, all, least);
        CHECK(all <= first, "%s: %g us became %g", scenario->trace, first, all);
        missed += first > least * (1 + rounding);
    }
    return missed;
}

static void shipped_traces(void)
{
    static const struct scenario scenarios[] = {
        {"resnet101", "espresso-pcie", 2, WRING_TIMELINE_PHASES},
        {"bert-large", "espresso-pcie", 64, WRING_TIMELINE_PHASES},
        {"gpt2-xl", "testbed-pcie-25g", 64, WRING_TIMELINE_SERIAL},
        {"vit-l-16", "testbed-pcie-25g", 64, WRING_TIMELINE_FULL},
        {"ncf", "testbed-pcie-25g", 64, WRING_TIMELINE_SERIAL},
        {"lstm", "espresso-nvlink", 8, WRING_TIMELINE_PHASES},
        {"vgg16", "testbed-nvlink-100g", 8, WRING_TIMELINE_FULL},
    };

    uint32_t missed = check_scenarios("", scenarios, sizeof(scenarios) / sizeof(*scenarios));
    CHECK(missed > 0, "the search alone is as good everywhere: look for cases that tell");
}

static void measured_traces(void)
{
    static const struct scenario scenarios[] = {
        {"bert", "espresso-pcie", 8, WRING_TIMELINE_PHASES},
        {"ncf", "espresso-pcie", 64, WRING_TIMELINE_PHASES},
        {"vgg16", "testbed-pcie-25g", 8, WRING_TIMELINE_FULL},
        {"ugatit", "espresso-nvlink", 64, WRING_TIMELINE_PHASES},
    };
    const char *folder = wring_test_traces();

    if (folder == NULL)
        wring_test_skip("WRING_TEST_TRACES names no folder with traces");
    check_scenarios(folder, scenarios, sizeof(scenarios) / sizeof(*scenarios));
}

/** Shipped, with some of the codecs. */
static struct wring_traced load_shipped(const char *trace, uint32_t n)
{
    struct scenario scenario = {trace, "espresso-pcie", 64, WRING_TIMELINE_PHASES};
    char path[512];

    if (wring_tensor_trace_find(trace, "", &warnings, path, sizeof(path)) != WRING_OK)
        abort();
    return load(&scenario, path, codecs, n);
}

/** Where there is nothing to do, nothing is done. */
static void check_stays(struct wring_traced *traced, uint64_t deadline_ns)
{
    struct wring_found found = wring_traced_search(traced, WRING_SEARCH_BEST);
    uint64_t evaluations = found.evaluations;
    double time_us = found.time_us;
    enum wring_status status = wring_each_codec_search(
        &traced->asked, traced->model, WRING_SEARCH_BEST, deadline_ns, &warnings, &found);

    CHECK(status == WRING_OK && found.time_us == time_us && found.evaluations == evaluations,
          "%s, %g us became %g by %llu evaluations more", wring_status_text(status), time_us,
          found.time_us, (unsigned long long)(found.evaluations - evaluations));
    wring_grouping_finish(&found.grouping);
}

static void single_codec(void)
{
    struct wring_traced traced = load_shipped("vgg16", 1);

    check_stays(&traced, WRING_NEVER);
    wring_traced_finish(&traced);
}

/** A case where there would be something to gain. */
static void late(void)
{
    struct wring_traced traced = load_shipped("bert-large", CODECS);

    check_stays(&traced, wring_now_ns());
    wring_traced_finish(&traced);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"shipped_traces", shipped_traces},
                                                   {"single_codec", single_codec},
                                                   {"late", late},
                                                   {"measured_traces", measured_traces},
                                                   {NULL, NULL}};
    return wring_test_main(argc, argv, cases);
}
