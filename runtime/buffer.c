/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/buffer.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/session/session.h"
#include "transport/memory.h"

#define WRING_MODULE "buffer"
#define LIBRARY "libcuda.so.1"

/* The driver interface, of which this is all that is needed: numbers as its ABI has them. */
#define CUDA_SUCCESS 0
#define MEMORY_TYPE 2 /* attributes */
#define IS_MANAGED 8
#define DEVICE_ORDINAL 9
#define DMA_BUF_SUPPORTED 124 /* of a device */
#define TYPE_DEVICE 2         /* of memory */

typedef int (*attribute_fn)(void *data, int attribute, unsigned long long pointer);

static struct wring_memory_place ask_driver_for_place(attribute_fn get_attribute,
                                                      const void *pointer)
{
    static const struct wring_memory_place host = {WRING_MEMORY_HOST, 0};
    unsigned long long at = (uintptr_t)pointer;
    unsigned type = 0, managed = 0;
    int ordinal = 0;

    if (get_attribute(&type, MEMORY_TYPE, at) != CUDA_SUCCESS || type != TYPE_DEVICE)
        return host; /* the driver does not know it, or says so */
    if (get_attribute(&managed, IS_MANAGED, at) == CUDA_SUCCESS && managed != 0)
        return host;
    if (get_attribute(&ordinal, DEVICE_ORDINAL, at) != CUDA_SUCCESS)
        ordinal = 0;
    return (struct wring_memory_place){WRING_MEMORY_DEVICE, ordinal};
}

struct wring_memory_place wring_pointer_place(const void *pointer)
{
    struct wring_memory_place place = {WRING_MEMORY_HOST, 0};
    attribute_fn get_attribute = NULL;
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);

    if (library == NULL)
        return place;
    *(void **)(uintptr_t)&get_attribute = dlsym(library, "cuPointerGetAttribute");
    if (get_attribute != NULL)
        place = ask_driver_for_place(get_attribute, pointer);
    dlclose(library);
    return place;
}

/** Its functions. @return false: it lacks one, or there is no device that does not */
static bool can_all_export(void *library)
{
    int (*count_devices)(int *n) = NULL;
    int (*get_device)(int *device, int ordinal) = NULL;
    int (*get_attribute)(int *value, int attribute, int device) = NULL;
    int n = 0, device = 0, value = 0;

    *(void **)(uintptr_t)&count_devices = dlsym(library, "cuDeviceGetCount");
    *(void **)(uintptr_t)&get_device = dlsym(library, "cuDeviceGet");
    *(void **)(uintptr_t)&get_attribute = dlsym(library, "cuDeviceGetAttribute");
    if (count_devices == NULL || get_device == NULL || get_attribute == NULL ||
        count_devices(&n) != CUDA_SUCCESS)
        return false;
    for (int i = 0; i < n; i++)
        if (get_device(&device, i) != CUDA_SUCCESS ||
            get_attribute(&value, DMA_BUF_SUPPORTED, device) != CUDA_SUCCESS || value == 0)
            return false;
    return n > 0;
}

bool wring_devices_export_dmabufs(void)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    if (library == NULL)
        return false;
    bool all = can_all_export(library);
    dlclose(library);
    return all;
}

/* ---- arena ---- */

void wring_arena_init(struct wring_arena *arena, size_t bytes)
{
    *arena = (struct wring_arena){.bytes = bytes};
}

void wring_arena_finish(struct wring_arena *arena)
{
    free(arena->live);
    *arena = (struct wring_arena){0};
}

/** Where extent `at` may begin at the earliest: behind the one before it. */
static size_t extent_begin(const struct wring_arena *arena, size_t at, size_t align)
{
    size_t end = at > 0 ? arena->live[at - 1].offset + arena->live[at - 1].bytes : 0;
    return (end + align - 1) & ~(align - 1);
}

static bool fits_in_gap(const struct wring_arena *arena, size_t at, size_t begin, size_t bytes)
{
    size_t end = at < arena->n ? arena->live[at].offset : arena->bytes;
    return begin <= end && bytes <= end - begin;
}

/** Behind all others, where there is room; else in the first gap. @return n + 1: nowhere */
static size_t find_gap(const struct wring_arena *arena, size_t bytes, size_t align)
{
    if (fits_in_gap(arena, arena->n, extent_begin(arena, arena->n, align), bytes))
        return arena->n;
    if (bytes > arena->bytes - arena->used)
        return arena->n + 1;
    for (size_t at = 0; at < arena->n; at++)
        if (fits_in_gap(arena, at, extent_begin(arena, at, align), bytes))
            return at;
    return arena->n + 1;
}

