/* SPDX-License-Identifier: Apache-2.0 */
/** What goes through the rings of an open connection: puts and messages out, events in. */
#include "transport/providers/shm/shm.h"

#include <string.h>

#include "base/clock.h"

/** May one entry be pushed? A peer that tampers with the ring loses the connection. */
static enum wring_status room_for_entry(struct shm_conn *conn)
{
    if (!wring_shm_conn_stands(conn))
        return conn->state <= SHM_OPEN ? WRING_ERR_AGAIN : WRING_ERR_CLOSED;
    enum wring_status status = wring_shm_ring_room(&conn->out);
    conn->starved = status == WRING_ERR_AGAIN;
    if (status != WRING_ERR_FRAME)
        return status;
    wring_shm_conn_fail(conn, status, SHM_NONSENSE, (int)conn->pid);
    return WRING_ERR_CLOSED;
}

enum wring_status wring_shm_put(struct wring_conn *base, struct wring_region *region,
                                const void *local, struct wring_remote *remote,
                                uint64_t remote_offset, size_t bytes, uint32_t imm, uint64_t cookie)
{
    struct shm_conn *conn = (struct shm_conn *)base;
    const struct shm_mapping *mapping = ((struct shm_remote *)remote)->mapping;
    size_t at = region == NULL ? 0 : (size_t)((uintptr_t)local - (uintptr_t)region->base);

    if (remote->conn != base || remote_offset > mapping->bytes ||
        bytes > mapping->bytes - remote_offset)
        return WRING_ERR_INVALID;
    if (region != NULL && bytes > 0 && (at > region->bytes || bytes > region->bytes - at))
        return WRING_ERR_INVALID; /* any local memory will do, but not what is said to be another */
    if (conn->state == SHM_OPEN)
        wring_shm_mappings_refresh(conn);
    enum wring_status status = room_for_entry(conn);
    if (status != WRING_OK)
        return status;
    if (cookie != WRING_NO_PUT_DONE && conn->done_head - conn->done_tail == SHM_RING_ENTRIES)
        return WRING_ERR_AGAIN;

    bool there = local == mapping->base + remote_offset;
    bool inside = bytes > 0 && bytes <= SHM_INSIDE_MAX && !there;
    if (bytes > SHM_INSIDE_MAX && mapping->known &&
        !there) /* else the peer will refuse it without data */
        memcpy(mapping->base + remote_offset, local, bytes);
    struct shm_entry entry = {.kind = inside ? SHM_INSIDE : SHM_PUT,
                              .region = mapping->id,
                              .offset = remote_offset,
                              .bytes = bytes,
                              .imm = imm};
    if (wring_shm_ring_push(&conn->out, &entry, local))
        wring_shm_socket_wake(&conn->sock);
    if (cookie != WRING_NO_PUT_DONE)
        conn->done[conn->done_head++ % SHM_RING_ENTRIES] = cookie;
    return WRING_OK;
}

/** Word of regions goes through the socket, and before each message, which may name one. */
static enum wring_status say_regions(struct shm_conn *conn)
{
    if (!wring_shm_socket_wants_room(&conn->sock))
        return WRING_OK;
    wring_shm_socket_flush(&conn->sock); /* a broken stream shows when it is read */
    return wring_shm_socket_wants_room(&conn->sock) ? WRING_ERR_AGAIN : WRING_OK;
}

enum wring_status wring_shm_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct shm_conn *conn = (struct shm_conn *)base;
    if (bytes == 0 || bytes > WRING_SEND_MAX)
        return WRING_ERR_INVALID;
    enum wring_status status = room_for_entry(conn);
    if (status == WRING_OK)
        status = say_regions(conn);
    if (status != WRING_OK)
        return status;

    struct shm_entry entry = {.kind = SHM_MESSAGE, .bytes = bytes};
    if (wring_shm_ring_push(&conn->out, &entry, data))
        wring_shm_socket_wake(&conn->sock);
    return WRING_OK;
}

/** Turn a ring entry into an event; false if the peer may not say that. */
static bool event_of_entry(struct shm_conn *conn, const struct shm_entry *entry,
                           struct wring_event *event)
{
    struct shm_provider *shm = shm_of(conn);
    *event = (struct wring_event){.conn = &conn->base, .bytes = (size_t)entry->bytes};
    uint8_t *place;
    switch (entry->kind) {
    case SHM_PUT:
    case SHM_INSIDE:
        event->kind = WRING_EVENT_ARRIVED;
        event->imm = entry->imm;
        place = wring_shm_region_place(shm, entry->region, entry->offset, entry->bytes);
        if (place != NULL && entry->kind == SHM_INSIDE)
            memcpy(place, shm->messages[shm->n_messages], entry->bytes);
        return place != NULL;
    case SHM_MESSAGE:
        event->kind = WRING_EVENT_MESSAGE;
        event->data = shm->messages[shm->n_messages++];
        return true;
    default:
        return false;
    }
}

static size_t ring_events(struct shm_conn *conn, struct wring_event *events, size_t max)
{
    struct shm_provider *shm = shm_of(conn);
    struct shm_entry entry;
    size_t n = 0;

    while (n < max && shm->n_messages < SHM_MESSAGES &&
           !(conn->state == SHM_DRAINING && conn->in.tail == conn->end)) {
        enum wring_status status =
            wring_shm_ring_take(&conn->in, &entry, shm->messages[shm->n_messages]);
        if (status == WRING_ERR_AGAIN && conn->state == SHM_OPEN)
            break;
        if (status != WRING_OK || !event_of_entry(conn, &entry, &events[n])) {
            wring_shm_conn_fail(conn, WRING_ERR_FRAME, SHM_NONSENSE, (int)conn->pid);
            break;
        }
        n++;
    }
    return n;
}

static struct wring_event event_of_news(struct shm_conn *conn)
{
    struct wring_event event = {.kind = WRING_EVENT_CONNECTED, .conn = &conn->base};
    if (conn->accepted) {
        event.kind = WRING_EVENT_ACCEPTED;
        event.data = wring_auth_hello(&conn->auth, &event.bytes);
    }
    conn->news = false;
    return event;
}

size_t wring_shm_conn_events(struct shm_conn *conn, struct wring_event *events, size_t max)
{
    size_t n = 0;
    if (conn->news && n < max)
        events[n++] = event_of_news(conn);
    while (conn->done_head != conn->done_tail && n < max)
        events[n++] = (struct wring_event){
            .kind = WRING_EVENT_PUT_DONE,
            .conn = &conn->base,
            .cookie = conn->done[conn->done_tail++ % SHM_RING_ENTRIES],
        };
    if (conn->state == SHM_OPEN || conn->state == SHM_DRAINING)
        n += ring_events(conn, events + n, max - n);
    if (conn->state == SHM_DRAINING && conn->in.tail == conn->end)
        conn->state = SHM_DEAD;
    if (conn->state == SHM_DEAD && !conn->told_closed && n < max) {
        conn->told_closed = true;
        events[n++] = (struct wring_event){.kind = WRING_EVENT_CLOSED,
                                           .conn = &conn->base,
                                           .status = conn->status,
                                           .text = conn->text};
    }
    return n;
}
