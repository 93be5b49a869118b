/* SPDX-License-Identifier: Apache-2.0 */
/** Events that come over the emulated link are held until they are due. */
#include <string.h>

#include "base/clock.h"
#include "transport/providers/fault/inside.h"

/** Take the link for some bytes. @return when the last of them is through */
static double take_link(double *free_ns, uint64_t begin_ns, size_t bytes, double ns_per_byte)
{
    double begin = *free_ns > (double)begin_ns ? *free_ns : (double)begin_ns;
    return *free_ns = begin + (double)bytes * ns_per_byte;
}

static struct fault_put *put_at(const struct fault_provider *provider, struct fault_conn *conn,
                                uint32_t i)
{
    return &conn->puts[(conn->first + i) % provider->caps.put_depth];
}

/** The connection whose put goes next: it took the link first, and nothing is in its way. */
static struct fault_conn *next_conn(const struct fault_provider *provider)
{
    struct fault_conn *next = NULL;
    for (struct fault_conn *conn = provider->conns; conn != NULL; conn = conn->next) {
        if (conn->n == 0 || conn->blocked)
            continue;
        if (next == NULL || put_at(provider, conn, 0)->number < put_at(provider, next, 0)->number)
            next = conn;
    }
    return next;
}

enum wring_status wring_fault_queue_put(struct fault_provider *provider, struct fault_conn *conn,
                                        const struct fault_put *put)
{
    if (conn->n == provider->caps.put_depth)
        return WRING_ERR_AGAIN;
    /* what waits for its time kept the link busy, however late it is looked at */
    uint64_t begin_ns = next_conn(provider) != NULL ? 0 : wring_now_ns();
    struct fault_put *last = put_at(provider, conn, conn->n++);
    *last = *put;
    last->number = provider->posted++;
    last->due_ns = (uint64_t)take_link(&provider->egress_free_ns, begin_ns, put->bytes,
                                       provider->schedule.ns_per_byte);
    last->remote->waiting++;
    return WRING_OK;
}

enum wring_status wring_fault_copy_sources(struct wring_conn *base)
{
    struct fault_provider *provider = fault_of(base->provider);
    struct fault_conn *conn = fault_conn_of(base);

    if (conn->inner == NULL) /* nothing leaves any more */
        return WRING_OK;
    enum wring_status status = provider->inner->ops->copy_sources(conn->inner);
    for (uint32_t i = 0; i < conn->n && status == WRING_OK; i++)
        if (!wring_fault_copy_source(provider, conn, i, put_at(provider, conn, i)))
            status = WRING_ERR_NO_MEMORY;
    return status;
}

static void drop_first(const struct fault_provider *provider, struct fault_conn *conn)
{
    wring_fault_remote_drop(put_at(provider, conn, 0)->remote);
    conn->first = (conn->first + 1) % provider->caps.put_depth;
    conn->n--;
}

void wring_fault_release_puts(struct fault_provider *provider, uint64_t now)
{
    struct fault_conn *conn;

    for (conn = provider->conns; conn != NULL; conn = conn->next)
        conn->blocked = false;
    while ((conn = next_conn(provider)) != NULL) {
        const struct fault_put *put = put_at(provider, conn, 0);
        if (put->due_ns > now)
            return;
        if (wring_fault_cut(provider, conn, put->bytes))
            continue;
        conn->blocked = wring_fault_deliver(provider, conn, put) == WRING_ERR_AGAIN;
        if (!conn->blocked) /* it was sound: any other failure shows as the connection's end */
            drop_first(provider, conn);
    }
}

static void forget_puts(const struct fault_provider *provider, struct fault_conn *conn)
{
    while (conn->n > 0)
        drop_first(provider, conn);
}

/** When the next of them leaves. */
static uint64_t puts_due(const struct fault_provider *provider)
{
    struct fault_conn *conn = next_conn(provider);
    /* one that is blocked goes on with the inner provider's next event */
    return conn != NULL ? put_at(provider, conn, 0)->due_ns : WRING_NEVER;
}

