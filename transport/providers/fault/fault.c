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

static void free_if_unused(struct fault_remote *remote)
{
    if (!remote->released || remote->waiting > 0)
        return;
    remote->provider->ops->remote_release(remote->inner);
    free(remote);
}

void wring_fault_remote_drop(struct fault_remote *remote)
{
    remote->waiting--;
    free_if_unused(remote);
}

/** The layer above forgets it; puts that were accepted before go there still. */
static void fault_remote_release(struct wring_remote *base)
{
    struct fault_remote *remote = (struct fault_remote *)base;
    if (remote == NULL)
        return;
    remote->released = true;
    free_if_unused(remote);
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

/* fault/fault.c */
static enum wring_status wring_fault_put(struct wring_conn *base, struct wring_region *region,
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
    return wring_fault_queue_put(provider, fault_conn_of(base), &put);
}

/* ---- fault ---- */

#define BATCH 32
#define SOON_NS 2000 /* not worth going to sleep for */

struct fault_conn *wring_fault_conn_create(struct fault_provider *provider,
                                           struct wring_conn *inner)
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
    struct fault_conn *conn = wring_fault_conn_create(fault_of(base), inner_conn);
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
    wring_fault_release_puts(provider, now);
    size_t n = wring_fault_release_events(provider, events, max, now);
    if (n > 0) /* what they point to must outlive this call */
        return n;

    struct wring_event inner[BATCH];
    size_t room = wring_fault_room(provider);
    size_t wanted = max < BATCH ? max : BATCH;
    wanted = wanted < room ? wanted : room;
    if (wanted == 0)
        return 0;
    size_t got = provider->inner->ops->poll(provider->inner, inner, wanted);
    now = wring_now_ns();
    for (size_t i = 0; i < got; i++)
        if (wring_fault_take_event(provider, &inner[i], got - i, now))
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
    uint64_t due = wring_fault_next_due(provider);
    if (armed && n == 0 && due < provider->known_due_ns) /* it came after arm */
        set_timer(provider, due > 0 ? due : 1);
    return n;
}

static void fault_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct fault_provider *provider = fault_of(base);
    provider->inner->ops->arm(provider->inner, set);
    uint64_t due = wring_fault_next_due(provider);
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
    .put = wring_fault_put,
    .copy_sources = wring_fault_copy_sources,
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
