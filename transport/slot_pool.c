/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/slot_pool.h"

#include <inttypes.h>
#include <stdlib.h>

#include "transport/collective/collective.h"

#define STARVED 256 /* polls after which a slot is emptied though other things move */

/** So many slots are for pieces that their operations need next. */
static uint32_t reserved_slots(const struct wring_pool_slots *slots)
{
    return (slots->shared + 3) / 4;
}

/** Zeroed memory; what fails is finished as well. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status pool_slots_init(struct wring_pool_slots *slots, uint32_t n, size_t bytes)
{
    slots->slot = calloc(n, sizeof(*slots->slot));
    if (slots->slot == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = n; i > 0; i--) {
        slots->slot[i - 1].next_free = slots->first_free;
        slots->first_free = i;
    }
    slots->n = slots->n_free = slots->shared = n;
    slots->lendable = n - reserved_slots(slots);
    slots->bytes = bytes;
    return WRING_OK;
}

static void free_asks(struct wring_pool_ask *first)
{
    while (first != NULL) {
        struct wring_pool_ask *ask = first;
        first = ask->next;
        free(ask);
    }
}

/** Zeroed memory is fine. */
static void pool_slots_finish(struct wring_pool_slots *slots)
{
    free_asks(slots->asks);
    free_asks(slots->free_asks);
    wring_block_finish(&slots->block);
    free(slots->slot);
    *slots = (struct wring_pool_slots){0};
}

static void free_slot(struct wring_pool_slots *slots, struct wring_pool_slot *slot)
{
    slots->n_owed -= slot->state == WRING_POOL_OWED;
    *slot = (struct wring_pool_slot){.next_free = slots->first_free};
    slots->first_free = (uint32_t)(slot - slots->slot) + 1;
    slots->n_free++;
}

/* ---- asks ---- */

static struct wring_pool_ask *new_ask(struct wring_pool_slots *slots)
{
    struct wring_pool_ask *ask = slots->free_asks;
    if (ask == NULL)
        return malloc(sizeof(*ask));
    slots->free_asks = ask->next;
    return ask;
}

static void forget_ask(struct wring_pool_slots *slots, struct wring_pool_ask **at)
{
    struct wring_pool_ask *ask = *at;
    *at = ask->next;
    ask->next = slots->free_asks;
    slots->free_asks = ask;
}

/** A member has a piece ready. It may fail the job. */
static void pool_slots_heard_ask(struct wring_pool *pool, struct wring_peer *peer,
                                 const struct wring_control *control)
{
    struct wring_pool_slots *slots = &pool->slots;
    struct wring_channel *channel = wring_pool_find(pool, control->a);

    if (!wring_pool_knew(pool, control->a)) {
        wring_pool_refuse(pool, peer, "asks for room for a piece of no group");
        return;
    }
    if (channel == NULL || wring_collective_ceased(channel->owner) != WRING_OK)
        return; /* of a group that is gone, or whose members hear that it is */
    uint32_t member = wring_members_find(&channel->members, peer->rank);
    struct wring_slot *piece =
        member < channel->members.n ? wring_channel_expect(channel, member, control->c) : NULL;
    if (piece == NULL || piece->asked || control->b <= WRING_POOL_SMALL ||
        control->b > slots->bytes) {
        wring_pool_refuse(pool, peer, "asks for room for a piece that it may not send");
        return;
    }
    struct wring_pool_ask *new = new_ask(slots);
    if (new == NULL) {
        wring_pool_no_memory(pool);
        return;
    }
    wring_channel_announce(channel, piece, control->c, control->b);
    *new = (struct wring_pool_ask){slots->asks, channel, piece, member,
                                   wring_channel_sequence(channel, member, piece)};
    slots->asks = new;
    slots->asked++;
    pool->engine->owes_pool = true;
    channel->owner->runnable = true;
    if (wring_channel_is_foreign(channel, member))
        wring_op_check_suspect(channel->owner->calls, pool->engine->fabric->tick_ns);
}

/** How many pieces of that member come before the one it asks for. */
static uint32_t count_ahead(const struct wring_pool_ask *ask)
{
    return ask->sequence - ask->channel->in[ask->member].taken;
}

/** Is the operation under way here? */
static bool is_wanted(const struct wring_pool_ask *ask)
{
    const struct wring_collective *owner = ask->channel->owner;
    return owner->running && wring_collective_ceased(owner) == WRING_OK &&
           ask->piece->tag == ask->channel->tag;
}

/** May the piece have one of the slots that are left? */
static bool may_get_slot(const struct wring_pool_slots *slots, const struct wring_pool_ask *ask)
{
    return count_ahead(ask) == 0 || slots->n_free > reserved_slots(slots);
}

