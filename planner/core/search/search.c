/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/search.h"

#include <float.h>
#include <stdlib.h>

#include "base/clock.h"
#include "planner/core/search/search_state.h"

/** Each option in turn, cuts anywhere. */
static enum wring_status seek_mergecomp(struct wring_seek *seek)
{
    uint32_t n = seek->rates->n_tensors, *stops = malloc(n * sizeof(*stops));
    enum wring_status status = WRING_OK;

    if (stops == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        stops[i] = i + 1;
    for (uint32_t i = 0; i < seek->rates->n_options && status == WRING_OK; i++)
        status = wring_seek_mergecomp(seek, i, stops, n);
    free(stops);
    return status;
}

static enum wring_status seek(struct wring_seek *seek)
{
    switch (seek->params->method) {
    case WRING_SEARCH_BEST:
        return wring_seek_best(seek);
    case WRING_SEARCH_ESPRESSO:
        return wring_seek_espresso(seek);
    case WRING_SEARCH_MERGECOMP:
        return seek_mergecomp(seek);
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

static enum wring_status run(struct wring_seek *state, struct wring_found *out)
{
    enum wring_status status = wring_grouping_init(&state->best, state->rates->n_tensors);
    if (status != WRING_OK)
        return status;
    status = wring_grouping_init(&state->trial, state->rates->n_tensors);
    if (status != WRING_OK)
        goto finish_best;

    status = seek(state);
    wring_grouping_finish(&state->trial);
    if (status != WRING_OK)
        goto finish_best;
    *out = (struct wring_found){.grouping = state->best,
                                .time_us = wring_problem_time(state->rates->problem, &state->best),
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
    struct wring_rates rates;

    if (!sound(problem, params))
        return WRING_ERR_INVALID;
    enum wring_status status = wring_rates_init(&rates, problem);
    if (status != WRING_OK)
        return status;
    struct wring_seek state = {
        .rates = &rates,
        .params = params,
        .choices = rates.choices,
        .deadline_ns = params->budget_ns == 0 ? WRING_NEVER : wring_deadline_in(params->budget_ns),
        .time_us = DBL_MAX};
    status = run(&state, out);
    wring_rates_finish(&rates);
    if (status == WRING_OK)
        out->took_ns = wring_now_ns() - began_ns;
    return status;
}

enum wring_status wring_search_merge(const struct wring_problem *problem,
                                     struct wring_grouping *grouping, double *time_us)
{
    struct wring_search_params params = {.method = WRING_SEARCH_BEST};
    struct wring_rates rates;

    enum wring_status status = wring_rates_init(&rates, problem);
    if (status != WRING_OK)
        return status;
    struct wring_seek state = {.rates = &rates,
                               .params = &params,
                               .choices = rates.choices,
                               .deadline_ns = WRING_NEVER,
                               .best = *grouping,
                               .time_us = *time_us};
    status = wring_grouping_init(&state.trial, problem->n_tensors);
    if (status == WRING_OK)
        status = wring_seek_merge(&state);
    wring_grouping_finish(&state.trial);
    wring_rates_finish(&rates);
    if (status != WRING_OK)
        return status;
    grouping->n = state.best.n; /* its groups were changed in place */
    *time_us = wring_problem_time(problem, grouping);
    return WRING_OK;
}
