/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The inside of the verbs provider: RDMA through libibverbs, InfiniBand or RoCE.
 *
 *   - rail: a device's port that this process uses, with one completion queue for all of it
 *   - path: one reliable queue pair of a connection, on one rail
 *   - connection: all paths to one peer, and the messages that travel over them
 *   - stream: the TCP connection beside them, which carries no data: it proves the key, carries
 *     what two sides have to agree on, and tells of the peer's end
 *
 * verbs/conn.h has all four. verbs/select.c chooses rails, verbs/port.c opens them. verbs/conn.c
 * lets connections come and go, verbs/qp.c makes their paths, verbs/traffic.c uses these, and
 * verbs/recovery.c goes on without those that fail, by the states of verbs/states.h. verbs/conn.c
 * has streams, verbs/memory.h the memory that devices may read and write, verbs/verbs.c the order
 * in which all of it is polled.
 *
 * A put is an RDMA write with immediate, a control message a send. Messages (puts and sends) are
 * numbered per direction, take the paths that verbs/stripe.h says, and are given to the layer above
 * in their order. Each request that ends in an immediate or a send uses up a receive request of the
 * peer; the peer writes into our memory how many it has posted in all, which are our credits.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_H
#define WRING_VERBS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/log.h"
#include "transport/door.h"
#include "transport/providers/verbs/conn.h"
#include "transport/providers/verbs/devices.h"
#include "transport/providers/verbs/library.h"
#include "transport/providers/verbs/select.h"
#include <wring/provider.h>
#include <wring/status.h>

/* The verbs provider's part of the config. */

struct wring_config;

struct verbs_settings {
    bool new_calls, classic_calls; /* may be used */
    unsigned qps;
    uint64_t stripe_bytes, recover_ns, revive_ns, handshake_ns;
    uint32_t inline_bytes;
    uint8_t timeout, retries, rnr_retries, sl, tc;
};

/* From the settings and what there is to the rails to open. */

struct wring_log;

/**
 * Read, choose, and log each choice with its reason.
 *
 * @param bound  what this process listens on; may be NULL
 * @param out    [VERBS_RAILS_MAX]
 * Errors, logged: WRING_ERR_DEVICE with every port and why it was refused; WRING_ERR_INVALID for a
 * malformed list; WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_verbs_select(const struct verbs_library *library,
                                     const struct wring_config *config,
                                     const struct sockaddr *bound, const struct wring_log *log,
                                     struct verbs_choice *out, size_t *n);

/**
 * As wring_provider_ops.suits: is there a port that would be a rail, a device that outdoes tcp, and
 * memory that may be registered? Soft-RoCE does not outdo tcp: it has to be named.
 */
enum wring_status wring_verbs_suits(const struct wring_config *config, char *reason, size_t bytes);

/** As wring_provider_ops.probe: is there a port that could be a rail? */
enum wring_status wring_verbs_probe(char *reason, size_t bytes);

/* verbs/qp.c */

struct verbs_flusher;

/** Before the memory is destroyed and rails are closed. NULL is fine. */
void wring_verbs_flusher_destroy(struct verbs_flusher *flusher);

/** As wring_provider_ops.region_flush. */
enum wring_status wring_verbs_region_flush(struct wring_region *region, const void *at,
                                           uint64_t *ticket);

#define VERBS_TO_SLEEP 2 /* provider->sleep: polls that look at everything, around a sleep */

struct verbs_provider {
    struct wring_provider base;
    struct wring_log log;
    struct verbs_settings settings;
    uint8_t secret[WRING_SECRET_BYTES];
    uint32_t job_size;
    struct sockaddr_storage bind;
    socklen_t bind_bytes;
    struct wring_ports ports; /* to listen on */
    struct verbs_library library;
    struct verbs_rail rails[VERBS_RAILS_MAX];
    unsigned n_rails;
    struct verbs_memory *memory;
    struct verbs_flusher *flusher; /* NULL: nothing has been flushed yet */
    size_t put_max_bytes;
    int epoll, listener, bell;
    struct verbs_watch listening, rings;
    struct wring_door door;
    bool is_listening; /* the epoll set speaks for the listener */

    struct verbs_conn **conns; /* [n_conns] */
    size_t n_conns, max_conns;

    /* progress */
    size_t first;            /* whose turn it is to give events first */
    unsigned sleep, skipped; /* polls: see VERBS_TO_SLEEP; since the last look at the clock */
    bool meeting;            /* some connection does not stand yet */
    uint64_t last_service_ns, quiet_since_ns, completions_seen;
    struct wring_verbs_counters counters;
};

static inline struct verbs_provider *wring_verbs_of(const struct verbs_conn *conn)
{
    return (struct verbs_provider *)conn->base.provider;
}

/*
 * Progress: rails are polled with every call, which takes no system call; sockets and what devices
 * tell besides are looked at now and then, and around a sleep.
 */

#endif
