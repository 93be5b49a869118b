/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pool_link.h"

#include <inttypes.h>
#include <stdlib.h>

#include "transport/collective/collective.h"
#include "transport/pairs.h"
#include "transport/slot_pool.h"

static void advance_consumed(struct wring_pool_ring *ring)
{
    while (ring->consumed != ring->come && ring->held[ring->consumed % ring->n].released)
        ring->consumed++;
}

/** It is there; the ring was not full. A channel of NULL: nobody wants it, and its place is free.
 */
static void pool_ring_enter(struct wring_pool_ring *ring, struct wring_channel *channel,
                            uint32_t member, struct wring_slot *piece)
{
    ring->held[ring->come++ % ring->n] =
        (struct wring_pool_held){channel, member, piece, channel == NULL};
    advance_consumed(ring);
}

static void pool_ring_release(struct wring_pool_ring *ring, uint32_t place)
{
    ring->held[place].released = true;
    advance_consumed(ring);
}

/** So many pieces may stay: the oldest others move into memory of their own. */
static void pool_ring_keep(struct wring_pool_ring *ring, uint32_t kept)
{
    for (uint32_t at = ring->consumed; ring->come - at > kept; at++) {
        struct wring_pool_held *held = &ring->held[at % ring->n];
        if (!held->released)
            held->released = wring_pool_move(held->channel, held->member, held->piece);
    }
    advance_consumed(ring);
}

/** A channel needs no pieces any more. @param all  nor those that a job may have read, as there is
 *  none any more */
static void pool_ring_forget(struct wring_pool_ring *ring, const struct wring_channel *channel,
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
    advance_consumed(ring);
}

/* ---- link ---- */

#define RING_KEPT                                                                       \
    4 /* small pieces in a ring that may wait; with those that are not told yet at most \
         WRING_POOL_RING */
#define COUNT_BITS 16 /* of each of the two counts in a credit */
#define COUNT_MASK ((1u << COUNT_BITS) - 1)
#define RINGS_AT_FIRST 16 /* in a block; in each next one twice as many */

/* ---- where pieces go ---- */

/** @return the block that the next ring comes from */
static enum wring_status ensure_ring_block(struct wring_pool *pool)
{
    struct wring_fabric *fabric = pool->engine->fabric;
    uint32_t n = pool->n_ring_blocks, per = RINGS_AT_FIRST << n;
    per = per < fabric->size ? per : fabric->size;

    if (pool->rings_left > 0)
        return WRING_OK;
    if (n == WRING_POOL_RING_BLOCKS)
        return WRING_ERR_NO_MEMORY;
    struct wring_block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_block_alloc_sparse(fabric, per * WRING_POOL_RING_BYTES, block);
    if (status != WRING_OK) {
        free(block);
        return status;
    }
    pool->ring_blocks[pool->n_ring_blocks++] = block;
    pool->rings_left = per;
    return WRING_OK;
}

static enum wring_status alloc_pool_memory(struct wring_pool *pool)
{
    enum wring_status status = ensure_ring_block(pool);
    if (status == WRING_OK && pool->slots.block.fabric == NULL)
        status = wring_block_alloc_sparse(pool->engine->fabric, pool->slots.n * pool->slots.bytes,
                                          &pool->slots.block);
    return status;
}

enum wring_status wring_pool_reach(struct wring_pool *pool, struct wring_peer *peer,
                                   struct wring_pool_link **out)
{
    struct wring_pool_link *link = pool->links[peer->rank];
    if (link != NULL) {
        *out = link;
        return WRING_OK;
    }
    enum wring_status status = alloc_pool_memory(pool);
    if (status != WRING_OK)
        return status;
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return WRING_ERR_NO_MEMORY;
    link->pool = pool;
    link->peer = peer;
    link->small.n = link->small_room.n = WRING_POOL_RING;
    link->block = pool->ring_blocks[pool->n_ring_blocks - 1];
    link->memory = (uint8_t *)link->block->memory.base + --pool->rings_left * WRING_POOL_RING_BYTES;
    *out = pool->links[peer->rank] = link;
    return WRING_OK;
}

void wring_pool_link_destroy(struct wring_pool_link *link)
{
    if (link == NULL)
        return;
    if (link->remote_ring != NULL)
        link->provider->ops->remote_release(link->remote_ring);
    if (link->remote_slots != NULL)
        link->provider->ops->remote_release(link->remote_slots);
    free(link->spare);
    free(link);
}

static void write_key(struct wring_control *control, struct wring_region *region)
{
    uint8_t *at = control->body + control->bytes;
    size_t bytes = region->provider->ops->region_export(region, at + 4);
    wring_put_u32(at, (uint32_t)bytes);
    control->bytes += 4 + (uint32_t)bytes;
}

