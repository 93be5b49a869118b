/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/buffer.h"
#include "runtime/device_pointer.h"
#include "runtime/session/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "transport/memory.h"

#define WRING_MODULE "buffer"
#define GROWS_BY 8                   /* a new arena has at most one part in so many too much … */
#define GROWS_FROM ((size_t)1 << 20) /* … but so many bytes at least */

static uint8_t *base_of(const struct wring_buffer *buffer)
{
    return buffer->block.memory.base;
}

/** The mutex is held. @return false: no memory */
static bool add(struct wring_session *session, struct wring_buffer *buffer)
{
    const struct wring_memory *memory = &buffer->block.memory;
    if (!wring_buffer_index_add(&session->buffer_index, memory->base, memory->bytes, buffer))
        return false;
    buffer->next = session->buffers;
    session->buffers = buffer;
    if (buffer->is_arena)
        session->arena_bytes += memory->bytes;
    return true;
}

/** The mutex is held. */
static void take_out(struct wring_session *session, struct wring_buffer *buffer)
{
    struct wring_buffer **at = &session->buffers;
    while (*at != buffer)
        at = &(*at)->next;
    *at = buffer->next;
    if (buffer->is_arena)
        session->arena_bytes -= buffer->block.memory.bytes;
    wring_buffer_index_remove(&session->buffer_index, buffer->block.memory.base, buffer);
}

void wring_buffer_destroy(struct wring_buffer *buffer)
{
    wring_block_finish(&buffer->block); /* unmaps what alloc mapped, and nothing else */
    wring_arena_finish(&buffer->arena);
    free(buffer);
}

static void destroy(struct wring_session *session, struct wring_buffer *buffer)
{
    wring_progress_lock(session->progress);
    wring_buffer_destroy(buffer);
    wring_progress_unlock(session->progress);
}

/** Make it known, or undo it. */
static enum wring_status keep(struct wring_session *session, struct wring_buffer *buffer)
{
    pthread_mutex_lock(&session->buffers_mutex);
    bool added = add(session, buffer);
    pthread_mutex_unlock(&session->buffers_mutex);
    if (!added)
        destroy(session, buffer);
    return added ? WRING_OK : WRING_ERR_NO_MEMORY;
}

/** A piece of some arena, all zero. @param bytes  whole pages @return NULL: none has so much */
static void *carve(struct wring_session *session, size_t bytes)
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
    memset(base_of(at) + offset, 0, stale);
    return base_of(at) + offset;
}

/** Fewer arenas than so many doublings, and little that nobody asked for: devices may pin it. */
static size_t next_bytes(struct wring_session *session, size_t bytes)
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
    size_t room = next_bytes(session, bytes), offset, stale;
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
        destroy(session, buffer);
        return WRING_ERR_NO_MEMORY;
    }
    void *base = base_of(buffer); /* another thread may have it freed from here on */
    status = keep(session, buffer);
    if (status == WRING_OK)
        *out = base;
    return status;
}

/** More than any memory has, or past its end: a size that has overflowed. */
static bool is_too_much(const struct wring_session *session, uintptr_t data, size_t bytes)
{
    if (bytes <= PTRDIFF_MAX && data <= UINTPTR_MAX - bytes)
        return false;
    wring_error(&session->log, "a buffer of %zu bytes is more than memory can hold", bytes);
    return true;
}

static enum wring_status alloc(struct wring_session *session, size_t bytes, void **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (is_too_much(session, 0, bytes))
        return WRING_ERR_NO_MEMORY;
    size_t whole = bytes > 0 ? (bytes + page - 1) / page * page : page;
    void *piece = carve(session, whole);
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
    return wring_session_leave(session, alloc(session, bytes, out));
}

static enum wring_status borrow(struct wring_session *session, void *data, size_t bytes)
{
    if (data == NULL || bytes == 0 || is_too_much(session, (uintptr_t)data, bytes))
        return WRING_ERR_INVALID;
    struct wring_buffer *buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_progress_lock(session->progress);
    enum wring_status status =
        wring_block_borrow(session->fabric, data, bytes, wring_pointer_place(data), &buffer->block);
    wring_progress_unlock(session->progress);
    if (status != WRING_OK) {
        free(buffer);
        return status;
    }
    return keep(session, buffer);
}

enum wring_status wring_buffer_register(struct wring_session *session, void *data, size_t bytes)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, borrow(session, data, bytes));
}

/** What was registered at that address, or the arena that a piece was taken from. */
static struct wring_buffer *find_begin(struct wring_session *session, const void *data)
{
    struct wring_buffer *arena = NULL;
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next) {
        const uint8_t *base = base_of(at);
        if (!at->is_arena && base == data)
            return at;
        if (at->is_arena && (const uint8_t *)data >= base &&
            (const uint8_t *)data < base + at->block.memory.bytes)
            arena = at;
    }
    return arena;
}

static void forget(struct wring_session *session, const void *data)
{
    pthread_mutex_lock(&session->buffers_mutex);
    struct wring_buffer *buffer = find_begin(session, data);
    bool known =
        buffer != NULL && !buffer->kept &&
        (!buffer->is_arena ||
         wring_arena_give_back(&buffer->arena, (size_t)((const uint8_t *)data - base_of(buffer))));
    bool last = known && buffer->arena.n == 0; /* of its arena; what was registered has none */
    if (last)
        take_out(session, buffer);
    pthread_mutex_unlock(&session->buffers_mutex);
    if (last)
        destroy(session, buffer);
}

void wring_buffer_free(struct wring_session *session, void *data)
{
    if (data == NULL || wring_session_enter(session) != WRING_OK)
        return; /* who closes the session frees it */
    forget(session, data);
    wring_session_leave(session, WRING_OK);
}

void wring_buffer_keep(struct wring_session *session, const void *data)
{
    pthread_mutex_lock(&session->buffers_mutex);
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next)
        at->kept |= (const uint8_t *)data >= base_of(at) &&
                    (const uint8_t *)data < base_of(at) + at->block.memory.bytes;
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
