/* SPDX-License-Identifier: Apache-2.0 */
/** The provider itself: opening and closing, poll and arm, and the table of it all. */
#include "transport/providers/shm/shm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "transport/memory.h"
#include "transport/providers/providers.h"

#define WRING_MODULE "shm"
#define KEY_BYTES 16 /* id, bytes: little endian, as all of this host is */

static uint32_t slot_of(uint64_t id)
{
    return (uint32_t)id;
}

/** A free slot; the array grows where there is none. */
static enum wring_status ensure_free_slot(struct shm_provider *shm, uint32_t *slot)
{
    size_t i;
    for (i = 0; i < shm->n_regions; i++)
        if (shm->regions[i] == NULL)
            break;
    if (i == shm->n_regions) {
        size_t grown = 2 * shm->n_regions + 8;
        struct shm_region **regions = realloc(shm->regions, grown * sizeof(regions[0]));
        if (regions == NULL)
            return WRING_ERR_NO_MEMORY;
        memset(regions + i, 0, (grown - i) * sizeof(regions[0]));
        shm->regions = regions;
        shm->n_regions = grown;
    }
    *slot = (uint32_t)i;
    return WRING_OK;
}

/** Peers map the file: it must not shrink under them, and they refuse one that could. */
static bool seal_against_shrink(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0)
        return false;
    return (seals & F_SEAL_SHRINK) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
}

static struct shm_frame region_frame(const struct shm_region *region)
{
    return (struct shm_frame){.kind = SHM_FRAME_REGION,
                              .id = region->id,
                              .offset = region->fd_offset,
                              .bytes = region->base.bytes};
}

static void tell_all_peers(struct shm_provider *shm, const struct shm_frame *frame, int fd)
{
    for (size_t i = 0; i < shm->n_conns; i++)
        if (shm->conns[i]->state == SHM_MEETING || shm->conns[i]->state == SHM_OPEN)
            wring_shm_conn_say(shm->conns[i], frame, fd);
}

static enum wring_status shm_region_create(struct wring_provider *base,
                                           const struct wring_memory *memory,
                                           struct wring_region **out)
{
    struct shm_provider *shm = (struct shm_provider *)base;
    if (memory->kind != WRING_MEMORY_SHARED)
        return WRING_ERR_UNSUPPORTED;
    if (memory->bytes == 0)
        return WRING_ERR_INVALID;
    if (!seal_against_shrink(memory->fd)) {
        wring_error(&shm->log, "the memory's file cannot be sealed against shrinking: %s",
                    strerror(errno));
        return WRING_ERR_UNSUPPORTED;
    }

    uint32_t slot;
    struct shm_region *region = calloc(1, sizeof(*region));
    if (region == NULL || ensure_free_slot(shm, &slot) != WRING_OK) {
        free(region);
        return WRING_ERR_NO_MEMORY;
    }
    *region = (struct shm_region){
        .base = {.provider = base, .base = memory->base, .bytes = memory->bytes},
        .id = (uint64_t)++shm->generation << 32 | slot,
        .fd = WRING_DESCRIPTOR(fcntl(memory->fd, F_DUPFD_CLOEXEC, 0)),
        .fd_offset = memory->fd_offset,
    };
    if (region->fd < 0) {
        wring_error(&shm->log, "no descriptor for a region: %s",
                    WRING_REFUSED("fcntl(F_DUPFD_CLOEXEC)"));
        free(region);
        return WRING_ERR_SYSTEM;
    }
    shm->regions[slot] = region;
    struct shm_frame frame = region_frame(region);
    tell_all_peers(shm, &frame, region->fd);
    *out = &region->base;
    return WRING_OK;
}

