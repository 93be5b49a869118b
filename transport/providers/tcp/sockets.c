/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Several sockets of one connection, where one holds less than the way to the peer.
 *
 * The side that connects decides: its first socket's handshake says that others follow, and theirs
 * say which one they belong to. The connection stands when all do. Messages go over the first one.
 * A put is cut into parts, and each takes the socket that has least to send; parts are numbered, so
 * that the other side tells of puts in their order, and of each once all of it is there. A part
 * that is too far ahead of the others waits, and its socket with it: the peer's kernel holds the
 * rest.
 *
 * When the peer closes, its sockets end one after the other. The connection is over with the first
 * of them; what the others still bring is read, until they have ended too or time is up.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/providers/tcp/tcp.h"

#define TAG_BYTES 16 /* of the first socket's nonce: they name it */
#define INDEX_AT TAG_BYTES
#define COUNT_AT (TAG_BYTES + 1)
#define UNKNOWN_BYTES_PER_S 1.25e9
#define ROOM 3 /* times what a way holds: the kernel counts more than payload */

/* ---- how many ---- */

unsigned wring_tcp_choose_sockets(double way_bytes, long socket_bytes)
{
    unsigned n = 1;

    while (socket_bytes > 0 && n < TCP_SOCKETS_AUTO && n * (double)socket_bytes < ROOM * way_bytes)
        n++;
    return n;
}

static unsigned count_wanted(struct tcp_conn *conn)
{
    if (tcp_of(conn)->sockets > 0)
        return tcp_of(conn)->sockets;

    const struct wring_path path = wring_tcp_path(conn->fd);
    if (path.round_trip_ns <= TCP_NEAR_US * WRING_NS_PER_US)
        return 1;
    double rate = path.bytes_per_s > 0 ? (double)path.bytes_per_s : UNKNOWN_BYTES_PER_S;
    return wring_tcp_choose_sockets(rate * (double)path.round_trip_ns / WRING_NS_PER_S,
                                    wring_tcp_socket_bytes());
}

/* ---- from the first to all ---- */

static struct tcp_bundle *bundle_create(struct tcp_conn *first, unsigned n)
{
    struct tcp_bundle *bundle = calloc(1, sizeof(*bundle));
    if (bundle == NULL)
        return NULL;
    bundle->n = n;
    bundle->sockets[0] = first;
    first->bundle = bundle;
    return bundle;
}

void wring_tcp_plan_sockets(struct tcp_conn *conn)
{
    unsigned n = count_wanted(conn);
    uint8_t hello[WRING_HELLO_MAX];
    size_t bytes;

    if (n == 1)
        return;
    if (bundle_create(conn, n) == NULL) {
        wring_tcp_fail(conn, WRING_ERR_NO_MEMORY, "no memory for a connection of %u sockets", n);
        return;
    }
    memcpy(hello, wring_auth_hello(&conn->auth, &bytes), sizeof(hello));
    wring_auth_init(&conn->auth, true, WRING_AUTH_TCP_FIRST, tcp_of(conn)->secret, hello, bytes);
}

static void dial_next(struct tcp_bundle *bundle, unsigned index, const struct sockaddr_storage *to,
                      socklen_t bytes)
{
    struct tcp_conn *first = bundle->sockets[0];
    uint8_t hello[TCP_NEXT_HELLO_BYTES];
    struct tcp_conn *conn = wring_tcp_conn_create(tcp_of(first), to);
    if (conn == NULL) {
        wring_tcp_fail(first, WRING_ERR_SYSTEM, "cannot have socket %u of %u", index + 1,
                       bundle->n);
        return;
    }
    conn->bundle = bundle;
    bundle->sockets[index] = conn;
    memcpy(hello, wring_auth_nonce(&first->auth), TAG_BYTES);
    hello[INDEX_AT] = (uint8_t)index;
    hello[COUNT_AT] = (uint8_t)bundle->n;
    wring_auth_init(&conn->auth, true, WRING_AUTH_TCP_NEXT, tcp_of(first)->secret, hello,
                    sizeof(hello));
    wring_tcp_conn_begin(conn, to, bytes);
}

