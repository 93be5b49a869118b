/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Pieces that a peer puts here without asking: the k-th of them lies in place k mod n. Puts of a
 * connection arrive in their order, so no piece needs a header, and one of a group that is gone is
 * counted like all others. Places go back in their order.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_POOL_RING_H
#define WRING_TRANSPORT_POOL_RING_H

#include "transport/channel.h"

#define WRING_POOL_RING 8 /* places, at most */

struct wring_pool_held {
    struct wring_channel *channel; /* NULL: of a group that is gone */
    uint32_t member;
    struct wring_slot *piece;
    bool released;
};

struct wring_pool_ring {
    uint32_t n; /* places; 0: the peer has to ask */
    uint32_t come, consumed, credited;
    struct wring_pool_held held[WRING_POOL_RING];
};

static inline bool wring_pool_ring_is_full(const struct wring_pool_ring *ring)
{
    return ring->come - ring->consumed == ring->n;
}

/** The place of the piece that came next. */
static inline uint32_t wring_pool_ring_next(const struct wring_pool_ring *ring)
{
    return ring->come % ring->n;
}

/** It is there; the ring was not full. A channel of NULL: nobody wants it, and its place is free.
 */
void wring_pool_ring_enter(struct wring_pool_ring *ring, struct wring_channel *channel,
                           uint32_t member, struct wring_slot *piece);

void wring_pool_ring_release(struct wring_pool_ring *ring, uint32_t place);

/** So many pieces may stay: the oldest others move into memory of their own. */
void wring_pool_ring_keep(struct wring_pool_ring *ring, uint32_t kept);

/** A channel needs no pieces any more. @param all  nor those that a job may have read, as there is
 *  none any more */
void wring_pool_ring_forget(struct wring_pool_ring *ring, const struct wring_channel *channel,
                            bool all);

#endif
