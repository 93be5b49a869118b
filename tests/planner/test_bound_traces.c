/* SPDX-License-Identifier: Apache-2.0 */
/**
 * How far from the optimum plans of measured traces can be at most: no bound is above a plan or
 * below what is computed, and those that are soon exact are proven, whatever the machine has to do
 * beside. The folder of traces is WRING_TEST_TRACES; without it the test is skipped.
 * How far it comes in a second, tests/peers/planner_bars.py tells.
 */
#include <stdlib.h>

#include "base/log.h"
#include "planner/core/model/cost_model.h"
#include "planner/core/search/search.h"
#include "tests/lib/test.h"

static const struct {
    const char *file;
    bool soon; /* exact within milliseconds, where nothing else is to do */
} traces[] = {
    {"bert", false},      {"bert_large", false}, {"gpt2", true},    {"lstm", false},  {"ncf", true},
    {"resnet101", false}, {"resnet50", true},    {"ugatit", false}, {"vgg16", false},
};

static const struct wring_log quiet = {.level = WRING_LOG_ERROR};

static struct wring_tensor_trace *load(const char *file)
{
    const char *folder = wring_test_traces();
    struct wring_tensor_trace *trace;
    char path[512];

    if (folder == NULL)
        wring_test_skip("WRING_TEST_TRACES names no folder of measured traces");
    snprintf(path, sizeof(path), "%s/%s.json", folder, file);
    if (wring_tensor_trace_load(path, &quiet, &trace) != WRING_OK)
        abort();
    return trace;
}

static struct wring_cost_model *model_of(const struct wring_tensor_trace *trace,
                                         const struct wring_profile *profile)
{
    static const char *const codec = "randk:ratio=0.01";
    struct wring_cost_model_params params = {.trace = trace,
                                             .profile = profile,
                                             .timeline = WRING_TIMELINE_PHASES,
                                             .codecs = &codec,
                                             .n_codecs = 1};
    struct wring_cost_model *model;

    if (wring_cost_model_create(&params, &quiet, &model) != WRING_OK)
        abort();
    return model;
}

static struct wring_found find(const struct wring_cost_model *model)
{
    struct wring_search_params params = {.method = WRING_SEARCH_BEST,
                                         .offload = model->offload,
                                         .uncompressed = model->uncompressed};
    struct wring_found found;

    if (wring_search_run(&model->problem, &params, &found) != WRING_OK)
        abort();
    return found;
}

/** The certified gap with a budget (0: none); the plan may become better. */
static double gap_after(const struct wring_problem *problem, double budget_ms,
                        struct wring_found *found, struct wring_bound *bound)
{
    struct wring_bound_params params = {.budget_ns = (uint64_t)(budget_ms * 1e6)};
    enum wring_status status =
        wring_bound_run(problem, &params, &found->grouping, &found->time_us, bound);

    CHECK(status == WRING_OK, "%d", (int)status);
    CHECK(bound->time_us <= found->time_us, "%g above %g", bound->time_us, found->time_us);
    return 1 - bound->time_us / found->time_us;
}

static void gaps(void)
{
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");

    for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++) {
        struct wring_tensor_trace *trace = load(traces[i].file);
        struct wring_cost_model *model = model_of(trace, profile);
        struct wring_found found = find(model);
        struct wring_bound bound;
        double gap = gap_after(&model->problem, traces[i].soon ? 0 : 200, &found, &bound);
        CHECK(bound.exact || !traces[i].soon, "%s: gap %.2f %% at the end", traces[i].file,
              gap * 100);
        CHECK(bound.time_us >= trace->tensors[trace->n - 1].ready_us * (1 - 1e-9),
              "%s: %.0f us is less than is computed", traces[i].file, bound.time_us);
        wring_grouping_finish(&found.grouping);
        wring_cost_model_destroy(model);
        wring_tensor_trace_destroy(trace);
    }
    wring_profile_destroy(profile);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"gaps", gaps}, {NULL, NULL}};
    return wring_test_main(argc, argv, cases);
}
