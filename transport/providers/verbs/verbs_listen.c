/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/verbs/verbs_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/descriptor.h"
#include "base/refusal.h"
#include "transport/providers/tcp/tcp.h"
#include "transport/providers/verbs/verbs.h"
#include "transport/providers/verbs/verbs_address.h"

#undef WRING_MODULE /* of the tcp provider, whose notation of addresses is used */
#define WRING_MODULE "verbs"
#define ACCEPTS_AT_ONCE 16

static bool watch_listener(struct verbs_provider *verbs)
{
    verbs->listening = (struct verbs_watch){VERBS_WATCH_LISTENER, verbs};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &verbs->listening};
    return epoll_ctl(verbs->epoll, EPOLL_CTL_ADD, verbs->listener, &event) == 0;
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
        watch_listener(verbs))
        return WRING_OK;
    wring_error(&verbs->log, "cannot listen: %s", strerror(errno));
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

void wring_verbs_accept(struct verbs_provider *verbs)
{
    for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd =
            WRING_DESCRIPTOR(accept4(verbs->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd < 0)
            return;
        struct verbs_conn *conn = wring_verbs_conn_create(verbs, true, fd, NULL, 0);
        if (conn == NULL)
            wring_descriptor_close(fd);
        else if (add_conn(verbs, conn) != WRING_OK)
            wring_verbs_conn_destroy(conn);
    }
}
