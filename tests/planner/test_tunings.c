/* SPDX-License-Identifier: Apache-2.0 */
/** Pinned cores and sizes of pieces: which are known, what they make of costs, and what plans say.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planner/core/files/plan.h"
#include "planner/core/model/measured_collective.h"
#include "planner/core/model/option_work.h"
#include "planner/core/model/tunings.h"
#include "planner/core/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_tunings.h"

static void coders_say_which_cores_there_are(void)
{
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    made_tunings_check_list(&made, NULL, "0:256 1:256 2:256 4:256");
    made_tunings_check_list(&made, &(struct wring_tunings_wanted){.n_cores = 2, .cores = {4, 1}},
                            "1:256 4:256");
    made_tunings_check_list(
        &made, &(struct wring_tunings_wanted){.n_chunks = 2, .chunk_bytes = {65536, 262144}},
        "0:256 1:256 2:256 4:256 0:64 1:64 2:64 4:64");
    made_tunings_check_list(
        &made, &(struct wring_tunings_wanted){.n_cores = 1, .cores = {3}},
        "cannot tell what these codecs take on 3 cores pinned in each of a node's 1 ranks; it "
        "can tell for 0, 1, 2, 4, where 0 is inline");
    made.params.sites = 1u << WRING_SITE_DEVICE;
    made_tunings_check_list(&made, NULL, "0:256");
    made_tunings_set_up(&made, 2, 2);
    made_tunings_check_list(&made, NULL,
                            "0:256 1:256 2:256"); /* twice four are more than a node has */
    made.codec.n_coders = 0;
    made_tunings_check_list(&made, NULL, ""); /* nothing is known: all is left to the job */
    made_tunings_check_list(&made, &(struct wring_tunings_wanted){.n_cores = 1, .cores = {1}},
                            "can tell for 0");
    made_tunings_set_up(&made, 2, 1);
    made.params.timeline = WRING_TIMELINE_PHASES;
    made_tunings_check_list(&made, NULL, "");
    made_tunings_check_list(&made, &(struct wring_tunings_wanted){.n_cores = 1},
                            "but in timeline full");
}

/** What a lane takes of 2^20 elements at once, everything coded between the nodes in two steps. */
static double code_us(struct made_tunings *made, const struct wring_tuning *tuning, uint64_t *chunk)
{
    made->params.tuning = tuning;
    made->params.keep_dominated = true;
    struct wring_cost_model *model = wring_made_model(&made->params);
    double us = NAN;

    if (model == NULL)
        return us;
    for (uint32_t i = 0; i < model->problem.n_options; i++)
        if (wring_option_known(&model->options[i].option, true) == WRING_KNOWN_INTER_ONLY) {
            us = wring_made_model_lane(model, i, "cpu", 1 << 20);
            *chunk = model->options[i].chunk_elems;
            CHECK(model->options[i].cores == (tuning != NULL ? tuning->cores : 0), "%u cores",
                  model->options[i].cores);
        }
    wring_cost_model_destroy(model);
    return us;
}

static void coders_say_what_they_take(void)
{
    const struct wring_tuning two = {2, 256 * KIB}, small = {0, 64 * KIB};
    const double x = 1 << 20;
    struct made_tunings made;
    uint64_t chunk = 0;

    /* all and half of it again is encoded, and twice all decoded: with what one core was measured
       to take, inline, and on two */
    made_tunings_set_up(&made, 2, 1);
    CHECK(wring_near(code_us(&made, NULL, &chunk), (1.5 * 0.004 + 2 * 0.003) * x), "as measured");
    CHECK(chunk == 256 * KIB, "%llu", (unsigned long long)chunk);
    CHECK(wring_near(code_us(&made, &small, &chunk), (1.5 * 0.002 + 2 * 0.001) * x), "inline");
    CHECK(chunk == 64 * KIB, "%llu", (unsigned long long)chunk);
    CHECK(wring_near(code_us(&made, &two, &chunk), 30 + (1.5 * 0.001 + 2 * 0.0005) * x), "on two");
    /* each rank of a node codes what is its own; eight of them share four cores */
    made_tunings_set_up(&made, 1, 2);
    CHECK(wring_near(code_us(&made, NULL, &chunk), 2 * (1.5 * 0.004 + 2 * 0.003) * x),
          "one core for both");
    CHECK(wring_near(code_us(&made, &two, &chunk), 30 + (1.5 * 0.001 + 2 * 0.0005) * x),
          "two cores each");
    made_tunings_set_up(&made, 1, 8);
    CHECK(wring_near(code_us(&made, &small, &chunk), 2 * (1.125 * 0.002 + 2 * 0.001) * x),
          "shared");
}