/** The first one is proven: now the others. */
static void dial_others(struct tcp_bundle *bundle)
{
    struct tcp_conn *first = bundle->sockets[0];
    struct sockaddr_storage to = {0};
    socklen_t bytes = sizeof(to);

    if (getpeername(first->fd, (struct sockaddr *)&to, &bytes) != 0) {
        wring_tcp_fail(first, WRING_ERR_PEER, "left before all sockets were open");
        return;
    }
    for (unsigned i = 1; i < bundle->n && first->state == TCP_GATHERING; i++)
        dial_next(bundle, i, &to, bytes);
}

/** One more is proven; with the last one the connection stands. */
static void count_standing(struct tcp_bundle *bundle)
{
    struct tcp_conn *first = bundle->sockets[0];

    if (++bundle->standing != bundle->n)
        return;
    first->base.path.sockets = bundle->n;
    wring_info(tcp_of(first)->log,
               "peer %s: %.1f ms away and back, so the connection has %u sockets", first->peer,
               (double)first->base.path.round_trip_ns / 1e6, bundle->n);
    wring_tcp_end_handshake(first, TCP_READY);
    wring_tcp_make_ready(first);
}

/** The accepted connection that a socket names, and that waits for it. */
static struct tcp_bundle *find_bundle(struct tcp_conn *conn, unsigned index, unsigned n,
                                      const uint8_t *tag)
{
    for (struct tcp_conn *at = tcp_of(conn)->conns; at != NULL; at = at->next) {
        struct tcp_bundle *bundle = at->bundle;
        if (at->state != TCP_GATHERING || !at->accepted || bundle->sockets[0] != at ||
            memcmp(wring_auth_nonce(&at->auth), tag, TAG_BYTES) != 0)
            continue;
        bool fits = n >= 2 && n <= TCP_SOCKETS_MAX && (bundle->n == 0 || bundle->n == n) &&
                    index >= 1 && index < n && bundle->sockets[index] == NULL;
        return fits ? bundle : NULL;
    }
    return NULL;
}

static void attach_accepted(struct tcp_conn *conn)
{
    size_t bytes;
    const uint8_t *hello = wring_auth_hello(&conn->auth, &bytes);
    struct tcp_bundle *bundle = bytes == TCP_NEXT_HELLO_BYTES
                                    ? find_bundle(conn, hello[INDEX_AT], hello[COUNT_AT], hello)
                                    : NULL;

    if (bundle == NULL) {
        wring_tcp_fail(conn, WRING_ERR_FRAME, "no connection here waits for this socket");
        return;
    }
    wring_tcp_end_handshake(conn, TCP_GATHERING);
    bundle->n = hello[COUNT_AT];
    bundle->sockets[hello[INDEX_AT]] = conn;
    conn->bundle = bundle;
    count_standing(bundle);
}

static void gather(struct tcp_conn *conn)
{
    wring_tcp_end_handshake(conn, TCP_GATHERING);
    wring_tcp_set_deadline(conn, TCP_HANDSHAKE_NS);
    if (conn->accepted && bundle_create(conn, 0) == NULL) {
        wring_tcp_fail(conn, WRING_ERR_NO_MEMORY, "no memory for a connection of several sockets");
        return;
    }
    conn->bundle->standing = 1;
    if (!conn->accepted)
        dial_others(conn->bundle);
}

void wring_tcp_join_socket(struct tcp_conn *conn)
{
    switch (wring_auth_purpose(&conn->auth)) {
    case WRING_AUTH_TCP_FIRST:
        gather(conn);
        return;
    case WRING_AUTH_TCP_NEXT:
        if (conn->accepted) {
            attach_accepted(conn);
            return;
        }
        wring_tcp_end_handshake(conn, TCP_GATHERING);
        count_standing(conn->bundle);
        return;
    default:
        wring_tcp_end_handshake(conn, TCP_READY);
    }
}

void wring_tcp_open_sockets(struct tcp_bundle *bundle)
{
    for (unsigned i = 0; i < bundle->n; i++) {
        bundle->sockets[i]->state = TCP_OPEN;
        bundle->sockets[i]->readable = true; /* edges may have come before */
        wring_tcp_make_ready(bundle->sockets[i]);
    }
}

/* ---- parts out ---- */

/** The socket that has least to send, among those that have a place in their queue: one has, as all
 *  of them together have one for each part of TCP_PUT_DEPTH puts. */
static struct tcp_conn *least_busy(const struct tcp_bundle *bundle)
{
    struct tcp_conn *best = NULL;

