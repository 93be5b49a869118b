/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The inside of the verbs provider: RDMA through libibverbs, InfiniBand or RoCE.
 *
 * A connection is one reliable queue pair. A TCP connection beside it carries the handshake and
 * the queue pairs' addresses, and by its end tells of the peer's end. A put is an RDMA write with
 * immediate, a control message a send; both use up a receive request of the peer, so a sender
 * spends credits, which the peer hands back by writing its count of receives into our memory.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_VERBS_H
#define WRING_VERBS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include <wring/provider.h>

#include "base/config.h"
#include "base/log.h"
#include "transport/auth.h"
#include "transport/ports.h"
#include "transport/providers/verbs/verbs_card.h"
#include "transport/providers/verbs/verbs_library.h"

#define VERBS_RECEIVES 256 /* requests posted per connection: what a peer has credits for */
#define VERBS_SENDS 128    /* requests under way per connection, credit updates included */
#define VERBS_PUTS (VERBS_SENDS - 4)
#define VERBS_TEXT 192

enum verbs_state {
    VERBS_CONNECTING, /* TCP */
    VERBS_AUTH,       /* proving the key */
    VERBS_CARD,       /* exchanging the queue pairs' addresses */
    VERBS_READY,      /* our queue pair is ready, the peer's word that its is, is awaited */
    VERBS_OPEN,
    VERBS_DRAINING, /* the stream ended; completions there are still to be handed out */
    VERBS_DEAD,
};

struct verbs_device {
    struct ibv_context *context;
    char name[64];
    uint8_t port;
    int gid_index;
    union ibv_gid gid;
    struct ibv_port_attr attr;
};

struct verbs_region {
    struct wring_region base;
    struct verbs_region *next; /* of its provider */
    struct ibv_mr *mr;
};

struct verbs_remote {
    struct wring_remote base;
    uint64_t address;
    uint32_t rkey;
};

/* memory of a connection that the device reads and writes */
struct verbs_buffers {
    uint64_t credits; /* written by the peer: receives that it has posted anew */
    uint8_t receives[VERBS_RECEIVES][WRING_SEND_MAX];
    uint8_t sends[VERBS_SENDS][WRING_SEND_MAX]; /* also the source of credit updates */
};

struct verbs_conn {
    struct wring_conn base;
    enum verbs_state state;
    bool accepted, surfaced, news, told_closed;
    bool in_epoll, room_in_epoll;
    int fd; /* TCP; -1: closed */
    uint64_t deadline_ns;
    struct wring_auth auth;
    uint8_t out[VERBS_CARD_BYTES], in[VERBS_CARD_BYTES];
    size_t out_at, out_end, in_got;

    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct verbs_buffers *buffers;
    struct ibv_mr *mr;
    struct verbs_card card, peer;
    uint32_t sent;     /* requests that used up a receive of the peer */
    uint32_t received; /* receives of ours that were used up and posted anew */
    uint32_t told;     /* of these, how many the peer knows of */
    bool starved;      /* somebody wanted to send, and had no credits */
    uint32_t send_head, send_tail;
    struct {
        bool is_put;
        uint64_t cookie;
    } pending[VERBS_SENDS]; /* completions come in their order */

    enum wring_status status;
    char text[VERBS_TEXT];
};

/** Has the layer above been told of it, and may it use it? */
static inline bool wring_verbs_conn_stands(const struct verbs_conn *conn)
{
    return conn->state == VERBS_OPEN && !conn->news;
}

struct verbs_provider {
    struct wring_provider base;
    struct wring_log log;
    uint64_t handshake_ns;
    uint8_t secret[WRING_SECRET_BYTES];
    struct sockaddr_storage bind;
    socklen_t bind_bytes;
    struct wring_ports ports; /* to listen on */
    struct verbs_library library;
    struct verbs_device device;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    int epoll, listener;

    struct verbs_region *regions;
    struct verbs_conn **conns;
    size_t n_conns, max_conns, first;
    unsigned sleep, skipped;
    bool meeting;
    uint64_t next_service_ns;
    uint8_t message[64][WRING_SEND_MAX];
    unsigned n_messages;
};

/* verbs_device.c */

/** Load the library and see whether a port is active. As wring_provider_ops.probe. */
enum wring_status wring_verbs_probe(char *reason, size_t bytes);

/**
 * Open the device, port and GID to use. Preferred: the GID of the address we are bound to, then
 * RoCEv2 over IPv4, then other routable ones.
 * @param wish  "dev[:port]", or "" for the best
 */
enum wring_status wring_verbs_device_open(struct verbs_provider *verbs, const char *wish);

/* verbs_conn.c */
struct verbs_conn *wring_verbs_conn_create(struct verbs_provider *verbs, bool accepted, int fd,
                                           const void *hello, size_t hello_bytes);
void wring_verbs_conn_destroy(struct verbs_conn *conn);

/** Do what can be done on the TCP side now. */
void wring_verbs_conn_service(struct verbs_conn *conn);

/** Ask for a notice, lower *deadline_ns; @return true if there is something to poll already. */
bool wring_verbs_conn_arm(struct verbs_conn *conn, uint64_t *deadline_ns);

/** End it: CLOSED will be told. The text is a format. */
__attribute__((format(printf, 3, 4))) void wring_verbs_conn_fail(struct verbs_conn *conn,
                                                                 enum wring_status status,
                                                                 const char *format, ...);

/* verbs_queue.c */

/** Make the queue pair, post its receives, fill in conn->card. Logs. */
enum wring_status wring_verbs_queue_create(struct verbs_conn *conn);
void wring_verbs_queue_destroy(struct verbs_conn *conn);

/** Connect the queue pair to conn->peer. Logs. */
enum wring_status wring_verbs_queue_connect(struct verbs_conn *conn);

/** Make it drop all work. */
void wring_verbs_queue_stop(struct verbs_conn *conn);

/** Hand out events. @return how many of events[max] were written */
size_t wring_verbs_conn_events(struct verbs_conn *conn, struct wring_event *events, size_t max);

enum wring_status wring_verbs_put(struct wring_conn *base, unsigned lane,
                                  struct wring_region *region, const void *local,
                                  struct wring_remote *remote, uint64_t remote_offset, size_t bytes,
                                  uint32_t imm, uint64_t cookie);
enum wring_status wring_verbs_send(struct wring_conn *base, const void *data, size_t bytes);

#endif
