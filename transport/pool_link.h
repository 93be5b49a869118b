/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The pool's link with one other rank: where its pieces go here and ours there, and the pieces that
 * need not be asked for (slot_pool.h).
 *
 * Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_POOL_LINK_H
#define WRING_TRANSPORT_POOL_LINK_H

#include "transport/channel.h"
#include "transport/control.h"

/*
 * Pieces that a peer puts here without asking: the k-th of them lies in place k mod n. Puts of a
 * connection arrive in their order, so no piece needs a header, and one of a group that is gone is
 * counted like all others. Places go back in their order.
 *
 * Used by the thread that makes progress.
 */

#define WRING_POOL_RING 8 /* places, at most */

struct wring_pool_held {
    struct wring_channel *channel; /* NULL: of a group that is gone */
    uint32_t member;
    struct wring_slot *piece;
    bool released;
};

struct wring_pool_ring {
    uint32_t n; /* places; 0: the peer has to ask */
    uint32_t come, consumed, credited;
    struct wring_pool_held held[WRING_POOL_RING];
};

static inline bool wring_pool_ring_is_full(const struct wring_pool_ring *ring)
{
    return ring->come - ring->consumed == ring->n;
}

/** The place of the piece that came next. */
static inline uint32_t wring_pool_ring_next(const struct wring_pool_ring *ring)
{
    return ring->come % ring->n;
}

#define WRING_POOL_RING_BYTES (WRING_POOL_RING * WRING_POOL_SMALL) /* of a link's ring */
#define WRING_POOL_SMALL ((size_t)8 << 10) /* bytes of a piece that goes into the ring */

struct wring_pool;

/** Places of a peer's into which we put. */
struct wring_pool_room {
    uint32_t n; /* 0: there are none */
    uint32_t sent, freed;
};

struct wring_pool_link {
    struct wring_pool *pool;
    struct wring_peer *peer;
    bool told, heard; /* it knows where our memory is, and we where its own is */

    /* into which it puts */
    const struct wring_block *block;
    uint8_t *memory; /* of the ring of small pieces */
    struct wring_pool_ring small, large;
    uint16_t lent[WRING_POOL_RING]; /* [large.n] slots of ours, the places of that ring */

    /* into which we put */
    struct wring_provider *provider; /* of these */
    struct wring_remote *remote_ring, *remote_slots;
    uint64_t remote_at; /* of the ring */
    uint64_t slot_bytes;
    uint32_t n_slots;
    struct wring_pool_room small_room, large_room;
    uint16_t borrowed[WRING_POOL_RING]; /* [large_room.n] slots of its own */

    bool owes_credit, owes_lend;
    uint16_t *spare; /* [n_spare] slots of its own that it has yet to hear are not needed */
    uint32_t n_spare, spare_room;
};

/** The link with a peer; our ends of it are made now. Errors: WRING_ERR_NO_MEMORY,
 * WRING_ERR_SYSTEM. */
enum wring_status wring_pool_reach(struct wring_pool *pool, struct wring_peer *peer,
                                   struct wring_pool_link **out);

/** Tell the peer of our memory, unless it knows. The connection stands. Errors: WRING_ERR_AGAIN,
 *  WRING_ERR_UNSUPPORTED (its device takes no such memory), those of wring_control_send(). */
enum wring_status wring_pool_tell(struct wring_pool_link *link);

/** NULL is fine. */
void wring_pool_link_destroy(struct wring_pool_link *link);

/** A peer told of its memory. */
void wring_pool_link_heard(struct wring_pool *pool, struct wring_peer *peer,
                           const struct wring_control *control);

/** Lend it some of our slots, unless it has some. */
void wring_pool_link_lend(struct wring_pool_link *link);

/** A peer lends us some. It may fail the job. */
void wring_pool_link_heard_lend(struct wring_pool *pool, struct wring_peer *peer,
                                const struct wring_control *control);

/** Is there a slot that was lent for a large piece? */
static inline bool wring_pool_link_has_room(const struct wring_pool_link *link)
{
    return link->large_room.sent - link->large_room.freed < link->large_room.n;
}

/** A piece came over the link. @return as wring_pool_arrived() */
struct wring_channel *wring_pool_link_arrived(struct wring_pool *pool, struct wring_peer *peer,
                                              uint32_t imm, size_t bytes, uint32_t *member);

/** A piece is needed no longer. */
void wring_pool_link_release(struct wring_pool_link *link, const struct wring_slot *piece);

/** All pieces of a channel are needed no longer. @param all  also those that were taken */
void wring_pool_link_forget(struct wring_pool_link *link, const struct wring_channel *channel,
                            bool all);

/** How many pieces are needed no longer, as credits say it: small ones in the lower 16 bits, large
 *  ones in the upper. */
uint32_t wring_pool_link_consumed(const struct wring_pool_link *link);

/** A peer said so of ours. Errors: WRING_ERR_FRAME. */
enum wring_status wring_pool_link_credit(struct wring_pool_link *link, uint32_t consumed);

/** Credits of a channel have just said it. */
void wring_pool_link_credited(struct wring_pool_link *link);

/** Say it where no channel has for long. */
void wring_pool_link_return_credits(struct wring_pool_link *link);

/** Say what could not be said. @return whether something is left */
bool wring_pool_link_say_owed(struct wring_pool_link *link);

/*
 * Pieces of groups at their sender: large ones are asked for, and put once they are granted a slot
 * (slot_pool.h).
 *
 * Used by the thread that makes progress.
 */

/** A peer granted one of its slots. It may fail the job. */
void wring_pool_send_heard_grant(struct wring_pool *pool, struct wring_peer *peer,
                                 const struct wring_control *control);

/** No pieces of that channel follow: slots that it was granted go back. */
void wring_pool_send_cease(struct wring_channel *channel);

/** Give back what could not be given back. @return whether something is left */
bool wring_pool_send_owed(struct wring_pool_link *link);

#endif
