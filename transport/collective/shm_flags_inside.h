/* SPDX-License-Identifier: Apache-2.0 */
/** The contents of boards, and how to read them. Private to shm_flags.c and shm_board.c. */
#ifndef WRING_TRANSPORT_COLLECTIVE_SHM_FLAGS_INSIDE_H
#define WRING_TRANSPORT_COLLECTIVE_SHM_FLAGS_INSIDE_H

#include <sched.h>

#include "transport/collective/collective.h"

/** An epoch's contribution, behind its number, which is written last. */
struct wring_shm_flags_slot {
    _Atomic uint64_t number;
};

static inline uint64_t wring_shm_flags_number(const struct wring_shm_flags *flags, uint32_t other)
{
    const struct wring_shm_flags_slot *slot = flags->others[other].slots[flags->epoch & 1];
    return atomic_load_explicit(&slot->number, memory_order_acquire);
}

static inline bool wring_shm_flags_all_shown(const struct wring_shm_flags *flags)
{
    for (uint32_t i = 0; i < flags->n_others; i++)
        if (wring_shm_flags_number(flags, i) != flags->number)
            return false;
    return true;
}

/** Has somebody made another call? */
static inline bool wring_shm_flags_other_is_foreign(const struct wring_shm_flags *flags,
                                                    uint32_t other)
{
    uint64_t number = wring_shm_flags_number(flags, other);
    return number != flags->number && number >> WRING_TAG_BITS == flags->epoch;
}

/** Its index among the others. */
static inline uint32_t wring_shm_flags_other_of(const struct wring_shm_flags *flags,
                                                uint32_t member)
{
    uint32_t i = 0;
    while (flags->others[i].member != member)
        i++;
    return i;
}

/** In place: has the shard been summed? Its member may have opened it for the next epoch by now. */
static inline bool wring_shm_flags_is_summed(const struct wring_shm_flags *flags,
                                             const struct wring_shm_flags_shard *shard)
{
    uint64_t summed = flags->epoch << WRING_SHARD_BITS | WRING_SHARD_SUMMED;
    return shard->bytes == 0 ||
           atomic_load_explicit(&shard->board->shard, memory_order_acquire) >= summed;
}

static inline bool wring_shm_flags_all_summed(const struct wring_shm_flags *flags)
{
    for (uint32_t i = 0; i < flags->members.n; i++)
        if (!wring_shm_flags_is_summed(flags, &flags->shards[i]))
            return false;
    return true;
}

/** All data is there that the step waits for next. */
static inline bool wring_shm_flags_all_there(const struct wring_shm_flags *flags)
{
    return flags->claimed ? wring_shm_flags_all_summed(flags) : wring_shm_flags_all_shown(flags);
}

static inline bool wring_shm_flags_sleeps(const struct wring_shm_flags *flags, uint32_t other)
{
    const struct wring_board *board = flags->others[other].board;
    return atomic_load_explicit(&board->asleep, memory_order_relaxed) != 0;
}

/** Threads move seldom, so that this line stays with its readers. @return as it is shown */
static inline uint32_t wring_shm_flags_show_core(const struct wring_shm_flags *flags)
{
    uint32_t core = (uint32_t)(sched_getcpu() + 1);
    if (atomic_load_explicit(&flags->own->core, memory_order_relaxed) != core)
        atomic_store_explicit(&flags->own->core, core, memory_order_relaxed);
    return core;
}

static inline bool wring_shm_flags_under_way(const struct wring_collective *collective)
{
    return atomic_load_explicit(&collective->status, memory_order_acquire) == WRING_ERR_AGAIN;
}

/** It is this epoch now: make the next one ready to be shown. */
static inline void wring_shm_flags_enter(struct wring_shm_flags *flags, uint64_t epoch)
{
    const struct wring_shm_flags_turn *next = &flags->turns[(epoch + 1) & 1];

    flags->epoch = epoch;
    flags->turn = &flags->turns[epoch & 1];
    flags->ready.slot = next->slot;
    flags->ready.contribution = next->contribution;
    flags->ready.number = (epoch + 1) << WRING_TAG_BITS;
}

/** A reduction of runs, and where its result goes. */
struct wring_shm_flags_sum {
    const void **runs; /* [members] */
    void *out;
    uint8_t *const *data; /* [members] in place: it goes there, too, at `offset`; or NULL */
    size_t offset, bytes;
    uint64_t elems;
};

#endif
