/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/shm/shm_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/descriptor.h"

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

static void drop_first(struct shm_socket *sock)
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
        drop_first(sock);
    wring_descriptor_close(sock->frame_fd);
    wring_descriptor_close(sock->fd);
    wring_shm_socket_init(sock, -1);
}

/** A UNIX stream takes a frame whole or not at all. */
static enum wring_status send_now(struct shm_socket *sock, const struct shm_frame *frame, int fd)
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

static enum wring_status enqueue(struct shm_socket *sock, const struct shm_frame *frame, int fd)
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
        status = send_now(sock, frame, fd);
    return status == WRING_ERR_AGAIN ? enqueue(sock, frame, fd) : status;
}

void wring_shm_socket_wake(struct shm_socket *sock)
{
    static const struct shm_frame wake = {.kind = SHM_FRAME_WAKE};
    if (sock->first == NULL)
        send_now(sock, &wake, -1); /* a broken stream shows when it is read */
}

enum wring_status wring_shm_socket_flush(struct shm_socket *sock)
{
    while (sock->first != NULL) {
        enum wring_status status = send_now(sock, &sock->first->frame, sock->first->fd);
        if (status != WRING_OK)
            return status == WRING_ERR_AGAIN ? WRING_OK : status;
        drop_first(sock);
    }
    return WRING_OK;
}

bool wring_shm_socket_wants_room(const struct shm_socket *sock)
{
    return sock->first != NULL;
}

/** The descriptor that came with a message; -1: none. */
static int fd_of(struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int fd = -1;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    return fd;
}

/** Keep the descriptor of a message. @param fd  -1: none came, or none could be had */
static enum wring_status take_fd(struct shm_socket *sock, int fd, bool cut)
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
    int sent = n > 0 ? fd_of(&message) : -1;
    int kept = wring_descriptor_keep(sent);
    if (n == 0)
        return WRING_ERR_PEER;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? WRING_ERR_AGAIN : WRING_ERR_PEER;
    if (kept < 0 && sent >= 0)
        return WRING_ERR_SYSTEM;
    enum wring_status status = take_fd(sock, kept, (message.msg_flags & MSG_CTRUNC) != 0);
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
