/* SPDX-License-Identifier: Apache-2.0 */
/** The provider itself: wrapping, connections, poll and arm, and the table of it all. */
#include "transport/providers/fault/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
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
static struct fault_conn *next_sending_conn(const struct fault_provider *provider)
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

/* ---- puts that wait ---- */
static enum wring_status queue_put(struct fault_provider *provider, struct fault_conn *conn,
                                   const struct fault_put *put)
{
    if (conn->n == provider->caps.put_depth)
        return WRING_ERR_AGAIN;
    /* what waits for its time kept the link busy, however late it is looked at */
    uint64_t begin_ns = next_sending_conn(provider) != NULL ? 0 : wring_now_ns();
    struct fault_put *last = put_at(provider, conn, conn->n++);
    *last = *put;
    last->number = provider->posted++;
    last->due_ns = (uint64_t)take_link(&provider->egress_free_ns, begin_ns, put->bytes,
                                       provider->schedule.ns_per_byte);
    last->remote->waiting++;
    return WRING_OK;
}

static enum wring_status fault_copy_sources(struct wring_conn *base)
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

static void remote_drop(struct fault_remote *remote);

static void drop_first_put(const struct fault_provider *provider, struct fault_conn *conn)
{
    remote_drop(put_at(provider, conn, 0)->remote);
    conn->first = (conn->first + 1) % provider->caps.put_depth;
    conn->n--;
}

/** Let puts go whose time has come, in their order. */
static void release_puts(struct fault_provider *provider, uint64_t now)
{
    struct fault_conn *conn;

    for (conn = provider->conns; conn != NULL; conn = conn->next)
        conn->blocked = false;
    while ((conn = next_sending_conn(provider)) != NULL) {
        const struct fault_put *put = put_at(provider, conn, 0);
        if (put->due_ns > now)
            return;
        if (wring_fault_cut(provider, conn, put->bytes))
            continue;
        conn->blocked = wring_fault_deliver(provider, conn, put) == WRING_ERR_AGAIN;
        if (!conn->blocked) /* it was sound: any other failure shows as the connection's end */
            drop_first_put(provider, conn);
    }
}

static void forget_puts(const struct fault_provider *provider, struct fault_conn *conn)
{
    while (conn->n > 0)
        drop_first_put(provider, conn);
}

/** When the next of them leaves. */
static uint64_t next_put_due(const struct fault_provider *provider)
{
    struct fault_conn *conn = next_sending_conn(provider);
    /* one that is blocked goes on with the inner provider's next event */
    return conn != NULL ? put_at(provider, conn, 0)->due_ns : WRING_NEVER;
}

/* ---- what was seen and is not due ---- */

