/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/reference_pipe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST_BYTES ((uint64_t)1 << 30) /* of a frame: others are a stranger's */

struct reference_piece {
    struct reference_piece *next;
    struct reference_frame frame;
    const unsigned char *data;
    bool owned;
};

void reference_pipe_init(struct reference_pipe *pipe, int fd)
{
    int on = 1;

    *pipe = (struct reference_pipe){.fd = fd};
    pipe->out_end = &pipe->out;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void drop_first(struct reference_pipe *pipe)
{
    struct reference_piece *piece = pipe->out;

    pipe->out = piece->next;
    if (pipe->out == NULL)
        pipe->out_end = &pipe->out;
    pipe->out_done = 0;
    if (piece->owned)
        free((void *)piece->data);
    free(piece);
}

void reference_pipe_finish(struct reference_pipe *pipe)
{
    if (pipe->fd >= 0) {
        reference_pipe_write(pipe); /* a last answer may still be here */
        close(pipe->fd);
    }
    while (pipe->out != NULL)
        drop_first(pipe);
    free(pipe->in_data);
    pipe->in_data = NULL;
    pipe->fd = -1;
}

void reference_pipe_send(struct reference_pipe *pipe, const struct reference_frame *frame,
                         const void *data, bool copy)
{
    struct reference_piece *piece = calloc(1, sizeof(*piece));

    if (piece == NULL)
        abort();
    piece->frame = *frame;
    piece->data = data;
    piece->owned = copy && frame->bytes > 0;
    if (piece->owned) {
        void *own = malloc(frame->bytes);
        if (own == NULL)
            abort();
        piece->data = memcpy(own, data, frame->bytes);
    }
    *pipe->out_end = piece;
    pipe->out_end = &piece->next;
}

void reference_pipe_write(struct reference_pipe *pipe)
{
    while (pipe->out != NULL && !pipe->broken) {
        const struct reference_piece *piece = pipe->out;
        const unsigned char *from = (const unsigned char *)&piece->frame + pipe->out_done;
        size_t left = sizeof(piece->frame) - pipe->out_done;
        if (pipe->out_done >= sizeof(piece->frame)) {
            from = piece->data + (pipe->out_done - sizeof(piece->frame));
            left = sizeof(piece->frame) + piece->frame.bytes - pipe->out_done;
        }
        ssize_t n = left == 0 ? 0 : send(pipe->fd, from, left, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n < 0) {
            pipe->broken = true;
            return;
        }
        pipe->out_done += (size_t)n;
        if (pipe->out_done == sizeof(piece->frame) + piece->frame.bytes)
            drop_first(pipe);
    }
}

/** @return whether all of it is there */
static bool read_into(struct reference_pipe *pipe, unsigned char *to, size_t bytes, size_t from)
{
    while (pipe->in_done < from + bytes) {
        size_t done = pipe->in_done - from;
        ssize_t n = recv(pipe->fd, to + done, bytes - done, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return false;
        if (n <= 0) {
            pipe->broken = true;
            return false;
        }
        pipe->in_done += (size_t)n;
    }
    return true;
}

bool reference_pipe_read(struct reference_pipe *pipe, struct reference_frame *frame,
                         unsigned char **data)
{
    if (pipe->broken || pipe->fd < 0)
        return false;
    if (pipe->in_done < sizeof(pipe->in) &&
        !read_into(pipe, (unsigned char *)&pipe->in, sizeof(pipe->in), 0))
        return false;
    if (pipe->in.bytes > MOST_BYTES) {
        pipe->broken = true;
        return false;
    }
    if (pipe->in_data == NULL && (pipe->in_data = malloc(pipe->in.bytes + 1)) == NULL)
        abort();
    if (!read_into(pipe, pipe->in_data, pipe->in.bytes, sizeof(pipe->in)))
        return false;
    *frame = pipe->in;
    *data = pipe->in_data;
    pipe->in_data = NULL;
    pipe->in_done = 0;
    return true;
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

int reference_listen(uint16_t *port)
{
    struct sockaddr_in address = loopback(0);
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return -1;
    *port = ntohs(address.sin_port);
    return fd;
}

int reference_dial(uint16_t port)
{
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
        errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

int reference_dialled(int fd)
{
    struct pollfd wait = {fd, POLLOUT, 0};
    int error = 0;
    socklen_t bytes = sizeof(error);

    if (poll(&wait, 1, 0) == 0)
        return 0;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == 0 ? 1 : -1;
}