/* ---- fault events ---- */

/** When something that comes at `at_ns` is seen: not before the last one, so that order stays. */
static uint64_t delayed(const struct fault_provider *provider, uint64_t *last_due_ns,
                        uint64_t at_ns, uint64_t n)
{
    const struct wring_fault_schedule *schedule = &provider->schedule;
    uint64_t due = at_ns + schedule->delay_ns;
    if (schedule->jitter_ns > 0)
        due += wring_fault_random(schedule, provider->rank, WRING_FAULT_JITTER, n) %
               (schedule->jitter_ns + 1);
    return *last_due_ns = due > *last_due_ns ? due : *last_due_ns;
}

static struct fault_event *event_at(struct fault_queue *queue, uint32_t i)
{
    return &queue->events[(queue->first + i) % FAULT_EVENTS_MAX];
}

/** Keep an event behind all that are not due later, those of its connection among them. */
static void hold(struct fault_queue *queue, struct fault_conn *conn,
                 const struct wring_event *event, uint64_t due_ns)
{
    uint32_t at = queue->n++;
    for (; at > 0 && event_at(queue, at - 1)->due_ns > due_ns; at--)
        *event_at(queue, at) = *event_at(queue, at - 1);
    *event_at(queue, at) = (struct fault_event){*event, due_ns};
    conn->n_held++;
}

static bool take_arrival(struct fault_provider *provider, struct fault_conn *conn,
                         struct wring_event *event, uint64_t now)
{
    double ns = (double)event->bytes * provider->schedule.ns_per_byte;
    double through = provider->ingress_free_ns + ns;
    provider->ingress_free_ns = through > (double)now ? through : (double)now;
    uint64_t due = delayed(provider, &conn->arrived_due_ns, (uint64_t)provider->ingress_free_ns,
                           2 * provider->arrivals++);
    if (due <= now && conn->n_held == 0)
        return true;
    hold(&provider->arrived, conn, event, due);
    return false;
}

static bool take_message(struct fault_provider *provider, struct fault_conn *conn,
                         struct wring_event *event, uint64_t now)
{
    uint64_t due = delayed(provider, &conn->heard_due_ns, now, 2 * provider->messages_seen++ + 1);
    if (due <= now && conn->n_held == 0)
        return true;
    uint32_t text = provider->free_texts[--provider->n_free_texts];
    event->data = memcpy(provider->texts[text], event->data, event->bytes);
    hold(&provider->heard, conn, event, due);
    return false;
}

/** The end comes after all of it that is still held. */
static bool take_closed(struct fault_provider *provider, struct fault_conn *conn,
                        struct wring_event *event)
{
    conn->closed = true;
    forget_puts(provider, conn);
    wring_fault_copies_free(provider, conn);
    if (conn->n_held == 0)
        return true;
    strncpy(conn->text, event->text != NULL ? event->text : "", sizeof(conn->text) - 1);
    event->text = conn->text;
    hold(&provider->arrived, conn, event,
         conn->arrived_due_ns > conn->heard_due_ns ? conn->arrived_due_ns : conn->heard_due_ns);
    return false;
}

/** No memory for a new one: nothing more is heard of it. */
static void turn_away(struct fault_provider *provider, struct wring_event *events, size_t n)
{
    struct wring_conn *inner = events[0].conn;
    for (size_t i = 0; i < n; i++)
        if (events[i].conn == inner)
            events[i].conn = NULL;
    provider->inner->ops->disconnect(inner);
}

