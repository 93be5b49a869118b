/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/search_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

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
