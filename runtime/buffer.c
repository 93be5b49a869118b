/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session.h"

#include <stdlib.h>

enum wring_status wring_buffer_alloc(struct wring_session *session, size_t bytes, void **out)
{
    struct wring_buffer *buffer = calloc(1, sizeof(*buffer));
    if (buffer == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_progress_lock(session->progress);
    enum wring_status status = wring_block_alloc(session->fabric, bytes, &buffer->block);
    wring_progress_unlock(session->progress);
    if (status != WRING_OK) {
        free(buffer);
        return status;
    }
    buffer->next = session->buffers;
    session->buffers = buffer;
    *out = buffer->block.memory.base;
    return WRING_OK;
}

void wring_buffer_free(struct wring_session *session, void *data)
{
    struct wring_buffer **at = &session->buffers;
    while (*at != NULL && (*at)->block.memory.base != data)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    struct wring_buffer *buffer = *at;
    *at = buffer->next;
    wring_progress_lock(session->progress);
    wring_block_finish(&buffer->block);
    wring_progress_unlock(session->progress);
    free(buffer);
}

struct wring_block *wring_buffer_find(struct wring_session *session, const void *data, size_t bytes)
{
    uintptr_t begin = (uintptr_t)data;
    for (struct wring_buffer *at = session->buffers; at != NULL; at = at->next) {
        uintptr_t base = (uintptr_t)at->block.memory.base;
        if (begin >= base && begin - base <= at->block.memory.bytes &&
            bytes <= at->block.memory.bytes - (begin - base))
            return &at->block;
    }
    return NULL;
}
