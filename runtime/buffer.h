/* SPDX-License-Identifier: Apache-2.0 */
/** Memory that a session's providers know: the application's own, or arenas. */
#ifndef WRING_RUNTIME_BUFFER_H
#define WRING_RUNTIME_BUFFER_H

#include "runtime/arena.h"
#include "transport/fabric.h"
#include <wring/wring.h>

/** Registered memory: the application's own, or an arena that wring_buffer_alloc() gives from. */
struct wring_buffer {
    struct wring_block block;
    bool is_arena;
    struct wring_arena arena;
    bool kept; /* until the session closes, whatever its owner frees: a peer may still need it */
    struct wring_buffer *next;
};

/** Its memory is unmapped, if it is ours. It is in no list; the engine is locked. */
void wring_buffer_destroy(struct wring_buffer *buffer);

/** What holds that byte, if it is registered, stays until the session closes. Threads: safe. */
void wring_buffer_keep(struct wring_session *session, const void *data);

/** The registered memory that holds [data, data + bytes), or NULL. Threads: safe. */
const struct wring_block *wring_buffer_find(struct wring_session *session, const void *data,
                                            size_t bytes);

#endif
