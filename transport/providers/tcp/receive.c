/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Receiving. Payload is received where it belongs. While frames are small, one call reads several
 * of them ahead into a buffer; while they are large, no more than the next header and a message,
 * which may be small.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "transport/providers/tcp/tcp.h"

/** n bytes of the payload have come, and lie at `from`. */
static void advance(struct tcp_conn *conn, const uint8_t *from, size_t n)
{
    struct tcp_receiver *receiver = &conn->receiver;
    if (receiver->frame.checked)
        receiver->crc = wring_crc32c_update(&tcp_of(conn)->crc, receiver->crc, from, n);
    if (receiver->target != NULL)
        receiver->target += n;
    receiver->left -= n;
}

/** Move buffered bytes to the payload's place. */
static void take_buffered(struct tcp_conn *conn)
{
    struct tcp_receiver *receiver = &conn->receiver;
    size_t have = receiver->end - receiver->at;
    size_t take = have < receiver->left ? have : receiver->left;
    if (take == 0)
        return;
    if (receiver->target != NULL)
        memcpy(receiver->target, receiver->buffer + receiver->at, take);
    advance(conn, receiver->buffer + receiver->at, take);
    receiver->at += take;
}

/** Where the payload of a put goes. @return false: to no place of ours, and the connection ends */
static bool find_target(struct tcp_conn *conn)
{
    struct tcp_receiver *receiver = &conn->receiver;
    const struct tcp_frame *frame = &receiver->frame;

    receiver->region = wring_tcp_region_find(tcp_of(conn), frame);
    receiver->target = NULL;
    if (receiver->region == NULL && wring_tcp_region_is_revoked(tcp_of(conn), frame))
        return true;
    if (receiver->region == NULL) {
        wring_tcp_fail(conn, WRING_ERR_FRAME,
                       "put %u bytes at %llu of region %u, generation %u, which has no such "
                       "place or is gone",
                       frame->bytes, (unsigned long long)frame->offset, frame->region,
                       frame->generation);
        return false;
    }
    receiver->target = (uint8_t *)receiver->region->base.base + frame->offset;
    return true;
}

static void begin_frame(struct tcp_conn *conn)
{
    struct tcp_receiver *receiver = &conn->receiver;
    struct tcp_frame *frame = &receiver->frame;

    const struct tcp_provider *provider = tcp_of(conn);
    const char *wrong = wring_tcp_frame_unpack(receiver->buffer + receiver->at, &provider->crc,
                                               provider->checks, frame);
    if (wrong != NULL) {
        wring_tcp_fail(conn, WRING_ERR_FRAME, "%s", wrong);
        return;
    }
    receiver->at += frame->checked ? TCP_HEADER_MAX : TCP_FRAME_BYTES;
    receiver->crc = 0;
    receiver->region = NULL;
    receiver->target = receiver->message;
    if (frame->kind == TCP_FRAME_PUT && !find_target(conn))
        return;
    receiver->left = frame->bytes;
    receiver->padding = tcp_padding(frame->bytes);
    receiver->large = frame->bytes > TCP_SMALL_BYTES;
    receiver->in_frame = true;
}

static bool deliver_message(struct tcp_conn *conn, struct tcp_events *events)
{
    if (events->messages == TCP_MESSAGES_PER_POLL)
        return false;
    struct wring_event *event = wring_tcp_event(events, WRING_EVENT_MESSAGE, conn);
    if (event == NULL)
        return false;
    uint8_t *copy = tcp_of(conn)->messages[events->messages++];
    event->bytes = conn->receiver.frame.bytes;
    event->data = memcpy(copy, conn->receiver.message, event->bytes);
    return true;
}

static bool deliver_put(struct tcp_conn *conn, struct tcp_events *events)
{
    struct wring_event *event = wring_tcp_event(events, WRING_EVENT_ARRIVED, conn);
    if (event == NULL)
        return false;
    event->imm = conn->receiver.frame.imm;
    event->bytes = conn->receiver.frame.bytes;
    return true;
}

/** The payload is whole: is it what was sent? */
static bool payload_is_right(struct tcp_conn *conn)
{
    const struct tcp_receiver *receiver = &conn->receiver;
    if (!receiver->frame.checked || receiver->crc == receiver->frame.payload_crc)
        return true;
    wring_tcp_fail(conn, WRING_ERR_FRAME,
                   "sent %u bytes that were damaged on the way (their CRC32C is wrong): look for a "
                   "faulty link, switch or memory between here and there",
                   receiver->frame.bytes);
    return false;
}

