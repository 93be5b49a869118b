/* SPDX-License-Identifier: Apache-2.0 */
/** The model: lanes, options, baselines, and what it refuses. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/files/profile_errors.h"
#include "planner/model/cost_model.h"
#include "planner/model/option_work.h"
#include "planner/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_trace.h"

#define PLACE(place) (1u << WRING_PLACE_##place)

/* ---- wring's own schedule ---- */

/** Two ranks, 1 us a kB and 10 us for an exchange; chunks of 4 KiB. */
static void set_up_chunked(struct wring_profile *profile, struct wring_profile_codec codecs[2])
{
    *profile = (struct wring_profile){.name = "made",
                                      .nodes = 2,
                                      .ranks_per_node = 1,
                                      .chunked = true,
                                      .n_codecs = 2,
                                      .codecs = codecs};
    profile->links[WRING_LEVEL_INTER] = (struct wring_profile_link){
        .present = true, .latency_us = 10, .us = wring_cost_line(0, 0.001)};
    codecs[0] = (struct wring_profile_codec){
        .spec = "none", .summable = true, .wire_bytes = wring_cost_line(0, 4)};
    codecs[0].at[WRING_PLACE_CPU] = (struct wring_profile_coding){
        .present = true, .encode_us = {0}, .decode_us = wring_cost_line(0, 0.0005)};
    codecs[1] = (struct wring_profile_codec){
        .spec = "byte", .nmse = NAN, .wire_bytes = wring_cost_line(0, 1)};
    codecs[1].at[WRING_PLACE_CPU] =
        (struct wring_profile_coding){.present = true,
                                      .encode_us = wring_cost_line(0, 0.002),
                                      .decode_us = wring_cost_line(0, 0.001)};
}

static uint32_t find_known(const struct wring_cost_model *model, enum wring_known_option known)
{
    for (uint32_t i = 0; i < model->problem.n_options; i++)
        if (wring_option_known(&model->options[i].option, true) == known)
            return i;
    CHECK(false, "no option %d", known);
    return 0;
}

static void full(void)
{
    static const uint64_t elems[] = {81920};
    static const double ready[] = {100};
    static const char *const allowed[] = {"byte"};
    struct wring_profile_codec codecs[2];
    struct wring_profile profile;
    struct wring_made_trace made;
    struct wring_cost_model_params params = {.trace = &made.trace,
                                             .profile = &profile,
                                             .codecs = allowed,
                                             .n_codecs = 1,
                                             .chunk_bytes = 4096,
                                             .keep_dominated = true};

    wring_made_trace(1, elems, ready, &made);
    set_up_chunked(&profile, codecs);
    struct wring_cost_model *model = wring_made_model(&params);
    CHECK(model->timeline == WRING_TIMELINE_FULL, "another timeline");
    CHECK(model->fp16 == model->problem.n_options, "fp16 from nowhere");
    uint32_t raw = model->uncompressed, coded = find_known(model, WRING_KNOWN_INTER_ONLY);
    /* two pieces of 1024 elements at once: 8.192 us on the link, 0.512 to add one of them; the
       exchange's latency once */
    CHECK(model->options[raw].chunk_elems == 1024 && model->costs[raw].chunk_elems == 2048,
          "chunks of %llu elements", (unsigned long long)model->options[raw].chunk_elems);
    CHECK(wring_near(wring_made_model_time(model, raw), 100 + 10 + 40 * 8.192 + 0.512), "raw: %g",
          wring_made_model_time(model, raw));
    /* pieces of 4096 elements, as many as raw ones of four times the bytes: encoding 16.384 and
       8.192, decoding two codes of a half, twice: 16.384, all on the same cores, which the link's
       4.096 twice wait for */
    CHECK(model->options[coded].chunk_elems == 4096 && model->costs[coded].chunk_elems == 8192,
          "chunks of %llu elements", (unsigned long long)model->options[coded].chunk_elems);
    CHECK(wring_near(wring_made_model_time(model, coded), 100 + 10 * 40.96 + 8.192), "coded: %g",
          wring_made_model_time(model, coded));
    wring_cost_model_destroy(model);
}

