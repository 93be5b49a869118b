/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A channel: the slots in which each member of a group receives the pieces that the others send
 * it for one phase of one collective.
 *
 * Every member has `window` slots (a power of two, its own choice) for every other member. A sender
 * holds credits, one per free slot; it reserves one before it makes a piece, so nothing ever waits
 * for room with a piece in hand. Sequence numbers count pieces per pair of members, over all steps;
 * sequence s lies in slot s mod window. A receiver takes pieces in sequence, releases them in any
 * order, and returns credits in batches.
 *
 * A *placed* channel has no slots: its pieces go straight to where they belong in the receiver's
 * data, and only their arrival is counted. Its user knows that the data is ready for them.
 *
 * A *pooled* channel, of a group, has no slots of its own, either: its window only bounds how many
 * pieces are begun, and each lies where the session has room for it (slot_pool.h).
 *
 * In a *tagged* channel pieces carry a few bits that say which call they belong to; those of
 * another one than the receiver's present call do not show.
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_CHANNEL_H
#define WRING_TRANSPORT_CHANNEL_H

#include "transport/fabric.h"

#define WRING_SEQUENCE_BITS 14 /* of an immediate; the rest is the channel */
#define WRING_CHANNELS_MAX ((1u << (32 - WRING_SEQUENCE_BITS)) - 1) /* the last id is messages' */
#define WRING_WINDOW_MAX (1u << (WRING_SEQUENCE_BITS - 1))
#define WRING_TAG_BITS 10         /* of a sequence's, in a tagged channel */
#define WRING_TAGGED_WINDOW_MAX 8 /* so many slots can the rest of them tell apart */

/** The ranks that take part, in rank order, and where we are among them. */
struct wring_members {
    uint32_t n, me;
    const uint32_t *ranks; /* [n] */
    const uint32_t *table; /* [mask + 1] by rank: 1 + member; 0: free. NULL: members are searched */
    uint32_t mask;
};

/**
 * Make the table by which wring_members_find() is O(1). @return to be freed after the last use of
 * the members; NULL where none is needed, as each member is the rank of its number, or no memory is
 * left: then *ok is false
 */
uint32_t *wring_members_index(struct wring_members *members, bool *ok);

/** Where the search for a rank begins in the table. */
static inline uint32_t wring_members_slot(const struct wring_members *members, uint32_t rank)
{
    uint32_t spread =
        rank * UINT32_C(0x9E3779B9); /* odd and without pattern: 2^32 by the golden ratio */
    return (uint32_t)((uint64_t)spread * ((uint64_t)members->mask + 1) >> 32);
}

enum wring_slot_home {
    WRING_SLOT_OWN,   /* the channel's memory */
    WRING_SLOT_RING,  /* pooled: the ring of its sender, */
    WRING_SLOT_LENT,  /* a slot that its sender need not ask for, */
    WRING_SLOT_POOL,  /* a slot of the session's, */
    WRING_SLOT_MOVED, /* or memory of its own */
};

struct wring_slot {
    uint8_t *data; /* own: for good; pooled: once it has arrived */
    uint32_t bytes;
    uint16_t tag;
    uint16_t number; /* in its home */
    uint8_t home;    /* enum wring_slot_home */
    bool asked;      /* pooled: its sender has it ready, and it may not have arrived */
    bool arrived, released;
};

struct wring_channel_in {
    uint32_t taken, consumed, credited; /* sequences */
    uint32_t arrivals;                  /* pieces so far, all steps */
};

/** The name that peers use for a channel. Control messages for another generation of its id are
 *  ignored. */
struct wring_channel_name {
    uint32_t id, generation;
};

enum wring_channel_ask_state {
    WRING_ASK_NONE,
    WRING_ASK_SAID,    /* the receiver knows that we have the piece ready */
    WRING_ASK_GRANTED, /* a slot is there for it */
};

/** Pooled: how it stands with a large piece of ours. */
struct wring_channel_ask {
    uint8_t state; /* enum wring_channel_ask_state */
    uint16_t slot;
};