static bool is_more_urgent(const struct wring_pool_ask *a, const struct wring_pool_ask *b)
{
    const struct wring_collective *x = a->channel->owner, *y = b->channel->owner;
    if (x->priority != y->priority)
        return x->priority < y->priority;
    return count_ahead(a) != count_ahead(b) ? count_ahead(a) < count_ahead(b)
                                            : a->member < b->member;
}

/** The ask that gets the next slot; the newest come first in the list, and older ones win.
 *  @param any  also of those for which no slot is left */
static struct wring_pool_ask **find_next_ask(struct wring_pool_slots *slots, bool any)
{
    struct wring_pool_ask **best = NULL;
    for (struct wring_pool_ask **at = &slots->asks; *at != NULL; at = &(*at)->next)
        if (is_wanted(*at) && (any || may_get_slot(slots, *at)) &&
            (best == NULL || !is_more_urgent(*best, *at)))
            best = at;
    return best;
}

/* ---- grants ---- */

static void say_grant(struct wring_pool_slots *slots, struct wring_pool_slot *slot)
{
    const struct wring_channel_out *out = wring_channel_out(slot->channel, slot->member);
    const struct wring_control control = {.kind = WRING_CONTROL_GRANT,
                                          .a = out->name.id,
                                          .b = (uint32_t)(slot - slots->slot),
                                          .c = slot->sequence};
    slots->n_owed -= slot->state == WRING_POOL_OWED;
    slot->state = wring_control_send(out->peer, &control) == WRING_ERR_AGAIN ? WRING_POOL_OWED
                                                                             : WRING_POOL_GRANTED;
    slots->n_owed += slot->state == WRING_POOL_OWED;
}

static void say_owed_grants(struct wring_pool_slots *slots)
{
    for (uint32_t i = 0; i < slots->n && slots->n_owed > 0; i++)
        if (slots->slot[i].state == WRING_POOL_OWED)
            say_grant(slots, &slots->slot[i]);
}

static struct wring_pool_slot *take_free_slot(struct wring_pool_slots *slots)
{
    struct wring_pool_slot *slot = &slots->slot[slots->first_free - 1];
    slots->first_free = slot->next_free;
    slots->n_free--;
    return slot;
}

uint32_t wring_pool_slots_lend(struct wring_pool_slots *slots, uint16_t *numbers)
{
    uint32_t n = (slots->lendable + 3) / 4;

    n = n < WRING_POOL_RING ? n : WRING_POOL_RING;
    if (n >= slots->n_free)
        return 0; /* now */
    for (uint32_t i = 0; i < n; i++) {
        struct wring_pool_slot *slot = take_free_slot(slots);
        *slot = (struct wring_pool_slot){.state = WRING_POOL_LENT};
        numbers[i] = (uint16_t)(slot - slots->slot);
    }
    slots->shared -= n;
    slots->lendable -= n;
    return n;
}

static void grant_slot(struct wring_pool *pool, struct wring_pool_ask **at)
{
    const struct wring_pool_ask *ask = *at;
    struct wring_pool_slot *slot = take_free_slot(&pool->slots);

    *slot = (struct wring_pool_slot){
        .link = pool->links[ask->channel->members.ranks[ask->member]],
        .channel = ask->channel,
        .piece = ask->piece,
        .member = ask->member,
        .sequence = ask->sequence,
        .bytes = ask->piece->bytes,
    };
    forget_ask(&pool->slots, at);
    say_grant(&pool->slots, slot);
    wring_pool_link_lend(slot->link);
}

/** Move a piece that waits for others out of its slot. @return false: all are needed where they are
 */
static bool move_piece_out(struct wring_pool_slots *slots)
{
    for (uint32_t i = 0; i < slots->n; i++) {
        struct wring_pool_slot *slot = &slots->slot[i];
        if (slot->state != WRING_POOL_FULL ||
            !wring_pool_move(slot->channel, slot->member, slot->piece))
            continue;
        free_slot(slots, slot);
        return true;
    }
    return false;
}

/** Grant what can be granted, and say what could not be said. @return whether anything moved */
static bool pool_slots_poll(struct wring_pool *pool)
{
    struct wring_pool_slots *slots = &pool->slots;
    struct wring_pool_ask **ask;
    bool any = false;

    if (slots->n_owed > 0)
        say_owed_grants(slots);
    while ((ask = find_next_ask(slots, false)) != NULL) {
        if (slots->n_free == 0 && (++slots->starved < STARVED || !move_piece_out(slots)))
            return any;
        slots->starved = 0;
        grant_slot(pool, ask);
        any = true;
    }
    return any;
}

/** Does anybody wait for a slot, or for its grant? */
static bool pool_slots_owe(const struct wring_pool_slots *slots)
{
    return slots->asks != NULL || slots->n_owed > 0;
}

