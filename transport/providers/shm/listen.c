/* SPDX-License-Identifier: Apache-2.0 */
/** How two processes find each other: names of sockets, listening, dialling, accepting. */
#include "transport/providers/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"

struct shm_queued {
    struct shm_queued *next;
    struct shm_frame frame;
    int fd; /* a duplicate of our own, or -1 */
};

/* room for one descriptor; of more the kernel drops the rest and says so */
union control {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
};

void wring_shm_socket_init(struct shm_socket *sock, int fd)
{
    *sock = (struct shm_socket){.fd = fd, .frame_fd = -1};
}

static void drop_first_frame(struct shm_socket *sock)
{
    struct shm_queued *queued = sock->first;
    sock->first = queued->next;
    if (sock->first == NULL)
        sock->last = NULL;
    wring_descriptor_close(queued->fd);
    free(queued);
}

void wring_shm_socket_finish(struct shm_socket *sock)
{
    while (sock->first != NULL)
        drop_first_frame(sock);
    wring_descriptor_close(sock->frame_fd);
    wring_descriptor_close(sock->fd);
    wring_shm_socket_init(sock, -1);
}

/** A UNIX stream takes a frame whole or not at all. */
static enum wring_status send_frame_now(struct shm_socket *sock, const struct shm_frame *frame,
                                        int fd)
{
    union control control = {.space = {0}};
    struct iovec piece = {(void *)frame, sizeof(*frame)};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

    if (fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.space);
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    }
    ssize_t n = sendmsg(sock->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n == (ssize_t)sizeof(*frame))
        return WRING_OK;
    bool full = n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS ||
                          errno == ETOOMANYREFS /* too many descriptors in flight */);
    return full ? WRING_ERR_AGAIN : WRING_ERR_PEER;
}

static enum wring_status enqueue_frame(struct shm_socket *sock, const struct shm_frame *frame,
                                       int fd)
{
    struct shm_queued *queued = malloc(sizeof(*queued));
    if (queued == NULL)
        return WRING_ERR_NO_MEMORY;
    *queued = (struct shm_queued){.frame = *frame, .fd = -1};
    if (fd >= 0 && (queued->fd = WRING_DESCRIPTOR(fcntl(fd, F_DUPFD_CLOEXEC, 0))) < 0) {
        free(queued);
        return WRING_ERR_SYSTEM;
    }
    if (sock->last != NULL)
        sock->last->next = queued;
    else
        sock->first = queued;
    sock->last = queued;
    return WRING_OK;
}

enum wring_status wring_shm_socket_send(struct shm_socket *sock, const struct shm_frame *frame,
                                        int fd)
{
    enum wring_status status = WRING_ERR_AGAIN;
    if (sock->first == NULL)
        status = send_frame_now(sock, frame, fd);
    return status == WRING_ERR_AGAIN ? enqueue_frame(sock, frame, fd) : status;
}

void wring_shm_socket_wake(struct shm_socket *sock)
{
    static const struct shm_frame wake = {.kind = SHM_FRAME_WAKE};
    if (sock->first == NULL)
        send_frame_now(sock, &wake, -1); /* a broken stream shows when it is read */
}

enum wring_status wring_shm_socket_flush(struct shm_socket *sock)
{
    while (sock->first != NULL) {
        enum wring_status status = send_frame_now(sock, &sock->first->frame, sock->first->fd);
        if (status != WRING_OK)
            return status == WRING_ERR_AGAIN ? WRING_OK : status;
        drop_first_frame(sock);
    }
    return WRING_OK;
}

bool wring_shm_socket_wants_room(const struct shm_socket *sock)
{
    return sock->first != NULL;
}

/** The descriptor that came with a message; -1: none. */
static int fd_of_message(struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int fd = -1;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

/** Keep the descriptor of a message. @param fd  -1: none came, or none could be had */
static enum wring_status keep_frame_fd(struct shm_socket *sock, int fd, bool cut)
{
    if (fd >= 0 && (cut || sock->frame_fd >= 0)) { /* a second one for one frame */
        wring_descriptor_close(fd);
        return WRING_ERR_FRAME;
    }
    if (fd < 0 && cut) {
        errno = EMFILE; /* the kernel had no number for it, and says no more than that */
        return WRING_ERR_SYSTEM;
    }
    if (fd >= 0)
        sock->frame_fd = fd;
    return WRING_OK;
}

enum wring_status wring_shm_socket_receive(struct shm_socket *sock, struct shm_frame *frame,
                                           int *fd)
{
    union control control;
    struct iovec piece = {(char *)&sock->frame + sock->got, sizeof(sock->frame) - sock->got};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control.space)};

    wring_forked_hold();
    ssize_t n = recvmsg(sock->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int sent = n > 0 ? fd_of_message(&message) : -1;
    int kept = wring_descriptor_keep(sent);
    if (n == 0)
        return WRING_ERR_PEER;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? WRING_ERR_AGAIN : WRING_ERR_PEER;
    if (kept < 0 && sent >= 0)
        return WRING_ERR_SYSTEM;
    enum wring_status status = keep_frame_fd(sock, kept, (message.msg_flags & MSG_CTRUNC) != 0);
    if (status != WRING_OK)
        return status;
    sock->got += (size_t)n;
    if (sock->got < sizeof(sock->frame))
        return WRING_ERR_AGAIN; /* the rest is on its way, or the epoll set tells */

    *frame = sock->frame;
    *fd = sock->frame_fd;
    sock->got = 0;
    sock->frame_fd = -1;
    return WRING_OK;
}

/* ---- listen ---- */

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

static bool is_socket_name(const char *name, size_t bytes)
{
    return bytes == NAME_BYTES && memcmp(name, NAME_PREFIX, sizeof(NAME_PREFIX) - 1) == 0 &&
           strspn(name + sizeof(NAME_PREFIX) - 1, "0123456789abcdef") >= 32;
}

static bool make_socket_name(char name[NAME_BYTES + 1])
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
    if (!make_socket_name(shm->name))
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
    if (!is_socket_name(name, address_bytes))
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
static bool is_own_user(struct shm_provider *shm, int fd)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t bytes = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid())
        return true;
    wring_info(&shm->log, "refused process %d of user %u", (int)peer.pid, (unsigned)peer.uid);
    return false;
}

static void admit_peer(struct shm_provider *shm, int fd)
{
    struct shm_conn *conn = NULL;
    if (!is_own_user(shm, fd) || (conn = wring_shm_conn_create(shm, true, fd, NULL, 0)) == NULL) {
        wring_descriptor_close(fd);
        return;
    }
    if (add_conn(shm, conn) != WRING_OK)
        wring_shm_conn_destroy(conn);
}

/** All that are here and have proven nothing. @return how many */
static unsigned list_unproven(struct shm_provider *shm, struct shm_conn **out)
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
        unsigned n = list_unproven(shm, unproven);
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
            turn_one_away(unproven, list_unproven(shm, unproven));
            watch_listener(shm, EPOLL_CTL_DEL);
            return;
        case WRING_DOOR_ACCEPTED:
            admit_peer(shm, fd);
            break;
        }
    }
}

void wring_shm_listen_again(struct shm_provider *shm, uint64_t now)
{
    if (shm->listener >= 0 && !shm->is_listening && wring_door_is_open(&shm->door, now))
        watch_listener(shm, EPOLL_CTL_ADD);
}
