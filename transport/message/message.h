/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Messages: sends and receives with tags between two ranks of a group, over the fabric.
 *
 * Each rank has a ring for every peer that it talks to, made with the first message. Everything
 * that one side says to the other goes through the ring of the other one, in order: a small message
 * whole (eager), of a larger one the offer; a grant, and that something is done. A receiver takes
 * records out of its rings at once. A message that no receive waits for goes into a bounded queue,
 * so a ring never stands still because of a receive that is not posted.
 *
 * The data of an offer travels after a receive has taken it. Where the receive's memory is
 * registered, the receiver grants it and the sender puts it there. Else the receiver reads it where
 * it lies (a process of this host, if the kernel lets us), registers its memory for this one
 * message (where that costs nothing), or grants a slot of a pool for each piece. Slots go by
 * priority, then by piece, then by rank.
 *
 * Device memory is registered, and neither copied nor read here: it is always offered, and granted
 * in place. A receive in device memory does not take an eager message; the sender offers it
 * (`offered`).
 *
 * Where a peer's memory is mapped, records are written into its ring by the sender's thread and
 * found there by the receiver's: no provider, queue or clock is in that way. Elsewhere they are
 * put.
 *
 * Used by the thread that makes progress, except wring_message_post(): safe from any thread.
 */
#ifndef WRING_TRANSPORT_MESSAGE_H
#define WRING_TRANSPORT_MESSAGE_H

#include "transport/fabric.h"
#include "transport/message/match.h"
#include "transport/message/ring.h"

struct wring_engine;
struct wring_messenger;
struct wring_message_arrival;
struct wring_message_peer;

/** The messages of one group. */
struct wring_message_context {
    uint64_t id; /* equal on all members, of no other group of the job */
    struct wring_match match;
    uint32_t me;
    uint32_t present; /* a member that may not have left: the others before it have */
    const uint32_t
        *ranks; /* [match.sources] of the members; NULL: the group is not made here yet */
    struct wring_message_context *next;                /* of those with a similar id */
    struct wring_message_arrival *early, **last_early; /* what came before the group was made */
};

enum wring_message_state {
    WRING_MESSAGE_NEW,
    WRING_MESSAGE_QUEUED,  /* a send: not yet in the peer's ring */
    WRING_MESSAGE_OFFERED, /* a send: the offer has left, or waits in our own queue */
    WRING_MESSAGE_GRANTED, /* a send: pieces leave */
    WRING_MESSAGE_LEFT,    /* a send: cancelled here, which the receiver has yet to confirm */
    WRING_MESSAGE_STOPPED, /* a send: cancelled there; what has been put is on its way */
    WRING_MESSAGE_POSTED,  /* a receive: not matched */
    WRING_MESSAGE_READING, /* a receive: we copy */
    WRING_MESSAGE_WANTING, /* a receive: waits for slots */
    WRING_MESSAGE_FILLING, /* a receive: all of it is granted */
    WRING_MESSAGE_ENDING,  /* a receive: cancelled here or there; what was put is to come yet */
    WRING_MESSAGE_ENDED,
};

/** A send or a receive of the application; the caller's memory, left alone once it has ended. */
struct wring_message {
    /* set by the caller */
    struct wring_message_context *context;
    void *buf; /* a send only reads it */
    uint64_t bytes;
    uint64_t tag;     /* a receive: or WRING_MATCH_ANY_TAG */
    uint32_t member;  /* to; from, or WRING_MATCH_ANY_SOURCE */
    int32_t priority; /* of messages larger than eager: smaller first */
    bool is_send;
    bool offered; /* a send: never eager, as its receive may be in device memory */
    const struct wring_block *block; /* where buf lies, if that is registered; else NULL */
    void (*ended)(struct wring_message *message); /* its last use; NULL: `status` alone tells */
    void *owner;

    /* how it ended */
    atomic_int status; /* enum wring_status; WRING_ERR_AGAIN while under way */
    struct wring_message_end {
        uint32_t member;     /* whose message it was */
        uint64_t tag, bytes; /* as it was sent */
    } end;

    /* the messenger's */
    enum wring_message_state state;
    bool counted; /* in the list of messages under way */
    struct wring_message *newer, *older;
    struct wring_match_receive receive;
    struct wring_message *next; /* posted; or in a peer's list, or in the messenger's */
    struct wring_message_peer *peer;
    uint32_t id;       /* an offer's, by which the receiver names it; 0: none */
    uint32_t remote;   /* a receive: the offer's id */
    uint64_t address;  /* a receive: where the sender has the data */
    uint64_t length;   /* that travel: what is sent, or what the receive has room for */
    uint64_t granted;  /* a receive: bytes that slots were granted for; read so far */
    uint64_t finished; /* bytes that have been put, or have come */
    uint64_t moved;    /* bytes whose puts have begun, or that puts have brought */
    uint64_t limit;    /* ENDING: bytes that the sender has put; UINT64_MAX: it has not said yet */
    bool confirmed;    /* LEFT: the receiver needs no more of it */
    bool again;        /* ENDING: its message was taken back, and it takes another one */
    bool ghost;        /* stands for one that has ended, until the peer has answered */
    uint64_t told;     /* a send: the bytes for which there were grants */
    struct wring_message_grant *grants, **last_grant; /* a send: in order, not all put */
};

