/* SPDX-License-Identifier: Apache-2.0 */
/** How two processes find each other: names of sockets, listening, dialling, accepting. */
#include "transport/providers/shm/shm.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/refusal.h"

#define WRING_MODULE "shm"
#define NAME_PREFIX "wring-shm-"
#define NAME_BYTES (sizeof(NAME_PREFIX) - 1 + 32)
#define ACCEPTS_AT_ONCE 16
#define UNPROVEN_MAX 128             /* places for those who have not proven anything */
#define SLOW_NS (1 * WRING_NS_PER_S) /* one who speaks keeps its place for so long */

static socklen_t fill_address(struct sockaddr_un *address, const char *name)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, name, NAME_BYTES); /* the leading 0: no name in a file system */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_BYTES);
}

static bool is_name(const char *name, size_t bytes)
{
    return bytes == NAME_BYTES && memcmp(name, NAME_PREFIX, sizeof(NAME_PREFIX) - 1) == 0 &&
           strspn(name + sizeof(NAME_PREFIX) - 1, "0123456789abcdef") >= 32;
}

static bool make_name(char name[NAME_BYTES + 1])
{
    uint64_t random[2];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        return false;
    snprintf(name, NAME_BYTES + 1, NAME_PREFIX "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    return true;
}

static bool watch_listener(struct shm_provider *shm, int op)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    bool done = epoll_ctl(shm->epoll, op, shm->listener, &event) == 0;
    shm->is_listening = done && op == EPOLL_CTL_ADD;
    return done;
}

/** @param call  out: the one that failed, with errno */
static enum wring_status begin_listening(struct shm_provider *shm, const char **call)
{
    struct sockaddr_un address;
    *call = "getrandom";
    if (!make_name(shm->name))
        return WRING_ERR_SYSTEM;
    socklen_t bytes = fill_address(&address, shm->name);
    *call = "socket";
    shm->listener =
        WRING_DESCRIPTOR(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (shm->listener < 0)
        return WRING_ERR_SYSTEM;
    *call = "bind, listen or epoll_ctl";
    if (bind(shm->listener, (struct sockaddr *)&address, bytes) == 0 &&
        listen(shm->listener, SOMAXCONN) == 0 && watch_listener(shm, EPOLL_CTL_ADD))
        return WRING_OK;

    wring_descriptor_close(shm->listener);
    shm->listener = -1;
    return WRING_ERR_ADDRESS;
}

enum wring_status wring_shm_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    struct shm_provider *shm = (struct shm_provider *)base;
    if (shm->listener >= 0)
        return WRING_ERR_BUSY;
    const char *call;
    enum wring_status status = begin_listening(shm, &call);
    if (status != WRING_OK) {
        wring_error(&shm->log, "cannot listen on a UNIX socket: %s", WRING_REFUSED(call));
        return status;
    }
    memcpy(address, shm->name, NAME_BYTES);
    *bytes = NAME_BYTES;
    return WRING_OK;
}

static enum wring_status add_conn(struct shm_provider *shm, struct shm_conn *conn)
{
    if (shm->n_conns == shm->max_conns) {
        size_t grown = 2 * shm->max_conns + 8;
        struct shm_conn **conns = realloc(shm->conns, grown * sizeof(conns[0]));
        if (conns == NULL)
            return WRING_ERR_NO_MEMORY;
        shm->conns = conns;
        shm->max_conns = grown;
    }
    shm->conns[shm->n_conns++] = conn;
    shm->meeting = true;
    return WRING_OK;
}

enum wring_status wring_shm_connect(struct wring_provider *base, const void *address,
                                    size_t address_bytes, const void *hello, size_t hello_bytes,
                                    struct wring_conn **out)
{
    struct shm_provider *shm = (struct shm_provider *)base;
    char name[WRING_ADDRESS_MAX + 1] = "";
    if (hello_bytes > WRING_HELLO_MAX)
        return WRING_ERR_INVALID;
    if (address_bytes <= WRING_ADDRESS_MAX)
        memcpy(name, address, address_bytes);
    if (!is_name(name, address_bytes))
        return WRING_ERR_FRAME;

