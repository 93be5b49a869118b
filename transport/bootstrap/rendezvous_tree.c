/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/rendezvous_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/door.h"

#define WRING_MODULE "rendezvous"
#define EVENTS 64                         /* of one look */
#define GUESTS 16                         /* that have not proven anything yet */
#define HANDSHAKE_NS (5 * WRING_NS_PER_S) /* the time that such a one has */
#define RETRY_NS (20 * WRING_NS_PER_MS)   /* between two tries to reach the parent */
#define VERDICT_NS (10 * WRING_NS_PER_S)  /* for rank 0 to say what a loss means */
#define PLACE_BYTES 24                    /* port, family, address */
#define FRAME WRING_RENDEZVOUS_FRAME_BYTES

/** A stream to a neighbour, and the frame that comes in on it. */
struct stream {
    int fd; /* -1: none, or lost */
    uint32_t rank;
    uint8_t head[FRAME];
    struct wring_rendezvous_frame frame;
    uint8_t *body;
    uint64_t got; /* bytes, head included */
};

struct wring_rendezvous_tree {
    struct wring_rendezvous_traffic traffic;
    struct stream up; /* rank 0: none */
    uint32_t n;
    struct stream down[WRING_RENDEZVOUS_FAN];
};

/** Where a rank takes its children in. */
struct place {
    uint16_t port;
    uint8_t family; /* 4, 6; 0: at the address by which rank 0 is reached */
    uint8_t address[16];
};

/** Someone at the door. */
struct guest {
    int fd; /* -1: free */
    uint64_t since_ns;
    struct wring_auth auth;
};

struct wring_rendezvous_children wring_rendezvous_children(uint32_t rank, uint32_t size)
{
    uint64_t first = (uint64_t)rank * WRING_RENDEZVOUS_FAN + 1;
    if (first >= size)
        return (struct wring_rendezvous_children){size, 0};
    uint64_t n = size - first;
    return (struct wring_rendezvous_children){
        (uint32_t)first, n < WRING_RENDEZVOUS_FAN ? (uint32_t)n : WRING_RENDEZVOUS_FAN};
}

static uint32_t parent_of(uint32_t rank)
{
    return (rank - 1) / WRING_RENDEZVOUS_FAN;
}

uint32_t wring_rendezvous_streams(uint32_t size)
{
    return size <= WRING_RENDEZVOUS_DIRECT ? size - 1 : WRING_RENDEZVOUS_FAN + 1;
}

/* ---- frames ---- */

static enum wring_status write_frame(struct wring_rendezvous_tree *tree, int fd,
                                     const struct wring_rendezvous_frame *frame, const void *body,
                                     const struct wring_patience *patience)
{
    uint8_t head[FRAME];
    wring_rendezvous_pack(frame, head);
    enum wring_status status = wring_stream_write(fd, head, sizeof(head), patience);
    if (status == WRING_OK)
        status = wring_stream_write(fd, body, frame->bytes, patience);
    tree->traffic.frames_sent++;
    tree->traffic.bytes_sent += sizeof(head) + frame->bytes;
    return status;
}

/** The frame has been dealt with: the next one may come. */
static void drop_frame(struct stream *stream)
{
    free(stream->body);
    stream->body = NULL;
    stream->got = 0;
}

static bool has_head(const struct stream *stream)
{
    return stream->got >= FRAME;
}

static bool has_frame(const struct stream *stream)
{
    return has_head(stream) && stream->body != NULL && stream->got == FRAME + stream->frame.bytes;
}

