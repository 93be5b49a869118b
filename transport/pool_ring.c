/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pool_ring.h"

#include "transport/slot_pool.h"

static void settle(struct wring_pool_ring *ring)
{
    while (ring->consumed != ring->come && ring->held[ring->consumed % ring->n].released)
        ring->consumed++;
}

void wring_pool_ring_enter(struct wring_pool_ring *ring, struct wring_channel *channel,
                           uint32_t member, struct wring_slot *piece)
{
    ring->held[ring->come++ % ring->n] =
        (struct wring_pool_held){channel, member, piece, channel == NULL};
    settle(ring);
}

void wring_pool_ring_release(struct wring_pool_ring *ring, uint32_t place)
{
    ring->held[place].released = true;
    settle(ring);
}

void wring_pool_ring_keep(struct wring_pool_ring *ring, uint32_t kept)
{
    for (uint32_t at = ring->consumed; ring->come - at > kept; at++) {
        struct wring_pool_held *held = &ring->held[at % ring->n];
        if (!held->released)
            held->released = wring_pool_move(held->channel, held->member, held->piece);
    }
    settle(ring);
}

void wring_pool_ring_forget(struct wring_pool_ring *ring, const struct wring_channel *channel,
                            bool all)
{
    for (uint32_t at = ring->consumed; at != ring->come; at++) {
        struct wring_pool_held *held = &ring->held[at % ring->n];
        if (held->channel != channel || held->released ||
            (!all && wring_channel_is_taken(channel, held->member, held->piece)))
            continue;
        held->piece->arrived = false;
        *held = (struct wring_pool_held){.released = true};
    }
    settle(ring);
}
