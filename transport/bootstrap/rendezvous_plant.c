/* SPDX-License-Identifier: Apache-2.0 */
/* How the tree comes to stand. rendezvous_tree.c is what it does then. */
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
#include "transport/bootstrap/rendezvous_tree.h"
#include "transport/bootstrap/rendezvous_tree_private.h"
#include "transport/door.h"

#define WRING_MODULE "rendezvous"
#define EVENTS 64                         /* of one look */
#define GUESTS 16                         /* that have not proven anything yet */
#define HANDSHAKE_NS (5 * WRING_NS_PER_S) /* the time that such a one has */
#define RETRY_NS (20 * WRING_NS_PER_MS)   /* between two tries to reach the parent */
#define VERDICT_NS (10 * WRING_NS_PER_S)  /* for rank 0 to say what a loss means */
#define PLACE_BYTES 24                    /* port, family, address */

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

/* ---- where children come in ---- */

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

/* ---- rank 0 ---- */

struct planter {
    struct wring_rendezvous *rendezvous;
    const struct wring_patience *patience;
    struct wring_rendezvous_stream *ranks; /* [size], of fds as they were when all had joined */
    struct place *places;                  /* [size] */
    int epoll;                             /* those that are awaited */
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
        if (!wring_rendezvous_stream_has_frame(&planter->ranks[i]))
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
    struct wring_rendezvous_stream *stream = &planter->ranks[i];
    enum wring_status status =
        wring_rendezvous_tree_read(planter->rendezvous->tree, stream, WRING_RENDEZVOUS_TEXT - 1);
    bool failed = status == WRING_OK && stream->frame.kind == WRING_RENDEZVOUS_FAILURE;
    if (status == WRING_ERR_AGAIN || (status == WRING_OK && stream->frame.kind == kind))
        return WRING_OK;
    if (failed && stream->frame.rank < planter->rendezvous->base.size) {
        const char *text = (char *)stream->body;
        wring_rendezvous_make_printable((char *)stream->body, stream->frame.bytes);
        status = wring_rendezvous_failure_status(&stream->frame);
        if (text[0] == '\0') /* it gives no reason */
            text = wring_status_text(status);
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
        struct wring_rendezvous_stream *stream = &planter->ranks[rank];
        enum wring_status status = hear_rank(planter, rank, kind);
        if (status != WRING_OK)
            return status;
        if (!wring_rendezvous_stream_has_frame(stream))
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
        wring_rendezvous_stream_drop(&planter->ranks[i]);
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
        struct wring_rendezvous_stream *stream = &planter->ranks[i];
        if (!unpack_place(stream->body, stream->frame.bytes, &planter->places[i]) ||
            (wring_rendezvous_children(i, size).n > 0) != (planter->places[i].port != 0))
            return fail_for(planter, i, WRING_ERR_FRAME, "sent malformed bytes to the rendezvous");
        find_address(stream->fd, &planter->places[i]);
    }
    for (uint32_t i = 1; i < size; i++) {
        uint8_t body[PLACE_BYTES];
        struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_PARENT,
                                               .rank = wring_rendezvous_parent(i),
                                               .bytes = sizeof(body)};
        pack_place(&planter->places[wring_rendezvous_parent(i)], body);
        enum wring_status status = wring_rendezvous_tree_write(
            planter->rendezvous->tree, planter->ranks[i].fd, &frame, body, planter->patience);
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
            tree->down[i - children.first] =
                (struct wring_rendezvous_stream){.fd = rendezvous->fds[i], .rank = i};
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
            planter.ranks[i] =
                (struct wring_rendezvous_stream){.fd = rendezvous->fds[i], .rank = i};
        status = hear_all(&planter, WRING_RENDEZVOUS_PLACE);
        if (status == WRING_OK)
            status = tell_places(&planter);
        if (status == WRING_OK)
            status = hear_all(&planter, WRING_RENDEZVOUS_PLANTED);
        for (uint32_t i = 1; i < size; i++)
            wring_rendezvous_stream_drop(&planter.ranks[i]);
    }
    free(planter.ranks);
    free(planter.places);
    wring_descriptor_close(planter.epoll);
    if (status == WRING_OK)
        keep_children(rendezvous);
    return status;
}

/* ---- the others ---- */

struct seedling {
    struct wring_rendezvous *rendezvous;
    const struct wring_patience *patience;
    const uint8_t *secret;
    int to_root, listen_fd;
    struct wring_door door;
    struct guest guests[GUESTS];
};

/** Our part of the tree will not come about. Rank 0 says so to all; no child has come yet. */
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
    wring_rendezvous_tree_write(rendezvous->tree, seedling->to_root, &frame, text, &brief);
    return status;
}

