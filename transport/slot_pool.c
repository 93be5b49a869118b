/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/slot_pool.h"

#include <inttypes.h>
#include <stdlib.h>

#include "transport/collective/collective.h"
#include "transport/pairs.h"

#define RING_BYTES (WRING_POOL_RING * WRING_POOL_SMALL)
#define RING_KEPT 4  /* small pieces in a ring that may wait; with BATCH at most WRING_POOL_RING */
#define RING_BATCH 4 /* so many are told at once, unless credits of a channel tell them before */
#define STARVED 256  /* polls after which a slot is emptied though other things move */
#define RINGS_AT_FIRST 16 /* in a block; in each next one twice as many */
#define CHANNELS_AT_FIRST 64
#define IDS (WRING_POOL_ID - 2) /* the last two are no channels' */

static struct wring_fabric *fabric_of(const struct wring_pool *pool)
{
    return pool->engine->fabric;
}

static void refuse(const struct wring_pool *pool, const struct wring_peer *peer, const char *what)
{
    wring_fabric_fail(fabric_of(pool), WRING_ERR_FRAME, (int32_t)peer->rank, "rank %" PRIu32 " %s",
                      peer->rank, what);
}

static void no_memory(const struct wring_pool *pool)
{
    struct wring_fabric *fabric = fabric_of(pool);
    wring_fabric_fail(fabric, WRING_ERR_NO_MEMORY, (int32_t)fabric->rank,
                      "rank %" PRIu32 " has no memory for the pieces of its groups", fabric->rank);
}

/* ---- the session's ---- */

enum wring_status wring_pool_create(struct wring_engine *engine, struct wring_pool **out)
{
    struct wring_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return WRING_ERR_NO_MEMORY;
    pool->engine = engine;
    pool->ranks = engine->fabric->size;
    pool->n_slots = (uint32_t)engine->config->pool_slots;
    pool->slot_bytes = (size_t)engine->config->chunk_bytes;
    pool->n_channels = CHANNELS_AT_FIRST;
    pool->links = calloc(pool->ranks, sizeof(struct wring_pool_link *));
    pool->slot = calloc(pool->n_slots, sizeof(*pool->slot));
    pool->channels = calloc(pool->n_channels, sizeof(struct wring_channel *));
    if (pool->links == NULL || pool->slot == NULL || pool->channels == NULL) {
        wring_pool_destroy(pool);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = pool->n_slots; i > 0; i--) {
        pool->slot[i - 1].next_free = pool->free_slot;
        pool->free_slot = i;
    }
    pool->n_free = pool->n_slots;
    *out = pool;
    return WRING_OK;
}

static void destroy_link(struct wring_pool_link *link)
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

void wring_pool_destroy(struct wring_pool *pool)
{
    if (pool == NULL)
        return;
    for (uint32_t i = 0; pool->links != NULL && i < pool->ranks; i++)
        destroy_link(pool->links[i]);
    for (uint32_t i = 0; i < pool->n_ring_blocks; i++) {
        wring_block_finish(pool->ring_blocks[i]);
        free(pool->ring_blocks[i]);
    }
    while (pool->asks != NULL) {
        struct wring_pool_ask *ask = pool->asks;
        pool->asks = ask->next;
        free(ask);
    }
    while (pool->free_asks != NULL) {
        struct wring_pool_ask *ask = pool->free_asks;
        pool->free_asks = ask->next;
        free(ask);
    }
    wring_boards_finish(&pool->boards);
    wring_block_finish(&pool->slots);
    free(pool->links);
    free(pool->slot);
    free(pool->channels);
    free(pool);
}

/* ---- channels ---- */

static struct wring_channel **place_of(const struct wring_pool *pool, uint32_t id)
{
    return &pool->channels[id & (pool->n_channels - 1)];
}

struct wring_channel *wring_pool_find(const struct wring_pool *pool, uint32_t id)
{
    struct wring_channel *channel = *place_of(pool, id);
    return channel != NULL && channel->name.id == id ? channel : NULL;
}

