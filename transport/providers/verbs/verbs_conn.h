/* SPDX-License-Identifier: Apache-2.0 */
/** Connections: the paths to one peer, what travels over them, and the stream beside them. */
#ifndef WRING_VERBS_CONN_H
#define WRING_VERBS_CONN_H

#include <wring/provider.h>

#include "transport/providers/verbs/verbs_memory.h"
#include "transport/providers/verbs/verbs_path.h"
#include "transport/providers/verbs/verbs_resync.h"
#include "transport/providers/verbs/verbs_stream.h"
#include "transport/providers/verbs/verbs_stripe.h"

#define VERBS_MESSAGES 128 /* puts and sends under way per connection; a power of two */
#define VERBS_PUTS (VERBS_MESSAGES - 4)
#define VERBS_TEXT 384

struct verbs_provider;

enum verbs_state {
    VERBS_CONNECTING, /* TCP */
    VERBS_AUTH,       /* proving the key */
    VERBS_OFFER,      /* which rails there are */
    VERBS_CARDS,      /* the queue pairs' addresses */
    VERBS_READY,      /* our queue pairs are ready, the peer's word that its are, is awaited */
    VERBS_OPEN,
    VERBS_RESYNC,   /* a path failed: both sides agree on how to go on without it */
    VERBS_DRAINING, /* the stream ended; what has come is still to be handed out */
    VERBS_DEAD,
};

/** Memory of a connection that devices read and write. */
struct verbs_buffers {
    /* by path: how many receives were posted in all; 64 bytes each, aligned */
    uint32_t credits[VERBS_PATHS_MAX]; /* there; the peer writes it */
    uint32_t posted[VERBS_PATHS_MAX];  /* here: the source of what we write there */
    uint8_t nothing[WRING_SEND_MAX];   /* to be sent where it does not matter */
    uint8_t sends[VERBS_MESSAGES][WRING_SEND_MAX];
    uint8_t receives[][VERBS_RECEIVES][WRING_SEND_MAX]; /* [n_paths] */
};

/** A put or a send that is under way. */
struct verbs_message {
    bool is_put;
    bool on_device; /* its source is memory that the processor cannot read */
    unsigned parts; /* requests that are not complete yet */
    uint64_t cookie;
    uint32_t imm;
    const void *local;
    uint64_t bytes, remote;
    uint32_t lkeys[VERBS_RAILS_MAX], rkeys[VERBS_RAILS_MAX]; /* by our and by the peer's rails */
};

/** Paths that messages of one direction take, in this order. */
struct verbs_set {
    struct verbs_stripes stripes;
    struct verbs_path *paths[VERBS_PATHS_MAX]; /* [stripes.paths] */
};

struct verbs_conn {
    struct wring_conn base;
    enum verbs_state state;
    bool accepted, surfaced, news, told_closed;
    bool turned_away; /* for others who wait */
    bool starved;     /* the last put found no credits */
    bool done_next;   /* whose turn it is: completions or arrivals */

    struct verbs_stream stream;
    uint32_t origin; /* where it comes from, as a number */
    uint64_t since_ns;
    uint64_t deadline_ns; /* of meeting, or of agreeing how to go on */
    char peer_name[64];

    /* its signs of life: completions in all, and those that were there at heard_ns */
    uint64_t completions, completions_seen, heard_ns;

    struct verbs_offer offer; /* the peer's */
    struct verbs_path *paths[VERBS_PATHS_MAX];
    unsigned n_paths;
    uint32_t dead;    /* of these, a bit each */
    uint32_t revived; /* of the dead ones: they may work again */
    struct verbs_trial trial;
    struct verbs_set out_set, in_set;
    struct verbs_resync resync;
    struct verbs_buffers *buffers;
    struct verbs_pin *pin; /* of buffers */

    /* messages we send: done <= spread over paths <= next; those before done are the caller's */
    struct verbs_message messages[VERBS_MESSAGES];
    uint64_t next, spread, done;
    uint64_t delivered; /* messages of the peer that were given out */

    enum wring_status status;
    char text[VERBS_TEXT];
    char first_text[VERBS_TEXT]; /* of the first path that failed since it last went on; or "" */
};

/** Is a path in a mask of a bit each? */
static inline bool wring_verbs_is_in(uint32_t mask, unsigned path)
{
    return (mask >> path & 1) != 0;
}

static inline uint32_t wring_verbs_all_paths(const struct verbs_conn *conn)
{
    return (1u << conn->n_paths) - 1;
}

/** CONNECTED or ACCEPTED was given, or it is over. */
static inline bool wring_verbs_stands(const struct verbs_conn *conn)
{
    return conn->state > VERBS_OPEN || (conn->state == VERBS_OPEN && !conn->news);
}

struct verbs_conn *wring_verbs_conn_create(struct verbs_provider *verbs, bool accepted, int fd,
                                           const void *hello, size_t hello_bytes);
void wring_verbs_conn_destroy(struct verbs_conn *conn);

/** Messages take all paths but those of a mask, in their order. */
void wring_verbs_set_paths(const struct verbs_conn *conn, uint32_t without, struct verbs_set *set);

/** Lower *deadline_ns; @return true if there is something to poll already. */
bool wring_verbs_conn_arm(struct verbs_conn *conn, uint64_t *deadline_ns);

/** End it: CLOSED will be told. The text is a format. */
__attribute__((format(printf, 3, 4))) void wring_verbs_conn_fail(struct verbs_conn *conn,
                                                                 enum wring_status status,
                                                                 const char *format, ...);

/** Nothing is sent or taken in any more; CLOSED will be told. */
void wring_verbs_conn_stop(struct verbs_conn *conn);

/** Something is wrong beyond the path it was seen on: the connection ends. */
void wring_verbs_path_fatal(struct verbs_path *path, enum wring_status status, const char *why);

/** A path does not work any more, others may; the text says why. */
void wring_verbs_path_fail(struct verbs_path *path, enum wring_status status, const char *why);

#endif
