/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/channel.h"

#include <stdlib.h>

#include "transport/pairs.h"

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
    for (uint32_t i = 0; i < members.n; i++) {
        channel->in[i].slots = slots + (size_t)i * window;
        channel->out[i].peer = &fabric->peers[members.ranks[i]];
        channel->out[i].window = channel->out[i].limit = window;
    }
    return WRING_OK;
}

void wring_channel_set_window(struct wring_channel *channel, uint32_t member, uint32_t window)
{
    channel->out[member].window = window;
    channel->out[member].limit = channel->out[member].reserved + window;
}

void wring_channel_unpair(struct wring_channel *channel, struct wring_pairs *pairs)
{
    channel->pairs = pairs;
    for (uint32_t i = 0; i < channel->members.n; i++)
        channel->out[i].name.id = WRING_NO_CHANNEL;
}

void wring_channel_finish(struct wring_channel *channel)
{
    if (channel->in != NULL)
        free(channel->in[0].slots); /* one allocation for all members */
    free(channel->in);
    free(channel->out);
    *channel = (struct wring_channel){0};
}

void wring_channel_write_name(const struct wring_channel *channel, struct wring_writer *out)
{
    wring_write_u32(out, channel->name.id);
    wring_write_u32(out, channel->name.generation);
}

struct wring_channel_name wring_channel_read_name(struct wring_reader *in)
{
    struct wring_channel_name name = {.id = wring_read_u32(in)};
    name.generation = wring_read_u32(in);
    in->failed |= name.id >= WRING_CHANNELS_MAX;
    return name;
}

bool wring_channel_has_credit(const struct wring_channel *channel, uint32_t member)
{
    return channel->out[member].reserved != channel->out[member].limit;
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
    return channel->out[member].reserved++;
}

static uint32_t mask_of(const struct wring_channel *channel)
{
    return channel->tagged ? TAGGED_MASK : SEQUENCE_MASK;
}

static uint32_t imm_of(const struct wring_channel *channel, const struct wring_channel_out *out,
                       uint32_t sequence)
{
    uint32_t tag = channel->tagged ? channel->tag << TAG_SHIFT : 0;
    return out->name.id << WRING_SEQUENCE_BITS | tag | (sequence & mask_of(channel));
}

enum wring_status wring_channel_put(struct wring_channel *channel, uint32_t member,
                                    uint32_t sequence, struct wring_region *region,
                                    const void *local, size_t bytes, uint64_t cookie)
{
    struct wring_channel_out *out = &channel->out[member];
    if (out->remote == NULL)
        return wring_pairs_want(channel->pairs, member);
    uint64_t offset = out->offset + (uint64_t)(sequence % out->window) * channel->stride;
    enum wring_status status =
        wring_fabric_put(channel->fabric, out->peer, region, local, out->remote, offset, bytes,
                         imm_of(channel, out, sequence), cookie);
    out->puts += status == WRING_OK;
    return status;
}

enum wring_status wring_channel_place(struct wring_channel *channel, uint32_t member,
                                      struct wring_region *region, const void *local,
                                      uint64_t offset, size_t bytes, uint64_t cookie)
{
    struct wring_channel_out *out = &channel->out[member];
    enum wring_status status =
        wring_fabric_put(channel->fabric, out->peer, region, local, out->remote,
                         out->offset + offset, bytes, imm_of(channel, out, 0), cookie);
    out->puts += status == WRING_OK;
    return status;
}

enum wring_status wring_channel_arrived(struct wring_channel *channel, uint32_t member,
                                        uint32_t imm, size_t bytes)
{
    struct wring_channel_in *in = &channel->in[member];

    in->arrivals++;
    if (channel->placed)
        return WRING_OK;
    uint32_t ahead = (imm - in->consumed) & mask_of(channel);
    if (ahead >= channel->window || bytes > channel->slot_bytes)
        return WRING_ERR_FRAME;
    struct wring_slot *slot = &in->slots[(in->consumed + ahead) % channel->window];
    if (slot->arrived)
        return WRING_ERR_FRAME;
    uint32_t tag = channel->tagged ? (imm & SEQUENCE_MASK) >> TAG_SHIFT : 0;
    *slot = (struct wring_slot){.bytes = (uint32_t)bytes, .tag = (uint16_t)tag, .arrived = true};
    return WRING_OK;
}

/** The slot of a member's next piece, if that is there. */
static const struct wring_slot *next_slot(const struct wring_channel *channel, uint32_t member)
{
    const struct wring_channel_in *in = &channel->in[member];
    if (channel->placed || in->taken - in->consumed == channel->window)
        return NULL;
    const struct wring_slot *slot = &in->slots[in->taken % channel->window];
    return slot->arrived ? slot : NULL;
}

bool wring_channel_is_foreign(const struct wring_channel *channel, uint32_t member)
{
    const struct wring_slot *slot = next_slot(channel, member);
    return slot != NULL && channel->tagged && slot->tag != channel->tag;
}

const void *wring_channel_peek(const struct wring_channel *channel, uint32_t member, size_t *bytes)
{
    const struct wring_slot *slot = next_slot(channel, member);
    if (slot == NULL || (channel->tagged && slot->tag != channel->tag))
        return NULL;
    *bytes = slot->bytes;
    return channel->memory + (size_t)(slot - channel->in[0].slots) * channel->stride;
}

uint32_t wring_channel_take(struct wring_channel *channel, uint32_t member)
{
    return channel->in[member].taken++;
}

static void return_credits(struct wring_channel *channel, uint32_t member, uint32_t batch)
{
    struct wring_channel_in *in = &channel->in[member];
    if (in->consumed - in->credited < batch)
        return;
    const struct wring_channel_out *out = &channel->out[member];
    if (out->name.id == WRING_NO_CHANNEL)
        return; /* when it is known they are */
    enum wring_status status = wring_fabric_send_credit(channel->fabric, out->peer, out->name.id,
                                                        out->name.generation, in->consumed);
    if (status == WRING_OK)
        in->credited = in->consumed;
    else if (status == WRING_ERR_AGAIN)
        channel->owes_credits = channel->fabric->owes_credits = true;
}

static uint32_t batch_of(const struct wring_channel *channel)
{
    return channel->window > 1 ? channel->window / 2 : 1;
}

void wring_channel_release(struct wring_channel *channel, uint32_t member, uint32_t sequence)
{
    struct wring_channel_in *in = &channel->in[member];

    in->slots[sequence % channel->window].released = true;
    while (in->consumed != in->taken && in->slots[in->consumed % channel->window].released)
        in->slots[in->consumed++ % channel->window] = (struct wring_slot){0};
    return_credits(channel, member, batch_of(channel));
}

void wring_channel_return_credits(struct wring_channel *channel)
{
    channel->owes_credits = false;
    for (uint32_t i = 0; i < channel->members.n; i++)
        if (i != channel->members.me)
            return_credits(channel, i, batch_of(channel));
}

enum wring_status wring_channel_credit(struct wring_channel *channel, uint32_t member,
                                       uint32_t consumed)
{
    struct wring_channel_out *out = &channel->out[member];
    uint32_t limit = consumed + out->window;

    /* never more than what we sent can have been consumed, and never less than before */
    if (out->reserved - consumed > out->window || limit - out->limit > out->window)
        return WRING_ERR_FRAME;
    out->limit = limit;
    return WRING_OK;
}

uint32_t wring_members_find(const struct wring_members *members, uint32_t rank)
{
    for (uint32_t i = 0; i < members->n; i++)
        if (members->ranks[i] == rank)
            return i;
    return members->n;
}
