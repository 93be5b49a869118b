/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which rails a process uses. A rail is a port of an RDMA device with the address (GID) and the
 * partition that it uses there.
 *
 * Reading what there is (verbs/library.h) stands apart from choosing, so that choices are made from
 * tables (verbs/devices.h), by functions without a device in them.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_SELECT_H
#define WRING_VERBS_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/providers/verbs/devices.h"

/** The user's wishes. */
struct verbs_wish {
    const char *devices; /* WRING_VERBS_DEVICES */
    unsigned rails;      /* 1..VERBS_RAILS_MAX */
    int gid_index;       /* -1: choose */
    uint16_t pkey;
    uint32_t mtu;         /* 0: the port's */
    const uint8_t *bound; /* [16] the address this process is bound to as a GID, or NULL */
};

/** A rail to be opened. */
struct verbs_choice {
    char device[VERBS_NAME];
    uint8_t port;
    enum verbs_link link;
    struct verbs_gid gid;
    uint16_t lid;
    uint16_t pkey, pkey_index;
    uint32_t mtu;  /* bytes: the port's or, if smaller, what was asked for */
    uint32_t mbit; /* 0: unknown */
    uint32_t vendor;
    int numa;
};

/* verbs/devices.c */

/**
 * Does a list name a port? Lists are as others in this field have them:
 *
 *     mlx5,rxe        devices whose names begin so; what stands first is preferred
 *     =mlx5_0,mlx5_1  these names exactly
 *     ^mlx5_2         all but those that begin so; ^=mlx5_2: all but this one
 *     mlx5_0:2        only port 2 of it
 *
 * An empty list names all. @return its preference, 0 the best; -1: no
 */
int wring_verbs_match(const char *list, const char *device, unsigned port);

/** Is a list well-formed? @return NULL, or what is wrong with it */
const char *wring_verbs_list_fault(const char *list);

/**
 * The names in a list that no port answers to: a device that is not there, or a wrong name. None
 * for a list that excludes: the same one may serve hosts that differ.
 *
 * @param text  out, [bytes], the names with commas between; empty where there are none
 */
bool wring_verbs_unmatched(const char *list, const struct verbs_table *table, char *text,
                           size_t bytes);

/* verbs/select.c */

/**
 * Choose rails, best first.
 *
 * A port can be used if it is active, InfiniBand or RoCE, named by the list, has the partition and
 * a GID. If the list names what to use, its order is the order of preference, and all that it
 * names are taken. Otherwise the best port is the one with a routable address, then with the
 * highest speed (a port far from this process counts half), then the one whose address is bound
 * to; further rails are those that equal it in link layer, kind of address, speed and place:
 * stripes are of one size, so that a slower rail would hold up the others.
 *
 * @param out  [VERBS_RAILS_MAX]
 * @param why  out, [table->n], for each port in one line why it was chosen or not
 * @return how many rails were chosen
 */
size_t wring_verbs_choose(const struct verbs_table *table, const struct verbs_wish *wish,
                          struct verbs_choice *out, char (*why)[VERBS_WHY]);

/* Which rails of two sides can reach each other. Pure. */

/** A rail as its side describes it. The reader has checked a peer's: see the fields. */
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
 * GID, partitions that meet and, on InfiniBand, the same subnet. Rails in the same network (64 bits
 * of prefix; of IPv4 24 bits) are paired first, then the rest, in order of index. Every rail is in
 * one pair at most.
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
 * Would wring_verbs_pair() find any, whichever side dials? Of a GID it looks only at the network,
 * see verbs/handshake.h. @param why out, [bytes], where not: what differs
 */
bool wring_verbs_may_pair(const struct verbs_end *one, size_t n_one, const struct verbs_end *other,
                          size_t n_other, char *why, size_t bytes);

/** Does each rail that pairs with one of them pair with the other? */
bool wring_verbs_pairs_alike(const struct verbs_end *a, const struct verbs_end *b);

/*
 * The RDMA part of `wring info`; in every build: verbs/port.c has it, or verbs/stub.c where there
 * are no headers of libibverbs.
 */

struct wring_config;

/** All that `wring info` shows. */
struct verbs_survey {
    struct verbs_table table;
    struct verbs_choice rails[VERBS_RAILS_MAX];
    size_t n_rails;
    char (*why)[VERBS_WHY];    /* [table.n] */
    char unmatched[VERBS_WHY]; /* what WRING_VERBS_DEVICES names that is not there */
    char reason[VERBS_WHY];    /* why there is no table; empty where there is one */
};

/** Look at every device and try out what it can do; the rails that would be chosen now. */
void wring_verbs_survey(const struct wring_config *config, struct verbs_survey *out);

void wring_verbs_survey_finish(struct verbs_survey *survey);

#endif
