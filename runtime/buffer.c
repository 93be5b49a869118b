/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/session.h"

#include <stdlib.h>

#define WRING_MODULE "buffer"

static void add(struct wring_session *session, struct wring_buffer *buffer)
{
    pthread_mutex_lock(&session->buffers_mutex);
    buffer->next = session->buffers;
    session->buffers = buffer;
    pthread_mutex_unlock(&session->buffers_mutex);
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
    if (is_too_much(session, 0, bytes))
        return WRING_ERR_NO_MEMORY;
    struct wring_buffer *buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_progress_lock(session->progress);
    enum wring_status status = wring_block_alloc_data(session->fabric, bytes, &buffer->block);
    wring_progress_unlock(session->progress);
    if (status != WRING_OK) {
        free(buffer);
        return status;
    }
    add(session, buffer);
    *out = buffer->block.memory.base;
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
    enum wring_status status = wring_block_borrow(session->fabric, data, bytes, &buffer->block);
    wring_progress_unlock(session->progress);
    if (status != WRING_OK) {
        free(buffer);
        return status;
    }
    add(session, buffer);
    return WRING_OK;
}

enum wring_status wring_buffer_register(struct wring_session *session, void *data, size_t bytes)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, borrow(session, data, bytes));
}

/** Take the buffer that begins there out of the list. */
static struct wring_buffer *take(struct wring_session *session, const void *data)
{
    pthread_mutex_lock(&session->buffers_mutex);
    struct wring_buffer **at = &session->buffers;
    while (*at != NULL && (*at)->block.memory.base != data)
        at = &(*at)->next;
    struct wring_buffer *buffer = *at;
    if (buffer != NULL)
        *at = buffer->next;
    pthread_mutex_unlock(&session->buffers_mutex);
    return buffer;
}

static void forget(struct wring_session *session, const void *data)
{
    struct wring_buffer *buffer = take(session, data);
    if (buffer == NULL)
        return;
    wring_progress_lock(session->progress);
    wring_block_finish(&buffer->block); /* unmaps what alloc mapped, and nothing else */
    wring_progress_unlock(session->progress);
    free(buffer);
}

void wring_buffer_free(struct wring_session *session, void *data)
{
    if (data == NULL || wring_session_enter(session) != WRING_OK)
        return; /* who closes the session frees it */
    forget(session, data);
    wring_session_leave(session, WRING_OK);
}

static bool holds(const struct wring_block *block, uintptr_t begin, size_t bytes)
{
    uintptr_t base = (uintptr_t)block->memory.base;
    return begin >= base && begin - base <= block->memory.bytes &&
           bytes <= block->memory.bytes - (begin - base);
}

const struct wring_block *wring_buffer_find(struct wring_session *session, const void *data,
                                            size_t bytes)
{
    const struct wring_block *found = NULL;
    pthread_mutex_lock(&session->buffers_mutex);
    for (struct wring_buffer *at = session->buffers; at != NULL && found == NULL; at = at->next)
        if (holds(&at->block, (uintptr_t)data, bytes))
            found = &at->block;
    pthread_mutex_unlock(&session->buffers_mutex);
    return found;
}