/** @param most  bytes of a body. Errors: WRING_ERR_FRAME, WRING_ERR_NO_MEMORY. */
static enum wring_status begin_body(struct stream *stream, uint64_t most)
{
    if (!wring_rendezvous_parse(stream->head, &stream->frame) || stream->frame.bytes > most)
        return WRING_ERR_FRAME;
    stream->body = malloc(stream->frame.bytes + 1);
    return stream->body != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

/** Read what there is, up to the end of a frame. Errors: those of begin_body(); WRING_ERR_PEER,
 *  it has closed; WRING_ERR_AGAIN, there is more to come. */
static enum wring_status read_frame(struct wring_rendezvous_tree *tree, struct stream *stream,
                                    uint64_t most)
{
    while (!has_frame(stream)) {
        bool in_head = !has_head(stream);
        uint8_t *at = in_head ? stream->head + stream->got : stream->body + (stream->got - FRAME);
        uint64_t want = in_head ? FRAME - stream->got : FRAME + stream->frame.bytes - stream->got;
        ssize_t got = recv(stream->fd, at, want, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return WRING_ERR_AGAIN;
        if (got <= 0)
            return WRING_ERR_PEER;
        stream->got += (uint64_t)got;
        enum wring_status status = WRING_OK;
        if (in_head && has_head(stream))
            status = begin_body(stream, most);
        if (status != WRING_OK)
            return status;
    }
    tree->traffic.frames_received++;
    tree->traffic.bytes_received += stream->got;
    return WRING_OK;
}

/** Wait for a whole frame. Errors: as above, and those of wring_stream_poll(). */
static enum wring_status await_frame(struct wring_rendezvous_tree *tree, struct stream *stream,
                                     uint64_t most, const struct wring_patience *patience)
{
    enum wring_status status;
    while ((status = read_frame(tree, stream, most)) == WRING_ERR_AGAIN) {
        struct pollfd pollfd = {stream->fd, POLLIN, 0};
        status = wring_stream_poll(&pollfd, 1, patience);
        if (status != WRING_OK)
            return status;
    }
    return status;
}

static void close_stream(struct stream *stream)
{
    drop_frame(stream);
    wring_descriptor_close(stream->fd);
    stream->fd = -1;
}

/* ---- failures ---- */

/** To all children: what has failed. */
static void tell_children(struct wring_rendezvous_tree *tree,
                          const struct wring_rendezvous_frame *failure, const void *text)
{
    struct wring_patience brief = {wring_now_ns() + WRING_NS_PER_S, NULL};
    for (uint32_t i = 0; i < tree->n; i++)
        if (tree->down[i].fd >= 0)
            write_frame(tree, tree->down[i].fd, failure, text, &brief);
}

/** The verdict: rank 0's own, or heard from above. Told below, and logged. @return its status */
static enum wring_status pass_failure(struct wring_rendezvous *rendezvous,
                                      const struct wring_rendezvous_frame *frame, char *text)
{
    enum wring_status status = wring_rendezvous_failure_status(frame);
    tell_children(rendezvous->tree, frame, text);
    wring_rendezvous_make_printable(text, frame->bytes);
    wring_error(rendezvous->log, "%s", text[0] != '\0' ? text : wring_status_text(status));
    rendezvous->base.at_fault = frame->rank < rendezvous->base.size ? (int32_t)frame->rank : -1;
    return status;
}

/** A rank is at fault, as we see it: rank 0 decides that, others tell it so. @return the status of
 *  the job where that is decided; else WRING_OK */
static enum wring_status report_failure(struct wring_rendezvous *rendezvous,
                                        enum wring_status status, uint32_t rank, const char *what)
{
    char text[WRING_RENDEZVOUS_TEXT];
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    struct wring_patience brief = {wring_now_ns() + WRING_NS_PER_S, NULL};
    struct wring_rendezvous_frame frame = {
        .kind = WRING_RENDEZVOUS_FAILURE, .status = (uint32_t)status, .rank = rank};

    snprintf(text, sizeof(text), "rank %" PRIu32 " %s", rank, what);
    frame.bytes = strlen(text);
    if (rendezvous->base.rank == 0)
        return pass_failure(rendezvous, &frame, text);
    write_frame(tree, tree->up.fd, &frame, text, &brief); /* lost where nobody is there any more */
    return WRING_OK;
}

/** Nothing comes from above any more: for those below that is their loss, too. */
static enum wring_status lose_parent(struct wring_rendezvous *rendezvous, enum wring_status status,
                                     const struct wring_patience *patience)
{
    uint32_t parent = rendezvous->tree->up.rank;
    char text[WRING_RENDEZVOUS_TEXT];
    if (status == WRING_ERR_CLOSED || status == WRING_ERR_NO_MEMORY ||
        wring_stream_called_off(patience))
        return status == WRING_ERR_NO_MEMORY ? status : WRING_ERR_CLOSED;
    snprintf(text, sizeof(text), "rank %" PRIu32 " %s", parent,
             status == WRING_ERR_FRAME     ? "sent malformed bytes to the rendezvous"
             : status == WRING_ERR_TIMEOUT ? "did not answer in time"
                                           : "ended, and with it its part of the rendezvous");
    struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_FAILURE,
                                           .status = status == WRING_ERR_FRAME ? WRING_ERR_FRAME
                                                                               : WRING_ERR_PEER,
                                           .rank = parent,
                                           .bytes = strlen(text)};
    return pass_failure(rendezvous, &frame, text);
}

/* ---- planting: where children come in ---- */

static int listen_for_children(const struct wring_rendezvous *rendezvous, int to_root,
                               uint16_t *port)
{
    const struct wring_ports any = {0, 0};
    struct sockaddr_storage address;
    socklen_t bytes = sizeof(address);
    char why[WRING_RENDEZVOUS_TEXT];

    if (getsockname(to_root, (struct sockaddr *)&address, &bytes) != 0)
        return -1;
    int fd = wring_ports_listen(&any, &address, bytes, SOMAXCONN, why, sizeof(why));
    if (fd < 0) {
        wring_error(rendezvous->log, "cannot listen for ranks that join by this one: %s", why);
        return -1;
    }
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
        wring_descriptor_close(fd);
        return -1;
    }
    *port = ntohs(address.ss_family == AF_INET ? ((struct sockaddr_in *)&address)->sin_port
                                               : ((struct sockaddr_in6 *)&address)->sin6_port);
    return fd;
}

/** The address at which rank 0 sees that rank; none on rank 0's own host. */
static void find_address(int fd, struct place *out)
{
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof(peer);
    out->family = 0;
    if (getpeername(fd, (struct sockaddr *)&peer, &bytes) != 0 ||
        wring_rendezvous_is_loopback((const struct sockaddr *)&peer))
        return;
    if (peer.ss_family == AF_INET) {
        out->family = 4;
        memcpy(out->address, &((const struct sockaddr_in *)&peer)->sin_addr, 4);
        return;
    }
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)&peer)->sin6_addr;
    bool mapped = IN6_IS_ADDR_V4MAPPED(v6);
    out->family = mapped ? 4 : 6;
    memcpy(out->address, v6->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 16);
}

static void pack_place(const struct place *place, uint8_t out[PLACE_BYTES])
{
    memset(out, 0, PLACE_BYTES);
    wring_put_u32(out, place->port);
    wring_put_u32(out + 4, place->family);
    memcpy(out + 8, place->address, sizeof(place->address));
}

/** @return false: malformed */
static bool unpack_place(const uint8_t *in, uint64_t bytes, struct place *out)
{
    if (bytes != PLACE_BYTES)
        return false;
    uint32_t port = wring_get_u32(in), family = wring_get_u32(in + 4);
    *out = (struct place){.port = (uint16_t)port, .family = (uint8_t)family};
    memcpy(out->address, in + 8, sizeof(out->address));
    return port <= UINT16_MAX && (family == 0 || family == 4 || family == 6);
}

/** @param like  a socket to rank 0: its other end's zone, and the address where the place has none
 *  @return bytes; 0: nowhere */
static socklen_t place_address(const struct place *place, int like, struct sockaddr_storage *out)
{
    socklen_t bytes = sizeof(*out);
    if (getpeername(like, (struct sockaddr *)out, &bytes) != 0)
        return 0;
    uint32_t zone = out->ss_family == AF_INET6 ? ((struct sockaddr_in6 *)out)->sin6_scope_id : 0;
    if (place->family == 4) {
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        memcpy(&v4.sin_addr, place->address, 4);
        memcpy(out, &v4, bytes = sizeof(v4));
    } else if (place->family == 6) {
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        memcpy(&v6.sin6_addr, place->address, 16);
        v6.sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? zone : 0;
        memcpy(out, &v6, bytes = sizeof(v6));
    }
    if (out->ss_family == AF_INET)
        ((struct sockaddr_in *)out)->sin_port = htons(place->port);
    else
        ((struct sockaddr_in6 *)out)->sin6_port = htons(place->port);
    return bytes;
}

/* ---- planting: rank 0 ---- */