/** Who exchanges nothing is as fast with fp16 as without. */
static void one_rank(void)
{
    static const uint64_t elems[] = {1 << 20};
    static const double ready[] = {100};
    struct wring_made_trace made;
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .nodes = 1, .ranks_per_node = 1};

    wring_made_trace(1, elems, ready, &made);
    struct wring_cost_model *model = wring_made_model(&params);
    REQUIRE(model != NULL, "no model");
    CHECK(model->source == WRING_COSTS_NOTHING, "%d", model->source);
    CHECK(wring_near(wring_made_model_time(model, model->fp16), 100), "%g",
          wring_made_model_time(model, model->fp16));
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** One codec until the sum, another after it. */
static void two_ways(void)
{
    static const uint64_t elems[] = {1 << 20};
    static const double ready[] = {0};
    static const char *const codecs[] = {"onebit>randk:ratio=0.01"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {.trace = &made.trace,
                                             .profile = profile,
                                             .codecs = codecs,
                                             .n_codecs = 1,
                                             .places = PLACE(DEVICE),
                                             .keep_dominated = true};
    int found = 0;

    wring_made_trace(1, elems, ready, &made);
    struct wring_cost_model *model = wring_made_model(&params);
    CHECK(model->n_codecs == 3 && strcmp(model->codecs[2].spec, codecs[0]) == 0, "codecs");
    for (uint32_t i = 0; i < model->problem.n_options; i++) {
        if (model->options[i].codec != 2 ||
            wring_option_known(&model->options[i].option, false) != WRING_KNOWN_INTER_ONLY)
            continue;
        /* 7/8 of 4194.304 kB, each way with its own ratio; 450 and 54 us to encode */
        double kb = 7 / 8.0 * 4194.304, want = 150 + 0.8 * kb * (1 / 32.0 + 0.02);
        CHECK(wring_near(wring_made_model_lane(model, i, "inter", 1 << 20), want),
              "inter: %g, not %g", wring_made_model_lane(model, i, "inter", 1 << 20), want);
        CHECK(wring_near(wring_made_model_lane(model, i, "device", 1 << 20), 450 + 54),
              "encoding: %g", wring_made_model_lane(model, i, "device", 1 << 20));
        CHECK(wring_near(wring_made_model_lane(model, i, "decode", 1 << 20), 8 * 170 + 8 * 34),
              "decoding: %g", wring_made_model_lane(model, i, "decode", 1 << 20));
        found++;
    }
    CHECK(found == 1, "%d options found", found);
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** Of a reduce-scatter and an allgather only one is coded. */
static void one_way_coded(void)
{
    static const uint64_t elems[] = {1 << 20};
    static const double ready[] = {0};
    static const char *const codecs[] = {"none>onebit", "onebit>none"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {.trace = &made.trace,
                                             .profile = profile,
                                             .codecs = codecs,
                                             .n_codecs = 2,
                                             .places = PLACE(DEVICE),
                                             .keep_dominated = true};
    int found = 0;

    wring_made_trace(1, elems, ready, &made);
    struct wring_cost_model *model = wring_made_model(&params);
    for (uint32_t i = 0; model != NULL && i < model->problem.n_options; i++) {
        if (model->options[i].codec < 2 ||
            wring_option_known(&model->options[i].option, false) != WRING_KNOWN_INTER_ONLY)
            continue;
        double kb = 7 / 8.0 * 4194.304, want = 150 + 0.8 * kb * (1 + 1 / 32.0);
        CHECK(wring_near(wring_made_model_lane(model, i, "inter", 1 << 20), want),
              "inter: %g, not %g", wring_made_model_lane(model, i, "inter", 1 << 20), want);
        CHECK(wring_near(wring_made_model_lane(model, i, "device", 1 << 20), 450), "encoding: %g",
              wring_made_model_lane(model, i, "device", 1 << 20));
        CHECK(wring_near(wring_made_model_lane(model, i, "decode", 1 << 20), 8 * 170),
              "decoding: %g", wring_made_model_lane(model, i, "decode", 1 << 20));
        found++;
    }
    CHECK(found == 2, "%d options found", found);
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** A pair that was measured as one is taken as it was measured. */
static void pair_of_its_own(void)
{
    static const uint64_t elems[] = {81920};
    static const double ready[] = {0};
    static const char *const allowed[] = {"byte>none"};
    struct wring_profile_codec codecs[2];
    struct wring_profile profile;
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = &profile, .codecs = allowed, .n_codecs = 1};

    wring_made_trace(1, elems, ready, &made);
    set_up_chunked(&profile, codecs);
    strcpy(codecs[1].spec, allowed[0]);
    struct wring_cost_model *model = wring_made_model(&params);
    REQUIRE(model != NULL, "no model");
    CHECK(model->n_codecs == 2 && wring_cost_at(&model->codecs[1].wire_bytes, 100) == 100, "%s",
          model->codecs[1].spec);
    wring_cost_model_destroy(model);
}

/** An offload node has a lane of its own, for those who may use it. */
static void offload_node(void)
{
    static const uint64_t elems[] = {1 << 20};
    static const double ready[] = {0};
    static const char *const codecs[] = {"onebit"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {.trace = &made.trace,
                                             .profile = profile,
                                             .places = PLACE(DEVICE) | PLACE(NODE),
                                             .codecs = codecs,
                                             .n_codecs = 1,
                                             .keep_dominated = true};
    int found = 0;

    wring_made_trace(1, elems, ready, &made);
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        profile->codecs[i].at[WRING_PLACE_NODE] =
            (struct wring_profile_coding){.present = true,
                                          .encode_us = wring_cost_line(5, 0.0001),
                                          .decode_us = wring_cost_line(6, 0.0002)};
    struct wring_cost_model *model = wring_made_model(&params);
    for (uint32_t i = 0; i < model->problem.n_options; i++) {
        if (model->options[i].codec != 2 || model->options[i].place != WRING_PLACE_NODE ||
            wring_option_known(&model->options[i].option, false) != WRING_KNOWN_INTER_ONLY)
            continue;
        CHECK(wring_near(wring_made_model_lane(model, i, "node", 1 << 20), 11 + 0.0003 * (1 << 20)),
              "node: %g", wring_made_model_lane(model, i, "node", 1 << 20));
        CHECK(wring_made_model_lane(model, i, "device", 1 << 20) == 0, "the device codes, too");
        found++;
    }
    CHECK(found == 1, "%d options found", found);
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++)
        CHECK(strcmp(model->lanes[lane], "cpu") != 0, "a lane for nobody");
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** Faster links between nodes take less of what bytes take, and the same latency. */
static void faster_links(void)
{
    static const uint64_t elems[] = {1 << 20};
    static const double ready[] = {0};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .link_scale = 4};

    wring_made_trace(1, elems, ready, &made);
    struct wring_cost_model *model = wring_made_model(&params);
    CHECK(wring_near(wring_made_model_lane(model, model->uncompressed, "inter", 1 << 20),
                     150 + 5872.0256 / 4),
          "%g", wring_made_model_lane(model, model->uncompressed, "inter", 1 << 20));
    CHECK(wring_near(wring_made_model_lane(model, model->uncompressed, "intra-in", 1 << 20),
                     75 + 1468.0064),
          "%g", wring_made_model_lane(model, model->uncompressed, "intra-in", 1 << 20));
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/* ---- counts, names, baselines ---- */

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
    struct wring_options_params fp16 = {PLACE(DEVICE), true, true, true};
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
                   model->options[to].place == WRING_PLACE_CPU),
              "option %u offloads to %u", i, to);
        CHECK(to == model->problem.n_options || model->on_device[i],
              "option %u leaves the device, where it was not", i);
        CHECK(to == model->problem.n_options || !model->on_device[to],
              "option %u is offloaded to the device", i);
    }
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** One level: flat exchanges alone, and hierarchical ones nowhere. */
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

/* ---- what is refused ---- */

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
    static const char *const onebit[] = {"onebit"}, *const fp16[] = {"fp16"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params good = {.trace = &made.trace, .profile = profile}, bad;

    wring_made_trace(1, elems, ready, &made);
    bad = good, bad.codecs = unknown, bad.n_codecs = 1;
    check_refused(&bad, "gzip");
    bad.codecs = half;
    check_refused(&bad, "gzip");
    bad.codecs = onebit, bad.max_nmse = 0.1;
    check_refused(&bad, "onebit");
    bad.codecs = fp16;
    check_refused(&bad, "fp16");
    bad = good, bad.codecs = fp16, bad.n_codecs = 1, bad.places = PLACE(CPU);
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

/** A budget of nothing leaves what loses nothing, and is another than none. */
static void nothing_may_be_lost(void)
{
    static const uint64_t elems[] = {5000000};
    static const double ready[] = {0};
    static const char *const codecs[] = {"onebit", "onebit+ef"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {.trace = &made.trace,
                                             .profile = profile,
                                             .codecs = codecs,
                                             .n_codecs = 2,
                                             .max_nmse = WRING_BUDGET_NOTHING};

    wring_made_trace(1, elems, ready, &made);
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        profile->codecs[i].nmse = strcmp(profile->codecs[i].spec, "onebit") == 0 ? 0 : 1e-30;
    struct wring_cost_model *model = wring_made_model(&params);
    CHECK(model->n_codecs == 3 && strcmp(model->codecs[2].spec, "onebit") == 0, "%u codecs",
          model->n_codecs);
    wring_cost_model_destroy(model);
    params.max_nmse = 0;
    model = wring_made_model(&params);
    CHECK(model->n_codecs == 4, "no budget leaves %u codecs", model->n_codecs);
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** Codecs of more error than the budget go, fp16 of unknown error is there to compare with. */
static void budget(void)
{
    static const uint64_t elems[] = {1000, 5000000};
    static const double ready[] = {0, 10};
    static const char *const codecs[] = {"onebit", "onebit+ef"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .codecs = codecs, .n_codecs = 2, .max_nmse = 0.5};

    wring_made_trace(2, elems, ready, &made);
    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        if (strcmp(profile->codecs[i].spec, "onebit") == 0)
            profile->codecs[i].nmse = 0.6;
        if (strcmp(profile->codecs[i].spec, "onebit+ef") == 0)
            profile->codecs[i].nmse = 0.4;
    }
    struct wring_cost_model *model = wring_made_model(&params);
    CHECK(model->n_codecs == 3 && strcmp(model->codecs[2].spec, "onebit+ef") == 0, "%u codecs",
          model->n_codecs);
    CHECK(model->fp16 < model->problem.n_options, "nothing to compare with");
    REQUIRE(model->problem.allowed != NULL, "nothing is barred");
    for (uint32_t o = 0; o < model->problem.n_options; o++)
        for (uint32_t tensor = 0; tensor < 2; tensor++) {
            uint64_t word =
                model->problem.allowed[tensor * wring_problem_words(&model->problem) + o / 64];
            CHECK((word >> o % 64 & 1) == (o != model->fp16), "option %u", o);
            CHECK(o == model->fp16 || model->options[o].codec != 1, "another of fp16");
        }
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** Errors of two codecs on two recorded tensors, "t0" and "t1"; of all together as on the first. */
static void make_errors(struct wring_profile *profile, const char *const *specs,
                        const double fed[2][2])
{
    struct wring_profile_errors *errors = &profile->errors;

    REQUIRE(wring_profile_errors_init(errors, 2, 2) == WRING_OK, "out of memory");
    for (int i = 0; i < 2; i++) {
        errors->tensors[i] = strdup(i == 0 ? "t0" : "t1");
        REQUIRE(errors->tensors[i] != NULL, "out of memory");
        snprintf(errors->codecs[i].spec, sizeof(errors->codecs[i].spec), "%s", specs[i]);
        errors->codecs[i].all = (struct wring_profile_loss){1, fed[i][0]};
        for (int t = 0; t < 2; t++)
            errors->codecs[i].each[t] = (struct wring_profile_loss){1, fed[i][t]};
    }
    wring_profile_errors_sort(errors);
}

static bool may(const struct wring_cost_model *model, uint32_t tensor, uint32_t option)
{
    uint32_t words = wring_problem_words(&model->problem);
    return model->problem.allowed == NULL ||
           (model->problem.allowed[tensor * words + option / 64] >> option % 64 & 1) != 0;
}

/** How many options of a codec a tensor may take. */
static uint32_t count_may(const struct wring_cost_model *model, uint32_t tensor, const char *spec)
{
    uint32_t n = 0;

    for (uint32_t o = 0; o < model->problem.n_options; o++)
        n +=
            strcmp(model->codecs[model->options[o].codec].spec, spec) == 0 && may(model, tensor, o);
    return n;
}

/**
 * What gradients lose decides tensor by tensor, and the numbers of bell shape do not matter. The
 * codec that is cheaper everywhere does not take the other one's place where it may not be taken.
 */
static void budget_by_tensor(void)
{
    static const uint64_t elems[] = {50000000, 50000000, 50000000};
    static const double ready[] = {0, 10, 20};
    static const char *const codecs[] = {"onebit", "onebit+ef"};
    static const double fed[2][2] = {{0.9, 0.2}, {0.1, 0.6}};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .codecs = codecs, .n_codecs = 2, .max_nmse = 0.5};
    struct wring_found found;

    wring_made_trace(3, elems, ready, &made);
    for (int i = 0; i < 3; i++)
        snprintf(made.names[i], sizeof(made.names[i]), "%s", i == 2 ? "new" : i ? "t1" : "t0");
    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        struct wring_profile_codec *codec = &profile->codecs[i];
        codec->nmse = strncmp(codec->spec, "onebit", 6) == 0 ? 7 : NAN;
        if (strcmp(codec->spec, "onebit") == 0) /* cheap, so that it would be everybody's */
            codec->at[WRING_PLACE_CPU].encode_us = codec->at[WRING_PLACE_DEVICE].encode_us =
                codec->at[WRING_PLACE_CPU].decode_us = codec->at[WRING_PLACE_DEVICE].decode_us =
                    codec->two_level[WRING_PLACE_DEVICE].encode_us =
                        codec->two_level[WRING_PLACE_DEVICE].decode_us = wring_cost_line(0, 0);
    }
    make_errors(profile, codecs, fed);
    struct wring_cost_model *model = wring_made_model(&params);
    REQUIRE(model != NULL && model->n_codecs == 4, "a codec is left out");
    CHECK(count_may(model, 0, "onebit") == 0 && count_may(model, 0, "onebit+ef") > 0, "t0");
    CHECK(count_may(model, 1, "onebit") > 0 && count_may(model, 1, "onebit+ef") == 0, "t1");
    CHECK(count_may(model, 2, "onebit") == 0, "a tensor of another name has the error of all");
    CHECK(count_may(model, 0, "none") > 0 && count_may(model, 0, "fp16") == 0, "none and fp16");
    struct wring_search_params search = {.offload = model->offload,
                                         .on_device = model->on_device,
                                         .uncompressed = model->uncompressed};
    for (int method = 0; method < 3; method++) {
        search.method = (enum wring_search_method)method;
        REQUIRE(wring_search_run(&model->problem, &search, &found) == WRING_OK, "no plan");
        bool coded = false;
        for (uint32_t g = 0, begin = 0; g < found.grouping.n; begin = found.grouping.end[g++])
            for (uint32_t t = begin; t < found.grouping.end[g]; t++) {
                CHECK(may(model, t, found.grouping.option[g]), "method %d: tensor %u", method, t);
                coded = coded || (t == 1 && model->options[found.grouping.option[g]].codec == 2);
            }
        CHECK(coded || method != WRING_SEARCH_BEST, "t1 is not coded by the cheap one");
        wring_grouping_finish(&found.grouping);
    }
    wring_cost_model_destroy(model);
    params.max_nmse = 0.01; /* beyond what any tensor has */
    model = wring_made_model(&params);
    CHECK(model->n_codecs == 2, "%u codecs", model->n_codecs);
    wring_cost_model_destroy(model);
    params.max_nmse = 0.95; /* all tensors may */
    model = wring_made_model(&params);
    CHECK(count_may(model, 0, "onebit") > 0 && count_may(model, 2, "onebit") > 0, "within");
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** Options of a codec that a tensor may take are those whose encodings together lose no more. */
static void check_encodings(const struct wring_cost_model *model, uint32_t codec,
                            const double fed[2][2], double budget)
{
    uint32_t allowed = 0, barred = 0, single = 0;

    for (uint32_t o = 0; o < model->problem.n_options; o++) {
        if (model->options[o].codec != codec)
            continue;
        struct wring_encodings n = wring_option_encodings(&model->options[o].option);
        bool pair = strchr(model->codecs[codec].spec, '>') != NULL;
        for (uint32_t t = 0; t < 2; t++) {
            double lost = n.in * fed[0][t] + n.back * fed[pair ? 1 : 0][t];
            CHECK(may(model, t, o) == (lost <= budget), "%s, tensor %u: %u and %u encodings",
                  model->codecs[codec].spec, t, n.in, n.back);
            allowed += lost <= budget;
            barred += lost > budget;
            single += n.in + n.back == 1 && lost <= budget;
        }
    }
    CHECK(allowed > 0 && barred > 0 && single > 0, "%u allowed, %u barred, %u with one encoding",
          allowed, barred, single);
}

/** Two steps encode twice, and lose twice; what encodes once is not left out for them. */
static void budget_by_encodings(void)
{
    static const uint64_t elems[] = {50000000, 50000000};
    static const double ready[] = {0, 10}, fed[2][2] = {{0.2, 0.3}, {0.1, 0.1}};
    static const char *const codecs[] = {"onebit+ef", "onebit"}, *const pair[] = {
                                                                     "onebit+ef>onebit"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .codecs = codecs, .n_codecs = 1, .max_nmse = 0.5};

    wring_made_trace(2, elems, ready, &made);
    for (int i = 0; i < 2; i++)
        snprintf(made.names[i], sizeof(made.names[i]), "t%d", i);
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        profile->codecs[i].nmse = NAN;
    make_errors(profile, codecs, fed);
    for (int all = 0; all < 4; all++) {
        params.keep_dominated = all % 2 == 1;
        params.codecs = all < 2 ? codecs : pair;
        struct wring_cost_model *model = wring_made_model(&params);
        REQUIRE(model != NULL, "no model");
        check_encodings(model, 2, fed, 0.5);
        wring_cost_model_destroy(model);
    }
    wring_profile_destroy(profile);
}

/** Who may code does not matter to what is only compared with. */
static void fp16_elsewhere(void)
{
    static const uint64_t elems[] = {1000};
    static const double ready[] = {0};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .places = PLACE(CPU)};

    wring_made_trace(1, elems, ready, &made);
    struct wring_cost_model *model = wring_made_model(&params);
    CHECK(model->fp16 < model->problem.n_options, "nothing to compare with");
    CHECK(wring_near(wring_made_model_lane(model, model->fp16, "device", 1), 4), "another fp16");
    CHECK(model->problem.allowed != NULL && !(model->problem.allowed[0] >> model->fp16 & 1),
          "the device codes");
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"full", full},
        {"one_rank", one_rank},
        {"two_ways", two_ways},
        {"one_way_coded", one_way_coded},
        {"pair_of_its_own", pair_of_its_own},
        {"offload_node", offload_node},
        {"faster_links", faster_links},
        {"counts", counts},
        {"one_level", one_level},
        {"refusals", refusals},
        {"budget", budget},
        {"nothing_may_be_lost", nothing_may_be_lost},
        {"budget_by_tensor", budget_by_tensor},
        {"budget_by_encodings", budget_by_encodings},
        {"fp16_elsewhere", fp16_elsewhere},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
