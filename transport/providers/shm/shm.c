/* SPDX-License-Identifier: Apache-2.0 */
/** The provider itself: opening and closing, poll and arm, and the table of it all. */
#include "transport/providers/shm/shm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/memory.h"
#include "transport/providers/providers.h"

#define WRING_MODULE "shm"
#define SERVICE_NS (100 * WRING_NS_PER_MS) /* of nothing in the rings: then look at sockets */
#define FILE_LEAST ((size_t)64 << 20)      /* slots and buffers of most jobs fit in */
#define HANDSHAKE_NS (60 * WRING_NS_PER_S) /* where there is no config */
#define POLLS_PER_CLOCK 16
#define EVENTS_AT_ONCE 32

static enum wring_status provider_probe(char *reason, size_t bytes)
{
    int fd = WRING_DESCRIPTOR(memfd_create("wring-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (fd < 0) {
        wring_refusal(reason, bytes, "memfd_create", errno);
        return WRING_ERR_UNSUPPORTED;
    }
    wring_descriptor_close(fd);
    if (wring_memory_most() < FILE_LEAST) {
        snprintf(reason, bytes,
                 "shared memory counts as a file, and this process may have none of more than %zu "
                 "bytes: raise the limit on file sizes (ulimit -f)",
                 wring_memory_most());
        return WRING_ERR_UNSUPPORTED;
    }
    return WRING_OK;
}

static enum wring_status provider_open(const struct wring_provider_params *params,
                                       struct wring_provider **out)
{
    struct shm_provider *shm = calloc(1, sizeof(*shm));
    if (shm == NULL)
        return WRING_ERR_NO_MEMORY;
    shm->base.ops = &wring_provider_shm;
    if (params->log != NULL)
        shm->log = *params->log;
    shm->handshake_ns = params->config != NULL ? params->config->join_timeout_ns : HANDSHAKE_NS;
    memcpy(shm->secret, params->secret, sizeof(shm->secret));
    shm->listener = -1;
    shm->door.module = WRING_MODULE;
    shm->epoll = WRING_DESCRIPTOR(epoll_create1(EPOLL_CLOEXEC));
    if (shm->epoll < 0) {
        wring_error(&shm->log, "no epoll descriptor: %s", WRING_REFUSED("epoll_create1"));
        free(shm);
        return WRING_ERR_SYSTEM;
    }
    *out = &shm->base;
    return WRING_OK;
}

static void remove_conn(struct shm_provider *shm, struct shm_conn *conn)
{
    for (size_t i = 0; i < shm->n_conns; i++)
        if (shm->conns[i] == conn) {
            shm->conns[i] = shm->conns[--shm->n_conns];
            break;
        }
    wring_shm_conn_destroy(conn);
}

static void provider_disconnect(struct wring_conn *base)
{
    if (base != NULL)
        remove_conn((struct shm_provider *)base->provider, (struct shm_conn *)base);
}

static void provider_close(struct wring_provider *base)
{
    struct shm_provider *shm = (struct shm_provider *)base;
    if (shm == NULL)
        return;
    while (shm->n_conns > 0)
        remove_conn(shm, shm->conns[0]);
    for (size_t i = 0; i < shm->n_regions; i++)
        if (shm->regions[i] != NULL)
            wring_shm_region_destroy(&shm->regions[i]->base);
    wring_descriptor_close(shm->listener);
    wring_descriptor_close(shm->epoll);
    free(shm->regions);
    free(shm->conns);
    explicit_bzero(shm->secret, sizeof(shm->secret));
    free(shm);
}

static void provider_capabilities(struct wring_provider *provider, struct wring_provider_caps *out)
{
    (void)provider;
    *out = (struct wring_provider_caps){
        .put_max_bytes = SIZE_MAX / 2,
        .put_depth = SHM_RING_ENTRIES,
        .local_any = true,
        .put_copies = true,
        .remote_map = true,
        .same_host_only = true,
    };
}

/** Connections that the epoll set does not speak for; and those that never came to be. */
static void service_meeting(struct shm_provider *shm)
{
    shm->meeting = false;
    for (size_t i = shm->n_conns; i-- > 0;) {
        struct shm_conn *conn = shm->conns[i];
        if (conn->state < SHM_OPEN)
            wring_shm_conn_service(conn);
        if (conn->state < SHM_OPEN)
            shm->meeting = true;
        if (conn->state == SHM_DEAD && !conn->surfaced) {
            bool ordinary = conn->turned_away || conn->status == WRING_ERR_PEER; /* both dialled */
            wring_log_line(&shm->log, ordinary ? WRING_LOG_INFO : WRING_LOG_WARN, WRING_MODULE,
                           "a connection came to nothing: %s", conn->text);
            remove_conn(shm, conn);
        }
    }
}

static void service(struct shm_provider *shm)
{
    struct epoll_event ready[EVENTS_AT_ONCE];
    uint64_t now = wring_now_ns();

    wring_shm_listen_again(shm, now);
    int n = epoll_wait(shm->epoll, ready, EVENTS_AT_ONCE, 0);
    for (int i = 0; i < n; i++)
        if (ready[i].data.ptr != NULL)
            wring_shm_conn_service(ready[i].data.ptr);
        else
            wring_shm_accept_peers(shm);
    if (shm->meeting)
        service_meeting(shm);
    shm->next_service_ns = now + SERVICE_NS;
}

/** Not true while the rings bring something, so that they cost no system call. */
static bool service_is_due(struct shm_provider *shm)
{
    if (shm->meeting || shm->sleep > 0)
        return true;
    if (++shm->skipped < POLLS_PER_CLOCK)
        return false;
    shm->skipped = 0;
    uint64_t now = wring_now_ns();
    if (!shm->idle)
        shm->next_service_ns = now + SERVICE_NS;
    shm->idle = true;
    return now >= shm->next_service_ns;
}

/** After arm, the first of two polls comes before the sleep. An event that it finds prevents the
 *  sleep. */
static void wake_up(struct shm_provider *shm, bool found)
{
    if (shm->sleep == 0 || (--shm->sleep > 0 && !found))
        return;
    shm->sleep = 0;
    for (size_t i = 0; i < shm->n_conns; i++)
        if (shm->conns[i]->state == SHM_OPEN)
            wring_shm_ring_awake(&shm->conns[i]->in);
}

static size_t provider_poll(struct wring_provider *base, struct wring_event *events, size_t max)
{
    struct shm_provider *shm = (struct shm_provider *)base;
    size_t n = 0;

    if (service_is_due(shm))
        service(shm);
    shm->n_messages = 0;
    size_t at = ++shm->first < shm->n_conns ? shm->first : (shm->first = 0);
    for (size_t i = 0; i < shm->n_conns && n < max; i++) { /* in turn, so that none starves */
        struct shm_conn *conn = shm->conns[at];
        at = at + 1 < shm->n_conns ? at + 1 : 0;
        if (conn->surfaced)
            n += wring_shm_conn_events(conn, events + n, max - n);
    }
    if (n > 0)
        shm->idle = false;
    wake_up(shm, n > 0);
    return n;
}

static void provider_arm(struct wring_provider *base, struct wring_wait_set *set)
{
    struct shm_provider *shm = (struct shm_provider *)base;
    if (set->n == sizeof(set->fds) / sizeof(set->fds[0])) {
        set->busy = true;
        return;
    }
    set->fds[set->n++] = (struct pollfd){.fd = shm->epoll, .events = POLLIN};
    if (shm->door.retry_ns != 0 && shm->door.retry_ns < set->deadline_ns)
        set->deadline_ns = shm->door.retry_ns;
    shm->sleep = 2;
    for (size_t i = 0; i < shm->n_conns; i++)
        if (wring_shm_conn_arm(shm->conns[i], &set->deadline_ns))
            set->busy = true;
}

const struct wring_provider_ops wring_provider_shm = {
    .name = "shm",
    .doc = "ranks on one host copy straight into each other's memory",
    .probe = provider_probe,
    .suits = wring_suits_always,
    .open = provider_open,
    .close = provider_close,
    .capabilities = provider_capabilities,
    .listen = wring_shm_listen,
    .reaches = wring_reaches_always,
    .connect = wring_shm_connect,
    .disconnect = provider_disconnect,
    .region_create = wring_shm_region_create,
    .region_destroy = wring_shm_region_destroy,
    .region_revoke = wring_unsupported_region_revoke,
    .region_flush = wring_unsupported_region_flush,
    .memory_gone = wring_nothing_kept,
    .region_export = wring_shm_region_export,
    .remote_import = wring_shm_remote_import,
    .remote_release = wring_shm_remote_release,
    .remote_map = wring_shm_remote_map,
    .put = wring_shm_put,
    .copy_sources = wring_unsupported_copy_sources,
    .send = wring_shm_send,
    .spoil = wring_unsupported_spoil,
    .poll = provider_poll,
    .arm = provider_arm,
};