static bool grow_extents(struct wring_arena *arena)
{
    if (arena->n < arena->max)
        return true;
    size_t max = 2 * arena->max + 16;
    struct wring_extent *live = realloc(arena->live, max * sizeof(*live));
    if (live == NULL)
        return false;
    arena->live = live;
    arena->max = max;
    return true;
}

bool wring_arena_take(struct wring_arena *arena, size_t bytes, size_t align, size_t *offset,
                      size_t *stale)
{
    size_t at = find_gap(arena, bytes, align);
    if (at > arena->n || !grow_extents(arena))
        return false;
    size_t begin = extent_begin(arena, at, align);

    memmove(&arena->live[at + 1], &arena->live[at], (arena->n - at) * sizeof(*arena->live));
    arena->live[at] = (struct wring_extent){begin, bytes};
    arena->n++;
    arena->used += bytes;
    size_t end = begin + bytes < arena->fresh ? begin + bytes : arena->fresh;
    *stale = end > begin ? end - begin : 0;
    *offset = begin;
    if (begin + bytes > arena->fresh)
        arena->fresh = begin + bytes;
    return true;
}

bool wring_arena_give_back(struct wring_arena *arena, size_t offset)
{
    size_t low = 0, high = arena->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (arena->live[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == arena->n || arena->live[low].offset != offset)
        return false;
    arena->used -= arena->live[low].bytes;
    arena->n--;
    memmove(&arena->live[low], &arena->live[low + 1], (arena->n - low) * sizeof(*arena->live));
    return true;
}

/* ---- buffer index ---- */

/** How many begin at the address or before it. */
static size_t count_begun_before(const struct wring_buffer_index *index, uintptr_t address)
{
    size_t low = 0, high = index->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->all[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void renew_reach(struct wring_buffer_index *index, size_t from)
{
    for (size_t i = from; i < index->n; i++) {
        uintptr_t before = i > 0 ? index->all[i - 1].reach : 0;
        index->all[i].reach = index->all[i].end > before ? index->all[i].end : before;
    }
}

bool wring_buffer_index_add(struct wring_buffer_index *index, const void *base, size_t bytes,
                            void *owner)
{
    if (index->n == index->max) {
        size_t max = 2 * index->max + 16;
        struct wring_indexed *all = realloc(index->all, max * sizeof(*all));
        if (all == NULL)
            return false;
        index->all = all;
        index->max = max;
    }
    size_t at = count_begun_before(index, (uintptr_t)base);
    memmove(&index->all[at + 1], &index->all[at], (index->n - at) * sizeof(*index->all));
    index->all[at] = (struct wring_indexed){
        .begin = (uintptr_t)base, .end = (uintptr_t)base + bytes, .owner = owner};
    index->n++;
    renew_reach(index, at);
    return true;
}

void wring_buffer_index_remove(struct wring_buffer_index *index, const void *base,
                               const void *owner)
{
    size_t at = count_begun_before(index, (uintptr_t)base);
    while (at > 0 && index->all[at - 1].owner != owner)
        at--;
    if (at == 0)
        return;
    at--;
    index->n--;
    memmove(&index->all[at], &index->all[at + 1], (index->n - at) * sizeof(*index->all));
    renew_reach(index, at);
}

void *wring_buffer_index_find(const struct wring_buffer_index *index, const void *data,
                              size_t bytes)
{
    uintptr_t begin = (uintptr_t)data;
    for (size_t at = count_begun_before(index, begin); at > 0; at--) {
        const struct wring_indexed *one = &index->all[at - 1];
        if (one->end >= begin && bytes <= one->end - begin)
            return one->owner;
        if (one->reach < begin || bytes > one->reach - begin)
            return NULL;
    }
    return NULL;
}

void wring_buffer_index_finish(struct wring_buffer_index *index)
{
    free(index->all);
    *index = (struct wring_buffer_index){0};
}

/* ---- buffer ---- */

#define GROWS_BY 8                   /* a new arena has at most one part in so many too much … */
#define GROWS_FROM ((size_t)1 << 20) /* … but so many bytes at least */

static uint8_t *buffer_base(const struct wring_buffer *buffer)
{
    return buffer->block.memory.base;
}

/** The mutex is held. @return false: no memory */
static bool list_buffer(struct wring_session *session, struct wring_buffer *buffer)
{
    const struct wring_memory *memory = &buffer->block.memory;
    if (!wring_buffer_index_add(&session->buffer_index, memory->base, memory->bytes, buffer))
        return false;
    buffer->next = session->buffers;
    session->buffers = buffer;
    if (buffer->is_arena)
        session->arena_bytes += memory->bytes;
    if (memory->kind == WRING_MEMORY_DEVICE)
        atomic_fetch_add(&session->n_device_buffers, 1);
    return true;
}

/** The mutex is held. */
static void unlist_buffer(struct wring_session *session, struct wring_buffer *buffer)
{
    struct wring_buffer **at = &session->buffers;
    while (*at != buffer)
        at = &(*at)->next;
    *at = buffer->next;
    if (buffer->is_arena)
        session->arena_bytes -= buffer->block.memory.bytes;
    if (buffer->block.memory.kind == WRING_MEMORY_DEVICE)
        atomic_fetch_sub(&session->n_device_buffers, 1);
    wring_buffer_index_remove(&session->buffer_index, buffer->block.memory.base, buffer);
}

void wring_buffer_destroy(struct wring_buffer *buffer)
{
    wring_block_finish(&buffer->block); /* unmaps what alloc mapped, and nothing else */
    wring_arena_finish(&buffer->arena);
    free(buffer);
}

static void destroy_buffer(struct wring_session *session, struct wring_buffer *buffer)
{
    wring_progress_lock(session->progress);
    wring_buffer_destroy(buffer);
    wring_progress_unlock(session->progress);
}

/** Make it known, or undo it. */
static enum wring_status list_or_destroy_buffer(struct wring_session *session,
                                                struct wring_buffer *buffer)
{
    pthread_mutex_lock(&session->buffers_mutex);
    bool added = list_buffer(session, buffer);
    pthread_mutex_unlock(&session->buffers_mutex);
    if (!added)
        destroy_buffer(session, buffer);
    return added ? WRING_OK : WRING_ERR_NO_MEMORY;
}

/** A piece of some arena, all zero. @param bytes  whole pages @return NULL: none has so much */
static void *take_from_arenas(struct wring_session *session, size_t bytes)
{
    size_t align = bytes < WRING_MEMORY_LARGE ? (size_t)sysconf(_SC_PAGESIZE) : WRING_MEMORY_LARGE;
    size_t offset = 0, stale = 0;
    struct wring_buffer *at;

    pthread_mutex_lock(&session->buffers_mutex);
    for (at = session->buffers; at != NULL; at = at->next)
        if (at->is_arena && wring_arena_take(&at->arena, bytes, align, &offset, &stale))
            break;
    pthread_mutex_unlock(&session->buffers_mutex);
    if (at == NULL)
        return NULL;
    memset(buffer_base(at) + offset, 0, stale);
    return buffer_base(at) + offset;
}

/** Fewer arenas than so many doublings, and little that nobody asked for: devices may pin it. */
static size_t next_arena_bytes(struct wring_session *session, size_t bytes)
{
    pthread_mutex_lock(&session->buffers_mutex);
    size_t wish = session->arena_bytes / GROWS_BY;
    pthread_mutex_unlock(&session->buffers_mutex);
    size_t most = wring_memory_most();

    wish = wish > GROWS_FROM ? wish : GROWS_FROM;
    wish = wish < most ? wish : most;
    return wish > bytes ? wish : bytes;
}

/** An arena, and its first piece. */
static enum wring_status add_arena(struct wring_session *session, size_t bytes, void **out)
{
    size_t room = next_arena_bytes(session, bytes), offset, stale;
    struct wring_buffer *buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL)
        return WRING_ERR_NO_MEMORY;
    buffer->is_arena = true;
    wring_progress_lock(session->progress);
    enum wring_status status = wring_block_alloc_data(session->fabric, room, &buffer->block);
    wring_progress_unlock(session->progress);
    if (status != WRING_OK) {
        free(buffer);
        return status;
    }
    wring_arena_init(&buffer->arena, buffer->block.memory.bytes);
    if (!wring_arena_take(&buffer->arena, bytes, 1, &offset, &stale)) {
        destroy_buffer(session, buffer);
        return WRING_ERR_NO_MEMORY;
    }
    void *base = buffer_base(buffer); /* another thread may have it freed from here on */
    status = list_or_destroy_buffer(session, buffer);
    if (status == WRING_OK)
        *out = base;
    return status;
}

/** More than any memory has, or past its end: a size that has overflowed. */
static bool refuses_too_large(const struct wring_session *session, uintptr_t data, size_t bytes)
{
    if (bytes <= PTRDIFF_MAX && data <= UINTPTR_MAX - bytes)
        return false;
    wring_error(&session->log, "a buffer of %zu bytes is more than memory can hold", bytes);
    return true;
}

static enum wring_status alloc_from_arena(struct wring_session *session, size_t bytes, void **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (refuses_too_large(session, 0, bytes))
        return WRING_ERR_NO_MEMORY;
    size_t whole = bytes > 0 ? (bytes + page - 1) / page * page : page;
    void *piece = take_from_arenas(session, whole);
    if (piece == NULL)
        return add_arena(session, whole, out);
    *out = piece;
    return WRING_OK;
}

enum wring_status wring_buffer_alloc(struct wring_session *session, size_t bytes, void **out)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, alloc_from_arena(session, bytes, out));
}

