/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/each_codec.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/model/candidates.h"

/** A lane of the same name; n_lanes for none. */
static uint32_t lane_of(const struct wring_cost_model *model, const char *name)
{
    uint32_t lane = 0;

    while (lane < model->problem.n_lanes && strcmp(model->lanes[lane], name) != 0)
        lane++;
    return lane;
}

/**
 * An option's cost on the lanes of another model. A lane that is not there was needed by options
 * alone that others are better than, without that lane.
 */
static struct wring_option_cost on_lanes_of(const struct wring_cost_model *whole,
                                            const struct wring_cost_model *alone, uint32_t option)
{
    const struct wring_option_cost *from = &alone->problem.options[option];
    struct wring_option_cost to = {.chunk_elems = from->chunk_elems};

    for (uint32_t i = 0; i < alone->problem.n_lanes; i++) {
        uint32_t lane = lane_of(whole, alone->lanes[i]);
        if (lane == whole->problem.n_lanes)
            continue;
        to.once[lane] = from->once[i];
        to.each[lane] = from->each[i];
    }
    return to;
}

/** May all tensors of [begin, end) take the option? */
static bool may_take(const struct wring_problem *problem, uint32_t begin, uint32_t end,
                     uint32_t option)
{
    const uint64_t *allowed = problem->allowed;
    size_t words = wring_problem_words(problem);

    for (size_t i = begin; allowed != NULL && i < end; i++)
        if ((allowed[i * words + option / 64] >> option % 64 & 1) == 0)
            return false;
    return true;
}

/**
 * The whole model's option for the tensors [begin, end) that takes no longer than that of one codec
 * alone. @return n_options where there is none
 */
static uint32_t stand_in(const struct wring_cost_model *whole, const struct wring_cost_model *alone,
                         uint32_t begin, uint32_t end, uint32_t option)
{
    const struct wring_problem *problem = &whole->problem;
    struct wring_option_cost cost = on_lanes_of(whole, alone, option);
    uint32_t i = 0;

    while (i < problem->n_options &&
           !(may_take(problem, begin, end, i) &&
             wring_dominates(&problem->options[i], &cost, problem->n_lanes)))
        i++;
    return i;
}

/**
 * A plan with one codec made one of the whole model, which takes no longer.
 * @param all  out: was there an option for each? Rounding may add up where some stood in for others
 */
static enum wring_status translate_grouping(const struct wring_cost_model *whole,
                                            const struct wring_cost_model *alone,
                                            struct wring_grouping *grouping, bool *all)
{
    uint32_t n = alone->problem.n_options, unknown = whole->problem.n_options, begin = 0;
    uint32_t *known = malloc(n * sizeof(*known)); /* of each option the last to stand in for it */

    if (known == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        known[i] = unknown;
    *all = true;
    for (uint32_t i = 0; i < grouping->n; begin = grouping->end[i++]) {
        uint32_t end = grouping->end[i], *by = &known[grouping->option[i]];
        if (*by == unknown || !may_take(&whole->problem, begin, end, *by))
            *by = stand_in(whole, alone, begin, end, grouping->option[i]);
        grouping->option[i] = *by;
        *all = *all && *by != unknown;
    }
    free(known);
    return WRING_OK;
}

/** Keep the better one; the other is freed. */
static void keep_better(const struct wring_problem *problem, struct wring_grouping *grouping,
                        struct wring_found *found)
{
    double time_us = wring_problem_time(problem, grouping);
    struct wring_grouping worse = *grouping;

    if (time_us < found->time_us) {
        worse = found->grouping;
        found->grouping = *grouping;
        found->time_us = time_us;
    }
    wring_grouping_finish(&worse);
}

static enum wring_status search_alone(const struct wring_cost_model *whole,
                                      const struct wring_cost_model *alone,
                                      enum wring_search_method method, uint64_t deadline_ns,
                                      struct wring_found *found)
{
    uint64_t now_ns = wring_now_ns();
    struct wring_search_params params = {.method = method,
                                         .offload = alone->offload,
                                         .on_device = alone->on_device,
                                         .uncompressed = alone->raw,
                                         .kinds = alone->kinds,
                                         .alike = alone->alike};
    struct wring_found one;
    bool all;

    if (deadline_ns != WRING_NEVER) /* 0 would be no limit */
        params.budget_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 1;
    enum wring_status status = wring_search_run(&alone->problem, &params, &one);
    if (status != WRING_OK)
        return status;
    found->evaluations += one.evaluations;
    status = translate_grouping(whole, alone, &one.grouping, &all);
    if (status == WRING_OK && all)
        keep_better(&whole->problem, &one.grouping, found);
    else
        wring_grouping_finish(&one.grouping);
    return status;
}

enum wring_status wring_each_codec_search(const struct wring_cost_model_params *params,
                                          const struct wring_cost_model *model,
                                          enum wring_search_method method, uint64_t deadline_ns,
                                          const struct wring_log *log, struct wring_found *found)
{
    uint64_t began_ns = wring_now_ns(), now_ns = began_ns, longest_ns = found->took_ns;
    struct wring_log errors = *log; /* all else was said of the whole model */
    enum wring_status status = WRING_OK;

    errors.level = WRING_LOG_ERROR;
    for (uint32_t i = 0; params->n_codecs > 1 && i < params->n_codecs && status == WRING_OK; i++) {
        struct wring_cost_model_params one = *params;
        struct wring_cost_model *alone;
        if (deadline_ns != WRING_NEVER && now_ns + longest_ns > deadline_ns)
            break;
        one.codecs = &params->codecs[i];
        one.n_codecs = 1;
        status = wring_cost_model_create(&one, &errors, &alone);
        if (status != WRING_OK)
            break;
        status = search_alone(model, alone, method, deadline_ns, found);
        wring_cost_model_destroy(alone);
        uint64_t last_ns = now_ns;
        now_ns = wring_now_ns();
        longest_ns = now_ns - last_ns > longest_ns ? now_ns - last_ns : longest_ns;
    }
    found->took_ns += wring_now_ns() - began_ns;
    return status;
}
