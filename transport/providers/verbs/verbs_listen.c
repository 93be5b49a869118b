/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/refusal.h"
#include "transport/providers/tcp/tcp.h"
#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_address.h"

#undef WRING_MODULE /* of the tcp provider, whose notation of addresses is used */
#define WRING_MODULE "verbs"
#define ACCEPTS_AT_ONCE 16
#define UNPROVEN_MAX 128             /* places for those who have not proven anything */
#define SLOW_NS (1 * WRING_NS_PER_S) /* one who speaks keeps its place for so long */

static bool watch_listener(struct verbs_provider *verbs, int op)
{
    verbs->listening = (struct verbs_watch){VERBS_WATCH_LISTENER, verbs};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->listening};
    bool done = epoll_ctl(verbs->epoll, op, verbs->listener, &event) == 0;
    verbs->is_listening = done && op == EPOLL_CTL_ADD;
    return done;
}

static enum wring_status begin_listening(struct verbs_provider *verbs)
{
    char why[VERBS_TEXT];
    verbs->listener = wring_ports_listen(&verbs->ports, &verbs->bind, verbs->bind_bytes, SOMAXCONN,
                                         why, sizeof(why));
    if (verbs->listener < 0) {
        wring_error(&verbs->log, "cannot listen: %s", why);
        return WRING_ERR_ADDRESS;
    }
    if (getsockname(verbs->listener, (struct sockaddr *)&verbs->bind, &verbs->bind_bytes) == 0 &&
        fcntl(verbs->listener, F_SETFL, fcntl(verbs->listener, F_GETFL) | O_NONBLOCK) == 0 &&
        watch_listener(verbs, EPOLL_CTL_ADD))
        return WRING_OK;
    wring_error(&verbs->log, "cannot listen: %s", WRING_REFUSED("socket, bind or listen"));
    wring_descriptor_close(verbs->listener);
    verbs->listener = -1;
    return WRING_ERR_ADDRESS;
}

enum wring_status wring_verbs_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    struct verbs_end rails[VERBS_RAILS_MAX];
    enum wring_status status = verbs->listener < 0 ? begin_listening(verbs) : WRING_ERR_BUSY;
    if (status != WRING_OK)
        return status;
    for (unsigned i = 0; i < verbs->n_rails; i++)
        rails[i] = wring_verbs_end_of(&verbs->rails[i].choice);
    *bytes = wring_verbs_address_pack(&verbs->bind, rails, verbs->n_rails, address);
    return WRING_OK;
}

static enum wring_status add_conn(struct verbs_provider *verbs, struct verbs_conn *conn)
{
    if (verbs->n_conns == verbs->max_conns) {
        size_t grown = 2 * verbs->max_conns + 8;
        struct verbs_conn **conns = realloc(verbs->conns, grown * sizeof(conns[0]));
        if (conns == NULL)
            return WRING_ERR_NO_MEMORY;
        verbs->conns = conns;
        verbs->max_conns = grown;
    }
    verbs->conns[verbs->n_conns++] = conn;
    verbs->meeting = true;
    return WRING_OK;
}

