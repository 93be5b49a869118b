/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/fault.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define WRING_MODULE "fault"
#define PUTS_MAX 1024 /* waiting for the link */
#define EVENTS_MAX 1024
#define BATCH 32
#define SOON_NS 2000 /* not worth going to sleep for */
#define CLOSED_TEXT 256

struct fault_conn {
    struct wring_conn base;
    struct wring_conn *inner;
    struct fault_conn *next;
    bool closed; /* its CLOSED came, and may still wait behind arrivals */
    char text[CLOSED_TEXT];
};

struct fault_remote {
    struct wring_remote base;
    struct wring_provider *provider; /* inner */
    struct wring_remote *inner;
};

/** A put that has not left yet. */
struct fault_put {
    struct fault_conn *conn; /* NULL: its connection is gone */
    struct wring_region *region;
    const void *local;
    struct wring_remote *remote; /* inner */
    uint64_t remote_offset, cookie, due_ns;
    size_t bytes;
    uint32_t lane, imm;
};

/** An arrival, or an end, that the layer above has not seen yet. */
struct fault_event {
    struct wring_event event; /* conn NULL: its connection is gone */
    uint64_t due_ns;
};

struct fault_provider {
    struct wring_provider base;
    struct wring_provider *inner;
    struct wring_provider_caps caps; /* of inner */
    struct wring_fault_schedule schedule;
    struct fault_conn *conns;
    struct fault_put puts[PUTS_MAX];
    struct fault_event events[EVENTS_MAX];
    uint32_t first_put, n_puts, first_event, n_events;
    double egress_free_ns, ingress_free_ns; /* when the link's two directions are idle again */
    int timer;                              /* wakes a sleeper who does not know of what is due */
    bool armed, timing;    /* the caller may sleep after the next poll; the timer is set */
    uint64_t known_due_ns; /* what arm told him */
};

static struct fault_provider *of(struct wring_provider *base)
{
    return (struct fault_provider *)base;
}

static struct fault_conn *conn_of(struct wring_conn *base)
{
    return (struct fault_conn *)base;
}

static struct fault_conn *wrap_conn(struct fault_provider *provider, struct wring_conn *inner)
{
    struct fault_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->base.provider = &provider->base;
    conn->inner = inner;
    conn->next = provider->conns;
    provider->conns = conn;
    inner->user = conn;
    return conn;
}

static void fault_close(struct wring_provider *base)
{
    struct fault_provider *provider = of(base);
    if (provider == NULL)
        return;
    provider->inner->ops->close(provider->inner);
    while (provider->conns != NULL) {
        struct fault_conn *conn = provider->conns;
        provider->conns = conn->next;
        free(conn);
    }
    close(provider->timer);
    free(provider);
}

static void fault_capabilities(struct wring_provider *base, struct wring_provider_caps *out)
{
    *out = of(base)->caps;
    out->remote_map = false; /* it would go round the link */
}

static enum wring_status fault_listen(struct wring_provider *base, void *address, size_t *bytes)
{
    return of(base)->inner->ops->listen(of(base)->inner, address, bytes);
}

static enum wring_status fault_connect(struct wring_provider *base, const void *address,
                                       size_t address_bytes, const void *hello, size_t hello_bytes,
                                       struct wring_conn **out)
{
    struct wring_provider *inner = of(base)->inner;
    struct wring_conn *inner_conn;
    enum wring_status status =
        inner->ops->connect(inner, address, address_bytes, hello, hello_bytes, &inner_conn);
    if (status != WRING_OK)
        return status;
    struct fault_conn *conn = wrap_conn(of(base), inner_conn);
    if (conn == NULL) {
        inner->ops->disconnect(inner_conn);
        return WRING_ERR_NO_MEMORY;
    }
    *out = &conn->base;
    return WRING_OK;
}

static void fault_disconnect(struct wring_conn *base)
{
    struct fault_conn *conn = conn_of(base);
    if (conn == NULL)
        return;
    struct fault_provider *provider = of(base->provider);
    for (uint32_t i = 0; i < provider->n_puts; i++) {
        struct fault_put *put = &provider->puts[(provider->first_put + i) % PUTS_MAX];
        if (put->conn == conn)
            put->conn = NULL;
    }
    for (uint32_t i = 0; i < provider->n_events; i++) {
        struct fault_event *event = &provider->events[(provider->first_event + i) % EVENTS_MAX];
        if (event->event.conn == base)
            event->event.conn = NULL;
    }
    struct fault_conn **at = &provider->conns;
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
    provider->inner->ops->disconnect(conn->inner);
    free(conn);
}

/* Regions are the inner provider's own: nothing is to be delayed there. */

static enum wring_status fault_region_create(struct wring_provider *base,
                                             const struct wring_memory *memory,
                                             struct wring_region **out)
{
    return of(base)->inner->ops->region_create(of(base)->inner, memory, out);
}

