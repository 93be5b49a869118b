/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Sending: puts straight from the caller's memory, control messages from a ring of copies.
 *
 * Frames leave in this order: the put that is half sent, control messages, the other puts. As a
 * control message can only be half sent while no put is, the order needs no further notes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/providers/tcp/tcp.h"

/* where the fields lie; all little-endian */
#define MAGIC_AT 0
#define KIND_AT 2
#define ZERO_AT 3
#define FLAGS_AT 4
#define REGION_AT 8
#define GENERATION_AT 12
#define OFFSET_AT 16
#define BYTES_AT 24
#define IMM_AT 28
#define PAYLOAD_CRC_AT 32
#define PART_AT 36
#define ZEROS_AT 40
#define HEADER_CRC_AT 60

#define FLAG_CHECKED 1u
#define FLAG_MORE 2u

size_t wring_tcp_frame_pack(const struct tcp_frame *frame, const struct wring_crc32c *crc,
                            uint8_t *out)
{
    out[MAGIC_AT] = TCP_FRAME_MAGIC & 0xFF;
    out[MAGIC_AT + 1] = TCP_FRAME_MAGIC >> 8;
    out[KIND_AT] = frame->kind;
    out[ZERO_AT] = 0;
    wring_put_u32(out + FLAGS_AT,
                  (frame->checked ? FLAG_CHECKED : 0) | (frame->more ? FLAG_MORE : 0));
    wring_put_u32(out + REGION_AT, frame->region);
    wring_put_u32(out + GENERATION_AT, frame->generation);
    wring_put_u64(out + OFFSET_AT, frame->offset);
    wring_put_u32(out + BYTES_AT, frame->bytes);
    wring_put_u32(out + IMM_AT, frame->imm);
    if (!frame->checked && frame->kind != TCP_FRAME_PART)
        return TCP_FRAME_BYTES;
    memset(out + PAYLOAD_CRC_AT, 0, TCP_HEADER_MAX - PAYLOAD_CRC_AT);
    wring_put_u32(out + PART_AT, frame->part);
    if (frame->checked) {
        wring_put_u32(out + PAYLOAD_CRC_AT, frame->payload_crc);
        wring_put_u32(out + HEADER_CRC_AT, wring_crc32c_update(crc, 0, out, HEADER_CRC_AT));
    }
    return TCP_HEADER_MAX;
}

static bool is_checked(const uint8_t *in)
{
    return in[ZERO_AT] == 0 && (wring_get_u32(in + FLAGS_AT) & FLAG_CHECKED) != 0;
}

/** Has it the header's second half? */
static bool is_long(const uint8_t *in)
{
    return is_checked(in) || in[KIND_AT] == TCP_FRAME_PART;
}

size_t wring_tcp_frame_header_bytes(const uint8_t *in, size_t have)
{
    return have >= REGION_AT && is_long(in) ? TCP_HEADER_MAX : TCP_FRAME_BYTES;
}

/** A frame has one form only. @param in a header */
static bool unused_are_zero(const uint8_t *in)
{
    static const uint8_t zeros[HEADER_CRC_AT - ZEROS_AT];
    bool part = in[KIND_AT] == TCP_FRAME_PART;
    uint32_t has = wring_get_u32(in + FLAGS_AT), flags = FLAG_CHECKED | (part ? FLAG_MORE : 0);

    if (in[ZERO_AT] != 0 || (has & ~flags) != 0)
        return false;
    if (has == 0 && !part)
        return true;
    return memcmp(in + ZEROS_AT, zeros, sizeof(zeros)) == 0 &&
           (part || wring_get_u32(in + PART_AT) == 0) &&
           (is_checked(in) ||
            (wring_get_u32(in + PAYLOAD_CRC_AT) == 0 && wring_get_u32(in + HEADER_CRC_AT) == 0));
}

/** Is the frame sound, as far as can be said without knowing any region? */
static bool is_frame_sound(const struct tcp_frame *frame)
{
    switch (frame->kind) {
    case TCP_FRAME_PUT:
    case TCP_FRAME_PART:
        return frame->bytes <= TCP_PUT_MAX;
    case TCP_FRAME_MESSAGE:
        return frame->bytes >= 1 && frame->bytes <= WRING_SEND_MAX && frame->region == 0 &&
               frame->generation == 0 && frame->offset == 0 && frame->imm == 0;
    default:
        return false;
    }
}

