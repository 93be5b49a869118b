/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "transport/providers/sim/sim.h"

#define FIRST 32768 /* more than the system ever gives */
#define SEGMENT ((size_t)16 << 10)
#define BUFFER ((size_t)64 << 10) /* between two ends, on the way or there */
#define FIRST_PORT 1024

struct stream;

struct segment {
    struct segment *next;
    struct stream *to;
    size_t bytes, taken;
    uint8_t data[];
};

/** A socket. Never freed before all are forgotten: what is on the way names it. */
struct stream {
    struct stream *peer;
    int fd;
    uint32_t rank;
    bool open, listens, connected, refused, ended;
    uint16_t port, peer_port;
    size_t buffered; /* of the other end's */
    struct segment *first, **last;
    struct stream *waiting, *next_waiting; /* to be accepted */

    /* watched by a set */
    struct stream *set; /* NULL: by none */
    uint32_t wanted;
    epoll_data_t data;
    bool queued;
    struct stream *next_queued;

    /* a set: members that were ready when somebody looked last */
    bool is_set;
    struct stream *first_queued, **last_queued;
};

static struct {
    struct stream **all; /* [n] */
    uint32_t n, room;
    struct stream *listeners[65536]; /* by port */
    uint16_t next_port;
    uint32_t *open, *most; /* [ranks] */
    uint32_t ranks, dials;
} sockets;

/* The system's own: --wrap. */
int __real_socket(int family, int type, int protocol);
int __real_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __real_listen(int fd, int backlog);
int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __real_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __real_recv(int fd, void *data, size_t bytes, int flags);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __real_shutdown(int fd, int how);
int __real_close(int fd);
int __real_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __real_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __real_getpeername(int fd, struct sockaddr *address, socklen_t *bytes);
int __real_fcntl(int fd, int command, ...);
int __real_epoll_create1(int flags);
int __real_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms);
int __real_epoll_ctl(int set, int how, int fd, struct epoll_event *event);

int __wrap_socket(int family, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_listen(int fd, int backlog);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_shutdown(int fd, int how);
int __wrap_close(int fd);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *bytes);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_wait(int set, struct epoll_event *events, int most, int timeout_ms);
int __wrap_epoll_ctl(int set, int how, int fd, struct epoll_event *event);

/* ---- sockets ---- */

/** NULL: it is the system's */
static struct stream *find(int fd)
{
    return fd >= FIRST && (uint32_t)(fd - FIRST) < sockets.n ? sockets.all[fd - FIRST] : NULL;
}

static int add(uint32_t rank, struct stream **out)
{
    if (sockets.n == sockets.room) {
        uint32_t room = 2 * sockets.room + 1024;
        struct stream **all = reallocarray(sockets.all, room, sizeof(struct stream *));
        if (all == NULL)
            abort();
        sockets.all = all;
        sockets.room = room;
    }
    struct stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        abort();
    stream->rank = rank;
    stream->open = true;
    stream->last = &stream->first;
    sockets.all[sockets.n] = stream;
    if (++sockets.open[rank] > sockets.most[rank])
        sockets.most[rank] = sockets.open[rank];
    *out = stream;
    return stream->fd = FIRST + (int)sockets.n++;
}

static short events_of(const struct stream *stream)
{
    short events = 0;

    if (stream->is_set)
        return stream->first_queued != NULL ? POLLIN : 0;
    if (stream->first != NULL || stream->ended || stream->waiting != NULL)
        events |= POLLIN;
    if (stream->refused || (stream->connected && stream->buffered < BUFFER))
        events |= POLLOUT;
    if (stream->ended)
        events |= POLLRDHUP;
    if (stream->refused)
        events |= POLLERR;
    return events;
}

/** To the set that watches it. */
static void queue_if_ready(struct stream *stream)
{
    struct stream *set = stream->set;

    if (set == NULL || stream->queued || (events_of(stream) & (short)stream->wanted) == 0)
        return;
    stream->queued = true;
    stream->next_queued = NULL;
    *set->last_queued = stream;
    set->last_queued = &stream->next_queued;
}

static void leave_queue(struct stream *stream)
{
    struct stream *set = stream->set, **at = &set->first_queued;

    if (!stream->queued)
        return;
    while (*at != stream)
        at = &(*at)->next_queued;
    *at = stream->next_queued;
    if (set->last_queued == &stream->next_queued)
        set->last_queued = at;
    stream->queued = false;
}

/** Something has happened to it. */
static void rouse(struct stream *stream)
{
    queue_if_ready(stream);
    wring_sim_rouse(wring_sim_here(), stream->rank);
}

static void carry(const struct stream *from, const struct stream *to, size_t bytes,
                  void (*arrived)(void *), void *arg)
{
    if (wring_sim_carry(wring_sim_here(), from->rank, to->rank, bytes, arrived, arg) != WRING_OK)
        abort();
}

static void drop_segments(struct stream *stream)
{
    while (stream->first != NULL) {
        struct segment *segment = stream->first;
        stream->first = segment->next;
        free(segment);
    }
    stream->last = &stream->first;
}

