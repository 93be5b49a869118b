/* SPDX-License-Identifier: Apache-2.0 */
/** What boards show, and how it is read. Private to mapped*.c. */
#ifndef WRING_TRANSPORT_MAPPED_INSIDE_H
#define WRING_TRANSPORT_MAPPED_INSIDE_H

#include "transport/collective/mapped.h"

/** A round's contribution, behind its number, which is written last. */
struct wring_mapped_slot {
    _Atomic uint64_t number;
};

/** Only our own is written. */
static inline struct wring_mapped_slot *wring_mapped_slot(const struct wring_board *board,
                                                          size_t at)
{
    return (struct wring_mapped_slot *)((uint8_t *)(board + 1) + at);
}

static inline uint64_t wring_mapped_number(const struct wring_mapped *mapped, uint32_t other)
{
    const struct wring_mapped_slot *slot =
        wring_mapped_slot(mapped->others[other].board, mapped->at);
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

/** All contributions are there: reduce them, between wring_fp_enter() and wring_fp_leave(). */
void wring_mapped_reduce(struct wring_collective *collective);

#endif
