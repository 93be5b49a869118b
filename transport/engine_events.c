/* SPDX-License-Identifier: Apache-2.0 */
/* Events from peers, handed to the channels and other parts of the engine that they concern. */
#include <inttypes.h>
#include <stdlib.h>

#include "transport/collective/collective.h"
#include "transport/engine.h"
#include "transport/message/message.h"
#include "transport/pairs.h"
#include "transport/slot_pool.h"

#define CHANNELS_AT_FIRST 64

static bool grow_channels(struct wring_engine *engine)
{
    uint32_t grown = engine->n_channels * 2 + CHANNELS_AT_FIRST;
    struct wring_channel **channels = realloc(engine->channels, grown * sizeof(*channels));
    if (channels == NULL)
        return false;
    memset(channels + engine->n_channels, 0, (grown - engine->n_channels) * sizeof(*channels));
    engine->next_id = engine->n_channels;
    engine->channels = channels;
    engine->n_channels = grown;
    return true;
}

/** A free id, one that was given up long ago, if any was: pieces of a group that is gone may still
 *  be on the way. @return n_channels: there is none */
static uint32_t find_free_id(const struct wring_engine *engine)
{
    for (uint32_t i = 0; i < engine->n_channels; i++) {
        uint32_t id = (engine->next_id + i) % engine->n_channels;
        if (id < WRING_POOL_ID && engine->channels[id] == NULL)
            return id;
    }
    return engine->n_channels;
}

enum wring_status wring_engine_add_channel(struct wring_engine *engine,
                                           struct wring_channel *channel)
{
    uint32_t id = find_free_id(engine);
    if (id == engine->n_channels) {
        if (engine->n_channels >= WRING_POOL_ID || !grow_channels(engine))
            return WRING_ERR_NO_MEMORY;
        id = engine->next_id;
    }
    channel->name = (struct wring_channel_name){id, engine->generation};
    engine->channels[id] = channel;
    engine->next_id = id + 1;
    if (id >= engine->known_ids)
        engine->known_ids = id + 1;
    return WRING_OK;
}

void wring_engine_remove_channel(struct wring_engine *engine, struct wring_channel *channel)
{
    uint32_t id = channel->name.id;
    if (channel->pool != NULL)
        wring_pool_remove(channel->pool, channel);
    if (id < engine->n_channels && engine->channels[id] == channel) {
        engine->channels[id] = NULL;
        engine->generation++; /* credits on the way must not be taken for those of the next one */
    }
}

static struct wring_channel *find_channel(const struct wring_engine *engine, uint32_t id)
{
    if (id >= WRING_POOL_ID)
        return engine->pool != NULL ? wring_pool_find(engine->pool, id) : NULL;
    return id < engine->n_channels ? engine->channels[id] : NULL;
}

/** The channel that a peer means; NULL: one of before the last commit, or of a group that is gone
 */
static struct wring_channel *find_channel_named(const struct wring_engine *engine, uint32_t id,
                                                uint32_t generation)
{
    struct wring_channel *channel = find_channel(engine, id);
    return channel != NULL && channel->name.generation == generation ? channel : NULL;
}

static void note_piece_arrived(struct wring_engine *engine, struct wring_channel *channel,
                               uint32_t member, const struct wring_peer *peer, size_t bytes)
{
    channel->owner->runnable = true;
    if (wring_channel_is_foreign(channel, member))
        wring_op_check_suspect(channel->owner->calls, engine->fabric->tick_ns);
    wring_collective_trace_arrived(channel->owner, peer->rank, bytes);
}

static void on_pool_piece(struct wring_engine *engine, struct wring_peer *peer, uint32_t imm,
                          size_t bytes)
{
    uint32_t member;
    struct wring_channel *channel = wring_pool_arrived(engine->pool, peer, imm, bytes, &member);
    if (channel != NULL)
        note_piece_arrived(engine, channel, member, peer, bytes);
}

static void on_arrived(void *arg, struct wring_peer *peer, uint32_t imm, size_t bytes)
{
    struct wring_engine *engine = arg;
    if (wring_imm_channel(imm) == WRING_MESSAGE_CHANNEL && engine->messenger != NULL) {
        wring_messenger_arrived(engine->messenger, peer, imm, bytes);
        return;
    }
    if (wring_imm_channel(imm) >= WRING_POOL_ID && engine->pool != NULL) {
        on_pool_piece(engine, peer, imm, bytes);
        return;
    }
    struct wring_channel *channel = find_channel(engine, wring_imm_channel(imm));
    uint32_t member =
        channel != NULL ? wring_members_find(&channel->members, peer->rank) : UINT32_MAX;

    if (channel == NULL && wring_imm_channel(imm) < engine->known_ids)
        return; /* of a group that is gone */
    if (channel == NULL || member == channel->members.n ||
        wring_channel_arrived(channel, member, imm, bytes) != WRING_OK) {
        wring_fabric_fail(engine->fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                          "rank %" PRIu32
                          " sent %zu bytes that belong nowhere (immediate 0x%08" PRIx32 ")",
                          peer->rank, bytes, imm);
        return;
    }
    note_piece_arrived(engine, channel, member, peer, bytes);
}

