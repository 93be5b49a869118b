/* SPDX-License-Identifier: Apache-2.0 */
/** The model: tensors of 16-bit elements, and such beside float32. */
#include <math.h>
#include <string.h>

#include "planner/core/files/plan.h"
#include "planner/core/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_tunings.h"

#define RAW_US 0.02 /* an element of float32, behind others */

/** A codec's measured collectives beside raw ones. */
static void set_up(struct made_tunings *made, double coded_us)
{
    made_tunings_set_up(made, 2, 1);
    made->codec.n_coders = 0;
    made_tunings_add_collective(made, "none", "auto", RAW_US, NULL);
    made_tunings_add_collective(made, "byte", "divisible", coded_us, NULL);
}

/** The option of a type with a codec; n_options: there is none. */
static uint32_t find_option(const struct wring_cost_model *model, uint32_t codec,
                            enum wring_dtype dtype)
{
    uint32_t i = 0;

    while (i < model->problem.n_options &&
           (model->options[i].codec != codec || model->options[i].dtype != dtype))
        i++;
    return i;
}

/** What travels raw takes half as long, with half of the bytes; codes are those of float32. */
static void measured(void)
{
    const double x = 1 << 20;

    for (enum wring_dtype dtype = WRING_F16; dtype <= WRING_BF16; dtype++) {
        struct made_tunings made;
        set_up(&made, 0.008);
        made.trace.trace.dtype = dtype;
        struct wring_cost_model *model = wring_made_model(&made.params);
        REQUIRE(model != NULL, "no model");
        uint32_t coded = find_option(model, 1, dtype), n = model->problem.n_options;
        REQUIRE(coded < n && model->raw < n && model->problem.allowed == NULL, "%u options", n);
        CHECK(wring_near(wring_made_model_lane(model, model->raw, "collective", x),
                         10 + RAW_US / 2 * x),
              "raw: %g", wring_made_model_lane(model, model->raw, "collective", x));
        CHECK(wring_near(wring_made_model_lane(model, coded, "collective", x), 10 + 0.008 * x),
              "coded: %g", wring_made_model_lane(model, coded, "collective", x));
        CHECK(model->options[model->raw].dtype == dtype && model->fp16 == model->uncompressed,
              "the 16-bit baseline is another than raw");
        CHECK(find_option(model, 0, WRING_F32) == n, "an option for nobody");
        wring_cost_model_destroy(model);
    }
}

/** A codec that saves something of 32 bits, and nothing of 16. */
static void nothing_saved(void)
{
    struct made_tunings made;

    set_up(&made, 0.6 * RAW_US);
    struct wring_cost_model *model = wring_made_model(&made.params);
    REQUIRE(model != NULL, "no model");
    CHECK(find_option(model, 1, WRING_F32) < model->problem.n_options, "it saves nothing");
    wring_cost_model_destroy(model);
    made.trace.trace.dtype = WRING_BF16;
    model = wring_made_model(&made.params);
    REQUIRE(model != NULL, "no model");
    CHECK(find_option(model, 1, WRING_BF16) == model->problem.n_options, "it is still there");
    wring_cost_model_destroy(model);
}

/** Put together from links and codecs: 2 bytes of each element travel raw, in pieces of as many
 *  bytes. */
static void parts(void)
{
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    made.params.chunk_bytes = 4096;
    made.params.keep_dominated = true;
    for (int i = 0; i < 2; i++) {
        made.trace.trace.dtype = i == 0 ? WRING_F32 : WRING_BF16;
        struct wring_cost_model *model = wring_made_model(&made.params);
        REQUIRE(model != NULL, "no model");
        const struct wring_cost_option *raw = &model->options[model->raw];
        uint32_t coded = find_option(model, 1, made.trace.trace.dtype);
        REQUIRE(coded < model->problem.n_options, "nothing is coded");
        CHECK(raw->chunk_elems == (i == 0 ? 1024 : 2048), "pieces of %llu",
              (unsigned long long)raw->chunk_elems);
        CHECK(model->options[coded].chunk_elems == 4096, "codes of %llu",
              (unsigned long long)model->options[coded].chunk_elems);
        /* both ways a half to one other rank, 1 us a kB */
        CHECK(wring_near(wring_made_model_lane(model, model->raw, "inter", 1000), i == 0 ? 4 : 2),
              "%g", wring_made_model_lane(model, model->raw, "inter", 1000));
        wring_cost_model_destroy(model);
    }
}

/** What codecs do not widen has half the bytes, whatever its parameters. */
static void widths(void)
{
    static const struct {
        const char *spec;
        double width;
    } cases[] = {{"none", 0.5},        {"lossless", 0.5}, {"lossless:block=512", 0.5},
                 {"lossless>bf16", 1}, {"bf16", 1},       {"onebit+ef", 1}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        double width = wring_cost_model_width(WRING_BF16, cases[i].spec);
        CHECK(width == cases[i].width, "%s: %g", cases[i].spec, width);
        CHECK(wring_cost_model_width(WRING_F32, cases[i].spec) == 1, "%s", cases[i].spec);
    }
}

#define TENSORS 6
static const uint32_t types[TENSORS] = {WRING_F32,  WRING_F32, WRING_BF16,
                                        WRING_BF16, WRING_F16, WRING_F32};

