/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/search.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/search/search_state.h"

bool wring_seek_late(const struct wring_seek *seek)
{
    return seek->deadline_ns != WRING_NEVER && wring_now_ns() >= seek->deadline_ns;
}

/** The time of a grouping, by rates. */
static double seek_time(struct wring_seek *seek, const struct wring_grouping *grouping)
{
    const struct wring_rates *rates = seek->rates;
    double heads[WRING_PLAN_LANES_MAX] = {0};
    struct wring_task task;
    uint32_t begin = 0;

    for (uint32_t i = 0; i < grouping->n; i++) {
        wring_rates_task(rates, begin, grouping->end[i], grouping->option[i], &task);
        wring_task_advance(rates->n_lanes, &task, heads, heads);
        begin = grouping->end[i];
    }
    seek->evaluations++;
    return heads[rates->n_lanes - 1];
}

void wring_seek_copy(struct wring_grouping *dst, const struct wring_grouping *src)
{
    dst->n = src->n;
    memcpy(dst->end, src->end, src->n * sizeof(*dst->end));
    memcpy(dst->option, src->option, src->n * sizeof(*dst->option));
}

void wring_seek_offer(struct wring_seek *seek, const struct wring_grouping *grouping)
{
    double time = seek_time(seek, grouping);

    if (time > seek->time_us * (1 + WRING_SEEK_ROUNDING) ||
        (time >= seek->time_us * (1 - WRING_SEEK_ROUNDING) && grouping->n >= seek->best.n))
        return;
    seek->time_us = time;
    wring_seek_copy(&seek->best, grouping);
}

/** The option, or the first that the tensor may take. */
static uint32_t option_of(const struct wring_rates *rates, uint32_t tensor, uint32_t option)
{
    if (wring_rates_allow(rates, tensor, tensor + 1, option))
        return option;
    for (option = 0; !wring_rates_allow(rates, tensor, tensor + 1, option);)
        option++;
    return option;
}

void wring_seek_alone(const struct wring_seek *seek, uint32_t option, struct wring_grouping *out)
{
    out->n = seek->rates->n_tensors;
    for (uint32_t i = 0; i < out->n; i++) {
        out->end[i] = i + 1;
        out->option[i] = option_of(seek->rates, i, option);
    }
}

void wring_seek_uniform(const struct wring_seek *seek, const uint32_t *stops, uint32_t n,
                        uint32_t option, struct wring_grouping *out)
{
    const struct wring_rates *rates = seek->rates;
    uint32_t begin = 0, end = 0;

    out->n = 0;
    for (uint32_t i = 0; i < n; i++)
        for (; end < stops[i]; begin = end) {
            uint32_t takes = option_of(rates, begin, option);
            for (end = begin + 1; end < stops[i]; end++)
                if (takes != option || !wring_rates_allow(rates, end, end + 1, option) ||
                    !wring_rates_fit(rates, begin, end + 1))
                    break;
            out->option[out->n] = takes;
            out->end[out->n++] = end;
        }
}

/* ---- starts ---- */

/* Starting points of a search. */

enum {
    EVEN = 8,     /* groups of a plain start */
    SMALL = 1000, /* tensors times options up to which each option is one tensor by tensor */
    GREEDY = 64,  /* tensors up to which Espresso's answer is one */
};

/** Option by option, a few groups of as many tensors each. @return the best option so */
static uint32_t offer_even(struct wring_seek *seek)
{
    uint32_t n = seek->rates->n_tensors, groups = n < EVEN ? n : EVEN, even[EVEN], best = 0;

    for (uint32_t i = 0; i < groups; i++)
        even[i] = (uint32_t)((uint64_t)n * (i + 1) / groups);
    for (uint32_t option = 0; option < seek->rates->n_options; option++) {
        double before = seek->time_us;
        wring_seek_uniform(seek, even, groups, option, &seek->trial);
        wring_seek_offer(seek, &seek->trial);
        best = seek->time_us < before ? option : best;
    }
    return best;
}

static void offer_alone(struct wring_seek *seek, uint32_t option)
{
    wring_seek_alone(seek, option, &seek->trial);
    wring_seek_offer(seek, &seek->trial);
}

enum wring_status wring_seek_start(struct wring_seek *seek, const struct wring_stops *stops)
{
    const struct wring_rates *rates = seek->rates;
    uint32_t best = offer_even(seek);
    enum wring_status status = WRING_OK;

    offer_alone(seek, seek->params->uncompressed);
    offer_alone(seek, best);
    for (uint32_t option = 0; option < rates->n_options; option++)
        if ((uint64_t)rates->n_tensors * rates->n_options <= SMALL)
            offer_alone(seek, option);
    if (rates->n_tensors <= GREEDY)
        status = wring_seek_espresso(seek);
    if (status == WRING_OK)
        status = wring_seek_mergecomp(seek, best, stops->at + 1, stops->n);
    return status;
}

double wring_seek_floor(const struct wring_seek *seek)
{
    const struct wring_rates *rates = seek->rates;
    uint32_t last = rates->n_tensors - 1;
    double least = DBL_MAX;
    struct wring_task task;

    for (uint32_t option = 0; option < rates->n_options; option++) {
        if (!wring_rates_allow(rates, last, last + 1, option))
            continue;
        if (rates->problem->options[option].chunk_elems != 0)
            return 0; /* of a larger group chunks may be smaller */
        wring_rates_task(rates, last, last + 1, option, &task);
        double us = 0;
        for (uint32_t lane = 0; lane < rates->n_lanes; lane++)
            us += task.took[lane];
        least = us < least ? us : least;
    }
    return rates->compute_us[last] + least;
}

/* ---- search ---- */

enum wring_status wring_grouping_init(struct wring_grouping *grouping, uint32_t n_tensors)
{
    size_t room = n_tensors > 0 ? n_tensors : 1;

    *grouping = (struct wring_grouping){.end = calloc(room, sizeof(*grouping->end)),
                                        .option = calloc(room, sizeof(*grouping->option))};
    if (grouping->end != NULL && grouping->option != NULL)
        return WRING_OK;
    wring_grouping_finish(grouping);
    return WRING_ERR_NO_MEMORY;
}

void wring_grouping_finish(struct wring_grouping *grouping)
{
    free(grouping->end);
    free(grouping->option);
    *grouping = (struct wring_grouping){0};
}

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