static void on_put_done(void *arg, struct wring_peer *peer, uint64_t cookie)
{
    struct wring_engine *engine = arg;
    engine->kick = true;
    if ((cookie & WRING_MESSAGE_COOKIE) != 0) {
        wring_messenger_put_done(engine->messenger, peer, cookie);
        return;
    }
    struct wring_task *task = (struct wring_task *)(uintptr_t)cookie;

    wring_put_window_done(&peer->window, task->piece_bytes);
    wring_collective_put_done(task);
}

static void on_credit(void *arg, struct wring_peer *peer, uint32_t id, uint32_t generation,
                      uint32_t sequence)
{
    struct wring_engine *engine = arg;
    bool pooled = id >= WRING_POOL_ID; /* then the generation is a count of small pieces */
    enum wring_status status = !pooled ? WRING_OK
                               : engine->pool == NULL
                                   ? WRING_ERR_FRAME
                                   : wring_pool_credit(engine->pool, peer, generation);
    struct wring_channel *channel = find_channel_named(engine, id, pooled ? 0 : generation);
    engine->kick |= pooled;
    if (channel == NULL && status == WRING_OK)
        return;

    uint32_t member =
        channel != NULL ? wring_members_find(&channel->members, peer->rank) : UINT32_MAX;
    if (status != WRING_OK || member == channel->members.n ||
        wring_channel_credit(channel, member, sequence) != WRING_OK) {
        wring_fabric_fail(engine->fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                          "rank %" PRIu32 " returned credits that it was not given", peer->rank);
        return;
    }
    channel->owner->runnable = true;
}

/** A member of a group says what it calls. */
static void on_call(void *arg, struct wring_peer *peer, uint32_t id, uint32_t generation,
                    uint32_t number, const char *text)
{
    struct wring_engine *engine = arg;
    struct wring_channel *channel = find_channel_named(engine, id, generation);
    if (channel == NULL)
        return;

    uint32_t member = wring_members_find(&channel->members, peer->rank);
    if (member == channel->members.n || channel->owner->calls == NULL) {
        wring_fabric_fail(engine->fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                          "rank %" PRIu32 " speaks of calls in a group that it is not in",
                          peer->rank);
        return;
    }
    wring_op_check_heard(channel->owner, member, number, text);
}

/**
 * A member says where it stands in a step: of a bucket, named by its id, too, so that what is told
 * of channels and their generations, which may be the fault, is not what finds it.
 */
static void on_standstill(void *arg, struct wring_peer *peer, uint32_t id, uint32_t bucket,
                          uint32_t step, const char *text)
{
    struct wring_engine *engine = arg;
    struct wring_channel *channel = find_channel(engine, id);
    if (channel == NULL || channel->owner->bucket != bucket)
        return; /* of before the last commit */

    uint32_t member = wring_members_find(&channel->members, peer->rank);
    if (member != channel->members.n)
        wring_standstill_heard(channel->owner, member, step, text);
}

static void on_ring(void *arg, struct wring_peer *peer, const void *data, size_t bytes)
{
    struct wring_engine *engine = arg;
    if (engine->messenger != NULL)
        wring_messenger_heard(engine->messenger, peer, data, bytes);
}

/** Groups that form, pairs of their members, and what is in the way of their pieces. */
static void on_group(void *arg, struct wring_peer *peer, const struct wring_control *control)
{
    struct wring_engine *engine = arg;

    if (control->kind == WRING_CONTROL_FORM)
        wring_formations_heard(&engine->formations, peer, control);
    else if (control->kind == WRING_CONTROL_CEASE)
        wring_pairs_heard_cease(engine, peer, control);
    else if (control->kind != WRING_CONTROL_PAIR && engine->pool != NULL)
        wring_pool_heard(engine->pool, peer, control);
    else if (control->kind == WRING_CONTROL_PAIR)
        wring_pairs_heard(engine, peer, control);
}

static void on_flight(void *arg, uint32_t from, const struct wring_control *control)
{
    wring_flight_heard(arg, from, control);
}

static void on_member(void *arg, uint32_t from, const struct wring_control *control)
{
    wring_membership_heard(arg, from, control);
}

static void on_failing(void *arg)
{
    wring_flight_failing(arg);
}

static void on_lost(void *arg, uint32_t rank)
{
    wring_flight_lost(arg, rank);
}

static bool on_account(void *arg)
{
    return wring_flight_account(arg);
}

struct wring_fabric_handler wring_engine_handler(struct wring_engine *engine)
{
    return (struct wring_fabric_handler){
        engine,   on_arrived, on_put_done, on_credit, on_call,    on_standstill, on_ring,
        on_group, on_flight,  on_failing,  on_lost,   on_account, on_member};
}