/** Ids that differ modulo the old size differ modulo the new one. */
static bool grow_channels(struct wring_pool *pool)
{
    struct wring_channel **old = pool->channels;
    uint32_t n = pool->n_channels;

    struct wring_channel **grown = calloc((size_t)2 * n, sizeof(struct wring_channel *));
    if (grown == NULL)
        return false;
    pool->channels = grown;
    pool->n_channels = 2 * n;
    for (uint32_t i = 0; i < n; i++)
        if (old[i] != NULL)
            *place_of(pool, old[i]->name.id) = old[i];
    free(old);
    return true;
}

static uint32_t next_id(struct wring_pool *pool)
{
    uint32_t id = pool->next_id++;
    if (pool->next_id == IDS) {
        pool->next_id = 0;
        pool->wrapped = true;
    }
    return WRING_POOL_ID | id;
}

enum wring_status wring_pool_add(struct wring_pool *pool, struct wring_channel *channel)
{
    if (2 * pool->n_used >= pool->n_channels &&
        (pool->n_channels >= WRING_POOL_ID / 2 || !grow_channels(pool)))
        return WRING_ERR_NO_MEMORY;
    uint32_t id = next_id(pool);
    while (*place_of(pool, id) != NULL)
        id = next_id(pool);
    channel->name = (struct wring_channel_name){id, 0};
    channel->pool = pool;
    *place_of(pool, id) = channel;
    pool->n_used++;
    return WRING_OK;
}

void wring_pool_return_owed(struct wring_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_channels; i++)
        if (pool->channels[i] != NULL && pool->channels[i]->owes_credits)
            wring_channel_return_credits(pool->channels[i]);
}

/* ---- what we have with a peer ---- */

/** @return the block that the next ring comes from */
static enum wring_status ring_block(struct wring_pool *pool)
{
    struct wring_fabric *fabric = fabric_of(pool);
    uint32_t n = pool->n_ring_blocks, per = RINGS_AT_FIRST << n;
    per = per < fabric->size ? per : fabric->size;

    if (pool->rings_left > 0)
        return WRING_OK;
    if (n == WRING_POOL_RING_BLOCKS)
        return WRING_ERR_NO_MEMORY;
    struct wring_block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_block_alloc(fabric, per * RING_BYTES, block);
    if (status != WRING_OK) {
        free(block);
        return status;
    }
    pool->ring_blocks[pool->n_ring_blocks++] = block;
    pool->rings_left = per;
    return WRING_OK;
}

static enum wring_status make_memory(struct wring_pool *pool)
{
    enum wring_status status = ring_block(pool);
    if (status == WRING_OK && pool->slots.fabric == NULL)
        status = wring_block_alloc(fabric_of(pool), pool->n_slots * pool->slot_bytes, &pool->slots);
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
    enum wring_status status = make_memory(pool);
    if (status != WRING_OK)
        return status;
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return WRING_ERR_NO_MEMORY;
    link->pool = pool;
    link->peer = peer;
    link->block = pool->ring_blocks[pool->n_ring_blocks - 1];
    link->ring = (uint8_t *)link->block->memory.base + --pool->rings_left * RING_BYTES;
    *out = pool->links[peer->rank] = link;
    return WRING_OK;
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
    struct wring_region *slots = pool->slots.regions[link->peer->device];

    if (link->told)
        return WRING_OK;
    if (ring == NULL || slots == NULL)
        return WRING_ERR_UNSUPPORTED;
    struct wring_control control = {
        .kind = WRING_CONTROL_LINK, .a = pool->n_slots, .b = (uint32_t)pool->slot_bytes};
    wring_put_u64(control.body, (uint64_t)((uintptr_t)link->ring - (uintptr_t)ring->base));
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
    bool inside = RING_BYTES <= link->remote_ring->bytes &&
                  link->remote_at <= link->remote_ring->bytes - RING_BYTES &&
                  link->slot_bytes * link->n_slots <= link->remote_slots->bytes;
    link->heard = inside && in.bytes == 0;
    return link->heard ? WRING_OK : WRING_ERR_FRAME;
}

static void heard_link(struct wring_pool *pool, struct wring_peer *peer,
                       const struct wring_control *control)
{
    struct wring_pool_link *link;
    enum wring_status status = wring_pool_reach(pool, peer, &link);

    if (status == WRING_OK)
        status = read_link(link, control);
    if (status == WRING_ERR_FRAME)
        refuse(pool, peer, "sent a malformed word of where pieces of groups go");
    else if (status != WRING_OK)
        no_memory(pool);
}

