/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The life of a connection and of its paths, as two tables: a state and an event give the next
 * state. Whoever notices something (verbs/conn.c, verbs/traffic.c, verbs/verbs.c) feeds the event;
 * verbs/recovery.c does what belongs to it. Pure; no libibverbs in it.
 *
 * A connection:
 *
 *     CONNECTING -> AUTH -> OFFER -> CARDS -> READY -> OPEN         meeting
 *                                                       |
 *                  a path failed or may work again, or  |  ^
 *                  the peer says so (RESYNC)            v  |  the peer's GO
 *
 *        .------------ STOPPED --- we say RESYNC ---> TOLD            agreeing how to go on:
 *        |                                             |              both say which paths
 *     RESYNC heard                               RESYNC heard         are dead
 *        |                                             |
 *        '-> HEARD ------- we say RESYNC --------> BOTH_TOLD
 *                                                   |     |           once they agree, both
 *                                      we say RESUME|     |RESUME     say which messages have
 *                                                   v     v heard     come, and make new queue
 *                                             RESUMED    ANSWERED     pairs
 *                                                   |     |
 *                                        RESUME heard\    |we say RESUME
 *                                                     v   v
 *                                                 BOTH_RESUMED
 *                                                       |  new queue pairs connected, we say GO
 *                                                       v
 *                                                     JOINED --- GO heard ---> OPEN
 *
 *     Any change meanwhile (a path fails, one may work again) goes back to HEARD, and from JOINED
 *     to STOPPED: the peer may have gone on. The peer's new RESYNC goes back to BOTH_TOLD.
 *     The stream ends: DRAINING, until all that has come is given out, then DEAD.
 *     A deadline, a rule that the peer broke, or no path left: DEAD.
 *
 * A path:
 *
 *               its queue pair fails               a try begins
 *     WORKS ------------------------> LOST ------------------------> TRIED
 *       ^                            ^  |  <--- in vain, dropped -----  |
 *       |                           /   | its port is back, the peer    | the message came through
 *       | both go on         fails /    v says so                       v
 *     RENEWED --------------------'  HOPEFUL <--------------------------'
 *       ^  |                            |  ^
 *       |  '-- both go on without it ---|--'
 *       '------- both make it anew -----'      (LOST as well, if no path is left)
 */
#ifndef WRING_VERBS_STATES_H
#define WRING_VERBS_STATES_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/providers/verbs/handshake.h"

/** Of a connection. They are compared: what comes later in a life is greater. */
enum verbs_state {
    VERBS_CONNECTING = 1, /* TCP */
    VERBS_AUTH,           /* proving the key */
    VERBS_OFFER,          /* which rails there are */
    VERBS_CARDS,          /* the queue pairs' addresses */
    VERBS_READY,          /* our queue pairs are ready, the peer's word that its are, is awaited */
    VERBS_OPEN,
    VERBS_STOPPED,      /* nothing is posted; RESYNC is to be said, and to be heard */
    VERBS_HEARD,        /* the peer's RESYNC is there, ours is to be said */
    VERBS_TOLD,         /* ours is said, the peer's is to be heard */
    VERBS_BOTH_TOLD,    /* both are; they may differ */
    VERBS_RESUMED,      /* they agree, and we said RESUME */
    VERBS_ANSWERED,     /* they agree, and the peer said RESUME */
    VERBS_BOTH_RESUMED, /* both did: new queue pairs are to be connected */
    VERBS_JOINED,       /* they are, and we said GO */
    VERBS_DRAINING,     /* the stream ended; what has come is still to be handed out */
    VERBS_DEAD,
    VERBS_STATES
};