/**
 * Nothing else moves: if somebody waits for a slot, empty one, and grant it. That holds for pieces
 * that come too early as well. A sender works on so many at a time and no more: it asks for the
 * piece that is needed here once it is rid of them.
 * @return whether one was granted
 */
static bool pool_slots_make_room(struct wring_pool *pool)
{
    struct wring_pool_slots *slots = &pool->slots;
    struct wring_pool_ask **ask = find_next_ask(slots, true);

    if (ask == NULL || (slots->n_free == 0 && !move_piece_out(slots)))
        return false;
    grant_slot(pool, ask);
    return true;
}

/* ---- what comes into slots, and goes ---- */

/** A piece came into a slot that was granted. @return as wring_pool_arrived() */
static struct wring_channel *pool_slots_arrived(struct wring_pool *pool,
                                                const struct wring_peer *peer, uint32_t imm,
                                                size_t bytes, uint32_t *member)
{
    struct wring_pool_slots *slots = &pool->slots;
    uint32_t number = imm & ((1u << WRING_SEQUENCE_BITS) - 1);
    struct wring_pool_slot *slot = number < slots->n ? &slots->slot[number] : NULL;

    if (slot == NULL || slot->state != WRING_POOL_GRANTED || slot->link->peer != peer ||
        slot->bytes != bytes) {
        wring_pool_refuse(pool, peer,
                          "sent a piece of a group into a slot that it was not granted");
        return NULL;
    }
    struct wring_channel *channel = slot->channel;
    if (channel == NULL || wring_collective_ceased(channel->owner) != WRING_OK) {
        free_slot(slots, slot);
        return NULL;
    }
    *member = slot->member;
    slot->state = WRING_POOL_FULL;
    slot->piece->data = (uint8_t *)slots->block.memory.base + number * slots->bytes;
    slot->piece->home = WRING_SLOT_POOL;
    slot->piece->number = (uint16_t)number;
    slot->piece->arrived = true;
    channel->in[*member].arrivals++;
    return channel;
}

/** It is needed no longer. */
static void pool_slots_release(struct wring_pool_slots *slots, const struct wring_slot *piece)
{
    free_slot(slots, &slots->slot[piece->number]);
}

/** A member does not need the slot that it was granted. It may fail the job. */
static void pool_slots_heard_spare(struct wring_pool *pool, const struct wring_peer *peer,
                                   const struct wring_control *control)
{
    struct wring_pool_slots *slots = &pool->slots;
    struct wring_pool_slot *slot = control->b < slots->n ? &slots->slot[control->b] : NULL;

    if (slot == NULL || slot->state != WRING_POOL_GRANTED || slot->link->peer != peer)
        wring_pool_refuse(pool, peer, "gave back a slot that it was not granted");
    else
        free_slot(slots, slot);
}

static void forget_slot(struct wring_pool_slots *slots, struct wring_pool_slot *slot, bool all)
{
    bool full = slot->state == WRING_POOL_FULL;

    if (full && !all && wring_channel_is_taken(slot->channel, slot->member, slot->piece))
        return;
    if (slot->state == WRING_POOL_GRANTED) {
        slot->channel = NULL; /* it is filled or given back yet */
        return;
    }
    if (full)
        slot->piece->arrived = false;
    free_slot(slots, slot);
}

/** Nothing of a channel is asked for or kept any more. @param all  nor pieces that a job may have
 *  read, as there is none any more */
static void pool_slots_forget(struct wring_pool_slots *slots, const struct wring_channel *channel,
                              bool all)
{
    for (struct wring_pool_ask **at = &slots->asks; *at != NULL;)
        if ((*at)->channel == channel)
            forget_ask(slots, at);
        else
            at = &(*at)->next;
    for (uint32_t i = 0; i < slots->n; i++)
        if (slots->slot[i].channel == channel)
            forget_slot(slots, &slots->slot[i], all);
}

/* ---- slot pool ---- */

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

enum wring_status wring_pool_create(struct wring_engine *engine, size_t slot_bytes,
                                    struct wring_pool **out)
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
        pool_slots_init(&pool->slots, (uint32_t)config->pool_slots, slot_bytes) != WRING_OK) {
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
    pool_slots_finish(&pool->slots);
    free(pool->links);
    free(pool->channels);
    free(pool);
}

/* ---- channels ---- */

static struct wring_channel **channel_entry(const struct wring_pool *pool, uint32_t id)
{
    return &pool->channels[id & (pool->n_channels - 1)];
}

struct wring_channel *wring_pool_find(const struct wring_pool *pool, uint32_t id)
{
    struct wring_channel *channel = *channel_entry(pool, id);
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
            *channel_entry(pool, old[i]->name.id) = old[i];
    free(old);
    return true;
}

