/* SPDX-License-Identifier: Apache-2.0 */
/** What the parts of the messenger share. Private to this folder. */
#ifndef WRING_TRANSPORT_MESSAGE_INSIDE_H
#define WRING_TRANSPORT_MESSAGE_INSIDE_H

#include "base/fence.h"
#include "transport/engine.h"
#include "transport/message/message.h"

#define WRING_PEER_UNEXPECTED ((uint64_t)64 << 10) /* each peer may always send so much ahead */
#define WRING_PEER_OFFERS 4096                     /* and so many offers */
#define WRING_CONTEXT_CHAINS 64

/** A message that no receive waits for. */
struct wring_message_arrival {
    struct wring_match_arrival match; /* first */
    struct wring_message_context *context;
    struct wring_message_peer *peer;
    struct wring_message_arrival *next; /* of an early context, or free */
    struct wring_message *own;          /* a send to ourselves that was not copied; else NULL */
    bool offered;
    uint32_t id; /* offered */
    uint64_t bytes, address;
    size_t room; /* of data */
    uint8_t data[];
};

/** A record that waits for room in the peer's ring. */
struct wring_message_say {
    struct wring_message_say *next;
    enum wring_record_kind kind;
    uint32_t id;
    uint64_t context; /* WITHDRAW */
    uint64_t tag;
    struct wring_record_grant grant;
};

/** A put under way, of a record or of a part of a message; its cookie. */
struct wring_message_put {
    struct wring_message_put *next;     /* free */
    struct wring_message_put *next_all; /* of the messenger */
    struct wring_message *message;      /* NULL: a record */
    struct wring_message_grant *grant;
    size_t bytes;
    uint8_t *stage; /* room for a record, or a piece; NULL: none was needed */
};

/** The sender's side of a grant: where part of a message may be put. */
struct wring_message_grant {
    struct wring_message_grant *next;     /* of the message, or free */
    struct wring_message_grant *next_all; /* of the messenger */
    struct wring_record_grant record;
    struct wring_provider *provider; /* of the remote */
    struct wring_remote *remote;     /* NULL: not imported yet, or the peer's pool */
    uint64_t put;                    /* of its bytes */
    uint64_t until_ns;               /* 0: the import has not been tried in vain */
    uint32_t under_way;              /* puts */
};

/** The receiver's side. */
struct wring_message_granted {
    struct wring_message *receive; /* NULL: free, or dropped */
    struct wring_message_peer *peer;
    uint64_t bytes, come;
    uint64_t at;                 /* in the message */
    uint8_t *slot;               /* of the pool; NULL: it comes to its place */
    struct wring_region *region; /* made for it alone; NULL: none was, or it was revoked */
    bool revoked;
    uint32_t next_free;
};

struct wring_message_peer {
    struct wring_messenger *messenger;
    struct wring_peer *peer; /* the fabric's; of ourselves, too */
    uint32_t rank;

    /* how the two rings become known */
    bool told;  /* where ours is */
    bool heard; /* where its ring is */
    uint8_t opening[WRING_SEND_MAX];
    size_t opening_bytes;      /* 0: nothing that has been heard is still to be imported */
    uint64_t opening_until_ns; /* for the import */
    bool readable;             /* the kernel lets us read its memory */
    int32_t pid;

    /* our ring */
    struct wring_ring_head *in;
    const uint8_t *in_lines;
    uint64_t secret;
    uint64_t in_at, in_told; /* lines */
    uint32_t announced;      /* records that puts have brought and that are not taken */
    bool in_mapped;          /* it writes there itself */
    bool owes_credit;

    /* what it may send ahead */
    uint64_t eager_come, held; /* cost */
    uint64_t eager_limit, eager_told;
    uint64_t extra; /* cost that it may have here beyond each peer's share */
    uint32_t offers_come, offers_gone, offers_told;
    bool stopped, stopped_told;

    /* its ring */
    struct wring_remote *remote;
    uint64_t remote_at; /* of the ring, in its region */
    struct wring_ring_head *out;
    uint8_t *out_lines; /* NULL: records are put */
    uint64_t out_secret;
    bool fenced;
    bool owes_wake;
    bool rang; /* for want of room, since something was written last */
    uint64_t out_at, out_taken;
    uint64_t eager_sent, eager_may;
    uint32_t offers_sent, offers_may;
    bool out_stopped;
    struct wring_remote *pool; /* its slots, once it has granted one */

    struct wring_message_say *says, **last_say;
    struct wring_message *sends, **last_send; /* QUEUED */
    struct wring_message *granted;            /* by priority */
};