static enum wring_status start_stream(struct verbs_provider *verbs, const struct sockaddr *to,
                                      socklen_t bytes, int *out)
{
    int fd = WRING_DESCRIPTOR(socket(to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        wring_error(&verbs->log, "no socket for a connection: %s", WRING_REFUSED("socket"));
        return WRING_ERR_SYSTEM;
    }
    *out = fd;
    if (connect(fd, to, bytes) == 0 || errno == EINPROGRESS)
        return WRING_OK;
    return WRING_ERR_ADDRESS;
}

enum wring_status wring_verbs_connect(struct wring_provider *base, const void *address,
                                      size_t address_bytes, const void *hello, size_t hello_bytes,
                                      struct wring_conn **out)
{
    struct verbs_provider *verbs = (struct verbs_provider *)base;
    struct verbs_address to;
    int fd;
    if (hello_bytes > WRING_HELLO_MAX)
        return WRING_ERR_INVALID;
    if (wring_verbs_address_unpack(address, address_bytes, &to) != WRING_OK)
        return WRING_ERR_FRAME;
    enum wring_status status =
        start_stream(verbs, (struct sockaddr *)&to.socket, to.socket_bytes, &fd);
    if (status == WRING_ERR_SYSTEM)
        return status;

    int refused = status == WRING_OK ? 0 : errno;
    struct verbs_conn *conn = wring_verbs_conn_create(verbs, false, fd, hello, hello_bytes);
    if (conn == NULL) {
        wring_descriptor_close(fd);
        return WRING_ERR_NO_MEMORY;
    }
    if (add_conn(verbs, conn) != WRING_OK) {
        wring_verbs_conn_destroy(conn);
        return WRING_ERR_NO_MEMORY;
    }
    if (refused != 0)
        wring_verbs_conn_fail(conn, WRING_ERR_ADDRESS, "connect: %s", strerror(refused));
    *out = &conn->base;
    return WRING_OK;
}

void wring_verbs_disconnect(struct wring_conn *base)
{
    if (base != NULL)
        wring_verbs_remove_conn((struct verbs_provider *)base->provider, (struct verbs_conn *)base);
}

void wring_verbs_remove_conn(struct verbs_provider *verbs, struct verbs_conn *conn)
{
    for (size_t i = 0; i < verbs->n_conns; i++)
        if (verbs->conns[i] == conn) {
            verbs->conns[i] = verbs->conns[--verbs->n_conns];
            break;
        }
    wring_verbs_conn_destroy(conn);
}

void wring_verbs_peer_name(int fd, char *text, size_t bytes)
{
    struct sockaddr_storage peer = {0};
    socklen_t size = sizeof(peer);
    snprintf(text, bytes, "?");
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0)
        wring_tcp_address_text(&peer, text, bytes);
}

/** All that are here and have proven nothing. @return how many */
static unsigned find_unproven(struct verbs_provider *verbs, struct verbs_conn **out)
{
    unsigned n = 0;
    for (size_t i = 0; i < verbs->n_conns && n < UNPROVEN_MAX; i++)
        if (verbs->conns[i]->accepted && verbs->conns[i]->state == VERBS_AUTH)
            out[n++] = verbs->conns[i];
    return n;
}

/** @return false when all may yet be ranks */
static bool turn_one_away(struct verbs_conn **unproven, unsigned n)
{
    struct wring_door_guest guests[UNPROVEN_MAX];
    for (unsigned i = 0; i < n; i++) {
        char byte;
        bool spoke = wring_auth_has_heard(&unproven[i]->stream.auth) ||
                     recv(unproven[i]->stream.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
        guests[i] = (struct wring_door_guest){unproven[i]->since_ns, unproven[i]->origin, !spoke};
    }
    int chosen = wring_door_choose(guests, n, wring_now_ns(), SLOW_NS);
    if (chosen < 0)
        return false;
    unproven[chosen]->turned_away = true;
    wring_verbs_conn_fail(unproven[chosen], WRING_ERR_PEER, "peer %s %s, and others wait",
                          unproven[chosen]->peer_name,
                          guests[chosen].silent ? "says nothing" : "is slow");
    return true;
}

static void take_peer(struct verbs_provider *verbs, int fd, const struct sockaddr_storage *from)
{
    struct verbs_conn *conn = wring_verbs_conn_create(verbs, true, fd, NULL, 0);
    if (conn == NULL) {
        wring_descriptor_close(fd);
        return;
    }
    conn->origin = wring_door_origin(from);
    if (add_conn(verbs, conn) != WRING_OK)
        wring_verbs_conn_destroy(conn);
}

void wring_verbs_accept(struct verbs_provider *verbs)
{
    for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
        struct verbs_conn *unproven[UNPROVEN_MAX];
        struct sockaddr_storage from = {0};
        unsigned n = find_unproven(verbs, unproven);
        int fd;
        if (n == UNPROVEN_MAX && !turn_one_away(unproven, n)) {
            wring_door_wait(&verbs->door);
            watch_listener(verbs, EPOLL_CTL_DEL);
            return;
        }
        switch (wring_door_accept(&verbs->door, &verbs->log, verbs->listener, 0, &fd, &from)) {
        case WRING_DOOR_NOBODY:
            return;
        case WRING_DOOR_SHORT:
            turn_one_away(unproven, find_unproven(verbs, unproven));
            watch_listener(verbs, EPOLL_CTL_DEL);
            return;
        case WRING_DOOR_ACCEPTED:
            take_peer(verbs, fd, &from);
            break;
        }
    }
}

void wring_verbs_listen_again(struct verbs_provider *verbs)
{
    if (verbs->listener >= 0 && !verbs->is_listening &&
        wring_door_is_open(&verbs->door, wring_now_ns()))
        watch_listener(verbs, EPOLL_CTL_ADD);
}