static enum wring_status borrow_memory(struct wring_session *session,
                                       const struct wring_memory *memory, struct wring_buffer **out)
{
    if (memory->base == NULL || memory->bytes == 0 ||
        refuses_too_large(session, (uintptr_t)memory->base, memory->bytes))
        return WRING_ERR_INVALID;
    struct wring_buffer *buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_progress_lock(session->progress);
    enum wring_status status = wring_block_borrow_memory(session->fabric, memory, &buffer->block);
    wring_progress_unlock(session->progress);
    if (status != WRING_OK) {
        free(buffer);
        return status;
    }
    status = list_or_destroy_buffer(session, buffer);
    if (status == WRING_OK)
        *out = buffer;
    return status;
}

enum wring_status wring_buffer_borrow(struct wring_session *session,
                                      const struct wring_memory *memory, struct wring_buffer **out)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, borrow_memory(session, memory, out));
}

void wring_buffer_give_back(struct wring_session *session, struct wring_buffer *buffer)
{
    if (buffer == NULL || wring_session_enter(session) != WRING_OK)
        return; /* who closes the session frees it */
    pthread_mutex_lock(&session->buffers_mutex);
    bool last = !buffer->kept;
    if (last)
        unlist_buffer(session, buffer);
    pthread_mutex_unlock(&session->buffers_mutex);
    if (last)
        destroy_buffer(session, buffer);
    wring_session_leave(session, WRING_OK);
}

