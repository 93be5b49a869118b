/* SPDX-License-Identifier: Apache-2.0 */
/** Two options for one group, tried side by side. */
#ifndef WRING_SEARCH_SIMD_EVAL_H
#define WRING_SEARCH_SIMD_EVAL_H

#include <stdbool.h>

#include "planner/core/search/cost_tables.h"
#include "planner/core/two_doubles.h"

/** Of heads + tails, with the one task and the other. */
struct wring_two_times {
    wring_pair most; /* the time of the whole */
    wring_pair sum;  /* over the lanes */
};

/**
 * What a grouping comes to with each of two tasks in one place.
 *
 * @param one, other  the tasks; may be the same
 * @param backward    `from` has tails after the group and `to` heads before it; else heads before
 *                    and tails after it
 * @param from        in, [n_lanes]
 * @param to          in, `stride` doubles from one lane to the next
 */
struct wring_two_times wring_two_tasks_meet(uint32_t n_lanes, const struct wring_task *one,
                                            const struct wring_task *other, bool backward,
                                            const double *from, const double *to, uint32_t stride);

#endif
