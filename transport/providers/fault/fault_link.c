/* SPDX-License-Identifier: Apache-2.0 */
/** The emulated link: puts wait until it has had time for them, what arrives until it is due. */
#include <string.h>

#include "base/clock.h"
#include "transport/providers/fault/fault_private.h"

/** Take the link for some bytes. @return when the last of them is through */
static double take_link(double *free_ns, uint64_t begin_ns, size_t bytes, double ns_per_byte)
{
    double begin = *free_ns > (double)begin_ns ? *free_ns : (double)begin_ns;
    return *free_ns = begin + (double)bytes * ns_per_byte;
}

enum wring_status wring_fault_queue_put(struct fault_provider *provider,
                                        const struct fault_put *put)
{
    if (provider->n_waiting == FAULT_PUTS_MAX)
        return WRING_ERR_AGAIN;
    /* a queue that is not empty kept the link busy, however late it is looked at */
    uint64_t begin_ns = provider->n_waiting > 0 ? 0 : wring_now_ns();
    uint32_t last = (provider->first_waiting + provider->n_waiting++) % FAULT_PUTS_MAX;
    provider->waiting[last] = *put;
    provider->waiting[last].due_ns = (uint64_t)take_link(
        &provider->egress_free_ns, begin_ns, put->bytes, provider->schedule.ns_per_byte);
    return WRING_OK;
}

void wring_fault_release_puts(struct fault_provider *provider, uint64_t now)
{
    while (provider->n_waiting > 0) {
        struct fault_put *put = &provider->waiting[provider->first_waiting];
        if (put->conn != NULL && !put->conn->closed) {
            if (put->due_ns > now)
                return;
            if (!wring_fault_cut(provider, put->conn, put->bytes) &&
                wring_fault_deliver(provider, put) == WRING_ERR_AGAIN)
                return;
            /* it was sound: any other failure shows as the connection's end */
        }
        provider->first_waiting = (provider->first_waiting + 1) % FAULT_PUTS_MAX;
        provider->n_waiting--;
    }
}

/** When something that comes at `at_ns` is seen: later than all before it, so that order stays. */
static uint64_t delayed(const struct fault_provider *provider, const struct fault_queue *queue,
                        uint64_t at_ns, uint64_t n)
{
    const struct wring_fault_schedule *schedule = &provider->schedule;
    uint64_t due = at_ns + schedule->delay_ns;
    if (schedule->jitter_ns > 0)
        due += wring_fault_random(schedule, provider->rank, WRING_FAULT_JITTER, n) %
               (schedule->jitter_ns + 1);
    return due > queue->last_due_ns ? due : queue->last_due_ns;
}

/** @return the place of the held event */
static uint32_t hold(struct fault_queue *queue, const struct wring_event *event, uint64_t due_ns)
{
    uint32_t last = (queue->first + queue->n++) % FAULT_EVENTS_MAX;
    queue->events[last] = (struct fault_event){*event, due_ns};
    queue->last_due_ns = due_ns;
    return last;
}

static bool take_arrival(struct fault_provider *provider, struct wring_event *event, uint64_t now)
{
    double ns = (double)event->bytes * provider->schedule.ns_per_byte;
    double through = provider->ingress_free_ns + ns;
    provider->ingress_free_ns = through > (double)now ? through : (double)now;
    uint64_t due = delayed(provider, &provider->arrived, (uint64_t)provider->ingress_free_ns,
                           2 * provider->arrivals++);
    if (due <= now && provider->arrived.n == 0)
        return true;
    hold(&provider->arrived, event, due);
    return false;
}

static bool take_message(struct fault_provider *provider, struct wring_event *event, uint64_t now)
{
    uint64_t due = delayed(provider, &provider->heard, now, 2 * provider->messages_seen++ + 1);
    if (due <= now && provider->heard.n == 0)
        return true;
    uint32_t at = hold(&provider->heard, event, due);
    provider->heard.events[at].event.data = memcpy(provider->texts[at], event->data, event->bytes);
    return false;
}

/** The end comes after all that is still held. */
static bool take_closed(struct fault_provider *provider, struct fault_conn *conn,
                        struct wring_event *event)
{
    conn->closed = true;
    wring_fault_copies_free(provider, conn);
    if (provider->arrived.n == 0 && provider->heard.n == 0)
        return true;
    strncpy(conn->text, event->text != NULL ? event->text : "", sizeof(conn->text) - 1);
    event->text = conn->text;
    uint64_t due = provider->arrived.last_due_ns;
    hold(&provider->arrived, event,
         due > provider->heard.last_due_ns ? due : provider->heard.last_due_ns);
    return false;
}

bool wring_fault_take_event(struct fault_provider *provider, struct wring_event *event,
                            uint64_t now)
{
    struct fault_conn *conn = event->conn->user;
    if (event->kind == WRING_EVENT_ACCEPTED)
        conn = wring_fault_conn_create(provider, event->conn);
    if (conn == NULL) { /* no memory for a new one */
        provider->inner->ops->disconnect(event->conn);
        return false;
    }
    event->conn = &conn->base;
    switch (event->kind) {
    case WRING_EVENT_ARRIVED:
        return take_arrival(provider, event, now);
    case WRING_EVENT_MESSAGE:
        return take_message(provider, event, now);
    case WRING_EVENT_CLOSED:
        return take_closed(provider, conn, event);
    case WRING_EVENT_PUT_DONE:
        if (provider->copies != NULL)
            wring_fault_copy_done(provider, conn, event->cookie);
        return true;
    case WRING_EVENT_CONNECTED:
    case WRING_EVENT_ACCEPTED:
        return true;
    }
    return true;
}

static size_t release_from(struct fault_queue *queue, struct wring_event *events, size_t max,
                           uint64_t now)
{
    size_t n = 0;
    while (n < max && queue->n > 0) {
        const struct fault_event *held = &queue->events[queue->first];
        if (held->event.conn != NULL) {
            if (held->due_ns > now)
                break;
            events[n++] = held->event;
        }
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
    size_t n = release_from(&provider->heard, events, max, now);
    /* an end stands in `arrived` and must not overtake a message that is due before it */
    n += release_from(&provider->arrived, events + n, max - n, now);
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
    if (provider->n_waiting > 0)
        due = sooner(due, provider->waiting[provider->first_waiting].due_ns);
    return provider->cuts_untold > 0 ? 0 : due;
}

static void forget_events(struct fault_queue *queue, const struct fault_conn *conn)
{
    for (uint32_t i = 0; i < queue->n; i++) {
        struct fault_event *held = &queue->events[(queue->first + i) % FAULT_EVENTS_MAX];
        if (held->event.conn == &conn->base)
            held->event.conn = NULL;
    }
}

void wring_fault_forget(struct fault_provider *provider, struct fault_conn *conn)
{
    for (uint32_t i = 0; i < provider->n_waiting; i++) {
        struct fault_put *put = &provider->waiting[(provider->first_waiting + i) % FAULT_PUTS_MAX];
        if (put->conn == conn)
            put->conn = NULL;
    }
    forget_events(&provider->arrived, conn);
    forget_events(&provider->heard, conn);
    wring_fault_copies_free(provider, conn);
}
