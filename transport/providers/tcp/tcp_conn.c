/* SPDX-License-Identifier: Apache-2.0 */
/** A connection's life: how it begins, and every way to end. */
#include "transport/providers/tcp/tcp.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/refusal.h"

static void close_socket(struct tcp_conn *conn)
{
    if (conn->fd < 0)
        return;
    /* a forked child may hold the socket too: then close alone would leave it in the epoll set */
    epoll_ctl(tcp_of(conn)->epoll, EPOLL_CTL_DEL, conn->fd, NULL);
    wring_descriptor_close(conn->fd);
    conn->fd = -1;
}

void wring_tcp_fail(struct tcp_conn *conn, enum wring_status status, const char *format, ...)
{
    if (conn->state >= TCP_FAILED)
        return;
    bool known = !conn->accepted || !tcp_in_handshake(conn);
    va_list args;
    int n = snprintf(conn->text, sizeof(conn->text), "peer %s: ", conn->peer);
    va_start(args, format);
    vsnprintf(conn->text + n, sizeof(conn->text) - (size_t)n, format, args);
    va_end(args);

    wring_info(tcp_of(conn)->log, "%s%s", known ? "" : "refused: ", conn->text);
    conn->status = status;
    /* one whose ACCEPTED was never reported is unknown to the user and just goes */
    if (conn->accepted && conn->state == TCP_READY)
        known = false;
    wring_tcp_end_handshake(conn, known ? TCP_FAILED : TCP_DROPPED);
    close_socket(conn);
    wring_tcp_make_ready(conn);
}

struct tcp_conn *wring_tcp_conn_create(struct tcp_provider *provider, int fd, bool accepted,
                                       const struct sockaddr_storage *peer)
{
    struct tcp_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->base.provider = &provider->base;
    conn->fd = fd;
    conn->accepted = accepted;
    conn->deadline_ns = wring_deadline_in(TCP_HANDSHAKE_NS);
    conn->state = accepted ? TCP_HANDSHAKE : TCP_CONNECTING;
    wring_tcp_address_text(peer, conn->peer, sizeof(conn->peer));

    conn->next = provider->conns;
    if (conn->next != NULL)
        conn->next->previous = conn;
    provider->conns = conn;
    provider->handshakes++;
    provider->pending += accepted;
    return conn;
}

static void leave_ready_list(struct tcp_conn *conn)
{
    struct tcp_provider *provider = tcp_of(conn);
    if (!conn->in_ready)
        return;
    if (conn->ready_previous != NULL)
        conn->ready_previous->ready_next = conn->ready_next;
    else
        provider->ready_first = conn->ready_next;
    if (conn->ready_next != NULL)
        conn->ready_next->ready_previous = conn->ready_previous;
    else
        provider->ready_last = conn->ready_previous;
    provider->ready_count--;
    conn->in_ready = false;
}

void wring_tcp_disconnect(struct wring_conn *base)
{
    if (base == NULL)
        return;
    struct tcp_conn *conn = (struct tcp_conn *)base;
    struct tcp_provider *provider = tcp_of(conn);

    wring_tcp_end_handshake(conn, TCP_CLOSED);
    close_socket(conn);
    leave_ready_list(conn);
    if (conn->next != NULL)
        conn->next->previous = conn->previous;
    if (conn->previous != NULL)
        conn->previous->next = conn->next;
    else
        provider->conns = conn->next;
    wring_tcp_copies_free(conn);
    free(conn);
}

static int ask_for_edges(const struct tcp_provider *provider, int op, struct tcp_conn *conn)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        .data.ptr = conn,
    };
    return epoll_ctl(provider->epoll, op, conn->fd, &event);
}

void wring_tcp_repeat_edges(struct tcp_provider *provider)
{
    for (struct tcp_conn *conn = provider->ready_first; conn != NULL; conn = conn->ready_next)
        if (conn->fd >= 0)
            ask_for_edges(provider, EPOLL_CTL_MOD, conn);
    if (wring_tcp_may_accept(provider))
        wring_tcp_watch_listener(provider, EPOLL_CTL_MOD, provider->listener);
}

enum wring_status wring_tcp_watch(struct tcp_conn *conn)
{
    struct tcp_provider *provider = tcp_of(conn);
    int on = 1;
    if (setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0 ||
        ask_for_edges(provider, EPOLL_CTL_ADD, conn) != 0) {
        wring_error(provider->log, "peer %s: cannot set up a socket: %s", conn->peer,
                    WRING_REFUSED("setsockopt or epoll_ctl"));
        return WRING_ERR_SYSTEM;
    }
    return WRING_OK;
}

enum wring_status wring_tcp_connect(struct wring_provider *base, const void *address,
                                    size_t address_bytes, const void *hello, size_t hello_bytes,
                                    struct wring_conn **out)
{
    struct tcp_provider *provider = (struct tcp_provider *)base;
    struct sockaddr_storage to;
    socklen_t to_bytes;
    if (hello_bytes > WRING_HELLO_MAX)
        return WRING_ERR_INVALID;
    enum wring_status status = wring_tcp_address_unpack(address, address_bytes, &to, &to_bytes);
    if (status != WRING_OK)
        return status;

    int fd = WRING_DESCRIPTOR(socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        wring_error(provider->log, "cannot make a socket: %s", WRING_REFUSED("socket"));
        return WRING_ERR_SYSTEM;
    }
    if (!provider->keeps_congestion)
        wring_tcp_begin_congestion(fd, provider->system_congestion);
    struct tcp_conn *conn = wring_tcp_conn_create(provider, fd, false, &to);
    if (conn == NULL) {
        status = WRING_ERR_NO_MEMORY;
        goto close_fd;
    }
    wring_auth_init(&conn->auth, true, WRING_AUTH_TCP, provider->secret, hello, hello_bytes);
    status = wring_tcp_watch(conn);
    if (status != WRING_OK)
        goto disconnect;

    if (connect(fd, (const struct sockaddr *)&to, to_bytes) != 0 && errno != EINPROGRESS)
        wring_tcp_fail(conn, WRING_ERR_ADDRESS, "cannot connect: %s", strerrordesc_np(errno));
    *out = &conn->base;
    return WRING_OK;

disconnect:
    wring_tcp_disconnect(&conn->base);
    return status;
close_fd:
    wring_descriptor_close(fd);
    return status;
}
