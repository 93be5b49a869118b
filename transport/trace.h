/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A record of what a session did and when. Room for it is made at the beginning; adding to it
 * allocates nothing and takes no lock. A NULL trace records nothing.
 */
#ifndef WRING_TRANSPORT_TRACE_H
#define WRING_TRANSPORT_TRACE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "transport/clocks.h"
#include <wring/status.h>

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

/** Threads: safe. What does not fit is counted and dropped. */
void wring_trace_add(struct wring_trace *trace, const struct wring_trace_event *event);

#endif