struct planter {
    struct wring_rendezvous *rendezvous;
    const struct wring_patience *patience;
    struct stream *ranks; /* [size], of fds as they were when all had joined */
    struct place *places; /* [size] */
    int epoll;            /* those that are awaited */
};

static enum wring_status fail_for(struct planter *planter, uint32_t rank, enum wring_status status,
                                  const char *what)
{
    char text[WRING_RENDEZVOUS_TEXT];
    struct wring_rendezvous *rendezvous = planter->rendezvous;
    snprintf(text, sizeof(text), "rank %" PRIu32 " %s", rank, what);
    wring_error(rendezvous->log, "%s", text);
    wring_rendezvous_tell_failure(rendezvous, status, rank, text);
    return status;
}

static enum wring_status fail_late(struct planter *planter)
{
    struct wring_rendezvous *rendezvous = planter->rendezvous;
    struct wring_rendezvous_names late = {0};
    char text[WRING_RENDEZVOUS_TEXT];
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (!has_frame(&planter->ranks[i]))
            wring_rendezvous_name(&late, i);
    snprintf(text, sizeof(text), "%s did not join each other in time (WRING_JOIN_TIMEOUT)",
             wring_rendezvous_named(&late));
    wring_error(rendezvous->log, "%s", text);
    wring_rendezvous_tell_failure(rendezvous, WRING_ERR_PEER, late.first, text);
    return WRING_ERR_PEER;
}

/** Read on from a rank. @return WRING_OK: it has said what is awaited, or will */
static enum wring_status hear_rank(struct planter *planter, uint32_t i,
                                   enum wring_rendezvous_kind kind)
{
    struct stream *stream = &planter->ranks[i];
    enum wring_status status =
        read_frame(planter->rendezvous->tree, stream, WRING_RENDEZVOUS_TEXT - 1);
    bool failed = status == WRING_OK && stream->frame.kind == WRING_RENDEZVOUS_FAILURE;
    if (status == WRING_ERR_AGAIN || (status == WRING_OK && stream->frame.kind == kind))
        return WRING_OK;
    if (failed && stream->frame.rank < planter->rendezvous->base.size) {
        char *text = (char *)stream->body;
        wring_rendezvous_make_printable(text, stream->frame.bytes);
        status = wring_rendezvous_failure_status(&stream->frame);
        wring_error(planter->rendezvous->log, "%s", text);
        wring_rendezvous_tell_failure(planter->rendezvous, status, stream->frame.rank, text);
        return status;
    }
    if (status == WRING_ERR_PEER)
        return fail_for(planter, i, status, "ended while the others were joining");
    return fail_for(planter, i, status == WRING_ERR_NO_MEMORY ? status : WRING_ERR_FRAME,
                    "sent malformed bytes to the rendezvous");
}

/** Look at those that have sent something. @param left in and out: ranks that are awaited */
static enum wring_status hear_ready(struct planter *planter, const struct epoll_event *events,
                                    int n, enum wring_rendezvous_kind kind, uint32_t *left)
{
    for (int i = 0; i < n; i++) {
        uint32_t rank = events[i].data.u32;
        struct stream *stream = &planter->ranks[rank];
        enum wring_status status = hear_rank(planter, rank, kind);
        if (status != WRING_OK)
            return status;
        if (!has_frame(stream))
            continue;
        epoll_ctl(planter->epoll, EPOLL_CTL_DEL, stream->fd, NULL);
        --*left;
    }
    return WRING_OK;
}

/** Until each rank has said it. Only those are looked at that have: O(size) in all. */
static enum wring_status hear_all(struct planter *planter, enum wring_rendezvous_kind kind)
{
    uint32_t size = planter->rendezvous->base.size, left = size - 1;
    struct epoll_event events[EVENTS];
    enum wring_status status = WRING_OK;
    for (uint32_t i = 1; i < size; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        drop_frame(&planter->ranks[i]);
        if (epoll_ctl(planter->epoll, EPOLL_CTL_ADD, planter->ranks[i].fd, &event) != 0) {
            wring_error(planter->rendezvous->log, "rank %" PRIu32 " cannot be waited for: %s", i,
                        WRING_REFUSED("epoll_ctl"));
            return WRING_ERR_SYSTEM;
        }
    }
    while (left > 0 && status == WRING_OK) {
        struct pollfd pollfd = {planter->epoll, POLLIN, 0};
        status = wring_stream_poll(&pollfd, 1, planter->patience);
        if (status == WRING_ERR_TIMEOUT)
            return fail_late(planter);
        int n = status == WRING_OK ? epoll_wait(planter->epoll, events, EVENTS, 0) : 0;
        if (status == WRING_OK)
            status = hear_ready(planter, events, n, kind, &left);
    }
    return status;
}

/** Tell each rank where its parent is. */
static enum wring_status tell_places(struct planter *planter)
{
    uint32_t size = planter->rendezvous->base.size;
    for (uint32_t i = 1; i < size; i++) {
        struct stream *stream = &planter->ranks[i];
        if (!unpack_place(stream->body, stream->frame.bytes, &planter->places[i]) ||
            (wring_rendezvous_children(i, size).n > 0) != (planter->places[i].port != 0))
            return fail_for(planter, i, WRING_ERR_FRAME, "sent malformed bytes to the rendezvous");
        find_address(stream->fd, &planter->places[i]);
    }
    for (uint32_t i = 1; i < size; i++) {
        uint8_t body[PLACE_BYTES];
        struct wring_rendezvous_frame frame = {
            .kind = WRING_RENDEZVOUS_PARENT, .rank = parent_of(i), .bytes = sizeof(body)};
        pack_place(&planter->places[parent_of(i)], body);
        enum wring_status status = write_frame(planter->rendezvous->tree, planter->ranks[i].fd,
                                               &frame, body, planter->patience);
        if (status == WRING_ERR_CLOSED)
            return status;
        if (status != WRING_OK)
            return fail_for(planter, i, WRING_ERR_PEER, "ended while the others were joining");
    }
    return WRING_OK;
}

