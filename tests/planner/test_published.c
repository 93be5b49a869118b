/* SPDX-License-Identifier: Apache-2.0 */
/** The model on a published trace: what the constants of Espresso's artifact give for it. */
#include <math.h>
#include <stdlib.h>

#include "planner/core/model/cost_model.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"

static const struct wring_log quiet = {.level = WRING_LOG_ERROR};

static double vgg16(const struct wring_tensor_trace *trace, const char *name,
                    enum wring_timeline timeline, bool fp16)
{
    struct wring_profile *profile = wring_profile_builtin(name);
    struct wring_cost_model_params params = {
        .trace = trace, .profile = profile, .timeline = timeline};
    struct wring_cost_model *model = wring_made_model(&params);
    double time =
        model != NULL ? wring_made_model_time(model, fp16 ? model->fp16 : model->uncompressed) : 0;

    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
    return time;
}

/** What the artifact's constants give for its own trace, worked out apart from this code. */
static void published(void)
{
    const char *folder = wring_test_traces();
    struct wring_tensor_trace *trace;
    char path[512];

    if (folder == NULL)
        wring_test_skip("WRING_TEST_TRACES names no folder with vgg16.json");
    snprintf(path, sizeof(path), "%s/vgg16.json", folder);
    enum wring_status status = wring_tensor_trace_load(path, &quiet, &trace);
    REQUIRE(status == WRING_OK, "%s", path);
    double serial = vgg16(trace, "espresso-pcie", WRING_TIMELINE_SERIAL, false);
    double phases = vgg16(trace, "espresso-pcie", WRING_TIMELINE_AUTO, false);
    double fp16 = vgg16(trace, "espresso-pcie", WRING_TIMELINE_PHASES, true);
    CHECK(fabs(serial - 1171803) < 1, "serial, fp32: %.1f", serial);
    CHECK(fabs(phases - 915649) < 1, "phases, fp32: %.1f", phases);
    CHECK(fabs(fp16 - 459410) < 1, "phases, fp16: %.1f", fp16);
    wring_tensor_trace_destroy(trace);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"published", published}, {NULL, NULL}};
    return wring_test_main(argc, argv, cases);
}
