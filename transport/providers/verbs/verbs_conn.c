/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "transport/providers/handshake.h"

#define WRING_MODULE "verbs"
#define STARVED_NS (WRING_NS_PER_MS / 2) /* credits come without a notice */

static struct verbs_provider *provider_of(const struct verbs_conn *conn)
{
    return (struct verbs_provider *)conn->base.provider;
}

struct verbs_conn *wring_verbs_conn_create(struct verbs_provider *verbs, bool accepted, int fd,
                                           const void *hello, size_t hello_bytes)
{
    struct verbs_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->base.provider = &verbs->base;
    conn->state = accepted ? VERBS_AUTH : VERBS_CONNECTING;
    conn->accepted = accepted;
    conn->surfaced = !accepted;
    conn->fd = fd;
    conn->deadline_ns = wring_deadline_in(verbs->handshake_ns);
    wring_auth_init(&conn->auth, !accepted, WRING_AUTH_VERBS, verbs->secret, hello, hello_bytes);
    return conn;
}

static void close_stream(struct verbs_conn *conn)
{
    if (conn->fd >= 0)
        close(conn->fd);
    conn->fd = -1;
    conn->in_epoll = false;
}

void wring_verbs_conn_destroy(struct verbs_conn *conn)
{
    wring_verbs_queue_destroy(conn);
    close_stream(conn);
    free(conn);
}

void wring_verbs_conn_fail(struct verbs_conn *conn, enum wring_status status, const char *format,
                           ...)
{
    if (conn->state == VERBS_DEAD)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(conn->text, sizeof(conn->text), format, args);
    va_end(args);
    conn->status = status;
    conn->state = VERBS_DEAD;
    wring_verbs_queue_stop(conn);
    close_stream(conn);
}

/** Have the epoll set watch the stream for what is awaited now. */
static void watch(struct verbs_conn *conn)
{
    bool room = conn->state == VERBS_CONNECTING || conn->out_at < conn->out_end ||
                (conn->state == VERBS_AUTH && wring_handshake_wants_room(&conn->auth));
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0u), .data.ptr = conn};
    int op = conn->in_epoll ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

    if (conn->fd < 0 || (conn->in_epoll && conn->room_in_epoll == room))
        return;
    if (epoll_ctl(provider_of(conn)->epoll, op, conn->fd, &event) != 0) {
        wring_verbs_conn_fail(conn, WRING_ERR_SYSTEM, "epoll_ctl: %s", strerror(errno));
        return;
    }
    conn->in_epoll = true;
    conn->room_in_epoll = room;
}

static void finish_connect(struct verbs_conn *conn)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    int error = 0;
    socklen_t error_bytes = sizeof(error);

    getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
    if (error != 0)
        wring_verbs_conn_fail(conn, WRING_ERR_ADDRESS, "connect: %s", strerror(error));
    else if (getpeername(conn->fd, (struct sockaddr *)&peer, &bytes) == 0)
        conn->state = VERBS_AUTH;
}

static void step_auth(struct verbs_conn *conn)
{
    char why[VERBS_TEXT / 2] = "";
    enum wring_status status = wring_handshake_step(&conn->auth, conn->fd, why, sizeof(why));
    if (status == WRING_ERR_AGAIN)
        return;
    if (status != WRING_OK) {
        wring_verbs_conn_fail(conn, status, "%s", why);
        return;
    }
    status = wring_verbs_queue_create(conn);
    if (status != WRING_OK) {
        wring_verbs_conn_fail(conn, status, "no queue pair on %s", provider_of(conn)->device.name);
        return;
    }
    wring_verbs_card_pack(&conn->card, conn->out);
    conn->out_at = 0;
    conn->out_end = VERBS_CARD_BYTES;
    conn->state = VERBS_CARD;
}

static void flush(struct verbs_conn *conn)
{
    if (conn->fd < 0 || conn->out_at == conn->out_end)
        return;
    ssize_t n = send(conn->fd, conn->out + conn->out_at, conn->out_end - conn->out_at,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n > 0)
        conn->out_at += (size_t)n;
}

