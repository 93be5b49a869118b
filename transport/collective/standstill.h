/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A step in which nobody can move: all members have begun it or are past it, each is alive, and
 * each waits for another one. It cannot happen while wring is right; where it does, it is found and
 * named, and not slept through.
 *
 * A member that waits and has not moved for WRING_HEARTBEAT says so to all others, and again after
 * each heartbeat: what it has sent to each and what has come from it, what it waits for, and how
 * often in a row it has found that all others stand still as well. It finds that where each of them
 * has said so since, in answer to its own statement, of the same step. Nothing may be under way
 * between the two, either: all that one has sent has come to the other. A member that is past the
 * step says so when it is told of it. Once a member and all others have found it
 * WRING_STANDSTILL_CONFIRMATIONS times in a row, the job fails with a line that says which rank
 * waits for which piece or credit of which other.
 *
 * Where a member exchanges with a few others alone, it says so to these alone, and finds it once
 * more than the least of them has. As the word of one that moves, or says nothing, needs as many
 * turns as there are members in a row that wait for one another, so many more are needed.
 *
 * So a rank that has not posted, that computes, or makes no progress, says nothing and is waited
 * for; two members whose link moves, however slowly, do not agree.
 *
 * Used by the thread that makes progress, and only where nothing moves.
 */
#ifndef WRING_TRANSPORT_STANDSTILL_H
#define WRING_TRANSPORT_STANDSTILL_H

#include <stdbool.h>
#include <stdint.h>

#define WRING_STANDSTILL_CONFIRMATIONS 5
#define WRING_STANDSTILL_CHANNELS 2 /* the scatter channel and the gather channel */

struct wring_collective;

enum wring_standstill_want { /* values are part of the wire format */
    WRING_WANTS_NOTHING = 0,
    WRING_WANTS_CREDIT = 1,
    WRING_WANTS_PIECE = 2,
};

/** A member's statement about itself, to another one. */
struct wring_statement {
    uint32_t step;  /* steps begun since the commit, or calls of the group */
    bool active;    /* the last of them has not ended */
    uint32_t epoch; /* changes with all that it does */
    uint32_t echo;  /* the other's, as it was heard last */
    uint32_t found; /* so often in a row: nobody moves */
    struct {
        uint32_t puts, arrivals; /* to the other, and from it */
    } channels[WRING_STANDSTILL_CHANNELS];
    enum wring_standstill_want want;
    uint32_t rank, number; /* it wants that of this rank; which one */
};

/** Of one collective. Zeroed at first. */
struct wring_standstill {
    struct wring_standstill_other {
        struct wring_statement said;
        bool heard; /* since we last looked */
    } * others;     /* [members] */
    uint32_t step, epoch, found;
    uint64_t sign;    /* of the progress in this step */
    uint64_t look_ns; /* when to look again */
};

/** A step waits: look whether anybody moves, if it is time to. It may fail the job. */
void wring_standstill_look(struct wring_collective *collective, uint64_t now_ns);

/** A member speaks of its step number `step`. @param text  hostile, printable */
void wring_standstill_heard(struct wring_collective *collective, uint32_t member, uint32_t step,
                            const char *text);

#endif