static uint32_t take_next_id(struct wring_pool *pool)
{
    uint32_t id = pool->next_id++;
    if (pool->next_id == IDS) {
        pool->next_id = 0;
        pool->wrapped = true;
    }
    return WRING_POOL_ID | id;
}

/* ---- what a channel asks of its pool ---- */

static struct wring_pool_link *link_of(const struct wring_channel *channel, uint32_t member)
{
    return channel->pool->links[channel->members.ranks[member]];
}

static void release_piece(struct wring_channel *channel, uint32_t member, struct wring_slot *piece)
{
    if (piece->home == WRING_SLOT_MOVED)
        free(piece->data);
    else if (piece->home == WRING_SLOT_POOL)
        pool_slots_release(&channel->pool->slots, piece);
    else if (piece->home == WRING_SLOT_RING || piece->home == WRING_SLOT_LENT)
        wring_pool_link_release(link_of(channel, member), piece);
    piece->home = WRING_SLOT_OWN;
    piece->data = NULL;
}

static uint32_t ring_credits(const struct wring_channel *channel, uint32_t member)
{
    return wring_pool_link_consumed(channel->out[member].link);
}

static void note_ring_credited(const struct wring_channel *channel, uint32_t member)
{
    wring_pool_link_credited(channel->out[member].link);
}

static void return_credits(const struct wring_channel *channel, uint32_t member)
{
    struct wring_pool_link *link = link_of(channel, member);
    if (link != NULL)
        wring_pool_link_return_credits(link);
}

static const struct wring_channel_pool_ops ops = {
    .put = wring_pool_put,
    .release = release_piece,
    .credits = ring_credits,
    .credited = note_ring_credited,
    .return_credits = return_credits,
};

enum wring_status wring_pool_add(struct wring_pool *pool, struct wring_channel *channel)
{
    if (2 * pool->n_used >= pool->n_channels &&
        (pool->n_channels >= WRING_POOL_ID / 2 || !grow_channels(pool)))
        return WRING_ERR_NO_MEMORY;
    uint32_t id = take_next_id(pool);
    while (*channel_entry(pool, id) != NULL)
        id = take_next_id(pool);
    channel->asks = calloc((size_t)channel->members.n * channel->window, sizeof(*channel->asks));
    if (channel->asks == NULL)
        return WRING_ERR_NO_MEMORY;
    channel->tagged = true;
    channel->name = (struct wring_channel_name){id, 0};
    channel->pool = pool;
    channel->pool_ops = &ops;
    *channel_entry(pool, id) = channel;
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
        return pool_slots_arrived(pool, peer, imm, bytes, member);
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
        pool_slots_heard_ask(pool, peer, control);
    else if (control->kind == WRING_CONTROL_GRANT)
        wring_pool_send_heard_grant(pool, peer, control);
    else if (control->kind == WRING_CONTROL_LEND)
        wring_pool_link_heard_lend(pool, peer, control);
    else
        pool_slots_heard_spare(pool, peer, control);
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
    bool any = pool_slots_poll(pool);
    pool->engine->owes_pool = pool->owes || pool_slots_owe(&pool->slots);
    return any;
}

bool wring_pool_make_room(struct wring_pool *pool)
{
    return pool_slots_make_room(pool);
}

/* ---- the end of an operation, and of a channel ---- */

static void forget_channel(struct wring_channel *channel, bool all)
{
    wring_pool_send_cease(channel);
    pool_slots_forget(&channel->pool->slots, channel, all);
    for (uint32_t i = 0; i < channel->members.n; i++)
        if (link_of(channel, i) != NULL)
            wring_pool_link_forget(link_of(channel, i), channel, all);
}

void wring_pool_cease(struct wring_pool *pool, const struct wring_cease *cease)
{
    for (uint32_t i = 0; i < pool->n_channels; i++)
        if (pool->channels[i] != NULL && pool->channels[i]->owner->cease == cease)
            forget_channel(pool->channels[i], false);
}

void wring_pool_ended(const struct wring_collective *collective)
{
    struct wring_channel *const channels[] = {collective->scatter, collective->gather};
    for (size_t i = 0; i < 2; i++)
        if (channels[i] != NULL && channels[i]->pool != NULL)
            forget_channel(channels[i], true);
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
    forget_channel(channel, true);
    for (uint32_t i = 0; i < channel->members.n; i++)
        for (uint32_t k = 0; k < channel->window; k++)
            if (wring_channel_slots(channel, i)[k].home == WRING_SLOT_MOVED)
                free(wring_channel_slots(channel, i)[k].data);
    if (wring_pool_find(pool, channel->name.id) != channel)
        return;
    *channel_entry(pool, channel->name.id) = NULL;
    pool->n_used--;
}
