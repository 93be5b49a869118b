/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Dominance: options that no plan needs, because another one takes no longer anywhere.
 *
 * The time of a plan is the length of the longest path through its grid of groups and lanes: from
 * lane to lane within a group, from group to group on a lane (a permutation flow shop). Such a path
 * stays in each group for a range of lanes, first … last, and adds up what the group takes there.
 * So an option can be replaced if for each range the other's sum is no more. Ranges of one lane
 * are among them, and they imply all others: sums compare if their terms do. Nothing weaker than
 * "no more on any lane, at any size" is safe for all groupings, and that is what is used here. For
 * chunks of the same size the same holds, chunk by chunk.
 */
#ifndef WRING_PLANNER_DOMINANCE_H
#define WRING_PLANNER_DOMINANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "planner/problem.h"

/** Is a no more than b on every lane at every size, rounding (1e-12 of it) aside? */
bool wring_dominates(const struct wring_option_cost *a, const struct wring_option_cost *b,
                     uint32_t n_lanes);

#endif
