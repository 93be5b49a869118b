/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pool_send.h"

#include <stdlib.h>

#include "transport/collective/collective.h"
#include "transport/pairs.h"
#include "transport/slot_pool.h"

/* ---- slots that we do not fill ---- */

/** Tell a peer that we need a slot of its own no longer. */
static bool say_spare(struct wring_pool_link *link, uint16_t slot)
{
    const struct wring_control control = {.kind = WRING_CONTROL_SPARE, .b = slot};
    return wring_control_send(link->peer, &control) != WRING_ERR_AGAIN;
}

static void spare(struct wring_pool_link *link, uint16_t slot)
{
    if (say_spare(link, slot))
        return;
    if (link->n_spare == link->spare_room) {
        uint32_t room = 2 * link->spare_room + 8;
        uint16_t *grown = realloc(link->spare, room * sizeof(*grown));
        if (grown == NULL) {
            wring_pool_no_memory(link->pool);
            return;
        }
        link->spare = grown;
        link->spare_room = room;
    }
    link->spare[link->n_spare++] = slot;
    wring_pool_owe(link->pool);
}

bool wring_pool_send_owed(struct wring_pool_link *link)
{
    while (link->n_spare > 0 && say_spare(link, link->spare[link->n_spare - 1]))
        link->n_spare--;
    return link->n_spare > 0;
}

void wring_pool_send_cease(struct wring_channel *channel)
{
    for (uint32_t i = 0; i < channel->members.n; i++)
        for (uint32_t k = 0; channel->out[i].link != NULL && k < channel->window; k++) {
            struct wring_channel_ask *asked = wring_channel_asked(channel, i, k);
            if (asked->state == WRING_ASK_GRANTED)
                spare(channel->out[i].link, asked->slot);
            asked->state = WRING_ASK_NONE;
        }
}

/* ---- pieces ---- */

static enum wring_status ask(struct wring_channel *channel, struct wring_channel_out *out,
                             struct wring_channel_ask *asked, uint32_t sequence, size_t bytes)
{
    const struct wring_control control = {.kind = WRING_CONTROL_ASK,
                                          .a = out->name.id,
                                          .b = (uint32_t)bytes,
                                          .c = wring_channel_imm(channel, out, sequence) &
                                               ((1u << WRING_SEQUENCE_BITS) - 1)};
    enum wring_status status = wring_control_send(out->peer, &control);
    if (status != WRING_OK)
        return status;
    asked->state = WRING_ASK_SAID;
    out->puts++; /* under way from now on, for who looks whether anybody moves */
    return WRING_ERR_AGAIN;
}

enum wring_status wring_pool_put(struct wring_channel *channel, uint32_t member, uint32_t sequence,
                                 struct wring_region *region, const void *local, size_t bytes,
                                 uint64_t cookie)
{
    struct wring_channel_out *out = &channel->out[member];
    struct wring_pool_link *link = out->link;

    if (link == NULL)
        return wring_pairs_want(channel->pairs, member);
    struct wring_channel_ask *asked = wring_channel_asked(channel, member, sequence);
    if (bytes <= WRING_POOL_SMALL ||
        (asked->state == WRING_ASK_NONE && wring_pool_link_has_room(link)))
        return wring_pool_link_put(channel, out, sequence, region, local, bytes, cookie);
    if (asked->state == WRING_ASK_NONE)
        return ask(channel, out, asked, sequence, bytes);
    if (asked->state == WRING_ASK_SAID)
        return out->peer->state == WRING_PEER_READY ? WRING_ERR_AGAIN : WRING_ERR_CLOSED;
    uint32_t imm = WRING_POOL_CHANNEL << WRING_SEQUENCE_BITS | asked->slot;
    enum wring_status status =
        wring_fabric_put(channel->fabric, out->peer, region, local, link->remote_slots,
                         asked->slot * link->slot_bytes, bytes, imm, cookie);
    if (status == WRING_OK)
        asked->state = WRING_ASK_NONE;
    return status;
}

/** The piece of a channel that was asked for with that number; NULL: none was. */
static struct wring_channel_ask *find_asked(const struct wring_channel *channel,
                                            const struct wring_peer *peer, uint32_t sequence)
{
    uint32_t member = wring_members_find(&channel->members, peer->rank);
    if (member == channel->members.n)
        return NULL;
    struct wring_channel_ask *asked = wring_channel_asked(channel, member, sequence);
    return asked->state == WRING_ASK_SAID ? asked : NULL;
}

void wring_pool_send_heard_grant(struct wring_pool *pool, struct wring_peer *peer,
                                 const struct wring_control *control)
{
    struct wring_pool_link *link = pool->links[peer->rank];

    if (link == NULL || !link->heard || control->b >= link->n_slots) {
        wring_pool_refuse(pool, peer, "granted a slot that it does not have");
        return;
    }
    struct wring_channel *channel = wring_pool_find(pool, control->a);
    bool gone = channel == NULL || wring_collective_ceased(channel->owner) != WRING_OK;
    if (gone && wring_pool_knew(pool, control->a)) {
        spare(link, (uint16_t)control->b);
        return;
    }
    struct wring_channel_ask *asked = gone ? NULL : find_asked(channel, peer, control->c);
    if (asked == NULL) {
        wring_pool_refuse(pool, peer, "granted a slot that nobody asked for");
        return;
    }
    asked->state = WRING_ASK_GRANTED;
    asked->slot = (uint16_t)control->b;
    channel->owner->runnable = true;
}
