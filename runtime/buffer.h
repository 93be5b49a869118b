/* SPDX-License-Identifier: Apache-2.0 */
/** Memory that a session's providers know: the application's own, or arenas. */
#ifndef WRING_RUNTIME_BUFFER_H
#define WRING_RUNTIME_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/fabric.h"
#include <wring/memory.h>
#include <wring/wring.h>

/* Whose memory a pointer leads to. */

/**
 * Ask the CUDA driver, if the process has loaded its library: a process that has not owns no device
 * memory. Memory that host and device both can touch (managed, and pinned host memory) counts as
 * the host's.
 *
 * Call it for registrations only: it looks the library up each time. Threads: safe.
 *
 * @return WRING_MEMORY_DEVICE and its ordinal, or WRING_MEMORY_HOST
 */
struct wring_memory_place wring_pointer_place(const void *pointer);

/**
 * Does the CUDA driver, if the process has loaded its library, export memory of all its devices as
 * dma-bufs? Threads: safe.
 */
bool wring_devices_export_dmabufs(void);

/*
 * Room of one registered block, shared out among buffers: jobs have thousands of these, and each
 * block takes a descriptor, a mapping in every peer and a registration.
 *
 * Objects are used by one thread at a time.
 */

struct wring_extent {
    size_t offset, bytes;
};

struct wring_arena {
    size_t bytes;
    struct wring_extent *live; /* [n], ascending */
    size_t n, max;
    size_t used;  /* bytes of all */
    size_t fresh; /* behind this nothing has ever been given out: it is zero */
};

void wring_arena_init(struct wring_arena *arena, size_t bytes);
void wring_arena_finish(struct wring_arena *arena);

/**
 * @param bytes   more than 0, whole pages
 * @param align   a power of two, of the offset
 * @param offset  out
 * @param stale   out, so many bytes from there on were somebody's before: they are to be zeroed
 * @return false: it has not so much in one piece, or there is no memory for the list
 */
bool wring_arena_take(struct wring_arena *arena, size_t bytes, size_t align, size_t *offset,
                      size_t *stale);

/** @return false: nothing that begins there was given out */
bool wring_arena_give_back(struct wring_arena *arena, size_t offset);

/*
 * Finds the registered memory that holds an address, in the logarithm of how much there is.
 *
 * Objects are used by one thread at a time.
 */

/** Memory and whatever it belongs to. */
struct wring_indexed {
    uintptr_t begin, end;
    uintptr_t reach; /* the highest end of this one and all before it: pieces may overlap */
    void *owner;
};

struct wring_buffer_index {
    struct wring_indexed *all; /* [n], ascending by begin; of equal ones the latest last */
    size_t n, max;
};

/** @return false: no memory */
bool wring_buffer_index_add(struct wring_buffer_index *index, const void *base, size_t bytes,
                            void *owner);

/** It is there. */
void wring_buffer_index_remove(struct wring_buffer_index *index, const void *base,
                               const void *owner);

/** @return an owner whose memory holds [data, data + bytes), or NULL */
void *wring_buffer_index_find(const struct wring_buffer_index *index, const void *data,
                              size_t bytes);

void wring_buffer_index_finish(struct wring_buffer_index *index);

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

/**
 * Register memory that the caller describes; its descriptor is borrowed for the call. The same
 * memory may be registered several times. Threads: safe. Errors: those of wring_buffer_register().
 */
enum wring_status wring_buffer_borrow(struct wring_session *session,
                                      const struct wring_memory *memory, struct wring_buffer **out);

/** Forget such memory: no message uses it. NULL is fine. Threads: safe. */
void wring_buffer_give_back(struct wring_session *session, struct wring_buffer *buffer);

/** wring_block_flush() of a buffer that is in device memory, of wring_buffer_borrow(). Threads:
 * safe; a flush is used by one at a time. */
enum wring_status wring_buffer_flush(struct wring_session *session,
                                     const struct wring_buffer *buffer, const void *at,
                                     struct wring_block_flush *how);

/** Keep the buffer that holds that byte, if it is registered, until the session closes. Threads:
 *  safe. */
void wring_buffer_keep(struct wring_session *session, const void *data);

/** The registered memory that holds [data, data + bytes), or NULL. Threads: safe. */
const struct wring_block *wring_buffer_find(struct wring_session *session, const void *data,
                                            size_t bytes);

#endif
