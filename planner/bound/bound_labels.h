/* SPDX-License-Identifier: Apache-2.0 */
/** The labels of a prefix: those with the least bounds, as many as there is room for. */
#ifndef WRING_PLANNER_BOUND_LABELS_H
#define WRING_PLANNER_BOUND_LABELS_H

#include "planner/bound/bound_branch.h"

static inline struct wring_label *wring_branch_labels(const struct wring_branch *branch,
                                                      uint32_t prefix)
{
    return branch->labels + (size_t)prefix * (branch->room + WRING_MERGED_MAX);
}

static inline struct wring_label *wring_branch_merged(const struct wring_branch *branch,
                                                      uint32_t prefix)
{
    return branch->merged + (size_t)prefix * WRING_MERGED_MAX;
}

/** A label goes for want of time: the optimum may be as little as its bound. */
static inline void wring_branch_drop(struct wring_branch *branch, double bound)
{
    if (bound < branch->dropped_us)
        branch->dropped_us = bound;
}

/** Take a label in, for which another may be merged with what is like it. @param width  labels per
 *  prefix, at most */
void wring_branch_keep(struct wring_branch *branch, uint32_t prefix, uint32_t width,
                       const struct wring_label *label);

/** Put the labels that stand for others among the rest, where they may lead to less than the limit.
 */
void wring_branch_take_merged(struct wring_branch *branch, uint32_t prefix);

/** Sort the labels of a prefix, best first, and let dominated ones go. */
void wring_branch_settle(struct wring_branch *branch, uint32_t prefix);

#endif
