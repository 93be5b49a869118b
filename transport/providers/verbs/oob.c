/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/providers/handshake.h"
#include "transport/providers/verbs/conn.h"
#include "transport/providers/verbs/verbs.h"

void wring_verbs_oob_close(struct verbs_conn *conn)
{
    if (conn->oob.in_epoll) /* a child that is about to exec may have it, too */
        epoll_ctl(wring_verbs_of(conn)->epoll, EPOLL_CTL_DEL, conn->oob.fd, NULL);
    wring_descriptor_close(conn->oob.fd);
    conn->oob.fd = -1;
    conn->oob.in_epoll = false;
}

/** Have the epoll set watch the stream for input and, while output waits, for room. */
static void watch(struct verbs_conn *conn)
{
    struct verbs_oob *oob = &conn->oob;
    bool room = conn->state == VERBS_CONNECTING || oob->out_at < oob->out_end ||
                (conn->state == VERBS_AUTH && wring_handshake_wants_room(&oob->auth));
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0u),
                                .data.ptr = &oob->watch};
    int op = oob->in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (oob->fd < 0 || (oob->in_epoll && oob->room_in_epoll == room))
        return;
    if (epoll_ctl(wring_verbs_of(conn)->epoll, op, oob->fd, &event) != 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_SYSTEM, "%s", WRING_REFUSED("epoll_ctl"));
        return;
    }
    oob->in_epoll = true;
    oob->room_in_epoll = room;
}

/* ---- words out ---- */

