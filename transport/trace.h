/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A record of a session's events and their times. Room for it is made at the beginning; adding to
 * it allocates nothing and takes no lock. A NULL trace records nothing.
 */
#ifndef WRING_TRANSPORT_TRACE_H
#define WRING_TRANSPORT_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <wring/status.h>

/*
 * How far this rank's clock is ahead of rank 0's, at any time of a session.
 *
 * This rank asks, rank 0 answers with its time. It read that between the moments at which we sent
 * the question and heard the answer, so every answer is an interval that surely holds the offset:
 *
 *     sent - theirs  <=  ahead  <=  heard - theirs
 *
 * whatever the ways there and back took, and however unequal they were. No clock drifts faster than
 * WRING_CLOCK_DRIFT, so an interval holds for other times too when it is widened by that much. At
 * any time all intervals together leave one, and the truth is no farther from its middle than its
 * ends: an error that is known, not guessed. Source: Marzullo's intersection, as NTP (RFC 5905)
 * selects clocks by it.
 *
 * Asked and answered by the thread that makes progress; n_heard may be read by any.
 */

#define WRING_CLOCK_SAMPLES 1024u
#define WRING_CLOCK_DRIFT 500e-6 /* of two clocks: the most by which a kernel bends its own */

/** At our time at_ns, ours was so much ahead. */
struct wring_clock_sample {
    uint64_t at_ns;
    int64_t low_ns, high_ns;
};

struct wring_clocks {
    struct wring_clock_sample samples[WRING_CLOCK_SAMPLES]; /* [n], in the order of time */
    uint32_t n;
    uint32_t number;   /* of the last question */
    uint64_t asked_ns; /* when it was sent; 0: it is answered, or given up */
    uint64_t next_ns, every_ns;
    bool same;           /* settled: nothing speaks against one clock for both, as on one host */
    atomic_uint n_heard; /* answers, so far */
};

/** The estimate for a time. */
struct wring_clock_ahead {
    int64_t ns, error_ns; /* the truth is within error_ns of ns */
};

void wring_clocks_init(struct wring_clocks *clocks);

/** When it is time for another question. */
uint64_t wring_clocks_next(const struct wring_clocks *clocks);

/** A question is sent now. @return its number, which the answer bears */
uint32_t wring_clocks_asked(struct wring_clocks *clocks, uint64_t now_ns);

/** An answer was heard. Others than the last question's, and those out of reason, are ignored. */
void wring_clocks_answered(struct wring_clocks *clocks, uint32_t number, uint64_t theirs_ns,
                           uint64_t now_ns);

/** After the last answer: let every sample profit from all others. */
void wring_clocks_settle(struct wring_clocks *clocks);

/** Of settled ones, for our time at_ns. @return false where nothing was heard */
bool wring_clocks_ahead(const struct wring_clocks *clocks, uint64_t at_ns,
                        struct wring_clock_ahead *out);

enum wring_trace_kind {
    WRING_TRACE_STEP,   /* one operation, from when it was begun to its end */
    WRING_TRACE_ENCODE, /* work on one piece */
    WRING_TRACE_REDUCE,
    WRING_TRACE_DECODE,
    WRING_TRACE_SEND,   /* one piece to those who get it, until its memory is free again */
    WRING_TRACE_ARRIVE, /* a piece has come from a peer; takes no time */
    WRING_TRACE_WAIT,   /* a thread of the application's waited */
};

struct wring_trace_event {
    uint64_t begin_ns, took_ns;
    uint64_t bytes;  /* SEND, ARRIVE: on the wire; else 0 */
    uint32_t label;  /* of the bucket: wring_trace_label() */
    int32_t peer;    /* ARRIVE: from which rank; else -1 */
    uint64_t number; /* of the piece; of the step for STEP, ARRIVE and WAIT */
    enum wring_trace_kind kind;
};

struct wring_trace {
    char **labels; /* [n_labels] */
    uint32_t n_labels;
    size_t capacity;
    atomic_size_t n; /* that were to be added, also those beyond capacity */
    struct wring_trace_event *events;
    struct wring_clocks clocks; /* this rank's and rank 0's */
};

enum wring_status wring_trace_create(size_t capacity, struct wring_trace **out);
void wring_trace_destroy(struct wring_trace *trace);

/** A number for a bucket's name, the same for the same name; 0 without a trace. Setup only. */
uint32_t wring_trace_label(struct wring_trace *trace, const char *name);

/** Threads: safe. Events that do not fit are counted and dropped. */
void wring_trace_add(struct wring_trace *trace, const struct wring_trace_event *event);

#endif