static void set_up_mixed(struct made_tunings *made)
{
    static const uint64_t elems[TENSORS] = {1 << 20, 1 << 19, 1 << 18, 1 << 20, 1 << 21, 1000};
    static const double ready[TENSORS] = {10, 20, 30, 40, 50, 60};

    set_up(made, 0.6 * RAW_US);
    wring_made_trace(TENSORS, elems, ready, &made->trace);
    for (uint32_t i = 0; i < TENSORS; i++)
        made->trace.tensors[i].dtype = types[i];
}

static bool may_take(const struct wring_problem *problem, uint32_t tensor, uint32_t option)
{
    uint32_t words = wring_problem_words(problem);

    return problem->allowed[(size_t)tensor * words + option / 64] >> option % 64 & 1;
}

/** Every option is for one type; baselines take each tensor's own. */
static void options_of_each_type(void)
{
    struct made_tunings made;

    set_up_mixed(&made);
    struct wring_cost_model *model = wring_made_model(&made.params);
    REQUIRE(model != NULL && model->problem.allowed != NULL, "any may take any");
    CHECK(model->options[model->raw].dtype == WRING_F32, "float32 is not the first");
    for (uint32_t o = 0; o < model->problem.n_options; o++)
        for (uint32_t i = 0; i < TENSORS; i++) {
            const struct wring_cost_option *taken =
                &model->options[wring_cost_model_option(model, i, o)];
            CHECK(may_take(&model->problem, i, o) == (model->options[o].dtype == types[i]),
                  "tensor %u, option %u", i, o);
            CHECK(taken->dtype == types[i] &&
                      (taken->codec == model->options[o].codec || taken->codec == 0),
                  "tensor %u takes another in the place of %u", i, o);
        }
    CHECK(find_option(model, 1, WRING_F32) < model->problem.n_options &&
              find_option(model, 1, WRING_BF16) == model->problem.n_options &&
              find_option(model, 1, WRING_F16) == model->problem.n_options,
          "a codec saves something of 16 bits");
    wring_cost_model_destroy(model);
}

/** The search merges within a type, whatever it starts from. */
static void groups_of_one_type(void)
{
    static const enum wring_search_method methods[] = {WRING_SEARCH_BEST, WRING_SEARCH_ESPRESSO,
                                                       WRING_SEARCH_MERGECOMP};
    struct made_tunings made;

    set_up_mixed(&made);
    struct wring_cost_model *model = wring_made_model(&made.params);
    REQUIRE(model != NULL, "no model");
    for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
        struct wring_search_params params = {.method = methods[m],
                                             .offload = model->offload,
                                             .on_device = model->on_device,
                                             .uncompressed = model->raw,
                                             .kinds = model->kinds,
                                             .alike = model->alike};
        struct wring_found found;
        REQUIRE(wring_search_run(&model->problem, &params, &found) == WRING_OK, "nothing found");
        uint32_t begin = 0;
        for (uint32_t g = 0; g < found.grouping.n; begin = found.grouping.end[g++])
            for (uint32_t i = begin; i < found.grouping.end[g]; i++)
                CHECK(model->options[found.grouping.option[g]].dtype == types[i],
                      "method %zu: tensor %u is in group %u", m, i, g);
        CHECK(begin == TENSORS, "%u tensors", begin);
        if (methods[m] == WRING_SEARCH_BEST) /* 10 us for each group: what may be merged is */
            CHECK(found.grouping.n <= 5, "%u groups", found.grouping.n);
        wring_grouping_finish(&found.grouping);
    }
    wring_cost_model_destroy(model);
}

#define SMALL 9

/** MergeComp begins with one group of each run of a type, and cuts where that gains. */
static void merged_within_types(void)
{
    static const uint64_t elems[SMALL] = {1000, 999, 998, 997, 996, 995, 994, 993, 992};
    static const double ready[SMALL] = {10, 10, 10, 10, 10, 10, 10, 10, 10};
    static const uint32_t runs[SMALL] = {WRING_BF16, WRING_BF16, WRING_BF16, WRING_F32, WRING_F32,
                                         WRING_F32,  WRING_F16,  WRING_F16,  WRING_F16};
    struct made_tunings made;
    struct wring_found found[2];

    set_up(&made, 0.6 * RAW_US);
    wring_made_trace(SMALL, elems, ready, &made.trace);
    for (uint32_t i = 0; i < SMALL; i++)
        made.trace.tensors[i].dtype = runs[i];
    struct wring_cost_model *model = wring_made_model(&made.params);
    REQUIRE(model != NULL && model->kinds != NULL, "all are of one kind");
    for (int i = 0; i < 2; i++) {
        struct wring_search_params params = {.method = WRING_SEARCH_MERGECOMP,
                                             .uncompressed = model->raw,
                                             .kinds = i == 0 ? model->kinds : NULL,
                                             .alike = i == 0 ? model->alike : NULL};
        REQUIRE(wring_search_run(&model->problem, &params, &found[i]) == WRING_OK, "none found");
    }
    CHECK(found[0].grouping.n == 3 && found[0].grouping.end[0] == 3 &&
              found[0].grouping.end[1] == 6,
          "%u groups", found[0].grouping.n);
    CHECK(found[1].grouping.n > 3 && found[1].time_us > found[0].time_us,
          "kinds make no difference: %g and %g us", found[0].time_us, found[1].time_us);
    for (int i = 0; i < 2; i++)
        wring_grouping_finish(&found[i].grouping);
    wring_cost_model_destroy(model);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"measured", measured},
        {"nothing_saved", nothing_saved},
        {"parts", parts},
        {"widths", widths},
        {"options_of_each_type", options_of_each_type},
        {"groups_of_one_type", groups_of_one_type},
        {"merged_within_types", merged_within_types},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