static void flush(struct verbs_oob *oob)
{
    if (oob->fd < 0 || oob->out_at == oob->out_end)
        return;
    ssize_t n = send(oob->fd, oob->out + oob->out_at, oob->out_end - oob->out_at,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        oob->out_at += (size_t)n;
    if (oob->out_at == oob->out_end)
        oob->out_at = oob->out_end = 0;
}

uint8_t *wring_verbs_oob_add(struct verbs_conn *conn, enum verbs_word word, size_t bytes)
{
    struct verbs_oob *oob = &conn->oob;
    if (VERBS_WORD_HEADER + bytes > sizeof(oob->out) - oob->out_end) {
        wring_verbs_conn_fail(conn, WRING_ERR_PEER, "the peer does not read what it is told");
        return NULL;
    }
    uint8_t *at = oob->out + oob->out_end;
    wring_verbs_word_pack(word, bytes, at);
    oob->out_end += VERBS_WORD_HEADER + bytes;
    return at + VERBS_WORD_HEADER;
}

void wring_verbs_oob_push(struct verbs_conn *conn)
{
    flush(&conn->oob);
    watch(conn);
}

/* ---- proof of the key ---- */

static void finish_connect(struct verbs_conn *conn)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    int error = 0;
    socklen_t error_bytes = sizeof(error);

    getsockopt(conn->oob.fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    if (error != 0)
        wring_verbs_conn_fail(conn, WRING_ERR_ADDRESS, "connect: %s", strerror(error));
    else if (getpeername(conn->oob.fd, (struct sockaddr *)&peer, &bytes) == 0)
        conn->state = VERBS_AUTH;
}

static void step_auth(struct verbs_conn *conn)
{
    char why[VERBS_TEXT / 2] = "";
    enum wring_status status =
        wring_handshake_step(&conn->oob.auth, conn->oob.fd, why, sizeof(why));
    if (status == WRING_ERR_AGAIN)
        return;
    if (status != WRING_OK) {
        wring_verbs_conn_fail(conn, status, "%s", why);
        return;
    }
    wring_verbs_peer_name(conn->oob.fd, conn->peer_name, sizeof(conn->peer_name));
    conn->state = VERBS_OFFER;
    wring_verbs_say_offer(conn);
}

/* ---- words in ---- */

/** The stream ended or failed. Puts that were done are complete at the peer, and so are its here */
static void end_oob(struct verbs_conn *conn, const char *why)
{
    if (conn->state != VERBS_OPEN && conn->state != VERBS_RESYNC) {
        wring_verbs_conn_fail(conn, WRING_ERR_PEER, "the peer closed while connecting: %s", why);
        return;
    }
    snprintf(conn->text, sizeof(conn->text), "peer %s left or died: %s", conn->peer_name, why);
    conn->status = WRING_ERR_PEER;
    conn->state = VERBS_DRAINING;
    wring_verbs_oob_close(conn);
}

bool wring_verbs_oob_ended(struct verbs_conn *conn)
{
    uint8_t byte;
    ssize_t n = conn->oob.fd >= 0 ? recv(conn->oob.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) : 1;
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
        return false;
    end_oob(conn, n == 0 ? "its stream ended" : strerror(errno));
    return true;
}

/** Read up to `bytes` in all into conn->stream.in; true when they are there. */
static bool fill(struct verbs_conn *conn, size_t bytes)
{
    if (conn->oob.in_got >= bytes)
        return true;
    ssize_t n =
        recv(conn->oob.fd, conn->oob.in + conn->oob.in_got, bytes - conn->oob.in_got, MSG_DONTWAIT);
    if (n > 0)
        conn->oob.in_got += (size_t)n;
    else if (n == 0)
        end_oob(conn, "its stream ended");
    else if (errno != EAGAIN && errno != EINTR)
        end_oob(conn, strerror(errno));
    return conn->oob.fd >= 0 && conn->oob.in_got == bytes;
}

/** The states in which each word has its place, and the function that takes it. */
static const struct {
    enum verbs_state first, last;
    void (*take)(struct verbs_conn *conn, const uint8_t *data, size_t bytes);
} places[] = {
    [VERBS_WORD_OFFER] = {VERBS_OFFER, VERBS_OFFER, wring_verbs_take_offer},
    [VERBS_WORD_CARDS] = {VERBS_CARDS, VERBS_CARDS, wring_verbs_take_cards},
    [VERBS_WORD_READY] = {VERBS_READY, VERBS_READY, wring_verbs_take_ready},
    [VERBS_WORD_RESYNC] = {VERBS_OPEN, VERBS_DEAD, wring_verbs_take_resync},
    [VERBS_WORD_RESUME] = {VERBS_OPEN, VERBS_DEAD, wring_verbs_take_resume},
    [VERBS_WORD_GO] = {VERBS_OPEN, VERBS_DEAD, wring_verbs_take_go},
    [VERBS_WORD_TRY] = {VERBS_OPEN, VERBS_DEAD, wring_verbs_take_try},
};

static void take_word(struct verbs_conn *conn, unsigned word, const uint8_t *data, size_t bytes)
{
    if (conn->state >= places[word].first && conn->state <= places[word].last)
        places[word].take(conn, data, bytes);
    else
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "word %u where it has no place", word);
}

/** @return true if a word was taken */
static bool read_word(struct verbs_conn *conn)
{
    size_t bytes;
    if (!fill(conn, VERBS_WORD_HEADER))
        return false;
    unsigned word = wring_verbs_word_unpack(conn->oob.in, &bytes);
    if (word == 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "something that is no word");
        return false;
    }
    if (!fill(conn, VERBS_WORD_HEADER + bytes))
        return false;
    conn->oob.in_got = 0;
    take_word(conn, word, conn->oob.in + VERBS_WORD_HEADER, bytes);
    return true;
}

void wring_verbs_oob_service(struct verbs_conn *conn)
{
    if (conn->state == VERBS_CONNECTING)
        finish_connect(conn);
    if (conn->state == VERBS_AUTH)
        step_auth(conn);
    flush(&conn->oob);
    while (conn->oob.fd >= 0 && conn->state >= VERBS_OFFER && read_word(conn))
        flush(&conn->oob);
    if (conn->state < VERBS_OPEN && wring_now_ns() >= conn->deadline_ns)
        wring_verbs_conn_fail(conn, WRING_ERR_TIMEOUT,
                              "the peer did not finish connecting in time");
    watch(conn);
}