const char *wring_tcp_frame_unpack(const uint8_t *in, const struct wring_crc32c *crc,
                                   bool must_check, struct tcp_frame *out)
{
    struct tcp_frame frame = {
        .kind = in[KIND_AT],
        .region = wring_get_u32(in + REGION_AT),
        .generation = wring_get_u32(in + GENERATION_AT),
        .offset = wring_get_u64(in + OFFSET_AT),
        .bytes = wring_get_u32(in + BYTES_AT),
        .imm = wring_get_u32(in + IMM_AT),
        .checked = is_checked(in),
    };
    if (frame.kind == TCP_FRAME_PART) {
        frame.part = wring_get_u32(in + PART_AT);
        frame.more = (wring_get_u32(in + FLAGS_AT) & FLAG_MORE) != 0;
    }
    if (frame.checked) {
        frame.payload_crc = wring_get_u32(in + PAYLOAD_CRC_AT);
        if (wring_get_u32(in + HEADER_CRC_AT) != wring_crc32c_update(crc, 0, in, HEADER_CRC_AT))
            return "sent a frame whose header was damaged on the way (its CRC32C is wrong)";
    }
    if ((in[MAGIC_AT] | in[MAGIC_AT + 1] << 8) != TCP_FRAME_MAGIC || !unused_are_zero(in) ||
        !is_frame_sound(&frame))
        return "sent a malformed frame";
    if (must_check && !frame.checked)
        return "sent a frame without a checksum: set WRING_TCP_CHECKSUM=on on every rank";
    *out = frame;
    return NULL;
}

/* ---- send ---- */

#define PIECES 64 /* of one sendmsg */

struct gather {
    struct iovec pieces[PIECES];
    size_t n, room; /* room: bytes that may still go in this turn */
};

/** Add bytes [at, bytes) of a piece. @return false where the gathering is full */
static bool add_piece(struct gather *gather, const uint8_t *data, size_t bytes, size_t at)
{
    if (at >= bytes)
        return true;
    if (gather->n == PIECES || gather->room == 0)
        return false;
    size_t take = bytes - at < gather->room ? bytes - at : gather->room;
    gather->pieces[gather->n++] = (struct iovec){(void *)(uintptr_t)(data + at), take};
    gather->room -= take;
    return true;
}

/** A part of a frame, whose first *at bytes are gone; then less of the next part is. */
static bool add_part(struct gather *gather, const uint8_t *data, size_t bytes, size_t *at)
{
    size_t gone = *at < bytes ? *at : bytes;
    *at -= gone;
    return add_piece(gather, data, bytes, gone);
}

static bool add_put(struct gather *gather, const struct tcp_put *put, size_t at)
{
    static const uint8_t padding[TCP_FRAME_UNIT];
    size_t before = put->is_spoiled ? put->spoiled_at : put->bytes;
    bool more = add_part(gather, put->header, put->header_bytes, &at) &&
                add_part(gather, put->data, before, &at);
    if (more && put->is_spoiled)
        more = add_part(gather, &put->spoiled, 1, &at) &&
               add_part(gather, put->data + before + 1, put->bytes - before - 1, &at);
    return more && add_part(gather, padding, tcp_padding(put->bytes), &at);
}

static size_t frame_bytes(const struct tcp_put *put)
{
    return put->header_bytes + put->bytes + tcp_padding(put->bytes);
}

static void gather_frames(struct gather *gather, const struct tcp_sender *sender)
{
    uint32_t next = sender->put_sent;
    bool more = true;

    if (sender->put_at > 0)
        more = add_put(gather, &sender->puts[next++ % TCP_PUT_DEPTH], sender->put_at);

    size_t at = sender->control_at;
    for (uint32_t i = sender->control_sent; more && i != sender->control_head; i++, at = 0) {
        const struct tcp_control *control = &sender->controls[i % TCP_CONTROL_DEPTH];
        more = add_piece(gather, control->frame, control->bytes, at);
    }
    for (; more && next != sender->put_head; next++)
        more = add_put(gather, &sender->puts[next % TCP_PUT_DEPTH], 0);
}

/** n more bytes are gone; what of them belongs to later frames is returned. */
static size_t consume_put(struct tcp_sender *sender, size_t n)
{
    const struct tcp_put *put = &sender->puts[sender->put_sent % TCP_PUT_DEPTH];
    size_t left = frame_bytes(put) - sender->put_at;
    if (n < left) {
        sender->put_at += n;
        return 0;
    }
    sender->put_at = 0;
    sender->put_sent++;
    return n - left;
}