enum wring_status wring_pool_tell(struct wring_pool_link *link)
{
    const struct wring_pool *pool = link->pool;
    struct wring_region *ring = link->block->regions[link->peer->device];
    struct wring_region *slots = pool->slots.block.regions[link->peer->device];

    if (link->told)
        return WRING_OK;
    if (ring == NULL || slots == NULL)
        return WRING_ERR_UNSUPPORTED;
    struct wring_control control = {
        .kind = WRING_CONTROL_LINK, .a = pool->slots.n, .b = (uint32_t)pool->slots.bytes};
    wring_put_u64(control.body, (uint64_t)((uintptr_t)link->memory - (uintptr_t)ring->base));
    control.bytes = 8;
    write_key(&control, ring);
    write_key(&control, slots);
    enum wring_status status = wring_control_send(link->peer, &control);
    link->told = status == WRING_OK;
    return status;
}

static enum wring_status import_key(struct wring_pool_link *link, struct wring_reader *in,
                                    struct wring_remote **out)
{
    size_t bytes;
    const void *key = wring_read_sized(in, &bytes);
    if (in->failed || bytes == 0)
        return WRING_ERR_FRAME;
    struct wring_conn *conn = link->peer->conn;
    return conn->provider->ops->remote_import(conn, key, bytes, out);
}

static enum wring_status read_link(struct wring_pool_link *link,
                                   const struct wring_control *control)
{
    struct wring_reader in = {control->body, control->bytes, false};

    if (link->heard || control->a == 0 || control->a > WRING_POOL_SLOTS_MAX)
        return WRING_ERR_FRAME;
    link->provider = link->peer->conn->provider;
    link->remote_at = wring_read_u64(&in);
    link->n_slots = control->a;
    link->slot_bytes = control->b;
    enum wring_status status = import_key(link, &in, &link->remote_ring);
    if (status == WRING_OK)
        status = import_key(link, &in, &link->remote_slots);
    if (status != WRING_OK)
        return status;
    bool inside = WRING_POOL_RING_BYTES <= link->remote_ring->bytes &&
                  link->remote_at <= link->remote_ring->bytes - WRING_POOL_RING_BYTES &&
                  link->slot_bytes * link->n_slots <= link->remote_slots->bytes;
    link->heard = inside && in.bytes == 0;
    return link->heard ? WRING_OK : WRING_ERR_FRAME;
}

void wring_pool_link_heard(struct wring_pool *pool, struct wring_peer *peer,
                           const struct wring_control *control)
{
    struct wring_pool_link *link;
    enum wring_status status = wring_pool_reach(pool, peer, &link);

    if (status == WRING_OK)
        status = read_link(link, control);
    if (status == WRING_ERR_FRAME)
        wring_pool_refuse(pool, peer, "sent a malformed word of where pieces of groups go");
    else if (status == WRING_ERR_NO_MEMORY)
        wring_pool_no_memory(pool);
    else if (status != WRING_OK && status != WRING_ERR_CLOSED) /* it is leaving */
        wring_fabric_fail(pool->engine->fabric, status, (int32_t)peer->rank,
                          "rank %" PRIu32 " cannot reach the memory of rank %" PRIu32
                          " for pieces of groups: %s",
                          pool->engine->fabric->rank, peer->rank, wring_status_text(status));
}

static void say_lend(struct wring_pool_link *link)
{
    struct wring_control control = {
        .kind = WRING_CONTROL_LEND, .a = link->large.n, .bytes = 4 * link->large.n};
    for (uint32_t i = 0; i < link->large.n; i++)
        wring_put_u32(control.body + (size_t)4 * i, link->lent[i]);
    link->owes_lend = wring_control_send(link->peer, &control) == WRING_ERR_AGAIN;
    if (link->owes_lend)
        wring_pool_owe(link->pool);
}

void wring_pool_link_lend(struct wring_pool_link *link)
{
    if (link->large.n > 0)
        return;
    link->large.n = wring_pool_slots_lend(&link->pool->slots, link->lent);
    if (link->large.n > 0)
        say_lend(link);
}

static bool read_lend(struct wring_pool_link *link, const struct wring_control *control)
{
    struct wring_reader in = {control->body, control->bytes, false};

    if (!link->heard || link->large_room.n > 0 || control->a == 0 || control->a > WRING_POOL_RING ||
        control->bytes != 4 * control->a)
        return false;
    for (uint32_t i = 0; i < control->a; i++) {
        uint32_t slot = wring_read_u32(&in);
        if (slot >= link->n_slots)
            return false;
        link->borrowed[i] = (uint16_t)slot;
    }
    link->large_room.n = control->a;
    return true;
}

void wring_pool_link_heard_lend(struct wring_pool *pool, struct wring_peer *peer,
                                const struct wring_control *control)
{
    struct wring_pool_link *link = pool->links[peer->rank];
    if (link == NULL || !read_lend(link, control))
        wring_pool_refuse(pool, peer, "lends slots that it does not have");
}

