/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Where a rank receives the pieces of its groups' immediate calls: memory of the session, which no
 * group owns. Two ranks tell each other of it once, before the first piece of the first group that
 * both are in (pool_link.h).
 *
 * Small pieces (WRING_POOL_SMALL) go into a *ring* of 8 places that each rank has for every other
 * one it exchanges with (transport/pool_link.h). The k-th small piece of a connection, of any
 * group, lies in place k mod 8. This is not the ring of messages (message/inside.h), for three
 * reasons. A record there has a head in front of its data, so each piece would be copied once more
 * before it is put. Collectives have credits of their own, and may not wait behind sends that no
 * receive takes. And records have to leave their ring at once, whereas a piece is reduced where it
 * lies.
 *
 * Larger pieces are asked for: the sender has the piece ready and says how long it is (ASK), and
 * the receiver names one of the session's WRING_POOL_SLOTS slots (GRANT), once the operation is
 * under way here, too. Waiting senders are served in the order of priority, then of how many of
 * their own pieces come first, then of member index. The last quarter of the slots is for pieces
 * that their operations need next. A sender whose operation was aborted meanwhile gives the slot
 * back (SPARE).
 *
 * An ask costs a round trip. So the first grant to a peer lends it up to 8 slots for good (LEND):
 * it uses them in turn, as those of the ring, for large pieces of any group, and asks only where
 * they are all in use. Three quarters of the slots may be lent, to each next peer a quarter of
 * those that are left.
 *
 * Why nothing stands still: a slot that is not lent is granted only for a piece that its sender has
 * ready, so it is filled, and a filled one never stays for want of others. Where asks wait and
 * nothing else moves, pieces that wait for those of other members are moved out of their slots,
 * into memory of their own (`moved`), and reduced from there in their order. Then even a piece that
 * is not needed next gets a slot: its sender works on so many pieces at a time and no more, and the
 * one that is needed may not be among them. So each operation that
 * is under way at both ends always gets a slot in the end, with any number of slots, and with
 * operations begun in any order. The operation receives the moved pieces anyway: at most its window
 * of them from each member. The same goes for rings: if one has more than four small pieces, the
 * oldest are moved out, so that a ring never waits for a call that is not made here yet. Lent slots
 * may wait for one: a sender that finds them in use asks.
 *
 * A channel of a group has an id of its own kind (WRING_POOL_ID), which is not used again before
 * 2^17 others have been: a piece that comes late for a group that is gone finds no channel; it is
 * counted like all others, and dropped.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_SLOT_POOL_H
#define WRING_TRANSPORT_SLOT_POOL_H

#include "transport/boards.h"
#include "transport/channel.h"
#include "transport/control.h"
#include "transport/pool_link.h"

/*
 * The session's slots for large pieces of groups, at the receiver: asks for slots, their order, and
 * the pieces in them.
 *
 * Used by the thread that makes progress.
 */

#define WRING_POOL_SLOTS_MAX (1u << WRING_SEQUENCE_BITS)

struct wring_pool;
struct wring_pool_link;

enum wring_pool_slot_state {
    WRING_POOL_FREE,
    WRING_POOL_OWED,    /* the grant could not be said yet */
    WRING_POOL_GRANTED, /* the piece is on its way */
    WRING_POOL_FULL,
    WRING_POOL_LENT, /* its link's */
};

struct wring_pool_slot {
    enum wring_pool_slot_state state;
    struct wring_pool_link *link;  /* that it is granted to */
    struct wring_channel *channel; /* NULL: of a group that is gone */
    struct wring_slot *piece;
    uint32_t member, sequence, bytes;
    uint32_t next_free; /* + 1; 0: none */
};

/** A piece that a member has ready, and for which it has no slot. */
struct wring_pool_ask {
    struct wring_pool_ask *next;
    struct wring_channel *channel;
    struct wring_slot *piece;
    uint32_t member, sequence;
};

struct wring_pool_slots {
    struct wring_block block;     /* all of them; made with the first link */
    struct wring_pool_slot *slot; /* [n] */
    uint32_t n, n_free, first_free;
    uint32_t shared;   /* of those that are lent to nobody */
    uint32_t lendable; /* so many more may be lent */
    size_t bytes;      /* of one */
    struct wring_pool_ask *asks, *free_asks;
    uint64_t asked;   /* so many pieces so far */
    uint32_t starved; /* polls in a row in which somebody waited for a slot */
    uint32_t n_owed;  /* grants that could not be said */
};

/** Slots for a peer that need not ask from now on: fewer, the fewer are left. @param numbers
 *  [WRING_POOL_RING] out @return how many */
