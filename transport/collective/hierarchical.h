/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Hierarchical allreduce: a collective between nodes, inside the two halves of one within each
 * node. It has no channels of its own. It cuts the elements into slices, each of which has three
 * legs, collectives like any other, one after the other:
 *
 *   - in, sharded and kept: ranks of a node reduce-scatter; each owns the node's sum of a shard
 *   - across, any scheme: ranks in the same place of all nodes allreduce their shard; codecs and
 *     error feedback are here alone
 *   - out, a collective: ranks of a node allgather the shards
 *
 * Slices overlap: while one is between nodes, the next one is summed within them. The node's sums
 * of a slice begin once those of the slice before have been made, so that what goes between nodes
 * is on its way first.
 *
 * Source: two-level allreduce as in Espresso (EuroSys 2023) and BlueConnect (MLSys 2019).
 */
#ifndef WRING_TRANSPORT_HIERARCHICAL_H
#define WRING_TRANSPORT_HIERARCHICAL_H

#include "transport/collective/collective.h"

#define WRING_SLICES_MAX 4

enum wring_leg {
    WRING_LEG_IN,
    WRING_LEG_ACROSS,
    WRING_LEG_OUT,
};
#define WRING_LEGS 3

struct wring_slice {
    struct wring_collective *legs[WRING_LEGS]; /* borrowed; each has two members or more */
    uint32_t begun;                            /* legs, in this step */
};

struct wring_levels {
    uint32_t n;
    struct wring_slice slices[WRING_SLICES_MAX];
};

/** The `finished` of a leg: it makes the whole runnable, so that the next leg begins. */
void wring_leg_finished(struct wring_collective *leg, enum wring_status status);

#endif