    int fd = WRING_DESCRIPTOR(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        wring_error(&shm->log, "no socket for a connection: %s", WRING_REFUSED("socket"));
        return WRING_ERR_SYSTEM;
    }
    struct shm_conn *conn = wring_shm_conn_create(shm, false, fd, hello, hello_bytes);
    if (conn == NULL) {
        wring_descriptor_close(fd);
        return WRING_ERR_NO_MEMORY;
    }
    conn->address_bytes = fill_address(&conn->address, name);
    if (add_conn(shm, conn) != WRING_OK) {
        wring_shm_conn_destroy(conn);
        return WRING_ERR_NO_MEMORY;
    }
    *out = &conn->base;
    return WRING_OK;
}

/** Of our own user? Others never get as far as the handshake. */
static bool is_ours(struct shm_provider *shm, int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid())
        return true;
    wring_info(&shm->log, "refused process %d of user %u", (int)peer.pid, (unsigned)peer.uid);
    return false;
}

static void take_peer(struct shm_provider *shm, int fd)
{
    struct shm_conn *conn = NULL;
    if (!is_ours(shm, fd) || (conn = wring_shm_conn_create(shm, true, fd, NULL, 0)) == NULL) {
        wring_descriptor_close(fd);
        return;
    }
    if (add_conn(shm, conn) != WRING_OK)
        wring_shm_conn_destroy(conn);
}

/** All that are here and have proven nothing. @return how many */
static unsigned find_unproven(struct shm_provider *shm, struct shm_conn **out)
{
    unsigned n = 0;
    for (size_t i = 0; i < shm->n_conns && n < UNPROVEN_MAX; i++)
        if (shm->conns[i]->accepted && shm->conns[i]->state == SHM_AUTH)
            out[n++] = shm->conns[i];
    return n;
}

/** @return false when all may yet be ranks */
static bool turn_one_away(struct shm_conn **unproven, unsigned n)
{
    struct wring_door_guest guests[UNPROVEN_MAX];
    for (unsigned i = 0; i < n; i++) {
        char byte;
        bool spoke = wring_auth_has_heard(&unproven[i]->auth) ||
                     recv(unproven[i]->sock.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
        guests[i] =
            (struct wring_door_guest){unproven[i]->since_ns, (uint32_t)unproven[i]->pid, !spoke};
    }
    int chosen = wring_door_choose(guests, n, wring_now_ns(), SLOW_NS);
    if (chosen < 0)
        return false;
    unproven[chosen]->turned_away = true;
    wring_shm_conn_fail(unproven[chosen], WRING_ERR_PEER, "process %d %s, and others wait",
                        (int)unproven[chosen]->pid,
                        guests[chosen].silent ? "says nothing" : "is slow");
    return true;
}

void wring_shm_accept_peers(struct shm_provider *shm)
{
    for (unsigned i = 0; i < ACCEPTS_AT_ONCE; i++) {
        struct shm_conn *unproven[UNPROVEN_MAX];
        unsigned n = find_unproven(shm, unproven);
        int fd;
        if (n == UNPROVEN_MAX && !turn_one_away(unproven, n)) {
            wring_door_wait(&shm->door);
            watch_listener(shm, EPOLL_CTL_DEL);
            return;
        }
        switch (wring_door_accept(&shm->door, &shm->log, shm->listener, 0, &fd, NULL)) {
        case WRING_DOOR_NOBODY:
            return;
        case WRING_DOOR_SHORT:
            turn_one_away(unproven, find_unproven(shm, unproven));
            watch_listener(shm, EPOLL_CTL_DEL);
            return;
        case WRING_DOOR_ACCEPTED:
            take_peer(shm, fd);
            break;
        }
    }
}

void wring_shm_listen_again(struct shm_provider *shm, uint64_t now)
{
    if (shm->listener >= 0 && !shm->is_listening && wring_door_is_open(&shm->door, now))
        watch_listener(shm, EPOLL_CTL_ADD);
}
