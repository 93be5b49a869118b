/* SPDX-License-Identifier: Apache-2.0 */
/** What pictures show inside of exchanges that were measured as a whole: apportioned boxes. */
#ifndef WRING_PLANNER_TIMELINE_PARTS_H
#define WRING_PLANNER_TIMELINE_PARTS_H

#include "planner/model/exchange_parts.h"
#include "planner/timeline.h"

/** A part of one or some pieces of a group's exchange. */
struct wring_part_box {
    enum wring_exchange_part part;
    double begin_us, end_us;
    uint64_t pieces; /* that it stands for, about */
    bool critical;   /* on the path that takes as long as the iteration */
};

typedef void (*wring_part_box_fn)(void *arg, const struct wring_part_box *box);

/**
 * The parts of one task, piece by piece; nothing for a task that is no measured exchange.
 * @param most  boxes of each part; where there are more pieces, a box stands for several
 */
void wring_timeline_parts(const struct wring_cost_model *model,
                          const struct wring_grouping *grouping, const struct wring_lane_task *task,
                          uint64_t most, wring_part_box_fn each, void *arg);

/** What each part takes in all of a timeline, and what of that decides. Both out, in us. */
void wring_timeline_part_sums(const struct wring_cost_model *model,
                              const struct wring_grouping *grouping,
                              const struct wring_timeline_result *result,
                              double busy_us[WRING_EXCHANGE_PARTS],
                              double critical_us[WRING_EXCHANGE_PARTS]);

#endif