uint32_t wring_pool_slots_lend(struct wring_pool_slots *slots, uint16_t *numbers);

#define WRING_POOL_ID (1u << 17) /* set in the ids of groups' channels */
#define WRING_POOL_CHANNEL                                                    \
    (WRING_CHANNELS_MAX - 1) /* the id in immediates of granted slots, and in \
                                credits of links alone */
#define WRING_POOL_RING_BLOCKS 16

struct wring_cease;
struct wring_collective;
struct wring_engine;

struct wring_pool {
    struct wring_engine *engine;
    uint32_t ranks;
    struct wring_pool_link **links; /* [ranks]; NULL: nothing was ever exchanged */
    struct wring_pool_slots slots;
    uint64_t moved; /* pieces, out of slots and rings */
    bool owes;      /* some link has something to say */

    struct wring_block
        *ring_blocks[WRING_POOL_RING_BLOCKS]; /* of links' rings; several share one */
    uint32_t n_ring_blocks, rings_left;

    struct wring_boards boards;

    struct wring_channel **channels; /* [n_channels], by id modulo that, a power of two */
    uint32_t n_channels, n_used, next_id;
    bool wrapped; /* all ids have been some channel's */
};

/** Errors: WRING_ERR_NO_MEMORY. The engine has its fabric. @param slot_bytes  of a large piece */
enum wring_status wring_pool_create(struct wring_engine *engine, size_t slot_bytes,
                                    struct wring_pool **out);

/** NULL is fine. All channels are gone, the fabric is not. */
void wring_pool_destroy(struct wring_pool *pool);

/** A group's channel, made without memory, is pooled and tagged from now on, and has its name.
 *  Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_pool_add(struct wring_pool *pool, struct wring_channel *channel);

/** Pieces for it are dropped from now on. */
void wring_pool_remove(struct wring_pool *pool, struct wring_channel *channel);

/** The channel with that id; NULL: it is gone, or never was. */
struct wring_channel *wring_pool_find(const struct wring_pool *pool, uint32_t id);

/** A group has been aborted: slots that its channels do not need go back. */
void wring_pool_cease(struct wring_pool *pool, const struct wring_cease *cease);

/** And no job of that one reads the pieces any more that it had taken. */
void wring_pool_ended(const struct wring_collective *collective);

/** As wring_engine_is_quiet(). */
bool wring_pool_is_quiet(const struct wring_pool *pool, const struct wring_cease *cease);

/** Put a piece of a group's channel. Errors: WRING_ERR_AGAIN (no room, or no grant yet), those of
 *  wring_fabric_put(). */
enum wring_status wring_pool_put(struct wring_channel *channel, uint32_t member, uint32_t sequence,
                                 struct wring_region *region, const void *local, size_t bytes,
                                 uint64_t cookie);

/**
 * A put came in whose immediate has an id of ours.
 * @param member  out
 * @return the channel whose piece it is; NULL: of none that is there, or the peer broke a rule, and
 * the job has failed
 */
struct wring_channel *wring_pool_arrived(struct wring_pool *pool, struct wring_peer *peer,
                                         uint32_t imm, size_t bytes, uint32_t *member);

/** A peer has so many pieces of ours behind it. Errors: WRING_ERR_FRAME. */
enum wring_status wring_pool_credit(struct wring_pool *pool, const struct wring_peer *peer,
                                    uint32_t consumed);

/** Control messages of the kinds LINK, ASK, GRANT and SPARE. They may fail the job. */
void wring_pool_heard(struct wring_pool *pool, struct wring_peer *peer,
                      const struct wring_control *control);

/** Return what channels owe. */
void wring_pool_return_owed(struct wring_pool *pool);

/** Grant, and say what could not be said; where engine->owes_pool. @return whether anything moved
 */
bool wring_pool_poll(struct wring_pool *pool);

/** Nothing else moves: if somebody waits for a slot, empty one and grant it. @return whether */
bool wring_pool_make_room(struct wring_pool *pool);

/* For its parts. */

/** The job has failed as that peer broke a rule; or as there is no memory. */
void wring_pool_refuse(const struct wring_pool *pool, const struct wring_peer *peer,
                       const char *what);
void wring_pool_no_memory(const struct wring_pool *pool);

/** Some link has something to say. */
void wring_pool_owe(struct wring_pool *pool);

/** Was that the id of a channel, at any time? */
bool wring_pool_knew(const struct wring_pool *pool, uint32_t id);

/** A piece moves into memory of its own. @return false: there is none, or a job reads it */
bool wring_pool_move(const struct wring_channel *channel, uint32_t member,
                     struct wring_slot *piece);

#endif
