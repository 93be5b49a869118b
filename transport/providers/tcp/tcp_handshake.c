/* SPDX-License-Identifier: Apache-2.0 */
/** From a socket that connects, or was accepted, to a peer that has proven itself. */
#include "transport/providers/tcp/tcp.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

void wring_tcp_end_handshake(struct tcp_conn *conn, enum tcp_state state)
{
    struct tcp_provider *provider = tcp_of(conn);
    if (tcp_in_handshake(conn)) {
        provider->handshakes--;
        provider->pending -= conn->accepted;
    }
    conn->state = state;
}

/** The first edge of a connecting socket says how it went. */
static void finish_connect(struct tcp_conn *conn)
{
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (!conn->writable && !conn->hung_up)
        return;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        error = errno;
    if (error != 0)
        wring_tcp_fail(conn, WRING_ERR_ADDRESS, "cannot connect: %s", strerrordesc_np(error));
    else if (conn->writable)
        conn->state = TCP_HANDSHAKE;
}

/** @return false when the socket takes no more now, or the connection has failed */
static bool handshake_send(struct tcp_conn *conn)
{
    const void *data;
    for (;;) {
        size_t left = wring_auth_output(&conn->auth, &data);
        if (left == 0)
            return true;
        ssize_t n = send(conn->fd, data, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            wring_auth_sent(&conn->auth, (size_t)n);
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN)
            conn->writable = false;
        else
            wring_tcp_fail(conn, WRING_ERR_PEER, "lost during the handshake: %s",
                           strerrordesc_np(errno));
        return false;
    }
}

/** @return false when there is nothing to read now, or the connection has failed */
static bool handshake_receive(struct tcp_conn *conn)
{
    uint8_t buffer[WRING_AUTH_TRANSCRIPT_BYTES];
    size_t wants = wring_auth_wants(&conn->auth);
    if (wants == 0)
        return true;
    ssize_t n = recv(conn->fd, buffer, wants, MSG_DONTWAIT);
    if (n > 0) {
        wring_auth_input(&conn->auth, buffer, (size_t)n);
        return true;
    }
    if (n == 0)
        wring_tcp_fail(conn, WRING_ERR_PEER, "closed the connection during the handshake");
    else if (errno == EAGAIN)
        conn->readable = false;
    else if (errno != EINTR)
        wring_tcp_fail(conn, WRING_ERR_PEER, "lost during the handshake: %s",
                       strerrordesc_np(errno));
    return errno == EINTR && n < 0;
}

static void choose_congestion(struct tcp_conn *conn)
{
    const struct tcp_provider *provider = tcp_of(conn);
    if (!provider->keeps_congestion &&
        !wring_tcp_choose_congestion(conn->fd, provider->system_congestion))
        wring_warn(provider->log, "peer %s: cannot have congestion control %s: %s", conn->peer,
                   provider->system_congestion, strerrordesc_np(errno));
}

void wring_tcp_handshake(struct tcp_conn *conn)
{
    if (conn->state == TCP_CONNECTING)
        finish_connect(conn);
    if (conn->state != TCP_HANDSHAKE)
        return;
    conn->readable = true; /* reading says whether it is */
    while (wring_auth_status(&conn->auth) == WRING_ERR_AGAIN)
        if (!handshake_send(conn) || !handshake_receive(conn))
            return;

    enum wring_status status = wring_auth_status(&conn->auth);
    if (status == WRING_OK) {
        choose_congestion(conn);
        wring_tcp_end_handshake(conn, TCP_READY);
        return;
    }
    char why[128];
    wring_auth_describe(&conn->auth, why, sizeof(why));
    const void *data;
    size_t n = wring_auth_output(&conn->auth, &data);
    if (n > 0 && send(conn->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        wring_debug(tcp_of(conn)->log, "peer %s: not told why: %s", conn->peer,
                    strerrordesc_np(errno));
    wring_tcp_fail(conn, status, "%s", why);
}

/** A system that takes the connection is there, though its process may be busy. */
static void expire(struct tcp_conn *conn)
{
    bool there = conn->state != TCP_CONNECTING;
    wring_tcp_fail(conn, there ? WRING_ERR_TIMEOUT : WRING_ERR_ADDRESS,
                   "did not finish %s within %llu s", there ? "the handshake" : "connecting",
                   TCP_HANDSHAKE_NS / WRING_NS_PER_S);
}

void wring_tcp_expire(struct tcp_provider *provider, uint64_t now)
{
    for (struct tcp_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        if (tcp_in_handshake(conn) && conn->deadline_ns <= now)
            expire(conn);
}

uint64_t wring_tcp_next_deadline(const struct tcp_provider *provider)
{
    uint64_t next = WRING_NEVER;
    if (provider->handshakes == 0)
        return next;
    for (const struct tcp_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        if (tcp_in_handshake(conn) && conn->deadline_ns < next)
            next = conn->deadline_ns;
    return next;
}
