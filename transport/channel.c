/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/channel.h"

#include <stdlib.h>

#define SEQUENCE_MASK ((1u << WRING_SEQUENCE_BITS) - 1)
#define TAG_SHIFT (WRING_SEQUENCE_BITS - WRING_TAG_BITS)
#define TAGGED_MASK ((1u << TAG_SHIFT) - 1)
#define ALIGN 64

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t wring_channel_memory(uint32_t members, uint32_t window, size_t slot_bytes)
{
    return (size_t)members * window * round_up(slot_bytes);
}

size_t wring_channel_state_bytes(uint32_t members, uint32_t window)
{
    return sizeof(struct wring_channel) +
           members * (sizeof(struct wring_channel_in) + sizeof(struct wring_channel_out) +
                      window * (sizeof(struct wring_slot) + sizeof(struct wring_channel_ask)));
}

uint32_t wring_channel_window(uint64_t most, uint64_t pieces)
{
    uint32_t window = 2;
    while (window * 2 <= most && window < pieces)
        window *= 2;
    return window;
}

enum wring_status wring_channel_init(struct wring_channel *channel, struct wring_fabric *fabric,
                                     struct wring_members members, uint32_t window,
                                     size_t slot_bytes, uint8_t *memory)
{
    *channel = (struct wring_channel){
        .fabric = fabric,
        .members = members,
        .placed = window == 0,
        .window = window,
        .slot_bytes = slot_bytes,
        .stride = round_up(slot_bytes),
        .memory = memory,
        .in = calloc(members.n, sizeof(*channel->in)),
        .out = calloc(members.n, sizeof(*channel->out)),
    };
    struct wring_slot *slots = calloc((size_t)members.n * window + 1, sizeof(*slots));
    if (channel->in == NULL || channel->out == NULL || slots == NULL) {
        free(slots);
        free(channel->in);
        free(channel->out);
        *channel = (struct wring_channel){0};
        return WRING_ERR_NO_MEMORY;
    }
    channel->slots = slots;
    for (size_t i = 0; memory != NULL && i < (size_t)members.n * window; i++)
        slots[i].data = memory + i * channel->stride;
    return WRING_OK;
}

void wring_channel_seat(struct wring_channel *channel,
                        uint32_t (*place)(uint32_t n, uint32_t me, uint32_t member))
{
    const struct wring_members *members = &channel->members;

    for (uint32_t i = 0; i < members->n; i++) {
        uint32_t at = place(members->n, members->me, i);
        for (uint32_t k = 0; k < channel->window; k++)
            wring_channel_slots(channel, i)[k].data =
                at == UINT32_MAX
                    ? NULL
                    : channel->memory + ((size_t)at * channel->window + k) * channel->stride;
    }
}

void wring_channel_open(const struct wring_channel *channel, uint32_t member)
{
    struct wring_channel_out *out = &channel->out[member];
    out->peer = wring_fabric_peer(channel->fabric, channel->members.ranks[member]);
    out->window = out->limit = channel->window;
    if (channel->pairs != NULL)
        out->name.id = WRING_NO_CHANNEL;
}

void wring_channel_set_window(struct wring_channel *channel, uint32_t member, uint32_t window)
{
    struct wring_channel_out *out = wring_channel_out(channel, member);
    out->window = window;
    out->limit = out->reserved + window;
}

void wring_channel_unpair(struct wring_channel *channel, struct wring_pairs *pairs)
{
    channel->pairs = pairs;
}

void wring_channel_finish(struct wring_channel *channel)
{
    free(channel->slots);
    free(channel->in);
    free(channel->out);
    free(channel->asks);
    *channel = (struct wring_channel){0};
}

bool wring_channel_has_credit(const struct wring_channel *channel, uint32_t member)
{
    const struct wring_channel_out *out = wring_channel_out(channel, member);
    return out->reserved != out->limit;
}

bool wring_channel_has_credits(const struct wring_channel *channel)
{
    if (channel->placed)
        return true;
    for (uint32_t i = 0; i < channel->members.n; i++)
        if (i != channel->members.me && !wring_channel_has_credit(channel, i))
            return false;
    return true;
}

uint32_t wring_channel_reserve(struct wring_channel *channel, uint32_t member)
{
    return wring_channel_out(channel, member)->reserved++;
}

static uint32_t sequence_mask(const struct wring_channel *channel)
{
    return channel->tagged ? TAGGED_MASK : SEQUENCE_MASK;
}

uint32_t wring_channel_imm(const struct wring_channel *channel, const struct wring_channel_out *out,
                           uint32_t sequence)
{
    uint32_t tag = channel->tagged ? channel->tag << TAG_SHIFT : 0;
    return out->name.id << WRING_SEQUENCE_BITS | tag | (sequence & sequence_mask(channel));
}

