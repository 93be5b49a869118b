/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0's side of an exchange: collect from all, hand out to all. */
#include "transport/bootstrap/rendezvous_private.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"

#define WRING_MODULE "rendezvous"

/** What one rank has sent so far. */
struct contribution {
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;
    uint8_t *body;
    uint64_t got; /* bytes, head included */
    bool complete;
};

static void send_frame(int fd, struct wring_rendezvous_frame frame, const char *text)
{
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_patience patience = {wring_now_ns() + WRING_NS_PER_S, NULL};

    frame.bytes = strlen(text);
    wring_rendezvous_pack(&frame, head);
    if (wring_stream_write(fd, head, sizeof(head), &patience) == WRING_OK)
        wring_stream_write(fd, text, frame.bytes, &patience);
}

void wring_rendezvous_send_failure(int fd, enum wring_status status, uint32_t rank,
                                   const char *text)
{
    send_frame(fd,
               (struct wring_rendezvous_frame){
                   .kind = WRING_RENDEZVOUS_FAILURE, .status = (uint32_t)status, .rank = rank},
               text);
}

void wring_rendezvous_send_admitted(int fd)
{
    send_frame(fd, (struct wring_rendezvous_frame){.kind = WRING_RENDEZVOUS_ADMITTED}, "");
}

void wring_rendezvous_tell_failure(struct wring_rendezvous *rendezvous, enum wring_status status,
                                   uint32_t rank, const char *text)
{
    rendezvous->base.at_fault = (int32_t)rank;
    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (rendezvous->fds[i] >= 0)
            wring_rendezvous_send_failure(rendezvous->fds[i], status, rank, text);
}

static enum wring_status fail(struct wring_rendezvous *rendezvous, enum wring_status status,
                              uint32_t rank, const char *what)
{
    char text[WRING_RENDEZVOUS_TEXT];
    snprintf(text, sizeof(text), "rank %" PRIu32 " %s", rank, what);
    wring_error(rendezvous->log, "%s", text);
    wring_rendezvous_tell_failure(rendezvous, status, rank, text);
    return status;
}

enum wring_status wring_rendezvous_find_lost(struct wring_rendezvous *rendezvous)
{
    for (uint32_t i = 1; i < rendezvous->base.size; i++) {
        struct pollfd pollfd = {rendezvous->fds[i], POLLRDHUP, 0};
        if (poll(&pollfd, 1, 0) > 0 && (pollfd.revents & WRING_RENDEZVOUS_GONE) != 0)
            return fail(rendezvous, WRING_ERR_PEER, i, "ended while ranks connected to each other");
    }
    return WRING_OK;
}

/** Read what there is. Errors: PEER (closed), FRAME, NO_MEMORY. */
static enum wring_status read_some(struct wring_rendezvous *rendezvous, int fd,
                                   struct contribution *from)
{
    while (!from->complete) {
        bool in_head = from->got < sizeof(from->head);
        uint8_t *at =
            in_head ? from->head + from->got : from->body + (from->got - sizeof(from->head));
        uint64_t want = sizeof(from->head) + (in_head ? 0 : from->frame.bytes) - from->got;
        ssize_t got = want > 0 ? recv(fd, at, want, MSG_DONTWAIT) : 0;
        if (got == 0 && want > 0)
            return WRING_ERR_PEER;
        if (got < 0)
            return errno == EAGAIN || errno == EINTR ? WRING_OK : WRING_ERR_PEER;
        from->got += (uint64_t)got;
        if (in_head && from->got == sizeof(from->head)) {
            if (!wring_rendezvous_parse(from->head, &from->frame) ||
                from->frame.kind != WRING_RENDEZVOUS_BLOB || from->frame.bytes > WRING_BLOB_MAX ||
                from->frame.sequence != rendezvous->sequence)
                return WRING_ERR_FRAME;
            from->body = malloc(from->frame.bytes + 1);
            if (from->body == NULL)
                return WRING_ERR_NO_MEMORY;
        }
        from->complete = from->got == sizeof(from->head) + from->frame.bytes && from->body != NULL;
    }
    return WRING_OK;
}

/** Someone did not contribute in time: who? */
static enum wring_status fail_late(struct wring_rendezvous *rendezvous,
                                   const struct contribution *from)
{
    struct wring_rendezvous_names late = {0};
    char text[WRING_RENDEZVOUS_TEXT];

    for (uint32_t i = 1; i < rendezvous->base.size; i++)
        if (!from[i].complete)
            wring_rendezvous_name(&late, i);
    snprintf(text, sizeof(text),
             "%s did not take part in opening, committing or making a group in time "
             "(WRING_JOIN_TIMEOUT)",
             wring_rendezvous_named(&late));
    wring_error(rendezvous->log, "%s", text);
    wring_rendezvous_tell_failure(rendezvous, WRING_ERR_PEER, late.first, text);
    return WRING_ERR_PEER;
}

