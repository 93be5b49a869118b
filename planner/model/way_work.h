/* SPDX-License-Identifier: Apache-2.0 */
/** What is known apart of a whole exchange: its codec work, and its bytes on a link. */
#ifndef WRING_PLANNER_WAY_WORK_H
#define WRING_PLANNER_WAY_WORK_H

#include "planner/files/profile.h"

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

#endif
