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
#ifndef WRING_BOUND_FLOW_H
#define WRING_BOUND_FLOW_H

#include <stdint.h>

#include "planner/core/problem.h"
#include <wring/status.h>

/** A value per edge: its length, or the mass that flows along it. Lanes beyond the last have 0. */
struct wring_edges {
    double *down; /* [n_tensors × WRING_PLAN_LANES_MAX] into (tensor, lane) from the lane before */
    double *along; /* likewise, from the tensor before; of tensor 0: from the start, lane 0 */
};

/** Cells of the grid, and one row more. */
#define WRING_FLOW_CELLS(n_tensors) (((size_t)(n_tensors) + 1) * WRING_PLAN_LANES_MAX)

void wring_edges_copy(uint32_t n_tensors, const struct wring_edges *from,
                      const struct wring_edges *to);

void wring_edges_zero(uint32_t n_tensors, const struct wring_edges *edges);

/*
 * A problem seen from its end: tensors and lanes in the opposite order. Each path through groups
 * and lanes is walked the other way, and as long as before, so that a grouping takes as long as it
 * did (the reversibility of permutation flow shops: Muth, Management Science 25(5), 1979). Labels
 * of branch-and-bound are then ends of a grouping, and not beginnings.
 *
 * Owner: the caller; threads: one.
 */

struct wring_reversed {
    struct wring_problem problem;
    void *memory;
};

/** What it needs of the problem is copied. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_reversed_init(struct wring_reversed *reversed,
                                      const struct wring_problem *problem);

/** NULL inside is fine. */
void wring_reversed_finish(struct wring_reversed *reversed);

/** A grouping of the one problem as that of the other, in place. */
void wring_grouping_reverse(struct wring_grouping *grouping);

#endif