/** Set the caller's fields, but for context and is_send; those without an argument become 0 or
 *  NULL. The messenger sets its own when the message begins. */
static inline void wring_message_init(struct wring_message *message, void *buf, uint64_t bytes,
                                      uint32_t member, uint64_t tag)
{
    message->buf = buf;
    message->bytes = bytes;
    message->member = member;
    message->tag = tag;
    message->priority = 0;
    message->offered = false;
    message->block = NULL;
    message->ended = NULL;
    message->owner = NULL;
    atomic_init(&message->status, WRING_ERR_AGAIN);
}

/** No core may touch its bytes. Then it is offered, whatever its size, and devices alone move it.
 */
static inline bool wring_message_is_on_device(const struct wring_message *message)
{
    return message->block != NULL && message->block->memory.kind == WRING_MEMORY_DEVICE;
}

/** Errors: WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM. The engine's fabric is connected. */
enum wring_status wring_messenger_create(struct wring_engine *engine, struct wring_messenger **out);

/** NULL is fine. Nothing is under way, and nobody drives; the fabric is still there. */
void wring_messenger_destroy(struct wring_messenger *messenger);

/**
 * A group has been made, or is gone: then nothing of it is under way.
 * @param ranks  [n] of the members, borrowed
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_message_context_create(struct wring_messenger *messenger, uint64_t id,
                                               const uint32_t *ranks, uint32_t n, uint32_t me,
                                               struct wring_message_context **out);

/** NULL is fine. */
void wring_message_context_destroy(struct wring_messenger *messenger,
                                   struct wring_message_context *context);

/**
 * Give a message up: it ends with WRING_ERR_CANCELLED, unless it has ended by itself before. One
 * that a peer has a part in ends with the peer's answer; wring_message_abandon() ends it without.
 */
void wring_message_cancel(struct wring_messenger *messenger, struct wring_message *message);

/**
 * End a message now that was cancelled and has not ended; the messenger awaits the answer in its
 * place. Where the peer puts into memory by a key that can be revoked, that is done; puts of ours
 * that have not left are sent from copies, if they can be.
 * @return WRING_OK: its memory is its owner's. WRING_ERR_BUSY: the peer, or a put of ours, may
 * still use it. WRING_ERR_NO_MEMORY: it goes on
 */
enum wring_status wring_message_abandon(struct wring_messenger *messenger,
                                        struct wring_message *message);

/** Hand over a message to the thread that makes progress. Threads: safe; takes no lock. */
void wring_message_post(struct wring_messenger *messenger, struct wring_message *message);

/**
 * Begin it here and now; messages that were handed over before begin first.
 * @return whether it has ended; it may be gone then, where it is another thread's
 */
bool wring_message_begin(struct wring_messenger *messenger, struct wring_message *message);

/**
 * Look at most so often for messages that come through memory alone, without the engine, until that
 * one has ended. @return whether it has
 */
bool wring_message_look(struct wring_messenger *messenger, const struct wring_message *message,
                        unsigned looks);

/* For the engine. */

/** @return whether anything moved */
bool wring_messenger_poll(struct wring_messenger *messenger);

/** Before a sleep: peers whose records come through memory are to wake us. */
void wring_messenger_arm(struct wring_messenger *messenger);

/** Nothing moves. If a message waits for a rank that has left, the job fails. */
void wring_messenger_check(struct wring_messenger *messenger);

/** All that is under way or was posted ends so. @return whether there was anything */
bool wring_messenger_end(struct wring_messenger *messenger, enum wring_status status);

/** Is there nothing to wait for? */
bool wring_messenger_is_idle(const struct wring_messenger *messenger);

/** Has something been handed over that has not begun? Threads: safe. */
bool wring_messenger_has_posted(const struct wring_messenger *messenger);

/** Events that the fabric hears for us. Hostile. */
void wring_messenger_arrived(struct wring_messenger *messenger, struct wring_peer *peer,
                             uint32_t imm, size_t bytes);
void wring_messenger_put_done(struct wring_messenger *messenger, struct wring_peer *peer,
                              uint64_t cookie);
void wring_messenger_heard(struct wring_messenger *messenger, struct wring_peer *peer,
                           const void *data, size_t bytes);

#define WRING_MESSAGE_CHANNEL                                           \
    (((uint32_t)1 << 18) - 1)  /* of immediates: no channel has this id \
                                */
#define WRING_MESSAGE_COOKIE 1 /* set in the cookies of our puts, which else are pointers */

#endif
