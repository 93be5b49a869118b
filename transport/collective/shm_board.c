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
static size_t head_of(size_t room)
{
    return room <= LINE - sizeof(struct wring_shm_flags_slot) ? sizeof(struct wring_shm_flags_slot)
                                                              : LINE;
}

static size_t stride_of(size_t room)
{
    size_t all = head_of(room) + room;
    return (all + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
}

size_t wring_shm_flags_memory(size_t room)
{
    return sizeof(struct wring_board) + 2 * stride_of(room);
}

/** Where a slot lies behind its board. @param odd  0 or 1, as the round */
static uint8_t *slot_of(const struct wring_board *board, size_t room, unsigned odd)
{
    return (uint8_t *)(board + 1) + odd * stride_of(room);
}

static void set_turns(struct wring_shm_flags *mapped)
{
    for (unsigned odd = 0; odd < 2; odd++) {
        uint8_t *slot = slot_of(mapped->own, mapped->room, odd);
        mapped->turns[odd] = (struct wring_shm_flags_turn){
            .slot = (struct wring_shm_flags_slot *)slot,
            .contribution = slot + head_of(mapped->room),
            .run = mapped->runs + odd * mapped->members.n,
        };
    }
    wring_shm_flags_enter(mapped, 0);
}

static bool allocate(struct wring_shm_flags *mapped)
{
    uint32_t n = mapped->members.n;

    mapped->others = calloc(n, sizeof(*mapped->others));
    mapped->shards = calloc(n, sizeof(*mapped->shards));
    mapped->runs = calloc(2 * (size_t)n, sizeof(*mapped->runs));
    mapped->data = calloc(n, sizeof(*mapped->data));
    mapped->parts = calloc(n, sizeof(*mapped->parts));
    mapped->woken = calloc(n, sizeof(*mapped->woken));
    mapped->cores = calloc(n, sizeof(*mapped->cores));
    return mapped->others != NULL && mapped->shards != NULL && mapped->runs != NULL &&
           mapped->data != NULL && mapped->parts != NULL && mapped->woken != NULL &&
           mapped->cores != NULL;
}

static struct wring_shm_flags_shard *shard_of(const struct wring_shm_flags *mapped, uint32_t member)
{
    uint32_t n = mapped->members.n;
    return &mapped->shards[(member + n - mapped->members.me) % n];
}

enum wring_status wring_shm_flags_create(struct wring_members members, size_t room, uint8_t *memory,
                                         struct wring_shm_flags **out)
{
    struct wring_shm_flags *mapped = calloc(1, sizeof(*mapped));
    if (mapped == NULL)
        return WRING_ERR_NO_MEMORY;
    mapped->members = members;
    mapped->room = room;
    mapped->op = WRING_OPS; /* no reduction has been chosen */
    mapped->own = (struct wring_board *)memory;
    if (!allocate(mapped)) {
        wring_shm_flags_destroy(mapped);
        return WRING_ERR_NO_MEMORY;
    }
    set_turns(mapped);
    shard_of(mapped, members.me)->board = mapped->own;
    mapped->fenced = !wring_fence_register();
    atomic_store(&mapped->own->fenced, mapped->fenced);
    *out = mapped;
    return WRING_OK;
}

void wring_shm_flags_destroy(struct wring_shm_flags *mapped)
{
    if (mapped == NULL)
        return;
    free(mapped->cores);
    free(mapped->woken);
    free(mapped->parts);
    free(mapped->data);
    free(mapped->runs);
    free(mapped->shards);
    free(mapped->others);
    free(mapped);
}

static enum wring_status map_board(const struct wring_shm_flags *mapped,
                                   struct wring_remote *remote, uint64_t offset,
                                   struct wring_board **out)
{
    size_t bytes = wring_shm_flags_memory(mapped->room);
    void *base;

    if (offset > remote->bytes || bytes > remote->bytes - offset || offset % WRING_BOARD_ALIGN != 0)
        return WRING_ERR_FRAME;
    enum wring_status status = remote->conn->provider->ops->remote_map(remote, &base);
    if (status == WRING_OK)
        *out = (struct wring_board *)((uint8_t *)base + offset);
    return status;
}

enum wring_status wring_shm_flags_connect(struct wring_shm_flags *mapped, uint32_t member,
                                          struct wring_remote *remote, uint64_t offset)
{
    struct wring_board *board;
    enum wring_status status = map_board(mapped, remote, offset, &board);
    if (status != WRING_OK)
        return status;
    struct wring_shm_flags_other *other = &mapped->others[mapped->n_others++];
    other->board = board;
    other->member = member;
    shard_of(mapped, member)->board = board;
    for (unsigned odd = 0; odd < 2; odd++) {
        const uint8_t *slot = slot_of(board, mapped->room, odd);
        other->slots[odd] = (const struct wring_shm_flags_slot *)slot;
        mapped->turns[odd].run[member] = slot + head_of(mapped->room);
    }
    mapped->fenced |= atomic_load(&board->fenced) != 0;
    return WRING_OK;
}

void wring_shm_flags_set_data(struct wring_shm_flags *mapped, uint32_t member, uint8_t *data)
{
    mapped->data[member] = data;
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