/* ---- small pieces ---- */

static enum wring_status say_credit(struct wring_pool_link *link)
{
    enum wring_status status = wring_fabric_send_credit(fabric_of(link->pool), link->peer,
                                                        WRING_POOL_CHANNEL, link->consumed, 0);
    if (status == WRING_OK)
        link->credited = link->consumed;
    link->owes_credit = status == WRING_ERR_AGAIN;
    link->pool->owes |= link->owes_credit;
    link->pool->engine->owes_pool |= link->owes_credit;
    return status;
}

/** Slots go back in their order. */
static void settle(struct wring_pool_link *link)
{
    while (link->consumed != link->come && link->held[link->consumed % WRING_POOL_RING].released)
        link->consumed++;
}

uint32_t wring_pool_credits(const struct wring_channel *channel, uint32_t member)
{
    const struct wring_pool_link *link = channel->out[member].link;
    return link != NULL ? link->consumed : 0;
}

void wring_pool_credited(struct wring_channel *channel, uint32_t member, uint32_t told)
{
    if (channel->out[member].link != NULL)
        channel->out[member].link->credited = told;
}

static void return_credits(struct wring_pool_link *link)
{
    if (link->consumed - link->credited >= RING_BATCH)
        say_credit(link);
}

void wring_pool_return_credits(const struct wring_channel *channel, uint32_t member)
{
    struct wring_pool_link *link = channel->pool->links[channel->members.ranks[member]];
    if (link != NULL)
        return_credits(link);
}

enum wring_status wring_pool_credit(struct wring_pool *pool, struct wring_peer *peer,
                                    uint32_t freed)
{
    struct wring_pool_link *link = pool->links[peer->rank];
    if (link == NULL || freed - link->freed > link->sent - link->freed)
        return WRING_ERR_FRAME;
    link->freed = freed;
    return WRING_OK;
}

/** A piece moves into memory of its own. @return false: there is none, or a job reads it */
static bool move(const struct wring_channel *channel, uint32_t member, struct wring_slot *piece)
{
    if (wring_channel_is_taken(channel, member, piece))
        return false;
    uint8_t *memory = malloc(piece->bytes > 0 ? piece->bytes : 1);
    if (memory == NULL)
        return false;
    memcpy(memory, piece->data, piece->bytes);
    piece->data = memory;
    piece->home = WRING_SLOT_MOVED;
    channel->pool->moved++;
    return true;
}

/** More pieces wait in a ring than may: the oldest of them leave it. */
static void empty_ring(struct wring_pool_link *link)
{
    for (uint32_t at = link->consumed; link->come - at > RING_KEPT; at++) {
        struct wring_pool_held *held = &link->held[at % WRING_POOL_RING];
        if (!held->released)
            held->released = move(held->channel, held->member, held->piece);
    }
    settle(link);
    return_credits(link);
}

static struct wring_channel *arrived_small(struct wring_pool *pool, struct wring_peer *peer,
                                           uint32_t imm, size_t bytes, uint32_t *member)
{
    struct wring_pool_link *link = pool->links[peer->rank];
    uint32_t id = wring_imm_channel(imm);
    bool known = pool->wrapped || (id & (WRING_POOL_ID - 1)) < pool->next_id;

    if (link == NULL || !known || bytes > WRING_POOL_SMALL ||
        link->come - link->consumed == WRING_POOL_RING) {
        refuse(pool, peer, "sent a piece of a group that belongs nowhere");
        return NULL;
    }
    uint32_t at = link->come++ % WRING_POOL_RING;
    struct wring_pool_held *held = &link->held[at];
    struct wring_channel *channel = wring_pool_find(pool, id);
    *held = (struct wring_pool_held){.released = true};
    if (channel == NULL || wring_collective_ceased(channel->owner) != WRING_OK) {
        empty_ring(link);
        return NULL;
    }
    *member = wring_members_find(&channel->members, peer->rank);
    struct wring_slot *piece =
        *member < channel->members.n ? wring_channel_expect(channel, *member, imm) : NULL;
    if (piece == NULL || piece->asked) {
        refuse(pool, peer, "sent a piece of a group that it may not send");
        return NULL;
    }
    *held = (struct wring_pool_held){channel, *member, piece, false};
    wring_channel_enter(channel, *member, piece, imm, bytes);
    piece->data = link->ring + at * WRING_POOL_SMALL;
    piece->home = WRING_SLOT_RING;
    piece->place = (uint16_t)at;
    if (link->come - link->consumed > RING_KEPT)
        empty_ring(link);
    return channel;
}

