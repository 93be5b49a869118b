/* SPDX-License-Identifier: Apache-2.0 */
/** Which rails of two sides can reach each other. Pure. */
#ifndef WRING_VERBS_PAIR_H
#define WRING_VERBS_PAIR_H

#include "transport/providers/verbs/verbs_select.h"

/** What a side tells of one of its rails. From a peer: checked by who read it, see the fields. */
struct verbs_end {
    enum verbs_link link;         /* INFINIBAND or ROCE */
    enum verbs_gid_type gid_type; /* any of the three */
    uint8_t gid[16];
    uint16_t pkey;
    uint32_t mtu; /* 256, 512, 1024, 2048 or 4096 */
};

/** Two rails that can reach each other, by their indices. */
struct verbs_pair {
    uint8_t dialing, accepting;
    uint32_t mtu; /* the smaller one */
};

/** Is a GID an IPv4 address? */
bool wring_verbs_is_v4(const uint8_t *gid);

struct verbs_end wring_verbs_end_of(const struct verbs_choice *choice);

/**
 * Which rails of two sides make pairs. Both sides come to the same pairs in the same order, since
 * both call it with the dialing side's rails first. A pair has one link layer, the same kind of
 * GID, partitions that meet and, on InfiniBand, the same subnet. Of those that could be, rails in
 * the same network (64 bits of prefix; of IPv4 24 bits) are paired first, then the rest, in order
 * of index. Every rail is in one pair at most.
 *
 * @param n_dialing, n_accepting  1..VERBS_RAILS_MAX
 * @param we_dial  for the text: who is "ours"
 * @param out  [VERBS_RAILS_MAX]
 * @param why  out, [bytes], written where there is no pair: what differs
 * @return how many pairs
 */
size_t wring_verbs_pair(const struct verbs_end *dialing, size_t n_dialing,
                        const struct verbs_end *accepting, size_t n_accepting, bool we_dial,
                        struct verbs_pair *out, char *why, size_t bytes);

/**
 * Would wring_verbs_pair() find any, whoever dials? Of a GID it looks at what makes the network
 * only, see verbs_address.h. @param why out, [bytes], where not: what differs
 */
bool wring_verbs_may_pair(const struct verbs_end *one, size_t n_one, const struct verbs_end *other,
                          size_t n_other, char *why, size_t bytes);

/** What pairs with one of them pairs with the other. */
bool wring_verbs_pairs_alike(const struct verbs_end *a, const struct verbs_end *b);

#endif
