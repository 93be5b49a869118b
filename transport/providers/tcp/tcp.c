/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/providers/tcp/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/config.h"
#include "base/descriptor.h"
#include "base/log.h"

/** A free slot; the table grows where there is none. */
static enum wring_status ensure_free_slot(struct tcp_provider *provider, size_t *out)
{
    for (size_t i = 0; i < provider->slot_count; i++)
        if (provider->slots[i].region == NULL && !provider->slots[i].revoked) {
            *out = i;
            return WRING_OK;
        }

    size_t count = provider->slot_count == 0 ? 16 : provider->slot_count * 2;
    if (count > UINT32_MAX)
        return WRING_ERR_NO_MEMORY;
    struct tcp_slot *slots = reallocarray(provider->slots, count, sizeof(*slots));
    if (slots == NULL)
        return WRING_ERR_NO_MEMORY;
    provider->slots = slots;

    /* generations begin anywhere, so that a key of an earlier run names nothing in this one */
    for (size_t i = provider->slot_count; i < count; i++) {
        slots[i].region = NULL;
        slots[i].revoked = false;
        if (getrandom(&slots[i].generation, sizeof(slots[i].generation), 0) !=
            sizeof(slots[i].generation)) {
            wring_error(provider->log, "no random numbers: %s", WRING_REFUSED("getrandom"));
            return WRING_ERR_SYSTEM;
        }
    }
    *out = provider->slot_count;
    provider->slot_count = count;
    return WRING_OK;
}

enum wring_status wring_tcp_region_create(struct wring_provider *base,
                                          const struct wring_memory *memory,
                                          struct wring_region **out)
{
    struct tcp_provider *provider = (struct tcp_provider *)base;
    if (memory->kind == WRING_MEMORY_DEVICE)
        return WRING_ERR_UNSUPPORTED;
    struct tcp_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return WRING_ERR_NO_MEMORY;

    size_t index;
    enum wring_status status = ensure_free_slot(provider, &index);
    if (status != WRING_OK)
        goto free_region;

    struct tcp_slot *slot = &provider->slots[index];
    slot->region = region;
    slot->generation++;
    *region = (struct tcp_region){
        .base = {.provider = base, .base = memory->base, .bytes = memory->bytes},
        .index = (uint32_t)index,
        .generation = slot->generation,
    };
    *out = &region->base;
    return WRING_OK;

free_region:
    free(region);
    return status;
}

