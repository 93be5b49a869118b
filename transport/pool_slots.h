/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The session's slots for large pieces of groups, at the receiver: who asks for one, who gets the
 * next, and what lies in them (slot_pool.h).
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_POOL_SLOTS_H
#define WRING_TRANSPORT_POOL_SLOTS_H

#include "transport/channel.h"
#include "transport/control.h"
#include "transport/pool_ring.h"

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
    struct wring_pool_link *link;  /* whom it is granted to */
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

/** Zeroed memory; what fails is finished as well. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_pool_slots_init(struct wring_pool_slots *slots, uint32_t n, size_t bytes);

/** Zeroed memory is fine. */
void wring_pool_slots_finish(struct wring_pool_slots *slots);

/** A member has a piece ready. It may fail the job. */
void wring_pool_slots_heard_ask(struct wring_pool *pool, struct wring_peer *peer,
                                const struct wring_control *control);

/** A member does not need the slot that it was granted. It may fail the job. */
void wring_pool_slots_heard_spare(struct wring_pool *pool, const struct wring_peer *peer,
                                  const struct wring_control *control);

/** A piece came into a slot that was granted. @return as wring_pool_arrived() */
struct wring_channel *wring_pool_slots_arrived(struct wring_pool *pool,
                                               const struct wring_peer *peer, uint32_t imm,
                                               size_t bytes, uint32_t *member);

/** It is needed no longer. */
void wring_pool_slots_release(struct wring_pool_slots *slots, const struct wring_slot *piece);

/** Nothing of a channel is asked for or kept any more. @param all  nor pieces that a job may have
 *  read, as there is none any more */
void wring_pool_slots_forget(struct wring_pool_slots *slots, const struct wring_channel *channel,
                             bool all);

/** Grant what can be granted, and say what could not be said. @return whether anything moved */
bool wring_pool_slots_poll(struct wring_pool *pool);

/** Slots for a peer that need not ask from now on: fewer, the fewer are left. @param numbers
 *  [WRING_POOL_RING] out @return how many */
uint32_t wring_pool_slots_lend(struct wring_pool_slots *slots, uint16_t *numbers);

/** Does anybody wait for a slot, or for its grant? */
bool wring_pool_slots_owe(const struct wring_pool_slots *slots);

/** Nothing else moves: if somebody waits for a slot, empty one. @return whether one was */
bool wring_pool_slots_make_room(struct wring_pool *pool);

#endif