static enum wring_status put_small(struct wring_channel *channel, struct wring_channel_out *out,
                                   uint32_t sequence, struct wring_region *region,
                                   const void *local, size_t bytes, uint64_t cookie)
{
    struct wring_pool_link *link = out->link;

    if (link->sent - link->freed == WRING_POOL_RING)
        return WRING_ERR_AGAIN;
    uint64_t offset = link->remote_at + link->sent % WRING_POOL_RING * WRING_POOL_SMALL;
    enum wring_status status =
        wring_fabric_put(channel->fabric, out->peer, region, local, link->remote_ring, offset,
                         bytes, wring_channel_imm(channel, out, sequence), cookie);
    link->sent += status == WRING_OK;
    out->puts += status == WRING_OK;
    return status;
}

/* ---- large pieces: the sender ---- */

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
            no_memory(link->pool);
            return;
        }
        link->spare = grown;
        link->spare_room = room;
    }
    link->spare[link->n_spare++] = slot;
    link->pool->owes = link->pool->engine->owes_pool = true;
}

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
    if (bytes <= WRING_POOL_SMALL)
        return put_small(channel, out, sequence, region, local, bytes, cookie);
    struct wring_channel_ask *asked = wring_channel_asked(channel, member, sequence);
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

static void heard_grant(struct wring_pool *pool, struct wring_peer *peer,
                        const struct wring_control *control)
{
    struct wring_pool_link *link = pool->links[peer->rank];
    struct wring_channel *channel = wring_pool_find(pool, control->a);
    struct wring_channel_ask *asked = NULL;

    if (link == NULL || !link->heard || control->b >= link->n_slots) {
        refuse(pool, peer, "granted a slot that it does not have");
        return;
    }
    if (channel != NULL && wring_collective_ceased(channel->owner) == WRING_OK) {
        uint32_t member = wring_members_find(&channel->members, peer->rank);
        if (member < channel->members.n)
            asked = wring_channel_asked(channel, member, control->c);
    }
    if (asked == NULL || asked->state != WRING_ASK_SAID) {
        spare(link, (uint16_t)control->b);
        return;
    }
    asked->state = WRING_ASK_GRANTED;
    asked->slot = (uint16_t)control->b;
    channel->owner->runnable = true;
}

/* ---- large pieces: the receiver ---- */

static void free_slot(struct wring_pool *pool, struct wring_pool_slot *slot)
{
    pool->n_owed -= slot->state == WRING_POOL_OWED;
    *slot = (struct wring_pool_slot){.next_free = pool->free_slot};
    pool->free_slot = (uint32_t)(slot - pool->slot) + 1;
    pool->n_free++;
}

static uint8_t *memory_of(const struct wring_pool *pool, const struct wring_pool_slot *slot)
{
    return (uint8_t *)pool->slots.memory.base + (size_t)(slot - pool->slot) * pool->slot_bytes;
}

static void heard_ask(struct wring_pool *pool, struct wring_peer *peer,
                      const struct wring_control *control)
{
    struct wring_channel *channel = wring_pool_find(pool, control->a);

    if (channel == NULL || wring_collective_ceased(channel->owner) != WRING_OK)
        return; /* of a group that is gone, or whose members hear that it is */
    uint32_t member = wring_members_find(&channel->members, peer->rank);
    struct wring_slot *piece =
        member < channel->members.n ? wring_channel_expect(channel, member, control->c) : NULL;
    if (piece == NULL || piece->asked || control->b <= WRING_POOL_SMALL ||
        control->b > pool->slot_bytes) {
        refuse(pool, peer, "asks for room for a piece that it may not send");
        return;
    }
    struct wring_pool_ask *new = pool->free_asks;
    if (new != NULL)
        pool->free_asks = new->next;
    else
        new = malloc(sizeof(*new));
    if (new == NULL) {
        no_memory(pool);
        return;
    }
    wring_channel_announce(channel, piece, control->c, control->b);
    *new = (struct wring_pool_ask){pool->asks, channel, piece, member,
                                   wring_channel_sequence(channel, member, piece)};
    pool->asks = new;
    pool->engine->owes_pool = true;
    channel->owner->runnable = true;
    if (wring_channel_is_foreign(channel, member))
        wring_calls_suspect(channel->owner, fabric_of(pool)->tick_ns);
}