struct wring_messenger {
    struct wring_engine *engine;
    struct wring_message_peer **peers; /* [size]; NULL: nothing was ever said */
    struct wring_message_peer **open;  /* [n_open] the same, but for ourselves */
    uint32_t n_open, turn;
    struct wring_message_context *contexts[WRING_CONTEXT_CHAINS];
    uint64_t gone[WRING_CONTEXT_CHAINS * 4]; /* contexts that were destroyed last; 0: none */
    uint32_t n_gone;
    _Atomic(struct wring_message *) posted; /* newest first */
    struct wring_message *newest;           /* of all that is under way */
    bool armed;                             /* our rings say that we sleep */
    bool light;                             /* heavy fences work for us */
    uint64_t cookie;
    size_t eager_bytes;

    /* unexpected messages */
    uint64_t extra, extra_most; /* cost beyond each peer's WRING_PEER_UNEXPECTED */
    struct wring_message_arrival *free_arrivals[16];
    size_t free_bytes;

    /* rings: blocks that several of them share */
    struct wring_block *ring_blocks[64];
    uint32_t n_ring_blocks, rings_left;

    /* offers that have left, or are about to */
    struct wring_message **offers; /* [n_offers] by id - 1 */
    uint32_t *free_offers;         /* [n_offers] */
    uint32_t n_offers, n_free_offers;

    /* what is being received */
    struct wring_message *reading, *wanting; /* each by priority, then in order */
    struct wring_message_granted *grants;    /* [n_grants] */
    uint32_t n_grants, free_grant;           /* its index + 1; 0: none */
    struct wring_block pool;
    uint8_t **slots; /* [n_slots] free */
    uint32_t n_slots;
    size_t slot_bytes;

    /* what is being put */
    struct wring_block stages;
    uint8_t **free_stages, **free_pieces;
    uint32_t n_free_stages, n_free_pieces;
    struct wring_message_put *free_puts, *all_puts;
    struct wring_message_say *free_says;
    struct wring_message_grant *free_grants, *all_grants;
};

static inline struct wring_fabric *wring_messenger_fabric(const struct wring_messenger *messenger)
{
    return messenger->engine->fabric;
}

static inline const struct wring_device *wring_message_device(const struct wring_message_peer *peer)
{
    return &wring_messenger_fabric(peer->messenger)->devices[peer->peer->device];
}

/* messenger.c */

/** A message ends; it is not touched any more. */
void wring_message_finish(struct wring_messenger *messenger, struct wring_message *message,
                          enum wring_status status);

/** End a receive whose bytes have come; WRING_ERR_TRUNCATED where they were too many. */
void wring_message_finish_receive(struct wring_messenger *messenger, struct wring_message *receive);

/** The peer broke a rule. */
__attribute__((format(printf, 2, 3))) void wring_message_refuse(
    const struct wring_message_peer *peer, const char *format, ...);

/** Fail the job: there is no memory for a peer's message, or for a record to it. */
void wring_message_no_memory(struct wring_messenger *messenger);

/** The context of that id; NULL: it is not known. */
struct wring_message_context *wring_message_context_find(struct wring_messenger *messenger,
                                                         uint64_t id);

/** A context for messages that come before its group is made. NULL: no memory. */
struct wring_message_context *wring_message_context_expect(struct wring_messenger *messenger,
                                                           uint64_t id);

/** Was that one destroyed? */
bool wring_message_context_is_gone(const struct wring_messenger *messenger, uint64_t id);

/** The message that a receive of the matching is part of. */
static inline struct wring_message *wring_message_of(struct wring_match_receive *receive)
{
    return (struct wring_message *)((char *)receive - offsetof(struct wring_message, receive));
}

/* peer.c */

/** The peer of that rank; a ring is made for it. NULL: no memory. */
struct wring_message_peer *wring_message_peer_find(struct wring_messenger *messenger,
                                                   uint32_t rank);
void wring_message_peer_destroy(struct wring_message_peer *peer);

/** Connect, tell it where our ring is, and find its. @return whether anything moved */
bool wring_message_peer_open(struct wring_message_peer *peer);

/** Write what waits into its ring. @return whether anything could be */
bool wring_message_peer_push(struct wring_message_peer *peer);

/** Say something as soon as there is room. */
void wring_message_peer_say(struct wring_message_peer *peer, const struct wring_message_say *say);

/** A send that waits here, none of which has left, is to be sent no more. */
void wring_message_peer_unqueue(struct wring_message_peer *peer, struct wring_message *message);

/** A send begins. @return whether it has ended */
bool wring_message_peer_send(struct wring_message_peer *peer, struct wring_message *message);

