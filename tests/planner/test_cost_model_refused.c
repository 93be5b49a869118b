/* SPDX-License-Identifier: Apache-2.0 */
/** The model: what options and baselines there are, and what it refuses. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/core/model/cost_model.h"
#include "planner/core/model/option_work.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_trace.h"

#define SITE(site) (1u << WRING_SITE_##site)

static void counts(void)
{
    static const uint64_t elems[] = {1000, 5000000};
    static const double ready[] = {0, 10};
    static const char *const codecs[] = {"randk:ratio=0.01", "none", "onebit", "randk:ratio=0.01"};
    struct wring_profile *profile = wring_profile_builtin("espresso-nvlink");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .codecs = codecs, .n_codecs = 4};

    wring_made_trace(2, elems, ready, &made);
    struct wring_cost_model *model = wring_made_model(&params);
    /* 9 leaves code nothing; fp16 is summable and stands on the device only */
    struct wring_options_params fp16 = {SITE(DEVICE), true, true, true};
    uint64_t want = 9 + (wring_options_walk(&fp16, NULL, NULL) - 9) + 2 * (4341 - 9);
    CHECK(model->considered == want, "%llu options considered, not %llu",
          (unsigned long long)model->considered, (unsigned long long)want);
    CHECK(model->dominated + model->problem.n_options == want, "some are lost");
    CHECK(model->n_codecs == 4, "%u codecs", model->n_codecs);
    CHECK(model->uncompressed < model->problem.n_options && model->fp16 < model->problem.n_options,
          "a baseline is missing");
    CHECK(model->options[model->uncompressed].codec == 0 && model->options[model->fp16].codec == 1,
          "baselines of other codecs");
    CHECK(model->problem.allowed == NULL, "something is barred");
    CHECK(model->on_device[model->uncompressed] && model->on_device[model->fp16],
          "a baseline leaves the device");
    for (uint32_t i = 0; i < model->problem.n_options; i++) {
        uint32_t to = model->offload[i];
        bool codes = model->options[i].codec != 0;
        CHECK(to <= model->problem.n_options, "offload to %u", to);
        CHECK(to == model->problem.n_options ||
                  (codes && model->options[to].codec == model->options[i].codec &&
                   model->options[to].site == WRING_SITE_CPU),
              "option %u offloads to %u", i, to);
        CHECK(to == model->problem.n_options || model->on_device[i],
              "option %u leaves the device, where it was not", i);
        CHECK(to == model->problem.n_options || !model->on_device[to],
              "option %u is offloaded to the device", i);
    }
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** One level: flat collectives alone, and hierarchical ones nowhere. */
static void one_level(void)
{
    static const uint32_t clusters[][2] = {{8, 1}, {1, 8}};
    static const uint64_t elems[] = {1 << 20};
    static const double ready[] = {0};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;

    wring_made_trace(1, elems, ready, &made);
    for (int i = 0; i < 2; i++) {
        struct wring_cost_model_params params = {.trace = &made.trace,
                                                 .profile = profile,
                                                 .nodes = clusters[i][0],
                                                 .ranks_per_node = clusters[i][1]};
        struct wring_cost_model *model = wring_made_model(&params);
        double want = 150 + (i == 0 ? 0.8 : 0.4) * 1.75 * 4194.304;
        CHECK(wring_near(wring_made_model_time(model, model->uncompressed), want), "%g, not %g",
              wring_made_model_time(model, model->uncompressed), want);
        for (uint32_t o = 0; o < model->problem.n_options; o++)
            CHECK(model->options[o].option.steps[model->options[o].option.n / 2].phase ==
                      WRING_PHASE_FLAT,
                  "a hierarchy of one level");
        wring_cost_model_destroy(model);
    }
    wring_profile_destroy(profile);
}

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level;
    (void)module;
    snprintf(arg, 512, "%s", text);
}

static void check_refused(const struct wring_cost_model_params *params, const char *names)
{
    char line[512] = "";
    struct wring_log log = {keep_line, line, WRING_LOG_ERROR};
    struct wring_cost_model *model = NULL;
    enum wring_status status = wring_cost_model_create(params, &log, &model);

    CHECK(status == WRING_ERR_INVALID && model == NULL, "%s: %s", names, wring_status_text(status));
    CHECK(strstr(line, names) != NULL, "\"%s\" does not name %s", line, names);
}

static void refusals(void)
{
    static const uint64_t elems[] = {1000};
    static const double ready[] = {0};
    static const char *const unknown[] = {"gzip"}, *const half[] = {"onebit>gzip"};
    static const char *const randk[] = {"randk:ratio=0.01"}, *const fp16[] = {"fp16"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params good = {.trace = &made.trace, .profile = profile}, bad;

    wring_made_trace(1, elems, ready, &made);
    bad = good, bad.codecs = unknown, bad.n_codecs = 1;
    check_refused(&bad, "gzip");
    bad.codecs = half;
    check_refused(&bad, "gzip");
    bad.codecs = randk, bad.max_nmse = 0.1; /* nobody knows its error */
    check_refused(&bad, "randk:ratio=0.01");
    bad = good, bad.codecs = fp16, bad.n_codecs = 1, bad.sites = SITE(CPU);
    check_refused(&bad, "fp16");
    bad = good, bad.nodes = 1u << 20;
    check_refused(&bad, "1048576");
    bad = good, bad.link_scale = NAN;
    check_refused(&bad, "nan");
    bad.link_scale = -1;
    check_refused(&bad, "-1");
    made.trace.n = 0;
    check_refused(&good, "without tensors");
    made.trace.n = 1;
    profile->links[WRING_LEVEL_INTER].present = false;
    check_refused(&good, "between nodes");
    profile->links[WRING_LEVEL_INTRA].present = false;
    check_refused(&good, "inside a node");
    wring_profile_destroy(profile);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"counts", counts},
        {"one_level", one_level},
        {"refusals", refusals},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
