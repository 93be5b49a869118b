/* SPDX-License-Identifier: Apache-2.0 */
/** The model: lanes of the runtime's own schedule, pairs of codecs, offload nodes, other links. */
#include <math.h>
#include <string.h>

#include "planner/core/model/cost_model.h"
#include "planner/core/model/option_work.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_trace.h"

#define SITE(site) (1u << WRING_SITE_##site)

/* ---- wring's own schedule ---- */

/** Two ranks, 1 us a kB and 10 us for a collective; chunks of 4 KiB. */
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
    codecs[0].at[WRING_SITE_CPU] = (struct wring_profile_coding){
        .present = true, .encode_us = {0}, .decode_us = wring_cost_line(0, 0.0005)};
    codecs[1] = (struct wring_profile_codec){
        .spec = "byte", .nmse = NAN, .wire_bytes = wring_cost_line(0, 1)};
    codecs[1].at[WRING_SITE_CPU] =
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
       collective's latency once */
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
                                             .sites = SITE(DEVICE),
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
                                             .sites = SITE(DEVICE),
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
                                             .sites = SITE(DEVICE) | SITE(NODE),
                                             .codecs = codecs,
                                             .n_codecs = 1,
                                             .keep_dominated = true};
    int found = 0;

    wring_made_trace(1, elems, ready, &made);
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        profile->codecs[i].at[WRING_SITE_NODE] =
            (struct wring_profile_coding){.present = true,
                                          .encode_us = wring_cost_line(5, 0.0001),
                                          .decode_us = wring_cost_line(6, 0.0002)};
    struct wring_cost_model *model = wring_made_model(&params);
    for (uint32_t i = 0; i < model->problem.n_options; i++) {
        if (model->options[i].codec != 2 || model->options[i].site != WRING_SITE_NODE ||
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
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