static size_t consume_control(struct tcp_sender *sender, size_t n)
{
    const struct tcp_control *control = &sender->controls[sender->control_sent % TCP_CONTROL_DEPTH];
    size_t left = control->bytes - sender->control_at;
    if (n < left) {
        sender->control_at += n;
        return 0;
    }
    sender->control_at = 0;
    sender->control_sent++;
    return n - left;
}

static void consume_sent(struct tcp_sender *sender, size_t n)
{
    sender->queued_bytes -= n;
    if (n > 0 && sender->put_at > 0)
        n = consume_put(sender, n);
    while (n > 0 && sender->control_sent != sender->control_head)
        n = consume_control(sender, n);
    while (n > 0)
        n = consume_put(sender, n);
}

bool wring_tcp_has_unsent(const struct tcp_conn *conn)
{
    return conn->sender.queued_bytes > 0 && !conn->sender.broken &&
           (conn->bundle == NULL || !conn->bundle->broken);
}

/** Has that put left? Then nothing of it is read. */
static bool has_put_left(const struct tcp_sender *sender, uint32_t put)
{
    return put - sender->put_sent >= sender->put_head - sender->put_sent;
}

/** Out of the way of those who send: there are none, almost always. */
__attribute__((noinline)) static void free_copies(struct tcp_sender *sender, bool all)
{
    for (struct tcp_copy **at = &sender->copies; *at != NULL;) {
        struct tcp_copy *copy = *at;
        if (!all && !has_put_left(sender, copy->put)) {
            at = &copy->next;
            continue;
        }
        *at = copy->next;
        free(copy);
    }
}

void wring_tcp_copies_free(struct tcp_conn *conn)
{
    free_copies(&conn->sender, true);
}

void wring_tcp_flush(struct tcp_conn *conn)
{
    struct gather gather = {.room = TCP_SHARE_BYTES};
    gather_frames(&gather, &conn->sender);
    struct msghdr message = {.msg_iov = gather.pieces, .msg_iovlen = gather.n};
    ssize_t n = sendmsg(conn->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n >= 0) {
        consume_sent(&conn->sender, (size_t)n);
        if (conn->base.path.round_trip_ns > TCP_NEAR_US * WRING_NS_PER_US)
            wring_tcp_note_sent(conn, (size_t)n);
        if (conn->sender.copies != NULL)
            free_copies(&conn->sender, false);
    } else if (errno == EAGAIN) {
        conn->writable = false;
    } else if (errno != EINTR) {
        /* the peer may have said why before it closed: read that first, then end there */
        wring_info(tcp_of(conn)->log, "%s: sending failed: %s", conn->peer, strerrordesc_np(errno));
        conn->sender.broken = true;
        if (conn->bundle != NULL)
            conn->bundle->broken = true;
        conn->readable = conn->hung_up = true;
    }
}

static bool copy_source(struct tcp_sender *sender, uint32_t number)
{
    struct tcp_put *put = &sender->puts[number % TCP_PUT_DEPTH];
    if (put->bytes == 0)
        return true;
    struct tcp_copy *copy = malloc(sizeof(*copy) + put->bytes);
    if (copy == NULL)
        return false;
    memcpy(copy->data, put->data, put->bytes);
    put->data = copy->data;
    copy->put = number;
    copy->next = sender->copies;
    sender->copies = copy;
    return true;
}

/** Whole puts: checksums and bytes to be spoiled are as they were. */
static enum wring_status copy_sources_of(struct tcp_conn *conn)
{
    struct tcp_sender *sender = &conn->sender;

    if (conn->fd < 0 || sender->broken) /* nothing leaves any more */
        return WRING_OK;
    free_copies(sender, false);
    uint32_t next = sender->copies != NULL ? sender->copies->put + 1 : sender->put_sent;
    for (; next != sender->put_head; next++)
        if (!copy_source(sender, next))
            return WRING_ERR_NO_MEMORY;
    return WRING_OK;
}

enum wring_status wring_tcp_copy_sources(struct wring_conn *base)
{
    struct tcp_conn *conn = (struct tcp_conn *)base;
    enum wring_status status = WRING_OK;

    if (conn->bundle == NULL)
        return copy_sources_of(conn);
    for (unsigned i = 0; i < conn->bundle->n && status == WRING_OK; i++)
        if (conn->bundle->sockets[i] != NULL)
            status = copy_sources_of(conn->bundle->sockets[i]);
    return status;
}

