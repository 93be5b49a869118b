/* SPDX-License-Identifier: Apache-2.0 */
/** Stops: the places among tensors where a beam lets groups end. */
#ifndef WRING_SEARCH_BREAKPOINTS_H
#define WRING_SEARCH_BREAKPOINTS_H

#include "planner/core/search/cost_tables.h"

struct wring_stops {
    const struct wring_rates *rates; /* borrowed */
    uint32_t n;                      /* stops, without the one at 0 */
    uint32_t most;                   /* so many are chosen, and as many more as constraints need */
    uint32_t *at; /* [n + 1] 0, … rising …, n_tensors; from one to the next can be one group */
    uint32_t *rank; /* [n_tensors − 1] inner places, those first that promise most */
    bool *taken;    /* [n_tensors + 1] */
};

/** Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_stops_init(struct wring_stops *stops, const struct wring_rates *rates,
                                   uint32_t most);

void wring_stops_finish(struct wring_stops *stops);

/** The most promising places. */
void wring_stops_choose(struct wring_stops *stops);

/** Where the groups of a grouping end, places up to `by` tensors from there, then the promising. */
void wring_stops_choose_near(struct wring_stops *stops, const struct wring_grouping *grouping,
                             uint32_t by);

#endif
