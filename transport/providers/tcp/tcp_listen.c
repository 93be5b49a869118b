/* SPDX-License-Identifier: Apache-2.0 */
/** Listening, and accepting whoever comes: no stranger may take what ranks need. */
#include "transport/providers/tcp/tcp.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/refusal.h"

#define BACKLOG 512

int wring_tcp_watch_listener(const struct tcp_provider *provider, int op, int listener)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = NULL};
    return epoll_ctl(provider->epoll, op, listener, &event);
}

/** Make room among the unproven, if one of them may be no rank of ours. */
static void evict(struct tcp_provider *provider, uint64_t now)
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
static bool accept_one(struct tcp_provider *provider, uint64_t now)
{
    struct sockaddr_storage from = {0};
    int fd;
    switch (wring_door_accept(&provider->door, provider->log, provider->listener, 0, &fd, &from)) {
    case WRING_DOOR_NOBODY:
        provider->listener_ready = false;
        return false;
    case WRING_DOOR_SHORT:
        evict(provider, now); /* a stranger may hold what a rank needs */
        return false;
    case WRING_DOOR_ACCEPTED:
        break;
    }
    struct tcp_conn *conn = wring_tcp_conn_create(provider, fd, true, &from);
    if (conn == NULL) {
        wring_descriptor_close(fd);
        wring_door_pause(&provider->door);
        return false;
    }
    conn->origin = wring_door_origin(&from);
    wring_auth_init(&conn->auth, false, WRING_AUTH_TCP, provider->secret, NULL, 0);
    if (wring_tcp_watch(conn) != WRING_OK)
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
            evict(provider, now);
        if (provider->pending == TCP_PENDING_MAX) {
            wring_door_wait(&provider->door);
            return;
        }
        if (!accept_one(provider, now))
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
        wring_tcp_watch_listener(provider, EPOLL_CTL_ADD, fd) != 0) {
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