static void shm_region_destroy(struct wring_region *base)
{
    struct shm_region *region = (struct shm_region *)base;
    if (region == NULL)
        return;
    struct shm_provider *shm = (struct shm_provider *)base->provider;
    struct shm_frame gone = {.kind = SHM_FRAME_GONE, .id = region->id};
    tell_all_peers(shm, &gone, -1);
    for (size_t i = 0; i < shm->n_conns; i++)
        if (shm->conns[i]->in.inbox != NULL) /* after the frame that says which */
            atomic_fetch_add(&shm->conns[i]->in.inbox->gone, 1);
    shm->regions[slot_of(region->id)] = NULL;
    wring_descriptor_close(region->fd);
    free(region);
}

static size_t shm_region_export(struct wring_region *base, void *key)
{
    const struct shm_region *region = (const struct shm_region *)base;
    uint64_t bytes = base->bytes;
    memcpy(key, &region->id, 8);
    memcpy((char *)key + 8, &bytes, 8);
    return KEY_BYTES;
}

uint8_t *wring_shm_region_at(const struct shm_provider *shm, uint64_t id, uint64_t offset,
                             uint64_t bytes)
{
    uint32_t slot = slot_of(id);
    if (slot >= shm->n_regions || shm->regions[slot] == NULL || shm->regions[slot]->id != id)
        return NULL;
    const struct wring_region *region = &shm->regions[slot]->base;
    if (offset > region->bytes || bytes > region->bytes - offset)
        return NULL;
    return (uint8_t *)region->base + offset;
}

enum wring_status wring_shm_regions_announce(struct shm_conn *conn)
{
    struct shm_provider *shm = (struct shm_provider *)conn->base.provider;
    for (size_t i = 0; i < shm->n_regions; i++) {
        if (shm->regions[i] == NULL)
            continue;
        struct shm_frame frame = region_frame(shm->regions[i]);
        enum wring_status status = wring_shm_socket_send(&conn->sock, &frame, shm->regions[i]->fd);
        if (status != WRING_OK)
            return status;
    }
    return WRING_OK;
}

/** Is it a file that cannot shrink, and as large as said? */
static bool file_holds(int fd, uint64_t offset, uint64_t bytes)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) != 0 && fstat(fd, &st) == 0 && bytes > 0 &&
           offset <= (uint64_t)st.st_size && bytes <= (uint64_t)st.st_size - offset;
}

static struct shm_mapping *find_mapping(struct shm_conn *conn, uint64_t id)
{
    struct shm_mapping *mapping = conn->mappings;
    while (mapping != NULL && mapping->id != id)
        mapping = mapping->next;
    return mapping;
}

enum wring_status wring_shm_mapping_add(struct shm_conn *conn, const struct shm_frame *frame,
                                        int fd)
{
    uint64_t inside = frame->offset % (uint64_t)sysconf(_SC_PAGESIZE);
    if (!file_holds(fd, frame->offset, frame->bytes) || find_mapping(conn, frame->id) != NULL)
        return WRING_ERR_FRAME;

    struct shm_mapping *mapping = malloc(sizeof(*mapping));
    if (mapping == NULL)
        return WRING_ERR_NO_MEMORY;
    size_t map_bytes = (size_t)(inside + frame->bytes);
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                     (off_t)(frame->offset - inside));
    if (map == MAP_FAILED) {
        free(mapping); /* keeps errno */
        return WRING_ERR_SYSTEM;
    }
    wring_forked_hide(map, map_bytes);
    *mapping = (struct shm_mapping){
        .next = conn->mappings,
        .id = frame->id,
        .map = map,
        .map_bytes = map_bytes,
        .base = (uint8_t *)map + inside,
        .bytes = frame->bytes,
        .known = true,
    };
    conn->mappings = mapping;
    return WRING_OK;
}

static void free_unused_mapping(struct shm_mapping *mapping)
{
    if (mapping->users > 0 || mapping->known)
        return;
    munmap(mapping->map, mapping->map_bytes);
    free(mapping);
}

