/* SPDX-License-Identifier: Apache-2.0 */
/** Whole collectives that were measured: what is known apart of them, their codec work and their
 * bytes on a link; and what they take with other cores, chunk sizes and links. */
#ifndef WRING_MODEL_MEASURED_COLLECTIVE_H
#define WRING_MODEL_MEASURED_COLLECTIVE_H

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

/** The one link that all of a collective passes; NULL: there are two kinds, or nobody knows it. */
const struct wring_profile_link *wring_measured_link(const struct wring_profile *profile,
                                                     uint32_t nodes, uint32_t ranks_per_node);

/* What a whole collective takes on its two lanes, and what it would take on other links. */

/** By the elements of a bucket. */
struct wring_measured_cost {
    struct wring_cost busy; /* that a further bucket takes behind others */
    struct wring_cost rest; /* that a single one takes longer than that */
};

/*
 * What codecs and collectives take with a session's tuning: so many pinned cores for codecs in each
 * rank, pieces so large.
 */

/** A cluster and a session's tuning, and the profile to answer from. */
struct wring_core_scaling {
    const struct wring_profile *profile;
    uint32_t nodes, ranks_per_node; /* to plan for */
    double link_scale;              /* of bandwidth between nodes, against the profile's; 0: 1 */
    enum wring_computing computing;
    const struct wring_tuning *tuning; /* NULL: as the profile was measured */
};

/** Have the ranks of a node so many cores, each its own? */
bool wring_core_scaling_fits(const struct wring_core_scaling *scaling);

/** Was the codec measured on so many cores? Then each rank codes what is its own. */
bool wring_core_scaling_knows(const struct wring_core_scaling *scaling,
                              const struct wring_profile_codec *codec);

/**
 * Replace the codec's times on the CPU by those of the tuning's number of cores, by the elements
 * of one rank. If a node has fewer processors than ranks, they share them. A codec that was
 * measured with other numbers of cores alone cannot run there.
 * @param codec  in and out; unchanged for 0 cores if it was not measured by cores
 */
void wring_core_scaling_code(const struct wring_core_scaling *scaling,
                             struct wring_profile_codec *codec);

/**
 * The collective that was measured with that tuning. Else the collective that was measured inline
 * with pieces of the same size, its codec work moved to pinned cores.
 *
 * W(x) is the time of a further bucket of x elements, and P(x) its processor time. C(x) is its
 * codec work inline, D(x) that on pinned cores, and L(x) the time of its bytes on the link. Moved,
 * it takes
 *
 *     max(D, min(W, max(L, P - C)))
 *
 * since the link, the rest of the work and the codecs each go on by themselves, and the slowest of
 * them decides. If P is less than 0.9 W it takes max(D, W). A rank that waits for the link or for
 * others gains nothing from less work. A collective can be moved only if each thread has a core,
 * besides the cores that compute, and if there is one kind of links.
 *
 * If the links between nodes are to be faster or slower than the profile's, the times are
 * converted. That, too, needs one kind of links.
 *
 * @param cost  out
 * @return NULL: there is no such collective
 */
const struct wring_measured_collective *wring_core_scaling_collective(
    const struct wring_core_scaling *scaling, const char *codec, const char *run_as,
    struct wring_measured_cost *cost);

/**
 * Does a collective tell of such a cluster? It was measured on one, its ranks being on nodes of as
 * many as the profile's; and where the links between nodes are to be others, there is one kind of
 * links.
 */
bool wring_core_scaling_is_of(const struct wring_core_scaling *scaling,
                              const struct wring_measured_collective *collective);

/*
 * The processor time of collectives besides codecs, as far as a profile has it. The progressing
 * thread moves bytes and adds them, on the cores that code.
 */

/**
 * By the bytes that a rank's link passes one way, in the lane of a node's cores: how long these are
 * busy with it, all ranks of the node together.
 *
 * It is told by the processor time of uncompressed collectives, those of the profile's own cluster.
 * Inline a rank's one thread does it before or after it codes, and a node's k ranks share its P
 * processors: max(1, k/P) times as much. Codecs on c pinned cores leave it a core of its own where
 * there is one; of k (c + 1) threads those beyond P share, and only their part counts.
 *
 * @return false: nobody measured it
 */
bool wring_core_scaling_progress(const struct wring_core_scaling *scaling,
                                 struct wring_cost *us_by_bytes);

/**
 * The share of a collective's pace that is lost while all k ranks of a node compute on its P
 * processors. It is for clusters whose collectives were not measured. Each of 2 k threads has
 * min(1, P/2k) of a processor; those of collectives alone would have min(1, P/k). As many ranks as
 * were measured, or more, lose no less than these did.
 */
double wring_core_scaling_spin_lost(const struct wring_core_scaling *scaling);

#endif
