/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The RDMA ports of this host, as tables that choices are made from and that `wring info` shows.
 * Nothing here needs the headers of libibverbs; verbs/library.h reads it from there.
 */
#ifndef WRING_VERBS_DEVICES_H
#define WRING_VERBS_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sockaddr;

#define VERBS_RAILS_MAX 8
#define VERBS_GIDS_MAX 256  /* entries of a port's table that are looked at */
#define VERBS_PKEYS_MAX 128 /* likewise */
#define VERBS_NAME 64
#define VERBS_WHY 160 /* bytes of a reason */
#define VERBS_VENDOR_SOFT \
    0xffffffu /* soft-RoCE (rdma_rxe), which the kernel carries over Ethernet */

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
enum verbs_locality {
    VERBS_LOCALITY_UNKNOWN, /* nothing says so; counts as near */
    VERBS_LOCALITY_NEAR,
    VERBS_LOCALITY_FAR,
};

struct verbs_gid {
    uint16_t index; /* in the port's table */
    uint8_t type;   /* enum verbs_gid_type */
    uint8_t bytes[16];
};

/** The abilities of a device; read for show only. */
struct verbs_caps {
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
    enum verbs_locality locality;
    int numa;              /* -1: unknown */
    uint32_t mbit;         /* what the link carries, Mbit/s; 0: unknown */
    uint32_t mtu, max_mtu; /* bytes of payload, active and largest */
    uint16_t lid;          /* InfiniBand; 0: it is reached by its GID only */
    uint32_t vendor;       /* VERBS_VENDOR_SOFT, or a device's maker */
    uint16_t n_gids, n_pkeys;
    struct verbs_gid gids[VERBS_GIDS_MAX]; /* without empty entries */
    uint16_t pkeys[VERBS_PKEYS_MAX];       /* as in the port's table; 0: empty */
    struct verbs_caps can;
};

struct verbs_table {
    struct verbs_port *ports; /* [n]; in the order of device names as the library lists them */
    size_t n;
};

/* verbs/devices.c */

/** Names, for people. */
const char *wring_verbs_link_text(enum verbs_link link);
const char *wring_verbs_gid_type_text(enum verbs_gid_type type);
const char *wring_verbs_state_text(unsigned state);

#define VERBS_GID_TEXT 48
/** @param text out, [VERBS_GID_TEXT]; IPv4 as such */
const char *wring_verbs_gid_text(const uint8_t *gid, char *text);

/** A socket address as a GID, IPv4 mapped; false for other families. @param gid out, [16] */
bool wring_verbs_gid_of(const struct sockaddr *address, uint8_t *gid);

/* Counters of the verbs provider's work, so that its cost per byte can be told. */

struct wring_provider;

struct wring_verbs_counters {
    uint64_t puts, put_bytes, sends; /* as asked for by the layer above */
    uint64_t requests;               /* posted to send queues: stripes, sends, credits */
    uint64_t signalled;              /* of these, with a completion asked for */
    uint64_t inlined;                /* of these, with their bytes in the request */
    uint64_t doorbells;              /* posts to send queues */
    uint64_t credit_writes;
    uint64_t receives, receive_doorbells; /* posted to receive queues, and posts */
    uint64_t completions;                 /* taken out of completion queues */
    uint64_t control_bytes; /* of control messages, which are copied on their way out */
    uint64_t copied_bytes;  /* of puts, by the CPU: into requests that are sent inline */
    uint64_t registrations; /* of memory, with each device */
    uint64_t paths_lost, trials, resyncs, recoveries;
};

/** The counts since an earlier look: now -= before. */
void wring_verbs_counters_since(struct wring_verbs_counters *now,
                                const struct wring_verbs_counters *before);

/** @return false where the provider is another one */
bool wring_verbs_counters_of(const struct wring_provider *provider,
                             struct wring_verbs_counters *out);

#endif