/* ---- pieces that come ---- */

/** Where a piece of that immediate belongs; NULL: it may not be sent. */
static struct wring_slot *find_expected_piece(struct wring_channel *channel,
                                              const struct wring_peer *peer, uint32_t imm,
                                              uint32_t *member)
{
    *member = wring_members_find(&channel->members, peer->rank);
    if (*member == channel->members.n)
        return NULL;
    struct wring_slot *piece = wring_channel_expect(channel, *member, imm);
    return piece != NULL && !piece->asked ? piece : NULL;
}

static struct wring_pool_ring *ring_for_bytes(struct wring_pool_link *link, size_t bytes)
{
    return bytes <= WRING_POOL_SMALL ? &link->small : &link->large;
}

static void drop_piece(struct wring_pool_link *link, struct wring_pool_ring *ring)
{
    pool_ring_enter(ring, NULL, 0, NULL);
    wring_pool_link_return_credits(link);
}

static void enter_large(struct wring_pool_link *link, struct wring_channel *channel,
                        uint32_t member, struct wring_slot *piece)
{
    const struct wring_pool_slots *slots = &link->pool->slots;
    uint32_t place = wring_pool_ring_next(&link->large);

    piece->data = (uint8_t *)slots->block.memory.base + link->lent[place] * slots->bytes;
    piece->home = WRING_SLOT_LENT;
    piece->number = (uint16_t)place;
    pool_ring_enter(&link->large, channel, member, piece);
}

static void enter_small(struct wring_pool_link *link, struct wring_channel *channel,
                        uint32_t member, struct wring_slot *piece)
{
    uint32_t place = wring_pool_ring_next(&link->small);

    piece->data = link->memory + place * WRING_POOL_SMALL;
    piece->home = WRING_SLOT_RING;
    piece->number = (uint16_t)place;
    pool_ring_enter(&link->small, channel, member, piece);
    if (link->small.come - link->small.consumed > RING_KEPT) {
        pool_ring_keep(&link->small, RING_KEPT);
        wring_pool_link_return_credits(link);
    }
}

static void enter_piece(struct wring_pool_link *link, struct wring_channel *channel,
                        uint32_t member, struct wring_slot *piece)
{
    if (piece->bytes <= WRING_POOL_SMALL)
        enter_small(link, channel, member, piece);
    else
        enter_large(link, channel, member, piece);
}

struct wring_channel *wring_pool_link_arrived(struct wring_pool *pool, struct wring_peer *peer,
                                              uint32_t imm, size_t bytes, uint32_t *member)
{
    struct wring_pool_link *link = pool->links[peer->rank];
    uint32_t id = wring_imm_channel(imm);

    if (link == NULL || !wring_pool_knew(pool, id) || bytes > pool->slots.bytes ||
        wring_pool_ring_is_full(ring_for_bytes(link, bytes))) {
        wring_pool_refuse(pool, peer, "sent a piece of a group that belongs nowhere");
        return NULL;
    }
    struct wring_channel *channel = wring_pool_find(pool, id);
    if (channel == NULL || wring_collective_ceased(channel->owner) != WRING_OK) {
        drop_piece(link, ring_for_bytes(link, bytes));
        return NULL;
    }
    struct wring_slot *piece = find_expected_piece(channel, peer, imm, member);
    if (piece == NULL) {
        wring_pool_refuse(pool, peer, "sent a piece of a group that it may not send");
        return NULL;
    }
    wring_channel_enter(channel, *member, piece, imm, bytes);
    enter_piece(link, channel, *member, piece);
    return channel;
}

void wring_pool_link_release(struct wring_pool_link *link, const struct wring_slot *piece)
{
    pool_ring_release(piece->home == WRING_SLOT_LENT ? &link->large : &link->small, piece->number);
}

void wring_pool_link_forget(struct wring_pool_link *link, const struct wring_channel *channel,
                            bool all)
{
    pool_ring_forget(&link->small, channel, all);
    pool_ring_forget(&link->large, channel, all);
    wring_pool_link_return_credits(link);
}

/* ---- credits for them ---- */

uint32_t wring_pool_link_consumed(const struct wring_pool_link *link)
{
    return (link->small.consumed & COUNT_MASK) | link->large.consumed << COUNT_BITS;
}

void wring_pool_link_credited(struct wring_pool_link *link)
{
    link->small.credited = link->small.consumed;
    link->large.credited = link->large.consumed;
}

static void say_credit(struct wring_pool_link *link)
{
    enum wring_status status =
        wring_fabric_send_credit(link->pool->engine->fabric, link->peer, WRING_POOL_CHANNEL,
                                 wring_pool_link_consumed(link), 0);
    if (status == WRING_OK)
        wring_pool_link_credited(link);
    link->owes_credit = status == WRING_ERR_AGAIN;
    if (link->owes_credit)
        wring_pool_owe(link->pool);
}

