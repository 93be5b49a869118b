/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Where ranks are: which collective each has posted last, whether it waits in it, and who is
 * behind.
 *
 * Once a job fails, every rank says where it was, before its calls end. Its row goes up the control
 * tree to the root, which logs a table. A rank that has lost a neighbour there says so in its
 * place; one that gets another parent repeats what it knows. All keep their connections until the
 * root says that it has logged the table, for as long as a failure is told at most.
 *
 * A member of a group may ask, too, as when a call there takes too long for it: the root then asks
 * all ranks, logs the table, and tells all of them in one line who is behind. One question at a
 * time; several ranks that ask for one group at once get one answer.
 *
 * A table names some ranks and counts the others. Used by the thread that makes progress.
 */
#ifndef WRING_TRANSPORT_FLIGHT_H
#define WRING_TRANSPORT_FLIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define WRING_FLIGHT_TEXT 176                       /* of a rank's row */
#define WRING_FLIGHT_LINE 216                       /* of the line that names ranks behind */
#define WRING_FLIGHT_NAMED 16                       /* ranks that have a line of their own */
#define WRING_FLIGHT_NS (400 * WRING_NS_PER_MS)     /* for all ranks to answer */
#define WRING_FLIGHT_SEEK_NS (5 * WRING_NS_PER_MS)  /* until the root looks for silent ranks */
#define WRING_FLIGHT_AGAIN_NS (10 * WRING_NS_PER_S) /* until a group's table is logged again */
#define WRING_FLIGHT_ASKS 8                         /* groups that wait for their turn */

struct wring_collective;
struct wring_control;
struct wring_engine;
struct wring_pairs;

enum wring_flight_state {      /* values are part of the wire format */
    WRING_FLIGHT_NOTHING = 0,  /* it has posted nothing */
    WRING_FLIGHT_WAITS = 1,    /* what it has posted has not ended */
    WRING_FLIGHT_ENDED = 2,    /* all that it has posted has */
    WRING_FLIGHT_ABORTED = 3,  /* what it was in was aborted */
    WRING_FLIGHT_LOST = 4,     /* it is lost */
    WRING_FLIGHT_STRANGER = 5, /* it is no member of the group */
    WRING_FLIGHT_SILENT = 6,   /* it has not said so; this and what follows no rank says */
    WRING_FLIGHT_LEFT = 7,     /* it has closed its session */
};

/** A rank's word of itself, or another one's about it. */
struct wring_flight_row {
    enum wring_flight_state state;
    uint64_t group;  /* that it speaks of: wring_flight_group() */
    uint64_t posted; /* calls and steps of buckets in that, so far */
    uint32_t waited_ms;
    char text[WRING_FLIGHT_TEXT]; /* "call 17, allreduce of 1000 f32, ..." */
};

/** Of an engine. Zeroed at first. */
struct wring_flight {
    struct wring_flight_row *rows; /* [size]; NULL: nobody has asked */
    bool failed;                   /* they are of the job's failure */
    bool settled;                  /* which was logged, by us or by another root */
    uint32_t parent;               /* the rank that we have told; our own: none */
    uint32_t number;               /* the root: of the question under way; 0: none is */
    uint32_t numbers;
    uint64_t group;    /* that it is about */
    uint64_t until_ns; /* when it is answered without those who say nothing */
    uint64_t seek_ns;  /* of the job's failure: when the root looks for those next */
    uint64_t asked[WRING_FLIGHT_ASKS];
    uint32_t n_asked; /* groups after that one */
    uint64_t logged_group, logged_ns;

    atomic_ullong told_group; /* of the last answer */
    atomic_uint told;         /* how many came; written after the rest */
    char line[WRING_FLIGHT_LINE];
};

/** The number of a group here, the same on all of its members; 0: it is still forming. */
uint64_t wring_flight_group(const struct wring_pairs *pairs);

/** Who is behind in a group, of which we are a member? `told` grows with the
 *  answer. */
void wring_flight_ask(struct wring_engine *engine, uint64_t group);

/** The root: close a question that all have answered, or that has taken too long. */
void wring_flight_poll(struct wring_engine *engine);

/** When that has something to do. */
uint64_t wring_flight_deadline(const struct wring_engine *engine);

/** A rank speaks. */
void wring_flight_heard(struct wring_engine *engine, uint32_t from,
                        const struct wring_control *control);

/** The job fails, and the others have been told: say where we are. */
void wring_flight_failing(struct wring_engine *engine);

/** While it does: a neighbour in the control tree is lost. */
void wring_flight_lost(struct wring_engine *engine, uint32_t rank);

/** While it does: the root logs the table, once it is complete or late. @return whether it has been
 *  logged */
bool wring_flight_account(struct wring_engine *engine);

void wring_flight_finish(struct wring_flight *flight);

/** A row as it is sent. @param text  out, [bytes] */
void wring_flight_write(const struct wring_flight_row *row, char *text, size_t bytes);

/** @param text  hostile, printable @param row  out, on success only. @return false: malformed */
bool wring_flight_read(const char *text, struct wring_flight_row *row);

/** Say in one line which ranks are behind. @param rows  [n] @param line  out,
 *  [WRING_FLIGHT_LINE] */
void wring_flight_sum_up(const struct wring_flight_row *rows, uint32_t n, char *line);

/** The table: at most WRING_FLIGHT_NAMED ranks have a line of their own, those behind first.
 *  @param say  is given line by line */
void wring_flight_table(const struct wring_flight_row *rows, uint32_t n,
                        void (*say)(void *arg, const char *line), void *arg);

#endif
