/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which rails a process uses. A rail is a port of an RDMA device with the address (GID) and the
 * partition that it uses there.
 *
 * Reading what there is (verbs_query.h) stands apart from choosing, so that choices are made from
 * tables (verbs_port.h), by functions without a device in them.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_SELECT_H
#define WRING_VERBS_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/providers/verbs/verbs_port.h"

/** What was asked for. */
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

/* verbs_list.c */

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
 * What a list names and no port answers to: a device that is not there, or a wrong name. Nothing of
 * a list that excludes: the same one may serve hosts that differ.
 *
 * @param text  out, [bytes], the names with commas between; empty where there are none
 */
bool wring_verbs_unmatched(const char *list, const struct verbs_table *table, char *text,
                           size_t bytes);

/* verbs_select.c */

/**
 * The best GID of a port, as an index into port->gids: the entry of the port's table that was asked
 * for; else by worth: the address bound to, RoCE v2 over IPv4, RoCE v2 over global IPv6, RoCE v2
 * link-local, RoCE v1.
 *
 * @return -1 where there is none
 */
int wring_verbs_choose_gid(const struct verbs_port *port, const struct verbs_wish *wish);

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

#endif