/** Take what has come from rank i. @param pollfd in: of the last wait; out: for the next */
static enum wring_status collect_from(struct wring_rendezvous *rendezvous, uint32_t i,
                                      struct contribution *from, struct pollfd *pollfd,
                                      const struct wring_patience *patience)
{
    enum wring_status status = read_some(rendezvous, rendezvous->fds[i], from);
    bool left = from->complete && (pollfd->revents & WRING_RENDEZVOUS_GONE) != 0;
    left |= status == WRING_ERR_PEER;
    if (left && wring_stream_called_off(patience))
        return WRING_ERR_CLOSED;
    if (left)
        return fail(rendezvous, WRING_ERR_PEER, i,
                    "ended, or closed its session, while the others "
                    "were opening, committing or making a group");
    if (status != WRING_OK)
        return fail(rendezvous, status, i, "sent malformed bytes to the rendezvous");
    *pollfd = (struct pollfd){rendezvous->fds[i], from->complete ? POLLRDHUP : POLLIN, 0};
    return WRING_OK;
}

/** @param fds  [size], for waiting */
static enum wring_status collect(struct wring_rendezvous *rendezvous, struct contribution *from,
                                 struct pollfd *fds, const struct wring_patience *patience)
{
    uint32_t size = rendezvous->base.size;
    for (;;) {
        bool waiting = false;
        for (uint32_t i = 1; i < size; i++) {
            enum wring_status status = collect_from(rendezvous, i, &from[i], &fds[i], patience);
            if (status != WRING_OK)
                return status;
            waiting |= !from[i].complete;
        }
        if (!waiting)
            return WRING_OK;
        enum wring_status status = wring_stream_poll(fds + 1, size - 1, patience);
        if (status == WRING_ERR_TIMEOUT)
            return fail_late(rendezvous, from);
        if (status != WRING_OK)
            return status;
    }
}

/** All blobs in rank order, both as the result frame and as our own copy. */
static enum wring_status hand_out(struct wring_rendezvous *rendezvous,
                                  const struct contribution *from, const void *blob, size_t bytes,
                                  const struct wring_patience *patience, struct wring_blobs *out)
{
    uint32_t size = rendezvous->base.size;
    struct wring_writer message = {0};
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES] = {0};
    struct wring_blobs blobs = {size, calloc(size + 1, sizeof(size_t)), NULL};
    struct wring_writer own = {0};

    wring_write(&message, head, sizeof(head));
    for (uint32_t i = 0; i < size && blobs.offsets != NULL; i++) {
        const void *data = i == 0 ? blob : from[i].body;
        size_t n = i == 0 ? bytes : from[i].frame.bytes;
        wring_write_u64(&message, n);
        wring_write(&message, data, n);
        wring_write(&own, data, n);
        blobs.offsets[i + 1] = own.bytes;
    }
    wring_write(&own, "", 1); /* never empty */
    blobs.storage = own.data;
    if (message.failed || own.failed || blobs.offsets == NULL) {
        free(message.data);
        wring_blobs_finish(&blobs);
        return WRING_ERR_NO_MEMORY;
    }
    struct wring_rendezvous_frame frame = {.kind = WRING_RENDEZVOUS_RESULT,
                                           .sequence = rendezvous->sequence,
                                           .bytes = message.bytes - sizeof(head)};
    wring_rendezvous_pack(&frame, message.data);
    enum wring_status status = WRING_OK;
    for (uint32_t i = 1; i < size && status == WRING_OK; i++) {
        status = wring_stream_write(rendezvous->fds[i], message.data, message.bytes, patience);
        if (status == WRING_ERR_PEER && wring_stream_called_off(patience))
            status = WRING_ERR_CLOSED;
        else if (status == WRING_ERR_PEER || status == WRING_ERR_TIMEOUT)
            status = fail(rendezvous, WRING_ERR_PEER, i, "stopped listening to the rendezvous");
    }
    free(message.data);
    if (status != WRING_OK)
        wring_blobs_finish(&blobs);
    else
        *out = blobs;
    return status;
}

enum wring_status wring_rendezvous_gather(struct wring_rendezvous *rendezvous, const void *blob,
                                          size_t bytes, const struct wring_patience *patience,
                                          struct wring_blobs *out)
{
    uint32_t size = rendezvous->base.size;
    struct contribution *from = calloc(size, sizeof(*from));
    struct pollfd *fds = calloc(size, sizeof(*fds));
    enum wring_status status = WRING_ERR_NO_MEMORY;

    if (from != NULL && fds != NULL)
        status = collect(rendezvous, from, fds, patience);
    if (status == WRING_OK)
        status = hand_out(rendezvous, from, blob, bytes, patience, out);
    for (uint32_t i = 0; from != NULL && i < size; i++)
        free(from[i].body);
    free(from);
    free(fds);
    return status;
}
