/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/search_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

bool wring_search_late(const struct wring_search_state *search)
{
    return search->deadline_ns != WRING_NEVER && wring_now_ns() >= search->deadline_ns;
}

/** The time of a grouping, by rates. */
static double search_time(struct wring_search_state *search, const struct wring_grouping *grouping)
{
    const struct wring_cost_tables *tables = search->tables;
    double heads[WRING_PLAN_LANES_MAX] = {0};
    struct wring_task task;
    uint32_t begin = 0;

    for (uint32_t i = 0; i < grouping->n; i++) {
        wring_cost_tables_task(tables, begin, grouping->end[i], grouping->option[i], &task);
        wring_task_advance(tables->n_lanes, &task, heads, heads);
        begin = grouping->end[i];
    }
    search->evaluations++;
    return heads[tables->n_lanes - 1];
}

void wring_search_copy(struct wring_grouping *dst, const struct wring_grouping *src)
{
    dst->n = src->n;
    memcpy(dst->end, src->end, src->n * sizeof(*dst->end));
    memcpy(dst->option, src->option, src->n * sizeof(*dst->option));
}

void wring_search_offer(struct wring_search_state *search, const struct wring_grouping *grouping)
{
    double time = search_time(search, grouping);

    if (time > search->time_us * (1 + WRING_SEARCH_ROUNDING) ||
        (time >= search->time_us * (1 - WRING_SEARCH_ROUNDING) && grouping->n >= search->best.n))
        return;
    search->time_us = time;
    wring_search_copy(&search->best, grouping);
}

bool wring_search_kinds_differ(const struct wring_search_state *search, uint32_t tensor,
                               uint32_t other)
{
    const uint8_t *kinds = search->params->kinds;

    return kinds != NULL && kinds[tensor] != kinds[other];
}

uint32_t wring_search_alike(const struct wring_search_state *search, uint32_t tensor,
                            uint32_t option)
{
    const struct wring_search_params *params = search->params;
    uint32_t n = search->tables->n_options;

    if (params->kinds == NULL)
        return option;
    uint32_t takes = params->alike[(size_t)params->kinds[tensor] * n + option];
    return takes < n ? takes : search->tables->first[tensor];
}

/** That option, its kind's, or the first that the tensor may take. */
static uint32_t option_or_first_allowed(const struct wring_search_state *search, uint32_t tensor,
                                        uint32_t option)
{
    const struct wring_cost_tables *tables = search->tables;
    uint32_t takes = wring_search_alike(search, tensor, option);
    bool may = wring_cost_tables_allow(tables, tensor, tensor + 1, takes);

    return may ? takes : tables->first[tensor];
}

void wring_search_alone(const struct wring_search_state *search, uint32_t option,
                        struct wring_grouping *out)
{
    out->n = search->tables->n_tensors;
    for (uint32_t i = 0; i < out->n; i++) {
        out->end[i] = i + 1;
        out->option[i] = option_or_first_allowed(search, i, option);
    }
}

/** Does a group that begins there end before `end`? @param takes  what it takes */
static bool ends_before(const struct wring_search_state *search, uint32_t begin, uint32_t end,
                        uint32_t option, uint32_t takes)
{
    const struct wring_cost_tables *tables = search->tables;

    return wring_search_kinds_differ(search, begin, end) ||
           takes != wring_search_alike(search, begin, option) ||
           !wring_cost_tables_allow(tables, end, end + 1, takes) ||
           !wring_cost_tables_fit(tables, begin, end + 1);
}

void wring_search_uniform(const struct wring_search_state *search, const uint32_t *breakpoints,
                          uint32_t n, uint32_t option, struct wring_grouping *out)
{
    uint32_t begin = 0, end = 0;

    out->n = 0;
    for (uint32_t i = 0; i < n; i++)
        for (; end < breakpoints[i]; begin = end) {
            uint32_t takes = option_or_first_allowed(search, begin, option);
            end = begin + 1;
            while (end < breakpoints[i] && !ends_before(search, begin, end, option, takes))
                end++;
            out->option[out->n] = takes;
            out->end[out->n++] = end;
        }
}

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
