/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/pairs.h"

#include <inttypes.h>
#include <stdlib.h>

#include "transport/boards.h"
#include "transport/collective/shm_flags.h"
#include "transport/fabric_connect.h"
#include "transport/slot_pool.h"

#define FIRST_ROOM 4 /* boards of the first block; each next one has four times as many, up to */
#define MOST_ROOM 256

static enum wring_status add_board_block(struct wring_boards *boards, struct wring_fabric *fabric,
                                         size_t bytes)
{
    struct wring_board_block *block = calloc(1, sizeof(*block));
    if (block == NULL)
        return WRING_ERR_NO_MEMORY;
    block->bytes = bytes;
    block->room = FIRST_ROOM;
    for (uint32_t i = 0; i < boards->grown && block->room < MOST_ROOM; i++)
        block->room *= 4;
    enum wring_status status = wring_block_alloc(fabric, block->room * bytes, &block->block);
    if (status != WRING_OK) {
        free(block);
        return status;
    }
    block->next = boards->newest;
    boards->newest = block;
    boards->grown++;
    return WRING_OK;
}

/** A zeroed board of so many bytes. Errors: WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM, the providers'.
 */
static enum wring_status boards_take(struct wring_boards *boards, struct wring_fabric *fabric,
                                     size_t bytes, struct wring_board_lease *out)
{
    size_t stride = (bytes + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
    struct wring_board_block *block = boards->newest;

    if (block == NULL || block->used == block->room || block->bytes != stride) {
        enum wring_status status = add_board_block(boards, fabric, stride);
        if (status != WRING_OK)
            return status;
        block = boards->newest;
    }
    *out = (struct wring_board_lease){block, block->used++ * stride};
    block->live++;
    return WRING_OK;
}

static void free_block(struct wring_board_block *block)
{
    wring_block_finish(&block->block);
    free(block);
}

/** Nothing of it is in use, nor will be: all of its places were given out. */
static bool is_block_used_up(const struct wring_board_block *block)
{
    return block->live == 0 && block->used == block->room;
}

/** Its group is gone. Zeroed is fine. */
static void boards_give(struct wring_boards *boards, struct wring_board_lease *lease)
{
    struct wring_board_block **at = &boards->newest, *block = lease->home;

    *lease = (struct wring_board_lease){0};
    if (block == NULL)
        return;
    block->live--;
    if (!is_block_used_up(block))
        return;
    while (*at != block)
        at = &(*at)->next;
    *at = block->next;
    free_block(block);
}

void wring_boards_finish(struct wring_boards *boards)
{
    while (boards->newest != NULL) {
        struct wring_board_block *block = boards->newest;
        boards->newest = block->next;
        free_block(block);
    }
}

/* ---- pairs ---- */

#define QUIET_BYTES (sizeof(struct wring_group_key) + sizeof(uint64_t))
#define ANSWERS_MAX 4096 /* far more than anybody has groups that end at the same time */

/** To a member that aborted a group which is gone here: there was no room for it so far. */
struct wring_pairs_answer {
    struct wring_pairs_answer *next;
    struct wring_peer *peer;
    struct wring_group_key key;
    uint64_t generation;
};

/** One other member. */
struct wring_pair {
    bool told;                   /* it knows our slots, */
    bool heard;                  /* and we know its own */
    bool owes;                   /* it is to be told, and there was no room */
    bool owes_cease;             /* likewise, that we have aborted the group, */
    bool owes_quiet;             /* or that nothing of ours is under way any more in it */
    bool quiet;                  /* it has said that of itself, … */
    uint64_t puts;               /* … but for its puts up to this one */
    struct wring_control *early; /* what it told before the group had formed here; */
    uint64_t ceased;             /* the generation that it then said was aborted, … */
    uint32_t ceased_by;          /* … by this rank, */
    bool asked;                  /* and whether it awaits our word of that */
};

static struct wring_peer *peer_of(const struct wring_pairs *pairs, uint32_t member)
{
    return wring_fabric_peer(pairs->engine->fabric, pairs->collective->members.ranks[member]);
}

static enum wring_status want_pair(struct wring_pairs *pairs, uint32_t member);

size_t wring_pairs_state_bytes(uint32_t members)
{
    return members * sizeof(struct wring_pair);
}

enum wring_status wring_pairs_add(struct wring_pairs *pairs)
{
    struct wring_engine *engine = pairs->engine;

    pairs->want = want_pair;
    pairs->pair = calloc(pairs->collective->members.n, sizeof(*pairs->pair));
    if (pairs->pair == NULL)
        return WRING_ERR_NO_MEMORY;
    pairs->next = engine->pairs;
    engine->pairs = pairs;
    wring_channel_unpair(pairs->collective->scatter, pairs);
    wring_channel_unpair(pairs->collective->gather, pairs);
    return WRING_OK;
}

static void forget_cease(struct wring_pairs *pairs, uint32_t member);

void wring_pairs_finish(struct wring_pairs *pairs)
{
    if (pairs->pair == NULL)
        return;
    struct wring_pairs **at = &pairs->engine->pairs;
    while (*at != pairs)
        at = &(*at)->next;
    *at = pairs->next;
    for (uint32_t i = 0; i < pairs->collective->members.n; i++) {
        if (pairs->generation == 0 && pairs->pair[i].ceased != 0)
            forget_cease(pairs, i); /* it never forms */
        free(pairs->pair[i].early);
    }
    free(pairs->pair);
    pairs->pair = NULL;
    wring_imports_finish(&pairs->imports);
    boards_give(&pairs->engine->pool->boards, &pairs->board);
}

/* ---- what others look at ---- */

/** Our board, with the first pair. */
static enum wring_status make_board(struct wring_pairs *pairs)
{
    struct wring_collective *collective = pairs->collective;

    struct wring_board_lease *lease = &pairs->board;

    if (!pairs->boards || lease->home != NULL)
        return WRING_OK;
    enum wring_status status = boards_take(&pairs->engine->pool->boards, pairs->engine->fabric,
                                           wring_shm_flags_memory(pairs->board_room), lease);
    if (status != WRING_OK)
        return status;
    status = wring_shm_flags_create(collective->members, pairs->board_room,
                                    (uint8_t *)lease->home->block.memory.base + lease->offset,
                                    &collective->shm_flags);
    if (status == WRING_OK)
        pairs->made_board(pairs);
    return status;
}

static void fail_pair(struct wring_pairs *pairs, uint32_t member, enum wring_status status)
{
    struct wring_fabric *fabric = pairs->engine->fabric;
    uint32_t rank = peer_of(pairs, member)->rank;
    bool ours = status == WRING_ERR_NO_MEMORY || status == WRING_ERR_SYSTEM;

    wring_fabric_fail(fabric, status, (int32_t)(ours ? fabric->rank : rank),
                      "rank %" PRIu32 " cannot exchange with rank %" PRIu32 " in a group: %s",
                      fabric->rank, rank, wring_status_text(status));
}

/* ---- telling ---- */

static struct wring_region *board_region(const struct wring_pairs *pairs,
                                         const struct wring_peer *peer)
{
    return pairs->board.home != NULL ? pairs->board.home->block.regions[peer->device] : NULL;
}

static void write_body(const struct wring_pairs *pairs, uint32_t member,
                       struct wring_control *control)
{
    struct wring_region *region = board_region(pairs, peer_of(pairs, member));
    uint8_t *body = control->body;
    size_t bytes = 0;

    memcpy(body, pairs->key.bytes, sizeof(pairs->key.bytes));
    wring_put_u64(body + 16, pairs->generation);
    wring_put_u64(body + 24, pairs->board.offset);
    if (region != NULL)
        bytes = region->provider->ops->region_export(region, body + 36);
    wring_put_u32(body + 32, (uint32_t)bytes);
    control->bytes = 36 + (uint32_t)bytes;
}

/** Make the parts that the pair needs, and tell the peer of those that it has to know first. */
static enum wring_status prepare_pair(struct wring_pairs *pairs, struct wring_peer *peer)
{
    struct wring_pool_link *link;
    enum wring_status status = make_board(pairs);

    if (status == WRING_OK && pairs->boards && board_region(pairs, peer) == NULL)
        status = WRING_ERR_UNSUPPORTED;
    if (status == WRING_OK)
        status = wring_pool_reach(pairs->engine->pool, peer, &link);
    return status == WRING_OK ? wring_pool_tell(link) : status;
}

/** @return WRING_ERR_AGAIN: not yet */
static enum wring_status tell_member(struct wring_pairs *pairs, uint32_t member)
{
    struct wring_control control = {.kind = WRING_CONTROL_PAIR,
                                    .a = pairs->collective->scatter->name.id,
                                    .b = pairs->collective->gather->name.id};
    struct wring_peer *peer = peer_of(pairs, member);
    struct wring_pair *pair = &pairs->pair[member];

    if (peer->state != WRING_PEER_READY) /* only then is it known which device leads to it */
        return wring_connect_dial(pairs->engine->fabric, peer);
    enum wring_status status = prepare_pair(pairs, peer);
    if (status == WRING_OK) {
        write_body(pairs, member, &control);
        status = wring_control_send(peer, &control);
    } else if (status != WRING_ERR_AGAIN && status != WRING_ERR_CLOSED) {
        fail_pair(pairs, member, status);
        return status;
    }
    pair->told = status == WRING_OK;
    pair->owes = status == WRING_ERR_AGAIN;
    pairs->owes |= pair->owes;
    pairs->engine->owes_pairs |= pair->owes;
    return status;
}

static enum wring_status want_pair(struct wring_pairs *pairs, uint32_t member)
{
    struct wring_pair *pair = &pairs->pair[member];
    if (pair->told)
        return peer_of(pairs, member)->state == WRING_PEER_READY ? WRING_ERR_AGAIN
                                                                 : WRING_ERR_CLOSED;
    enum wring_status status = tell_member(pairs, member);
    return status == WRING_OK ? WRING_ERR_AGAIN : status;
}

/** A member that was lost needs to hear nothing. @return whether it is to be told again */
static bool send_cease(struct wring_fabric *fabric, struct wring_peer *peer,
                       struct wring_control *control, const struct wring_group_key *key,
                       uint64_t generation)
{
    control->kind = WRING_CONTROL_CEASE;
    control->a = (uint32_t)generation;
    control->b = (uint32_t)(generation >> 32);
    memcpy(control->body, key->bytes, sizeof(key->bytes));
    return wring_control_deliver(fabric, peer, control) == WRING_ERR_AGAIN;
}

static void tell_aborted(struct wring_pairs *pairs, uint32_t member)
{
    struct wring_control control = {.bytes = sizeof(pairs->key.bytes)};
    bool owes = send_cease(pairs->engine->fabric, peer_of(pairs, member), &control, &pairs->key,
                           pairs->generation);
    pairs->pair[member].owes_cease = owes;
    pairs->owes |= owes;
    pairs->engine->owes_pairs |= owes;
}

/** Nothing of ours writes any more but puts, of which so many have been made to that member. */
static bool tell_quiet_to(struct wring_fabric *fabric, struct wring_peer *peer,
                          const struct wring_group_key *key, uint64_t generation,
                          uint32_t aborted_by)
{
    struct wring_control control = {.c = aborted_by + 1, .bytes = QUIET_BYTES};
    wring_put_u64(control.body + sizeof(key->bytes), peer->puts);
    return send_cease(fabric, peer, &control, key, generation);
}

static bool is_answer_kept(const struct wring_engine *engine,
                           const struct wring_pairs_answer *answer)
{
    const struct wring_pairs_answer *at = engine->answers;
    while (at != NULL && (at->peer != answer->peer || at->generation != answer->generation ||
                          !wring_group_key_equal(&at->key, &answer->key)))
        at = at->next;
    return at != NULL;
}

static void keep_answer(struct wring_engine *engine, const struct wring_pairs_answer *answer)
{
    struct wring_pairs_answer *kept = NULL;

    engine->owes_pairs = true;
    if (is_answer_kept(engine, answer))
        return;
    if (engine->n_answers < ANSWERS_MAX)
        kept = malloc(sizeof(*kept));
    if (kept == NULL) {
        wring_fabric_fail(engine->fabric, WRING_ERR_NO_MEMORY, (int32_t)answer->peer->rank,
                          "rank %" PRIu32 " takes no word of groups that it aborted, and there is "
                          "no room to keep more of it",
                          answer->peer->rank);
        return;
    }
    *kept = *answer;
    kept->next = engine->answers;
    engine->answers = kept;
    engine->n_answers++;
}

/** Of a group that is not here: nothing of it writes. */
static void answer_absent_group(struct wring_engine *engine, struct wring_peer *peer,
                                const struct wring_group_key *key, uint64_t generation)
{
    if (tell_quiet_to(engine->fabric, peer, key, generation, peer->rank))
        keep_answer(engine, &(struct wring_pairs_answer){NULL, peer, *key, generation});
}

/** Once more, those that there was no room for. */
static void resend_answers(struct wring_engine *engine)
{
    struct wring_pairs_answer *answers = engine->answers;

    engine->answers = NULL;
    engine->n_answers = 0;
    while (answers != NULL) {
        struct wring_pairs_answer *at = answers;
        answers = at->next;
        if (engine->fabric->state == WRING_FABRIC_WORKING)
            answer_absent_group(engine, at->peer, &at->key, at->generation);
        free(at);
    }
}

void wring_pairs_forget(struct wring_engine *engine)
{
    while (engine->answers != NULL) {
        struct wring_pairs_answer *at = engine->answers;
        engine->answers = at->next;
        free(at);
    }
    engine->n_answers = 0;
}

static void tell_quiet_to_all(struct wring_pairs *pairs)
{
    struct wring_fabric *fabric = pairs->engine->fabric;

    pairs->engine->owes_pairs = true; /* unless all are told */
    if (wring_engine_writes(pairs->engine, pairs->cease))
        return;
    pairs->owes_quiet = false;
    for (uint32_t i = 0; i < pairs->collective->members.n; i++) {
        struct wring_pair *pair = &pairs->pair[i];
        if (pair->owes_quiet)
            pair->owes_quiet = tell_quiet_to(fabric, peer_of(pairs, i), &pairs->key,
                                             pairs->generation, pairs->aborted_by);
        pair->owes_cease &= pair->owes_quiet; /* the one says the other */
        pairs->owes_quiet |= pair->owes_quiet;
    }
}

void wring_pairs_cease(struct wring_pairs *pairs, uint32_t rank)
{
    const struct wring_members *members = &pairs->collective->members;

    pairs->aborted_by = rank;
    for (uint32_t i = 0; i < members->n; i++) {
        if (i == members->me)
            continue;
        if (rank == members->ranks[members->me])
            tell_aborted(pairs, i);
        pairs->pair[i].owes_quiet = true;
    }
    pairs->owes_quiet = true;
    tell_quiet_to_all(pairs);
}

/** It closes its session, or has: nothing of it is under way. */
static bool is_peer_gone(const struct wring_peer *peer)
{
    return peer->state == WRING_PEER_GONE || (peer->state == WRING_PEER_NONE && peer->left);
}

bool wring_pairs_are_quiet(const struct wring_pairs *pairs, uint32_t revoked)
{
    for (uint32_t i = 0; i < pairs->collective->members.n; i++) {
        const struct wring_pair *pair = &pairs->pair[i];
        const struct wring_peer *peer = peer_of(pairs, i);
        if (i != pairs->collective->members.me && !is_peer_gone(peer) &&
            (revoked >> peer->device & 1) == 0 && (!pair->quiet || peer->arrivals < pair->puts))
            return false;
    }
    return true;
}

bool wring_pairs_have_ceased(const struct wring_pairs *pairs)
{
    return !pairs->owes_quiet && !pairs->owes && wring_pairs_are_quiet(pairs, 0);
}

void wring_pairs_poll(struct wring_engine *engine)
{
    engine->owes_pairs = false;
    resend_answers(engine);
    for (struct wring_pairs *at = engine->pairs; at != NULL; at = at->next) {
        if (at->owes_quiet && engine->fabric->state == WRING_FABRIC_WORKING)
            tell_quiet_to_all(at);
        if (!at->owes)
            continue;
        at->owes = false;
        for (uint32_t i = 0; i < at->collective->members.n; i++)
            if (at->pair[i].owes && engine->fabric->state == WRING_FABRIC_WORKING)
                tell_member(at, i);
        for (uint32_t i = 0; i < at->collective->members.n; i++)
            if (at->pair[i].owes_cease && engine->fabric->state == WRING_FABRIC_WORKING)
                tell_aborted(at, i);
    }
}

/* ---- hearing ---- */

/** A member's words about itself. */
struct words {
    struct wring_group_key key;
    uint64_t generation;
    struct wring_channel_name scatter, gather;
    uint64_t offset; /* of its board in the region; no bytes: it has none */
    const void *region;
    uint32_t region_bytes;
};

static bool read_words(const struct wring_control *control, struct words *out)
{
    struct wring_reader in = {control->body, control->bytes, false};
    const void *key = wring_read(&in, sizeof(out->key.bytes));

    out->generation = wring_read_u64(&in);
    out->scatter = (struct wring_channel_name){control->a, 0};
    out->gather = (struct wring_channel_name){control->b, 0};
    out->offset = wring_read_u64(&in);
    out->region_bytes = wring_read_u32(&in);
    out->region = wring_read(&in, out->region_bytes);
    if (in.failed || in.bytes > 0 || key == NULL || out->generation == 0 ||
        control->a < WRING_POOL_ID || control->a >= WRING_POOL_CHANNEL ||
        control->b < WRING_POOL_ID || control->b >= WRING_POOL_CHANNEL)
        return false;
    memcpy(out->key.bytes, key, sizeof(out->key.bytes));
    return true;
}

static void set_channel_out(struct wring_channel *channel, uint32_t member,
                            struct wring_pool_link *link, struct wring_channel_name name)
{
    struct wring_channel_out *out = wring_channel_out(channel, member);
    out->link = link;
    out->name = name;
    channel->owes_credits = channel->fabric->owes_credits = true;
}

static enum wring_status connect_board(struct wring_pairs *pairs, uint32_t member,
                                       const struct words *words)
{
    struct wring_remote *remote;
    enum wring_status status = make_board(pairs);

    if (status == WRING_OK)
        status = wring_imports_add_key(&pairs->imports, peer_of(pairs, member), words->region,
                                       words->region_bytes, &remote);
    if (status == WRING_OK)
        status =
            wring_shm_flags_connect(pairs->collective->shm_flags, member, remote, words->offset);
    return status;
}

static enum wring_status connect_pair(struct wring_pairs *pairs, uint32_t member,
                                      const struct words *words)
{
    struct wring_collective *collective = pairs->collective;
    struct wring_pool_link *link = pairs->engine->pool->links[peer_of(pairs, member)->rank];
    enum wring_status status = WRING_OK;

    if (link == NULL || !link->heard || pairs->boards != (words->region_bytes > 0))
        return WRING_ERR_FRAME;
    if (pairs->boards)
        status = connect_board(pairs, member, words);
    if (status != WRING_OK)
        return status;
    set_channel_out(collective->scatter, member, link, words->scatter);
    set_channel_out(collective->gather, member, link, words->gather);
    pairs->pair[member].heard = true;
    collective->runnable = true;
    pairs->engine->kick = true;
    return WRING_OK;
}

static void hear_words(struct wring_pairs *pairs, uint32_t member, const struct words *words)
{
    struct wring_pair *pair = &pairs->pair[member];
    enum wring_status status = connect_pair(pairs, member, words);

    if (status == WRING_ERR_CLOSED)
        return; /* it has destroyed its group in the meantime */
    if (status != WRING_OK)
        fail_pair(pairs, member, status);
    else if (!pair->told)
        tell_member(pairs, member);
}

/** One that is still forming has no generation that could differ. */
static struct wring_pairs *find_pairs(const struct wring_engine *engine, const struct words *words)
{
    struct wring_pairs *forming = NULL;
    for (struct wring_pairs *at = engine->pairs; at != NULL; at = at->next) {
        if (!wring_group_key_equal(&at->key, &words->key))
            continue;
        if (at->generation == words->generation)
            return at;
        if (at->generation == 0)
            forming = at;
    }
    return forming;
}

static void keep_early_words(struct wring_pairs *pairs, uint32_t member,
                             const struct wring_control *control)
{
    struct wring_control **early = &pairs->pair[member].early;

    if (*early == NULL)
        *early = malloc(sizeof(**early));
    if (*early == NULL)
        fail_pair(pairs, member, WRING_ERR_NO_MEMORY);
    else
        **early = *control;
}

void wring_pairs_heard(struct wring_engine *engine, struct wring_peer *peer,
                       const struct wring_control *control)
{
    struct words words;
    bool sound = read_words(control, &words);
    struct wring_pairs *pairs = sound ? find_pairs(engine, &words) : NULL;

    if (sound && pairs == NULL)
        return; /* of a group that is gone */
    uint32_t member =
        sound ? wring_members_find(&pairs->collective->members, peer->rank) : UINT32_MAX;
    if (!sound || member == pairs->collective->members.n || pairs->pair[member].heard) {
        wring_fabric_fail(engine->fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                          "rank %" PRIu32 " sent a malformed word of its channels in a group",
                          peer->rank);
        return;
    }
    if (pairs->generation == 0)
        keep_early_words(pairs, member, control);
    else
        hear_words(pairs, member, &words);
}

/** A member's early words were about another group of that key: forget them. */
static void forget_cease(struct wring_pairs *pairs, uint32_t member)
{
    struct wring_pair *pair = &pairs->pair[member];

    if (pair->asked && pairs->engine->fabric->state == WRING_FABRIC_WORKING)
        answer_absent_group(pairs->engine, peer_of(pairs, member), &pairs->key, pair->ceased);
    pair->quiet = pair->asked = false;
    pair->ceased = pair->puts = 0;
}

/** The group has not formed here, so it may be another one of that key. */
static void keep_cease(struct wring_pairs *pairs, uint32_t member, uint64_t generation,
                       uint32_t aborted_by)
{
    struct wring_pair *pair = &pairs->pair[member];

    if (pair->ceased != 0 && pair->ceased != generation)
        forget_cease(pairs, member);
    pair->ceased = generation;
    pair->ceased_by = aborted_by;
}

void wring_pairs_heard_cease(struct wring_engine *engine, struct wring_peer *peer,
                             const struct wring_control *control)
{
    struct words words = {.generation = control->a | (uint64_t)control->b << 32};
    bool quiet = control->c > 0;
    bool sound = control->bytes == (quiet ? QUIET_BYTES : sizeof(words.key.bytes)) &&
                 words.generation > 0 && control->c <= engine->fabric->size;
    if (sound)
        memcpy(words.key.bytes, control->body, sizeof(words.key.bytes));
    struct wring_pairs *pairs = sound ? find_pairs(engine, &words) : NULL;

    if (sound && pairs == NULL) { /* of a group that is gone */
        if (!quiet)
            answer_absent_group(engine, peer, &words.key, words.generation);
        return;
    }
    uint32_t member =
        sound ? wring_members_find(&pairs->collective->members, peer->rank) : UINT32_MAX;
    if (!sound || member == pairs->collective->members.n) {
        wring_fabric_fail(engine->fabric, WRING_ERR_FRAME, (int32_t)peer->rank,
                          "rank %" PRIu32 " sent a malformed word of a group that it aborted",
                          peer->rank);
        return;
    }
    struct wring_pair *pair = &pairs->pair[member];
    uint32_t aborted_by = quiet ? control->c - 1 : peer->rank;
    if (pairs->generation == 0)
        keep_cease(pairs, member, words.generation, aborted_by);
    if (quiet) {
        pair->quiet = true;
        pair->puts = wring_get_u64(control->body + sizeof(words.key.bytes));
    }
    pair->asked |= !quiet;
    if (pairs->generation > 0)
        pairs->ceased(pairs, aborted_by);
}

static void take_early_ceases(struct wring_pairs *pairs)
{
    for (uint32_t i = 0; i < pairs->collective->members.n; i++) {
        const struct wring_pair *pair = &pairs->pair[i];
        if (pair->ceased == pairs->generation)
            pairs->ceased(pairs, pair->ceased_by);
        else if (pair->ceased != 0)
            forget_cease(pairs, i);
    }
}

void wring_pairs_formed(struct wring_pairs *pairs, uint64_t generation, bool boards)
{
    pairs->generation = generation;
    pairs->boards = boards;
    for (uint32_t i = 0; i < pairs->collective->members.n; i++) {
        struct wring_control *early = pairs->pair[i].early;
        struct words words;
        if (early == NULL) /* as of most: their entries are not touched */
            continue;
        pairs->pair[i].early = NULL;
        if (pairs->engine->fabric->state == WRING_FABRIC_WORKING && read_words(early, &words) &&
            words.generation == generation)
            hear_words(pairs, i, &words);
        free(early);
    }
    take_early_ceases(pairs);
}

void wring_pairs_given_up(void *arg, struct wring_peer *peer, const struct wring_group_key *key)
{
    struct wring_engine *engine = arg;
    struct wring_pairs *latest = NULL;

    for (struct wring_pairs *at = engine->pairs; at != NULL; at = at->next)
        if (wring_group_key_equal(&at->key, key) && at->generation > 0 &&
            (latest == NULL || at->generation > latest->generation))
            latest = at;
    if (latest != NULL)
        atomic_store_explicit(&latest->given_up, peer->rank + 1, memory_order_relaxed);
}