bool wring_tcp_report_sent(struct tcp_conn *conn, struct tcp_events *events)
{
    struct tcp_sender *sender = &conn->sender;

    if (conn->bundle != NULL)
        return wring_tcp_report_split(conn, events);
    while (sender->put_tail != sender->put_sent) {
        struct wring_event *event = wring_tcp_event(events, WRING_EVENT_PUT_DONE, conn);
        if (event == NULL)
            return false;
        const struct tcp_put *put = &sender->puts[sender->put_tail++ % TCP_PUT_DEPTH];
        event->cookie = put->cookie;
        event->bytes = put->bytes;
    }
    return true;
}

/** May something be queued now? */
static enum wring_status check_open(const struct tcp_conn *conn)
{
    switch (conn->state) {
    case TCP_OPEN:
        return conn->sender.broken || (conn->bundle != NULL && conn->bundle->broken)
                   ? WRING_ERR_CLOSED
                   : WRING_OK;
    case TCP_CONNECTING:
    case TCP_HANDSHAKE:
    case TCP_GATHERING:
    case TCP_READY:
        return WRING_ERR_AGAIN;
    case TCP_FAILED:
    case TCP_CLOSED:
    case TCP_DROPPED:
        return WRING_ERR_CLOSED;
    }
    return WRING_ERR_CLOSED;
}

static bool lies_in(const struct wring_region *region, const void *local, size_t bytes)
{
    uintptr_t base = (uintptr_t)region->base, at = (uintptr_t)local;
    return at >= base && at - base <= region->bytes && bytes <= region->bytes - (at - base);
}

static bool put_is_sound(const struct wring_region *region, const void *local,
                         const struct wring_remote *remote, uint64_t offset, size_t bytes)
{
    if (bytes > TCP_PUT_MAX || (bytes > 0 && local == NULL))
        return false;
    if (offset > remote->bytes || bytes > remote->bytes - offset)
        return false;
    return region == NULL || bytes == 0 || lies_in(region, local, bytes);
}

static void add_checks(const struct tcp_provider *provider, struct tcp_frame *frame,
                       const void *data, size_t bytes)
{
    if (!provider->checks)
        return;
    frame->checked = true;
    frame->payload_crc = wring_crc32c_update(&provider->crc, 0, data, bytes);
}

enum wring_status wring_tcp_spoil(struct wring_conn *base, uint64_t at, uint8_t mask)
{
    struct tcp_sender *sender = &((struct tcp_conn *)base)->sender;
    sender->spoil_at = at;
    sender->spoil_mask = mask;
    return WRING_OK;
}

/** Where a byte of this put is to be changed: the payload is the caller's, so it leaves in parts.
 */
static void spoil_put(struct tcp_sender *sender, struct tcp_put *put)
{
    put->is_spoiled = false;
    if (sender->spoil_mask == 0)
        return;
    size_t at = sender->spoil_at % (put->header_bytes + put->bytes);
    if (at < put->header_bytes) {
        put->header[at] ^= sender->spoil_mask;
    } else {
        put->is_spoiled = true;
        put->spoiled_at = at - put->header_bytes;
        put->spoiled = put->data[put->spoiled_at] ^ sender->spoil_mask;
    }
    sender->spoil_mask = 0;
}

static inline void queue_put(struct tcp_conn *conn, struct tcp_frame *frame, const uint8_t *local,
                             uint64_t cookie)
{
    struct tcp_sender *sender = &conn->sender;
    struct tcp_put *put = &sender->puts[sender->put_head++ % TCP_PUT_DEPTH];

    add_checks(tcp_of(conn), frame, local, frame->bytes);
    put->header_bytes = wring_tcp_frame_pack(frame, &tcp_of(conn)->crc, put->header);
    put->data = local;
    put->bytes = frame->bytes;
    put->cookie = cookie;
    spoil_put(sender, put);
    sender->queued_bytes += frame_bytes(put);

    /* puts wait for the poll that follows, so that several leave together: one call for 1 MiB takes
     * a tenth less time than four */
    if (conn->writable && sender->queued_bytes >= TCP_SHARE_BYTES)
        wring_tcp_flush(conn);
    wring_tcp_make_ready(conn);
}

void wring_tcp_queue_put(struct tcp_conn *conn, struct tcp_frame *frame, const uint8_t *local,
                         uint64_t cookie)
{
    queue_put(conn, frame, local, cookie);
}