void wring_shm_mapping_remove(struct shm_conn *conn, uint64_t id)
{
    for (struct shm_mapping **link = &conn->mappings; *link != NULL; link = &(*link)->next) {
        struct shm_mapping *mapping = *link;
        if (mapping->id != id)
            continue;
        *link = mapping->next;
        mapping->known = false;
        free_unused_mapping(mapping);
        return;
    }
}

void wring_shm_mappings_refresh(struct shm_conn *conn)
{
    uint32_t gone = atomic_load_explicit(&conn->out.inbox->gone, memory_order_acquire);
    if (gone == conn->gone)
        return;
    conn->gone = gone;
    wring_shm_conn_service(conn);
}

void wring_shm_mappings_finish(struct shm_conn *conn)
{
    while (conn->mappings != NULL)
        wring_shm_mapping_remove(conn, conn->mappings->id);
}

/** Reading has just ended the connection, and nobody has been told so far: log why. */
static enum wring_status log_lost_peer(const struct shm_conn *conn)
{
    wring_error(&shm_of(conn)->log, "memory of process %d cannot be mapped: %s", (int)conn->pid,
                conn->text);
    return conn->status == WRING_ERR_SYSTEM ? WRING_ERR_SYSTEM : WRING_ERR_PEER;
}

enum wring_status wring_shm_remote_import(struct wring_conn *base, const void *key,
                                          size_t key_bytes, struct wring_remote **out)
{
    struct shm_conn *conn = (struct shm_conn *)base;
    uint64_t id, bytes;
    if (key_bytes != KEY_BYTES)
        return WRING_ERR_FRAME;
    if (conn->state <= SHM_OPEN && !wring_shm_conn_stands(conn))
        return WRING_ERR_AGAIN;
    memcpy(&id, key, 8);
    memcpy(&bytes, (const char *)key + 8, 8);

    struct shm_mapping *mapping = find_mapping(conn, id);
    if (mapping == NULL) { /* it may lie in the socket still */
        wring_shm_conn_service(conn);
        mapping = find_mapping(conn, id);
    }
    if (mapping == NULL && conn->state == SHM_DEAD)
        return log_lost_peer(conn);
    if (mapping == NULL)
        return WRING_ERR_CLOSED; /* numbers are not used again */
    if (mapping->bytes != bytes)
        return WRING_ERR_FRAME;

    struct shm_remote *remote = malloc(sizeof(*remote));
    if (remote == NULL)
        return WRING_ERR_NO_MEMORY;
    *remote = (struct shm_remote){.base = {base, bytes}, .mapping = mapping};
    mapping->users++;
    *out = &remote->base;
    return WRING_OK;
}

void wring_shm_remote_release(struct wring_remote *base)
{
    struct shm_remote *remote = (struct shm_remote *)base;
    if (remote == NULL)
        return;
    remote->mapping->users--;
    free_unused_mapping(remote->mapping);
    free(remote);
}

enum wring_status wring_shm_remote_map(struct wring_remote *base, void **out)
{
    *out = ((struct shm_remote *)base)->mapping->base;
    return WRING_OK;
}

/* ---- the provider ---- */

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
            shm_region_destroy(&shm->regions[i]->base);
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
        .conn_descriptors = 1,
        .conn_bytes = sizeof(struct shm_conn) + sizeof(struct shm_inbox),
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

static void service_sockets(struct shm_provider *shm)
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
static bool check_service_due(struct shm_provider *shm)
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
static void end_sleep(struct shm_provider *shm, bool found)
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

    if (check_service_due(shm))
        service_sockets(shm);
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
    end_sleep(shm, n > 0);
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
    .reach_kind = wring_reach_kind_none,
    .connect = wring_shm_connect,
    .disconnect = provider_disconnect,
    .region_create = shm_region_create,
    .region_destroy = shm_region_destroy,
    .region_revoke = wring_unsupported_region_revoke,
    .region_flush = wring_unsupported_region_flush,
    .memory_gone = wring_nothing_kept,
    .region_export = shm_region_export,
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
