/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Room of one registered block, shared out among buffers: jobs have thousands of these, and each
 * block takes a descriptor, a mapping in every peer and a registration.
 *
 * Objects are used by one thread at a time.
 */
#ifndef WRING_RUNTIME_ARENA_H
#define WRING_RUNTIME_ARENA_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
