/* SPDX-License-Identifier: Apache-2.0 */
/** What the two algorithms of Espresso share. */
#ifndef WRING_SEARCH_ESPRESSO_H
#define WRING_SEARCH_ESPRESSO_H

#include "planner/core/search/search_state.h"

#define WRING_ESPRESSO_GAIN 1e-12 /* of the time: less is rounding */

/** A tensor that an algorithm will come to. */
struct wring_espresso_candidate {
    uint64_t elems;
    uint32_t tensor, option;
};

/** Candidates of equal size and option, of which Algorithm 2 moves the first few. */
struct wring_espresso_family {
    uint32_t first, n;
    uint32_t moved;
};

struct wring_espresso {
    struct wring_search_state *search;
    uint32_t n; /* tensors */
    uint32_t *option;
    double (*heads)[WRING_PLAN_LANES_MAX],
        (*tails)[WRING_PLAN_LANES_MAX]; /* [n + 1] before each tensor */
    double time_us;
    uint32_t dropped; /* tensors before this one, where uncompressed, gain nothing */
    bool *choosable;  /* [n_options] by Algorithm 1 */
    struct wring_espresso_candidate *candidates; /* [n] */
    struct wring_espresso_family *families;      /* [n_families], room for n */
    uint32_t n_families;
};

static inline void wring_espresso_task(const struct wring_espresso *espresso, uint32_t tensor,
                                       uint32_t option, struct wring_task *task)
{
    wring_cost_tables_task(espresso->search->tables, tensor, tensor + 1, option, task);
}

#endif
