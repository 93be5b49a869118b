/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A collective: one operation of one bucket (or of a group's immediate calls), run again and again.
 *
 * Its owner fills in what it works on, prepares it once, posts it to the engine for each step and
 * waits for its status. Two state machines cover the schemes; codecs are in their path:
 *
 *     sharded    every member sends each shard to its owner, which reduces it in rank order,
 *                encodes the sum and sends it to all       (divisible; raw: "direct")
 *     gathered   every member sends all it has to all, and each reduces in rank order
 *                (indivisible; also broadcast, in which only the root sends, and barrier)
 */
#ifndef WRING_TRANSPORT_COLLECTIVE_H
#define WRING_TRANSPORT_COLLECTIVE_H

#include "transport/engine.h"
#include <wring/codec.h>
#include <wring/executor.h>
#include <wring/types.h>

enum wring_collective_kind {
    WRING_COLLECTIVE_SHARDED,
    WRING_COLLECTIVE_GATHERED,
    WRING_COLLECTIVE_BROADCAST,
};

/** How the elements are cut. Shards and chunks begin at units. */
struct wring_geometry {
    uint64_t elems;
    uint64_t grain;       /* elements between two places where one may cut */
    uint64_t chunk_elems; /* of a full chunk: whole grains */
    uint32_t shards;
};

/** Elements [begin, end). */
struct wring_span {
    uint64_t begin, end;
};

struct wring_geometry wring_geometry_make(uint64_t elems, uint32_t shards,
                                          const struct wring_codec *codec, size_t chunk_bytes);
/** The most elements of a chunk, unless a single grain has more. */
uint64_t wring_geometry_most(size_t chunk_bytes);
struct wring_span wring_geometry_shard(const struct wring_geometry *geometry, uint32_t shard);
uint64_t wring_geometry_chunks(const struct wring_geometry *geometry, struct wring_span span);
struct wring_span wring_geometry_chunk(const struct wring_geometry *geometry,
                                       struct wring_span span, uint64_t chunk);

enum wring_task_state {
    WRING_TASK_FREE,
    WRING_TASK_WORKING, /* its job is with the executor */
    WRING_TASK_SENDING, /* its piece is on the way to one member or to all */
};

enum wring_task_kind {
    WRING_TASK_SEND,   /* encode (or not) and send one piece */
    WRING_TASK_REDUCE, /* reduce one chunk; what comes after depends on the collective */
    WRING_TASK_DECODE,
};

/** A piece in the works. */
struct wring_task {
    struct wring_job job;
    struct wring_collective *collective;
    enum wring_task_kind kind;
    enum wring_task_state state;
    struct wring_source *sources; /* [members] */
    struct wring_span span;
    uint64_t chunk;
    uint32_t member;   /* SEND of sharded, DECODE: whom it concerns */
    uint32_t sequence; /* reserved at the receivers */
    uint32_t *taken;   /* [members] REDUCE, DECODE: sequences of the pieces taken */
    bool held;         /* SEND of gathered: our own reduction still reads the piece */
    uint8_t *slot;     /* where the piece lies that is sent, if it was encoded */
    const void *piece; /* what is sent */
    uint64_t ready_ns; /* since when, if the session is traced */
    size_t piece_bytes;
    bool *put_to; /* [members] */
    uint32_t puts_left, puts_under_way;
};

struct wring_collective_ops {
    const char *name;
    void (*start)(struct wring_collective *collective);
    /** Do all that can be done now; call wring_engine_finish() at the end. */
    void (*advance)(struct wring_collective *collective);
    void (*job_done)(struct wring_collective *collective, struct wring_task *task);
    /** Can this step not be completed without hearing more from, or sending more to, a member? */
    bool (*needs)(const struct wring_collective *collective, uint32_t member);
};

/** What all steps so far took. Written by the thread that makes progress. */
struct wring_cost {
    uint64_t wire_bytes, exchange_ns, codec_ns;
};

struct wring_collective {
    /* what it is; set by the owner before wring_collective_prepare() */
    struct wring_engine *engine;
    const struct wring_collective_ops *ops;
    struct wring_members members;
    uint32_t bucket; /* id */
    uint32_t label;  /* its name in the trace */
    uint64_t seed;
    int32_t priority;
    const struct wring_codec *codec; /* NULL: raw float32; perhaps another for the way back */
    struct wring_channel *scatter;   /* sharded: to the owners */
    struct wring_channel *gather;    /* to all */
    struct wring_block *data_block;  /* where data lies, if registered; else NULL */
    float *residual;                 /* [elems] or NULL */
    uint32_t send_tasks, reduce_tasks, decode_tasks;
    size_t slot_bytes;         /* of one encoded piece */
    struct wring_block *slots; /* registered memory for pieces to be sent */
    uint8_t *slots_base;       /* [send_tasks + reduce_tasks][stride] in it */
    void (*finished)(struct wring_collective *collective); /* called by the engine; may be NULL */
    void *owner;

    /* what this step works on; set before each post if it changes */
    struct wring_geometry geometry;
    float *data; /* [elems] */
    float divisor;
    uint32_t root; /* broadcast: member */
    bool sync;     /* barrier: exchange something even if there are no elements */
    bool placed;   /* sharded: the sum of each shard goes straight into everyone's data */

    /* the engine's and the state machine's */
    atomic_int status; /* enum wring_status; WRING_ERR_AGAIN while under way */
    struct wring_collective *next_posted, *next_active;
    bool runnable, blocked;
    uint64_t step;
    uint64_t started_ns;
    struct wring_cost cost;
    struct wring_task *tasks; /* sends, then reduces, then decodes */
    uint64_t *sent;           /* [n] sharded: chunks begun per shard */
    uint64_t *decoded;        /* [n] chunks begun */
    uint32_t *arrivals;       /* [n] placed: count of arrivals when this step is complete */
    uint64_t reduced;         /* chunks begun */
    uint64_t encoded;         /* gathered: chunks begun */
    uint32_t busy;            /* tasks not free */
};

extern const struct wring_collective_ops wring_sharded;
extern const struct wring_collective_ops wring_gathered;
extern const struct wring_collective_ops wring_broadcast_ops;

/** For the session's trace; nothing happens without one. */
void wring_collective_trace_step(const struct wring_collective *collective, uint64_t took_ns);
void wring_collective_trace_job(const struct wring_task *task);
void wring_collective_trace_sent(const struct wring_task *task);
void wring_collective_trace_arrived(const struct wring_collective *collective, uint32_t rank,
                                    size_t bytes);

/** Allocate what a collective needs for its steps. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_collective_prepare(struct wring_collective *collective);

/** Free what prepare allocated. Zeroed memory is fine. */
void wring_collective_finish(struct wring_collective *collective);

/** Bytes of send slots that prepare will cut from slots_base. */
size_t wring_collective_slot_memory(const struct wring_collective *collective);

/* What the state machines share. */

/** A free task of that kind, or NULL. */
struct wring_task *wring_collective_task(struct wring_collective *collective,
                                         enum wring_task_kind kind);
void wring_collective_free_task(struct wring_task *task);

/** Make the piece of data[span]: encode it into the task's slot; a raw one is ready at once. */
void wring_collective_encode(struct wring_task *task, struct wring_span span);

/** The task's piece is ready and goes to `puts` members. */
void wring_collective_ready(struct wring_task *task, const void *piece, size_t bytes,
                            uint32_t puts);

/** Begin the reduction of all members' pieces of a span; `own` is ours. Takes the pieces. */
void wring_collective_reduce(struct wring_task *task, struct wring_channel *channel,
                             struct wring_span span, struct wring_source own);

/** Every other member's next piece lies in the channel. */
bool wring_collective_all_arrived(const struct wring_collective *collective,
                                  const struct wring_channel *channel);

/** Give back what a REDUCE took. */
void wring_collective_release_all(struct wring_task *task, struct wring_channel *channel);

/** Put all pieces that are ready and can go. @return true if one went */
bool wring_collective_send(struct wring_collective *collective);

/** A put of a task's piece completed. */
void wring_collective_put_done(struct wring_task *task);

/** A member whose piece is being waited for, or members.n. */
uint32_t wring_collective_missing(const struct wring_collective *collective);

/** The codec context of a span. */
struct wring_codec_context wring_collective_context(const struct wring_collective *collective,
                                                    struct wring_span span, uint32_t phase);

#endif