/* ---- arrivals ---- */

static void on_segment(void *arg)
{
    struct segment *segment = arg;
    struct stream *to = segment->to;

    if (!to->open) {
        free(segment);
        return;
    }
    segment->next = NULL;
    *to->last = segment;
    to->last = &segment->next;
    rouse(to);
}

static void on_end(void *arg)
{
    struct stream *stream = arg;
    stream->ended = true;
    rouse(stream);
}

static void on_answer(void *arg)
{
    struct stream *stream = arg;
    stream->connected = true;
    rouse(stream);
}

static void on_refusal(void *arg)
{
    struct stream *stream = arg;
    stream->refused = true;
    rouse(stream);
}

static void on_dial(void *arg)
{
    struct stream *from = arg, *listener = sockets.listeners[from->peer_port], *end;

    if (!from->open)
        return;
    if (listener == NULL) {
        carry(from, from, 0, on_refusal, from);
        return;
    }
    add(listener->rank, &end);
    end->connected = true;
    end->peer = from;
    end->port = from->peer_port;
    end->peer_port = from->port;
    from->peer = end;
    struct stream **at = &listener->waiting;
    while (*at != NULL)
        at = &(*at)->next_waiting;
    *at = end;
    carry(end, from, 0, on_answer, from);
    rouse(listener);
}

/* ---- calls ---- */

int __wrap_socket(int family, int type, int protocol)
{
    struct wring_sim *sim = wring_sim_here();
    struct stream *stream;

    if (sim == NULL)
        return __real_socket(family, type, protocol);
    return add(wring_sim_rank(sim), &stream);
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t bytes)
{
    struct stream *stream = find(fd);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;

    if (stream == NULL)
        return __real_bind(fd, address, bytes);
    if (address->sa_family == AF_INET && v4->sin_port != 0)
        stream->port = ntohs(v4->sin_port);
    else
        stream->port = sockets.next_port++;
    return 0;
}

int __wrap_listen(int fd, int backlog)
{
    struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_listen(fd, backlog);
    stream->listens = true;
    sockets.listeners[stream->port] = stream;
    return 0;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
    struct stream *stream = find(fd), *listener;

    if (stream == NULL)
        return __real_connect(fd, address, bytes);
    stream->peer_port = ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    listener = sockets.listeners[stream->peer_port];
    sockets.dials++;
    carry(stream, listener != NULL ? listener : stream, 0, on_dial, stream);
    errno = EINPROGRESS;
    return -1;
}

static void write_address(uint16_t port, struct sockaddr *address, socklen_t *bytes)
{
    struct sockaddr_in v4 = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (address == NULL)
        return;
    memcpy(address, &v4, *bytes < sizeof(v4) ? *bytes : sizeof(v4));
    *bytes = sizeof(v4);
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    struct stream *listener = find(fd), *end;

    if (listener == NULL)
        return __real_accept4(fd, address, bytes, flags);
    end = listener->waiting;
    if (end == NULL) {
        errno = EAGAIN;
        return -1;
    }
    listener->waiting = end->next_waiting;
    write_address(end->peer_port, address, bytes);
    return end->fd;
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_send(fd, data, bytes, flags);
    if (stream->ended || !stream->connected || !stream->peer->open) {
        errno = EPIPE;
        return -1;
    }
    size_t room = BUFFER - stream->buffered, n = bytes < room ? bytes : room;
    n = n < SEGMENT ? n : SEGMENT;
    struct segment *segment = n > 0 ? malloc(sizeof(*segment) + n) : NULL;
    if (segment == NULL) {
        errno = EAGAIN;
        return -1;
    }
    *segment = (struct segment){.to = stream->peer, .bytes = n};
    memcpy(segment->data, data, n);
    stream->buffered += n;
    carry(stream, stream->peer, n, on_segment, segment);
    return (ssize_t)n;
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
    struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_recv(fd, data, bytes, flags);
    struct segment *segment = stream->first;
    if (segment == NULL) {
        errno = EAGAIN;
        return stream->ended ? 0 : -1;
    }
    size_t left = segment->bytes - segment->taken, n = bytes < left ? bytes : left;
    memcpy(data, segment->data + segment->taken, n);
    if ((flags & MSG_PEEK) != 0)
        return (ssize_t)n;
    segment->taken += n;
    stream->peer->buffered -= n;
    rouse(stream->peer);
    if (segment->taken == segment->bytes) {
        stream->first = segment->next;
        if (stream->first == NULL)
            stream->last = &stream->first;
        free(segment);
    }
    return (ssize_t)n;
}

/** @return how many are ready */
static int look(struct pollfd *fds, nfds_t n)
{
    int ready = 0;

    for (nfds_t i = 0; i < n; i++) {
        const struct stream *stream = find(fds[i].fd);
        fds[i].revents = 0;
        if (stream != NULL)
            fds[i].revents = (short)(events_of(stream) & (fds[i].events | POLLERR));
        ready += fds[i].revents != 0;
    }
    return ready;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct wring_sim *sim = wring_sim_here();
    int ready;

    if (sim == NULL)
        return __real_poll(fds, n, timeout_ms);
    uint64_t until_ns =
        wring_sim_now_ns(sim) + (uint64_t)(timeout_ms < 0 ? 3600000 : timeout_ms) * 1000000;
    while ((ready = look(fds, n)) == 0 && wring_sim_now_ns(sim) < until_ns)
        wring_sim_doze(sim, until_ns);
    return ready;
}

