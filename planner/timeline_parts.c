/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/timeline_parts.h"

#include <string.h>

static bool look(const struct wring_cost_model *model, const struct wring_grouping *grouping,
                 const struct wring_lane_task *task, struct wring_exchange_parts *out)
{
    uint32_t begin = task->group > 0 ? grouping->end[task->group - 1] : 0;
    uint32_t end = grouping->end[task->group];

    return strcmp(model->lanes[task->lane], WRING_LANE_EXCHANGE) == 0 &&
           wring_exchange_parts(model, grouping->option[task->group],
                                model->problem.elems[end] - model->problem.elems[begin], out);
}

void wring_timeline_parts(const struct wring_cost_model *model,
                          const struct wring_grouping *grouping, const struct wring_lane_task *task,
                          uint64_t most, wring_part_box_fn each, void *arg)
{
    struct wring_exchange_parts parts;

    if (!look(model, grouping, task, &parts))
        return;
    uint64_t n = parts.pieces < most ? parts.pieces : most > 0 ? most : 1;
    double turn = (task->end_us - task->begin_us) / (double)n;
    double scale = turn / parts.took_us; /* a computing application stretches it, too */
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t part = 0; part < WRING_EXCHANGE_PARTS; part++) {
            double begin = task->begin_us + (double)i * turn + parts.begin_us[part] * scale;
            const struct wring_part_box box = {.part = (enum wring_exchange_part)part,
                                               .begin_us = begin,
                                               .end_us = begin + parts.us[part] * scale,
                                               .pieces = (parts.pieces + n - 1) / n,
                                               .critical =
                                                   task->critical && parts.decides >> part & 1};
            if (parts.us[part] > 0)
                each(arg, &box);
        }
}

struct sums {
    double *busy_us, *critical_us;
};

static void add(void *arg, const struct wring_part_box *box)
{
    struct sums *sums = arg;
    double us = box->end_us - box->begin_us;

    sums->busy_us[box->part] += us;
    if (box->critical)
        sums->critical_us[box->part] += us;
}

void wring_timeline_part_sums(const struct wring_cost_model *model,
                              const struct wring_grouping *grouping,
                              const struct wring_timeline_result *result,
                              double busy_us[WRING_EXCHANGE_PARTS],
                              double critical_us[WRING_EXCHANGE_PARTS])
{
    struct sums sums = {busy_us, critical_us};

    for (uint32_t part = 0; part < WRING_EXCHANGE_PARTS; part++)
        busy_us[part] = critical_us[part] = 0;
    for (uint32_t i = 0; i < result->n; i++)
        wring_timeline_parts(model, grouping, &result->tasks[i], 1, add, &sums);
}