/** Its children keep the streams by which they joined. */
static void keep_children(struct wring_rendezvous *rendezvous)
{
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    struct wring_rendezvous_children children = wring_rendezvous_children(0, rendezvous->base.size);
    tree->n = children.n;
    for (uint32_t i = 1; i < rendezvous->base.size; i++) {
        if (i - children.first < children.n)
            tree->down[i - children.first] = (struct stream){.fd = rendezvous->fds[i], .rank = i};
        else
            wring_descriptor_close(rendezvous->fds[i]);
        rendezvous->fds[i] = -1;
    }
}

static enum wring_status plant_root(struct wring_rendezvous *rendezvous,
                                    const struct wring_patience *patience)
{
    uint32_t size = rendezvous->base.size;
    struct planter planter = {
        .rendezvous = rendezvous,
        .patience = patience,
        .ranks = calloc(size, sizeof(*planter.ranks)),
        .places = calloc(size, sizeof(*planter.places)),
        .epoll = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC)),
    };
    enum wring_status status = WRING_ERR_NO_MEMORY;
    if (planter.ranks != NULL && planter.places != NULL && planter.epoll >= 0) {
        for (uint32_t i = 1; i < size; i++)
            planter.ranks[i] = (struct stream){.fd = rendezvous->fds[i], .rank = i};
        status = hear_all(&planter, WRING_RENDEZVOUS_PLACE);
        if (status == WRING_OK)
            status = tell_places(&planter);
        if (status == WRING_OK)
            status = hear_all(&planter, WRING_RENDEZVOUS_PLANTED);
        for (uint32_t i = 1; i < size; i++)
            drop_frame(&planter.ranks[i]);
    }
    free(planter.ranks);
    free(planter.places);
    wring_descriptor_close(planter.epoll);
    if (status == WRING_OK)
        keep_children(rendezvous);
    return status;
}

/* ---- planting: the others ---- */

struct seedling {
    struct wring_rendezvous *rendezvous;
    const struct wring_patience *patience;
    const uint8_t *secret;
    int to_root, listen_fd;
    struct wring_door door;
    struct guest guests[GUESTS];
};

/** Our part of the tree will not come about. Rank 0 says so to all. */
static enum wring_status give_up(struct seedling *seedling, enum wring_status status, uint32_t rank,
                                 const char *text)
{
    struct wring_rendezvous *rendezvous = seedling->rendezvous;
    struct wring_patience brief = {wring_now_ns() + WRING_NS_PER_S, NULL};
    struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_FAILURE,
                                           .status = (uint32_t)status,
                                           .rank = rank,
                                           .bytes = strlen(text)};
    wring_error(rendezvous->log, "%s", text);
    rendezvous->base.at_fault = (int32_t)rank;
    tell_children(rendezvous->tree, &frame, text);
    write_frame(rendezvous->tree, seedling->to_root, &frame, text, &brief);
    return status;
}

/** Rank 0 has something to say. @return WRING_OK: it is a frame of that kind, in up */
static enum wring_status hear_root(struct seedling *seedling, struct stream *root,
                                   enum wring_rendezvous_kind kind)
{
    struct wring_rendezvous *rendezvous = seedling->rendezvous;
    enum wring_status status = read_frame(rendezvous->tree, root, WRING_RENDEZVOUS_TEXT - 1);
    if (status == WRING_ERR_AGAIN)
        return status;
    if (status == WRING_OK && root->frame.kind == WRING_RENDEZVOUS_FAILURE)
        return pass_failure(rendezvous, &root->frame, (char *)root->body);
    if (status == WRING_OK && root->frame.kind == kind)
        return WRING_OK;
    rendezvous->tree->up.rank = 0;
    return lose_parent(rendezvous, status == WRING_OK ? WRING_ERR_FRAME : status,
                       seedling->patience);
}

/** Say where our children come in, and hear where our parent is. */
static enum wring_status find_parent(struct seedling *seedling, uint16_t port, struct place *out)
{
    struct wring_rendezvous *rendezvous = seedling->rendezvous;
    struct stream root = {.fd = seedling->to_root};
    uint8_t body[PLACE_BYTES];
    struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_PLACE, .bytes = sizeof(body)};
    enum wring_status status;

    pack_place(&(struct place){.port = port}, body);
    write_frame(rendezvous->tree, root.fd, &frame, body, seedling->patience);
    while ((status = hear_root(seedling, &root, WRING_RENDEZVOUS_PARENT)) == WRING_ERR_AGAIN) {
        struct pollfd pollfd = {root.fd, POLLIN, 0};
        status = wring_stream_poll(&pollfd, 1, seedling->patience);
        if (status != WRING_OK) {
            status = lose_parent(rendezvous, status, seedling->patience);
            break;
        }
    }
    if (status == WRING_OK && (root.frame.rank != parent_of(rendezvous->base.rank) ||
                               !unpack_place(root.body, root.frame.bytes, out)))
        status = lose_parent(rendezvous, WRING_ERR_FRAME, seedling->patience);
    drop_frame(&root);
    return status;
}

/** Wait for a socket, but not past a word of rank 0's. @return WRING_ERR_AGAIN: rank 0 speaks */
static enum wring_status await_socket(const struct seedling *seedling, int fd, short events,
                                      const struct wring_patience *patience)
{
    struct pollfd fds[] = {{fd, events, 0}, {seedling->to_root, POLLIN, 0}};
    enum wring_status status = wring_stream_poll(fds, 2, patience);
    return status == WRING_OK && fds[1].revents != 0 ? WRING_ERR_AGAIN : status;
}

/** One try. @return WRING_OK, the stream is in *fd; WRING_ERR_AGAIN, rank 0 speaks;
 *  WRING_ERR_ADDRESS with errno, nobody is there */