/** So many are told at once, unless credits of a channel tell them before. */
static bool is_credit_due(const struct wring_pool_ring *ring)
{
    return ring->n > 0 && ring->consumed - ring->credited >= (ring->n + 1) / 2;
}

void wring_pool_link_return_credits(struct wring_pool_link *link)
{
    if (is_credit_due(&link->small) || is_credit_due(&link->large))
        say_credit(link);
}

bool wring_pool_link_say_owed(struct wring_pool_link *link)
{
    if (link->owes_credit)
        say_credit(link);
    if (link->owes_lend)
        say_lend(link);
    return link->owes_credit || link->owes_lend;
}

/* ---- pieces that go ---- */

static enum wring_status put_piece(struct wring_channel *channel, struct wring_channel_out *out,
                                   uint32_t sequence, struct wring_region *region,
                                   const void *local, struct wring_remote *remote, uint64_t offset,
                                   size_t bytes, uint64_t cookie)
{
    enum wring_status status =
        wring_fabric_put(channel->fabric, out->peer, region, local, remote, offset, bytes,
                         wring_channel_imm(channel, out, sequence), cookie);
    out->puts += status == WRING_OK;
    return status;
}

/** Put a piece that need not be asked for. Errors: WRING_ERR_AGAIN (no room), those of
 *  wring_fabric_put(). */
static enum wring_status pool_link_put(struct wring_channel *channel, struct wring_channel_out *out,
                                       uint32_t sequence, struct wring_region *region,
                                       const void *local, size_t bytes, uint64_t cookie)
{
    const struct wring_pool_link *link = out->link;
    bool large = bytes > WRING_POOL_SMALL;
    struct wring_pool_room *room = large ? &out->link->large_room : &out->link->small_room;

    if (room->sent - room->freed == room->n)
        return WRING_ERR_AGAIN;
    uint32_t place = room->sent % room->n;
    uint64_t offset = large ? link->borrowed[place] * link->slot_bytes
                            : link->remote_at + place * WRING_POOL_SMALL;
    enum wring_status status =
        put_piece(channel, out, sequence, region, local,
                  large ? link->remote_slots : link->remote_ring, offset, bytes, cookie);
    room->sent += status == WRING_OK;
    return status;
}

/** @param count  how many are free, modulo 2^16 */
static bool take_credit(struct wring_pool_room *room, uint32_t count)
{
    uint32_t more = (count - room->freed) & COUNT_MASK;
    if (more > room->sent - room->freed)
        return false;
    room->freed += more;
    return true;
}

enum wring_status wring_pool_link_credit(struct wring_pool_link *link, uint32_t consumed)
{
    bool sound = take_credit(&link->small_room, consumed & COUNT_MASK) &&
                 take_credit(&link->large_room, consumed >> COUNT_BITS);
    return sound ? WRING_OK : WRING_ERR_FRAME;
}

/* ---- send ---- */

/* ---- slots that we do not fill ---- */

/** Tell a peer that we need a slot of its own no longer. */
static bool say_spare(struct wring_pool_link *link, uint16_t slot)
{
    const struct wring_control control = {.kind = WRING_CONTROL_SPARE, .b = slot};
    return wring_control_send(link->peer, &control) != WRING_ERR_AGAIN;
}

static void spare_slot(struct wring_pool_link *link, uint16_t slot)
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
                spare_slot(channel->out[i].link, asked->slot);
            asked->state = WRING_ASK_NONE;
        }
}

/* ---- pieces ---- */

static enum wring_status ask_for_slot(struct wring_channel *channel, struct wring_channel_out *out,
                                      struct wring_channel_ask *asked, uint32_t sequence,
                                      size_t bytes)
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
    out->puts++; /* under way from now on: standstill.h counts it */
    return WRING_ERR_AGAIN;
}

enum wring_status wring_pool_put(struct wring_channel *channel, uint32_t member, uint32_t sequence,
                                 struct wring_region *region, const void *local, size_t bytes,
                                 uint64_t cookie)
{
    struct wring_channel_out *out = wring_channel_out(channel, member);
    struct wring_pool_link *link = out->link;

    if (link == NULL)
        return channel->pairs->want(channel->pairs, member);
    struct wring_channel_ask *asked = wring_channel_asked(channel, member, sequence);
    if (bytes <= WRING_POOL_SMALL ||
        (asked->state == WRING_ASK_NONE && wring_pool_link_has_room(link)))
        return pool_link_put(channel, out, sequence, region, local, bytes, cookie);
    if (asked->state == WRING_ASK_NONE)
        return ask_for_slot(channel, out, asked, sequence, bytes);
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
        spare_slot(link, (uint16_t)control->b);
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