static void collectives_are_those_of_the_tuning(void)
{
    const struct wring_tuning large = {0, 1024 * KIB}, scaling = {8, 256 * KIB},
                              usual = {0, 256 * KIB}, none = {3, 256 * KIB};
    const double x = 1 << 20;
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    made.codec.n_coders = 0;
    made_tunings_add_collectives(&made, 1, NULL);
    made_tunings_check_list(&made, NULL, ""); /* as it comes */
    made_tunings_add_collectives(&made, 0.5, &large);
    made_tunings_add_collectives(&made, 2, &scaling);
    made_tunings_check_list(&made, NULL, "0:256 8:256 0:1024");
    CHECK(wring_near(made_tunings_busy_us(&made, NULL), 10 + 0.008 * x), "as it comes");
    CHECK(wring_near(made_tunings_busy_us(&made, &usual), 10 + 0.008 * x), "the default");
    CHECK(wring_near(made_tunings_busy_us(&made, &large), 10 + 0.004 * x), "large pieces");
    CHECK(wring_near(made_tunings_busy_us(&made, &scaling), 10 + 0.016 * x), "pinned");
    made_tunings_check_list(
        &made, &(struct wring_tunings_wanted){.n_chunks = 1, .chunk_bytes = {4096}},
        "no collectives in pieces of 4096 bytes; it has those of 262144, 1048576");
    made.params.tuning = &none;
    struct wring_core_scaling asked = {
        .profile = &made.profile, .nodes = 2, .ranks_per_node = 1, .tuning = &none};
    struct wring_measured_cost cost;
    CHECK(wring_core_scaling_collective(&asked, "byte", "divisible", &cost) == NULL,
          "from nowhere");
    /* a codec that was measured otherwise only has no figures there */
    made.params.tuning = NULL;
    made_tunings_add_collective(&made, "none", "auto", 1, &(struct wring_tuning){0, 128 * KIB});
    made_tunings_check_list(&made, NULL, "0:256 8:256 0:1024");
}

/** What has no collectives of its own stands beside what has, and a line says so. */
static void collectives_are_put_together(void)
{
    const struct wring_tuning one = {1, 256 * KIB};
    const double x = 1 << 20;
    struct made_line line = {""};
    struct wring_log log = {.fn = made_tunings_take_line, .arg = &line, .level = WRING_LOG_WARN};
    struct wring_cost_model *model = NULL;
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    made_tunings_add_collective(&made, "none", "auto", 0.02, NULL);
    /* whole: encoded once, two codes added up, one on the link */
    CHECK(wring_near(made_tunings_busy_us(&made, NULL), (0.002 + 2 * 0.001 + 0.001) * x),
          "inline: %g", made_tunings_busy_us(&made, NULL));
    CHECK(wring_near(made_tunings_busy_us(&made, &one), 5 + 2 * 5 + 0.005 * x), "on one core: %g",
          made_tunings_busy_us(&made, &one));
    made.params.tuning = NULL;
    CHECK(wring_cost_model_create(&made.params, &log, &model) == WRING_OK, "no model");
    CHECK(strstr(line.text, "no whole collectives of byte: ") != NULL, "%s", line.text);
    wring_cost_model_destroy(model);
    line.text[0] = '\0';
    made_tunings_add_collective(&made, "byte", "divisible", 0.008, NULL);
    CHECK(wring_cost_model_create(&made.params, &log, &model) == WRING_OK, "no model");
    CHECK(line.text[0] == '\0', "%s", line.text);
    wring_cost_model_destroy(model);
    CHECK(wring_near(made_tunings_busy_us(&made, NULL), 10 + 0.008 * x), "as measured");
}

