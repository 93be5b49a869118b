/* SPDX-License-Identifier: Apache-2.0 */
/** Paths: one reliable queue pair of a connection, on one rail. */
#ifndef WRING_VERBS_PATH_H
#define WRING_VERBS_PATH_H

#include <wring/status.h>

#include "transport/providers/verbs/verbs_card.h"
#include "transport/providers/verbs/verbs_rail.h"
#include "transport/providers/verbs/verbs_revive.h"

struct verbs_conn;

/* powers of two */
#define VERBS_RECEIVES 256 /* requests posted per path: what a peer has credits for */
#define VERBS_REQUESTS 256 /* of a path: each message has one at most, the rest is for credits */

#define VERBS_ENTRIES_PER_PATH (VERBS_REQUESTS + VERBS_RECEIVES) /* of a completion queue */

#define VERBS_RECEIVE_ID (UINT64_C(1) << 63)

enum verbs_request_kind {
    VERBS_PUT,
    VERBS_SEND,
    VERBS_CREDITS, /* a plain write of our counts of receives */
};

/** A request to be posted, or posted. */
struct verbs_request {
    enum verbs_request_kind kind;
    bool signalled;
    bool small;       /* few enough bytes to go inline, and the processor can read them */
    uint32_t message; /* its number's low bits; not of credits */
    uint32_t bytes, lkey, rkey, imm;
    const void *local;
    uint64_t remote;
};

struct verbs_path {
    struct verbs_conn *conn;
    struct verbs_rail *rail;
    unsigned index; /* in its connection */
    unsigned peer_rail;
    uint32_t mtu; /* bytes; the smaller one of both sides */
    uint64_t id;  /* of its requests, see verbs_queue.c */
    struct ibv_qp *qp;
    struct ibv_qp_ex *qp_ex; /* NULL with the classic API */
    uint32_t inline_bytes;
    bool dead, joined;
    struct verbs_again again; /* when it is dead */
    uint32_t stopped_look;    /* of its rail, the last before the queue pair was stopped */
    struct verbs_card card, peer;

    /* requests: completed up to tail <= posted <= head, all counted since the beginning */
    struct verbs_request requests[VERBS_REQUESTS];
    uint32_t head, posted, tail;
    uint32_t unsignalled;       /* since the last signalled one */
    uint64_t unsignalled_bytes; /* of puts */
    uint32_t sent;              /* receives of the peer that were used up */
    uint32_t credits;           /* receives that the peer has posted in all, as far as we saw */

    /* receives: given out up to surfaced <= taken <= receives */
    struct verbs_arrival arrivals[VERBS_RECEIVES];
    uint32_t receives, taken, surfaced;
    uint32_t told; /* of receives, how many the peer was told of */
};

/** Make a queue pair, post its receives, fill in path->card. Logs. */
enum wring_status wring_verbs_path_create(struct verbs_conn *conn, unsigned index,
                                          struct verbs_rail *rail, unsigned peer_rail,
                                          uint32_t mtu);
void wring_verbs_path_destroy(struct verbs_path *path); /* NULL is fine */

/** A new queue pair in the place of one that is dead; the path stays dead. Logs. */
enum wring_status wring_verbs_path_renew(struct verbs_path *path);

/** Connect the queue pair to path->peer. @param why out, [bytes], written on failure: which, and
 * why */
enum wring_status wring_verbs_path_connect(struct verbs_path *path, char *why, size_t bytes);

/** Make it drop all work. */
void wring_verbs_path_stop(struct verbs_path *path);

/** Post receives anew for what was given out, when it is worth it. @return errno */
int wring_verbs_path_post_receives(struct verbs_path *path);

/** A path in words: device, port, queue pairs and addresses. @param text out, [bytes] */
void wring_verbs_path_text(const struct verbs_path *path, char *text, size_t bytes);

#endif