/** All zero until something is sent to that member, or comes from it: wring_channel_out(). */
struct wring_channel_out {
    struct wring_peer *peer;
    struct wring_remote *remote;    /* the peer's slots, or its data if placed; borrowed */
    uint64_t offset;                /* where ours begin in it, or the data */
    uint8_t *mapped;                /* placed: the data, where it can be mapped; else NULL */
    uint32_t window;                /* slots that the peer has for us */
    uint32_t reserved, limit;       /* sequences */
    uint32_t puts;                  /* pieces so far, all steps */
    struct wring_channel_name name; /* of the peer's end */
    struct wring_pool_link *link;   /* pooled: with the peer; NULL: not known yet */
};

#define WRING_NO_CHANNEL UINT32_MAX /* the id of a peer's end that is not known yet */

struct wring_channel;
struct wring_collective;
struct wring_pairs;
struct wring_pool;
struct wring_pool_link;

/** What becomes of a pooled channel's pieces: the pool's part (slot_pool.c). */
struct wring_channel_pool_ops {
    /** Put a piece. Errors: WRING_ERR_AGAIN (no room, or no grant yet), those of
     *  wring_fabric_put(). */
    enum wring_status (*put)(struct wring_channel *channel, uint32_t member, uint32_t sequence,
                             struct wring_region *region, const void *local, size_t bytes,
                             uint64_t cookie);

    /** The memory of a piece is free. */
    void (*release)(struct wring_channel *channel, uint32_t member, struct wring_slot *piece);

    /** Credits of a channel say what the link with that member owes as well. @return that; then it
     *  is said */
    uint32_t (*credits)(const struct wring_channel *channel, uint32_t member);
    void (*credited)(const struct wring_channel *channel, uint32_t member);

    /** Say so by itself, where no channel has for long. */
    void (*return_credits)(const struct wring_channel *channel, uint32_t member);
};

struct wring_channel {
    struct wring_fabric *fabric;
    struct wring_channel_name name; /* of our end */
    struct wring_members members;
    bool placed;
    bool tagged;
    bool owes_credits;
    uint32_t tag; /* of pieces that are sent and taken now */
    uint32_t window;
    size_t slot_bytes, stride;
    uint8_t *memory;               /* our slots: [n][window][stride]; borrowed */
    struct wring_channel_in *in;   /* [n] */
    struct wring_channel_out *out; /* [n] */
    struct wring_slot *slots;      /* [n][window] */
    struct wring_collective *owner;
    struct wring_pairs *pairs; /* of a group: that find peers' ends at their first piece; or NULL */
    struct wring_pool *pool;   /* pooled; else NULL */
    const struct wring_channel_pool_ops *pool_ops; /* pooled */
    struct wring_channel_ask *asks;                /* [n][window] pooled */
};

void wring_channel_open(const struct wring_channel *channel, uint32_t member);

/** The state of pieces to a member. */
static inline struct wring_channel_out *wring_channel_out(const struct wring_channel *channel,
                                                          uint32_t member)
{
    struct wring_channel_out *out = &channel->out[member];
    if (out->peer == NULL)
        wring_channel_open(channel, member);
    return out;
}

/** The slots of pieces from a member, [window]. */
static inline struct wring_slot *wring_channel_slots(const struct wring_channel *channel,
                                                     uint32_t member)
{
    return channel->slots + (size_t)member * channel->window;
}

/** Bytes of slots that a channel of these dimensions needs. */
size_t wring_channel_memory(uint32_t members, uint32_t window, size_t slot_bytes);

/** Bytes that a channel and its entries for members take, pooled; touched once used. */
size_t wring_channel_state_bytes(uint32_t members, uint32_t window);

/** The window of a channel that carries that many pieces a step: a power of two, at least 2.
 *  @param most  the session's; never exceeded but by 2 */
uint32_t wring_channel_window(uint64_t most, uint64_t pieces);

/**
 * Fill in a channel; its name, owner, tagged and out[] (peer, remote, offset, name) are the
 * caller's.
 */
enum wring_status wring_channel_init(struct wring_channel *channel, struct wring_fabric *fabric,
                                     struct wring_members members, uint32_t window,
                                     size_t slot_bytes, uint8_t *memory);

/**
 * Not all members send: those that do have their slots at these places of the memory, one after the
 * other, in which nothing has come yet.
 * @param place  of a member; UINT32_MAX: it sends nothing
 */