/** When something that comes at `at_ns` is seen: not before the last one, so that order stays. */
static uint64_t advance_due_time(const struct fault_provider *provider, uint64_t *last_due_ns,
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
static void hold_event(struct fault_queue *queue, struct fault_conn *conn,
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
    uint64_t due = advance_due_time(provider, &conn->arrived_due_ns,
                                    (uint64_t)provider->ingress_free_ns, 2 * provider->arrivals++);
    if (due <= now && conn->n_held == 0)
        return true;
    hold_event(&provider->arrived, conn, event, due);
    return false;
}

static bool take_message(struct fault_provider *provider, struct fault_conn *conn,
                         struct wring_event *event, uint64_t now)
{
    uint64_t due =
        advance_due_time(provider, &conn->heard_due_ns, now, 2 * provider->messages_seen++ + 1);
    if (due <= now && conn->n_held == 0)
        return true;
    uint32_t text = provider->free_texts[--provider->n_free_texts];
    event->data = memcpy(provider->texts[text], event->data, event->bytes);
    hold_event(&provider->heard, conn, event, due);
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
    hold_event(&provider->arrived, conn, event,
               conn->arrived_due_ns > conn->heard_due_ns ? conn->arrived_due_ns
                                                         : conn->heard_due_ns);
    return false;
}

/** No memory for a new one: nothing more is heard of it. */
static void turn_away_conn(struct fault_provider *provider, struct wring_event *events, size_t n)
{
    struct wring_conn *inner = events[0].conn;
    for (size_t i = 0; i < n; i++)
        if (events[i].conn == inner)
            events[i].conn = NULL;
    provider->inner->ops->disconnect(inner);
}

static struct fault_conn *conn_create(struct fault_provider *provider, struct wring_conn *inner);

struct wring_path wring_fault_path(const struct wring_fault_schedule *schedule,
                                   struct wring_path path)
{
    path.round_trip_ns += 2 * schedule->delay_ns; /* of this rank and of the other */
    if (schedule->ns_per_byte > 0)
        path.bytes_per_s = (uint64_t)(1e9 / schedule->ns_per_byte);
    return path;
}

/**
 * Translate the first of n inner events, which may be held. Those behind it that it takes along,
 * as their connection has no place, lose their conn. @return true if it can be handed out at once
 */
static bool take_event(struct fault_provider *provider, struct wring_event *event, size_t n,
                       uint64_t now)
{
    if (event->conn == NULL)
        return false;
    struct fault_conn *conn = event->conn->user;
    if (event->kind == WRING_EVENT_ACCEPTED)
        conn = conn_create(provider, event->conn);
    if (conn == NULL) {
        turn_away_conn(provider, event, n);
        return false;
    }
    event->conn = &conn->base;
    if (event->kind == WRING_EVENT_CONNECTED || event->kind == WRING_EVENT_ACCEPTED)
        conn->base.path = wring_fault_path(&provider->schedule, conn->inner->path);
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

static size_t release_queue(struct fault_provider *provider, struct fault_queue *queue,
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

/** Hand out what is due. @return events written */
static size_t release_events(struct fault_provider *provider, struct wring_event *events,
                             size_t max, uint64_t now)
{
    size_t n = release_queue(provider, &provider->heard, events, max, now);
    /* an end stands in `arrived` and must not overtake a message that is due before it */
    n += release_queue(provider, &provider->arrived, events + n, max - n, now);
    return n + tell_cuts(provider, events + n, max - n);
}

/** How many events the inner provider may report now. */
static size_t event_room(const struct fault_provider *provider)
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

/** When something that waits is due next, puts as well. */
static uint64_t next_due(const struct fault_provider *provider)
{
    uint64_t due = sooner(queue_due(&provider->arrived), queue_due(&provider->heard));
    return provider->cuts_untold > 0 ? 0 : sooner(due, next_put_due(provider));
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

/* ---- regions ---- */

/* Regions are the inner provider's own: nothing is to be delayed there. */

static enum wring_status fault_region_create(struct wring_provider *base,
                                             const struct wring_memory *memory,
                                             struct wring_region **out)
{
    return fault_of(base)->inner->ops->region_create(fault_of(base)->inner, memory, out);
}

static void fault_region_destroy(struct wring_region *region)
{
    if (region != NULL)
        region->provider->ops->region_destroy(region);
}

static enum wring_status fault_region_revoke(struct wring_region *region)
{
    return region->provider->ops->region_revoke(region);
}

static enum wring_status fault_region_flush(struct wring_region *region, const void *at,
                                            uint64_t *ticket)
{
    return region->provider->ops->region_flush(region, at, ticket);
}

static size_t fault_region_export(struct wring_region *region, void *key)
{
    return region->provider->ops->region_export(region, key);
}

static enum wring_status fault_remote_import(struct wring_conn *base, const void *key,
                                             size_t key_bytes, struct wring_remote **out)
{
    struct wring_provider *inner = fault_of(base->provider)->inner;
    if (fault_conn_of(base)->inner == NULL)
        return WRING_ERR_CLOSED;
    struct fault_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status =
        inner->ops->remote_import(fault_conn_of(base)->inner, key, key_bytes, &remote->inner);
    if (status != WRING_OK) {
        free(remote);
        return status;
    }
    remote->base = (struct wring_remote){base, remote->inner->bytes};
    remote->provider = inner;
    *out = &remote->base;
    return WRING_OK;
}

static void remote_free_if_unused(struct fault_remote *remote)
{
    if (!remote->released || remote->waiting > 0)
        return;
    remote->provider->ops->remote_release(remote->inner);
    free(remote);
}

/** A put that waited for it has left, or never will. */
static void remote_drop(struct fault_remote *remote)
{
    remote->waiting--;
    remote_free_if_unused(remote);
}

/** The layer above forgets it; puts that were accepted before go there still. */
static void fault_remote_release(struct wring_remote *base)
{
    struct fault_remote *remote = (struct fault_remote *)base;
    if (remote == NULL)
        return;
    remote->released = true;
    remote_free_if_unused(remote);
}

static bool lies_in(const struct wring_region *region, const void *local, size_t bytes)
{
    uintptr_t begin = (uintptr_t)local, base = (uintptr_t)region->base;
    return begin >= base && begin - base <= region->bytes &&
           bytes <= region->bytes - (begin - base);
}

/** Would the inner provider take the put? It would refuse too late, when the put has been
 *  accepted. */
static bool put_is_sound(const struct wring_provider_caps *caps, const struct wring_region *region,
                         const void *local, const struct wring_remote *remote, uint64_t offset,
                         size_t bytes)
{
    if (bytes > caps->put_max_bytes || (bytes > 0 && local == NULL))
        return false;
    if (offset > remote->bytes || bytes > remote->bytes - offset)
        return false;
    if (bytes == 0)
        return true;
    return region != NULL ? lies_in(region, local, bytes) : caps->local_any;
}

static enum wring_status fault_accept_put(struct wring_conn *base, struct wring_region *region,
                                          const void *local, struct wring_remote *remote,
                                          uint64_t remote_offset, size_t bytes, uint32_t imm,
                                          uint64_t cookie)
{
    struct fault_provider *provider = fault_of(base->provider);
    struct wring_remote *inner_remote = ((struct fault_remote *)remote)->inner;
    if (remote->conn != base ||
        !put_is_sound(&provider->caps, region, local, inner_remote, remote_offset, bytes))
        return WRING_ERR_INVALID;
    if (fault_conn_of(base)->closed)
        return WRING_ERR_CLOSED;
    const struct fault_put put = {
        .region = region,
        .local = local,
        .remote = (struct fault_remote *)remote,
        .remote_offset = remote_offset,
        .cookie = cookie,
        .bytes = bytes,
        .imm = imm,
    };
    return queue_put(provider, fault_conn_of(base), &put);
}

/* ---- the provider ---- */

#define BATCH 32
#define SOON_NS 2000 /* not worth going to sleep for */

/** A connection of the inner provider's, for the layer above. @return NULL: no memory */
static struct fault_conn *conn_create(struct fault_provider *provider, struct wring_conn *inner)
{
    const struct wring_provider_caps *caps = &provider->caps;
    struct fault_conn *conn =
        calloc(1, sizeof(*conn) + (size_t)caps->put_depth * sizeof(struct fault_put));
    if (conn == NULL)
        return NULL;
    conn->base.provider = &provider->base;
    conn->inner = inner;
    conn->next = provider->conns;
    provider->conns = conn;
    inner->user = conn;
    return conn;
}

static void fault_disconnect(struct wring_conn *base)
{
    struct fault_conn *conn = fault_conn_of(base);
    if (conn == NULL)
        return;
    struct fault_provider *provider = fault_of(base->provider);
    wring_fault_forget(provider, conn);
    provider->cuts_untold -= conn->cut_untold;
    struct fault_conn **at = &provider->conns;
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    provider->inner->ops->disconnect(conn->inner); /* NULL where it was cut */
    free(conn);
}

static void fault_close(struct wring_provider *base)
{
    struct fault_provider *provider = fault_of(base);
    if (provider == NULL)
        return;
    while (provider->conns != NULL)
        fault_disconnect(&provider->conns->base);
    provider->inner->ops->close(provider->inner);
    wring_descriptor_close(provider->timer);
    free(provider);
}

static void fault_capabilities(struct wring_provider *base, struct wring_provider_caps *out)
{
    *out = fault_of(base)->caps;
    out->remote_map = false; /* it would go round the link */
    out->put_copies = false; /* puts wait for their time */
}

static enum wring_status fault_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    return fault_of(base)->inner->ops->listen(fault_of(base)->inner, address, bytes);
}

static enum wring_status fault_reaches(struct wring_provider *base, const void *one,
                                       size_t one_bytes, const void *other, size_t other_bytes,
                                       char *reason, size_t bytes)
{
    struct wring_provider *inner = fault_of(base)->inner;
    return inner->ops->reaches(inner, one, one_bytes, other, other_bytes, reason, bytes);
}

static size_t fault_reach_kind(struct wring_provider *base, const void *address, size_t bytes,
                               const void **kind)
{
    struct wring_provider *inner = ((struct fault_provider *)base)->inner;
    return inner->ops->reach_kind(inner, address, bytes, kind);
}

static enum wring_status fault_connect(struct wring_provider *base, const void *address,
                                       size_t address_bytes, const void *hello, size_t hello_bytes,
                                       struct wring_conn **out)
{
    struct wring_provider *inner = fault_of(base)->inner;
    struct wring_conn *inner_conn;
    enum wring_status status =
        inner->ops->connect(inner, address, address_bytes, hello, hello_bytes, &inner_conn);
    if (status != WRING_OK)
        return status;
    struct fault_conn *conn = conn_create(fault_of(base), inner_conn);
    if (conn == NULL) {
        inner->ops->disconnect(inner_conn);
        return WRING_ERR_NO_MEMORY;
    }
    *out = &conn->base;
    return WRING_OK;
}

static void fault_memory_gone(struct wring_provider *base, const void *memory, size_t bytes)
{
    fault_of(base)->inner->ops->memory_gone(fault_of(base)->inner, memory, bytes);
}

/** Set the timer to an absolute time; 0 stops it. */
static void set_timer(struct fault_provider *provider, uint64_t at_ns)
{
    const struct itimerspec when = {
        .it_value = {(time_t)(at_ns / WRING_NS_PER_S), (long)(at_ns % WRING_NS_PER_S)}};
    timerfd_settime(provider->timer, TFD_TIMER_ABSTIME, &when, NULL);
    provider->timing = at_ns != 0;
}

static size_t poll_link(struct fault_provider *provider, struct wring_event *events, size_t max)
{
    uint64_t now = wring_now_ns();
    release_puts(provider, now);
    size_t n = release_events(provider, events, max, now);
    if (n > 0) /* what they point to must outlive this call */
        return n;

    struct wring_event inner[BATCH];
    size_t room = event_room(provider);
    size_t wanted = max < BATCH ? max : BATCH;
    wanted = wanted < room ? wanted : room;
    if (wanted == 0)
        return 0;
    size_t got = provider->inner->ops->poll(provider->inner, inner, wanted);
    now = wring_now_ns();
    for (size_t i = 0; i < got; i++)
        if (take_event(provider, &inner[i], got - i, now))
            events[n++] = inner[i];
    return n;
}

static size_t fault_poll(struct wring_provider *base, struct wring_event *events, size_t max)
{
    struct fault_provider *provider = fault_of(base);
    bool armed = provider->armed;
    provider->armed = false;
    if (provider->timing)
        set_timer(provider, 0);
    size_t n = poll_link(provider, events, max);
    uint64_t due = next_due(provider);
    if (armed && n == 0 && due < provider->known_due_ns) /* it came after arm */
        set_timer(provider, due > 0 ? due : 1);
    return n;
}

static void fault_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct fault_provider *provider = fault_of(base);
    provider->inner->ops->arm(provider->inner, set);
    uint64_t due = next_due(provider);
    provider->armed = true;
    provider->known_due_ns = due;
    if (due < set->deadline_ns)
        set->deadline_ns = due;
    if (due < wring_now_ns() + SOON_NS || set->n == sizeof(set->fds) / sizeof(set->fds[0]))
        set->busy = true;
    else
        set->fds[set->n++] = (struct pollfd){.fd = provider->timer, .events = POLLIN};
}

static enum wring_status fault_probe(char *reason, size_t bytes)
{
    (void)reason, (void)bytes;
    return WRING_OK;
}

/** It is not opened by itself but wrapped around something. */
static enum wring_status fault_open(const struct wring_provider_params *params,
                                    struct wring_provider **out)
{
    (void)out;
    wring_error(params->log, "fault wraps another provider: set WRING_FAULT, not WRING_PROVIDER");
    return WRING_ERR_INVALID;
}

static const struct wring_provider_ops fault_ops = {
    .name = "fault",
    .doc = "wraps any other and makes its link slow, late, corrupt or short-lived (WRING_FAULT)",
    .probe = fault_probe,
    .suits = wring_suits_always,
    .open = fault_open,
    .close = fault_close,
    .capabilities = fault_capabilities,
    .listen = fault_listen,
    .reaches = fault_reaches,
    .reach_kind = fault_reach_kind,
    .connect = fault_connect,
    .disconnect = fault_disconnect,
    .region_create = fault_region_create,
    .region_destroy = fault_region_destroy,
    .region_revoke = fault_region_revoke,
    .region_flush = fault_region_flush,
    .memory_gone = fault_memory_gone,
    .region_export = fault_region_export,
    .remote_import = fault_remote_import,
    .remote_release = fault_remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = fault_accept_put,
    .copy_sources = fault_copy_sources,
    .send = wring_fault_send,
    .spoil = wring_unsupported_spoil,
    .poll = fault_poll,
    .arm = fault_arm,
};

/** Errors, logged: WRING_ERR_INVALID, WRING_ERR_UNSUPPORTED. */
static enum wring_status read_schedule(struct fault_provider *provider, const char *text,
                                       const struct wring_provider_params *params)
{
    struct wring_fault_schedule *schedule = &provider->schedule;
    char why[160];
    if (!wring_fault_parse(text, schedule, why, sizeof(why))) {
        wring_error(params->log, "WRING_FAULT=%s: %s", text, why);
        return WRING_ERR_INVALID;
    }
    if (schedule->rank >= 0 && params->size > 0 && schedule->rank >= params->size) {
        wring_error(params->log, "WRING_FAULT=%s: the job has only the ranks 0 to %u", text,
                    params->size - 1);
        return WRING_ERR_INVALID;
    }
    if (schedule->corrupt > 0 && !provider->caps.local_any) {
        wring_error(params->log,
                    "WRING_FAULT=%s: what %s carries cannot be corrupted, its device checks it; "
                    "take WRING_PROVIDER=tcp or shm for corrupt=",
                    text, provider->inner->ops->name);
        return WRING_ERR_UNSUPPORTED;
    }
    if (schedule->rank >= 0 && schedule->rank != params->rank)
        *schedule = (struct wring_fault_schedule){.rank = schedule->rank}; /* not meant */
    return WRING_OK;
}

enum wring_status wring_fault_wrap(const char *schedule, const struct wring_provider_params *params,
                                   struct wring_provider *inner, struct wring_provider **out)
{
    struct fault_provider *provider = calloc(1, sizeof(*provider));
    if (provider == NULL)
        return WRING_ERR_NO_MEMORY;
    provider->base.ops = &fault_ops;
    provider->inner = inner;
    provider->log = params->log;
    provider->rank = params->rank;
    while (provider->n_free_texts < FAULT_EVENTS_MAX) {
        provider->free_texts[provider->n_free_texts] = provider->n_free_texts;
        provider->n_free_texts++;
    }
    inner->ops->capabilities(inner, &provider->caps);
    enum wring_status status = read_schedule(provider, schedule, params);
    if (status != WRING_OK)
        goto free_provider;
    provider->timer = WRING_DESCRIPTOR(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    if (provider->timer < 0) {
        wring_error(params->log, "no timer for WRING_FAULT: %s", WRING_REFUSED("timerfd_create"));
        status = WRING_ERR_SYSTEM;
        goto free_provider;
    }
    *out = &provider->base;
    return WRING_OK;

free_provider:
    free(provider);
    return status;
}