/** How many pieces of that member come before the one it asks for. */
static uint32_t ahead_of(const struct wring_pool_ask *ask)
{
    return ask->sequence - ask->channel->in[ask->member].taken;
}

/** Is the operation under way here, and may the piece have one of the slots that are left? */
static bool is_eligible(const struct wring_pool *pool, const struct wring_pool_ask *ask)
{
    const struct wring_collective *owner = ask->channel->owner;
    return owner->running && wring_collective_ceased(owner) == WRING_OK && ask->piece->tag == ask->channel->tag &&
           (ahead_of(ask) == 0 || pool->n_free > (pool->n_slots + 3) / 4);
}

static bool is_before(const struct wring_pool_ask *a, const struct wring_pool_ask *b)
{
    const struct wring_collective *x = a->channel->owner, *y = b->channel->owner;
    if (x->priority != y->priority)
        return x->priority < y->priority;
    return ahead_of(a) != ahead_of(b) ? ahead_of(a) < ahead_of(b) : a->member < b->member;
}

/** Who is to have the next slot; the newest come first in the list, and older ones win. */
static struct wring_pool_ask **next_ask(struct wring_pool *pool)
{
    struct wring_pool_ask **best = NULL;
    for (struct wring_pool_ask **at = &pool->asks; *at != NULL; at = &(*at)->next)
        if (is_eligible(pool, *at) && (best == NULL || !is_before(*best, *at)))
            best = at;
    return best;
}

static void say_grant(struct wring_pool *pool, struct wring_pool_slot *slot)
{
    const struct wring_channel_out *out = &slot->channel->out[slot->member];
    const struct wring_control control = {.kind = WRING_CONTROL_GRANT,
                                          .a = out->name.id,
                                          .b = (uint32_t)(slot - pool->slot),
                                          .c = slot->sequence};
    pool->n_owed -= slot->state == WRING_POOL_OWED;
    slot->state = wring_control_send(out->peer, &control) == WRING_ERR_AGAIN ? WRING_POOL_OWED
                                                                             : WRING_POOL_GRANTED;
    pool->n_owed += slot->state == WRING_POOL_OWED;
}

static void forget_ask(struct wring_pool *pool, struct wring_pool_ask **at)
{
    struct wring_pool_ask *ask = *at;
    *at = ask->next;
    ask->next = pool->free_asks;
    pool->free_asks = ask;
}

static void grant(struct wring_pool *pool, struct wring_pool_ask **at)
{
    const struct wring_pool_ask *ask = *at;
    struct wring_pool_slot *slot = &pool->slot[pool->free_slot - 1];

    pool->free_slot = slot->next_free;
    pool->n_free--;
    *slot = (struct wring_pool_slot){
        .link = pool->links[ask->channel->members.ranks[ask->member]],
        .channel = ask->channel,
        .piece = ask->piece,
        .member = ask->member,
        .sequence = ask->sequence,
        .bytes = ask->piece->bytes,
    };
    forget_ask(pool, at);
    say_grant(pool, slot);
}

static struct wring_channel *arrived_large(struct wring_pool *pool, const struct wring_peer *peer,
                                           uint32_t imm, size_t bytes, uint32_t *member)
{
    uint32_t number = imm & ((1u << WRING_SEQUENCE_BITS) - 1);
    struct wring_pool_slot *slot = number < pool->n_slots ? &pool->slot[number] : NULL;

    if (slot == NULL || slot->state != WRING_POOL_GRANTED || slot->link->peer != peer ||
        slot->bytes != bytes) {
        refuse(pool, peer, "sent a piece of a group into a slot that it was not granted");
        return NULL;
    }
    struct wring_channel *channel = slot->channel;
    if (channel == NULL || wring_collective_ceased(channel->owner) != WRING_OK) {
        free_slot(pool, slot);
        return NULL;
    }
    *member = slot->member;
    slot->state = WRING_POOL_FULL;
    slot->piece->data = memory_of(pool, slot);
    slot->piece->home = WRING_SLOT_POOL;
    slot->piece->place = (uint16_t)number;
    slot->piece->arrived = true;
    channel->in[*member].arrivals++;
    return channel;
}

