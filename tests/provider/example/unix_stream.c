/* SPDX-License-Identifier: Apache-2.0 */
/** What goes over an open connection: frames, one after the other, each a header and its bytes. */
#include "tests/provider/example/unix.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

/** One sendmsg of what is left of a frame. @return as sendmsg does */
static ssize_t send_rest(const struct unix_conn *conn, struct unix_out *out)
{
    size_t size = sizeof(out->frame), at = conn->sent_bytes;
    size_t head = at < size ? at : size, skip = at - head;
    struct iovec pieces[2] = {
        {(uint8_t *)&out->frame + head, size - head},
        {(void *)((uintptr_t)out->data + skip), out->frame.bytes - skip},
    };
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    return sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void flush(struct unix_conn *conn)
{
    for (int i = 0; i < UNIX_STEPS && conn->sent != conn->queued && !conn->broken; i++) {
        struct unix_out *out = &conn->out[conn->sent % UNIX_SLOTS];
        ssize_t n = send_rest(conn, out);
        if (n < 0) {
            conn->broken = errno != EAGAIN && errno != EINTR;
            return;
        }
        conn->sent_bytes += (size_t)n;
        if (conn->sent_bytes == sizeof(out->frame) + out->frame.bytes) {
            conn->sent_bytes = 0;
            conn->sent++;
        }
    }
}

/** The kernel has copied what was sent: the sources are the caller's again. */
static void report_sent(struct unix_conn *conn, struct unix_events *events)
{
    for (; conn->reported != conn->sent && events->n < events->max; conn->reported++) {
        const struct unix_out *out = &conn->out[conn->reported % UNIX_SLOTS];
        if (out->frame.kind == UNIX_MESSAGE) {
            conn->messages--;
            continue;
        }
        conn->puts--;
        wring_unix_event(events, WRING_EVENT_PUT_DONE, conn)->cookie = out->cookie;
    }
}

/** Where the frame's bytes go; NULL when they have no right to go anywhere. */
static uint8_t *find_target(struct unix_conn *conn)
{
    struct unix_in *in = &conn->in;
    const struct unix_frame *frame = &in->frame;
    struct unix_region *region;

    if (frame->kind == UNIX_MESSAGE && frame->bytes >= 1 && frame->bytes <= WRING_SEND_MAX)
        return in->message;
    if (frame->kind != UNIX_PUT)
        return NULL;
    for (region = TAILQ_FIRST(&unix_of(conn)->regions); region != NULL;
         region = TAILQ_NEXT(region, link))
        if (region->id == frame->region && frame->offset <= region->base.bytes &&
            frame->bytes <= region->base.bytes - frame->offset) {
            in->region = region;
            return (uint8_t *)region->base.base + frame->offset;
        }
    return NULL;
}

void wring_unix_begin_frame(struct unix_conn *conn)
{
    struct unix_in *in = &conn->in;
    in->region = NULL;
    in->target = (uint8_t *)&in->frame;
    in->left = sizeof(in->frame);
    in->in_bytes = false;
}

/** The bytes are all there: tell, and begin with the next frame. */
static void deliver(struct unix_conn *conn, struct unix_events *events)
{
    bool is_put = conn->in.frame.kind == UNIX_PUT;
    uint8_t *copy = unix_of(conn)->messages[events->n];
    struct wring_event *event =
        wring_unix_event(events, is_put ? WRING_EVENT_ARRIVED : WRING_EVENT_MESSAGE, conn);

    event->imm = conn->in.frame.imm;
    event->bytes = conn->in.frame.bytes;
    if (!is_put)
        event->data = memcpy(copy, conn->in.message, event->bytes);
    wring_unix_begin_frame(conn);
}

/** One recv to where the frame goes on. @return false when there is nothing now, or never again */
static bool read_some(struct unix_conn *conn)
{
    struct unix_in *in = &conn->in;
    ssize_t n = recv(conn->fd, in->target, in->left, MSG_DONTWAIT);
    if (n > 0) {
        in->target += n;
        in->left -= (size_t)n;
        return true;
    }
    if (n == 0)
        wring_unix_fail(conn, WRING_ERR_PEER, "the peer closed the connection");
    else if (errno != EAGAIN && errno != EINTR)
        wring_unix_fail(conn, WRING_ERR_PEER, "connection lost: %s", strerrordesc_np(errno));
    else if (conn->broken)
        wring_unix_fail(conn, WRING_ERR_PEER, "the peer takes no more bytes");
    return false;
}

/** The header is complete: go on with the bytes, if it is sound. */
static void begin_bytes(struct unix_conn *conn)
{
    struct unix_in *in = &conn->in;
    in->target = find_target(conn);
    in->left = in->frame.bytes;
    in->in_bytes = true;
    if (in->target == NULL)
        wring_unix_fail(conn, WRING_ERR_FRAME, "the peer sent a frame that leads nowhere");
}

static void receive(struct unix_conn *conn, struct unix_events *events)
{
    struct unix_in *in = &conn->in;
    for (int i = 0; i < UNIX_STEPS && events->n < events->max; i++) {
        if (!read_some(conn))
            return;
        if (in->left == 0 && !in->in_bytes)
            begin_bytes(conn);
        if (conn->state != UNIX_OPEN)
            return;
        if (in->left == 0) /* also at once, where a put has no bytes: nothing would wake for it */
            deliver(conn, events);
    }
}

void wring_unix_exchange(struct unix_conn *conn, struct unix_events *events)
{
    flush(conn);
    report_sent(conn, events);
    receive(conn, events);
}

/** May something be queued now? */
static enum wring_status check_open(const struct unix_conn *conn)
{
    if (conn->state == UNIX_HANDSHAKE)
        return WRING_ERR_AGAIN;
    return conn->state == UNIX_OPEN && !conn->broken ? WRING_OK : WRING_ERR_CLOSED;
}

static bool lies_in(const struct wring_region *region, const void *local, size_t bytes)
{
    size_t at = (uintptr_t)local - (uintptr_t)region->base; /* huge where local lies before it */
    return at <= region->bytes && bytes <= region->bytes - at;
}

/** Differences, not sums: those of wild numbers wrap. */
static bool is_in_bounds(const struct wring_region *region, const void *local,
                         const struct wring_remote *remote, uint64_t offset, size_t bytes)
{
    if (offset > remote->bytes || bytes > remote->bytes - offset)
        return false;
    return region == NULL || bytes == 0 || lies_in(region, local, bytes);
}

enum wring_status wring_unix_put(struct wring_conn *base, struct wring_region *region,
                                 const void *local, struct wring_remote *remote,
                                 uint64_t remote_offset, size_t bytes, uint32_t imm,
                                 uint64_t cookie)
{
    struct unix_conn *conn = (struct unix_conn *)base;
    if (bytes > UNIX_PUT_MAX || remote->conn != base ||
        !is_in_bounds(region, local, remote, remote_offset, bytes))
        return WRING_ERR_INVALID;
    enum wring_status status = check_open(conn);
    if (status != WRING_OK)
        return status;
    if (conn->puts == UNIX_PUTS)
        return WRING_ERR_AGAIN;

    struct unix_out *out = &conn->out[conn->queued++ % UNIX_SLOTS];
    uint64_t id = ((struct unix_remote *)remote)->id;
    out->frame = (struct unix_frame){UNIX_PUT, imm, id, remote_offset, bytes};
    out->data = local;
    out->cookie = cookie;
    conn->puts++;
    return WRING_OK; /* the next poll sends it */
}

enum wring_status wring_unix_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct unix_conn *conn = (struct unix_conn *)base;
    if (bytes < 1 || bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    enum wring_status status = check_open(conn);
    if (status != WRING_OK)
        return status;
    if (conn->messages == UNIX_MESSAGES)
        return WRING_ERR_AGAIN;

    struct unix_out *out = &conn->out[conn->queued++ % UNIX_SLOTS];
    out->frame = (struct unix_frame){.kind = UNIX_MESSAGE, .bytes = bytes};
    out->data = memcpy(out->message, data, bytes);
    conn->messages++;
    flush(conn); /* now: the caller may disconnect right after its last words */
    return WRING_OK;
}