static void fault_region_destroy(struct wring_region *region)
{
    if (region != NULL)
        region->provider->ops->region_destroy(region);
}

static size_t fault_region_export(struct wring_region *region, void *key)
{
    return region->provider->ops->region_export(region, key);
}

static enum wring_status fault_remote_import(struct wring_conn *base, const void *key,
                                             size_t key_bytes, struct wring_remote **out)
{
    struct wring_provider *inner = of(base->provider)->inner;
    struct fault_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status =
        inner->ops->remote_import(conn_of(base)->inner, key, key_bytes, &remote->inner);
    if (status != WRING_OK) {
        free(remote);
        return status;
    }
    remote->base = (struct wring_remote){base, remote->inner->bytes};
    remote->provider = inner;
    *out = &remote->base;
    return WRING_OK;
}

static void fault_remote_release(struct wring_remote *base)
{
    struct fault_remote *remote = (struct fault_remote *)base;
    if (remote == NULL)
        return;
    remote->provider->ops->remote_release(remote->inner);
    free(remote);
}

/** Take the link for some bytes. @return when the last of them is through */
static double take_link(double *free_ns, uint64_t begin_ns, size_t bytes, double ns_per_byte)
{
    double begin = *free_ns > (double)begin_ns ? *free_ns : (double)begin_ns;
    return *free_ns = begin + (double)bytes * ns_per_byte;
}

static bool lies_in(const struct wring_region *region, const void *local, size_t bytes)
{
    uintptr_t begin = (uintptr_t)local, base = (uintptr_t)region->base;
    return begin >= base && begin - base <= region->bytes &&
           bytes <= region->bytes - (begin - base);
}

/** What the inner provider would refuse, it refuses too late: the put was accepted by then. */
static bool put_is_sound(const struct wring_provider_caps *caps, unsigned lane,
                         const struct wring_region *region, const void *local,
                         const struct wring_remote *remote, uint64_t offset, size_t bytes)
{
    if (lane >= caps->lanes || bytes > caps->put_max_bytes || (bytes > 0 && local == NULL))
        return false;
    if (offset > remote->bytes || bytes > remote->bytes - offset)
        return false;
    if (region == NULL)
        return caps->local_any;
    return bytes == 0 || lies_in(region, local, bytes);
}

static enum wring_status fault_put(struct wring_conn *base, unsigned lane,
                                   struct wring_region *region, const void *local,
                                   struct wring_remote *remote, uint64_t remote_offset,
                                   size_t bytes, uint32_t imm, uint64_t cookie)
{
    struct fault_provider *provider = of(base->provider);
    struct wring_remote *inner_remote = ((struct fault_remote *)remote)->inner;
    if (remote->conn != base ||
        !put_is_sound(&provider->caps, lane, region, local, inner_remote, remote_offset, bytes))
        return WRING_ERR_INVALID;
    if (conn_of(base)->closed)
        return WRING_ERR_CLOSED;
    if (provider->n_puts == PUTS_MAX)
        return WRING_ERR_AGAIN;

    /* a queue that is not empty kept the link busy, however late it is looked at */
    uint64_t begin_ns = provider->n_puts > 0 ? 0 : wring_now_ns();
    double due =
        take_link(&provider->egress_free_ns, begin_ns, bytes, provider->schedule.ns_per_byte);
    uint32_t last = (provider->first_put + provider->n_puts++) % PUTS_MAX;
    provider->puts[last] = (struct fault_put){
        .conn = conn_of(base),
        .region = region,
        .local = local,
        .remote = inner_remote,
        .remote_offset = remote_offset,
        .cookie = cookie,
        .due_ns = (uint64_t)due,
        .bytes = bytes,
        .lane = lane,
        .imm = imm,
    };
    return WRING_OK;
}

static enum wring_status fault_send(struct wring_conn *base, const void *data, size_t bytes)
{
    struct fault_conn *conn = conn_of(base);
    return conn->closed ? WRING_ERR_CLOSED
                        : conn->inner->provider->ops->send(conn->inner, data, bytes);
}

/** Let puts go whose time has come, in their order. */
static void release_puts(struct fault_provider *provider, uint64_t now)
{
    while (provider->n_puts > 0) {
        struct fault_put *put = &provider->puts[provider->first_put];
        if (put->conn != NULL && !put->conn->closed) {
            if (put->due_ns > now)
                return;
            enum wring_status status = provider->inner->ops->put(
                put->conn->inner, put->lane, put->region, put->local, put->remote,
                put->remote_offset, put->bytes, put->imm, put->cookie);
            if (status == WRING_ERR_AGAIN)
                return;
            /* it was sound: any other failure shows as the connection's end */
        }
        provider->first_put = (provider->first_put + 1) % PUTS_MAX;
        provider->n_puts--;
    }
}

static void hold(struct fault_provider *provider, const struct wring_event *event, double due_ns)
{
    uint32_t last = (provider->first_event + provider->n_events++) % EVENTS_MAX;
    provider->events[last] = (struct fault_event){*event, (uint64_t)due_ns};
}