struct wring_channel *wring_pool_arrived(struct wring_pool *pool, struct wring_peer *peer,
                                         uint32_t imm, size_t bytes, uint32_t *member)
{
    if (wring_imm_channel(imm) == WRING_POOL_CHANNEL)
        return arrived_large(pool, peer, imm, bytes, member);
    return arrived_small(pool, peer, imm, bytes, member);
}

void wring_pool_release(struct wring_channel *channel, uint32_t member, struct wring_slot *piece)
{
    struct wring_pool *pool = channel->pool;
    struct wring_pool_link *link = pool->links[channel->members.ranks[member]];

    if (piece->home == WRING_SLOT_MOVED) {
        free(piece->data);
    } else if (piece->home == WRING_SLOT_POOL) {
        free_slot(pool, &pool->slot[piece->place]);
    } else if (piece->home == WRING_SLOT_RING) {
        link->held[piece->place].released = true;
        settle(link);
    }
    piece->home = WRING_SLOT_OWN;
    piece->data = NULL;
}

static void heard_spare(struct wring_pool *pool, const struct wring_peer *peer,
                        const struct wring_control *control)
{
    struct wring_pool_slot *slot = control->b < pool->n_slots ? &pool->slot[control->b] : NULL;

    if (slot == NULL || slot->state != WRING_POOL_GRANTED || slot->link->peer != peer)
        refuse(pool, peer, "gave back a slot that it was not granted");
    else
        free_slot(pool, slot);
}

void wring_pool_heard(struct wring_pool *pool, struct wring_peer *peer,
                      const struct wring_control *control)
{
    if (control->kind == WRING_CONTROL_LINK)
        heard_link(pool, peer, control);
    else if (control->kind == WRING_CONTROL_ASK)
        heard_ask(pool, peer, control);
    else if (control->kind == WRING_CONTROL_GRANT)
        heard_grant(pool, peer, control);
    else
        heard_spare(pool, peer, control);
}

/* ---- progress ---- */

static void say_owed(struct wring_pool *pool)
{
    pool->owes = false;
    for (uint32_t i = 0; i < pool->ranks; i++) {
        struct wring_pool_link *link = pool->links[i];
        if (link == NULL)
            continue;
        if (link->owes_credit)
            say_credit(link);
        while (link->n_spare > 0 && say_spare(link, link->spare[link->n_spare - 1]))
            link->n_spare--;
        pool->owes |= link->n_spare > 0;
    }
}

static void say_owed_grants(struct wring_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_slots && pool->n_owed > 0; i++)
        if (pool->slot[i].state == WRING_POOL_OWED)
            say_grant(pool, &pool->slot[i]);
}

/** Move a piece that waits for others out of its slot. @return false: all are needed where they are
 */
static bool empty_slot(struct wring_pool *pool)
{
    for (uint32_t i = 0; i < pool->n_slots; i++) {
        struct wring_pool_slot *slot = &pool->slot[i];
        if (slot->state != WRING_POOL_FULL || !move(slot->channel, slot->member, slot->piece))
            continue;
        free_slot(pool, slot);
        return true;
    }
    return false;
}

static bool grant_all(struct wring_pool *pool)
{
    struct wring_pool_ask **ask;
    bool any = false;

    while ((ask = next_ask(pool)) != NULL) {
        if (pool->n_free == 0 && (++pool->starved < STARVED || !empty_slot(pool)))
            return any;
        pool->starved = 0;
        grant(pool, ask);
        any = true;
    }
    return any;
}

bool wring_pool_poll(struct wring_pool *pool)
{
    if (pool->owes)
        say_owed(pool);
    if (pool->n_owed > 0)
        say_owed_grants(pool);
    bool any = grant_all(pool);
    pool->engine->owes_pool = pool->asks != NULL || pool->owes || pool->n_owed > 0;
    return any;
}

