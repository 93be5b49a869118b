/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Who is left: after a failure the ranks of a session agree, over the control tree and without a
 * master, which of them go on together. WIRE.md "Who is left" has the messages.
 *
 * The tree's root leads; whoever becomes root leads then. It asks all ranks to come to a round. A
 * rank that comes hears no earlier round any more. The root names those who came, who build a
 * session together. Once all of them have, it settles that. A rank that is lost meanwhile makes a
 * new round necessary. There the root has to settle the session of the last round if every rank of
 * that session which comes has built it: somebody may have heard already that it was settled. If
 * one comes that has not built it, it never was.
 *
 * Only a quorum goes on: more than half of the ranks, or half of them with rank 0, or else all but
 * ranks that are gone for certain. Any two quorums share a rank, or one of them is gone, so two
 * sets of ranks never both go on.
 *
 * Used by the thread that makes progress, or with the engine locked.
 */
#ifndef WRING_TRANSPORT_MEMBERSHIP_H
#define WRING_TRANSPORT_MEMBERSHIP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/interface.h"

#define WRING_MEMBERSHIP_RANGES 8 /* of ranks that stay behind, as a message has room for them */
#define WRING_MEMBERSHIP_HOSTS 4  /* ranks at whose doors newcomers are let in at a time */
#define WRING_MEMBERSHIP_GUESTS 64
#define WRING_MEMBERSHIP_TEXT 200

struct wring_control;
struct wring_engine;

enum wring_membership_state {
    WRING_MEMBERSHIP_AWAY = 0, /* this rank's program has not come yet */
    WRING_MEMBERSHIP_WAITS,    /* for a session to build */
    WRING_MEMBERSHIP_BUILDS,   /* `plan` */
    WRING_MEMBERSHIP_BUILT,    /* it has; the others are to, too */
    WRING_MEMBERSHIP_SETTLED,  /* `built` is the session that goes on */
    WRING_MEMBERSHIP_ENDED,    /* this rank does not go on: `text` says why */
};

/** Ranks that go on together, and where they meet. */
struct wring_membership_plan {
    uint64_t round; /* 0: there is none */
    uint64_t nonce; /* tells their meeting from others */
    char address[WRING_INTERFACE_ADDRESS];
    uint16_t port;
    uint32_t guests; /* newcomers, who get the numbers behind those of the ranks */
    uint32_t n_hosts;
    struct wring_membership_host {
        uint32_t rank, guests; /* who knocked at that rank's door; in the order of their numbers */
    } hosts[WRING_MEMBERSHIP_HOSTS];
    uint32_t n_ranges;
    struct wring_membership_range {
        uint32_t first, last;
    } behind[WRING_MEMBERSHIP_RANGES]; /* ranks that stay behind, rising */
};

/** Of an engine. Zeroed at first. */
struct wring_membership {
    enum wring_membership_state state;
    uint8_t *marks;         /* [size] what is known of ranks; NULL: nobody has come */
    atomic_ullong promised; /* the round that this rank has come to */
    uint64_t called;        /* the highest round that any rank was called to */
    struct wring_membership_plan plan, built;
    atomic_uint changes; /* grows with state and promised */
    uint64_t said_ns;    /* when this rank last repeated what it has to say */
    char address[WRING_INTERFACE_ADDRESS];
    uint32_t guests; /* at this rank's door, until they were told */
    struct wring_membership_host hosts[WRING_MEMBERSHIP_HOSTS]; /* the root: who has some */
    uint32_t n_hosts;
    uint16_t port;                     /* where this rank listens, should it lead */
    uint64_t late_ns;                  /* when the root goes on without those who have not come */
    uint64_t seek_ns;                  /* when the root looks for those next */
    bool leads;                        /* the round that was promised */
    bool named;                        /* and has named those who came */
    struct wring_membership_plan best; /* of the latest round that any who came has built */
    bool alone_told;                   /* that they are no quorum was logged */
    char text[WRING_MEMBERSHIP_TEXT];
};

/**
 * This rank's program comes. Nothing of the session's touches memory of other ranks any more.
 * @param address, port  where this rank listens, should it lead
 * @param guests         newcomers at this rank's door; they come in if no rank is lost
 * @param late_ns        until when a root waits for ranks that live and do not come
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_membership_come(struct wring_engine *engine, const char *address,
                                        uint16_t port, uint32_t guests, uint64_t late_ns);

/** It has built the session of that round. */
void wring_membership_has_built(struct wring_engine *engine, uint64_t round);

/** It could not, for a reason that may pass: another round is needed. */
void wring_membership_try_again(struct wring_engine *engine, uint64_t round);

/** It gives up. The others go on without it. */
void wring_membership_quit(struct wring_engine *engine);

/** The new number of a rank, or UINT32_MAX: it stays behind. @param size  out, how many go on */
uint32_t wring_membership_number(const struct wring_membership_plan *plan, uint32_t rank,
                                 uint32_t ranks, uint32_t *size);

/** The number of the first newcomer at that rank's door. @param n  out, how many of them come in */
uint32_t wring_membership_guests(const struct wring_membership_plan *plan, uint32_t rank,
                                 uint32_t ranks, uint32_t *n);

/** A rank speaks. */
void wring_membership_heard(struct wring_engine *engine, uint32_t from,
                            const struct wring_control *control);

/** Say again what may have been missed; lead, if it is on this rank to. */
void wring_membership_poll(struct wring_engine *engine);

/** When that has something to do. */
uint64_t wring_membership_deadline(const struct wring_engine *engine);

/** For error messages: a rank that lives and has not come; UINT32_MAX: there is none. */
uint32_t wring_membership_missing(const struct wring_engine *engine);

void wring_membership_finish(struct wring_membership *membership);

#endif