/** Translate an inner event. @return true if it can be handed out at once */
static bool take_event(struct fault_provider *provider, struct wring_event *event, uint64_t now)
{
    struct fault_conn *conn = event->conn->user;
    if (event->kind == WRING_EVENT_ACCEPTED)
        conn = wrap_conn(provider, event->conn);
    if (conn == NULL) { /* no memory for a new one */
        provider->inner->ops->disconnect(event->conn);
        return false;
    }
    event->conn = &conn->base;
    if (event->kind == WRING_EVENT_ARRIVED) {
        double ns = (double)event->bytes * provider->schedule.ns_per_byte;
        double due = provider->ingress_free_ns + ns;
        provider->ingress_free_ns = due > (double)now ? due : (double)now;
        if (due <= (double)now && provider->n_events == 0)
            return true;
        hold(provider, event, provider->ingress_free_ns);
        return false;
    }
    if (event->kind == WRING_EVENT_CLOSED)
        conn->closed = true;
    if (event->kind == WRING_EVENT_CLOSED && provider->n_events > 0) {
        strncpy(conn->text, event->text != NULL ? event->text : "", sizeof(conn->text) - 1);
        event->text = conn->text;
        hold(provider, event, provider->ingress_free_ns);
        return false;
    }
    return true;
}

static size_t release_events(struct fault_provider *provider, struct wring_event *events,
                             size_t max, uint64_t now)
{
    size_t n = 0;
    while (n < max && provider->n_events > 0) {
        const struct fault_event *held = &provider->events[provider->first_event];
        if (held->event.conn != NULL) {
            if (held->due_ns > now)
                break;
            events[n++] = held->event;
        }
        provider->first_event = (provider->first_event + 1) % EVENTS_MAX;
        provider->n_events--;
    }
    return n;
}

/** When something that waits is due; WRING_NEVER where nothing waits. */
static uint64_t next_due(const struct fault_provider *provider)
{
    uint64_t due = WRING_NEVER;
    if (provider->n_puts > 0)
        due = provider->puts[provider->first_put].due_ns;
    if (provider->n_events > 0 && provider->events[provider->first_event].due_ns < due)
        due = provider->events[provider->first_event].due_ns;
    return due;
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
    size_t room = EVENTS_MAX - provider->n_events;
    size_t wanted = max < BATCH ? max : BATCH;
    size_t got = provider->inner->ops->poll(provider->inner, inner, wanted < room ? wanted : room);
    now = wring_now_ns();
    for (size_t i = 0; i < got; i++)
        if (take_event(provider, &inner[i], now))
            events[n++] = inner[i];
    return n;
}

static size_t fault_poll(struct wring_provider *base, struct wring_event *events, size_t max)
{
    struct fault_provider *provider = of(base);
    bool armed = provider->armed;
    provider->armed = false;
    if (provider->timing)
        set_timer(provider, 0);
    size_t n = poll_link(provider, events, max);
    uint64_t due = next_due(provider);
    if (armed && n == 0 && due < provider->known_due_ns) /* it came after arm */
        set_timer(provider, due);
    return n;
}

static void fault_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct fault_provider *provider = of(base);
    uint64_t due = next_due(provider);
    provider->inner->ops->arm(provider->inner, set);
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
    .doc = "wraps any other and emulates a slow link (WRING_FAULT)",
    .probe = fault_probe,
    .open = fault_open,
    .close = fault_close,
    .capabilities = fault_capabilities,
    .listen = fault_listen,
    .connect = fault_connect,
    .disconnect = fault_disconnect,
    .region_create = fault_region_create,
    .region_destroy = fault_region_destroy,
    .region_export = fault_region_export,
    .remote_import = fault_remote_import,
    .remote_release = fault_remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = fault_put,
    .send = fault_send,
    .poll = fault_poll,
    .arm = fault_arm,
};

enum wring_status wring_fault_wrap(const char *schedule, const struct wring_provider_params *params,
                                   struct wring_provider *inner, struct wring_provider **out)
{
    struct fault_provider *provider = calloc(1, sizeof(*provider));
    char why[128];
    if (provider == NULL)
        return WRING_ERR_NO_MEMORY;
    if (!wring_fault_parse(schedule, &provider->schedule, why, sizeof(why))) {
        wring_error(params->log, "WRING_FAULT=%s: %s", schedule, why);
        free(provider);
        return WRING_ERR_INVALID;
    }
    provider->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (provider->timer < 0) {
        wring_error(params->log, "no timer for WRING_FAULT: %s", strerrordesc_np(errno));
        free(provider);
        return WRING_ERR_SYSTEM;
    }
    provider->base.ops = &fault_ops;
    provider->inner = inner;
    inner->ops->capabilities(inner, &provider->caps);
    *out = &provider->base;
    return WRING_OK;
}