bool wring_pool_make_room(struct wring_pool *pool)
{
    return pool->asks != NULL && pool->n_free == 0 && next_ask(pool) != NULL && empty_slot(pool);
}

/* ---- the end of an operation, and of a channel ---- */

static void forget_asks(struct wring_pool *pool, const struct wring_channel *channel)
{
    for (struct wring_pool_ask **at = &pool->asks; *at != NULL;)
        if ((*at)->channel == channel)
            forget_ask(pool, at);
        else
            at = &(*at)->next;
}

/** Slots of peers that we were granted, and shall not fill. */
static void give_back(struct wring_channel *channel)
{
    for (uint32_t i = 0; i < channel->members.n; i++)
        for (uint32_t k = 0; channel->out[i].link != NULL && k < channel->window; k++) {
            struct wring_channel_ask *asked = wring_channel_asked(channel, i, k);
            if (asked->state == WRING_ASK_GRANTED)
                spare(channel->out[i].link, asked->slot);
            asked->state = WRING_ASK_NONE;
        }
}

/** @param all  pieces that a job may have read as well, as there is none any more */
static void forget_slots(struct wring_pool *pool, struct wring_channel *channel, bool all)
{
    for (uint32_t i = 0; i < pool->n_slots; i++) {
        struct wring_pool_slot *slot = &pool->slot[i];
        bool full = slot->state == WRING_POOL_FULL;
        if (slot->channel != channel ||
            (full && !all && wring_channel_is_taken(channel, slot->member, slot->piece)))
            continue;
        if (slot->state == WRING_POOL_GRANTED)
            slot->channel = NULL; /* it is filled or given back yet */
        else
            free_slot(pool, slot);
    }
}

static void cease(struct wring_channel *channel)
{
    forget_asks(channel->pool, channel);
    give_back(channel);
    for (uint32_t i = 0; i < channel->members.n; i++)
        for (uint32_t k = 0; k < channel->window; k++)
            if (channel->in[i].slots[k].home == WRING_SLOT_POOL &&
                !wring_channel_is_taken(channel, i, &channel->in[i].slots[k]))
                channel->in[i].slots[k].arrived = false;
    forget_slots(channel->pool, channel, false);
}

void wring_pool_cease(struct wring_pool *pool, const struct wring_cease *ceased)
{
    for (uint32_t i = 0; i < pool->n_channels; i++)
        if (pool->channels[i] != NULL && pool->channels[i]->owner->cease == ceased)
            cease(pool->channels[i]);
}

bool wring_pool_is_quiet(const struct wring_pool *pool, const struct wring_cease *ceased)
{
    for (uint32_t i = 0; i < pool->n_channels; i++) {
        const struct wring_channel *channel = pool->channels[i];
        if (channel != NULL && channel->owner->cease == ceased &&
            !wring_collective_is_quiet(channel->owner))
            return false;
    }
    return true;
}

static void forget_ring(struct wring_pool_link *link, const struct wring_channel *channel)
{
    for (uint32_t at = link->consumed; at != link->come; at++) {
        struct wring_pool_held *held = &link->held[at % WRING_POOL_RING];
        if (held->channel == channel)
            *held = (struct wring_pool_held){.released = true};
    }
    settle(link);
    return_credits(link);
}

static void forget_pieces(struct wring_channel *channel, uint32_t member)
{
    struct wring_pool_link *link = channel->pool->links[channel->members.ranks[member]];

    for (uint32_t k = 0; k < channel->window; k++) {
        struct wring_slot *piece = &channel->in[member].slots[k];
        if (piece->arrived && piece->home == WRING_SLOT_MOVED)
            free(piece->data);
    }
    if (link != NULL)
        forget_ring(link, channel);
}

void wring_pool_remove(struct wring_pool *pool, struct wring_channel *channel)
{
    forget_asks(pool, channel);
    give_back(channel);
    forget_slots(pool, channel, true);
    for (uint32_t i = 0; i < channel->members.n; i++)
        forget_pieces(channel, i);
    if (wring_pool_find(pool, channel->name.id) != channel)
        return;
    *place_of(pool, channel->name.id) = NULL;
    pool->n_used--;
}
