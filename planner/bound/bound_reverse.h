/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A problem seen from its end: tensors and lanes in the opposite order. Each path through groups
 * and lanes is walked the other way, and as long as before, so that a grouping takes as long as it
 * did (the reversibility of permutation flow shops: Muth, Management Science 25(5), 1979). Labels
 * of branch-and-bound are then ends of a grouping, and not beginnings.
 *
 * Owner: the caller; threads: one.
 */
#ifndef WRING_PLANNER_BOUND_REVERSE_H
#define WRING_PLANNER_BOUND_REVERSE_H

#include "planner/problem.h"
#include <wring/status.h>

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