/** The stream ended or failed. Puts that were done are complete at the peer, and so are its here */
static void end_stream(struct verbs_conn *conn, const char *why)
{
    if (conn->state != VERBS_OPEN) {
        wring_verbs_conn_fail(conn, WRING_ERR_PEER, "the peer closed while connecting: %s", why);
        return;
    }
    snprintf(conn->text, sizeof(conn->text), "the peer left or died: %s (queue pair %u of %s)", why,
             conn->qp->qp_num, provider_of(conn)->device.name);
    conn->status = WRING_ERR_PEER;
    conn->state = VERBS_DRAINING;
    close_stream(conn);
}

/** Read up to `bytes` in all into conn->in; true when they are there. */
static bool fill(struct verbs_conn *conn, size_t bytes)
{
    ssize_t n = recv(conn->fd, conn->in + conn->in_got, bytes - conn->in_got, MSG_DONTWAIT);
    if (n > 0)
        conn->in_got += (size_t)n;
    else if (n == 0)
        end_stream(conn, "its stream ended");
    else if (errno != EAGAIN && errno != EINTR)
        end_stream(conn, strerror(errno));
    return conn->fd >= 0 && conn->in_got == bytes;
}

static void take_card(struct verbs_conn *conn)
{
    if (!fill(conn, VERBS_CARD_BYTES))
        return;
    if (!wring_verbs_card_unpack(conn->in, &conn->peer)) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed queue pair address");
        return;
    }
    if (wring_verbs_queue_connect(conn) != WRING_OK) {
        wring_verbs_conn_fail(conn, WRING_ERR_DEVICE, "queue pair %u cannot be connected",
                              conn->qp->qp_num);
        return;
    }
    conn->in_got = 0;
    conn->state = VERBS_READY;
}

/** Our card is out: say that our queue pair can take the peer's first packet. */
static void say_ready(struct verbs_conn *conn)
{
    if (conn->out_at < conn->out_end || conn->out_end != VERBS_CARD_BYTES)
        return;
    conn->out[0] = VERBS_READY_BYTE;
    conn->out_at = 0;
    conn->out_end = 1;
}

static void take_ready(struct verbs_conn *conn)
{
    if (conn->out_at < conn->out_end || !fill(conn, 1))
        return;
    if (conn->in[0] != VERBS_READY_BYTE) {
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "a malformed word after the set-up");
        return;
    }
    conn->in_got = 0;
    conn->state = VERBS_OPEN;
    conn->surfaced = conn->news = true;
}

/** Nothing more is said on the stream, save its end. */
static void watch_for_end(struct verbs_conn *conn)
{
    if (fill(conn, 1))
        wring_verbs_conn_fail(conn, WRING_ERR_FRAME, "bytes where there should be none");
}

void wring_verbs_conn_service(struct verbs_conn *conn)
{
    if (conn->state == VERBS_CONNECTING)
        finish_connect(conn);
    if (conn->state == VERBS_AUTH)
        step_auth(conn);
    flush(conn);
    if (conn->state == VERBS_CARD)
        take_card(conn);
    if (conn->state == VERBS_READY) {
        say_ready(conn);
        flush(conn);
        take_ready(conn);
    }
    if (conn->state == VERBS_OPEN)
        watch_for_end(conn);
    if (conn->state < VERBS_OPEN && wring_now_ns() >= conn->deadline_ns)
        wring_verbs_conn_fail(conn, WRING_ERR_TIMEOUT,
                              "the peer did not finish connecting in time");
    watch(conn);
}

bool wring_verbs_conn_arm(struct verbs_conn *conn, uint64_t *deadline_ns)
{
    if (conn->state < VERBS_OPEN && conn->deadline_ns < *deadline_ns)
        *deadline_ns = conn->deadline_ns;
    if (conn->state == VERBS_OPEN && conn->starved && wring_deadline_in(STARVED_NS) < *deadline_ns)
        *deadline_ns = wring_deadline_in(STARVED_NS);
    if (conn->state == VERBS_OPEN && ibv_req_notify_cq(conn->cq, 0) != 0)
        return true;
    return conn->news || conn->state == VERBS_DRAINING ||
           (conn->state == VERBS_DEAD && !conn->told_closed);
}
