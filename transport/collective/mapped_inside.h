/* SPDX-License-Identifier: Apache-2.0 */
/** What boards show, and how it is read. Private to mapped*.c. */
#ifndef WRING_TRANSPORT_MAPPED_INSIDE_H
#define WRING_TRANSPORT_MAPPED_INSIDE_H

#include <sched.h>

#include "transport/collective/collective.h"

/** A round's contribution, behind its number, which is written last. */
struct wring_mapped_slot {
    _Atomic uint64_t number;
};

static inline uint64_t wring_mapped_number(const struct wring_mapped *mapped, uint32_t other)
{
    const struct wring_mapped_slot *slot = mapped->others[other].slots[mapped->round & 1];
    return atomic_load_explicit(&slot->number, memory_order_acquire);
}

static inline bool wring_mapped_all_shown(const struct wring_mapped *mapped)
{
    for (uint32_t i = 0; i < mapped->n_others; i++)
        if (wring_mapped_number(mapped, i) != mapped->number)
            return false;
    return true;
}

static inline bool wring_mapped_sleeps(const struct wring_mapped *mapped, uint32_t other)
{
    const struct wring_board *board = mapped->others[other].board;
    return atomic_load_explicit(&board->asleep, memory_order_relaxed) != 0;
}

/** Threads move seldom, so that this line stays with its readers. @return as it is shown */
static inline uint32_t wring_mapped_show_core(const struct wring_mapped *mapped)
{
    uint32_t core = (uint32_t)(sched_getcpu() + 1);
    if (atomic_load_explicit(&mapped->own->core, memory_order_relaxed) != core)
        atomic_store_explicit(&mapped->own->core, core, memory_order_relaxed);
    return core;
}

static inline bool wring_mapped_under_way(const struct wring_collective *collective)
{
    return atomic_load_explicit(&collective->status, memory_order_acquire) == WRING_ERR_AGAIN;
}

/** It is this round now: make the next one ready to be shown. */
static inline void wring_mapped_enter(struct wring_mapped *mapped, uint64_t round)
{
    const struct wring_mapped_turn *next = &mapped->turns[(round + 1) & 1];

    mapped->round = round;
    mapped->turn = &mapped->turns[round & 1];
    mapped->ready.slot = next->slot;
    mapped->ready.place = next->place;
    mapped->ready.number = (round + 1) << WRING_TAG_BITS;
}

/** Go on from a round that everybody has shown. Between wring_fp_enter() and wring_fp_leave(). */
void wring_mapped_go_on(struct wring_collective *collective);

/** Everybody has shown what belongs to this round: reduce it, between wring_fp_enter() and
 *  wring_fp_leave(). @return false: the step has another round, for which we have shown ours */
bool wring_mapped_end_round(struct wring_collective *collective);

#endif
