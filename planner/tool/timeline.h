/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Timelines: when every task of a plan begins and ends, which of them decide how long the
 * iteration takes, and pictures of that.
 */
#ifndef WRING_PLANNER_TOOL_TIMELINE_H
#define WRING_PLANNER_TOOL_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "planner/core/model/cost_model.h"
#include "planner/tool/collective_parts.h"
#include <wring/status.h>

/** A group's stay on a lane; of several chunks, from the first one's begin to the last one's end.
 */
struct wring_lane_task {
    uint32_t group, lane;
    double ready_us; /* when its group had left the lane before (its first chunk) */
    double begin_us, end_us;
    double busy_us; /* of that, time in which the lane works for it */
    bool critical;  /* on the path that takes as long as the iteration */
};

struct wring_timeline_result {
    double iteration_us;
    double last_ready_us; /* backward alone, without anything on the device that delays it */
    double busy_us[WRING_PLAN_LANES_MAX];
    double critical_us[WRING_PLAN_LANES_MAX]; /* what each lane adds to the iteration: it is their
                                                 sum */
    uint32_t n;                               /* tasks that take time */
    struct wring_lane_task *tasks;            /* [n], by group, then lane */
};

/** Work out a timeline. Free it with wring_timeline_finish(). Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_timeline_init(const struct wring_cost_model *model,
                                      const struct wring_grouping *grouping,
                                      struct wring_timeline_result *out);

void wring_timeline_finish(struct wring_timeline_result *result);

/** Chrome trace events in JSON, which Perfetto shows. Errors: WRING_ERR_SYSTEM (cannot write). */
enum wring_status wring_timeline_write_perfetto(const struct wring_cost_model *model,
                                                const struct wring_grouping *grouping,
                                                const struct wring_timeline_result *result,
                                                FILE *file);

/** A picture: a row per lane, groups as boxes, the critical path marked. Errors: as above. */
enum wring_status wring_timeline_write_svg(const struct wring_cost_model *model,
                                           const struct wring_grouping *grouping,
                                           const struct wring_timeline_result *result, FILE *file);

/* What pictures show inside of collectives that were measured as a whole: apportioned boxes. */

/** A part of one or some pieces of a group's collective. */
struct wring_part_box {
    enum wring_collective_part part;
    double begin_us, end_us;
    uint64_t pieces; /* that it stands for, about */
    bool critical;   /* on the path that takes as long as the iteration */
};

typedef void (*wring_part_box_fn)(void *arg, const struct wring_part_box *box);

/**
 * The parts of one task, piece by piece; nothing for a task that is no measured collective.
 * @param most  boxes of each part; where there are more pieces, a box stands for several
 */
void wring_timeline_parts(const struct wring_cost_model *model,
                          const struct wring_grouping *grouping, const struct wring_lane_task *task,
                          uint64_t most, wring_part_box_fn each, void *arg);

#endif
