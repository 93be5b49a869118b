/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A group's members two by two. Nothing of a pair is there before its first piece. Then either
 * member tells the other the names of its ends of the two channels, and where its board lies if the
 * group has boards; the other one answers with as much. Pieces travel by the session's link with
 * that rank (slot_pool.h), which the first pair of any group has told before. A board is taken with
 * the group's first pair.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_PAIRS_H
#define WRING_TRANSPORT_PAIRS_H

#include "transport/boards.h"
#include "transport/collective/collective.h"
#include "transport/formation.h"

struct wring_pair;

struct wring_pairs {
    /* the owner's, set before wring_pairs_add() */
    struct wring_engine *engine;
    struct wring_collective *collective; /* of the group, with its two channels */
    struct wring_group_key key;
    size_t board_room;                             /* of a board, if there are to be any; 0: none */
    void (*made_board)(struct wring_pairs *pairs); /* collective->shm_flags is there */
    void (*ceased)(struct wring_pairs *pairs, uint32_t rank); /* that rank aborted the group */
    struct wring_cease *cease;                                /* of its collectives */
    void *owner;

    /** A piece waits for a member whose ends are not known yet. @return WRING_ERR_AGAIN, or those
     * of wring_control_deliver() */
    enum wring_status (*want)(struct wring_pairs *pairs, uint32_t member);
    uint64_t generation; /* of the group, that its members agreed on; 0: it is still forming */
    bool boards;         /* all members have one for flat steps */
    struct wring_board_lease board; /* ours; if there are any */
    struct wring_imports imports;
    struct wring_pair *pair; /* [members] */
    bool owes;               /* an answer could not be sent yet */
    bool owes_quiet;         /* nor the word that nothing of ours is under way any more */
    uint32_t aborted_by;     /* once it has ceased: that rank */
    atomic_uint given_up;    /* + 1: a rank that has not made the group, though we have; else 0 */
    struct wring_pairs *next;
};

/** Bytes that pairs of so many members take. */
size_t wring_pairs_state_bytes(uint32_t members);

/** Pairs can be told from now on. The channels have their names. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_pairs_add(struct wring_pairs *pairs);

/** Messages about it are dropped from now on. Zeroed memory is fine. */
void wring_pairs_finish(struct wring_pairs *pairs);

/** The group has formed: take what members have told meanwhile. */
void wring_pairs_formed(struct wring_pairs *pairs, uint64_t generation, bool boards);

/** A control message of kind PAIR. It may fail the job. */
void wring_pairs_heard(struct wring_engine *engine, struct wring_peer *peer,
                       const struct wring_control *control);

/**
 * The group, which has formed, was aborted by that rank, and its collectives have ceased: tell all
 * other members so, if it was us; and each of them how many puts of ours are on the way to it, once
 * nothing else of ours writes into members' memory.
 */
void wring_pairs_cease(struct wring_pairs *pairs, uint32_t rank);

/** No member awaits a word of a group that is gone any more: the engine ends. */
void wring_pairs_forget(struct wring_engine *engine);

/** After that: has every other member said that it writes into our memory no more, or left, and
 *  have its puts arrived? @param revoked  devices whose members need not say so, a bit each:
 *  their puts go nowhere */
bool wring_pairs_are_quiet(const struct wring_pairs *pairs, uint32_t revoked);

/** And we have told all of them. */
bool wring_pairs_have_ceased(const struct wring_pairs *pairs);

/** A control message of kind CEASE. It may fail the job. */
void wring_pairs_heard_cease(struct wring_engine *engine, struct wring_peer *peer,
                             const struct wring_control *control);

/** Send the answers that could not be sent. */
void wring_pairs_poll(struct wring_engine *engine);

/** A member has taken back what it said of a group that we have: no call can be made in it. */
void wring_pairs_given_up(void *engine, struct wring_peer *peer, const struct wring_group_key *key);

#endif