int __wrap_shutdown(int fd, int how)
{
    struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_shutdown(fd, how);
    if (stream->peer != NULL && stream->connected)
        carry(stream, stream->peer, 0, on_end, stream->peer);
    return 0;
}

int __wrap_close(int fd)
{
    struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_close(fd);
    if (!stream->open)
        return 0;
    stream->open = false;
    sockets.open[stream->rank]--;
    if (stream->set != NULL)
        leave_queue(stream);
    stream->set = NULL;
    if (stream->is_set)
        return 0;
    if (stream->listens)
        sockets.listeners[stream->port] = NULL;
    else if (stream->peer != NULL)
        carry(stream, stream->peer, 0, on_end, stream->peer);
    drop_segments(stream);
    return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t bytes)
{
    return find(fd) != NULL ? 0 : __real_setsockopt(fd, level, name, value, bytes);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *bytes)
{
    const struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_getsockopt(fd, level, name, value, bytes);
    int answer = name == SO_ERROR ? (stream->refused ? ECONNREFUSED : 0) : stream->listens;
    memcpy(value, &answer, sizeof(answer));
    return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *bytes)
{
    const struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_getsockname(fd, address, bytes);
    write_address(stream->port, address, bytes);
    return 0;
}

int __wrap_getpeername(int fd, struct sockaddr *address, socklen_t *bytes)
{
    const struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_getpeername(fd, address, bytes);
    write_address(stream->peer_port, address, bytes);
    return 0;
}

int __wrap_fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    long value = va_arg(args, long);
    va_end(args);
    return find(fd) != NULL ? 0 : __real_fcntl(fd, command, value);
}

/* ---- sets ---- */

int __wrap_epoll_create1(int flags)
{
    struct wring_sim *sim = wring_sim_here();
    struct stream *set;

    if (sim == NULL)
        return __real_epoll_create1(flags);
    int fd = add(wring_sim_rank(sim), &set);
    set->is_set = true;
    set->last_queued = &set->first_queued;
    return fd;
}

int __wrap_epoll_ctl(int set, int how, int fd, struct epoll_event *event)
{
    struct stream *stream = find(fd);

    if (stream == NULL)
        return __real_epoll_ctl(set, how, fd, event);
    if (stream->set != NULL)
        leave_queue(stream);
    stream->set = how == EPOLL_CTL_DEL ? NULL : find(set);
    if (stream->set == NULL)
        return 0;
    stream->wanted = event->events;
    stream->data = event->data;
    queue_if_ready(stream);
    return 0;
}

/** Members that are ready, and stay in the queue as long as they are. */
static int take_ready(struct stream *set, struct epoll_event *events, int most)
{
    int n = 0;

    struct stream *last = NULL;

    while (set->first_queued != last && set->first_queued != NULL && n < most) {
        struct stream *at = set->first_queued;
        uint32_t ready = (uint32_t)events_of(at) & at->wanted;
        leave_queue(at);
        if (ready == 0)
            continue;
        events[n++] = (struct epoll_event){ready, at->data};
        queue_if_ready(at); /* behind all others */
        last = last == NULL ? at : last;
    }
    return n;
}

int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
    struct pollfd pollfd = {fd, POLLIN, 0};
    struct stream *set = find(fd);

    if (set == NULL)
        return __real_epoll_wait(fd, events, most, timeout_ms);
    return __wrap_poll(&pollfd, 1, timeout_ms) > 0 ? take_ready(set, events, most) : 0;
}

/* ---- all ---- */

struct sim_sockets_counts sim_sockets_counts(void)
{
    struct sim_sockets_counts counts = {.dials = sockets.dials};

    for (uint32_t rank = 0; rank < sockets.ranks; rank++) {
        counts.open += sockets.open[rank];
        if (rank == 0)
            counts.most_of_rank_0 = sockets.most[0];
        else if (sockets.most[rank] > counts.most_of_another)
            counts.most_of_another = sockets.most[rank];
    }
    return counts;
}

void sim_sockets_forget(uint32_t ranks)
{
    for (uint32_t i = 0; i < sockets.n; i++) {
        drop_segments(sockets.all[i]);
        free(sockets.all[i]);
    }
    free(sockets.all);
    free(sockets.open);
    free(sockets.most);
    memset(&sockets, 0, sizeof(sockets));
    sockets.next_port = FIRST_PORT;
    sockets.ranks = ranks;
    sockets.open = ranks > 0 ? calloc(ranks, sizeof(*sockets.open)) : NULL;
    sockets.most = ranks > 0 ? calloc(ranks, sizeof(*sockets.most)) : NULL;
    if (ranks > 0 && (sockets.open == NULL || sockets.most == NULL))
        abort();
}