/** Rank 0 has something to say. @return WRING_OK: it is a frame of that kind, in up */
static enum wring_status hear_root(struct seedling *seedling, struct wring_rendezvous_stream *root,
                                   enum wring_rendezvous_kind kind)
{
    struct wring_rendezvous *rendezvous = seedling->rendezvous;
    enum wring_status status =
        wring_rendezvous_tree_read(rendezvous->tree, root, WRING_RENDEZVOUS_TEXT - 1);
    if (status == WRING_ERR_AGAIN)
        return status;
    if (status == WRING_OK && root->frame.kind == WRING_RENDEZVOUS_FAILURE)
        return wring_rendezvous_tree_fail(rendezvous, &root->frame, (char *)root->body);
    if (status == WRING_OK && root->frame.kind == kind)
        return WRING_OK;
    rendezvous->tree->up.rank = 0;
    return wring_rendezvous_tree_lose_parent(
        rendezvous, status == WRING_OK ? WRING_ERR_FRAME : status, seedling->patience);
}

/** Say where our children come in, and hear where our parent is. */
static enum wring_status find_parent(struct seedling *seedling, uint16_t port, struct place *out)
{
    struct wring_rendezvous *rendezvous = seedling->rendezvous;
    struct wring_rendezvous_stream root = {.fd = seedling->to_root};
    uint8_t body[PLACE_BYTES];
    struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_PLACE, .bytes = sizeof(body)};
    enum wring_status status;

    pack_place(&(struct place){.port = port}, body);
    wring_rendezvous_tree_write(rendezvous->tree, root.fd, &frame, body, seedling->patience);
    while ((status = hear_root(seedling, &root, WRING_RENDEZVOUS_PARENT)) == WRING_ERR_AGAIN) {
        struct pollfd pollfd = {root.fd, POLLIN, 0};
        status = wring_stream_poll(&pollfd, 1, seedling->patience);
        if (status != WRING_OK) {
            status = wring_rendezvous_tree_lose_parent(rendezvous, status, seedling->patience);
            break;
        }
    }
    if (status == WRING_OK && (root.frame.rank != wring_rendezvous_parent(rendezvous->base.rank) ||
                               !unpack_place(root.body, root.frame.bytes, out)))
        status = wring_rendezvous_tree_lose_parent(rendezvous, WRING_ERR_FRAME, seedling->patience);
    wring_rendezvous_stream_drop(&root);
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
    uint32_t parent = wring_rendezvous_parent(rendezvous->base.rank);
    struct wring_rendezvous_stream root = {.fd = seedling->to_root};
    char where[WRING_RENDEZVOUS_ENDPOINT_TEXT], text[WRING_RENDEZVOUS_TEXT];
    enum wring_status status = WRING_ERR_ADDRESS;

    tree->up = (struct wring_rendezvous_stream){.fd = -1, .rank = parent};
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
            wring_rendezvous_stream_drop(&root);
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
    rendezvous->tree->down[at] = (struct wring_rendezvous_stream){.fd = guest->fd, .rank = rank};
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
    struct wring_rendezvous_stream root = {.fd = seedling->to_root};
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
            return wring_rendezvous_tree_lose_parent(seedling->rendezvous, status,
                                                     seedling->patience);
        if (fds[1].revents != 0) {
            status = hear_root(seedling, &root, WRING_RENDEZVOUS_FAILURE);
            wring_rendezvous_stream_drop(&root);
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
        wring_rendezvous_tree_write(rendezvous->tree, seedling->to_root, &planted, "",
                                    seedling->patience);
    if (wring_rendezvous_parent(rendezvous->base.rank) == 0)
        rendezvous->tree->up = (struct wring_rendezvous_stream){.fd = seedling->to_root};
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
    if (status == WRING_OK && wring_rendezvous_parent(rendezvous->base.rank) != 0)
        status = join_parent(seedling, &parent);
    if (status == WRING_OK)
        status = admit_children(seedling);
    leave_root(seedling, status);
    explicit_bzero(seedling, sizeof(*seedling)); /* what is proven with a secret */
    free(seedling);
    return status;
}

/** Without any stream. @return NULL: no memory */
static struct wring_rendezvous_tree *create_tree(void)
{
    struct wring_rendezvous_tree *tree = calloc(1, sizeof(*tree));
    if (tree == NULL)
        return NULL;
    tree->up.fd = -1;
    for (unsigned i = 0; i < WRING_RENDEZVOUS_FAN; i++)
        tree->down[i].fd = -1;
    return tree;
}

enum wring_status wring_rendezvous_plant(struct wring_rendezvous *rendezvous,
                                         const struct wring_rendezvous_params *params,
                                         const uint8_t *secret)
{
    struct wring_patience patience = {params->deadline_ns, params->cancel};
    rendezvous->tree = create_tree();
    if (rendezvous->tree == NULL)
        return WRING_ERR_NO_MEMORY;
    if (rendezvous->base.rank == 0)
        return plant_root(rendezvous, &patience);
    if (patience.deadline_ns < WRING_NEVER - VERDICT_NS)
        patience.deadline_ns += VERDICT_NS; /* rank 0 knows who is late */
    return plant_rank(rendezvous, secret, &patience);
}
