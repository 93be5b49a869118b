/* SPDX-License-Identifier: Apache-2.0 */
/** What a whole exchange takes on its two lanes, and what it would take on other links. */
#ifndef WRING_PLANNER_WAY_COST_H
#define WRING_PLANNER_WAY_COST_H

#include "planner/files/profile.h"

/** By the elements of a bucket. */
struct wring_way_cost {
    struct wring_cost busy; /* that a further bucket takes behind others */
    struct wring_cost rest; /* that a single one takes longer than that */
};

/** As it was measured, but for what a further bucket takes. @param busy  of that */
struct wring_way_cost wring_way_cost_of(const struct wring_profile_way *way,
                                        const struct wring_cost *busy);

/**
 * The same where the one link that all its bytes pass is so many times as fast. With W for what a
 * further bucket takes, L for what its bytes take on the link, P for the processor time, each no
 * more than W, and s for how many times as fast,
 *
 *     W' = max(L/s, P) + W − max(L, P)
 *
 * since the link and the processor go on beside each other, and what is neither's stays as it is.
 * A single bucket takes as much more or less, and min(l/s, p) instead of min(l, p) for the part
 * of them that its first piece has: that one passes the faster of both by itself.
 *
 * @param link_us  of the link as it was measured, by bytes
 * @param scale    s, of bandwidth; latencies stay
 */
struct wring_way_cost wring_way_cost_relink(const struct wring_profile_way *way,
                                            const struct wring_way_cost *cost,
                                            const struct wring_cost *link_us, double scale);

#endif