/** Gradients that lie apart are copied together and back. */
static void copies_are_counted(void)
{
    const double x = 1 << 20;
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    made.params.scattered = true;
    struct wring_cost_model *model = NULL;
    struct wring_log quiet = {
        .level = WRING_LOG_ERROR, .fn = made_tunings_take_line, .arg = &(struct made_line){""}};
    CHECK(wring_cost_model_create(&made.params, &quiet, &model) == WRING_ERR_INVALID,
          "nobody measured copies");
    made.profile.copy_us = wring_cost_line(3, 0.0001);
    uint64_t chunk;
    CHECK(wring_near(code_us(&made, NULL, &chunk),
                     (1.5 * 0.004 + 2 * 0.003) * x + 2 * (3 + 0.0004 * x)),
          "%g", code_us(&made, NULL, &chunk));
    made_tunings_add_collectives(&made, 1, NULL);
    CHECK(wring_near(made_tunings_busy_us(&made, NULL), 10 + 0.008 * x + 2 * (3 + 0.0004 * x)),
          "%g", made_tunings_busy_us(&made, NULL));
}

/** The best of a model's plans; @return its time. */
static double plan_with(struct made_tunings *made, const struct wring_tuning *tuning,
                        struct wring_plan **plan)
{
    made->params.tuning = tuning;
    struct wring_cost_model *model = wring_made_model(&made->params);
    struct wring_search_params search = {.uncompressed = 0};
    struct wring_found found;

    *plan = NULL;
    if (model == NULL)
        return NAN;
    search.uncompressed = model->uncompressed;
    CHECK(wring_search_run(&model->problem, &search, &found) == WRING_OK, "no plan");
    CHECK(wring_plan_create(model, &made->trace.trace, &made->profile, &found.grouping, plan) ==
              WRING_OK,
          "no plan");
    wring_grouping_finish(&found.grouping);
    wring_cost_model_destroy(model);
    return found.time_us;
}

static void plans_say_their_tuning(void)
{
    const struct wring_tuning four = {4, 64 * KIB}, is_inline = {0, 256 * KIB};
    struct wring_plan *plan;
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    double as_measured = plan_with(&made, NULL, &plan);
    REQUIRE(plan != NULL, "no plan");
    CHECK(plan->executor[0] == '\0' && plan->chunk_bytes == 0 && plan->groups[0].cores == 0,
          "%s, %llu", plan->executor, (unsigned long long)plan->chunk_bytes);
    wring_plan_destroy(plan);
    double alone = plan_with(&made, &is_inline, &plan);
    REQUIRE(plan != NULL, "no plan");
    CHECK(strcmp(plan->executor, "inline") == 0 && plan->chunk_bytes == 262144 &&
              plan->groups[0].cores == 0,
          "%s, %llu", plan->executor, (unsigned long long)plan->chunk_bytes);
    wring_plan_destroy(plan);
    double scaling = plan_with(&made, &four, &plan);
    REQUIRE(plan != NULL, "no plan");
    CHECK(strcmp(plan->executor, "pool:4") == 0 && plan->chunk_bytes == 65536 &&
              plan->groups[0].cores == 4,
          "%s, %llu, %u", plan->executor, (unsigned long long)plan->chunk_bytes,
          plan->groups[0].cores);
    wring_plan_destroy(plan);
    CHECK(scaling < alone && alone < as_measured, "%g, %g, %g", scaling, alone, as_measured);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"coders_say_which_cores_there_are", coders_say_which_cores_there_are},
        {"coders_say_what_they_take", coders_say_what_they_take},
        {"collectives_are_those_of_the_tuning", collectives_are_those_of_the_tuning},
        {"collectives_are_put_together", collectives_are_put_together},
        {"copies_are_counted", copies_are_counted},
        {"plans_say_their_tuning", plans_say_their_tuning},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
