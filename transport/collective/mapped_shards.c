/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place: a shard is summed by whoever comes first. Two ranks that share a core take one
 * hand-over less by that than if each had to sum its own, and what one of them fetches from another
 * core need not come a second time.
 */
#include "transport/collective/mapped_inside.h"

#include "base/spin.h"

#define LOOKS 100 /* as long as a line takes to come, and who looks for it */

void wring_mapped_cut(struct wring_mapped *mapped, const struct wring_geometry *geometry)
{
    uint32_t n = mapped->members.n, me = mapped->members.me;

    for (uint32_t i = 0; i < n; i++) {
        struct wring_mapped_shard *shard = &mapped->shards[i];
        struct wring_span span = wring_geometry_shard(geometry, (me + i) % n);
        shard->offset = (size_t)span.begin * geometry->elem_bytes;
        shard->elems = span.end - span.begin;
        shard->bytes = wring_geometry_bytes(geometry, span);
    }
}

void wring_mapped_open(struct wring_mapped *mapped)
{
    uint64_t open = (mapped->round + 1) << WRING_SHARD_BITS | WRING_SHARD_OPEN;
    atomic_store_explicit(&mapped->own->shard, open, memory_order_relaxed);
}

/** The state of a shard of this round that nobody has come for. */
static uint64_t open_state(const struct wring_mapped *mapped)
{
    return mapped->round << WRING_SHARD_BITS | WRING_SHARD_OPEN;
}

/** Everybody has said that its data is ready, and nobody has come for this shard. */
static bool is_open(const struct wring_mapped_shard *shard, uint64_t open)
{
    return shard->bytes > 0 &&
           atomic_load_explicit(&shard->board->shard, memory_order_relaxed) == open;
}

static void sum_up(struct wring_collective *collective, const struct wring_mapped_shard *shard)
{
    const struct wring_mapped *mapped = collective->mapped;
    struct wring_mapped_sum sum = {.runs = mapped->parts,
                                   .out = mapped->data[mapped->members.me] + shard->offset,
                                   .data = mapped->data,
                                   .offset = shard->offset,
                                   .bytes = shard->bytes,
                                   .elems = shard->elems};

    for (uint32_t i = 0; i < mapped->members.n; i++)
        mapped->parts[i] = mapped->data[i] + shard->offset;
    wring_mapped_reduce(collective, &sum);
    atomic_store_explicit(&shard->board->shard,
                          mapped->round << WRING_SHARD_BITS | WRING_SHARD_SUMMED,
                          memory_order_release);
}

/** Nobody else is about to sum it: it is ours, or that of a member that runs where we do, by what
 *  that said last, so that it cannot run now. */
static bool is_near(const struct wring_mapped *mapped, uint32_t i)
{
    const struct wring_board *board = mapped->shards[i].board;
    return i == 0 ||
           (mapped->crowded && atomic_load_explicit(&board->core, memory_order_relaxed) ==
                                   atomic_load_explicit(&mapped->own->core, memory_order_relaxed));
}

/** Unless somebody else comes first, or the group's steps have ended: who ends them waits until we
 *  have written. @return whether we have */
static bool sum_one(struct wring_collective *collective, const struct wring_mapped_shard *shard,
                    uint64_t open)
{
    struct wring_cease *cease = collective->cease;
    uint64_t ours = open + collective->mapped->members.me + 1;

    if (cease != NULL)
        atomic_fetch_add(&cease->writing, 1);
    bool claimed =
        (cease == NULL || atomic_load(&cease->status) == WRING_OK) &&
        atomic_compare_exchange_strong_explicit(&shard->board->shard, &open, ours,
                                                memory_order_acq_rel, memory_order_relaxed);
    if (claimed)
        sum_up(collective, shard);
    if (cease != NULL)
        atomic_fetch_sub_explicit(&cease->writing, 1, memory_order_release);
    return claimed;
}

/** @param near  none but these @return whether there was one */
static bool sum_open(struct wring_collective *collective, bool near)
{
    const struct wring_mapped *mapped = collective->mapped;
    uint64_t open = open_state(mapped);
    bool any = false;

    for (uint32_t i = 0; i < mapped->members.n; i++) {
        const struct wring_mapped_shard *shard = &mapped->shards[i];
        if ((!near || is_near(mapped, i)) && is_open(shard, open))
            any |= sum_one(collective, shard, open);
    }
    return any;
}

static bool any_is_open(const struct wring_mapped *mapped, uint64_t open)
{
    for (uint32_t i = 1; i < mapped->members.n; i++)
        if (is_open(&mapped->shards[i], open))
            return true;
    return false;
}

/** Who has a core of its own may be about to sum its shard, which is sooner done by two.
 *  @return whether one is left that nobody comes for */
static bool await_owners(const struct wring_mapped *mapped)
{
    int look = mapped->crowded ? LOOKS : 0;
    uint64_t open = open_state(mapped);
    bool any;

    while ((any = any_is_open(mapped, open)) && look++ < LOOKS)
        wring_spin_pause();
    return any;
}

bool wring_mapped_sum_shards(struct wring_collective *collective)
{
    bool any = sum_open(collective, true);
    return (await_owners(collective->mapped) && sum_open(collective, false)) || any;
}

/** That member sums the shard now, as its state says. */
static bool is_its(const struct wring_mapped *mapped, const struct wring_mapped_shard *shard,
                   uint32_t member)
{
    uint64_t its = mapped->round << WRING_SHARD_BITS | (member + 1);
    return shard->bytes > 0 &&
           atomic_load_explicit(&shard->board->shard, memory_order_relaxed) == its;
}

bool wring_mapped_lacks(const struct wring_mapped *mapped, uint32_t other)
{
    if (!mapped->claimed)
        return wring_mapped_number(mapped, other) != mapped->number;
    for (uint32_t i = 0; i < mapped->members.n; i++)
        if (is_its(mapped, &mapped->shards[i], mapped->others[other].member))
            return true;
    return false;
}