static enum wring_status flush_buffer(struct wring_session *session,
                                      const struct wring_buffer *buffer, const void *at,
                                      struct wring_block_flush *flush)
{
    wring_progress_lock(session->progress);
    enum wring_status status = wring_block_flush(session->fabric, &buffer->block, at, flush);
    wring_progress_unlock(session->progress);
    return status;
}

enum wring_status wring_buffer_flush(struct wring_session *session,
                                     const struct wring_buffer *buffer, const void *at,
                                     struct wring_block_flush *how)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, flush_buffer(session, buffer, at, how));
}

enum wring_status wring_buffer_register(struct wring_session *session, void *data, size_t bytes)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    struct wring_memory_place place = wring_pointer_place(data);
    const struct wring_memory memory = {
        .base = data, .bytes = bytes, .kind = place.kind, .ordinal = place.ordinal, .fd = -1};
    struct wring_buffer *buffer;
    return wring_session_leave(session, borrow_memory(session, &memory, &buffer));
}

/** What was registered at that address, or the arena that a piece was taken from. */
static struct wring_buffer *find_buffer_or_arena(struct wring_session *session, const void *data)
{
    struct wring_buffer *arena = NULL;
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next) {
        const uint8_t *base = buffer_base(at);
        if (!at->is_arena && base == data)
            return at;
        if (at->is_arena && (const uint8_t *)data >= base &&
            (const uint8_t *)data < base + at->block.memory.bytes)
            arena = at;
    }
    return arena;
}

static void free_buffer_at(struct wring_session *session, const void *data)
{
    pthread_mutex_lock(&session->buffers_mutex);
    struct wring_buffer *buffer = find_buffer_or_arena(session, data);
    bool known = buffer != NULL && !buffer->kept &&
                 (!buffer->is_arena ||
                  wring_arena_give_back(&buffer->arena,
                                        (size_t)((const uint8_t *)data - buffer_base(buffer))));
    bool last = known && buffer->arena.n == 0; /* of its arena; what was registered has none */
    if (last)
        unlist_buffer(session, buffer);
    pthread_mutex_unlock(&session->buffers_mutex);
    if (last)
        destroy_buffer(session, buffer);
}

void wring_buffer_free(struct wring_session *session, void *data)
{
    if (data == NULL || wring_session_enter(session) != WRING_OK)
        return; /* who closes the session frees it */
    free_buffer_at(session, data);
    wring_session_leave(session, WRING_OK);
}

void wring_buffer_keep(struct wring_session *session, const void *data)
{
    pthread_mutex_lock(&session->buffers_mutex);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        at->kept |= (const uint8_t *)data >= buffer_base(at) &&
                    (const uint8_t *)data < buffer_base(at) + at->block.memory.bytes;
    pthread_mutex_unlock(&session->buffers_mutex);
}

const struct wring_block *wring_buffer_find(struct wring_session *session, const void *data,
                                            size_t bytes)
{
    pthread_mutex_lock(&session->buffers_mutex);
    const struct wring_buffer *found = wring_buffer_index_find(&session->buffer_index, data, bytes);
    pthread_mutex_unlock(&session->buffers_mutex);
    return found != NULL ? &found->block : NULL;
}
