/* SPDX-License-Identifier: Apache-2.0 */
/** The provider itself: opening and closing, regions, poll and arm, and the table of it all. */
#include "tests/provider/example/unix.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"

#define WRING_MODULE "unix"
#define KEY_BYTES 16

static enum wring_status unix_probe(char *reason, size_t bytes)
{
    int fd = WRING_DESCRIPTOR(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (fd < 0) {
        snprintf(reason, bytes, "no UNIX sockets here: %s", strerrordesc_np(errno));
        return WRING_ERR_UNSUPPORTED;
    }
    wring_descriptor_close(fd);
    return WRING_OK;
}

static enum wring_status unix_open(const struct wring_provider_params *params,
                                   struct wring_provider **out)
{
    struct unix_provider *provider = calloc(1, sizeof(*provider));
    if (provider == NULL)
        return WRING_ERR_NO_MEMORY;
    provider->base.ops = &wring_provider_unix;
    provider->log = params->log;
    provider->listener = -1;
    memcpy(provider->secret, params->secret, sizeof(provider->secret));
    TAILQ_INIT(&provider->regions);
    TAILQ_INIT(&provider->conns);

    provider->epoll = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
    if (provider->epoll < 0)
        goto free_provider;
    if (getrandom(&provider->instance, sizeof(provider->instance), 0) != sizeof(provider->instance))
        goto close_epoll;
    provider->next_region = provider->instance;
    *out = &provider->base;
    return WRING_OK;

close_epoll:
    wring_descriptor_close(provider->epoll);
free_provider:
    wring_error(params->log, "cannot open: %s", strerrordesc_np(errno));
    free(provider);
    return WRING_ERR_SYSTEM;
}

static void unix_region_destroy(struct wring_region *base)
{
    if (base == NULL)
        return;
    struct unix_region *region = (struct unix_region *)base;
    struct unix_provider *provider = (struct unix_provider *)base->provider;
    struct unix_conn *conn;
    /* one in the middle of a put would go on writing */
    for (conn = TAILQ_FIRST(&provider->conns); conn != NULL; conn = TAILQ_NEXT(conn, link))
        if (conn->in.region == region)
            wring_unix_fail(conn, WRING_ERR_FRAME, "it was putting into a region that is gone");
    TAILQ_REMOVE(&provider->regions, region, link);
    free(region);
}

static void unix_close(struct wring_provider *base)
{
    struct unix_provider *provider = (struct unix_provider *)base;
    if (provider == NULL)
        return;
    while (!TAILQ_EMPTY(&provider->conns))
        wring_unix_disconnect(&TAILQ_FIRST(&provider->conns)->base);
    while (!TAILQ_EMPTY(&provider->regions))
        unix_region_destroy(&TAILQ_FIRST(&provider->regions)->base);
    if (provider->listener >= 0)
        wring_descriptor_close(provider->listener);
    wring_descriptor_close(provider->epoll);
    explicit_bzero(provider->secret, sizeof(provider->secret));
    free(provider);
}

static void unix_capabilities(struct wring_provider *base, struct wring_provider_caps *out)
{
    (void)base;
    *out = (struct wring_provider_caps){
        .put_max_bytes = UNIX_PUT_MAX,
        .put_depth = UNIX_PUTS,
        .local_any = true,
        .host_regions = true,
        .same_host_only = true,
    };
}

static enum wring_status unix_region_create(struct wring_provider *base,
                                            const struct wring_memory *memory,
                                            struct wring_region **out)
{
    struct unix_provider *provider = (struct unix_provider *)base;
    if (memory->kind == WRING_MEMORY_DEVICE)
        return WRING_ERR_UNSUPPORTED;
    struct unix_region *region = calloc(1, sizeof(*region));
    if (region == NULL)
        return WRING_ERR_NO_MEMORY;
    region->base =
        (struct wring_region){.provider = base, .base = memory->base, .bytes = memory->bytes};
    region->id = provider->next_region++;
    TAILQ_INSERT_TAIL(&provider->regions, region, link);
    *out = &region->base;
    return WRING_OK;
}

static size_t unix_region_export(struct wring_region *base, void *key)
{
    wring_put_u64(key, ((struct unix_region *)base)->id);
    wring_put_u64((uint8_t *)key + 8, base->bytes);
    return KEY_BYTES;
}

static enum wring_status unix_remote_import(struct wring_conn *conn, const void *key,
                                            size_t key_bytes, struct wring_remote **out)
{
    if (key_bytes != KEY_BYTES)
        return WRING_ERR_FRAME;
    if (((const struct unix_conn *)conn)->state == UNIX_HANDSHAKE)
        return WRING_ERR_AGAIN;
    struct unix_remote *remote = calloc(1, sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    remote->base = (struct wring_remote){conn, wring_get_u64((const uint8_t *)key + 8)};
    remote->id = wring_get_u64(key);
    *out = &remote->base;
    return WRING_OK;
}

static void unix_remote_release(struct wring_remote *remote)
{
    free(remote);
}

struct wring_event *wring_unix_event(struct unix_events *events, enum wring_event_kind kind,
                                     struct unix_conn *conn)
{
    struct wring_event *event = &events->all[events->n++];
    *event = (struct wring_event){.kind = kind, .conn = &conn->base};
    return event;
}

static size_t unix_poll(struct wring_provider *base, struct wring_event *out, size_t max)
{
    struct unix_provider *provider = (struct unix_provider *)base;
    struct unix_events events = {.all = out, .max = max < UNIX_EVENTS ? max : UNIX_EVENTS};
    uint64_t now = wring_now_ns();

    if (provider->listener >= 0 && now >= provider->accept_after_ns)
        wring_unix_accept(provider, now);
    for (unsigned turns = provider->n_conns; turns > 0 && events.n < events.max; turns--) {
        struct unix_conn *conn = TAILQ_FIRST(&provider->conns);
        TAILQ_REMOVE(&provider->conns, conn, link); /* whose turn it was goes to the end */
        TAILQ_INSERT_TAIL(&provider->conns, conn, link);
        wring_unix_serve(conn, &events, now);
    }
    return events.n;
}

static void lower(uint64_t *deadline_ns, uint64_t to_ns)
{
    if (to_ns < *deadline_ns)
        *deadline_ns = to_ns;
}

static void unix_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct unix_provider *provider = (struct unix_provider *)base;
    struct unix_conn *conn;

    if (set->n + 2 > sizeof(set->fds) / sizeof(set->fds[0])) {
        set->busy = true; /* no place left to say what to wait for */
        return;
    }
    set->fds[set->n++] = (struct pollfd){.fd = provider->epoll, .events = POLLIN};
    if (wring_now_ns() < provider->accept_after_ns)
        lower(&set->deadline_ns, provider->accept_after_ns);
    else if (provider->listener >= 0)
        set->fds[set->n++] = (struct pollfd){.fd = provider->listener, .events = POLLIN};
    for (conn = TAILQ_FIRST(&provider->conns); conn != NULL; conn = TAILQ_NEXT(conn, link))
        if (conn->state == UNIX_HANDSHAKE)
            lower(&set->deadline_ns, conn->deadline_ns);
}

const struct wring_provider_ops wring_provider_unix = {
    .name = "unix",
    .doc = "framed puts over UNIX sockets of one host; an example",
    .probe = unix_probe,
    .suits = wring_suits_always,
    .open = unix_open,
    .close = unix_close,
    .capabilities = unix_capabilities,
    .listen = wring_unix_listen,
    .reaches = wring_reaches_always,
    .reach_kind = wring_reach_kind_none,
    .connect = wring_unix_connect,
    .disconnect = wring_unix_disconnect,
    .region_create = unix_region_create,
    .region_destroy = unix_region_destroy,
    .region_revoke = wring_unsupported_region_revoke,
    .region_flush = wring_unsupported_region_flush,
    .memory_gone = wring_nothing_kept,
    .region_export = unix_region_export,
    .remote_import = unix_remote_import,
    .remote_release = unix_remote_release,
    .remote_map = wring_unsupported_remote_map,
    .put = wring_unix_put,
    .copy_sources = wring_unsupported_copy_sources,
    .send = wring_unix_send,
    .spoil = wring_unsupported_spoil,
    .poll = unix_poll,
    .arm = unix_arm,
};