static enum wring_status reach_parent(struct seedling *seedling,
                                      const struct sockaddr_storage *address, socklen_t bytes,
                                      int *fd)
{
    const struct wring_bootstrap *base = &seedling->rendezvous->base;
    uint8_t hello[WRING_RENDEZVOUS_HELLO_BYTES];
    struct wring_auth auth;
    int one = 1, error = 0;
    socklen_t error_bytes = sizeof(error);

    *fd =
        WRING_DESCRIPTOR(socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (*fd < 0)
        return WRING_ERR_ADDRESS;
    setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (connect(*fd, (const struct sockaddr *)address, bytes) != 0 && errno != EINPROGRESS)
        return WRING_ERR_ADDRESS;
    enum wring_status status = await_socket(seedling, *fd, POLLOUT, seedling->patience);
    if (status == WRING_OK && getsockopt(*fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) == 0 &&
        error != 0) {
        errno = error;
        return WRING_ERR_ADDRESS;
    }
    wring_put_u32(hello, base->rank);
    wring_put_u32(hello + 4, base->size);
    wring_auth_init(&auth, true, WRING_AUTH_RENDEZVOUS, seedling->secret, hello, sizeof(hello));
    while (status == WRING_OK && wring_auth_status(&auth) == WRING_ERR_AGAIN) {
        const void *data;
        if (!wring_stream_auth(*fd, &auth)) {
            errno = ECONNRESET;
            status = WRING_ERR_ADDRESS;
        } else if (wring_auth_status(&auth) == WRING_ERR_AGAIN) {
            status =
                await_socket(seedling, *fd, wring_auth_output(&auth, &data) > 0 ? POLLOUT : POLLIN,
                             seedling->patience);
        }
    }
    if (status == WRING_OK)
        status = wring_auth_status(&auth);
    explicit_bzero(&auth, sizeof(auth));
    return status;
}

/** A rank whose listener is full refuses for a moment: again, until it is too late. */
static enum wring_status join_parent(struct seedling *seedling, const struct place *place)
{
    struct wring_rendezvous *rendezvous = seedling->rendezvous;
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    struct wring_rendezvous_endpoint endpoint = {0};
    uint32_t parent = parent_of(rendezvous->base.rank);
    struct stream root = {.fd = seedling->to_root};
    char where[WRING_RENDEZVOUS_ENDPOINT_TEXT], text[WRING_RENDEZVOUS_TEXT];
    enum wring_status status = WRING_ERR_ADDRESS;

    tree->up = (struct stream){.fd = -1, .rank = parent};
    endpoint.bytes = place_address(place, seedling->to_root, &endpoint.address);
    while (endpoint.bytes > 0) {
        status = reach_parent(seedling, &endpoint.address, endpoint.bytes, &tree->up.fd);
        if (status == WRING_OK || status == WRING_ERR_CLOSED)
            return status;
        int why = errno;
        wring_descriptor_close(tree->up.fd);
        tree->up.fd = -1;
        if (status == WRING_ERR_AGAIN) {
            enum wring_status said = hear_root(seedling, &root, WRING_RENDEZVOUS_FAILURE);
            drop_frame(&root);
            if (said != WRING_ERR_AGAIN)
                return said;
        }
        struct wring_patience pause = *seedling->patience;
        if (status != WRING_ERR_ADDRESS || wring_now_ns() + RETRY_NS >= pause.deadline_ns) {
            errno = why;
            break;
        }
        pause.deadline_ns = wring_now_ns() + RETRY_NS;
        if (wring_stream_poll(NULL, 0, &pause) == WRING_ERR_CLOSED)
            return WRING_ERR_CLOSED;
    }
    wring_rendezvous_endpoint_text(&endpoint, where);
    snprintf(text, sizeof(text),
             "rank %" PRIu32 " could not reach rank %" PRIu32 " at %s, by which it joins: %s; are "
             "ports between hosts open?",
             rendezvous->base.rank, parent, where,
             status == WRING_ERR_ADDRESS ? strerrordesc_np(errno) : wring_status_text(status));
    return give_up(seedling, WRING_ERR_PEER, parent, text);
}

static void turn_out(struct guest *guest)
{
    wring_descriptor_close(guest->fd);
    guest->fd = -1;
}

/** The oldest makes room: a child comes again. */
static struct guest *take_place(struct seedling *seedling)
{
    struct guest *oldest = &seedling->guests[0];
    for (unsigned i = 0; i < GUESTS; i++) {
        struct guest *guest = &seedling->guests[i];
        if (guest->fd < 0)
            return guest;
        if (guest->since_ns < oldest->since_ns)
            oldest = guest;
    }
    turn_out(oldest);
    return oldest;
}

static void accept_guests(struct seedling *seedling)
{
    int fd, one = 1;
    while (wring_door_is_open(&seedling->door, wring_now_ns()) &&
           wring_door_accept(&seedling->door, seedling->rendezvous->log, seedling->listen_fd, 0,
                             &fd, NULL) == WRING_DOOR_ACCEPTED) {
        struct guest *guest = take_place(seedling);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        guest->fd = fd;
        guest->since_ns = wring_now_ns();
        wring_auth_init(&guest->auth, false, WRING_AUTH_RENDEZVOUS, seedling->secret, NULL, 0);
    }
}

/** It knows the key: is it a child of ours that has not come yet? @return it was one */
static bool admit_child(struct seedling *seedling, struct guest *guest)
{
    struct wring_rendezvous *rendezvous = seedling->rendezvous;
    struct wring_rendezvous_children children =
        wring_rendezvous_children(rendezvous->base.rank, rendezvous->base.size);
    size_t bytes;
    const uint8_t *hello = wring_auth_hello(&guest->auth, &bytes);
    bool whole =
        bytes == WRING_RENDEZVOUS_HELLO_BYTES && wring_get_u32(hello + 4) == rendezvous->base.size;
    uint32_t rank = whole ? wring_get_u32(hello) : UINT32_MAX, at = rank - children.first;

    if (at >= children.n || rendezvous->tree->down[at].fd >= 0) {
        wring_warn(rendezvous->log, "refused someone who wanted to join by this rank");
        turn_out(guest);
        return false;
    }
    rendezvous->tree->down[at] = (struct stream){.fd = guest->fd, .rank = rank};
    guest->fd = -1;
    return true;
}

/** @return whether one more child is here */
static bool advance_guest(struct seedling *seedling, struct guest *guest)
{
    bool alive = wring_stream_auth(guest->fd, &guest->auth);
    enum wring_status status = wring_auth_status(&guest->auth);
    if (status == WRING_OK)
        return admit_child(seedling, guest);
    if (!alive || status != WRING_ERR_AGAIN || wring_now_ns() > guest->since_ns + HANDSHAKE_NS)
        turn_out(guest);
    return false;
}

/** Until all children are here, or rank 0 says that it is over. */
static enum wring_status admit_children(struct seedling *seedling)
{
    struct stream root = {.fd = seedling->to_root};
    uint32_t here = 0;
    while (here < seedling->rendezvous->tree->n) {
        struct pollfd fds[2 + GUESTS] = {{seedling->listen_fd, POLLIN, 0},
                                         {seedling->to_root, POLLIN, 0}};
        unsigned n = 2;
        for (unsigned i = 0; i < GUESTS; i++)
            if (seedling->guests[i].fd >= 0) {
                const void *data;
                bool out = wring_auth_output(&seedling->guests[i].auth, &data) > 0;
                fds[n++] = (struct pollfd){seedling->guests[i].fd, out ? POLLOUT : POLLIN, 0};
            }
        enum wring_status status = wring_stream_poll(fds, n, seedling->patience);
        if (status != WRING_OK)
            return lose_parent(seedling->rendezvous, status, seedling->patience);
        if (fds[1].revents != 0) {
            status = hear_root(seedling, &root, WRING_RENDEZVOUS_FAILURE);
            drop_frame(&root);
            if (status != WRING_ERR_AGAIN)
                return status;
        }
        accept_guests(seedling);
        for (unsigned i = 0; i < GUESTS; i++)
            if (seedling->guests[i].fd >= 0)
                here += advance_guest(seedling, &seedling->guests[i]);
    }
    return WRING_OK;
}

/** Rank 0's children keep the stream by which they joined; the others leave it. */
static void leave_root(struct seedling *seedling, enum wring_status status)
{
    struct wring_rendezvous *rendezvous = seedling->rendezvous;
    struct wring_rendezvous_frame planted = {.kind = WRING_RENDEZVOUS_PLANTED};
    if (status == WRING_OK)
        write_frame(rendezvous->tree, seedling->to_root, &planted, "", seedling->patience);
    if (parent_of(rendezvous->base.rank) == 0)
        rendezvous->tree->up = (struct stream){.fd = seedling->to_root};
    else
        wring_descriptor_close(seedling->to_root);
    rendezvous->fds[0] = -1;
    wring_descriptor_close(seedling->listen_fd);
    for (unsigned i = 0; i < GUESTS; i++)
        if (seedling->guests[i].fd >= 0)
            turn_out(&seedling->guests[i]);
}

static enum wring_status plant_rank(struct wring_rendezvous *rendezvous, const uint8_t *secret,
                                    const struct wring_patience *patience)
{
    struct seedling *seedling = calloc(1, sizeof(*seedling));
    uint16_t port = 0;
    struct place parent;
    if (seedling == NULL)
        return WRING_ERR_NO_MEMORY;
    *seedling = (struct seedling){.rendezvous = rendezvous,
                                  .patience = patience,
                                  .secret = secret,
                                  .to_root = rendezvous->fds[0],
                                  .listen_fd = -1,
                                  .door = {.module = WRING_MODULE}};
    for (unsigned i = 0; i < GUESTS; i++)
        seedling->guests[i].fd = -1;
    rendezvous->tree->n = wring_rendezvous_children(rendezvous->base.rank, rendezvous->base.size).n;
    enum wring_status status = WRING_OK;
    if (rendezvous->tree->n > 0) {
        seedling->listen_fd = listen_for_children(rendezvous, seedling->to_root, &port);
        status = seedling->listen_fd >= 0 ? WRING_OK : WRING_ERR_ADDRESS;
    }
    if (status == WRING_OK)
        status = find_parent(seedling, port, &parent);
    if (status == WRING_OK && parent_of(rendezvous->base.rank) != 0)
        status = join_parent(seedling, &parent);
    if (status == WRING_OK)
        status = admit_children(seedling);
    leave_root(seedling, status);
    explicit_bzero(seedling, sizeof(*seedling)); /* what is proven with a secret */
    free(seedling);
    return status;
}

enum wring_status wring_rendezvous_plant(struct wring_rendezvous *rendezvous,
                                         const struct wring_rendezvous_params *params,
                                         const uint8_t *secret)
{
    struct wring_patience patience = {params->deadline_ns, params->cancel};
    struct wring_rendezvous_tree *tree = calloc(1, sizeof(*tree));
    if (tree == NULL)
        return WRING_ERR_NO_MEMORY;
    tree->up.fd = -1;
    for (unsigned i = 0; i < WRING_RENDEZVOUS_FAN; i++)
        tree->down[i].fd = -1;
    rendezvous->tree = tree;
    if (rendezvous->base.rank == 0)
        return plant_root(rendezvous, &patience);
    if (patience.deadline_ns < WRING_NEVER - VERDICT_NS)
        patience.deadline_ns += VERDICT_NS; /* rank 0 knows who is late */
    return plant_rank(rendezvous, secret, &patience);
}

void wring_rendezvous_tree_destroy(struct wring_rendezvous_tree *tree)
{
    if (tree == NULL)
        return;
    close_stream(&tree->up);
    for (uint32_t i = 0; i < WRING_RENDEZVOUS_FAN; i++)
        close_stream(&tree->down[i]);
    free(tree);
}

struct wring_rendezvous_traffic wring_rendezvous_tree_traffic(
    const struct wring_rendezvous_tree *tree)
{
    return tree->traffic;
}

/* ---- exchange ---- */

/** An exchange under way. */
struct exchange {
    struct wring_rendezvous *rendezvous;
    const struct wring_patience *patience;
    uint8_t **blobs;  /* rank 0: [size], malloc()ed */
    uint64_t *bytes;  /* rank 0: [size] */
    uint32_t missing; /* rank 0: so many have not come */
};

/** Is that rank at, or under, another one? */
static bool is_below(uint32_t rank, uint32_t top)
{
    while (rank > top)
        rank = parent_of(rank);
    return rank == top;
}

/** A contribution has come from below: rank 0 keeps it, others pass it on. */
static enum wring_status take_blob(struct exchange *exchange, struct stream *from)
{
    struct wring_rendezvous *rendezvous = exchange->rendezvous;
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    uint32_t rank = from->frame.rank;

    if (from->frame.sequence != rendezvous->sequence || rank >= rendezvous->base.size ||
        !is_below(rank, from->rank))
        return WRING_ERR_FRAME;
    if (exchange->blobs == NULL)
        return write_frame(tree, tree->up.fd, &from->frame, from->body, exchange->patience) ==
                       WRING_ERR_CLOSED
                   ? WRING_ERR_CLOSED
                   : WRING_OK; /* what the parent makes of it, it says */
    if (exchange->blobs[rank] != NULL)
        return WRING_ERR_FRAME;
    exchange->blobs[rank] = from->body;
    exchange->bytes[rank] = from->frame.bytes;
    exchange->missing--;
    from->body = NULL;
    return WRING_OK;
}

/** Take all that has come from a child. @return of the job, once that is decided */
static enum wring_status hear_child(struct exchange *exchange, struct stream *child)
{
    struct wring_rendezvous *rendezvous = exchange->rendezvous;
    for (;;) {
        enum wring_status status = read_frame(rendezvous->tree, child, WRING_BLOB_MAX);
        if (status == WRING_ERR_AGAIN)
            return WRING_OK;
        if (status == WRING_OK && child->frame.kind == WRING_RENDEZVOUS_FAILURE &&
            child->frame.bytes < WRING_RENDEZVOUS_TEXT && rendezvous->base.rank == 0)
            return pass_failure(rendezvous, &child->frame, (char *)child->body);
        if (status == WRING_OK && child->frame.kind == WRING_RENDEZVOUS_FAILURE)
            write_frame(rendezvous->tree, rendezvous->tree->up.fd, &child->frame, child->body,
                        exchange->patience);
        else if (status == WRING_OK)
            status = child->frame.kind == WRING_RENDEZVOUS_BLOB ? take_blob(exchange, child)
                                                                : WRING_ERR_FRAME;
        if (status == WRING_ERR_CLOSED || status == WRING_ERR_NO_MEMORY)
            return status;
        if (status == WRING_ERR_PEER && wring_stream_called_off(exchange->patience))
            return WRING_ERR_CLOSED;
        if (status != WRING_OK) {
            uint32_t rank = child->rank;
            close_stream(child);
            return report_failure(rendezvous, status, rank,
                                  status == WRING_ERR_PEER
                                      ? "ended, or closed its session, while the others were "
                                        "opening, committing or making a group"
                                      : "sent malformed bytes to the rendezvous");
        }
        drop_frame(child);
    }
}

/** Wait for anything, and hear the children. @param up out: something has come from above */
static enum wring_status serve(struct exchange *exchange, bool *up)
{
    struct wring_rendezvous_tree *tree = exchange->rendezvous->tree;
    struct pollfd fds[1 + WRING_RENDEZVOUS_FAN] = {{tree->up.fd, POLLIN, 0}};
    for (uint32_t i = 0; i < tree->n; i++)
        fds[1 + i] = (struct pollfd){tree->down[i].fd, POLLIN, 0};
    enum wring_status status = wring_stream_poll(fds, 1 + tree->n, exchange->patience);
    for (uint32_t i = 0; i < tree->n && status == WRING_OK; i++)
        if (fds[1 + i].revents != 0)
            status = hear_child(exchange, &tree->down[i]);
    *up = status == WRING_OK && fds[0].revents != 0;
    return status;
}

static enum wring_status fail_missing(struct exchange *exchange)
{
    struct wring_rendezvous *rendezvous = exchange->rendezvous;
    struct wring_rendezvous_names late = {0};
    char text[WRING_RENDEZVOUS_TEXT];
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (exchange->blobs[i] == NULL)
            wring_rendezvous_name(&late, i);
    snprintf(text, sizeof(text),
             "%s did not take part in opening, committing or making a group in time "
             "(WRING_JOIN_TIMEOUT)",
             wring_rendezvous_named(&late));
    struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_FAILURE,
                                           .status = WRING_ERR_PEER,
                                           .rank = late.first,
                                           .bytes = strlen(text)};
    return pass_failure(rendezvous, &frame, text);
}

