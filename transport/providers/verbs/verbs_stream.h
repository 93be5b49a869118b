/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The TCP connection beside a connection's paths: first the proof of the key, then words
 * (verbs_card.h), both ways; no data. Its end tells of the peer's.
 */
#ifndef WRING_VERBS_STREAM_H
#define WRING_VERBS_STREAM_H

#include "transport/auth.h"
#include "transport/providers/verbs/verbs_card.h"
#include "transport/providers/verbs/verbs_watch.h"

struct verbs_conn;

#define VERBS_OUT 4096
#define VERBS_IN (VERBS_WORD_HEADER + VERBS_WORD_MAX)

struct verbs_stream {
    int fd; /* -1: closed */
    bool in_epoll, room_in_epoll;
    struct verbs_watch watch;
    struct wring_auth auth;
    uint8_t out[VERBS_OUT], in[VERBS_IN];
    size_t out_at, out_end, in_got;
};

/** Do what can be done now: connect, prove the key, take and send words. */
void wring_verbs_stream_service(struct verbs_conn *conn);
void wring_verbs_stream_close(struct verbs_conn *conn);

/** Has an open connection's peer left, which may not have been noticed yet? It is now. */
bool wring_verbs_stream_ended(struct verbs_conn *conn);

/**
 * Room for a word, its header written; it leaves with the next service or push.
 * @return where its bytes go; NULL: the peer takes nothing, and the connection has ended
 */
uint8_t *wring_verbs_stream_add(struct verbs_conn *conn, enum verbs_word word, size_t bytes);

/** Send what was added, as far as the system takes it; the rest follows by itself. */
void wring_verbs_stream_push(struct verbs_conn *conn);

#endif
