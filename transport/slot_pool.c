/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/slot_pool.h"

#include <inttypes.h>
#include <stdlib.h>

#include "transport/collective/collective.h"

#define CHANNELS_AT_FIRST 64
#define IDS (WRING_POOL_ID - 2) /* the last two are no channels' */

void wring_pool_refuse(const struct wring_pool *pool, const struct wring_peer *peer,
                       const char *what)
{
    wring_fabric_fail(pool->engine->fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                      "rank %" PRIu32 " %s", peer->rank, what);
}

void wring_pool_no_memory(const struct wring_pool *pool)
{
    struct wring_fabric *fabric = pool->engine->fabric;
    wring_fabric_fail(fabric, WRING_ERR_NO_MEMORY, (int32_t)fabric->rank,
                      "rank %" PRIu32 " has no memory for the pieces of its groups", fabric->rank);
}

void wring_pool_owe(struct wring_pool *pool)
{
    pool->owes = pool->engine->owes_pool = true;
}

enum wring_status wring_pool_create(struct wring_engine *engine, struct wring_pool **out)
{
    const struct wring_config *config = engine->config;
    struct wring_pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return WRING_ERR_NO_MEMORY;
    pool->engine = engine;
    pool->ranks = engine->fabric->size;
    pool->n_channels = CHANNELS_AT_FIRST;
    pool->links = calloc(pool->ranks, sizeof(struct wring_pool_link *));
    pool->channels = calloc(pool->n_channels, sizeof(struct wring_channel *));
    if (pool->links == NULL || pool->channels == NULL ||
        wring_pool_slots_init(&pool->slots, (uint32_t)config->pool_slots,
                              (size_t)config->chunk_bytes) != WRING_OK) {
        wring_pool_destroy(pool);
        return WRING_ERR_NO_MEMORY;
    }
    *out = pool;
    return WRING_OK;
}