enum wring_status wring_channel_put(struct wring_channel *channel, uint32_t member,
                                    uint32_t sequence, struct wring_region *region,
                                    const void *local, size_t bytes, uint64_t cookie)
{
    struct wring_channel_out *out = wring_channel_out(channel, member);
    if (channel->pool != NULL)
        return channel->pool_ops->put(channel, member, sequence, region, local, bytes, cookie);
    uint64_t offset = out->offset + (uint64_t)(sequence % out->window) * channel->stride;
    enum wring_status status =
        wring_fabric_put(channel->fabric, out->peer, region, local, out->remote, offset, bytes,
                         wring_channel_imm(channel, out, sequence), cookie);
    out->puts += status == WRING_OK;
    return status;
}

enum wring_status wring_channel_put_placed(struct wring_channel *channel, uint32_t member,
                                           struct wring_region *region, const void *local,
                                           uint64_t offset, size_t bytes, uint64_t cookie)
{
    struct wring_channel_out *out = wring_channel_out(channel, member);
    enum wring_status status =
        wring_fabric_put(channel->fabric, out->peer, region, local, out->remote,
                         out->offset + offset, bytes, wring_channel_imm(channel, out, 0), cookie);
    out->puts += status == WRING_OK;
    return status;
}

struct wring_slot *wring_channel_expect(struct wring_channel *channel, uint32_t member,
                                        uint32_t imm)
{
    struct wring_channel_in *in = &channel->in[member];
    uint32_t ahead = (imm - in->consumed) & sequence_mask(channel);

    if (ahead >= channel->window)
        return NULL;
    struct wring_slot *slot =
        &wring_channel_slots(channel, member)[(in->consumed + ahead) % channel->window];
    return slot->arrived ? NULL : slot;
}

void wring_channel_announce(const struct wring_channel *channel, struct wring_slot *piece,
                            uint32_t imm, uint32_t bytes)
{
    piece->tag = (uint16_t)(channel->tagged ? (imm & SEQUENCE_MASK) >> TAG_SHIFT : 0);
    piece->bytes = bytes;
    piece->asked = true;
}

void wring_channel_enter(struct wring_channel *channel, uint32_t member, struct wring_slot *piece,
                         uint32_t imm, size_t bytes)
{
    piece->tag = (uint16_t)(channel->tagged ? (imm & SEQUENCE_MASK) >> TAG_SHIFT : 0);
    piece->bytes = (uint32_t)bytes;
    piece->arrived = true;
    channel->in[member].arrivals++;
}

enum wring_status wring_channel_arrived(struct wring_channel *channel, uint32_t member,
                                        uint32_t imm, size_t bytes)
{
    if (channel->placed) {
        channel->in[member].arrivals++;
        return WRING_OK;
    }
    struct wring_slot *slot = wring_channel_expect(channel, member, imm);
    if (slot == NULL || bytes > channel->slot_bytes)
        return WRING_ERR_FRAME;
    wring_channel_enter(channel, member, slot, imm, bytes);
    return WRING_OK;
}

static uint32_t slot_index(const struct wring_channel *channel, uint32_t member,
                           const struct wring_slot *piece)
{
    return (uint32_t)(piece - wring_channel_slots(channel, member));
}

uint32_t wring_channel_sequence(const struct wring_channel *channel, uint32_t member,
                                const struct wring_slot *piece)
{
    uint32_t consumed = channel->in[member].consumed;
    return consumed + (slot_index(channel, member, piece) - consumed) % channel->window;
}

bool wring_channel_is_taken(const struct wring_channel *channel, uint32_t member,
                            const struct wring_slot *piece)
{
    const struct wring_channel_in *in = &channel->in[member];
    return wring_channel_sequence(channel, member, piece) - in->consumed < in->taken - in->consumed;
}

/** The slot of a member's next piece; NULL: all are taken. */
static const struct wring_slot *next_slot(const struct wring_channel *channel, uint32_t member)
{
    const struct wring_channel_in *in = &channel->in[member];
    if (channel->placed || in->taken - in->consumed == channel->window)
        return NULL;
    return &wring_channel_slots(channel, member)[in->taken % channel->window];
}

bool wring_channel_is_foreign(const struct wring_channel *channel, uint32_t member)
{
    const struct wring_slot *slot = channel->tagged ? next_slot(channel, member) : NULL;
    return slot != NULL && (slot->arrived || slot->asked) && slot->tag != channel->tag;
}

const void *wring_channel_peek(const struct wring_channel *channel, uint32_t member, size_t *bytes)
{
    const struct wring_slot *slot = next_slot(channel, member);
    if (slot == NULL || !slot->arrived || (channel->tagged && slot->tag != channel->tag))
        return NULL;
    *bytes = slot->bytes;
    return slot->data;
}

