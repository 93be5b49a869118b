/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/bootstrap/rendezvous_tree.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/bootstrap/rendezvous_tree_private.h"

#define WRING_MODULE "rendezvous"

struct wring_rendezvous_children wring_rendezvous_children(uint32_t rank, uint32_t size)
{
    uint64_t first = (uint64_t)rank * WRING_RENDEZVOUS_FAN + 1;
    if (first >= size)
        return (struct wring_rendezvous_children){size, 0};
    uint64_t n = size - first;
    return (struct wring_rendezvous_children){
        (uint32_t)first, n < WRING_RENDEZVOUS_FAN ? (uint32_t)n : WRING_RENDEZVOUS_FAN};
}

uint32_t wring_rendezvous_streams(uint32_t size)
{
    return size <= WRING_RENDEZVOUS_DIRECT ? size - 1 : WRING_RENDEZVOUS_FAN + 1;
}

/* ---- frames ---- */

enum wring_status wring_rendezvous_tree_write(struct wring_rendezvous_tree *tree, int fd,
                                              const struct wring_rendezvous_frame *frame,
                                              const void *body,
                                              const struct wring_patience *patience)
{
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    wring_rendezvous_pack(frame, head);
    enum wring_status status = wring_stream_write(fd, head, sizeof(head), patience);
    if (status == WRING_OK)
        status = wring_stream_write(fd, body, frame->bytes, patience);
    tree->traffic.frames_sent++;
    tree->traffic.bytes_sent += sizeof(head) + frame->bytes;
    return status;
}

/** @param most  bytes of a body. Errors: WRING_ERR_FRAME, WRING_ERR_NO_MEMORY. */
static enum wring_status begin_body(struct wring_rendezvous_stream *stream, uint64_t most)
{
    if (!wring_rendezvous_parse(stream->head, &stream->frame) || stream->frame.bytes > most)
        return WRING_ERR_FRAME;
    stream->body = malloc(stream->frame.bytes + 1);
    return stream->body != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

enum wring_status wring_rendezvous_tree_read(struct wring_rendezvous_tree *tree,
                                             struct wring_rendezvous_stream *stream, uint64_t most)
{
    while (!wring_rendezvous_stream_has_frame(stream)) {
        bool in_head = !wring_rendezvous_stream_has_head(stream);
        uint8_t *at = in_head ? stream->head + stream->got
                              : stream->body + (stream->got - WRING_RENDEZVOUS_FRAME_BYTES);
        uint64_t want = in_head ? WRING_RENDEZVOUS_FRAME_BYTES - stream->got
                                : WRING_RENDEZVOUS_FRAME_BYTES + stream->frame.bytes - stream->got;
        ssize_t got = recv(stream->fd, at, want, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return WRING_ERR_AGAIN;
        if (got <= 0)
            return WRING_ERR_PEER;
        stream->got += (uint64_t)got;
        enum wring_status status = WRING_OK;
        if (in_head && wring_rendezvous_stream_has_head(stream))
            status = begin_body(stream, most);
        if (status != WRING_OK)
            return status;
    }
    tree->traffic.frames_received++;
    tree->traffic.bytes_received += stream->got;
    return WRING_OK;
}

/** Wait for a whole frame. Errors: of wring_rendezvous_tree_read() and wring_stream_poll(). */
static enum wring_status await_frame(struct wring_rendezvous_tree *tree,
                                     struct wring_rendezvous_stream *stream, uint64_t most,
                                     const struct wring_patience *patience)
{
    enum wring_status status;
    while ((status = wring_rendezvous_tree_read(tree, stream, most)) == WRING_ERR_AGAIN) {
        struct pollfd pollfd = {stream->fd, POLLIN, 0};
        status = wring_stream_poll(&pollfd, 1, patience);
        if (status != WRING_OK)
            return status;
    }
    return status;
}

static void close_stream(struct wring_rendezvous_stream *stream)
{
    wring_rendezvous_stream_drop(stream);
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
            wring_rendezvous_tree_write(tree, tree->down[i].fd, failure, text, &brief);
}

enum wring_status wring_rendezvous_tree_fail(struct wring_rendezvous *rendezvous,
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
        return wring_rendezvous_tree_fail(rendezvous, &frame, text);
    wring_rendezvous_tree_write(tree, tree->up.fd, &frame, text,
                                &brief); /* lost where nobody is there any more */
    return WRING_OK;
}

enum wring_status wring_rendezvous_tree_lose_parent(struct wring_rendezvous *rendezvous,
                                                    enum wring_status status,
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
    return wring_rendezvous_tree_fail(rendezvous, &frame, text);
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
        rank = wring_rendezvous_parent(rank);
    return rank == top;
}

/** A contribution has come from below: rank 0 keeps it, others pass it on. */
static enum wring_status take_blob(struct exchange *exchange, struct wring_rendezvous_stream *from)
{
    struct wring_rendezvous *rendezvous = exchange->rendezvous;
    struct wring_rendezvous_tree *tree = rendezvous->tree;
    uint32_t rank = from->frame.rank;

