/* SPDX-License-Identifier: Apache-2.0 */
/** What is known apart of a whole exchange: its codec work, and its bytes on a link. */
#ifndef WRING_MODEL_EXCHANGE_H
#define WRING_MODEL_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/files/profile.h"
#include "planner/core/model/cost_model.h"

/** Of the time: who is busy for less waits for something else. */
#define WRING_AT_WORK 0.9

/** The codec of that very spec; NULL: none. */
const struct wring_profile_codec *wring_way_codec(const struct wring_profile *profile,
                                                  const struct wring_profile_way *way);

/** Between whom the codes of a way travel: all its ranks, or hierarchically those in one place of
 * all nodes, and of what part of a bucket. */
struct wring_way_codes {
    uint32_t ranks;
    double part;
    bool divisible;
};

/** @param ranks_per_node  that it was measured with */
struct wring_way_codes wring_way_codes_of(const struct wring_profile_way *way,
                                          uint32_t ranks_per_node);

/** What encoding a bucket takes one rank, in us: in two steps the others' shards and its own sum.
 */
double wring_way_encode_us(const struct wring_way_codes *codes,
                           const struct wring_profile_coder *coder, double elems);

/** Likewise, decoding and adding what comes from the others. */
double wring_way_decode_us(const struct wring_way_codes *codes,
                           const struct wring_profile_coder *coder, double elems);

/** A bucket's bytes on the link, in us: it sustains no more than it lets through of many. */
double wring_way_link_us(const struct wring_profile_way *way, const struct wring_cost *link_us,
                         double elems);

/** The one link that all of an exchange passes; NULL: there are two kinds, or nobody knows it. */
const struct wring_profile_link *wring_way_link(const struct wring_profile *profile, uint32_t nodes,
                                                uint32_t ranks_per_node);

/* What a whole exchange takes on its two lanes, and what it would take on other links. */

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
