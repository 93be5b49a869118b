/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/search/rates.h"

#include <stdlib.h>
#include <string.h>

#include "planner/search/rate_choices.h"
#include "planner/search/rate_table.h"

static enum wring_status fill(struct wring_rates *rates, const struct wring_problem *problem)
{
    for (uint32_t i = 0; i < rates->n_tensors; i++)
        rates->compute_us[i + 1] = rates->compute_us[i] + problem->compute_us[i];
    for (uint32_t i = 0; i < rates->n_options; i++) {
        enum wring_status status =
            wring_rate_init(&rates->rate[i], &problem->options[i], rates->n_lanes);
        if (status != WRING_OK)
            return status;
    }
    if (problem->allowed != NULL) {
        enum wring_status status = wring_rates_find_barred(rates);
        if (status != WRING_OK)
            return status;
    }
    return wring_rates_find_choices(rates);
}

static bool sound(const struct wring_problem *problem)
{
    if (problem->n_tensors == 0 || problem->n_options == 0 || problem->n_lanes == 0 ||
        problem->n_lanes > WRING_PLAN_LANES_MAX)
        return false;
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        if (problem->elems[i + 1] <= problem->elems[i])
            return false;
    return true;
}

enum wring_status wring_rates_init(struct wring_rates *rates, const struct wring_problem *problem)
{
    if (!sound(problem))
        return WRING_ERR_INVALID;
    *rates = (struct wring_rates){.problem = problem,
                                  .n_lanes = problem->n_lanes,
                                  .n_tensors = problem->n_tensors,
                                  .n_options = problem->n_options};
    rates->compute_us = calloc((size_t)problem->n_tensors + 1, sizeof(*rates->compute_us));
    rates->rate = calloc(problem->n_options, sizeof(*rates->rate));
    rates->choices = calloc(WRING_SIZES, sizeof(*rates->choices));

    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (rates->compute_us != NULL && rates->rate != NULL && rates->choices != NULL)
        status = fill(rates, problem);
    if (status != WRING_OK)
        wring_rates_finish(rates);
    return status;
}

void wring_rates_finish(struct wring_rates *rates)
{
    for (uint32_t i = 0; rates->rate != NULL && i < rates->n_options; i++)
        wring_rate_finish(&rates->rate[i]);
    for (uint32_t i = 0; rates->choices != NULL && i < WRING_SIZES; i++)
        free(rates->choices[i].options);
    free(rates->rate);
    free(rates->choices);
    free(rates->compute_us);
    free(rates->barred);
    *rates = (struct wring_rates){0};
}

void wring_rates_task(const struct wring_rates *rates, uint32_t begin, uint32_t end,
                      uint32_t option, struct wring_task *task)
{
    const struct wring_rate *rate = &rates->rate[option];
    uint64_t elems = rates->problem->elems[end] - rates->problem->elems[begin];

    wring_rate_look_up(&rate->first, (double)elems, task->took);
    task->more = 0;
    if (rate->chunk_elems != 0) {
        uint64_t chunks = (elems + rate->chunk_elems - 1) / rate->chunk_elems;
        wring_rate_look_up(&rate->each, (double)elems / (double)chunks, task->each);
        for (uint32_t lane = 0; lane < rates->n_lanes; lane++)
            task->took[lane] += task->each[lane];
        task->more = (double)(chunks - 1);
    }
    task->took[0] += rates->compute_us[end] - rates->compute_us[begin];
}

void wring_task_advance_more(uint32_t n_lanes, const struct wring_task *task, double *heads)
{
    double before[WRING_PLAN_LANES_MAX];

    memcpy(before, heads, n_lanes * sizeof(*before));
    for (uint32_t last = 0; last < n_lanes; last++) {
        double sum = 0, longest = 0;
        for (uint32_t first = last + 1; first-- > 0;) {
            sum += task->each[first];
            longest = wring_later(longest, task->each[first]);
            heads[last] =
                wring_later(heads[last], before[first] + sum + (task->more - 1) * longest);
        }
    }
}

void wring_task_retreat_more(uint32_t n_lanes, const struct wring_task *task, double *tails)
{
    double after[WRING_PLAN_LANES_MAX];

    memcpy(after, tails, n_lanes * sizeof(*after));
    for (uint32_t first = 0; first < n_lanes; first++) {
        double sum = 0, longest = 0;
        for (uint32_t last = first; last < n_lanes; last++) {
            sum += task->each[last];
            longest = wring_later(longest, task->each[last]);
            tails[first] =
                wring_later(tails[first], after[last] + sum + (task->more - 1) * longest);
        }
    }
}
