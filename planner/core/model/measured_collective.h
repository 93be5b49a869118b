/* SPDX-License-Identifier: Apache-2.0 */
/** What is known apart of a whole exchange: its codec work, and its bytes on a link. */
#ifndef WRING_PLANNER_CORE_MODEL_MEASURED_COLLECTIVE_H
#define WRING_PLANNER_CORE_MODEL_MEASURED_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/files/profile.h"
#include "planner/core/model/cost_model.h"

/** Part of the time: a thread that is busy for less waits for something else. */
#define WRING_AT_WORK 0.9

/** The codec of that very spec; NULL: none. */
const struct wring_profile_codec *wring_measured_codec(
    const struct wring_profile *profile, const struct wring_measured_collective *collective);

/** The ranks between which a collective's codes travel, and their part of a bucket. Hierarchically
 * these are one rank of each node; else all ranks, and the whole bucket. */
struct wring_measured_codes {
    uint32_t ranks;
    double part;
    bool divisible;
};

/** @param ranks_per_node  that it was measured with */
struct wring_measured_codes wring_measured_codes_of(
    const struct wring_measured_collective *collective, uint32_t ranks_per_node);

/** A rank's time to encode a bucket, in us: in two steps, the others' shards and its own sum. */
double wring_measured_encode_us(const struct wring_measured_codes *codes,
                                const struct wring_profile_coder *coder, double elems);

/** Likewise, to decode and add the other ranks' codes. */
double wring_measured_decode_us(const struct wring_measured_codes *codes,
                                const struct wring_profile_coder *coder, double elems);

/** The time of a bucket's bytes on the link, in us: no less than at the rate that it sustains. */
double wring_measured_link_us(const struct wring_measured_collective *collective,
                              const struct wring_cost *link_us, double elems);

/** The one link that all of an exchange passes; NULL: there are two kinds, or nobody knows it. */
const struct wring_profile_link *wring_measured_link(const struct wring_profile *profile,
                                                     uint32_t nodes, uint32_t ranks_per_node);

/* What a whole exchange takes on its two lanes, and what it would take on other links. */

/** By the elements of a bucket. */
struct wring_measured_cost {
    struct wring_cost busy; /* that a further bucket takes behind others */
    struct wring_cost rest; /* that a single one takes longer than that */
};

/** As it was measured, except for a further bucket. @param busy  the time of that */
struct wring_measured_cost wring_measured_cost_of(
    const struct wring_measured_collective *collective, const struct wring_cost *busy);

/**
 * The same if the one link that all its bytes pass is s times as fast. W is a further bucket's
 * time, L its bytes' time on the link and P its processor time, each no more than W. Then it takes
 *
 *     W' = max(L/s, P) + W − max(L, P)
 *
 * since the link and the processor go on beside each other, and the rest of W stays. A single
 * bucket's time changes by as much. Its first piece passes the faster of both by itself. With l and
 * p for that piece's times, it takes min(l/s, p) instead of min(l, p) there.
 *
 * @param link_us  of the link as it was measured, by bytes
 * @param scale    s, of bandwidth; latencies stay
 */
struct wring_measured_cost wring_measured_cost_relink(
    const struct wring_measured_collective *collective, const struct wring_measured_cost *cost,
    const struct wring_cost *link_us, double scale);

#endif