enum verbs_event {
    /* the peer's words, numbered as enum verbs_word; RESUME and GO only if they follow from the
     * last RESYNC of both: others were overtaken */
    VERBS_ON_OFFER = VERBS_WORD_OFFER,
    VERBS_ON_CARDS = VERBS_WORD_CARDS,
    VERBS_ON_READY = VERBS_WORD_READY,
    VERBS_ON_RESYNC = VERBS_WORD_RESYNC,
    VERBS_ON_RESUME = VERBS_WORD_RESUME,
    VERBS_ON_GO = VERBS_WORD_GO,
    VERBS_ON_TRY = VERBS_WORD_TRY,
    /* our own */
    VERBS_ON_REACHED, /* the TCP connection stands */
    VERBS_ON_PROVED,  /* both know the key */
    VERBS_ON_CHANGE,  /* a path failed, or may work again: what was said is not so any more */
    VERBS_ON_TOLD,    /* we said RESYNC */
    VERBS_ON_RESUMED, /* we said RESUME */
    VERBS_ON_JOINED,  /* new queue pairs are connected, we said GO */
    VERBS_ON_LEFT,    /* the stream has ended */
    VERBS_ON_FAILED,  /* something is wrong beyond one path, or a deadline has passed */
    VERBS_ON_DRAINED, /* all that had come is given out */
    VERBS_EVENTS
};

/* Outcomes besides the states. */
#define VERBS_BREACH 64 /* the peer's word has no place here: the connection is to end */
#define VERBS_NEVER 65  /* our own mistake: it cannot happen */

/** @return the next enum verbs_state, VERBS_BREACH or VERBS_NEVER */
unsigned wring_verbs_next(enum verbs_state state, enum verbs_event event);

/** Do both sides agree how to go on? */
static inline bool wring_verbs_is_agreeing(enum verbs_state state)
{
    return state >= VERBS_STOPPED && state <= VERBS_JOINED;
}

/** Of a path. */
enum verbs_path_state {
    VERBS_PATH_WORKS = 1, /* messages take it */
    VERBS_PATH_LOST,      /* its queue pair failed; it rests until it is tried */
    VERBS_PATH_TRIED,   /* by a new queue pair, beside the traffic of others; the dialer does it */
    VERBS_PATH_HOPEFUL, /* to be made anew when both agree how to go on */
    VERBS_PATH_RENEWED, /* it has been, and is taken back once both go on */
    VERBS_PATH_STATES
};

enum verbs_path_event {
    VERBS_PATH_ON_FAIL = 1, /* its queue pair, port or device does not work; or nobody needs it */
    VERBS_PATH_ON_TRY,      /* a try begins */
    VERBS_PATH_ON_VAIN,     /* it came to nothing, or was dropped */
    VERBS_PATH_ON_HOPE,     /* its port is back, a message came through, or the peer hopes */
    VERBS_PATH_ON_RENEW,    /* both make it anew */
    VERBS_PATH_ON_BACK,     /* both go on with it */
    VERBS_PATH_ON_WITHOUT,  /* both go on, with nothing new of it */
    VERBS_PATH_EVENTS
};

/** @return the next enum verbs_path_state, or VERBS_NEVER */
unsigned wring_verbs_path_next(enum verbs_path_state state, enum verbs_path_event event);

/** Is there a queue pair whose failure would be news? */
static inline bool wring_verbs_path_is_live(enum verbs_path_state state)
{
    return state == VERBS_PATH_WORKS || state == VERBS_PATH_RENEWED;
}

/** Of the dead paths those that both said they could make anew. */
static inline uint32_t wring_verbs_both_renew(const struct verbs_resync_word *mine,
                                              const struct verbs_resync_word *peer)
{
    return mine->renew & peer->renew;
}

/** Both say that the same paths are dead, and there are others or new ones. @param all  a bit each
 */
static inline bool wring_verbs_words_agree(const struct verbs_resync_word *mine,
                                           const struct verbs_resync_word *peer, uint32_t all)
{
    return mine->dead == peer->dead && (mine->dead & ~wring_verbs_both_renew(mine, peer)) != all;
}

/** Paths that the connection has, at least one of them dead, and only dead ones to be made anew. */
static inline bool wring_verbs_resync_is_sound(const struct verbs_resync_word *word, uint32_t all)
{
    return ((word->dead | word->renew) & ~all) == 0 && (word->renew & ~word->dead) == 0 &&
           word->dead != 0;
}

#endif
