/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which rails a process uses. A rail is a port of an RDMA device with the address (GID) and the
 * partition that it uses there.
 *
 * Reading what there is (verbs_query.h) stands apart from choosing, so that choices are made from
 * tables, by functions without a device in them. Nothing here needs the headers of libibverbs:
 * `wring info` shows the same tables in every build.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_SELECT_H
#define WRING_VERBS_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/status.h>

struct sockaddr;
struct wring_config;
struct wring_log;

#define VERBS_RAILS_MAX 8
#define VERBS_GIDS_MAX 256  /* entries of a port's table that are looked at */
#define VERBS_PKEYS_MAX 128 /* likewise */
#define VERBS_NAME 64
#define VERBS_WHY 160 /* bytes of a reason */

enum verbs_link {
    VERBS_LINK_OTHER, /* iWARP, or unknown: not usable */
    VERBS_LINK_INFINIBAND,
    VERBS_LINK_ROCE,
};

enum verbs_gid_type {
    VERBS_GID_INFINIBAND,
    VERBS_GID_ROCE_V1,
    VERBS_GID_ROCE_V2,
};

/** Does a device hang off the part of the machine that this process may run on? */
enum verbs_place {
    VERBS_PLACE_UNKNOWN, /* nothing says so; counts as near */
    VERBS_PLACE_NEAR,
    VERBS_PLACE_FAR,
};

struct verbs_gid {
    uint16_t index; /* in the port's table */
    uint8_t type;   /* enum verbs_gid_type */
    uint8_t bytes[16];
};

/** What a device can do; read for show only. */
struct verbs_abilities {
    bool extended_cq, wr_calls, dmabuf;
    uint32_t inline_bytes; /* that a queue pair was granted, of 220, 128, 64 or 32 asked for */
    uint32_t max_queue_pairs;
    uint64_t max_region_bytes;
};

/** A row of the table: one port, or a device that could not be opened (number 0). */
struct verbs_port {
    char device[VERBS_NAME];
    char trouble[VERBS_WHY]; /* why nothing more is known; else empty */
    uint8_t number;          /* from 1 */
    uint8_t state;           /* as enum ibv_port_state has it; 4 is active */
    enum verbs_link link;
    enum verbs_place place;
    int numa;              /* -1: unknown */
    uint32_t mbit;         /* what the link carries, Mbit/s; 0: unknown */
    uint32_t mtu, max_mtu; /* bytes of payload, active and largest */
    uint16_t lid;          /* InfiniBand; 0: it is reached by its GID only */
    uint32_t vendor;       /* 0xffffff: soft-RoCE */
    uint16_t n_gids, n_pkeys;
    struct verbs_gid gids[VERBS_GIDS_MAX]; /* without empty entries */
    uint16_t pkeys[VERBS_PKEYS_MAX];       /* as in the port's table; 0: empty */
    struct verbs_abilities can;
};

struct verbs_table {
    struct verbs_port *ports; /* [n]; in the order of device names as the library lists them */
    size_t n;
};

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

/* verbs_text.c */

/** Names, for people. */
const char *wring_verbs_link_text(enum verbs_link link);
const char *wring_verbs_gid_type_text(enum verbs_gid_type type);
const char *wring_verbs_state_text(unsigned state);

#define VERBS_GID_TEXT 48
/** @param text out, [VERBS_GID_TEXT]; IPv4 as such */
const char *wring_verbs_gid_text(const uint8_t *gid, char *text);

/** A socket address as a GID, IPv4 mapped; false for other families. @param gid out, [16] */
bool wring_verbs_gid_of(const struct sockaddr *address, uint8_t *gid);

/* verbs_pair.c */

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

/* verbs_pick.c, or verbs_stub.c in builds without libibverbs */

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