/** The frame is whole: tell. @return false where there is no room for the event now */
static bool deliver(struct tcp_conn *conn, struct tcp_events *events)
{
    bool told = conn->receiver.frame.kind == TCP_FRAME_PUT ? deliver_put(conn, events)
                                                           : deliver_message(conn, events);
    conn->receiver.blocked = !told;
    conn->receiver.in_frame = !told;
    return told;
}

/** Does what comes next lie in its place, and not in the buffer? */
static bool is_in_place(const struct tcp_receiver *receiver)
{
    return receiver->in_frame && receiver->target != NULL;
}

/** Where the next bytes go: the payload's place, then the buffer. @return pieces used */
static int place_next(struct tcp_receiver *receiver, size_t share, struct iovec pieces[2])
{
    size_t have = receiver->end - receiver->at;
    bool dropped = receiver->in_frame && receiver->target == NULL;
    size_t ahead = receiver->large && !dropped ? TCP_PEEK_BYTES : TCP_RECEIVE_BYTES;

    memmove(receiver->buffer, receiver->buffer + receiver->at, have); /* less than a header */
    receiver->at = 0;
    receiver->end = have;
    if (!is_in_place(receiver)) {
        pieces[0] = (struct iovec){receiver->buffer + have, ahead - have};
        return 1;
    }
    pieces[0] = (struct iovec){receiver->target, receiver->left};
    pieces[1] = (struct iovec){receiver->buffer, ahead};
    if (receiver->left <= share)
        return 2;
    pieces[0].iov_len = share;
    return 1;
}

/** n bytes have come to where place_next() said. */
static void account(struct tcp_conn *conn, size_t n)
{
    struct tcp_receiver *receiver = &conn->receiver;
    size_t payload = n > receiver->left ? receiver->left : n;
    if (is_in_place(receiver)) {
        advance(conn, receiver->target, payload);
        n -= payload;
    }
    receiver->end += n;
}

/** One read. @return bytes read; 0 when there is nothing now, or the connection has failed */
static size_t read_more(struct tcp_conn *conn, size_t share)
{
    struct tcp_receiver *receiver = &conn->receiver;
    struct iovec pieces[2];
    int count = place_next(receiver, share, pieces);
    size_t asked = pieces[0].iov_len + (count == 2 ? pieces[1].iov_len : 0);
    ssize_t n = readv(conn->fd, pieces, count);

    if (n > 0) {
        account(conn, (size_t)n);
        /* less than asked for means that nothing is left, unless the end was announced */
        conn->readable = (size_t)n == asked || conn->hung_up;
        return (size_t)n;
    }
    if (n == 0)
        wring_tcp_fail(conn, WRING_ERR_PEER, "closed the connection%s",
                       receiver->in_frame || receiver->end > 0 ? " in the middle of a frame" : "");
    else if (errno == EAGAIN && conn->sender.broken)
        wring_tcp_fail(conn, WRING_ERR_PEER, "takes no more bytes");
    else if (errno == EAGAIN)
        conn->readable = false;
    else if (errno != EINTR)
        wring_tcp_fail(conn, WRING_ERR_PEER, "connection lost: %s", strerrordesc_np(errno));
    return 0;
}

/** Padding is not looked at. */
static void skip_padding(struct tcp_receiver *receiver)
{
    size_t have = receiver->end - receiver->at;
    size_t skip = have < receiver->padding ? have : receiver->padding;
    receiver->at += skip;
    receiver->padding -= skip;
}

static bool has_header(struct tcp_receiver *receiver)
{
    skip_padding(receiver);
    size_t have = receiver->end - receiver->at;
    return have >= wring_tcp_frame_header_bytes(receiver->buffer + receiver->at, have);
}

void wring_tcp_receive(struct tcp_conn *conn, struct tcp_events *events)
{
    struct tcp_receiver *receiver = &conn->receiver;
    size_t share = TCP_SHARE_BYTES;

    while (conn->state == TCP_OPEN) {
        if (receiver->in_frame) {
            take_buffered(conn);
            if (receiver->left == 0) {
                if (!payload_is_right(conn) || !deliver(conn, events))
                    return;
                continue;
            }
        } else if (has_header(receiver)) {
            begin_frame(conn);
            continue;
        }
        if (!conn->readable || share == 0)
            return;
        size_t n = read_more(conn, share);
        share -= n < share ? n : share;
        if (n == 0)
            return;
    }
}
