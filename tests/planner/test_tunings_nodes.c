/* SPDX-License-Identifier: Apache-2.0 */
/** Collectives that were measured, of nodes and of links: which a model takes. */
#include <stdio.h>
#include <string.h>

#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_tunings.h"

static enum wring_cost_source source_of(const struct made_tunings *made)
{
    struct wring_cost_model *model = wring_made_model(&made->params);
    enum wring_cost_source source = model != NULL ? model->source : WRING_COSTS_NOTHING;

    wring_cost_model_destroy(model);
    return source;
}

/** Ranks alone say little: two on a node have no link between nodes. */
static void collectives_are_those_of_the_nodes(void)
{
    struct made_tunings made;

    made_tunings_set_up(&made, 1, 2);
    made_tunings_add_collectives(&made, 1, NULL);
    CHECK(source_of(&made) == WRING_COSTS_MEASURED, "its own cluster: %d", source_of(&made));
    made.params.link_scale = 4; /* of links that it has not */
    CHECK(source_of(&made) == WRING_COSTS_MEASURED, "no links: %d", source_of(&made));
    made.params.nodes = 2;
    made.params.ranks_per_node = 1;
    made.params.link_scale = 1;
    CHECK(source_of(&made) == WRING_COSTS_PARTS, "two nodes: %d", source_of(&made));
    made_tunings_check_list(&made, NULL,
                            "0:256 1:256 2:256 4:256"); /* as coders say, not collectives */
    made.params.nodes = made.params.ranks_per_node = 1;
    CHECK(source_of(&made) == WRING_COSTS_NOTHING, "one rank: %d", source_of(&made));
}

/** What a model of collectives runs an option of the codec as; "" where it has none. */
static void list_run_as(const struct made_tunings *made, uint32_t codec, char *text, size_t bytes)
{
    struct wring_cost_model *model = wring_made_model(&made->params);
    const char *spec = codec > 0 ? "byte" : "none";
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; model != NULL && i < model->problem.n_options; i++)
        if (model->options[i].codec == codec)
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? " " : "",
                                     model->options[i].collective->run_as);
    CHECK(model != NULL, "no model of %s", spec);
    wring_cost_model_destroy(model);
}

/** What was measured of nodes is offered, and is what codecs are compared with where it is faster.
 */
static void collectives_in_nodes_are_options(void)
{
    struct made_tunings made;
    char text[128];

    made_tunings_set_up(&made, 2, 2);
    made_tunings_add_collective(&made, "none", "auto", 0.004, NULL);
    made_tunings_add_collective(&made, "none", "hierarchical", 0.002, NULL);
    list_run_as(&made, 0, text, sizeof(text));
    CHECK(strcmp(text, "hierarchical") == 0, "raw: %s", text); /* the baseline, too */
    made_tunings_add_collective(&made, "byte", "divisible", 0.002, NULL);
    made_tunings_add_collective(&made, "byte", "hierarchical-indivisible", 0.001, NULL);
    list_run_as(&made, 1, text, sizeof(text));
    CHECK(strcmp(text, "hierarchical-indivisible") == 0, "coded: %s", text);
}

/** It is measured, and not taken where the plan is to run. */
static void collectives_of_a_codec_with_state(void)
{
    static const char *const codecs[] = {"powersgd"};
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    snprintf(made.codec.spec, sizeof(made.codec.spec), "%s", codecs[0]);
    made.params.codecs = codecs;
    made_tunings_add_collective(&made, "none", "auto", 0.02, NULL);
    made_tunings_add_collective(&made, codecs[0], "indivisible", 0.008, NULL);
    for (int runnable = 0; runnable < 2; runnable++) {
        made.params.runnable = runnable == 1;
        struct wring_cost_model *model = wring_made_model(&made.params);
        CHECK(model != NULL && (model->n_allowed[1] > 0) == (runnable == 0), "runnable: %d",
              runnable);
        wring_cost_model_destroy(model);
    }
}

/** A further bucket's time and what one alone takes longer, of 2^20 elements, on such links. */
static void check_links(struct made_tunings *made, double scale, double busy, double rest)
{
    made->params.link_scale = scale;
    struct wring_cost_model *model = wring_made_model(&made->params);

    REQUIRE(model != NULL, "no model");
    CHECK(model->source == (scale == 1 ? WRING_COSTS_MEASURED : WRING_COSTS_RESCALED), "%d",
          model->source);
    for (uint32_t i = 0; i < model->problem.n_options; i++) {
        if (model->options[i].codec != 1)
            continue;
        double us[] = {wring_made_model_lane(model, i, "collective", 1 << 20),
                       wring_made_model_lane(model, i, "rest of it", 1 << 20)};
        CHECK(wring_near(us[0], busy) && wring_near(us[1], rest), "%g: %g and %g, not %g and %g",
              scale, us[0], us[1], busy, rest);
    }
    wring_cost_model_destroy(model);
}

static void collectives_have_links_as_fast_as_asked_for(void)
{
    const double x = 1 << 20, piece = 256 * KIB; /* a byte for each element */
    struct made_tunings made;

    made_tunings_set_up(&made, 2, 1);
    made.profile.links[WRING_LEVEL_INTER].us = wring_cost_line(0, 0.006);
    made_tunings_add_collectives(&made, 1, NULL);
    made.collectives[1].cpu = made_curve(0, 0.002);
    made.collectives[1].solo = made_curve(10, 0.009); /* 0.001 longer than a further one */
    check_links(&made, 1, 10 + 0.008 * x, 0.001 * x);
    /* the link decides: 0.012, and what was neither the link's nor the processor's stays */
    check_links(&made, 0.5, 10 + 0.014 * x, 0.001 * x);
    check_links(&made, 2, 10 + 0.005 * x, 0.001 * x);
    /* the processor decides, and the first piece's way over the link is shorter */
    check_links(&made, 6, 10 + 0.004 * x, 0.001 * x - 0.001 * piece);
    made.collectives[1].cpu =
        made_curve(10, 0.008); /* all of the time: a faster link gains nothing */
    check_links(&made, 2, 10 + 0.008 * x, 0.001 * x - 0.003 * piece);
    made_tunings_set_up(&made, 2, 2); /* two kinds of links: nobody knows whose time is which */
    made_tunings_add_collectives(&made, 1, NULL);
    CHECK(source_of(&made) == WRING_COSTS_MEASURED, "as they were: %d", source_of(&made));
    made.params.link_scale = 2;
    CHECK(source_of(&made) == WRING_COSTS_PARTS, "faster ones: %d", source_of(&made));
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"collectives_are_those_of_the_nodes", collectives_are_those_of_the_nodes},
        {"collectives_in_nodes_are_options", collectives_in_nodes_are_options},
        {"collectives_of_a_codec_with_state", collectives_of_a_codec_with_state},
        {"collectives_have_links_as_fast_as_asked_for",
         collectives_have_links_as_fast_as_asked_for},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
