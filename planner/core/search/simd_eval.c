/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/search/simd_eval.h"

/** Chunks are seldom enough to go one by one. @param lanes  out, [n_lanes] */
static void step_chunked(uint32_t n_lanes, const struct wring_task *const *tasks, bool backward,
                         const double *from, wring_pair *lanes)
{
    double after[WRING_PLAN_LANES_MAX];

    for (int i = 0; i < 2; i++) {
        if (backward)
            wring_task_retreat(n_lanes, tasks[i], from, after);
        else
            wring_task_advance(n_lanes, tasks[i], from, after);
        for (uint32_t lane = 0; lane < n_lanes; lane++)
            lanes[lane][i] = after[lane];
    }
}

static void step_back(uint32_t n_lanes, const struct wring_task *one,
                      const struct wring_task *other, const double *from, wring_pair *lanes)
{
    wring_pair left = {0};

    for (uint32_t lane = n_lanes; lane-- > 0;)
        lanes[lane] = left = wring_pair_later((wring_pair){from[lane], from[lane]}, left) +
                             (wring_pair){one->took[lane], other->took[lane]};
}

static void step_on(uint32_t n_lanes, const struct wring_task *one, const struct wring_task *other,
                    const double *from, wring_pair *lanes)
{
    wring_pair left = {0};

    for (uint32_t lane = 0; lane < n_lanes; lane++)
        lanes[lane] = left = wring_pair_later((wring_pair){from[lane], from[lane]}, left) +
                             (wring_pair){one->took[lane], other->took[lane]};
}

struct wring_two_times wring_two_tasks_meet(uint32_t n_lanes, const struct wring_task *one,
                                            const struct wring_task *other, bool backward,
                                            const double *from, const double *to, uint32_t stride)
{
    struct wring_two_times times = {{0}, {0}};
    wring_pair lanes[WRING_PLAN_LANES_MAX];

    if (one->more > 0 || other->more > 0)
        step_chunked(n_lanes, (const struct wring_task *const[]){one, other}, backward, from,
                     lanes);
    else if (backward)
        step_back(n_lanes, one, other, from, lanes);
    else
        step_on(n_lanes, one, other, from, lanes);
    for (uint32_t lane = 0; lane < n_lanes; lane++, to += stride) {
        wring_pair time = lanes[lane] + (wring_pair){*to, *to};
        times.most = wring_pair_later(times.most, time);
        times.sum += time;
    }
    return times;
}