/** Return credits, if it is time. @return whether any left */
bool wring_message_peer_credit(struct wring_message_peer *peer);

/** A put of a record (NULL), or of part of a message. @param staged  with registered memory to be
 *  put from: a record's, or a piece's. NULL: none is free just now */
struct wring_message_put *wring_message_put_take(struct wring_messenger *messenger,
                                                 struct wring_message *message, bool staged);
void wring_message_put_free(struct wring_messenger *messenger, struct wring_message_put *put);

/* incoming.c */

/** Take a record out of a peer's ring. @return whether there was one */
bool wring_incoming_take(struct wring_message_peer *peer);

/** A receive begins. @return whether it has ended */
bool wring_incoming_receive(struct wring_messenger *messenger, struct wring_message *receive);

/** A send to ourselves begins. @return whether it has ended */
bool wring_incoming_send_own(struct wring_messenger *messenger, struct wring_message *send);

/** A send to ourselves that no receive has taken ends early: forget where it waits. */
void wring_incoming_withdraw_own(struct wring_messenger *messenger,
                                 const struct wring_message *send);

/** The message that it had taken was taken back: it takes another one, or waits where it was. */
void wring_incoming_receive_again(struct wring_messenger *messenger, struct wring_message *receive);

/** A peer takes back an offer that no receive may have taken. @return false: one has, or it was
 *  answered already */
bool wring_incoming_withdrawn(struct wring_message_peer *peer, uint64_t context, uint32_t id);

/** The group is there: match messages that came before it. */
void wring_incoming_adopt(struct wring_messenger *messenger, struct wring_message_context *context);

/** Forget messages that no receive of it took. */
void wring_incoming_forget(struct wring_messenger *messenger,
                           struct wring_message_context *context);

/* transfer.c */

/** A receive has taken an offer: its peer, remote, address and length are set. @return whether it
 *  has ended */
bool wring_transfer_begin(struct wring_messenger *messenger, struct wring_message *receive);

/** Read, and grant. @return whether anything moved */
bool wring_transfer_receive(struct wring_messenger *messenger);

/** Put what is granted to us. @return whether anything moved */
bool wring_transfer_send(struct wring_message_peer *peer);

/** A peer's answers to our offers. */
void wring_transfer_heard_grant(struct wring_message_peer *peer, uint32_t id,
                                const struct wring_record_grant *grant);
void wring_transfer_heard_done(struct wring_message_peer *peer, uint32_t id, uint64_t status);

/** A peer takes an offer back of which it has put so many bytes. @param context  its group's */
void wring_transfer_heard_withdraw(struct wring_message_peer *peer, uint64_t context, uint32_t id,
                                   uint64_t put);

/** A peer takes back what it granted, or has stopped to put since we did. */
void wring_transfer_heard_recall(struct wring_message_peer *peer, uint32_t id);
void wring_transfer_heard_stopped(struct wring_message_peer *peer, uint32_t id, uint64_t put);

/** A put came in by that grant. */
void wring_transfer_arrived(struct wring_message_peer *peer, uint32_t grant, size_t bytes);

/** A put of ours of part of a message has been done; it is free after this. */
void wring_transfer_put_done(struct wring_message_peer *peer, struct wring_message_put *put);

/** Give an offer an id, and take it back. @return 0: no memory */
uint32_t wring_transfer_offer(struct wring_messenger *messenger, struct wring_message *message);
void wring_transfer_withdraw(struct wring_messenger *messenger, struct wring_message *message);

/** A message ends early: what it has under way is forgotten. */
void wring_transfer_drop(struct wring_messenger *messenger, struct wring_message *message);

/** For wring_message_cancel(): a message that has a peer, and has begun. */
void wring_transfer_cancel(struct wring_messenger *messenger, struct wring_message *message);

/** Keys to memory of a receive, as far as they can be revoked. Peers' puts there are still counted.
 */
void wring_transfer_revoke(struct wring_messenger *messenger, const struct wring_message *receive);

/** Of a message that was cancelled and has not ended: may the peer, or a put of ours, still use its
 *  memory? Puts under way leave from copies from then on, where that can be had. */
bool wring_transfer_is_exposed(const struct wring_messenger *messenger,
                               const struct wring_message *message);

/** Hand on all that is under way of a message to another one, which was copied from it. */
void wring_transfer_hand_on(struct wring_messenger *messenger, struct wring_message *from,
                            struct wring_message *to);

/** Nothing is under way any more: all that was made for transfers is freed. */
void wring_transfer_finish(struct wring_messenger *messenger);

#endif