    if (from->frame.sequence != rendezvous->sequence || rank >= rendezvous->base.size ||
        !is_below(rank, from->rank))
        return WRING_ERR_FRAME;
    if (exchange->blobs == NULL)
        return wring_rendezvous_tree_write(tree, tree->up.fd, &from->frame, from->body,
                                           exchange->patience) == WRING_ERR_CLOSED
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
static enum wring_status hear_child(struct exchange *exchange,
                                    struct wring_rendezvous_stream *child)
{
    struct wring_rendezvous *rendezvous = exchange->rendezvous;
    for (;;) {
        enum wring_status status =
            wring_rendezvous_tree_read(rendezvous->tree, child, WRING_BLOB_MAX);
        if (status == WRING_ERR_AGAIN)
            return WRING_OK;
        if (status == WRING_OK && child->frame.kind == WRING_RENDEZVOUS_FAILURE &&
            child->frame.bytes < WRING_RENDEZVOUS_TEXT && rendezvous->base.rank == 0)
            return wring_rendezvous_tree_fail(rendezvous, &child->frame, (char *)child->body);
        if (status == WRING_OK && child->frame.kind == WRING_RENDEZVOUS_FAILURE)
            wring_rendezvous_tree_write(rendezvous->tree, rendezvous->tree->up.fd, &child->frame,
                                        child->body, exchange->patience);
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
        wring_rendezvous_stream_drop(child);
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
    return wring_rendezvous_tree_fail(rendezvous, &frame, text);
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
            status = wring_rendezvous_tree_write(tree, tree->down[i].fd, &frame, body, patience);
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
    struct wring_rendezvous_stream *up = &rendezvous->tree->up;
    uint32_t size = rendezvous->base.size;
    enum wring_status status = wring_rendezvous_tree_read(
        rendezvous->tree, up, (uint64_t)size * (WRING_BLOB_MAX + sizeof(uint64_t)));
    if (status == WRING_ERR_AGAIN)
        return status;
    if (status == WRING_OK && up->frame.kind == WRING_RENDEZVOUS_FAILURE &&
        up->frame.bytes < WRING_RENDEZVOUS_TEXT)
        return wring_rendezvous_tree_fail(rendezvous, &up->frame, (char *)up->body);
    if (status == WRING_OK &&
        (up->frame.kind != WRING_RENDEZVOUS_RESULT || up->frame.sequence != rendezvous->sequence))
        status = WRING_ERR_FRAME;
    if (status != WRING_OK)
        return wring_rendezvous_tree_lose_parent(rendezvous, status, exchange->patience);
    status = hand_down(rendezvous, up->body, up->frame.bytes, exchange->patience);
    if (status == WRING_OK)
        status = wring_rendezvous_unpack_result(size, up->body, up->frame.bytes, out);
    if (status == WRING_OK)
        up->body = NULL;
    else if (status == WRING_ERR_FRAME)
        status = wring_rendezvous_tree_lose_parent(rendezvous, status, exchange->patience);
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
    wring_rendezvous_tree_write(tree, tree->up.fd, &frame, blob, exchange->patience);
    enum wring_status status = WRING_ERR_AGAIN;
    while (status == WRING_ERR_AGAIN) {
        bool up;
        status = serve(exchange, &up);
        if (status == WRING_ERR_TIMEOUT)
            status = wring_rendezvous_tree_lose_parent(rendezvous, status, exchange->patience);
        else if (status == WRING_OK)
            status = up ? hear_parent(exchange, out) : WRING_ERR_AGAIN;
    }
    wring_rendezvous_stream_drop(&tree->up);
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
static enum wring_status peek(struct wring_rendezvous_tree *tree,
                              struct wring_rendezvous_stream *stream)
{
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;
    struct pollfd pollfd = {stream->fd, POLLIN | POLLRDHUP, 0};
    struct wring_patience brief = {wring_now_ns() + WRING_NS_PER_S, NULL};

    if (stream->fd < 0 || poll(&pollfd, 1, 0) <= 0)
        return WRING_ERR_AGAIN;
    ssize_t got = wring_rendezvous_stream_has_head(stream) || stream->got > 0
                      ? -1
                      : recv(stream->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
    if (got == (ssize_t)sizeof(head) && wring_rendezvous_parse(head, &frame) &&
        frame.kind == WRING_RENDEZVOUS_FAILURE)
        return await_frame(tree, stream, WRING_RENDEZVOUS_TEXT - 1, &brief);
    return (pollfd.revents & WRING_RENDEZVOUS_GONE) != 0 ? WRING_ERR_PEER : WRING_ERR_AGAIN;
}

static enum wring_status check_child(struct wring_rendezvous *rendezvous,
                                     struct wring_rendezvous_stream *child)
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
        status = wring_rendezvous_tree_fail(rendezvous, &child->frame, (char *)child->body);
    else
        wring_rendezvous_tree_write(tree, tree->up.fd, &child->frame, child->body, &brief);
    wring_rendezvous_stream_drop(child);
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
        status = wring_rendezvous_tree_fail(rendezvous, &tree->up.frame, (char *)tree->up.body);
    else
        status = wring_rendezvous_tree_lose_parent(rendezvous, status, &brief);
    wring_rendezvous_stream_drop(&tree->up);
    return status;
}
