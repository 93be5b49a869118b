/* SPDX-License-Identifier: Apache-2.0 */
/** Stops: the places among tensors where a beam lets groups end. */
#ifndef WRING_SEARCH_BREAKPOINTS_H
#define WRING_SEARCH_BREAKPOINTS_H

#include "planner/core/search/cost_tables.h"

struct wring_breakpoints {
    const struct wring_cost_tables *tables; /* borrowed */
    uint32_t n;                             /* breakpoints, without the one at 0 */
    uint32_t most; /* so many are chosen, and as many more as constraints need */
    uint32_t *at;  /* [n + 1] 0, … rising …, n_tensors; from one to the next can be one group */
    uint32_t *rank; /* [n_tensors − 1] inner places, those first that promise most */
    bool *taken;    /* [n_tensors + 1] */
};

/** Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_breakpoints_init(struct wring_breakpoints *breakpoints,
                                         const struct wring_cost_tables *tables, uint32_t most);

void wring_breakpoints_finish(struct wring_breakpoints *breakpoints);

/** The most promising places. */
void wring_breakpoints_choose(struct wring_breakpoints *breakpoints);

/** Where the groups of a grouping end, places up to `by` tensors from there, then the promising. */
void wring_breakpoints_choose_near(struct wring_breakpoints *breakpoints,
                                   const struct wring_grouping *grouping, uint32_t by);

#endif