void wring_pool_destroy(struct wring_pool *pool)
{
    if (pool == NULL)
        return;
    for (uint32_t i = 0; pool->links != NULL && i < pool->ranks; i++)
        wring_pool_link_destroy(pool->links[i]);
    for (uint32_t i = 0; i < pool->n_ring_blocks; i++) {
        wring_block_finish(pool->ring_blocks[i]);
        free(pool->ring_blocks[i]);
    }
    wring_boards_finish(&pool->boards);
    wring_pool_slots_finish(&pool->slots);
    free(pool->links);
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

bool wring_pool_knew(const struct wring_pool *pool, uint32_t id)
{
    return id - WRING_POOL_ID < (pool->wrapped ? IDS : pool->next_id);
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

/* ---- pieces ---- */

struct wring_channel *wring_pool_arrived(struct wring_pool *pool, struct wring_peer *peer,
                                         uint32_t imm, size_t bytes, uint32_t *member)
{
    if (wring_imm_channel(imm) == WRING_POOL_CHANNEL)
        return wring_pool_slots_arrived(pool, peer, imm, bytes, member);
    return wring_pool_link_arrived(pool, peer, imm, bytes, member);
}

bool wring_pool_move(const struct wring_channel *channel, uint32_t member, struct wring_slot *piece)
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

static struct wring_pool_link *link_of(const struct wring_channel *channel, uint32_t member)
{
    return channel->pool->links[channel->members.ranks[member]];
}

void wring_pool_release(struct wring_channel *channel, uint32_t member, struct wring_slot *piece)
{
    if (piece->home == WRING_SLOT_MOVED)
        free(piece->data);
    else if (piece->home == WRING_SLOT_POOL)
        wring_pool_slots_release(&channel->pool->slots, piece);
    else if (piece->home == WRING_SLOT_RING || piece->home == WRING_SLOT_LENT)
        wring_pool_link_release(link_of(channel, member), piece);
    piece->home = WRING_SLOT_OWN;
    piece->data = NULL;
}

uint32_t wring_pool_credits(const struct wring_channel *channel, uint32_t member)
{
    return wring_pool_link_consumed(channel->out[member].link);
}

void wring_pool_credited(const struct wring_channel *channel, uint32_t member)
{
    wring_pool_link_credited(channel->out[member].link);
}

void wring_pool_return_credits(const struct wring_channel *channel, uint32_t member)
{
    struct wring_pool_link *link = link_of(channel, member);
    if (link != NULL)
        wring_pool_link_return_credits(link);
}

enum wring_status wring_pool_credit(struct wring_pool *pool, const struct wring_peer *peer,
                                    uint32_t consumed)
{
    struct wring_pool_link *link = pool->links[peer->rank];
    return link != NULL ? wring_pool_link_credit(link, consumed) : WRING_ERR_FRAME;
}

void wring_pool_heard(struct wring_pool *pool, struct wring_peer *peer,
                      const struct wring_control *control)
{
    if (control->kind == WRING_CONTROL_LINK)
        wring_pool_link_heard(pool, peer, control);
    else if (control->kind == WRING_CONTROL_ASK)
        wring_pool_slots_heard_ask(pool, peer, control);
    else if (control->kind == WRING_CONTROL_GRANT)
        wring_pool_send_heard_grant(pool, peer, control);
    else if (control->kind == WRING_CONTROL_LEND)
        wring_pool_link_heard_lend(pool, peer, control);
    else
        wring_pool_slots_heard_spare(pool, peer, control);
}

/* ---- progress ---- */

static void say_owed(struct wring_pool *pool)
{
    pool->owes = false;
    for (uint32_t i = 0; i < pool->ranks; i++) {
        struct wring_pool_link *link = pool->links[i];
        if (link == NULL)
            continue;
        pool->owes |= wring_pool_link_say_owed(link);
        pool->owes |= wring_pool_send_owed(link);
    }
}

bool wring_pool_poll(struct wring_pool *pool)
{
    if (pool->owes)
        say_owed(pool);
    bool any = wring_pool_slots_poll(pool);
    pool->engine->owes_pool = pool->owes || wring_pool_slots_owe(&pool->slots);
    return any;
}

bool wring_pool_make_room(struct wring_pool *pool)
{
    return wring_pool_slots_make_room(pool);
}

/* ---- the end of an operation, and of a channel ---- */

static void forget(struct wring_channel *channel, bool all)
{
    wring_pool_send_cease(channel);
    wring_pool_slots_forget(&channel->pool->slots, channel, all);
    for (uint32_t i = 0; i < channel->members.n; i++)
        if (link_of(channel, i) != NULL)
            wring_pool_link_forget(link_of(channel, i), channel, all);
}

void wring_pool_cease(struct wring_pool *pool, const struct wring_cease *cease)
{
    for (uint32_t i = 0; i < pool->n_channels; i++)
        if (pool->channels[i] != NULL && pool->channels[i]->owner->cease == cease)
            forget(pool->channels[i], false);
}

void wring_pool_ended(const struct wring_collective *collective)
{
    struct wring_channel *const channels[] = {collective->scatter, collective->gather};
    for (size_t i = 0; i < 2; i++)
        if (channels[i] != NULL && channels[i]->pool != NULL)
            forget(channels[i], true);
}

bool wring_pool_is_quiet(const struct wring_pool *pool, const struct wring_cease *cease)
{
    for (uint32_t i = 0; i < pool->n_channels; i++) {
        const struct wring_channel *channel = pool->channels[i];
        if (channel != NULL && channel->owner->cease == cease &&
            !wring_collective_is_quiet(channel->owner))
            return false;
    }
    return true;
}

void wring_pool_remove(struct wring_pool *pool, struct wring_channel *channel)
{
    forget(channel, true);
    for (uint32_t i = 0; i < channel->members.n; i++)
        for (uint32_t k = 0; k < channel->window; k++)
            if (channel->in[i].slots[k].home == WRING_SLOT_MOVED)
                free(channel->in[i].slots[k].data);
    if (wring_pool_find(pool, channel->name.id) != channel)
        return;
    *place_of(pool, channel->name.id) = NULL;
    pool->n_used--;
}
