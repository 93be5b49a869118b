/* SPDX-License-Identifier: Apache-2.0 */
/** Codecs whose codes owners add as they are: when plans take them, and as what these run. */
#include <string.h>

#include "planner/core/files/plan.h"
#include "planner/core/search/search.h"
#include "tests/lib/test.h"
#include "tests/planner/made_model.h"
#include "tests/planner/made_trace.h"

enum {
    INT8,
    SHAREDINT,
    CODECS
};

/** Eight nodes of one rank; two codecs of a byte for each element, alike but for what they are. */
struct made {
    struct wring_profile profile;
    struct wring_profile_codec codecs[CODECS];
    struct wring_made_trace trace;
};

static const char *const names[] = {"int8", "sharedint"};
static const uint64_t elems[] = {1 << 20, 1 << 20};
static const double ready_us[] = {100, 200};

static void make(struct made *made)
{
    *made = (struct made){.profile = {.name = "made",
                                      .nodes = 8,
                                      .ranks_per_node = 1,
                                      .chunked = true,
                                      .n_codecs = CODECS,
                                      .codecs = made->codecs}};
    made->profile.links[WRING_LEVEL_INTER] = (struct wring_profile_link){
        .present = true, .latency_us = 20, .us = wring_cost_line(0, 0.003)};
    for (int i = 0; i < CODECS; i++) {
        made->codecs[i] = (struct wring_profile_codec){
            .nmse = 1e-4, .summable = i == SHAREDINT, .wire_bytes = wring_cost_line(0, 1)};
        strcpy(made->codecs[i].spec, names[i]);
        made->codecs[i].at[WRING_SITE_CPU] =
            (struct wring_profile_coding){.present = true,
                                          .encode_us = wring_cost_line(1, 0.002),
                                          .decode_us = wring_cost_line(1, 0.002),
                                          .decode_add_us = wring_cost_line(1, 0.004)};
    }
    made->codecs[SHAREDINT].at[WRING_SITE_CPU].sum_us = wring_cost_line(0.5, 0.0005);
    wring_made_trace(2, elems, ready_us, &made->trace);
}

/** The plan that a search finds among those that run here. @return NULL: a check failed */
static struct wring_plan *plan_of(const struct made *made, const char *const *codecs,
                                  uint32_t n_codecs)
{
    const struct wring_cost_model_params params = {.trace = &made->trace.trace,
                                                   .profile = &made->profile,
                                                   .timeline = WRING_TIMELINE_FULL,
                                                   .codecs = codecs,
                                                   .n_codecs = n_codecs,
                                                   .sites = 1u << WRING_SITE_CPU,
                                                   .runnable = true};
    struct wring_cost_model *model = wring_made_model(&params);
    struct wring_plan *plan = NULL;
    struct wring_found found;

    if (model == NULL)
        return NULL;
    struct wring_search_params search = {.offload = model->offload,
                                         .on_device = model->on_device,
                                         .uncompressed = model->uncompressed,
                                         .method = WRING_SEARCH_BEST};
    CHECK(wring_search_run(&model->problem, &search, &found) == WRING_OK, "no search");
    CHECK(wring_plan_create(model, &made->trace.trace, &made->profile, &found.grouping, &plan) ==
              WRING_OK,
          "no plan");
    wring_grouping_finish(&found.grouping);
    wring_cost_model_destroy(model);
    return plan;
}

/** @param us  out, its time */
static void check_plan(const struct made *made, const char *codec, bool sums, double *us)
{
    struct wring_plan *plan = plan_of(made, names, CODECS);

    REQUIRE(plan != NULL, "no plan");
    for (uint32_t i = 0; i < plan->n_groups; i++) {
        const struct wring_plan_group *group = &plan->groups[i];
        bool added = strstr(group->scheme, "reduce*") != NULL ||
                     strstr(group->scheme, "reduce-scatter*") != NULL;
        CHECK(strcmp(group->codec, codec) == 0 && strcmp(group->run_as, "divisible") == 0 &&
                  added == sums,
              "group %u: %s as \"%s\": %s", i, group->codec, group->run_as, group->scheme);
    }
    *us = plan->iteration_us;
    wring_plan_destroy(plan);
}

/** Cheap sums win over decoding, adding and encoding; dear ones lose; an older profile, which does
 *  not know, has them take as long as decoding and adding. */
static void chosen_where_best(void)
{
    static struct made made;
    double cheap = 0, older = 0, other = 0;
    struct wring_cost *sum_us;

    make(&made);
    sum_us = &made.codecs[SHAREDINT].at[WRING_SITE_CPU].sum_us;
    check_plan(&made, "sharedint", true, &cheap);
    *sum_us = wring_cost_line(0.5, 0.02);
    check_plan(&made, "int8", false, &other);
    sum_us->n = 0;
    check_plan(&made, "sharedint", true, &older);
    CHECK(cheap < older && older < other, "%g, %g and %g us", cheap, older, other);
}

/** A file may call codes summable that the runtime does not add: then no such plan runs. */
static void summable_by_hearsay(void)
{
    static struct made made;

    make(&made);
    made.codecs[INT8].summable = true;
    made.codecs[INT8].at[WRING_SITE_CPU].sum_us = wring_cost_line(0, 0);
    made.profile.n_codecs = 1;
    struct wring_plan *plan = plan_of(&made, names, 1);
    REQUIRE(plan != NULL, "no plan");
    for (uint32_t i = 0; i < plan->n_groups; i++)
        CHECK(strcmp(plan->groups[i].run_as, "divisible") == 0 &&
                  strstr(plan->groups[i].scheme, "alltoall*") != NULL,
              "group %u as \"%s\": %s", i, plan->groups[i].run_as, plan->groups[i].scheme);
    wring_plan_destroy(plan);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"chosen_where_best", chosen_where_best},
        {"summable_by_hearsay", summable_by_hearsay},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