    for (unsigned i = 0; i < bundle->n; i++) {
        struct tcp_conn *conn = bundle->sockets[i];
        const struct tcp_sender *sender = &conn->sender;
        if (sender->put_head - sender->put_tail < TCP_PUT_DEPTH &&
            (best == NULL || sender->queued_bytes < best->sender.queued_bytes))
            best = conn;
    }
    return best;
}

/** A byte that is to be spoiled is one of the first part's. */
static void pass_spoil(struct tcp_conn *first, struct tcp_conn *to)
{
    if (first == to)
        return;
    to->sender.spoil_at = first->sender.spoil_at;
    to->sender.spoil_mask = first->sender.spoil_mask;
    first->sender.spoil_mask = 0;
}

enum wring_status wring_tcp_split_put(struct tcp_bundle *bundle, const struct tcp_frame *whole,
                                      const uint8_t *local, uint64_t cookie)
{
    if (bundle->put_head - bundle->put_tail == TCP_PUT_DEPTH)
        return WRING_ERR_AGAIN;

    struct tcp_split *put = &bundle->puts[bundle->put_head % TCP_PUT_DEPTH];
    size_t parts = (whole->bytes + TCP_PART_BYTES - 1) / TCP_PART_BYTES;
    parts = parts < 1 ? 1 : parts > bundle->n ? bundle->n : parts;
    size_t step = (whole->bytes + parts - 1) / parts;
    step += tcp_padding(step);

    *put = (struct tcp_split){.cookie = cookie, .bytes = whole->bytes};
    size_t at = 0;
    do {
        size_t left = whole->bytes - at;
        struct tcp_frame frame = *whole;
        struct tcp_conn *conn = least_busy(bundle);

        frame.kind = TCP_FRAME_PART;
        frame.part = bundle->next_part++;
        frame.offset += at;
        frame.bytes = (uint32_t)(left < step ? left : step);
        frame.more = left > step;
        if (at == 0)
            pass_spoil(bundle->sockets[0], conn);
        put->left++;
        wring_tcp_queue_put(conn, &frame, at == 0 ? local : local + at, bundle->put_head);
        at += step;
    } while (at < whole->bytes);
    bundle->put_head++;
    return WRING_OK;
}

static bool next_put_is_gone(const struct tcp_bundle *bundle)
{
    return bundle->put_tail != bundle->put_head &&
           bundle->puts[bundle->put_tail % TCP_PUT_DEPTH].left == 0;
}

bool wring_tcp_report_split(struct tcp_conn *conn, struct tcp_events *events)
{
    struct tcp_bundle *bundle = conn->bundle;
    struct tcp_sender *sender = &conn->sender;

    while (sender->put_tail != sender->put_sent) {
        const struct tcp_put *part = &sender->puts[sender->put_tail++ % TCP_PUT_DEPTH];
        bundle->puts[part->cookie % TCP_PUT_DEPTH].left--;
    }
    while (next_put_is_gone(bundle)) {
        struct wring_event *event =
            wring_tcp_event(events, WRING_EVENT_PUT_DONE, bundle->sockets[0]);
        if (event == NULL)
            return false;
        const struct tcp_split *put = &bundle->puts[bundle->put_tail++ % TCP_PUT_DEPTH];
        event->cookie = put->cookie;
        event->bytes = put->bytes;
    }
    return true;
}

/* ---- parts in ---- */

static struct tcp_part *part_at(struct tcp_bundle *bundle, uint32_t number)
{
    return &bundle->parts[number % TCP_PARTS_AHEAD];
}

/** Does every socket wait for a part that comes through none of them any more? Each brings its own
 *  in the order of their numbers. */
static bool is_stuck(struct tcp_bundle *bundle)
{
    for (unsigned i = 0; i < bundle->n; i++)
        if (!bundle->sockets[i]->receiver.waits)
            return false;
    return !part_at(bundle, bundle->first_part)->there;
}