uint32_t wring_channel_take(struct wring_channel *channel, uint32_t member)
{
    return channel->in[member].taken++;
}

/** A pooled channel's say how far the ring of small pieces is free, too. */
static enum wring_status send_credit(struct wring_channel *channel, uint32_t member)
{
    const struct wring_channel_out *out = wring_channel_out(channel, member);
    uint32_t consumed = channel->in[member].consumed;

    if (channel->pool == NULL)
        return wring_fabric_send_credit(channel->fabric, out->peer, out->name.id,
                                        out->name.generation, consumed);
    uint32_t ring = channel->pool_ops->credits(channel, member);
    enum wring_status status =
        wring_fabric_send_credit(channel->fabric, out->peer, out->name.id, ring, consumed);
    if (status == WRING_OK)
        channel->pool_ops->credited(channel, member);
    return status;
}

static void return_credits(struct wring_channel *channel, uint32_t member, uint32_t batch)
{
    struct wring_channel_in *in = &channel->in[member];
    if (in->consumed - in->credited < batch ||
        wring_channel_out(channel, member)->name.id == WRING_NO_CHANNEL)
        return; /* when its end is known they are */
    enum wring_status status = send_credit(channel, member);
    if (status == WRING_OK)
        in->credited = in->consumed;
    else if (status == WRING_ERR_AGAIN)
        channel->owes_credits = channel->fabric->owes_credits = true;
}

static uint32_t credit_batch(const struct wring_channel *channel)
{
    return channel->window > 1 ? channel->window / 2 : 1;
}

/** A slot is as before its piece, but for memory that is its own. */
static void clear_slot(struct wring_channel *channel, struct wring_slot *slot)
{
    *slot = (struct wring_slot){.data = channel->pool == NULL ? slot->data : NULL};
}

void wring_channel_release(struct wring_channel *channel, uint32_t member, uint32_t sequence)
{
    struct wring_channel_in *in = &channel->in[member];
    struct wring_slot *slots = wring_channel_slots(channel, member);
    struct wring_slot *slot = &slots[sequence % channel->window];

    if (channel->pool != NULL)
        channel->pool_ops->release(channel, member, slot);
    slot->released = true;
    while (in->consumed != in->taken && slots[in->consumed % channel->window].released)
        clear_slot(channel, &slots[in->consumed++ % channel->window]);
    return_credits(channel, member, credit_batch(channel));
    if (channel->pool != NULL)
        channel->pool_ops->return_credits(channel, member);
}

void wring_channel_return_credits(struct wring_channel *channel)
{
    channel->owes_credits = false;
    for (uint32_t i = 0; i < channel->members.n; i++)
        if (i != channel->members.me)
            return_credits(channel, i, credit_batch(channel));
}

enum wring_status wring_channel_credit(struct wring_channel *channel, uint32_t member,
                                       uint32_t consumed)
{
    struct wring_channel_out *out = wring_channel_out(channel, member);
    uint32_t limit = consumed + out->window;

    /* the peer cannot have consumed more than we sent, nor less than before */
    if (out->reserved - consumed > out->window || limit - out->limit > out->window)
        return WRING_ERR_FRAME;
    out->limit = limit;
    return WRING_OK;
}

uint32_t *wring_members_index(struct wring_members *members, bool *ok)
{
    uint32_t mask = 1, *table;
    bool own_numbers = true;
    for (uint32_t i = 0; i < members->n && own_numbers; i++)
        own_numbers = members->ranks[i] == i;
    *ok = true;
    if (own_numbers)
        return NULL;
    while (mask < 2 * members->n)
        mask = 2 * mask + 1;
    table = calloc((size_t)mask + 1, sizeof(*table));
    *ok = table != NULL;
    if (table == NULL)
        return NULL;
    members->mask = mask;
    for (uint32_t i = members->n; i-- > 0;) { /* of two that are alike, the first one is found */
        uint32_t at = wring_members_slot(members, members->ranks[i]);
        while (table[at] != 0 && members->ranks[table[at] - 1] != members->ranks[i])
            at = (at + 1) & mask;
        table[at] = i + 1;
    }
    members->table = table;
    return table;
}

uint32_t wring_members_find(const struct wring_members *members, uint32_t rank)
{
    if (rank < members->n && members->ranks[rank] == rank)
        return rank;
    if (members->table == NULL) {
        for (uint32_t i = 0; i < members->n; i++)
            if (members->ranks[i] == rank)
                return i;
        return members->n;
    }
    uint32_t at = wring_members_slot(members, rank);
    while (members->table[at] != 0 && members->ranks[members->table[at] - 1] != rank)
        at = (at + 1) & members->mask;
    return members->table[at] != 0 ? members->table[at] - 1 : members->n;
}