/** A result to all children. One that has gone is a loss that the next exchange finds. */
static enum wring_status hand_down(struct wring_rendezvous *rendezvous, const void *body,
                                   uint64_t bytes, const struct wring_patience *patience)
{
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    struct wring_rendezvous_frame frame = {
        .kind = WRING_RENDEZVOUS_RESULT, .sequence = rendezvous->sequence, .bytes = bytes};
    for (uint32_t i = 0; i < tree->n; i++) {
        enum wring_status status = WRING_OK;
        if (tree->down[i].fd >= 0)
            status = write_frame(tree, tree->down[i].fd, &frame, body, patience);
        if (status == WRING_ERR_CLOSED || (status != WRING_OK && wring_stream_called_off(patience)))
            return WRING_ERR_CLOSED;
        if (status == WRING_OK)
            continue;
        uint32_t rank = tree->down[i].rank;
        close_stream(&tree->down[i]);
        status =
            report_failure(rendezvous, WRING_ERR_PEER, rank, "stopped listening to the rendezvous");
        if (status != WRING_OK)
            return status;
    }
    return WRING_OK;
}

/** Rank 0 has all: make the result, and hand it down. */
static enum wring_status conclude(struct exchange *exchange, struct wring_blobs *out)
{
    uint32_t size = exchange->rendezvous->base.size;
    struct wring_writer body = {0};
    for (uint32_t i = 0; i < size; i++) {
        wring_write_u64(&body, exchange->bytes[i]);
        wring_write(&body, exchange->blobs[i], exchange->bytes[i]);
    }
    if (body.failed)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status =
        hand_down(exchange->rendezvous, body.data, body.bytes, exchange->patience);
    if (status == WRING_OK)
        status = wring_rendezvous_unpack_result(size, body.data, body.bytes, out);
    if (status != WRING_OK)
        free(body.data);
    return status;
}

