/* SPDX-License-Identifier: Apache-2.0 */
/** What a plan is found with: the search, each codec alone, the proof. */
#include <string.h>

#include "base/clock.h"
#include "planner/each_codec.h"
#include "tools/plan/planning.h"

/** What is left of a time of which some was spent; 1 rather than none, which would be no limit. */
static uint64_t left_of(uint64_t ns, uint64_t spent_ns)
{
    return spent_ns < ns ? ns - spent_ns : 1;
}

/**
 * Each codec alone, where there is time: what the search was given and did not need, or else what
 * the proof has; all of them where neither has a limit. Without a proof the first answer stays.
 * @param params  of the model
 */
static enum wring_status try_each_codec(const struct wring_planning *planning,
                                        const struct wring_planned_want *want,
                                        const struct wring_cost_model_params *params,
                                        struct wring_planned *planned)
{
    struct wring_found *found = &planned->found;
    uint64_t took_ns = found->took_ns, evaluations = found->evaluations;
    uint64_t deadline_ns = WRING_NEVER;

    if (planning->search != WRING_SEARCH_BEST || planning->layers ||
        (planning->budget_ns == 0 && !want->bound))
        return WRING_OK;
    if (planning->budget_ns > 0)
        deadline_ns = wring_deadline_in(left_of(planning->budget_ns, took_ns));
    else if (planning->bound_ns > 0)
        deadline_ns = wring_deadline_in(planning->bound_ns);
    enum wring_status status = wring_each_codec_search(params, planned->model, planning->search,
                                                       deadline_ns, &planning->log, found);
    if (planning->budget_ns > 0)
        return status;
    planned->bound.took_ns = found->took_ns - took_ns;
    planned->evaluations_before_proof = found->evaluations - evaluations;
    found->took_ns = took_ns;
    return status;
}

/** What searches take of the proof's time or effort. */
enum {
    EVALUATION_NS = 15,      /* about, of one evaluation; counted where an effort ends the proof */
    FARTHER_PART = 5,        /* one in so many parts of the proof goes to looking farther */
    FARTHER_LEAST = 1000000, /* evaluations; with less nothing is found that the search did not */
};

/** What searches left to the proof, of its time or effort. */
static uint64_t left_to_prove(const struct wring_planning *planning,
                              const struct wring_planned *planned)
{
    if (planning->bound_ns > 0)
        return left_of(planning->bound_ns, planned->bound.took_ns);
    return left_of(planning->bound_effort, EVALUATION_NS * planned->evaluations_before_proof);
}

/** Before the proof: look farther than the search did. What it takes is the proof's. */
static enum wring_status look_farther(const struct wring_planning *planning,
                                      struct wring_search_params params,
                                      const struct wring_problem *problem,
                                      struct wring_planned *planned)
{
    uint64_t proof_ns = left_to_prove(planning, planned);
    struct wring_found farther;

    params.evaluations = proof_ns / FARTHER_PART / EVALUATION_NS;
    if (params.evaluations < FARTHER_LEAST)
        return WRING_OK;
    params.budget_ns = planning->bound_ns > 0 ? proof_ns / 2 : 0;
    enum wring_status status = wring_search_run(problem, &params, &farther);
    if (status != WRING_OK)
        return status;
    planned->bound.took_ns += farther.took_ns;
    planned->found.evaluations += farther.evaluations;
    planned->evaluations_before_proof += farther.evaluations;
    if (farther.time_us < planned->found.time_us) {
        struct wring_grouping worse = planned->found.grouping;
        planned->found.grouping = farther.grouping;
        planned->found.time_us = farther.time_us;
        farther.grouping = worse;
    }
    wring_grouping_finish(&farther.grouping);
    return WRING_OK;
}

/** Prove a bound, where one is wanted. Only the best plan is improved by it: other methods show
 * what they found. */
