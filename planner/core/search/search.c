/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/search.h"

#include <float.h>
#include <stdlib.h>

#include "base/clock.h"
#include "planner/core/search/search_state.h"

/** Each option in turn, cuts anywhere. */
static enum wring_status search_mergecomp(struct wring_search_state *search)
{
    uint32_t n = search->tables->n_tensors, *breakpoints = malloc(n * sizeof(*breakpoints));
    enum wring_status status = WRING_OK;

    if (breakpoints == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        breakpoints[i] = i + 1;
    for (uint32_t i = 0; i < search->tables->n_options && status == WRING_OK; i++)
        status = wring_search_mergecomp(search, i, breakpoints, n);
    free(breakpoints);
    return status;
}

static enum wring_status search(struct wring_search_state *search)
{
    switch (search->params->method) {
    case WRING_SEARCH_BEST:
        return wring_search_best(search);
    case WRING_SEARCH_ESPRESSO:
        return wring_search_espresso(search);
    case WRING_SEARCH_MERGECOMP:
        return search_mergecomp(search);
    }
    return WRING_ERR_INVALID;
}

static bool sound(const struct wring_problem *problem, const struct wring_search_params *params)
{
    if (params->uncompressed >= problem->n_options)
        return false;
    for (uint32_t i = 0; params->offload != NULL && i < problem->n_options; i++)
        if (params->offload[i] > problem->n_options)
            return false;
    return true;
}

static enum wring_status run(struct wring_search_state *state, struct wring_found *out)
{
    enum wring_status status = wring_grouping_init(&state->best, state->tables->n_tensors);
    if (status != WRING_OK)
        return status;
    status = wring_grouping_init(&state->trial, state->tables->n_tensors);
    if (status != WRING_OK)
        goto finish_best;

    status = search(state);
    wring_grouping_finish(&state->trial);
    if (status != WRING_OK)
        goto finish_best;
    *out = (struct wring_found){.grouping = state->best,
                                .time_us = wring_problem_time(state->tables->problem, &state->best),
                                .evaluations = state->evaluations};
    return WRING_OK;

finish_best:
    wring_grouping_finish(&state->best);
    return status;
}

enum wring_status wring_search_run(const struct wring_problem *problem,
                                   const struct wring_search_params *params,
                                   struct wring_found *out)
{
    uint64_t began_ns = wring_now_ns();
    struct wring_cost_tables tables;

    if (!sound(problem, params))
        return WRING_ERR_INVALID;
    enum wring_status status = wring_cost_tables_init(&tables, problem);
    if (status != WRING_OK)
        return status;
    struct wring_search_state state = {
        .tables = &tables,
        .params = params,
        .choices = tables.choices,
        .deadline_ns = params->budget_ns == 0 ? WRING_NEVER : wring_deadline_in(params->budget_ns),
        .time_us = DBL_MAX};
    status = run(&state, out);
    wring_cost_tables_finish(&tables);
    if (status == WRING_OK)
        out->took_ns = wring_now_ns() - began_ns;
    return status;
}

enum wring_status wring_search_merge(const struct wring_problem *problem,
                                     struct wring_grouping *grouping, double *time_us)
{
    struct wring_search_params params = {.method = WRING_SEARCH_BEST};
    struct wring_cost_tables tables;

    enum wring_status status = wring_cost_tables_init(&tables, problem);
    if (status != WRING_OK)
        return status;
    struct wring_search_state state = {.tables = &tables,
                                       .params = &params,
                                       .choices = tables.choices,
                                       .deadline_ns = WRING_NEVER,
                                       .best = *grouping,
                                       .time_us = *time_us};
    status = wring_grouping_init(&state.trial, problem->n_tensors);
    if (status == WRING_OK)
        status = wring_local_search_merge(&state);
    wring_grouping_finish(&state.trial);
    wring_cost_tables_finish(&tables);
    if (status != WRING_OK)
        return status;
    grouping->n = state.best.n; /* its groups were changed in place */
    *time_us = wring_problem_time(problem, grouping);
    return WRING_OK;
}
