/* SPDX-License-Identifier: Apache-2.0 */
/** Blocks: labels that go through a task side by side, in pairs. */
#ifndef WRING_PLANNER_BEAM_BLOCK_H
#define WRING_PLANNER_BEAM_BLOCK_H

#include <stdbool.h>

#include "planner/search/rates.h"
#include "planner/search/two_tasks.h"

#define WRING_BEAM_BLOCK 8 /* labels */
#define WRING_BEAM_PAIRS (WRING_BEAM_BLOCK / 2)

/** A task, and what more chunks of it add. */
struct wring_beam_task {
    struct wring_task task;
    double way[WRING_PLAN_LANES_MAX][WRING_PLAN_LANES_MAX]; /* where there are any: the longest way
                                                     of the chunks after the first from a lane to
                                                     one that is not before it */
};

/** Fill in the ways. */
void wring_beam_task_finish(struct wring_beam_task *task, uint32_t n_lanes);

/**
 * Labels through a task.
 *
 * @param from      in,  [n_lanes × stride], heads before the task, or tails after it
 * @param stride    pairs from one lane to the next
 * @param backward  those are tails
 * @param to        out, [n_lanes × WRING_BEAM_PAIRS]
 */
void wring_beam_block_step(uint32_t n_lanes, const struct wring_beam_task *task, bool backward,
                           const wring_pair *from, uint32_t stride, wring_pair *to);

/**
 * What two labels are worth, each with one of the other side: the time that both make, and a little
 * for the mean lane, lest all that end alike look alike.
 */
wring_pair wring_beam_worth(uint32_t n_lanes, const struct wring_two_times *times);

/**
 * What the labels of a block are worth.
 *
 * @param lanes  in,  as wring_beam_block_step() gives them
 * @param other  in,  the other side's label, `stride` doubles from one lane to the next
 * @param worth  out, [WRING_BEAM_BLOCK]
 */
void wring_beam_block_measure(uint32_t n_lanes, const wring_pair *lanes, const double *other,
                              uint32_t stride, double *worth);

#endif
