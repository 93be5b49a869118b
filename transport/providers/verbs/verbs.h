/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The inside of the verbs provider: RDMA through libibverbs, InfiniBand or RoCE.
 *
 *   - verbs_rail.h: a device's port that this process uses, with one completion queue for all of it
 *   - verbs_path.h: one reliable queue pair of a connection, on one rail
 *   - verbs_conn.h: all paths to one peer, and what travels over them
 *   - verbs_stream.h: the TCP connection beside them, which carries no data: it proves the key,
 *     carries what two sides have to agree on, and tells of the peer's end
 *
 * verbs_select.h chooses rails, verbs_setup.h makes paths, verbs_post.h and verbs_complete.h use
 * them, verbs_resync.h goes on without those that fail. verbs_listen.h has how connections come and
 * go, verbs_progress.h what is done when, verbs_memory.h what devices may read and write.
 *
 * A put is an RDMA write with immediate, a control message a send. Messages (puts and sends) are
 * numbered per direction, take the paths that verbs_stripe.h says, and are given to the layer above
 * in their order. Each request that ends in an immediate or a send uses up a receive request of the
 * peer; the peer writes into our memory how many it has posted in all, which are our credits.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_H
#define WRING_VERBS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <wring/provider.h>

#include "base/log.h"
#include "transport/door.h"
#include "transport/ports.h"
#include "transport/providers/verbs/verbs_conn.h"
#include "transport/providers/verbs/verbs_counters.h"
#include "transport/providers/verbs/verbs_library.h"
#include "transport/providers/verbs/verbs_settings.h"

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
    size_t put_max_bytes;
    int epoll, listener;
    struct verbs_watch listening;
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

#endif
