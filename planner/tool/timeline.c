/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/timeline.h"

#include <stdlib.h>
#include <string.h>

#include "planner/core/model/lanes.h"

/** One group's times on the lanes: kept for all groups, to find the critical path backwards. */
struct stay {
    uint64_t chunks;
    double once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX];
    double before[WRING_PLAN_LANES_MAX]; /* lanes' ends before the group */
    double first[WRING_PLAN_LANES_MAX];  /* after its first chunk */
    bool critical[WRING_PLAN_LANES_MAX];
};

static void advance_all(const struct wring_problem *problem, const struct wring_grouping *grouping,
                        struct stay *stays, double *ends)
{
    uint32_t begin = 0;

    for (uint32_t g = 0; g < grouping->n; g++) {
        struct stay *stay = &stays[g];
        stay->chunks = wring_problem_group(problem, begin, grouping->end[g], grouping->option[g],
                                           stay->once, stay->each);
        memcpy(stay->before, ends, sizeof(stay->before));
        memcpy(stay->first, ends, sizeof(stay->first));
        wring_problem_advance(problem, 1, stay->once, stay->each, stay->first);
        wring_problem_advance(problem, stay->chunks, stay->once, stay->each, ends);
        begin = grouping->end[g];
    }
}

/** The way of a group's chunks that ends on a lane last of all, on the lanes from where it came. */
struct path {
    uint32_t from;
    double spent[WRING_PLAN_LANES_MAX]; /* us on each lane */
};

/** The critical way of the chunks after the first one. */
static struct path trace_chunks(const struct stay *stay, uint32_t last)
{
    double sum = 0, latest = stay->first[last];
    uint32_t slowest = last, slowest_then = last;
    struct path path = {.from = last + 1};

    for (uint32_t lane = last + 1; lane-- > 0;) {
        sum += stay->each[lane];
        slowest = stay->each[lane] > stay->each[slowest] ? lane : slowest;
        double end = stay->first[lane] + sum + (double)(stay->chunks - 2) * stay->each[slowest];
        if (end > latest) {
            latest = end;
            path.from = lane;
            slowest_then = slowest;
        }
    }
    for (uint32_t lane = path.from; lane <= last; lane++)
        path.spent[lane] = stay->each[lane];
    if (path.from <= last)
        path.spent[slowest_then] += (double)(stay->chunks - 2) * stay->each[slowest_then];
    else /* they take no time: the first chunk was the last to leave */
        path.from = last;
    return path;
}

/** The critical way of the first chunk, from the lane on which the group before let it in. */
static struct path trace_first(const struct stay *stay, uint32_t last)
{
    double sum = 0, latest = -1;
    struct path path = {.from = last};

    for (uint32_t lane = last + 1; lane-- > 0;) {
        sum += stay->once[lane] + stay->each[lane];
        if (stay->before[lane] + sum > latest) {
            latest = stay->before[lane] + sum;
            path.from = lane;
        }
    }
    for (uint32_t lane = path.from; lane <= last; lane++)
        path.spent[lane] = stay->once[lane] + stay->each[lane];
    return path;
}

static void take_path(const struct path *path, uint32_t last, struct stay *stay,
                      double *critical_us)
{
    for (uint32_t lane = path->from; lane <= last; lane++) {
        stay->critical[lane] = true;
        critical_us[lane] += path->spent[lane];
    }
}

/** Mark the critical path, from the end of the last lane back to the start: each task on it waits
 *  for the one before. */
static void mark_critical(uint32_t n_lanes, uint32_t n_groups, struct stay *stays,
                          double *critical_us)
{
    uint32_t lane = n_lanes - 1;

    for (uint32_t g = n_groups; g-- > 0;) {
        struct stay *stay = &stays[g];
        if (stay->chunks > 1) {
            struct path path = trace_chunks(stay, lane);
            take_path(&path, lane, stay, critical_us);
            lane = path.from;
        }
        struct path path = trace_first(stay, lane);
        take_path(&path, lane, stay, critical_us);
        lane = path.from;
    }
}

