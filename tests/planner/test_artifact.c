/* SPDX-License-Identifier: Apache-2.0 */
/** The model against the formulas of Espresso's artifact. */
#include <math.h>
#include <string.h>

#include "planner/core/model/option_work.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_trace.h"

/** Two tensors, by hand: 2^20 and 2^24 elements, ready after 100 and 1000 us, 8 x 8 over PCIe. */
static void by_hand(void)
{
    static const uint64_t elems[] = {1 << 20, 1 << 24};
    static const double ready[] = {100, 1000};
    struct wring_made_trace made;
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_cost_model_params params = {.trace = &made.trace, .profile = profile};

    wring_made_trace(2, elems, ready, &made);
    params.timeline = WRING_TIMELINE_SERIAL;
    struct wring_cost_model *model = wring_made_model(&params);
    /* 300 + (0.4 + 0.8) · 2 · 7/8 of 4194.304 and 67108.864 kB: 9108.0384 and 141228.6144 us, the
       second after the first, which began at 100 */
    CHECK(wring_near(wring_made_model_time(model, model->uncompressed),
                     100 + 9108.0384 + 141228.6144),
          "serial: %.4f", wring_made_model_time(model, model->uncompressed));
    wring_cost_model_destroy(model);

    params.timeline = WRING_TIMELINE_PHASES;
    model = wring_made_model(&params);
    /* intra 75 + 1468.0064 and 75 + 23488.1024, inter 150 + 5872.0256 and 150 + 93952.4096: the
       second waits for nobody; 1000 and its own 23563.1024 + 94102.4096 + 23563.1024, but after
       the first has left intra-in at 1643.0064 */
    CHECK(wring_near(wring_made_model_time(model, model->uncompressed),
                     1643.0064 + 23563.1024 + 94102.4096 + 23563.1024),
          "phases: %.4f", wring_made_model_time(model, model->uncompressed));
    /* fp16: encoding 4 and 8 (2^21 elements per device), decoding 22 and 44; half the bytes */
    CHECK(wring_near(wring_made_model_time(model, model->fp16),
                     1012 + 75 + 11744.0512 + 150 + 46976.2048 + 44 + 75 + 11744.0512),
          "phases, fp16: %.4f", wring_made_model_time(model, model->fp16));
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/* ---- the artifact's own options ---- */

struct artifact {
    const char *spec;
    double ratio;        /* of the bytes */
    double both, decode; /* us of 2^20 elements */
    double two_both, two_decode;
};

static const struct artifact artifacts[] = {
    {"randk:ratio=0.01", 0.02, 88, 34, 1000, 100},
    {"dgc:ratio=0.05", 0.1, 390, 34, 1400, 100},
    {"onebit", 1.0 / 32, 620, 170, 2000, 520},
    {"onebit+ef", 1.0 / 32, 270, 140, 810, 420},
};

struct lanes_us {
    double device, intra, cpu, inter, decode; /* intra: of either way */
};

static struct lanes_us formula(const struct artifact *codec, enum wring_known_option known,
                               enum wring_site site, double nodes, double gpus, double elems)
{
    double megabytes = 4 * elems / 1000, level = fmax(1, elems / gpus / (1 << 20));
    bool two = known == WRING_KNOWN_TWO_LEVEL;
    double both = two ? codec->two_both : codec->both;
    double decode = two ? codec->two_decode : codec->decode;
    struct lanes_us us = {.device = (both - decode) * level, .decode = decode * level};

    us.intra =
        75 * (two ? 2 : 1) + 0.4 * (gpus - 1) / gpus * megabytes * (two ? codec->ratio : 0.5);
    us.inter = 150 * (two ? 2 : 1) + 0.8 * 2 * (nodes - 1) / nodes * megabytes * codec->ratio;
    if (site == WRING_SITE_CPU) {
        us.device = us.decode = 0;
        us.cpu = elems * 32 / 20e3; /* 20 Gbit/s */
    }
    return us;
}

static void check_formula(const struct wring_cost_model *model, uint32_t option,
                          const struct artifact *codec)
{
    static const double sizes[] = {1, 1000, 1 << 20, 3e6, 8 << 20, 1e8, 1e9};
    const struct wring_cost_option *found = &model->options[option];
    enum wring_known_option known = wring_option_known(&found->option, false);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        double x = sizes[i];
        struct lanes_us want =
            formula(codec, known, found->site, model->nodes, model->ranks_per_node, x);
        CHECK(wring_near(wring_made_model_lane(model, option, "device", x), want.device),
              "%s: encoding of %g: %g", codec->spec, x,
              wring_made_model_lane(model, option, "device", x));
        CHECK(wring_near(wring_made_model_lane(model, option, "decode", x), want.decode),
              "%s: decoding", codec->spec);
        CHECK(wring_near(wring_made_model_lane(model, option, "cpu", x), want.cpu), "%s: CPU",
              codec->spec);
        CHECK(wring_near(wring_made_model_lane(model, option, "inter", x), want.inter), "%s: inter",
              codec->spec);
        CHECK(wring_near(wring_made_model_lane(model, option, "intra-in", x), want.intra) &&
                  wring_near(wring_made_model_lane(model, option, "intra-out", x), want.intra),
              "%s: intra of %g: %g, not %g", codec->spec, x,
              wring_made_model_lane(model, option, "intra-in", x), want.intra);
    }
}

