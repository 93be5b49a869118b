/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/arena.h"

#include <stdlib.h>
#include <string.h>

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
static size_t begin_of(const struct wring_arena *arena, size_t at, size_t align)
{
    size_t end = at > 0 ? arena->live[at - 1].offset + arena->live[at - 1].bytes : 0;
    return (end + align - 1) & ~(align - 1);
}

static bool fits(const struct wring_arena *arena, size_t at, size_t begin, size_t bytes)
{
    size_t end = at < arena->n ? arena->live[at].offset : arena->bytes;
    return begin <= end && bytes <= end - begin;
}

/** Behind all others, where there is room; else in the first gap. @return n + 1: nowhere */
static size_t find_gap(const struct wring_arena *arena, size_t bytes, size_t align)
{
    if (fits(arena, arena->n, begin_of(arena, arena->n, align), bytes))
        return arena->n;
    if (bytes > arena->bytes - arena->used)
        return arena->n + 1;
    for (size_t at = 0; at < arena->n; at++)
        if (fits(arena, at, begin_of(arena, at, align), bytes))
            return at;
    return arena->n + 1;
}

static bool make_place(struct wring_arena *arena)
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
    if (at > arena->n || !make_place(arena))
        return false;
    size_t begin = begin_of(arena, at, align);

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