enum wring_status wring_tcp_put(struct wring_conn *base, struct wring_region *region,
                                const void *local, struct wring_remote *remote,
                                uint64_t remote_offset, size_t bytes, uint32_t imm, uint64_t cookie)
{
    struct tcp_conn *conn = (struct tcp_conn *)base;
    const struct tcp_sender *sender = &conn->sender;
    const struct tcp_remote *target = (const struct tcp_remote *)remote;

    if (!put_is_sound(region, local, remote, remote_offset, bytes) || remote->conn != base)
        return WRING_ERR_INVALID;
    enum wring_status status = check_open(conn);
    if (status != WRING_OK)
        return status;
    struct tcp_frame frame = {
        .kind = TCP_FRAME_PUT,
        .region = target->index,
        .generation = target->generation,
        .offset = remote_offset,
        .bytes = (uint32_t)bytes,
        .imm = imm,
    };
    if (conn->bundle != NULL)
        return wring_tcp_split_put(conn->bundle, &frame, local, cookie);
    if (sender->put_head - sender->put_tail == TCP_PUT_DEPTH)
        return WRING_ERR_AGAIN;
    queue_put(conn, &frame, local, cookie);
    return WRING_OK;
}

enum wring_status wring_tcp_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct tcp_conn *conn = (struct tcp_conn *)base;
    struct tcp_sender *sender = &conn->sender;

    if (bytes < 1 || bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    enum wring_status status = check_open(conn);
    if (status != WRING_OK)
        return status;
    if (sender->control_head - sender->control_sent == TCP_CONTROL_DEPTH)
        return WRING_ERR_AGAIN;

    struct tcp_control *control = &sender->controls[sender->control_head++ % TCP_CONTROL_DEPTH];
    struct tcp_frame frame = {.kind = TCP_FRAME_MESSAGE, .bytes = (uint32_t)bytes};
    add_checks(tcp_of(conn), &frame, data, bytes);
    size_t header = wring_tcp_frame_pack(&frame, &tcp_of(conn)->crc, control->frame);
    memcpy(control->frame + header, data, bytes);
    memset(control->frame + header + bytes, 0, tcp_padding(bytes));
    control->bytes = header + bytes + tcp_padding(bytes);
    control->frame[sender->spoil_at % (header + bytes)] ^= sender->spoil_mask;
    sender->spoil_mask = 0;
    sender->queued_bytes += control->bytes;

    if (conn->writable)
        wring_tcp_flush(conn); /* at once: the caller may close right after its last words */
    wring_tcp_make_ready(conn);
    return WRING_OK;
}

/* ---- frames in ---- */

/*
 * Receiving. Payload is received where it belongs. While frames are small, one call reads several
 * of them ahead into a buffer; while they are large, no more than the next header and a message,
 * which may be small.
 */

/** n bytes of the payload have come, and lie at `from`. */
static void advance_payload(struct tcp_conn *conn, const uint8_t *from, size_t n)
{
    struct tcp_receiver *receiver = &conn->receiver;
    if (receiver->frame.checked)
        receiver->crc = wring_crc32c_update(&tcp_of(conn)->crc, receiver->crc, from, n);
    if (receiver->target != NULL)
        receiver->target += n;
    receiver->left -= n;
}

/** Move buffered bytes to the payload's place. */
static void take_buffered_payload(struct tcp_conn *conn)
{
    struct tcp_receiver *receiver = &conn->receiver;
    size_t have = receiver->end - receiver->at;
    size_t take = have < receiver->left ? have : receiver->left;
    if (take == 0)
        return;
    if (receiver->target != NULL)
        memcpy(receiver->target, receiver->buffer + receiver->at, take);
    advance_payload(conn, receiver->buffer + receiver->at, take);
    receiver->at += take;
}

/** Where the payload of a put goes. @return false: to no place of ours, and the connection ends */
static bool begin_put(struct tcp_conn *conn)
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

/** Does this connection have such frames, on this socket? */
static bool is_expected(struct tcp_conn *conn, const struct tcp_frame *frame)
{
    if (conn->bundle == NULL)
        return frame->kind != TCP_FRAME_PART;
    return frame->kind == TCP_FRAME_PART ||
           (frame->kind == TCP_FRAME_MESSAGE && conn == conn->bundle->sockets[0]);
}