static void tcp_region_destroy(struct wring_region *base)
{
    if (base == NULL)
        return;
    struct tcp_region *region = (struct tcp_region *)base;
    struct tcp_provider *provider = (struct tcp_provider *)base->provider;

    /* a peer in the middle of a put would go on writing */
    for (struct tcp_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        if (conn->state == TCP_OPEN && conn->receiver.in_frame && conn->receiver.region == region)
            wring_tcp_fail(conn, WRING_ERR_FRAME, "was putting into a region that is gone");

    provider->slots[region->index].region = NULL;
    free(region);
}

/** Its place names nothing else from now on: any peer may name it once more. */
static enum wring_status tcp_region_revoke(struct wring_region *base)
{
    struct tcp_region *region = (struct tcp_region *)base;
    struct tcp_provider *provider = (struct tcp_provider *)base->provider;

    for (struct tcp_conn *conn = provider->conns; conn != NULL; conn = conn->next)
        if (conn->receiver.region == region) {
            conn->receiver.region = NULL;
            if (conn->receiver.in_frame)
                conn->receiver.target = NULL;
        }
    provider->slots[region->index].region = NULL;
    provider->slots[region->index].revoked = true;
    free(region);
    return WRING_OK;
}

bool wring_tcp_region_is_revoked(const struct tcp_provider *provider, const struct tcp_frame *frame)
{
    if (frame->region >= provider->slot_count)
        return false;
    const struct tcp_slot *slot = &provider->slots[frame->region];
    return slot->revoked && slot->generation == frame->generation;
}

void wring_tcp_regions_drop(struct tcp_provider *provider)
{
    for (size_t i = 0; i < provider->slot_count; i++)
        free(provider->slots[i].region);
    free(provider->slots);
    provider->slots = NULL;
    provider->slot_count = 0;
}

struct tcp_region *wring_tcp_region_find(const struct tcp_provider *provider,
                                         const struct tcp_frame *frame)
{
    if (frame->region >= provider->slot_count)
        return NULL;
    const struct tcp_slot *slot = &provider->slots[frame->region];
    if (slot->region == NULL || slot->generation != frame->generation)
        return NULL;
    size_t bytes = slot->region->base.bytes;
    if (frame->offset > bytes || frame->bytes > bytes - frame->offset)
        return NULL;
    return slot->region;
}

static size_t tcp_region_export(struct wring_region *base, void *key)
{
    const struct tcp_region *region = (const struct tcp_region *)base;
    uint8_t *out = key;
    wring_put_u32(out, region->index);
    wring_put_u32(out + 4, region->generation);
    wring_put_u64(out + 8, base->bytes);
    return TCP_REGION_KEY_BYTES;
}

static enum wring_status tcp_remote_import(struct wring_conn *conn, const void *key,
                                           size_t key_bytes, struct wring_remote **out)
{
    const uint8_t *in = key;
    if (key_bytes != TCP_REGION_KEY_BYTES)
        return WRING_ERR_FRAME;
    if (((const struct tcp_conn *)conn)->state < TCP_OPEN)
        return WRING_ERR_AGAIN;
    struct tcp_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    remote->base.conn = conn;
    remote->base.bytes = wring_get_u64(in + 8);
    remote->index = wring_get_u32(in);
    remote->generation = wring_get_u32(in + 4);
    *out = &remote->base;
    return WRING_OK;
}

static void tcp_remote_release(struct wring_remote *remote)
{
    free(remote);
}

/* ---- the provider ---- */

#define EDGES 64 /* sockets that one look at epoll can report */

static enum wring_status tcp_probe(char *reason, size_t bytes)
{
    (void)reason, (void)bytes;
    return WRING_OK; /* a kernel without TCP is not one that this runs on */
}

/** As the configuration says; without one there are no checksums. */
static void take_settings(struct tcp_provider *provider, const struct wring_config *config)
{
    enum wring_cpu_tier tier = WRING_CPU_SCALAR;
    if (config != NULL)
        wring_cpu_tier_parse(config->cpu, &tier);
    wring_crc32c_init(&provider->crc, tier);
    provider->checks = config != NULL && strcmp(config->tcp_checksum, "on") == 0;
    provider->keeps_congestion = config != NULL && strcmp(config->tcp_congestion, "system") == 0;
    if (config != NULL && strcmp(config->tcp_sockets, "auto") != 0)
        provider->sockets = (unsigned)strtoul(config->tcp_sockets, NULL, 10);
}

static enum wring_status tcp_open(const struct wring_provider_params *params,
                                  struct wring_provider **out)
{
    const char *local =
        params->bind != NULL && params->bind[0] != '\0' ? params->bind : "127.0.0.1";
    struct tcp_provider *provider = calloc(1, sizeof(*provider));
    if (provider == NULL)
        return WRING_ERR_NO_MEMORY;
    provider->base.ops = &wring_provider_tcp;
    provider->log = params->log;
    provider->listener = -1;
    provider->door.module = WRING_MODULE;
    memcpy(provider->secret, params->secret, sizeof(provider->secret));
    take_settings(provider, params->config);

    enum wring_status status = wring_ports_read(
        provider->log, params->config != NULL ? params->config->ports : "", &provider->ports);
    if (status != WRING_OK)
        goto free_provider;
    if ((size_t)snprintf(provider->bind, sizeof(provider->bind), "%s", local) >=
        sizeof(provider->bind)) {
        wring_error(provider->log, "'%s' is no address to listen on", local);
        status = WRING_ERR_ADDRESS;
        goto free_provider;
    }
    provider->epoll = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
    if (provider->epoll < 0) {
        wring_error(provider->log, "no epoll descriptor: %s", WRING_REFUSED("epoll_create1"));
        status = WRING_ERR_SYSTEM;
        goto free_provider;
    }
    *out = &provider->base;
    return WRING_OK;

free_provider:
    free(provider);
    return status;
}

static void tcp_close(struct wring_provider *base)
{
    if (base == NULL)
        return;
    struct tcp_provider *provider = (struct tcp_provider *)base;
    while (provider->conns != NULL)
        wring_tcp_disconnect(&provider->conns->base);
    wring_tcp_regions_drop(provider);
    wring_descriptor_close(provider->listener);
    wring_descriptor_close(provider->epoll);
    explicit_bzero(provider->secret, sizeof(provider->secret));
    free(provider);
}

static void tcp_capabilities(struct wring_provider *base, struct wring_provider_caps *out)
{
    const struct tcp_provider *provider = (const struct tcp_provider *)base;
    unsigned sockets = provider->sockets > 1 ? provider->sockets : 1;

    *out = (struct wring_provider_caps){
        .put_max_bytes = TCP_PUT_MAX,
        .put_depth = TCP_PUT_DEPTH,
        .conn_descriptors = sockets,
        .conn_bytes =
            sockets * sizeof(struct tcp_conn) + (sockets > 1 ? sizeof(struct tcp_bundle) : 0),
        .local_any = true,
        .host_regions = true,
    };
}

static struct tcp_conn *take_ready_conn(struct tcp_provider *provider)
{
    struct tcp_conn *conn = provider->ready_first;
    provider->ready_first = conn->ready_next;
    if (conn->ready_next != NULL)
        conn->ready_next->ready_previous = NULL;
    else
        provider->ready_last = NULL;
    provider->ready_count--;
    conn->in_ready = false;
    return conn;
}

static void report_open(struct tcp_conn *conn, struct tcp_events *events)
{
    struct wring_event *event = wring_tcp_event(
        events, conn->accepted ? WRING_EVENT_ACCEPTED : WRING_EVENT_CONNECTED, conn);
    if (event == NULL)
        return;
    if (conn->accepted)
        event->data = wring_auth_hello(&conn->auth, &event->bytes);
    conn->state = TCP_OPEN;
    if (conn->bundle != NULL)
        wring_tcp_open_sockets(conn->bundle);
}

static void report_closed(struct tcp_conn *conn, struct tcp_events *events)
{
    struct wring_event *event = wring_tcp_event(events, WRING_EVENT_CLOSED, conn);
    if (event == NULL)
        return;
    event->status = conn->status;
    event->text = conn->text;
    conn->state = TCP_CLOSED;
}

/** What is due to all sockets of a connection together. */
static void exchange_parts(struct tcp_bundle *bundle, struct tcp_events *events)
{
    struct tcp_conn *front = bundle->sockets[0];

    if (front->state != TCP_OPEN) /* it has just failed */
        return;
    wring_tcp_release_parts(bundle, events);
    wring_tcp_finish_sockets(bundle);
    if (wring_tcp_bundle_owes(bundle))
        wring_tcp_make_ready(front);
}

static void exchange_frames(struct tcp_conn *conn, struct tcp_events *events)
{
    if (conn->writable && wring_tcp_has_unsent(conn))
        wring_tcp_flush(conn);
    if (wring_tcp_report_sent(conn, events))
        wring_tcp_receive(conn, events);
    if (conn->bundle != NULL)
        exchange_parts(conn->bundle, events);
}

/** Could it go on at once, without an edge? */
static bool has_work(const struct tcp_conn *conn)
{
    switch (conn->state) {
    case TCP_CONNECTING:
    case TCP_GATHERING:
        return false;
    case TCP_HANDSHAKE:
        return conn->readable;
    case TCP_READY:
    case TCP_FAILED:
        return true;
    case TCP_OPEN:
        return (conn->readable && !conn->receiver.waits) || conn->receiver.blocked ||
               conn->sender.put_tail != conn->sender.put_sent ||
               (conn->bundle != NULL && conn == conn->bundle->sockets[0] &&
                wring_tcp_bundle_owes(conn->bundle)) ||
               (conn->writable && wring_tcp_has_unsent(conn));
    case TCP_CLOSED:
    case TCP_DROPPED:
        return false;
    }
    return false;
}

static void serve_conn(struct tcp_conn *conn, struct tcp_events *events)
{
    if (tcp_in_handshake(conn))
        wring_tcp_handshake(conn);
    if (conn->state == TCP_GATHERING && conn->accepted && conn->hung_up &&
        tcp_front(conn)->state == TCP_GATHERING)
        wring_tcp_fail(conn, WRING_ERR_PEER, "left before all sockets were open");
    if (conn->state == TCP_READY)
        report_open(conn, events);
    if (conn->state == TCP_OPEN)
        exchange_frames(conn, events);
    if (conn->state == TCP_FAILED)
        report_closed(conn, events);
    if (conn->state == TCP_DROPPED)
        wring_tcp_disconnect(&conn->base);
    else if (has_work(conn))
        wring_tcp_make_ready(conn);
}

/** Each ready connection has its turn once; what is left undone goes to the end of the list. */
static void serve_ready_conns(struct tcp_provider *provider, struct tcp_events *events)
{
    for (size_t turns = provider->ready_count; turns > 0 && events->n < events->max; turns--) {
        if (provider->ready_first == NULL)
            return;
        serve_conn(take_ready_conn(provider), events);
    }
}

static void look_for_edges(struct tcp_provider *provider)
{
    struct epoll_event edges[EDGES];
    int n = epoll_wait(provider->epoll, edges, EDGES, 0);
    for (int i = 0; i < n; i++) {
        struct tcp_conn *conn = edges[i].data.ptr;
        if (conn == NULL) {
            provider->listener_ready = true;
            continue;
        }
        conn->readable |= (edges[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        conn->writable |= (edges[i].events & EPOLLOUT) != 0;
        conn->hung_up |= (edges[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
        wring_tcp_make_ready(conn);
    }
}

static size_t tcp_poll(struct wring_provider *base, struct wring_event *out, size_t max)
{
    struct tcp_provider *provider = (struct tcp_provider *)base;
    struct tcp_events events = {.events = out, .max = max};

    bool armed = provider->armed;
    provider->armed = false;
    if (provider->ready_count > 0) /* what the caller has just put is not kept waiting */
        serve_ready_conns(provider, &events);
    look_for_edges(provider);
    wring_tcp_accept_some(provider);
    if (provider->timed > 0)
        wring_tcp_expire(provider, wring_now_ns());
    serve_ready_conns(provider, &events);
    if (armed && events.n == 0) /* it sleeps now, and edges come once */
        wring_tcp_repeat_edges(provider);
    return events.n;
}

static void tcp_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct tcp_provider *provider = (struct tcp_provider *)base;
    provider->armed = true;
    if (set->n == sizeof(set->fds) / sizeof(set->fds[0])) {
        set->busy = true; /* no place left to say what to wait for */
        return;
    }
    set->fds[set->n++] = (struct pollfd){.fd = provider->epoll, .events = POLLIN};
    set->busy |= provider->ready_count > 0 || wring_tcp_may_accept(provider);

    uint64_t deadline = wring_tcp_next_deadline(provider);
    if (provider->listener_ready && provider->door.retry_ns != 0 &&
        provider->door.retry_ns < deadline)
        deadline = provider->door.retry_ns;
    if (deadline < set->deadline_ns)
        set->deadline_ns = deadline;
}

int wring_tcp_hold_port(const struct wring_provider *provider)
{
    const struct tcp_provider *tcp = (const struct tcp_provider *)provider;

    if (provider->ops != &wring_provider_tcp || tcp->listener < 0)
        return -1;
    return WRING_DESCRIPTOR(fcntl(tcp->listener, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

const struct wring_provider_ops wring_provider_tcp = {
    .name = "tcp",
    .doc = "framed puts over TCP sockets; works everywhere",
    .probe = tcp_probe,
    .suits = wring_suits_always,
    .open = tcp_open,
    .close = tcp_close,
    .capabilities = tcp_capabilities,
    .listen = wring_tcp_listen,
    .reaches = wring_reaches_always,
    .reach_kind = wring_reach_kind_none,
    .connect = wring_tcp_connect,
    .disconnect = wring_tcp_disconnect,
    .region_create = wring_tcp_region_create,
    .region_destroy = tcp_region_destroy,
    .region_revoke = tcp_region_revoke,
    .region_flush = wring_unsupported_region_flush,
    .memory_gone = wring_nothing_kept,
    .region_export = tcp_region_export,
    .remote_import = tcp_remote_import,
    .remote_release = tcp_remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = wring_tcp_put,
    .copy_sources = wring_tcp_copy_sources,
    .send = wring_tcp_send,
    .spoil = wring_tcp_spoil,
    .poll = tcp_poll,
    .arm = tcp_arm,
};