/** Two-level coding on the CPU is not among the artifact's figures. */
static bool is_artifacts(const struct wring_cost_option *option)
{
    enum wring_known_option known = wring_option_known(&option->option, false);

    return known == WRING_KNOWN_INTER_ONLY ||
           (known == WRING_KNOWN_TWO_LEVEL && option->site == WRING_SITE_DEVICE);
}

static void artifact_formulas(void)
{
    static const uint32_t clusters[][2] = {{8, 8}, {2, 4}, {64, 8}, {3, 7}};
    static const uint64_t elems[] = {1000};
    static const double ready[] = {0};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;

    wring_made_trace(1, elems, ready, &made);
    for (size_t i = 0; i < sizeof(clusters) / sizeof(clusters[0]); i++)
        for (size_t j = 0; j < sizeof(artifacts) / sizeof(artifacts[0]); j++) {
            struct wring_cost_model_params params = {.trace = &made.trace,
                                                     .profile = profile,
                                                     .nodes = clusters[i][0],
                                                     .ranks_per_node = clusters[i][1],
                                                     .codecs = &artifacts[j].spec,
                                                     .n_codecs = 1,
                                                     .keep_dominated = true};
            struct wring_cost_model *model = wring_made_model(&params);
            int checked = 0;
            for (uint32_t option = 0; option < model->problem.n_options; option++)
                if (model->options[option].codec == 2 && is_artifacts(&model->options[option])) {
                    check_formula(model, option, &artifacts[j]);
                    checked++;
                }
            CHECK(checked == 3, "%d options of the artifact", checked);
            wring_cost_model_destroy(model);
        }
    wring_profile_destroy(profile);
}

/** F lets what the CPU codes travel with it, past the network. */
static void serial_cpu(void)
{
    static const uint64_t elems[] = {1 << 20};
    static const double ready[] = {0};
    static const char *const codecs[] = {"onebit"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {.trace = &made.trace,
                                             .profile = profile,
                                             .timeline = WRING_TIMELINE_SERIAL,
                                             .codecs = codecs,
                                             .n_codecs = 1,
                                             .keep_dominated = true};

    wring_made_trace(1, elems, ready, &made);
    struct wring_cost_model *model = wring_made_model(&params);
    CHECK(model->problem.n_lanes == 3, "%u lanes", model->problem.n_lanes);
    for (uint32_t i = 0; i < model->problem.n_options; i++) {
        const struct wring_cost_option *option = &model->options[i];
        if (option->codec != 2 ||
            wring_option_known(&option->option, false) != WRING_KNOWN_INTER_ONLY)
            continue;
        double kb = 4194.304, comm = 300 + 0.4 * 1.75 * kb / 2 + 0.8 * 1.75 * kb / 32;
        double cpu = option->site == WRING_SITE_CPU ? (1 << 20) * 0.0016 + comm : 0;
        double net = option->site == WRING_SITE_CPU ? 0 : comm + 170;
        CHECK(wring_near(wring_made_model_lane(model, i, "net", 1 << 20), net), "net: %g, not %g",
              wring_made_model_lane(model, i, "net", 1 << 20), net);
        CHECK(wring_near(wring_made_model_lane(model, i, "cpu", 1 << 20), cpu), "cpu: %g, not %g",
              wring_made_model_lane(model, i, "cpu", 1 << 20), cpu);
    }
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"by_hand", by_hand},
        {"artifact_formulas", artifact_formulas},
        {"serial_cpu", serial_cpu},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
