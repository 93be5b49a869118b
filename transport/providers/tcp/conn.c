/* SPDX-License-Identifier: Apache-2.0 */
/** A connection's life: how it begins, and every way to end. */
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
#include "transport/providers/tcp/tcp.h"

/* ---- connections ---- */

struct wring_event *wring_tcp_event(struct tcp_events *events, enum wring_event_kind kind,
                                    struct tcp_conn *conn)
{
    if (events->n == events->max)
        return NULL;
    struct wring_event *event = &events->events[events->n++];
    *event = (struct wring_event){.kind = kind, .conn = &conn->base};
    return event;
}

void wring_tcp_make_ready(struct tcp_conn *conn)
{
    struct tcp_provider *provider = tcp_of(conn);
    if (conn->in_ready || conn->state == TCP_CLOSED)
        return;
    conn->in_ready = true;
    conn->ready_next = NULL;
    conn->ready_previous = provider->ready_last;
    if (provider->ready_last != NULL)
        provider->ready_last->ready_next = conn;
    else
        provider->ready_first = conn;
    provider->ready_last = conn;
    provider->ready_count++;
}

void wring_tcp_close_socket(struct tcp_conn *conn)
{
    if (conn->fd < 0)
        return;
    /* a forked child may hold the socket too: then close alone would leave it in the epoll set */
    epoll_ctl(tcp_of(conn)->epoll, EPOLL_CTL_DEL, conn->fd, NULL);
    wring_descriptor_close(conn->fd);
    conn->fd = -1;
}

/** The others of a bundle do nothing any more; who uses the first one frees them. */
static void close_other_sockets(const struct tcp_bundle *bundle)
{
    for (unsigned i = 1; i < TCP_SOCKETS_MAX; i++)
        if (bundle->sockets[i] != NULL) {
            wring_tcp_end_handshake(bundle->sockets[i], TCP_CLOSED);
            wring_tcp_close_socket(bundle->sockets[i]);
        }
}

void wring_tcp_fail(struct tcp_conn *failed, enum wring_status status, const char *format, ...)
{
    struct tcp_conn *conn = tcp_front(failed);
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
    if (conn->accepted && conn->state <= TCP_READY)
        known = false;
    wring_tcp_end_handshake(conn, known ? TCP_FAILED : TCP_DROPPED);
    wring_tcp_close_socket(conn);
    if (conn->bundle != NULL)
        close_other_sockets(conn->bundle);
    wring_tcp_make_ready(conn);
}

/** One that connects or was accepted, and owns the socket. @return NULL: no memory, fd is untouched
 */
