/* SPDX-License-Identifier: Apache-2.0 */
/** Lanes: who of those that can be busy waits for whom, as each kind of timeline sees it. */
#ifndef WRING_PLANNER_LANES_H
#define WRING_PLANNER_LANES_H

#include "planner/core/model/cost_model.h"
#include "planner/core/model/option_work.h"

struct wring_lanes {
    uint32_t n;
    const char *names[WRING_PLAN_LANES_MAX]; /* static */
};

/** The lanes of a kind of timeline, other than AUTO, in the order in which groups pass them. */
struct wring_lanes wring_lanes_of(enum wring_timeline timeline);

/**
 * An option's work put on the lanes.
 *
 * @param chunk_elems  0: no chunks; else every chunk takes what its size takes, and the group its
 *                     latencies once
 */
void wring_lanes_cost(enum wring_timeline timeline, const struct wring_work *work,
                      uint64_t chunk_elems, struct wring_option_cost *out);

#endif