bool wring_tcp_take_part(struct tcp_conn *conn, struct tcp_events *events)
{
    struct tcp_bundle *bundle = conn->bundle;
    const struct tcp_frame *frame = &conn->receiver.frame;
    uint32_t ahead = frame->part - bundle->first_part;
    struct tcp_part *part = part_at(bundle, frame->part);

    if (ahead > INT32_MAX || (ahead < TCP_PARTS_AHEAD && part->there)) {
        wring_tcp_fail(conn, WRING_ERR_FRAME, "sent part %u of its puts twice", frame->part);
        return true;
    }
    conn->receiver.waits = ahead >= TCP_PARTS_AHEAD;
    if (conn->receiver.waits && is_stuck(bundle))
        wring_tcp_fail(conn, WRING_ERR_FRAME, "left out part %u of its puts", bundle->first_part);
    if (conn->receiver.waits)
        return false;
    *part = (struct tcp_part){
        .bytes = frame->bytes, .imm = frame->imm, .there = true, .more = frame->more};
    wring_tcp_release_parts(bundle, events);
    return true;
}

/** Those that waited, and need not any more. */
static void wake_sockets(struct tcp_bundle *bundle)
{
    for (unsigned i = 0; i < bundle->n; i++) {
        struct tcp_conn *conn = bundle->sockets[i];
        struct tcp_receiver *receiver = &conn->receiver;
        if (!receiver->waits || receiver->frame.part - bundle->first_part >= TCP_PARTS_AHEAD)
            continue;
        receiver->waits = false;
        receiver->blocked = true;
        wring_tcp_make_ready(conn);
    }
}

void wring_tcp_release_parts(struct tcp_bundle *bundle, struct tcp_events *events)
{
    struct tcp_conn *first = bundle->sockets[0];
    struct tcp_part *part = part_at(bundle, bundle->first_part);
    bool any = false;

    for (; part->there; part = part_at(bundle, bundle->first_part)) {
        size_t bytes = bundle->put_bytes + part->bytes;
        if (bytes > TCP_PUT_MAX) {
            wring_tcp_fail(first, WRING_ERR_FRAME, "sent a put of more than %zu bytes",
                           TCP_PUT_MAX);
            return;
        }
        struct wring_event *event =
            part->more ? NULL : wring_tcp_event(events, WRING_EVENT_ARRIVED, first);
        if (!part->more && event == NULL)
            break;
        if (event != NULL) {
            event->imm = part->imm;
            event->bytes = bytes;
        }
        bundle->put_bytes = part->more ? bytes : 0;
        part->there = false;
        bundle->first_part++;
        any = true;
    }
    if (any)
        wake_sockets(bundle);
}

bool wring_tcp_bundle_owes(const struct tcp_bundle *bundle)
{
    return next_put_is_gone(bundle) || bundle->parts[bundle->first_part % TCP_PARTS_AHEAD].there;
}

/* ---- the end ---- */

/** No more goes out; what is under way may come in. */
static void begin_to_end(struct tcp_bundle *bundle, const char *why)
{
    snprintf(bundle->why, sizeof(bundle->why), "%s", why);
    bundle->broken = true;
    for (unsigned i = 0; i < bundle->n; i++)
        if (bundle->sockets[i]->fd >= 0)
            shutdown(bundle->sockets[i]->fd, SHUT_WR); /* so that the peer ends the others, too */
    wring_tcp_set_deadline(bundle->sockets[0], TCP_HANDSHAKE_NS);
}

void wring_tcp_end_socket(struct tcp_conn *conn, const char *format, ...)
{
    struct tcp_bundle *bundle = conn->bundle;
    struct tcp_receiver *receiver = &conn->receiver;
    char why[sizeof(bundle->why)];
    va_list args;

    va_start(args, format);
    vsnprintf(why, sizeof(why), format, args);
    va_end(args);
    if (bundle == NULL) {
        wring_tcp_fail(conn, WRING_ERR_PEER, "%s", why);
        return;
    }
    wring_tcp_close_socket(conn);
    conn->readable = conn->writable = receiver->in_frame = false;
    receiver->region = NULL;
    if (bundle->ended++ == 0)
        begin_to_end(bundle, why);
    wring_tcp_make_ready(bundle->sockets[0]);
}

void wring_tcp_finish_sockets(struct tcp_bundle *bundle)
{
    if (bundle->n > 0 && bundle->ended == bundle->n &&
        !bundle->parts[bundle->first_part % TCP_PARTS_AHEAD].there)
        wring_tcp_fail(bundle->sockets[0], WRING_ERR_PEER, "%s", bundle->why);
}
