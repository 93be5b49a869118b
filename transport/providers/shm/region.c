/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "transport/providers/shm/shm.h"

#define WRING_MODULE "shm"
#define KEY_BYTES 16 /* id, bytes: little endian, as all of this host is */

static uint32_t slot_of(uint64_t id)
{
    return (uint32_t)id;
}

/** A free slot; the array grows where there is none. */
static enum wring_status find_slot(struct shm_provider *shm, uint32_t *slot)
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
static bool seal(int fd)
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

static void tell_all(struct shm_provider *shm, const struct shm_frame *frame, int fd)
{
    for (size_t i = 0; i < shm->n_conns; i++)
        if (shm->conns[i]->state == SHM_MEETING || shm->conns[i]->state == SHM_OPEN)
            wring_shm_conn_say(shm->conns[i], frame, fd);
}

enum wring_status wring_shm_region_create(struct wring_provider *base,
                                          const struct wring_memory *memory,
                                          struct wring_region **out)
{
    struct shm_provider *shm = (struct shm_provider *)base;
    if (memory->kind != WRING_MEMORY_SHARED)
        return WRING_ERR_UNSUPPORTED;
    if (memory->bytes == 0)
        return WRING_ERR_INVALID;
    if (!seal(memory->fd)) {
        wring_error(&shm->log, "the memory's file cannot be sealed against shrinking: %s",
                    strerror(errno));
        return WRING_ERR_UNSUPPORTED;
    }

    uint32_t slot;
    struct shm_region *region = calloc(1, sizeof(*region));
    if (region == NULL || find_slot(shm, &slot) != WRING_OK) {
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
    tell_all(shm, &frame, region->fd);
    *out = &region->base;
    return WRING_OK;
}

void wring_shm_region_destroy(struct wring_region *base)
{
    struct shm_region *region = (struct shm_region *)base;
    if (region == NULL)
        return;
    struct shm_provider *shm = (struct shm_provider *)base->provider;
    struct shm_frame gone = {.kind = SHM_FRAME_GONE, .id = region->id};
    tell_all(shm, &gone, -1);
    for (size_t i = 0; i < shm->n_conns; i++)
        if (shm->conns[i]->in.inbox != NULL) /* after the frame that says which */
            atomic_fetch_add(&shm->conns[i]->in.inbox->gone, 1);
    shm->regions[slot_of(region->id)] = NULL;
    wring_descriptor_close(region->fd);
    free(region);
}

size_t wring_shm_region_export(struct wring_region *base, void *key)
{
    const struct shm_region *region = (const struct shm_region *)base;
    uint64_t bytes = base->bytes;
    memcpy(key, &region->id, 8);
    memcpy((char *)key + 8, &bytes, 8);
    return KEY_BYTES;
}

uint8_t *wring_shm_region_place(const struct shm_provider *shm, uint64_t id, uint64_t offset,
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

static void free_unused(struct shm_mapping *mapping)
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
        free_unused(mapping);
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
static enum wring_status say_lost(const struct shm_conn *conn)
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
        return say_lost(conn);
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
    free_unused(remote->mapping);
    free(remote);
}

enum wring_status wring_shm_remote_map(struct wring_remote *base, void **out)
{
    *out = ((struct shm_remote *)base)->mapping->base;
    return WRING_OK;
}
