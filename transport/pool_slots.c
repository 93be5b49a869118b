/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pool_slots.h"

#include <stdlib.h>

#include "transport/collective/collective.h"
#include "transport/slot_pool.h"

#define STARVED 256 /* polls after which a slot is emptied though other things move */

/** So many slots are for pieces that their operations need next. */
static uint32_t reserve_of(const struct wring_pool_slots *slots)
{
    return (slots->shared + 3) / 4;
}

enum wring_status wring_pool_slots_init(struct wring_pool_slots *slots, uint32_t n, size_t bytes)
{
    slots->slot = calloc(n, sizeof(*slots->slot));
    if (slots->slot == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = n; i > 0; i--) {
        slots->slot[i - 1].next_free = slots->first_free;
        slots->first_free = i;
    }
    slots->n = slots->n_free = slots->shared = n;
    slots->lendable = n - reserve_of(slots);
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

void wring_pool_slots_finish(struct wring_pool_slots *slots)
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

void wring_pool_slots_heard_ask(struct wring_pool *pool, struct wring_peer *peer,
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
        wring_calls_suspect(channel->owner, pool->engine->fabric->tick_ns);
}

/** How many pieces of that member come before the one it asks for. */
static uint32_t ahead_of(const struct wring_pool_ask *ask)
{
    return ask->sequence - ask->channel->in[ask->member].taken;
}

/** Is the operation under way here, and may the piece have one of the slots that are left? */
static bool is_eligible(const struct wring_pool_slots *slots, const struct wring_pool_ask *ask)
{
    const struct wring_collective *owner = ask->channel->owner;
    return owner->running && wring_collective_ceased(owner) == WRING_OK &&
           ask->piece->tag == ask->channel->tag &&
           (ahead_of(ask) == 0 || slots->n_free > reserve_of(slots));
}

static bool is_before(const struct wring_pool_ask *a, const struct wring_pool_ask *b)
{
    const struct wring_collective *x = a->channel->owner, *y = b->channel->owner;
    if (x->priority != y->priority)
        return x->priority < y->priority;
    return ahead_of(a) != ahead_of(b) ? ahead_of(a) < ahead_of(b) : a->member < b->member;
}

/** Who is to have the next slot; the newest come first in the list, and older ones win. */
static struct wring_pool_ask **next_ask(struct wring_pool_slots *slots)
{
    struct wring_pool_ask **best = NULL;
    for (struct wring_pool_ask **at = &slots->asks; *at != NULL; at = &(*at)->next)
        if (is_eligible(slots, *at) && (best == NULL || !is_before(*best, *at)))
            best = at;
    return best;
}

/* ---- grants ---- */

static void say_grant(struct wring_pool_slots *slots, struct wring_pool_slot *slot)
{
    const struct wring_channel_out *out = &slot->channel->out[slot->member];
    const struct wring_control control = {.kind = WRING_CONTROL_GRANT,
                                          .a = out->name.id,
                                          .b = (uint32_t)(slot - slots->slot),
                                          .c = slot->sequence};
    slots->n_owed -= slot->state == WRING_POOL_OWED;
    slot->state = wring_control_send(out->peer, &control) == WRING_ERR_AGAIN ? WRING_POOL_OWED
                                                                             : WRING_POOL_GRANTED;
    slots->n_owed += slot->state == WRING_POOL_OWED;
}

static void say_owed(struct wring_pool_slots *slots)
{
    for (uint32_t i = 0; i < slots->n && slots->n_owed > 0; i++)
        if (slots->slot[i].state == WRING_POOL_OWED)
            say_grant(slots, &slots->slot[i]);
}

static struct wring_pool_slot *take_free(struct wring_pool_slots *slots)
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
        struct wring_pool_slot *slot = take_free(slots);
        *slot = (struct wring_pool_slot){.state = WRING_POOL_LENT};
        numbers[i] = (uint16_t)(slot - slots->slot);
    }
    slots->shared -= n;
    slots->lendable -= n;
    return n;
}

static void grant(struct wring_pool *pool, struct wring_pool_ask **at)
{
    const struct wring_pool_ask *ask = *at;
    struct wring_pool_slot *slot = take_free(&pool->slots);

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
static bool empty_slot(struct wring_pool_slots *slots)
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

bool wring_pool_slots_poll(struct wring_pool *pool)
{
    struct wring_pool_slots *slots = &pool->slots;
    struct wring_pool_ask **ask;
    bool any = false;

    if (slots->n_owed > 0)
        say_owed(slots);
    while ((ask = next_ask(slots)) != NULL) {
        if (slots->n_free == 0 && (++slots->starved < STARVED || !empty_slot(slots)))
            return any;
        slots->starved = 0;
        grant(pool, ask);
        any = true;
    }
    return any;
}

bool wring_pool_slots_owe(const struct wring_pool_slots *slots)
{
    return slots->asks != NULL || slots->n_owed > 0;
}

bool wring_pool_slots_make_room(struct wring_pool *pool)
{
    struct wring_pool_slots *slots = &pool->slots;
    return slots->asks != NULL && slots->n_free == 0 && next_ask(slots) != NULL &&
           empty_slot(slots);
}

/* ---- what comes into slots, and goes ---- */

struct wring_channel *wring_pool_slots_arrived(struct wring_pool *pool,
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
    slot->piece->place = (uint16_t)number;
    slot->piece->arrived = true;
    channel->in[*member].arrivals++;
    return channel;
}

void wring_pool_slots_release(struct wring_pool_slots *slots, const struct wring_slot *piece)
{
    free_slot(slots, &slots->slot[piece->place]);
}

void wring_pool_slots_heard_spare(struct wring_pool *pool, const struct wring_peer *peer,
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

void wring_pool_slots_forget(struct wring_pool_slots *slots, const struct wring_channel *channel,
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
