/* SPDX-License-Identifier: Apache-2.0 */
/**
 * An example to copy from: a whole provider in three files. It puts over UNIX stream sockets in
 * the abstract namespace, between processes of one host. docs/add-a-provider.md walks through it.
 *
 * Two habits keep it small, and both keep sleepers awake when they should be:
 * - a poll serves every connection, and reads from a socket only while there is room for the event
 *   that this may lead to. What is not read stays in the kernel, where a level-triggered epoll
 *   descriptor goes on to say so;
 * - a connection that has something to send waits for room in its socket, nothing else does.
 */
#ifndef WRING_TESTS_PROVIDER_UNIX_H
#define WRING_TESTS_PROVIDER_UNIX_H

#include <sys/queue.h>

#include "transport/auth.h"
#include <wring/provider.h>

#define UNIX_PURPOSE 0x4558 /* one in the library adds itself to enum wring_auth_purpose */
#define UNIX_PUT_MAX ((size_t)1 << 30)
#define UNIX_PUTS 64
#define UNIX_MESSAGES 64
#define UNIX_SLOTS (UNIX_PUTS + UNIX_MESSAGES) /* a power of two */
#define UNIX_EVENTS 64                         /* of one poll */
#define UNIX_STEPS 64                          /* of one connection in one poll, each way */

enum unix_kind {
    UNIX_PUT = 1,
    UNIX_MESSAGE = 2,
};

/** What goes before the bytes. Both ends are on one host: its byte order is theirs. */
struct unix_frame {
    uint32_t kind, imm;
    uint64_t region, offset; /* 0 in a message */
    uint64_t bytes;
};

struct unix_region {
    struct wring_region base;
    TAILQ_ENTRY(unix_region) link;
    uint64_t id; /* never used twice */
};

struct unix_remote {
    struct wring_remote base;
    uint64_t id;
};

struct unix_out {
    struct unix_frame frame;
    const uint8_t *data; /* the caller's for a put, `message` for a message */
    uint64_t cookie;
    uint8_t message[WRING_SEND_MAX];
};

/** A frame under way to us: its header first, then its bytes. */
struct unix_in {
    struct unix_frame frame;
    struct unix_region *region; /* whose memory is being written; NULL: none */
    uint8_t *target;            /* where the next byte goes */
    size_t left;
    bool in_bytes; /* the header is complete and was found sound */
    uint8_t message[WRING_SEND_MAX];
};

enum unix_state {
    UNIX_HANDSHAKE,
    UNIX_OPEN,
    UNIX_FAILED,  /* CLOSED is still to be reported */
    UNIX_CLOSED,  /* waits for disconnect */
    UNIX_DROPPED, /* was never shown to the caller: poll frees it */
};

struct unix_conn {
    struct wring_conn base;
    TAILQ_ENTRY(unix_conn) link;
    enum unix_state state;
    int fd; /* -1: closed */
    bool accepted, waits_for_room;
    bool broken; /* the socket takes no more; reading it will tell why */
    uint64_t deadline_ns;
    struct wring_auth auth;
    enum wring_status status; /* why it is dead */
    char text[128];
    struct unix_in in;
    struct unix_out out[UNIX_SLOTS];
    uint32_t reported, sent, queued; /* free-running: reported <= sent <= queued */
    size_t sent_bytes;               /* of out[sent], header and all */
    unsigned puts, messages;         /* between reported and queued */
};

struct unix_provider {
    struct wring_provider base;
    const struct wring_log *log;
    uint8_t secret[WRING_SECRET_BYTES];
    int epoll, listener;
    uint64_t instance, next_region; /* begin anywhere, so that old names and keys lead nowhere */
    uint64_t accept_after_ns;
    TAILQ_HEAD(, unix_region) regions;
    TAILQ_HEAD(, unix_conn) conns; /* who waits longest for a turn is first */
    unsigned n_conns;
    uint8_t messages[UNIX_EVENTS][WRING_SEND_MAX]; /* what this poll's events point to */
};

/** Where a poll's events go. */
struct unix_events {
    struct wring_event *all;
    size_t n, max;
};

extern const struct wring_provider_ops wring_provider_unix;

static inline struct unix_provider *unix_of(const struct unix_conn *conn)
{
    return (struct unix_provider *)conn->base.provider;
}

/** The next event; there must be room. */
struct wring_event *wring_unix_event(struct unix_events *events, enum wring_event_kind kind,
                                     struct unix_conn *conn);

/* unix_conn.c: from listening to the end */
enum wring_status wring_unix_listen(struct wring_provider *base, void *address, size_t *bytes);
enum wring_status wring_unix_connect(struct wring_provider *base, const void *address,
                                     size_t address_bytes, const void *hello, size_t hello_bytes,
                                     struct wring_conn **out);
void wring_unix_disconnect(struct wring_conn *base);
void wring_unix_accept(struct unix_provider *provider, uint64_t now);

/** Do what can be done without waiting. There must be room for one event. */
void wring_unix_serve(struct unix_conn *conn, struct unix_events *events, uint64_t now);

/** The end, for a reason; what the caller does not know yet poll tells it. */
__attribute__((format(printf, 3, 4))) void wring_unix_fail(struct unix_conn *conn,
                                                           enum wring_status status,
                                                           const char *format, ...);

/* unix_stream.c: what goes over an open connection */
enum wring_status wring_unix_put(struct wring_conn *base, struct wring_region *region,
                                 const void *local, struct wring_remote *remote,
                                 uint64_t remote_offset, size_t bytes, uint32_t imm,
                                 uint64_t cookie);
enum wring_status wring_unix_send(struct wring_conn *base, const void *data, size_t bytes);
void wring_unix_begin_frame(struct unix_conn *conn); /* expect a header next */
void wring_unix_exchange(struct unix_conn *conn, struct unix_events *events);

#endif
