/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Flows through the grid of tensors and lanes: the adversary of the bound.
 *
 * The time of a grouping is the length of the longest path through its groups and lanes. A path
 * through tensors and lanes, from the first tensor on lane 0 to the last tensor on the last lane,
 * going on by one tensor or by one lane at a time, is a path of every grouping: it passes the
 * tasks (group, lane) of the cells that it touches. A distribution over such paths is a unit flow;
 * its expected length is a lower bound on the time of a grouping, and the least expected length of
 * all groupings is one on the optimum, whatever the flow.
 *
 * Arrays are the caller's; threads: safe.
 */
#ifndef WRING_PLANNER_BOUND_FLOW_H
#define WRING_PLANNER_BOUND_FLOW_H

#include <stdint.h>

#include "planner/problem.h"

/** A value per edge: its length, or the mass that flows along it. Lanes beyond the last have 0. */
struct wring_edges {
    double *down; /* [n_tensors × WRING_PLAN_LANES_MAX] into (tensor, lane) from the lane before */
    double *along; /* likewise, from the tensor before; of tensor 0: from the start, lane 0 */
};

/** Doubles that wring_flow_soft() wants as `room`: cells of the grid and one row more. */
#define WRING_FLOW_ROOM(n_tensors) (((size_t)(n_tensors) + 1) * WRING_PLAN_LANES_MAX)

/**
 * The longest path, blurred: where the two ways on from a cell differ by less than `blur`, both
 * are taken, in proportion. The flow is the gradient of the value, which is convex in the lengths.
 *
 * @param blur  us; 0 takes one longest path
 * @param flow  out; NULL: only the value is wanted
 * @param room  scratch, [WRING_FLOW_ROOM(n)]
 * @return the longest path's length and at most what blurring adds
 */
double wring_flow_soft(uint32_t n_tensors, uint32_t n_lanes, const struct wring_edges *length,
                       double blur, const struct wring_edges *flow, double *room);

/** Σ mass · length. */
double wring_flow_length(uint32_t n_tensors, const struct wring_edges *flow,
                         const struct wring_edges *length);

/** from ← from + step · (to − from) */
void wring_edges_blend(uint32_t n_tensors, const struct wring_edges *to, double step,
                       const struct wring_edges *from);

void wring_edges_copy(uint32_t n_tensors, const struct wring_edges *from,
                      const struct wring_edges *to);

void wring_edges_zero(uint32_t n_tensors, const struct wring_edges *edges);

#endif
