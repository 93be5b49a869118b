/* SPDX-License-Identifier: Apache-2.0 */
/** A connection's life: listening, connecting, the handshake, and every way to end. */
#include "tests/provider/example/unix.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/providers/handshake.h"

#define WRING_MODULE "unix"
#define PREFIX "wring-unix-"
#define NAME_BYTES (sizeof(PREFIX) - 1 + 16) /* and the instance in hexadecimal */
#define PENDING_MAX 64                       /* accepted, not yet proven */
#define HANDSHAKE_NS (5 * WRING_NS_PER_S)
#define ACCEPT_RETRY_NS (100 * WRING_NS_PER_MS)

/** @param name  [NAME_BYTES] @return bytes of *out; the 0 before the name makes it abstract */
static socklen_t make_address(const void *name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, name, NAME_BYTES);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_BYTES);
}

enum wring_status wring_unix_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    struct unix_provider *provider = (struct unix_provider *)base;
    struct sockaddr_un local;
    char name[NAME_BYTES + 1];
    if (provider->listener >= 0)
        return WRING_ERR_BUSY;

    snprintf(name, sizeof(name), PREFIX "%016" PRIx64, provider->instance);
    socklen_t local_bytes = make_address(name, &local);
    int fd = WRING_DESCRIPTOR(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0 || bind(fd, (struct sockaddr *)&local, local_bytes) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        wring_error(provider->log, "cannot listen as %s: %s", name, strerrordesc_np(errno));
        if (fd >= 0)
            wring_descriptor_close(fd);
        return WRING_ERR_ADDRESS;
    }
    provider->listener = fd;
    memcpy(address, name, NAME_BYTES);
    *bytes = NAME_BYTES;
    return WRING_OK;
}

