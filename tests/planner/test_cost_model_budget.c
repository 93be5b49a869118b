/* SPDX-License-Identifier: Apache-2.0 */
/** The model: codecs that lose more than they may. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/core/files/profile_errors.h"
#include "planner/core/model/cost_model.h"
#include "planner/core/model/option_work.h"
#include "planner/core/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_trace.h"

#define SITE(site) (1u << WRING_SITE_##site)

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
        if (strcmp(profile->codecs[i].spec, "fp16") == 0)
            profile->codecs[i].nmse = NAN;
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
            codec->at[WRING_SITE_CPU].encode_us = codec->at[WRING_SITE_DEVICE].encode_us =
                codec->at[WRING_SITE_CPU].decode_us = codec->at[WRING_SITE_DEVICE].decode_us =
                    codec->two_level[WRING_SITE_DEVICE].encode_us =
                        codec->two_level[WRING_SITE_DEVICE].decode_us = wring_cost_line(0, 0);
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

/** A codec's sums may lose less on their way back, or nothing, than contributions on theirs. */
static void budget_of_ways_back(void)
{
    static const uint64_t elems[] = {50000000};
    static const double ready[] = {0};
    static const char *const codecs[] = {"onebit"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {.trace = &made.trace,
                                             .profile = profile,
                                             .codecs = codecs,
                                             .n_codecs = 1,
                                             .max_nmse = 0.5,
                                             .keep_dominated = true};

    wring_made_trace(1, elems, ready, &made);
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < profile->n_codecs; i++) {
            struct wring_profile_codec *codec = &profile->codecs[i];
            if (strcmp(codec->spec, "onebit") != 0)
                continue;
            codec->nmse = 0.4;
            codec->traits.way_back =
                (struct wring_profile_way_back){.bytes = wring_cost_line(0, turn), .nmse = 0.05};
            codec->traits.way_back.bytes.n = turn == 1;
        }
        struct wring_cost_model *model = wring_made_model(&params);
        uint32_t twice = 0, other = 0;
        for (uint32_t o = 0; o < model->problem.n_options; o++) {
            struct wring_encodings n = wring_option_encodings(&model->options[o].option);
            bool is_onebit = strcmp(model->codecs[model->options[o].codec].spec, "onebit") == 0;
            twice += is_onebit && may(model, 0, o) && n.in == 1 && n.back > 0;
            other += is_onebit && may(model, 0, o) && n.in > 1;
        }
        CHECK(turn == 0 ? twice == 0 : twice > 0, "turn %d: %u options", turn, twice);
        CHECK(other == 0, "%u options encode contributions twice", other);
        wring_cost_model_destroy(model);
    }
    wring_profile_destroy(profile);
}

/** A pair that was measured as one has the error of both ways; of other pairs each codec has its
 *  own, and the first one's way back is none of theirs. */
static void budget_of_pairs_measured_as_one(void)
{
    static const uint64_t elems[] = {50000000};
    static const double ready[] = {0}, lost_back[] = {0.05, 0.2};
    static const char *const codecs[] = {"onebit+ef>int8", "hashed>int8"};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .codecs = codecs, .n_codecs = 2, .max_nmse = 0.5};

    wring_made_trace(1, elems, ready, &made);
    for (int turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < profile->n_codecs; i++) {
            struct wring_profile_codec *codec = &profile->codecs[i];
            if (strcmp(codec->spec, codecs[0]) != 0 && strcmp(codec->spec, "hashed") != 0)
                continue;
            codec->nmse = 0.4;
            codec->traits.way_back.nmse = lost_back[turn];
        }
        struct wring_cost_model *model = wring_made_model(&params);
        bool has[2] = {false};
        for (uint32_t i = 0; i < model->n_codecs; i++)
            for (int pair = 0; pair < 2; pair++)
                has[pair] = has[pair] || strcmp(model->codecs[i].spec, codecs[pair]) == 0;
        CHECK(has[0] == (turn == 0), "as one, %g lost on the way back", lost_back[turn]);
        CHECK(has[1], "one by one, %g lost on another way back", lost_back[turn]);
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
        .trace = &made.trace, .profile = profile, .sites = SITE(CPU)};

    wring_made_trace(1, elems, ready, &made);
    struct wring_cost_model *model = wring_made_model(&params);
    CHECK(model->fp16 < model->problem.n_options, "nothing to compare with");
    CHECK(wring_near(wring_made_model_lane(model, model->fp16, "device", 1), 4), "another fp16");
    CHECK(model->problem.allowed != NULL && !(model->problem.allowed[0] >> model->fp16 & 1),
          "the device codes");
    wring_cost_model_destroy(model);
    wring_profile_destroy(profile);
}

/** The built-in entry of a codec of the library, whatever its parameters; NULL: there is none. */
static const struct wring_profile_codec *find_builtin(const struct wring_profile *profile,
                                                      const char *name)
{
    size_t n = strlen(name);

    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        const char *spec = profile->codecs[i].spec;
        if (strncmp(spec, name, n) == 0 && strchr(":+/>", spec[n]) != NULL &&
            strstr(spec, "=R") == NULL)
            return &profile->codecs[i];
    }
    return NULL;
}

/** A large budget admits a codec, and half of its error does not. */
static void check_budgets(struct wring_cost_model_params *params,
                          const struct wring_profile_codec *codec)
{
    const char *const specs[] = {codec->spec};
    const double budgets[] = {1e6, codec->nmse / 2};

    params->codecs = specs;
    params->n_codecs = 1;
    for (int i = 0; i < (codec->nmse > 0 ? 2 : 1); i++) {
        params->max_nmse = budgets[i];
        struct wring_cost_model *model = wring_made_model(params);
        REQUIRE(model != NULL, "%s: no model", codec->spec);
        CHECK((count_may(model, 0, codec->spec) > 0) == (i == 0), "%s: a budget of %g", codec->spec,
              budgets[i]);
        wring_cost_model_destroy(model);
    }
}

/** Budgets judge every codec of the library by what the built-in profiles know of it. */
static void every_codec(void)
{
    static const uint64_t elems[] = {5000000};
    static const double ready[] = {0};
    struct wring_profile *profile = wring_profile_builtin("espresso-pcie");
    struct wring_made_trace made;
    struct wring_cost_model_params params = {
        .trace = &made.trace, .profile = profile, .sites = SITE(DEVICE) | SITE(CPU)};

    REQUIRE(profile != NULL, "no profile");
    wring_made_trace(1, elems, ready, &made);
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        const struct wring_profile_codec *codec = find_builtin(profile, (*ops)->name);
        if (strcmp((*ops)->name, "none") == 0)
            continue;
        REQUIRE(codec != NULL, "no %s", (*ops)->name);
        CHECK(codec->nmse >= 0, "%s: nobody measured its error", codec->spec);
        check_budgets(&params, codec);
    }
    wring_profile_destroy(profile);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"budget", budget},
        {"nothing_may_be_lost", nothing_may_be_lost},
        {"budget_by_tensor", budget_by_tensor},
        {"budget_by_encodings", budget_by_encodings},
        {"budget_of_ways_back", budget_of_ways_back},
        {"budget_of_pairs_measured_as_one", budget_of_pairs_measured_as_one},
        {"fp16_elsewhere", fp16_elsewhere},
        {"every_codec", every_codec},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