bool wring_fault_take_event(struct fault_provider *provider, struct wring_event *event, size_t n,
                            uint64_t now)
{
    if (event->conn == NULL)
        return false;
    struct fault_conn *conn = event->conn->user;
    if (event->kind == WRING_EVENT_ACCEPTED)
        conn = wring_fault_conn_create(provider, event->conn);
    if (conn == NULL) {
        turn_away(provider, event, n);
        return false;
    }
    event->conn = &conn->base;
    switch (event->kind) {
    case WRING_EVENT_ARRIVED:
        return take_arrival(provider, conn, event, now);
    case WRING_EVENT_MESSAGE:
        return take_message(provider, conn, event, now);
    case WRING_EVENT_CLOSED:
        return take_closed(provider, conn, event);
    case WRING_EVENT_PUT_DONE:
        wring_fault_put_done(provider, conn);
        return true;
    case WRING_EVENT_CONNECTED:
    case WRING_EVENT_ACCEPTED:
        return true;
    }
    return true;
}

/** A held message goes: its text may be used again, but not within this call. */
static void free_text(struct fault_provider *provider, const struct wring_event *event)
{
    if (event->kind != WRING_EVENT_MESSAGE)
        return;
    size_t at = (size_t)((const uint8_t *)event->data - provider->texts[0]) / WRING_SEND_MAX;
    provider->free_texts[provider->n_free_texts++] = (uint32_t)at;
}

static size_t release_from(struct fault_provider *provider, struct fault_queue *queue,
                           struct wring_event *events, size_t max, uint64_t now)
{
    size_t n = 0;
    while (n < max && queue->n > 0) {
        const struct fault_event *held = event_at(queue, 0);
        if (held->event.conn != NULL) {
            if (held->due_ns > now)
                break;
            fault_conn_of(held->event.conn)->n_held--;
            events[n++] = held->event;
        }
        free_text(provider, &held->event);
        queue->first = (queue->first + 1) % FAULT_EVENTS_MAX;
        queue->n--;
    }
    return n;
}

/** Connections that were cut here. */
static size_t tell_cuts(struct fault_provider *provider, struct wring_event *events, size_t max)
{
    size_t n = 0;
    for (struct fault_conn *conn = provider->conns;
         conn != NULL && n < max && provider->cuts_untold > 0; conn = conn->next) {
        if (!conn->cut_untold)
            continue;
        conn->cut_untold = false;
        provider->cuts_untold--;
        events[n++] = (struct wring_event){.kind = WRING_EVENT_CLOSED,
                                           .conn = &conn->base,
                                           .status = WRING_ERR_PEER,
                                           .text = conn->text};
    }
    return n;
}

size_t wring_fault_release_events(struct fault_provider *provider, struct wring_event *events,
                                  size_t max, uint64_t now)
{
    size_t n = release_from(provider, &provider->heard, events, max, now);
    /* an end stands in `arrived` and must not overtake a message that is due before it */
    n += release_from(provider, &provider->arrived, events + n, max - n, now);
    return n + tell_cuts(provider, events + n, max - n);
}

size_t wring_fault_room(const struct fault_provider *provider)
{
    uint32_t held =
        provider->arrived.n > provider->heard.n ? provider->arrived.n : provider->heard.n;
    return FAULT_EVENTS_MAX - held;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t queue_due(const struct fault_queue *queue)
{
    return queue->n > 0 ? queue->events[queue->first].due_ns : WRING_NEVER;
}

uint64_t wring_fault_next_due(const struct fault_provider *provider)
{
    uint64_t due = sooner(queue_due(&provider->arrived), queue_due(&provider->heard));
    return provider->cuts_untold > 0 ? 0 : sooner(due, puts_due(provider));
}

static void forget_events(struct fault_queue *queue, const struct fault_conn *conn)
{
    for (uint32_t i = 0; i < queue->n; i++)
        if (event_at(queue, i)->event.conn == &conn->base)
            event_at(queue, i)->event.conn = NULL;
}

void wring_fault_forget(struct fault_provider *provider, struct fault_conn *conn)
{
    forget_puts(provider, conn);
    forget_events(&provider->arrived, conn);
    forget_events(&provider->heard, conn);
    conn->n_held = 0;
    wring_fault_copies_free(provider, conn);
}