static enum wring_status prove(const struct wring_planning *planning,
                               const struct wring_planned_want *want,
                               const struct wring_search_params *params,
                               const struct wring_problem *problem, struct wring_planned *planned)
{
    struct wring_bound_params limits = {0};
    struct wring_found *found = &planned->found;
    struct wring_grouping grouping;
    enum wring_status status = WRING_OK;

    if (!want->bound || planning->layers)
        return WRING_OK;
    if (planning->search == WRING_SEARCH_BEST)
        status = look_farther(planning, *params, problem, planned);
    if (status == WRING_OK)
        status = wring_grouping_init(&grouping, problem->n_tensors);
    if (status != WRING_OK)
        return status;
    uint64_t spent_ns = planned->bound.took_ns;
    double time_us = found->time_us;
    if (planning->bound_ns > 0)
        limits.budget_ns = left_to_prove(planning, planned);
    else
        limits.effort = left_to_prove(planning, planned);
    grouping.n = found->grouping.n;
    memcpy(grouping.end, found->grouping.end, grouping.n * sizeof(*grouping.end));
    memcpy(grouping.option, found->grouping.option, grouping.n * sizeof(*grouping.option));
    status = wring_bound_run(problem, &limits, &grouping, &time_us, &planned->bound);
    planned->bound.took_ns += spent_ns;
    if (status == WRING_OK && planning->search == WRING_SEARCH_BEST) {
        status = wring_search_merge(problem, &grouping, &time_us);
        struct wring_grouping worse = found->grouping;
        found->grouping = grouping;
        found->time_us = time_us;
        grouping = worse;
    }
    wring_grouping_finish(&grouping);
    return status;
}

static enum wring_status look(const struct wring_planning *planning,
                              const struct wring_search_params *params,
                              const struct wring_problem *problem, struct wring_planned *planned)
{
    if (planning->layers)
        return wring_planned_layers(problem, &planning->log, &planned->found);
    return wring_planning_said(planning, "the search",
                               wring_search_run(problem, params, &planned->found));
}

static enum wring_status find(const struct wring_planning *planning,
                              const struct wring_planned_want *want,
                              const struct wring_cost_model_params *model,
                              struct wring_planned *planned)
{
    struct wring_search_params params = {.method = planning->search,
                                         .budget_ns = planning->budget_ns,
                                         .offload = planned->model->offload,
                                         .on_device = planned->model->on_device,
                                         .uncompressed = planned->model->raw};

    const struct wring_problem *problem = &planned->model->problem;
    enum wring_status status = look(planning, &params, problem, planned);

    if (status == WRING_OK)
        status = wring_planning_said(planning, "each codec alone",
                                     try_each_codec(planning, want, model, planned));
    if (status != WRING_OK)
        return status;
    return wring_planning_said(planning, "the bound",
                               prove(planning, want, &params, problem, planned));
}

/** Among the options of the codecs that were asked for. */
static enum wring_status find_only(const struct wring_planning *planning,
                                   const struct wring_planned_want *want,
                                   struct wring_planned *planned)
{
    /* .uncompressed matters to Espresso's algorithms alone, which are refused */
    struct wring_search_params params = {.method = planning->search,
                                         .budget_ns = planning->budget_ns};
    struct wring_planned_part part;
    enum wring_status status = wring_planned_part_init(planning, planned->model, &part);

    if (status != WRING_OK)
        return status;
    status = look(planning, &params, &part.problem, planned);
    if (status == WRING_OK)
        status = wring_planning_said(planning, "the bound",
                                     prove(planning, want, &params, &part.problem, planned));
    if (status == WRING_OK)
        wring_planned_part_map(&part, &planned->found.grouping);
    wring_planned_part_finish(&part);
    return status;
}

enum wring_status wring_planned_find(const struct wring_planning *planning,
                                     const struct wring_planned_want *want,
                                     const struct wring_cost_model_params *params,
                                     struct wring_planned *planned)
{
    return planning->only ? find_only(planning, want, planned)
                          : find(planning, want, params, planned);
}