static void begin_frame(struct tcp_conn *conn)
{
    struct tcp_receiver *receiver = &conn->receiver;
    struct tcp_frame *frame = &receiver->frame;

    const struct tcp_provider *provider = tcp_of(conn);
    const char *wrong = wring_tcp_frame_unpack(receiver->buffer + receiver->at, &provider->crc,
                                               provider->checks, frame);
    if (wrong == NULL && !is_expected(conn, frame))
        wrong = "sent a frame of a kind that has no place on this socket";
    if (wrong != NULL) {
        wring_tcp_fail(conn, WRING_ERR_FRAME, "%s", wrong);
        return;
    }
    receiver->at +=
        frame->checked || frame->kind == TCP_FRAME_PART ? TCP_HEADER_MAX : TCP_FRAME_BYTES;
    receiver->crc = 0;
    receiver->region = NULL;
    receiver->target = receiver->message;
    if (frame->kind != TCP_FRAME_MESSAGE && !begin_put(conn))
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
static bool check_payload(struct tcp_conn *conn)
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
static bool deliver_frame(struct tcp_conn *conn, struct tcp_events *events)
{
    bool told = false;

    switch (conn->receiver.frame.kind) {
    case TCP_FRAME_PUT:
        told = deliver_put(conn, events);
        break;
    case TCP_FRAME_PART:
        told = wring_tcp_take_part(conn, events);
        break;
    case TCP_FRAME_MESSAGE:
        told = deliver_message(conn, events);
        break;
    }
    conn->receiver.blocked = !told && !conn->receiver.waits;
    conn->receiver.in_frame = !told;
    return told;
}

/** Does what comes next lie in its place, and not in the buffer? */
static bool goes_straight(const struct tcp_receiver *receiver)
{
    return receiver->in_frame && receiver->target != NULL;
}

/** Where the next bytes go: the payload's place, then the buffer. @return pieces used */
static int prepare_read(struct tcp_receiver *receiver, size_t share, struct iovec pieces[2])
{
    size_t have = receiver->end - receiver->at;
    bool dropped = receiver->in_frame && receiver->target == NULL;
    size_t ahead = receiver->large && !dropped ? TCP_PEEK_BYTES : TCP_RECEIVE_BYTES;

    memmove(receiver->buffer, receiver->buffer + receiver->at, have); /* less than a header */
    receiver->at = 0;
    receiver->end = have;
    if (!goes_straight(receiver)) {
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

/** n bytes have come to where prepare_read() said. */
static void account_for_read(struct tcp_conn *conn, size_t n)
{
    struct tcp_receiver *receiver = &conn->receiver;
    size_t payload = n > receiver->left ? receiver->left : n;
    if (goes_straight(receiver)) {
        advance_payload(conn, receiver->target, payload);
        n -= payload;
    }
    receiver->end += n;
}

/** One read. @return bytes read; 0 when there is nothing now, or the connection has failed */
static size_t read_more(struct tcp_conn *conn, size_t share)
{
    struct tcp_receiver *receiver = &conn->receiver;
    struct iovec pieces[2];
    int count = prepare_read(receiver, share, pieces);
    size_t asked = pieces[0].iov_len + (count == 2 ? pieces[1].iov_len : 0);
    ssize_t n = readv(conn->fd, pieces, count);

    if (n > 0) {
        account_for_read(conn, (size_t)n);
        /* less than asked for means that nothing is left, unless the end was announced */
        conn->readable = (size_t)n == asked || conn->hung_up;
        return (size_t)n;
    }
    if (n == 0)
        wring_tcp_end_socket(conn, "closed the connection%s",
                             receiver->in_frame || receiver->end > 0 ? " in the middle of a frame"
                                                                     : "");
    else if (errno == EAGAIN && conn->sender.broken)
        wring_tcp_end_socket(conn, "takes no more bytes");
    else if (errno == EAGAIN)
        conn->readable = false;
    else if (errno != EINTR)
        wring_tcp_end_socket(conn, "connection lost: %s", strerrordesc_np(errno));
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

static bool skip_to_header(struct tcp_receiver *receiver)
{
    skip_padding(receiver);
    size_t have = receiver->end - receiver->at;
    return have >= wring_tcp_frame_header_bytes(receiver->buffer + receiver->at, have);
}

void wring_tcp_receive(struct tcp_conn *conn, struct tcp_events *events)
{
    struct tcp_receiver *receiver = &conn->receiver;
    size_t share = TCP_SHARE_BYTES;

    while (conn->state == TCP_OPEN && !receiver->waits) {
        if (receiver->in_frame) {
            take_buffered_payload(conn);
            if (receiver->left == 0) {
                if (!check_payload(conn) || !deliver_frame(conn, events))
                    return;
                continue;
            }
        } else if (skip_to_header(receiver)) {
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