static void fill_tasks(uint32_t n_lanes, const struct wring_grouping *grouping,
                       const struct stay *stays, const double *ends,
                       struct wring_timeline_result *out)
{
    for (uint32_t g = 0; g < grouping->n; g++) {
        const struct stay *stay = &stays[g];
        const double *after = g + 1 < grouping->n ? stays[g + 1].before : ends;
        for (uint32_t lane = 0; lane < n_lanes; lane++) {
            double busy = stay->once[lane] + (double)stay->chunks * stay->each[lane];
            if (busy <= 0)
                continue;
            out->busy_us[lane] += busy;
            out->tasks[out->n++] = (struct wring_lane_task){
                .group = g,
                .lane = lane,
                .ready_us = lane > 0 ? stay->first[lane - 1] : stay->before[0],
                .begin_us = stay->first[lane] - stay->once[lane] - stay->each[lane],
                .end_us = after[lane],
                .busy_us = busy,
                .critical = stay->critical[lane],
            };
        }
    }
}

/** Times as they really come, where exchanges lose some to computing. */
static void tell_true_times(const struct wring_cost_model *model,
                            struct wring_timeline_result *result)
{
    for (uint32_t i = 0; i < result->n; i++) {
        struct wring_lane_task *task = &result->tasks[i];
        task->ready_us = wring_interference_true_us(model, task->ready_us);
        task->begin_us = wring_interference_true_us(model, task->begin_us);
        task->end_us = wring_interference_true_us(model, task->end_us);
    }
}

enum wring_status wring_timeline_init(const struct wring_cost_model *model,
                                      const struct wring_grouping *grouping,
                                      struct wring_timeline_result *out)
{
    const struct wring_problem *problem = &model->problem;
    double ends[WRING_PLAN_LANES_MAX] = {0}, ready = 0;
    struct stay *stays = calloc(grouping->n + 1, sizeof(*stays));
    struct wring_lane_task *tasks =
        calloc((size_t)grouping->n * problem->n_lanes + 1, sizeof(*tasks));

    if (stays == NULL || tasks == NULL) {
        free(stays);
        free(tasks);
        return WRING_ERR_NO_MEMORY;
    }
    advance_all(problem, grouping, stays, ends);
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        ready += problem->compute_us[i];

    *out = (struct wring_timeline_result){
        .iteration_us = ends[problem->n_lanes - 1], .last_ready_us = ready, .tasks = tasks};
    mark_critical(problem->n_lanes, grouping->n, stays, out->critical_us);
    fill_tasks(problem->n_lanes, grouping, stays, ends, out);
    tell_true_times(model, out);
    free(stays);
    return WRING_OK;
}

void wring_timeline_finish(struct wring_timeline_result *result)
{
    free(result->tasks);
    *result = (struct wring_timeline_result){0};
}

/* ---- parts ---- */

static bool look(const struct wring_cost_model *model, const struct wring_grouping *grouping,
                 const struct wring_lane_task *task, struct wring_collective_parts *out)
{
    uint32_t begin = task->group > 0 ? grouping->end[task->group - 1] : 0;
    uint32_t end = grouping->end[task->group];

    return strcmp(model->lanes[task->lane], WRING_LANE_COLLECTIVE) == 0 &&
           wring_collective_parts(model, grouping->option[task->group],
                                  model->problem.elems[end] - model->problem.elems[begin], out);
}

void wring_timeline_parts(const struct wring_cost_model *model,
                          const struct wring_grouping *grouping, const struct wring_lane_task *task,
                          uint64_t most, wring_part_box_fn each, void *arg)
{
    struct wring_collective_parts parts;

    if (!look(model, grouping, task, &parts))
        return;
    uint64_t n = parts.pieces < most ? parts.pieces : most > 0 ? most : 1;
    double turn = (task->end_us - task->begin_us) / (double)n;
    double scale = turn / parts.took_us; /* a computing application stretches it, too */
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++) {
            double begin = task->begin_us + (double)i * turn + parts.begin_us[part] * scale;
            const struct wring_part_box box = {.part = (enum wring_collective_part)part,
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
                              double busy_us[WRING_COLLECTIVE_PARTS],
                              double critical_us[WRING_COLLECTIVE_PARTS])
{
    struct sums sums = {busy_us, critical_us};

    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
        busy_us[part] = critical_us[part] = 0;
    for (uint32_t i = 0; i < result->n; i++)
        wring_timeline_parts(model, grouping, &result->tasks[i], 1, add, &sums);
}