static struct tcp_conn *conn_create(struct tcp_provider *provider, int fd, bool accepted,
                                    const struct sockaddr_storage *peer)
{
    struct tcp_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->base.provider = &provider->base;
    conn->fd = fd;
    conn->accepted = accepted;
    conn->state = accepted ? TCP_HANDSHAKE : TCP_CONNECTING;
    wring_tcp_address_text(peer, conn->peer, sizeof(conn->peer));

    conn->next = provider->conns;
    if (conn->next != NULL)
        conn->next->previous = conn;
    provider->conns = conn;
    wring_tcp_set_deadline(conn, TCP_HANDSHAKE_NS);
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

static void free_socket(struct tcp_conn *conn)
{
    struct tcp_provider *provider = tcp_of(conn);

    wring_tcp_end_handshake(conn, TCP_CLOSED);
    wring_tcp_close_socket(conn);
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

void wring_tcp_disconnect(struct wring_conn *base)
{
    if (base == NULL)
        return;
    struct tcp_conn *conn = tcp_front((struct tcp_conn *)base);
    struct tcp_bundle *bundle = conn->bundle;

    for (unsigned i = 1; bundle != NULL && i < TCP_SOCKETS_MAX; i++)
        if (bundle->sockets[i] != NULL)
            free_socket(bundle->sockets[i]);
    free(bundle);
    free_socket(conn);
}

static int ask_for_edges(const struct tcp_provider *provider, int op, struct tcp_conn *conn)
{
    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        .data.ptr = conn,
    };
    return epoll_ctl(provider->epoll, op, conn->fd, &event);
}

static int watch_listener(const struct tcp_provider *provider, int op, int listener);

void wring_tcp_repeat_edges(struct tcp_provider *provider)
{
    for (struct tcp_conn *conn = provider->ready_first; conn != NULL; conn = conn->ready_next)
        if (conn->fd >= 0)
            ask_for_edges(provider, EPOLL_CTL_MOD, conn);
    if (wring_tcp_may_accept(provider))
        watch_listener(provider, EPOLL_CTL_MOD, provider->listener);
}

static enum wring_status watch_socket(struct tcp_conn *conn)
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

struct tcp_conn *wring_tcp_conn_create(struct tcp_provider *provider,
                                       const struct sockaddr_storage *to)
{
    int fd = WRING_DESCRIPTOR(socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        wring_error(provider->log, "cannot make a socket: %s", WRING_REFUSED("socket"));
        return NULL;
    }
    if (!provider->keeps_congestion)
        wring_tcp_begin_congestion(fd, provider->system_congestion);
    struct tcp_conn *conn = conn_create(provider, fd, false, to);
    if (conn == NULL) {
        wring_error(provider->log, "no memory for a connection");
        wring_descriptor_close(fd);
        return NULL;
    }
    if (watch_socket(conn) != WRING_OK) {
        wring_tcp_disconnect(&conn->base);
        return NULL;
    }
    return conn;
}

void wring_tcp_conn_begin(struct tcp_conn *conn, const struct sockaddr_storage *to, socklen_t bytes)
{
    if (connect(conn->fd, (const struct sockaddr *)to, bytes) != 0 && errno != EINPROGRESS)
        wring_tcp_fail(conn, WRING_ERR_ADDRESS, "cannot connect: %s", strerrordesc_np(errno));
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

    struct tcp_conn *conn = wring_tcp_conn_create(provider, &to);
    if (conn == NULL)
        return WRING_ERR_SYSTEM;
    wring_auth_init(&conn->auth, true, WRING_AUTH_TCP, provider->secret, hello, hello_bytes);
    wring_tcp_conn_begin(conn, &to, to_bytes);
    *out = &conn->base;
    return WRING_OK;
}

/* ---- handshake ---- */

/** From a socket that connects, or was accepted, to a peer that has proven itself. */

void wring_tcp_set_deadline(struct tcp_conn *conn, uint64_t in_ns)
{
    conn->deadline_ns = wring_deadline_in(in_ns);
    tcp_of(conn)->timed += !conn->timed;
    conn->timed = true;
}

void wring_tcp_end_handshake(struct tcp_conn *conn, enum tcp_state state)
{
    struct tcp_provider *provider = tcp_of(conn);
    if (tcp_in_handshake(conn))
        provider->pending -= conn->accepted;
    provider->timed -= conn->timed;
    conn->timed = false;
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
    if (error != 0) {
        wring_tcp_fail(conn, WRING_ERR_ADDRESS, "cannot connect: %s", strerrordesc_np(error));
    } else if (conn->writable) {
        conn->state = TCP_HANDSHAKE;
        if (conn->bundle == NULL)
            wring_tcp_plan_sockets(conn);
    }
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
        wring_tcp_fit_to_path(conn);
        wring_tcp_join_socket(conn);
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
static void expire_conn(struct tcp_conn *conn)
{
    bool there = conn->state != TCP_CONNECTING;

    if (conn->state == TCP_GATHERING)
        wring_tcp_fail(conn, WRING_ERR_TIMEOUT,
                       "opened %u sockets of a connection, and not the rest, within %llu s",
                       conn->bundle->standing, TCP_HANDSHAKE_NS / WRING_NS_PER_S);
    else if (conn->state == TCP_OPEN)
        wring_tcp_fail(conn, WRING_ERR_PEER, "%s", conn->bundle->why);
    else
        wring_tcp_fail(conn, there ? WRING_ERR_TIMEOUT : WRING_ERR_ADDRESS,
                       "did not finish %s within %llu s", there ? "the handshake" : "connecting",
                       TCP_HANDSHAKE_NS / WRING_NS_PER_S);
}

void wring_tcp_expire(struct tcp_provider *provider, uint64_t now)
{
    for (struct tcp_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        if (conn->timed && conn->deadline_ns <= now)
            expire_conn(conn);
}

uint64_t wring_tcp_next_deadline(const struct tcp_provider *provider)
{
    uint64_t next = WRING_NEVER;
    if (provider->timed == 0)
        return next;
    for (const struct tcp_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        if (conn->timed && conn->deadline_ns < next)
            next = conn->deadline_ns;
    return next;
}

/* ---- listen ---- */

/** Listening and accepting: no stranger may take places or descriptors that ranks need. */

#define BACKLOG 512

/** Have the epoll set tell of peers that come. @param op EPOLL_CTL_ADD, or _MOD to repeat */
static int watch_listener(const struct tcp_provider *provider, int op, int listener)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    return epoll_ctl(provider->epoll, op, listener, &event);
}

/** Make room among the unproven, if one of them may be no rank of ours. */
static void evict_unproven(struct tcp_provider *provider, uint64_t now)
{
    struct wring_door_guest guests[TCP_PENDING_MAX];
    struct tcp_conn *who[TCP_PENDING_MAX];
    unsigned n = 0;
    for (struct tcp_conn *conn = provider->conns; conn != NULL && n < TCP_PENDING_MAX;
         conn = conn->next)
        if (conn->accepted && tcp_in_handshake(conn)) {
            who[n] = conn;
            guests[n++] =
                (struct wring_door_guest){conn->deadline_ns - TCP_HANDSHAKE_NS, conn->origin,
                                          !conn->readable && !wring_auth_has_heard(&conn->auth)};
        }
    int chosen = wring_door_choose(guests, n, now, TCP_EVICT_NS);
    if (chosen >= 0)
        wring_tcp_fail(who[chosen], WRING_ERR_PEER,
                       guests[chosen].silent ? "says nothing, and others wait"
                                             : "too many unproven connections, and it is slow");
}

/** @return false when there is nobody more to accept now */
static bool accept_one_peer(struct tcp_provider *provider, uint64_t now)
{
    struct sockaddr_storage from = {0};
    int fd;
    switch (wring_door_accept(&provider->door, provider->log, provider->listener, 0, &fd, &from)) {
    case WRING_DOOR_NOBODY:
        provider->listener_ready = false;
        return false;
    case WRING_DOOR_SHORT:
        evict_unproven(provider, now); /* a stranger may hold what a rank needs */
        return false;
    case WRING_DOOR_ACCEPTED:
        break;
    }
    struct tcp_conn *conn = conn_create(provider, fd, true, &from);
    if (conn == NULL) {
        wring_descriptor_close(fd);
        wring_door_pause(&provider->door);
        return false;
    }
    conn->origin = wring_door_origin(&from);
    wring_auth_init(&conn->auth, false, WRING_AUTH_TCP, provider->secret, NULL, 0);
    wring_auth_serve(&conn->auth, WRING_AUTH_TCP_FIRST);
    wring_auth_serve(&conn->auth, WRING_AUTH_TCP_NEXT);
    if (watch_socket(conn) != WRING_OK)
        wring_tcp_disconnect(&conn->base);
    return true;
}

bool wring_tcp_may_accept(const struct tcp_provider *provider)
{
    return provider->listener_ready && provider->door.retry_ns == 0;
}

void wring_tcp_accept_some(struct tcp_provider *provider)
{
    if (!provider->listener_ready)
        return;
    uint64_t now = wring_now_ns();
    if (!wring_door_is_open(&provider->door, now))
        return;
    for (int i = 0; i < TCP_ACCEPTS_PER_POLL; i++) {
        if (provider->pending == TCP_PENDING_MAX)
            evict_unproven(provider, now);
        if (provider->pending == TCP_PENDING_MAX) {
            wring_door_wait(&provider->door);
            return;
        }
        if (!accept_one_peer(provider, now))
            return;
    }
}

enum wring_status wring_tcp_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    struct tcp_provider *provider = (struct tcp_provider *)base;
    struct sockaddr_storage local;
    socklen_t local_bytes;
    if (provider->listener >= 0)
        return WRING_ERR_BUSY;
    enum wring_status status =
        wring_tcp_address_parse(provider->log, provider->bind, &local, &local_bytes);
    if (status != WRING_OK)
        return status;

    char why[256];
    int fd = wring_ports_listen(&provider->ports, &local, local_bytes, BACKLOG, why, sizeof(why));
    if (fd < 0) {
        wring_error(provider->log, "cannot listen on %s: %s", provider->bind, why);
        return WRING_ERR_ADDRESS;
    }
    if (!provider->keeps_congestion)
        wring_tcp_begin_congestion(fd, provider->system_congestion);
    local_bytes = sizeof(local);
    if (getsockname(fd, (struct sockaddr *)&local, &local_bytes) != 0 ||
        watch_listener(provider, EPOLL_CTL_ADD, fd) != 0) {
        wring_error(provider->log, "cannot listen on %s: %s", provider->bind,
                    WRING_REFUSED("getsockname or epoll_ctl"));
        wring_descriptor_close(fd);
        return WRING_ERR_SYSTEM;
    }
    provider->listener = fd;
    char text[64];
    wring_tcp_address_text(&local, text, sizeof(text));
    wring_info(provider->log, "listening on %s", text);
    *bytes = wring_tcp_address_pack(&local, address);
    return WRING_OK;
}