/** A connection in its handshake. Takes fd over, also where it fails. */
static struct unix_conn *conn_create(struct unix_provider *provider, int fd, const void *hello,
                                     size_t hello_bytes, bool accepted)
{
    struct unix_conn *conn = calloc(1, sizeof(*conn));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (conn == NULL || epoll_ctl(provider->epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        wring_error(provider->log, "no room for a connection: %s", strerrordesc_np(errno));
        wring_descriptor_close(fd);
        free(conn);
        return NULL;
    }
    conn->base.provider = &provider->base;
    conn->fd = fd;
    conn->accepted = accepted;
    conn->deadline_ns = wring_deadline_in(HANDSHAKE_NS);
    wring_auth_init(&conn->auth, !accepted, UNIX_PURPOSE, provider->secret, hello, hello_bytes);
    TAILQ_INSERT_TAIL(&provider->conns, conn, link);
    provider->n_conns++;
    return conn;
}

enum wring_status wring_unix_connect(struct wring_provider *base, const void *address,
                                     size_t address_bytes, const void *hello, size_t hello_bytes,
                                     struct wring_conn **out)
{
    struct unix_provider *provider = (struct unix_provider *)base;
    struct sockaddr_un to;
    if (hello_bytes > WRING_HELLO_MAX)
        return WRING_ERR_INVALID;
    if (address_bytes != NAME_BYTES || memcmp(address, PREFIX, sizeof(PREFIX) - 1) != 0)
        return WRING_ERR_FRAME;

    int fd = WRING_DESCRIPTOR(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        wring_error(provider->log, "cannot make a socket: %s", strerrordesc_np(errno));
        return WRING_ERR_SYSTEM;
    }
    struct unix_conn *conn = conn_create(provider, fd, hello, hello_bytes, false);
    if (conn == NULL)
        return WRING_ERR_NO_MEMORY;
    socklen_t to_bytes = make_address(address, &to);
    if (connect(fd, (struct sockaddr *)&to, to_bytes) != 0) /* at once, or not at all */
        wring_unix_fail(conn, WRING_ERR_ADDRESS, "cannot connect: %s", strerrordesc_np(errno));
    *out = &conn->base;
    return WRING_OK;
}

static unsigned count_pending(const struct unix_provider *provider)
{
    unsigned n = 0;
    const struct unix_conn *conn;
    for (conn = TAILQ_FIRST(&provider->conns); conn != NULL; conn = TAILQ_NEXT(conn, link))
        n += conn->accepted && conn->state == UNIX_HANDSHAKE;
    return n;
}

void wring_unix_accept(struct unix_provider *provider, uint64_t now)
{
    for (unsigned pending = count_pending(provider); pending < PENDING_MAX; pending++) {
        int fd =
            WRING_DESCRIPTOR(accept4(provider->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0 || conn_create(provider, fd, NULL, 0, true) == NULL)
            break;
    }
    provider->accept_after_ns = now + ACCEPT_RETRY_NS; /* no room: the others wait outside */
}

static void close_socket(struct unix_conn *conn)
{
    if (conn->fd < 0)
        return;
    /* a forked child may hold the socket too: then close alone would leave it in the epoll set */
    epoll_ctl(unix_of(conn)->epoll, EPOLL_CTL_DEL, conn->fd, NULL);
    wring_descriptor_close(conn->fd);
    conn->fd = -1;
}

void wring_unix_disconnect(struct wring_conn *base)
{
    if (base == NULL)
        return;
    struct unix_conn *conn = (struct unix_conn *)base;
    close_socket(conn);
    TAILQ_REMOVE(&unix_of(conn)->conns, conn, link);
    unix_of(conn)->n_conns--;
    free(conn);
}

void wring_unix_fail(struct unix_conn *conn, enum wring_status status, const char *format, ...)
{
    if (conn->state >= UNIX_FAILED)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(conn->text, sizeof(conn->text), format, args);
    va_end(args);

    bool unknown = conn->accepted && conn->state == UNIX_HANDSHAKE;
    wring_info(unix_of(conn)->log, "%s: %s", unknown ? "refused" : "closed", conn->text);
    conn->status = status;
    conn->state = unknown ? UNIX_DROPPED : UNIX_FAILED;
    conn->in.region = NULL;
    close_socket(conn);
}

static void step_handshake(struct unix_conn *conn, struct unix_events *events, uint64_t now)
{
    char why[sizeof(conn->text)];
    enum wring_status status = wring_handshake_step(&conn->auth, conn->fd, why, sizeof(why));
    if (status == WRING_ERR_AGAIN) {
        if (now >= conn->deadline_ns)
            wring_unix_fail(conn, WRING_ERR_PEER, "the handshake was not finished in time");
        return;
    }
    if (status != WRING_OK) {
        wring_unix_fail(conn, status, "%s", why);
        return;
    }
    struct wring_event *event = wring_unix_event(
        events, conn->accepted ? WRING_EVENT_ACCEPTED : WRING_EVENT_CONNECTED, conn);
    if (conn->accepted)
        event->data = wring_auth_hello(&conn->auth, &event->bytes);
    wring_unix_begin_frame(conn);
    conn->state = UNIX_OPEN;
}

static void report_closed(struct unix_conn *conn, struct unix_events *events)
{
    struct wring_event *event = wring_unix_event(events, WRING_EVENT_CLOSED, conn);
    event->status = conn->status;
    event->text = conn->text;
    conn->state = UNIX_CLOSED;
}

/** Whoever sleeps is woken by bytes to read, and by room only where something waits for it. */
static void watch(struct unix_conn *conn)
{
    bool room = conn->state == UNIX_HANDSHAKE ? wring_handshake_wants_room(&conn->auth)
                                              : conn->sent != conn->queued && !conn->broken;
    struct epoll_event event = {.events = EPOLLIN | (room ? EPOLLOUT : 0u), .data.ptr = conn};
    if (conn->fd < 0 || room == conn->waits_for_room)
        return;
    conn->waits_for_room = room;
    if (epoll_ctl(unix_of(conn)->epoll, EPOLL_CTL_MOD, conn->fd, &event) != 0)
        wring_unix_fail(conn, WRING_ERR_SYSTEM, "cannot watch it: %s", strerrordesc_np(errno));
}

void wring_unix_serve(struct unix_conn *conn, struct unix_events *events, uint64_t now)
{
    if (conn->state == UNIX_HANDSHAKE)
        step_handshake(conn, events, now);
    if (conn->state == UNIX_OPEN)
        wring_unix_exchange(conn, events);
    watch(conn); /* may fail too */
    if (conn->state == UNIX_FAILED && events->n < events->max)
        report_closed(conn, events);
    if (conn->state == UNIX_DROPPED)
        wring_unix_disconnect(&conn->base);
}
