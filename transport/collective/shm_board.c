/* SPDX-License-Identifier: Apache-2.0 */
/* Boards: their memory and what lies where in it, mapping those of others, and what steps counted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fence.h"
#include "transport/collective/shm_flags.h"
#include "transport/collective/shm_flags_inside.h"

#define LINE 64

/** A contribution that fits comes in the number's line; all others begin with a line of their
 *  own. */
static size_t slot_head_bytes(size_t room)
{
    return room <= LINE - sizeof(struct wring_shm_flags_slot) ? sizeof(struct wring_shm_flags_slot)
                                                              : LINE;
}

static size_t slot_stride(size_t room)
{
    size_t all = slot_head_bytes(room) + room;
    return (all + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
}

size_t wring_shm_flags_memory(size_t room)
{
    return sizeof(struct wring_board) + 2 * slot_stride(room);
}

/** Where a slot lies behind its board. @param odd  0 or 1, as the epoch */
static uint8_t *board_slot(const struct wring_board *board, size_t room, unsigned odd)
{
    return (uint8_t *)(board + 1) + odd * slot_stride(room);
}

static void set_turns(struct wring_shm_flags *flags)
{
    for (unsigned odd = 0; odd < 2; odd++) {
        uint8_t *slot = board_slot(flags->own, flags->room, odd);
        flags->turns[odd] = (struct wring_shm_flags_turn){
            .slot = (struct wring_shm_flags_slot *)slot,
            .contribution = slot + slot_head_bytes(flags->room),
            .run = flags->runs + odd * flags->members.n,
        };
    }
    wring_shm_flags_enter(flags, 0);
}

static bool alloc_arrays(struct wring_shm_flags *flags)
{
    uint32_t n = flags->members.n;

    flags->others = calloc(n, sizeof(*flags->others));
    flags->shards = calloc(n, sizeof(*flags->shards));
    flags->runs = calloc(2 * (size_t)n, sizeof(*flags->runs));
    flags->data = calloc(n, sizeof(*flags->data));
    flags->parts = calloc(n, sizeof(*flags->parts));
    flags->woken = calloc(n, sizeof(*flags->woken));
    flags->cores = calloc(n, sizeof(*flags->cores));
    return flags->others != NULL && flags->shards != NULL && flags->runs != NULL &&
           flags->data != NULL && flags->parts != NULL && flags->woken != NULL &&
           flags->cores != NULL;
}

static struct wring_shm_flags_shard *shard_of(const struct wring_shm_flags *flags, uint32_t member)
{
    uint32_t n = flags->members.n;
    return &flags->shards[(member + n - flags->members.me) % n];
}

enum wring_status wring_shm_flags_create(struct wring_members members, size_t room, uint8_t *memory,
                                         struct wring_shm_flags **out)
{
    struct wring_shm_flags *flags = calloc(1, sizeof(*flags));
    if (flags == NULL)
        return WRING_ERR_NO_MEMORY;
    flags->members = members;
    flags->room = room;
    flags->op = WRING_OPS; /* no reduction has been chosen */
    flags->own = (struct wring_board *)memory;
    if (!alloc_arrays(flags)) {
        wring_shm_flags_destroy(flags);
        return WRING_ERR_NO_MEMORY;
    }
    set_turns(flags);
    shard_of(flags, members.me)->board = flags->own;
    flags->fenced = !wring_fence_register();
    atomic_store(&flags->own->fenced, flags->fenced);
    *out = flags;
    return WRING_OK;
}

void wring_shm_flags_destroy(struct wring_shm_flags *flags)
{
    if (flags == NULL)
        return;
    free(flags->cores);
    free(flags->woken);
    free(flags->parts);
    free(flags->data);
    free(flags->runs);
    free(flags->shards);
    free(flags->others);
    free(flags);
}

static enum wring_status map_board(const struct wring_shm_flags *flags, struct wring_remote *remote,
                                   uint64_t offset, struct wring_board **out)
{
    size_t bytes = wring_shm_flags_memory(flags->room);
    void *base;

    if (offset > remote->bytes || bytes > remote->bytes - offset || offset % WRING_BOARD_ALIGN != 0)
        return WRING_ERR_FRAME;
    enum wring_status status = remote->conn->provider->ops->remote_map(remote, &base);
    if (status == WRING_OK)
        *out = (struct wring_board *)((uint8_t *)base + offset);
    return status;
}

enum wring_status wring_shm_flags_connect(struct wring_shm_flags *flags, uint32_t member,
                                          struct wring_remote *remote, uint64_t offset)
{
    struct wring_board *board;
    enum wring_status status = map_board(flags, remote, offset, &board);
    if (status != WRING_OK)
        return status;
    struct wring_shm_flags_other *other = &flags->others[flags->n_others++];
    other->board = board;
    other->member = member;
    shard_of(flags, member)->board = board;
    for (unsigned odd = 0; odd < 2; odd++) {
        const uint8_t *slot = board_slot(board, flags->room, odd);
        other->slots[odd] = (const struct wring_shm_flags_slot *)slot;
        flags->turns[odd].run[member] = slot + slot_head_bytes(flags->room);
    }
    flags->fenced |= atomic_load(&board->fenced) != 0;
    return WRING_OK;
}

void wring_shm_flags_set_data(struct wring_shm_flags *flags, uint32_t member, uint8_t *data)
{
    flags->data[member] = data;
}

struct wring_shm_flags_counts wring_shm_flags_count(const struct wring_shm_flags *list)
{
    struct wring_shm_flags_counts counts = {0};
    for (const struct wring_shm_flags *at = list; at != NULL; at = at->next) {
        counts.bytes_sent += atomic_load_explicit(&at->sent_bytes, memory_order_relaxed);
        counts.bytes_received += atomic_load_explicit(&at->taken_bytes, memory_order_relaxed);
        counts.puts_sent += atomic_load_explicit(&at->puts, memory_order_relaxed);
        counts.steps += atomic_load_explicit(&at->ended, memory_order_relaxed);
    }
    return counts;
}

bool wring_shm_flags_is_foreign(const struct wring_collective *collective, uint32_t member)
{
    return wring_shm_flags_other_is_foreign(
        collective->shm_flags, wring_shm_flags_other_of(collective->shm_flags, member));
}
