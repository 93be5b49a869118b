/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What codecs and exchanges take with a session's setting: so many pinned cores for codecs in each
 * rank, pieces so large.
 */
#ifndef WRING_MODEL_CORE_SCALING_H
#define WRING_MODEL_CORE_SCALING_H

#include "planner/core/model/cost_model.h"
#include "planner/core/model/exchange.h"

/** Who asks. */
struct wring_pinned {
    const struct wring_profile *profile;
    uint32_t nodes, ranks_per_node; /* to plan for */
    double link_scale;              /* of bandwidth between nodes, against the profile's; 0: 1 */
    enum wring_computing computing;
    const struct wring_setting *setting; /* NULL: as the profile was measured */
};

/** Have the ranks of a node so many cores, each its own? */
bool wring_pinned_fits(const struct wring_pinned *pinned);

/** Was the codec measured on so many cores? Then each rank codes what is its own. */
bool wring_pinned_knows(const struct wring_pinned *pinned, const struct wring_profile_codec *codec);

/**
 * The codec's work on the CPU as that number of cores does it, by the elements of one rank. Where
 * a node has fewer processors than ranks they share them. A codec that was measured on other
 * numbers of cores alone cannot be coded there.
 * @param codec  in and out; as it was, where nobody measured it by cores, for 0 of them
 */
void wring_pinned_code(const struct wring_pinned *pinned, struct wring_profile_codec *codec);

/**
 * The way that was measured with that setting, or else the one that was measured inline, with
 * pieces as large, its codec work moved to pinned cores where it can be said what that gains.
 *
 * With W(x) for what a further bucket of x elements takes, P(x) for the processor time in it, C(x)
 * for the codec work inline and D(x) on pinned cores, and L(x) for what its bytes take on the link,
 *
 *     max(D, min(W, max(L, P - C)))
 *
 * is what it takes then: the link, the rest of the work and the codecs each go on by themselves,
 * and the slowest of them decides. Where P is less than 0.9 W it is max(D, W): whoever waits for
 * the link or for others gains nothing from less work. That needs a core for each thread, besides
 * those that compute, and one kind of links: elsewhere there is no such way.
 *
 * Where links between nodes are asked for that are faster or slower than the profile's,
 * wring_way_cost_relink() says what becomes of it, if there is one kind of links: elsewhere there
 * is no such way.
 *
 * @param cost  out
 * @return NULL: none
 */
const struct wring_profile_way *wring_pinned_way(const struct wring_pinned *pinned,
                                                 const char *codec, const char *run_as,
                                                 struct wring_way_cost *cost);

/**
 * Does a way tell of such a cluster? It was measured on one, its ranks being on nodes of as many as
 * the profile's; and where the links between nodes are to be others, there is one kind of links.
 */
bool wring_pinned_is_of(const struct wring_pinned *pinned, const struct wring_profile_way *way);

/*
 * What exchanges take of processors besides codecs, as far as a profile tells: whoever makes
 * progress moves bytes and adds them, on the cores that code.
 */

/**
 * By the bytes that a rank's link passes one way, in the lane of a node's cores: how long these are
 * busy with it, all ranks of the node together.
 *
 * It is told by the processor time of uncompressed exchanges, those of the profile's own cluster.
 * Inline a rank's one thread does it before or after it codes, and a node's k ranks share its P
 * processors: max(1, k/P) times as much. Codecs on c pinned cores leave it a core of its own where
 * there is one; of k (c + 1) threads those beyond P share, and only their part counts.
 *
 * @return false: nobody measured it
 */
bool wring_shared_cores_progress(const struct wring_pinned *pinned, struct wring_cost *us_by_bytes);

/**
 * Of an exchange's pace, what is lost while all ranks of a node compute on its processors, where no
 * exchanges of such a cluster were measured: of 2 k threads each has min(1, P/2k) of one, and alone
 * those of exchanges have min(1, P/k). As many ranks as were measured, or more, lose no less than
 * these did.
 */
double wring_shared_cores_spin_lost(const struct wring_pinned *pinned);

#endif