static enum wring_status exchange_root(struct exchange *exchange, const void *blob, size_t bytes,
                                       struct wring_blobs *out)
{
    uint32_t size = exchange->rendezvous->base.size;
    enum wring_status status = WRING_ERR_NO_MEMORY;
    bool up;
    exchange->blobs = calloc(size, sizeof(*exchange->blobs));
    exchange->bytes = calloc(size, sizeof(*exchange->bytes));
    if (exchange->blobs != NULL && exchange->bytes != NULL)
        exchange->blobs[0] = malloc(bytes + 1);
    if (exchange->blobs != NULL && exchange->bytes != NULL && exchange->blobs[0] != NULL) {
        memcpy(exchange->blobs[0], blob, bytes);
        exchange->bytes[0] = bytes;
        exchange->missing = size - 1;
        status = WRING_OK;
    }
    while (status == WRING_OK && exchange->missing > 0) {
        status = serve(exchange, &up);
        if (status == WRING_ERR_TIMEOUT)
            status = fail_missing(exchange);
    }
    if (status == WRING_OK)
        status = conclude(exchange, out);
    for (uint32_t i = 0; exchange->blobs != NULL && i < size; i++)
        free(exchange->blobs[i]);
    free(exchange->blobs);
    free(exchange->bytes);
    return status;
}

