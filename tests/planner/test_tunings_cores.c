/* SPDX-License-Identifier: Apache-2.0 */
/** Whose cores codecs, progress and computing have, and what they leave each other. */
#include "planner/core/model/measured_collective.h"
#include "planner/core/model/option_work.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_tunings.h"

static void codec_work_moves_where_there_is_room(void)
{
    const struct wring_tuning two = {2, 256 * KIB};
    const double x = 1 << 20;
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    made_tunings_add_collectives(&made, 1, NULL);
    made_tunings_check_list(&made, NULL, "0:256 1:256 2:256 4:256"); /* of eight cores */
    /* 0.008 in all, 0.003 of it codec work: 0.005 remains, the link has 0.001 */
    CHECK(wring_near(made_tunings_busy_us(&made, &two), 10 + 0.005 * x), "the rest: %g",
          made_tunings_busy_us(&made, &two));
    /* half of what is decoded is added up, the other half goes into place */
    made.codec.coders[0].decode_add = made_curve(0, 0.002);
    CHECK(wring_near(made_tunings_busy_us(&made, &two), 10 + 0.0045 * x), "adding: %g",
          made_tunings_busy_us(&made, &two));
    made.profile.links[WRING_LEVEL_INTER].us = wring_cost_line(0, 0.006);
    CHECK(wring_near(made_tunings_busy_us(&made, &two), 0.006 * x), "the link: %g",
          made_tunings_busy_us(&made, &two));
    made.profile.links[WRING_LEVEL_INTER].us = wring_cost_line(0, 0.05);
    CHECK(wring_near(made_tunings_busy_us(&made, &two), 10 + 0.008 * x), "no worse: %g",
          made_tunings_busy_us(&made, &two));
    made.profile.links[WRING_LEVEL_INTER].us = wring_cost_line(0, 0.001);
    made.collectives[1].cpu = made_curve(9, 0.007);
    CHECK(wring_near(made_tunings_busy_us(&made, &two), 10 + 0.008 * x), "who waits: %g",
          made_tunings_busy_us(&made, &two));
    made.codec.coders[2].encode = made_curve(0, 0.02);
    made.codec.coders[2].decode = made_curve(0, 1e-4);
    CHECK(made_tunings_busy_us(&made, &two) > 0.02 * x, "slow cores: %g",
          made_tunings_busy_us(&made, &two));
    made.params.computing = WRING_COMPUTING_PROCESSOR;
    made.collectives[0].cores = made.collectives[1].cores = 4;
    made_tunings_check_list(&made, NULL,
                            "0:256 1:256 2:256"); /* one computes, one makes progress */
    made.params.tuning = NULL;
    made_tunings_set_up(&made, 2, 2);
    made_tunings_add_collectives(&made, 1, NULL);
    made_tunings_check_list(&made, NULL, ""); /* two kinds of links */
    made_tunings_set_up(&made, 1, 4);
    made_tunings_add_collectives(&made, 1, NULL);
    made_tunings_check_list(&made, NULL, "0:256 1:256"); /* eight cores for four ranks */
}

/** Two ranks on two processors were measured, of 0.02 us and 4 bytes on the link for each element.
 */
static void set_up_two(struct made_tunings *made)
{
    made_tunings_set_up(made, 1, 2);
    made->codec.n_coders = 1;
    made_tunings_add_collectives(made, 1, NULL);
    made->collectives[0].cores = made->collectives[1].cores = 2;
}

static void coding_and_progress_are_on_the_same_cores(void)
{
    const double x = 1 << 20;
    const struct wring_tuning is_inline = {0, 256 * KIB};
    struct made_tunings made;

    set_up_two(&made);
    struct wring_cost_model *two = wring_made_model(&made.params);
    made.params.ranks_per_node = 4;
    made.params.tuning = &is_inline;
    struct wring_cost_model *four = wring_made_model(&made.params);
    REQUIRE(two != NULL && four != NULL, "no model");
    double raw = wring_made_model_time(four, four->uncompressed);
    CHECK(four->source == WRING_COSTS_PARTS, "%d", four->source);
    /* half again as many bytes, and half of a processor */
    CHECK(raw > 2.9 * wring_made_model_time(two, two->uncompressed), "four ranks take %g", raw);
    CHECK(wring_near(wring_made_model_lane(four, four->uncompressed, "cpu", x), 20 + 0.06 * x),
          "raw: %g", wring_made_model_lane(four, four->uncompressed, "cpu", x));
    for (uint32_t i = 0; i < four->problem.n_options; i++)
        if (four->options[i].codec == 1 &&
            wring_option_known(&four->options[i].option, true) == WRING_KNOWN_INTER_ONLY) {
            /* encodes all and a quarter, decodes twice all, and passes on three quarters twice */
            double us = wring_made_model_lane(four, i, "cpu", x);
            double want = 2 * (1.25 * 0.002 + 2 * 0.001) * x + 2 * (20 + 1.5 * 0.005 * x);
            CHECK(wring_near(us, want), "coded: %g, not %g", us, want);
        }
    wring_cost_model_destroy(two);
    wring_cost_model_destroy(four);
}

static void progress_has_what_codecs_leave(void)
{
    static const struct {
        uint32_t processors, ranks, cores;
        double share;
    } cases[] = {{8, 4, 0, 1},   {2, 4, 0, 2}, {8, 4, 1, 0},
                 {6, 4, 1, 0.5}, {4, 4, 1, 1}, {2, 4, 1, 1}};
    struct made_tunings made;

    set_up_two(&made);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct wring_tuning tuning = {cases[i].cores, 256 * KIB};
        const struct wring_core_scaling scaling = {.profile = &made.profile,
                                                   .nodes = 1,
                                                   .ranks_per_node = cases[i].ranks,
                                                   .tuning = &tuning};
        struct wring_cost us = {0};
        made.collectives[0].cores = made.collectives[1].cores = cases[i].processors;
        CHECK(wring_core_scaling_progress(&scaling, &us) == (cases[i].share > 0), "%zu", i);
        CHECK(wring_near(wring_cost_at(&us, 4e6), cases[i].share * (10 + 0.02e6)), "%zu: %g", i,
              wring_cost_at(&us, 4e6));
    }
}

static void computing_takes_its_part_of_the_cores(void)
{
    static const struct {
        uint32_t processors, ranks;
        double lost;
    } cases[] = {{2, 2, 0.5}, {8, 2, 0.2}, {1, 1, 0.5}, {8, 1, 0}, {3, 2, 0.25}, {2, 8, 0.5}};
    struct made_tunings made;

    set_up_two(&made);
    made.profile.computing.spin_lost = 0.2; /* of two ranks */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct wring_core_scaling scaling = {
            .profile = &made.profile, .nodes = 1, .ranks_per_node = cases[i].ranks};
        made.collectives[0].cores = made.collectives[1].cores = cases[i].processors;
        CHECK(wring_near(wring_core_scaling_spin_lost(&scaling), cases[i].lost), "%zu: %g", i,
              wring_core_scaling_spin_lost(&scaling));
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"codec_work_moves_where_there_is_room", codec_work_moves_where_there_is_room},
        {"coding_and_progress_are_on_the_same_cores", coding_and_progress_are_on_the_same_cores},
        {"progress_has_what_codecs_leave", progress_has_what_codecs_leave},
        {"computing_takes_its_part_of_the_cores", computing_takes_its_part_of_the_cores},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