void wring_channel_seat(struct wring_channel *channel,
                        uint32_t (*place)(uint32_t n, uint32_t me, uint32_t member));

/** A member has so many slots for us, of which none is in use. A power of two. */
void wring_channel_set_window(struct wring_channel *channel, uint32_t member, uint32_t window);

/** Peers' ends are not known: they are found by those pairs, and a put answers WRING_ERR_AGAIN
 *  meanwhile. */
void wring_channel_unpair(struct wring_channel *channel, struct wring_pairs *pairs);

/** Zeroed memory is fine. */
void wring_channel_finish(struct wring_channel *channel);

/** May we reserve a slot at that member (at every other member)? Placed pieces need none. */
bool wring_channel_has_credit(const struct wring_channel *channel, uint32_t member);
bool wring_channel_has_credits(const struct wring_channel *channel);

/** Reserve; the caller has seen that there is credit. @return the sequence */
uint32_t wring_channel_reserve(struct wring_channel *channel, uint32_t member);

/** Put a piece into its reserved slot. Errors: those of wring_fabric_put(). */
enum wring_status wring_channel_put(struct wring_channel *channel, uint32_t member,
                                    uint32_t sequence, struct wring_region *region,
                                    const void *local, size_t bytes, uint64_t cookie);

/** Put a piece to where it belongs, `offset` bytes into the member's data. */
enum wring_status wring_channel_put_placed(struct wring_channel *channel, uint32_t member,
                                           struct wring_region *region, const void *local,
                                           uint64_t offset, size_t bytes, uint64_t cookie);

/** A put of that member's arrived. Errors: WRING_ERR_FRAME. */
enum wring_status wring_channel_arrived(struct wring_channel *channel, uint32_t member,
                                        uint32_t imm, size_t bytes);

/** The next piece of a member, if it is there. @return NULL if not */
const void *wring_channel_peek(const struct wring_channel *channel, uint32_t member, size_t *bytes);

/** The next piece of a member is there, but has another tag. */
bool wring_channel_is_foreign(const struct wring_channel *channel, uint32_t member);

/** Take the piece that peek showed. @return its sequence, for release */
uint32_t wring_channel_take(struct wring_channel *channel, uint32_t member);

/** The slot may be filled again. */
void wring_channel_release(struct wring_channel *channel, uint32_t member, uint32_t sequence);

/** Try again to return credits that release could not. */
void wring_channel_return_credits(struct wring_channel *channel);

/** A member returned credits. Errors: WRING_ERR_FRAME. */
enum wring_status wring_channel_credit(struct wring_channel *channel, uint32_t member,
                                       uint32_t consumed);

/* For the pool. */

/** Where the piece of that immediate belongs; NULL: it may not be sent, or is here. */
struct wring_slot *wring_channel_expect(struct wring_channel *channel, uint32_t member,
                                        uint32_t imm);

/** It has come. */
void wring_channel_enter(struct wring_channel *channel, uint32_t member, struct wring_slot *piece,
                         uint32_t imm, size_t bytes);

/** It will come. */
void wring_channel_announce(const struct wring_channel *channel, struct wring_slot *piece,
                            uint32_t imm, uint32_t bytes);

/** The sequence of a piece that is expected or here. */
uint32_t wring_channel_sequence(const struct wring_channel *channel, uint32_t member,
                                const struct wring_slot *piece);

/** Somebody works on the piece in that slot. */
bool wring_channel_is_taken(const struct wring_channel *channel, uint32_t member,
                            const struct wring_slot *piece);

/** The immediate of a piece of ours. */
uint32_t wring_channel_imm(const struct wring_channel *channel, const struct wring_channel_out *out,
                           uint32_t sequence);

static inline struct wring_channel_ask *wring_channel_asked(const struct wring_channel *channel,
                                                            uint32_t member, uint32_t sequence)
{
    return &channel->asks[member * channel->window + sequence % channel->window];
}

static inline uint32_t wring_imm_channel(uint32_t imm)
{
    return imm >> WRING_SEQUENCE_BITS;
}

/** The member that a rank is, or members.n. */
uint32_t wring_members_find(const struct wring_members *members, uint32_t rank);

#endif