/** Something has come from above. @return WRING_ERR_AGAIN: not all of it yet */
static enum wring_status hear_parent(struct exchange *exchange, struct wring_blobs *out)
{
    struct wring_rendezvous *rendezvous = exchange->rendezvous;
    struct stream *up = &rendezvous->tree->up;
    uint32_t size = rendezvous->base.size;
    enum wring_status status =
        read_frame(rendezvous->tree, up, (uint64_t)size * (WRING_BLOB_MAX + sizeof(uint64_t)));
    if (status == WRING_ERR_AGAIN)
        return status;
    if (status == WRING_OK && up->frame.kind == WRING_RENDEZVOUS_FAILURE &&
        up->frame.bytes < WRING_RENDEZVOUS_TEXT)
        return pass_failure(rendezvous, &up->frame, (char *)up->body);
    if (status == WRING_OK &&
        (up->frame.kind != WRING_RENDEZVOUS_RESULT || up->frame.sequence != rendezvous->sequence))
        status = WRING_ERR_FRAME;
    if (status != WRING_OK)
        return lose_parent(rendezvous, status, exchange->patience);
    status = hand_down(rendezvous, up->body, up->frame.bytes, exchange->patience);
    if (status == WRING_OK)
        status = wring_rendezvous_unpack_result(size, up->body, up->frame.bytes, out);
    if (status == WRING_OK)
        up->body = NULL;
    else if (status == WRING_ERR_FRAME)
        status = lose_parent(rendezvous, status, exchange->patience);
    return status;
}

static enum wring_status exchange_rank(struct exchange *exchange, const void *blob, size_t bytes,
                                       struct wring_blobs *out)
{
    struct wring_rendezvous *rendezvous = exchange->rendezvous;
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_BLOB,
                                           .sequence = rendezvous->sequence,
                                           .rank = rendezvous->base.rank,
                                           .bytes = bytes};
    /* even if writing fails, the parent may have said why before it closed */
    write_frame(tree, tree->up.fd, &frame, blob, exchange->patience);
    enum wring_status status = WRING_ERR_AGAIN;
    while (status == WRING_ERR_AGAIN) {
        bool up;
        status = serve(exchange, &up);
        if (status == WRING_ERR_TIMEOUT)
            status = lose_parent(rendezvous, status, exchange->patience);
        else if (status == WRING_OK)
            status = up ? hear_parent(exchange, out) : WRING_ERR_AGAIN;
    }
    drop_frame(&tree->up);
    return status;
}

enum wring_status wring_rendezvous_tree_exchange(struct wring_rendezvous *rendezvous,
                                                 const void *blob, size_t bytes,
                                                 const struct wring_patience *patience,
                                                 struct wring_blobs *out)
{
    struct exchange exchange = {.rendezvous = rendezvous, .patience = patience};
    return rendezvous->base.rank == 0 ? exchange_root(&exchange, blob, bytes, out)
                                      : exchange_rank(&exchange, blob, bytes, out);
}

/* ---- between exchanges ---- */

/** Has it closed, or is what it says a failure? Contributions to the next exchange stay where they
 *  are. @return WRING_ERR_PEER; WRING_OK: a failure is in its frame; WRING_ERR_AGAIN: neither */
static enum wring_status peek(struct wring_rendezvous_tree *tree, struct stream *stream)
{
    uint8_t head[FRAME];
    struct wring_rendezvous_frame frame;
    struct pollfd pollfd = {stream->fd, POLLIN | POLLRDHUP, 0};
    struct wring_patience brief = {wring_now_ns() + WRING_NS_PER_S, NULL};

    if (stream->fd < 0 || poll(&pollfd, 1, 0) <= 0)
        return WRING_ERR_AGAIN;
    ssize_t got = has_head(stream) || stream->got > 0
                      ? -1
                      : recv(stream->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
    if (got == (ssize_t)sizeof(head) && wring_rendezvous_parse(head, &frame) &&
        frame.kind == WRING_RENDEZVOUS_FAILURE)
        return await_frame(tree, stream, WRING_RENDEZVOUS_TEXT - 1, &brief);
    return (pollfd.revents & WRING_RENDEZVOUS_GONE) != 0 ? WRING_ERR_PEER : WRING_ERR_AGAIN;
}

static enum wring_status check_child(struct wring_rendezvous *rendezvous, struct stream *child)
{
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    struct wring_patience brief = {wring_now_ns() + WRING_NS_PER_S, NULL};
    enum wring_status status = peek(tree, child);
    uint32_t rank = child->rank;

    if (status == WRING_ERR_AGAIN)
        return WRING_OK;
    if (status != WRING_OK) {
        close_stream(child);
        return report_failure(rendezvous, WRING_ERR_PEER, rank,
                              "ended while ranks connected to each other");
    }
    if (rendezvous->base.rank == 0)
        status = pass_failure(rendezvous, &child->frame, (char *)child->body);
    else
        write_frame(tree, tree->up.fd, &child->frame, child->body, &brief);
    drop_frame(child);
    return status;
}

enum wring_status wring_rendezvous_tree_check(struct wring_rendezvous *rendezvous)
{
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    struct wring_patience brief = {wring_now_ns() + WRING_NS_PER_S, NULL};
    for (uint32_t i = 0; i < tree->n; i++) {
        enum wring_status status = check_child(rendezvous, &tree->down[i]);
        if (status != WRING_OK)
            return status;
    }
    if (rendezvous->base.rank == 0)
        return WRING_OK;
    enum wring_status status = peek(tree, &tree->up);
    if (status == WRING_ERR_AGAIN)
        return WRING_OK;
    if (status == WRING_OK)
        status = pass_failure(rendezvous, &tree->up.frame, (char *)tree->up.body);
    else
        status = lose_parent(rendezvous, status, &brief);
    drop_frame(&tree->up);
    return status;
}
