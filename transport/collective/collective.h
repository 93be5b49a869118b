/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A collective: one operation of one bucket (or of a group's immediate calls), run again and again.
 *
 * Its owner fills in its work, prepares it once, posts it to the engine for each step and waits for
 * its status. Ten state machines cover the algorithms (algorithm_select.h); codecs are in their
 * path. "In order" means the order of compress/reduce.h for so many members.
 *
 *     allreduce_two_shot   every member sends each shard to its owner, which reduces it in order,
 *                          encodes the sum and sends it to all (divisible; raw: "direct"); or
 *                          keeps it: reduce-scatter
 *     allreduce_one_shot   every member sends all it has to all, and each reduces in order
 *                          (indivisible). A reduce is one of both, of which the root alone has
 *                          the result
 *     allreduce_eager      the same for small raw contributions, in one piece; also the barrier.
 *                          Where members map each other's memory (shm_flags.h) the engine has
 *                          nothing to do with most steps
 *     allreduce_doubling   members exchange two by two what they have summed so far, log2 of their
 *                          number times: all of it, or halves (raw, more than eight members); also
 *                          their barrier. A reduce of so many goes the same way, up to the root
 *     allreduce_ring       members pass on partial sums, and then sums, to the next one (raw)
 *     allgather_alltoall   pieces go from member to member as they are: allgather, broadcast (an
 *                          allgather to which the root alone contributes), alltoall, gather and
 *                          scatter (alltoalls of which only the root takes anything, or
 *                          contributes)
 *
 *     broadcast_tree       a raw broadcast among more than eight members, from member to member
 *     allreduce_bruck      a coded one of so many, whose small codes travel through other members
 *     relay                small raw allgathers, alltoalls, gathers and scatters of so many
 *
 * and one drives others, its legs: hierarchical (hierarchical.h).
 */
#ifndef WRING_TRANSPORT_COLLECTIVE_COLLECTIVE_H
#define WRING_TRANSPORT_COLLECTIVE_COLLECTIVE_H

#include <sched.h>
#include <stdint.h>

#include "transport/codec_error_stats.h"
#include "transport/collective/algorithm_select.h"
#include "transport/collective/coding.h"
#include "transport/collective/op_check.h"
#include "transport/collective/partition.h"
#include "transport/collective/shm_flags.h"
#include "transport/collective/standstill.h"
#include "transport/engine.h"
#include <wring/codec.h>
#include <wring/executor.h>
#include <wring/types.h>

/*
 * More ranks than cores, and one core has two ranks more than another: that holds for long, as a
 * scheduler that shares time out fairly sees nothing amiss among threads which all give way. A step
 * takes as long as the fullest core's turns, so one of that core's ranks moves itself.
 *
 * Threads: safe.
 */

/**
 * @param cores   [n] of each member, + 1; 0: unknown. Hostile
 * @param me      whose core is cores[me]
 * @param usable  by us
 * @return the core to go to: the emptiest, the first of these, if it has at least two members less
 *         than ours and we are our core's last member. -1: stay. -1 also if any is unknown
 */
int wring_core_balance_choose(const uint32_t *cores, uint32_t n, uint32_t me,
                              const cpu_set_t *usable);

/** Have this thread go on there; which cores it may use stays what it is. A refusal is no harm. */
void wring_core_balance_move(int core, const cpu_set_t *usable);

#define WRING_STEPS_PER_TIMED 8    /* of small steps */
#define WRING_EVERYBODY UINT32_MAX /* where a member is named: all of them */

enum wring_task_state {
    WRING_TASK_FREE,
    WRING_TASK_WORKING, /* a job of its own is to come, or with the executor */
    WRING_TASK_SENDING, /* its piece is on the way to one member or to all */
};

enum wring_task_kind {
    WRING_TASK_SEND,   /* encode (or not) and send one piece */
    WRING_TASK_REDUCE, /* reduce one chunk; what comes after depends on the collective */
    WRING_TASK_DECODE, /* or copy one */
};

/** A piece in the works. */
struct wring_task {
    struct wring_job job;
    struct wring_collective *collective;
    enum wring_task_kind kind;
    enum wring_task_state state;
    bool has_job;                 /* the executor has it, whatever `state` says */
    struct wring_source *sources; /* [members] */
    void **copies;                /* [members] direct: where the sum lies at the others */
    struct wring_span span;
    uint64_t chunk;
    uint32_t member;   /* SEND, REDUCE: gets the piece; DECODE: has sent it */
    uint32_t sequence; /* reserved at the receivers */
    uint32_t *taken;   /* [members] REDUCE, DECODE: sequences of the pieces taken */
    bool held;         /* SEND: we ourselves still read the piece */
    bool in_place;     /* it goes to one member, to where it belongs in the data */
    bool encoded;      /* REDUCE: the result is to be */
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
    /** Do what can be done now, or as much as a turn holds: then stay runnable. Call
     *  wring_engine_finish() at the end. */
    void (*advance)(struct wring_collective *collective);
    void (*job_done)(struct wring_collective *collective, struct wring_task *task);
    /** Is there more to send to that member in this step? */
    bool (*owes)(const struct wring_collective *collective, uint32_t member);
    /** Does this step stand still until that member sends more? */
    bool (*awaits)(const struct wring_collective *collective, uint32_t member);
};

/** The work of a step; set before a post if it changes. */
struct wring_work {
    enum wring_algorithm algorithm;
    const struct wring_collective_ops *ops; /* that run it: wring_work_set_algorithm() */
    struct wring_op_check call;             /* if the collective has calls */
    struct wring_partition partition;
    const struct wring_codec *codec; /* NULL: raw; perhaps another for the way back */
    struct wring_coding *coding;     /* what the codec needs besides; NULL: nothing */
    enum wring_dtype dtype;
    enum wring_op op;
    struct wring_memory_place place; /* of in and out */
    const void *in;                  /* what we contribute, from element in_origin on */
    void *out; /* what we end with, from element out_origin on; in place: the same as in */
    uint64_t in_origin, out_origin;
    const struct wring_block *in_block,
        *out_block;        /* registered memory that pieces are sent from as
                              they are: what we contribute, sums; or NULL */
    uint64_t result_bytes; /* of out, for the call's result */
    void *memory;          /* of malloc(): a call's own, in which in may lie; or NULL */
    void *scratch; /* that pieces are sent from; borrowed. Doubling: partial sums, from element 0
                      on, where they are not made in `out`. Else: blocks */
    size_t scratch_bytes;
    int32_t priority;           /* of a call */
    uint32_t root;              /* alltoall: the one member that contributes, or WRING_EVERYBODY */
    bool to_all;                /* alltoall: one piece goes to all, not one to each */
    uint32_t ranks;             /* that an average is over; 0: the members */
    bool sync;                  /* flat: send something even if there are no elements */
    bool in_staged, out_staged; /* raw pieces are copied into slots: a device cannot send from where
                                   they lie */

    bool to_root; /* all contribute, and the root alone takes anything */
    /* elements of runs of any lengths, [members]; borrowed from the caller until the call has ended
     */
    const uint64_t *in_runs;    /* of `in`; NULL: there are none */
    const uint64_t *out_runs;   /* of `out`; NULL: the same */
    const uint64_t *out_begins; /* where these begin: wring_collective_lay_out() */
};

static inline void wring_work_set_algorithm(struct wring_work *work, enum wring_algorithm algorithm)
{
    work->algorithm = algorithm;
    work->ops = wring_algorithms[algorithm].ops;
}

/** Bytes and times of the steps so far. Written by the thread that makes progress. */
struct wring_steps_cost {
    uint64_t wire_bytes;
    uint64_t steps_ns, codec_ns, timed; /* of so many steps that were timed */
};

/**
 * An early end of all collectives of a group, and the threads that still write into members' memory
 * past the engine. The thread that ends them sets `status` and then looks at `writing`. A writing
 * thread adds itself to `writing` and then looks at `status`.
 */
struct wring_cease {
    atomic_int status;   /* how all steps end from now on; WRING_OK: as they do */
    atomic_uint writing; /* threads of ours */
};

struct wring_collective {
    /* what it is; set by the owner before wring_collective_prepare() */
    struct wring_engine *engine;
    struct wring_cease *cease; /* of its group, borrowed; NULL: its steps end by themselves alone */
    struct wring_executor_queue *queue; /* runs its jobs; NULL: the engine's first one */
    struct wring_members members;
    uint32_t bucket;  /* id */
    uint32_t label;   /* its name in the trace */
    const char *name; /* of the bucket; NULL: calls */
    uint64_t seed;
    int32_t priority;
    struct wring_channel *scatter;     /* to one member, another piece to each */
    struct wring_channel *gather;      /* to all */
    struct wring_op_history *calls;    /* those of a group; NULL: all ranks agreed on the bucket */
    struct wring_shm_flags *shm_flags; /* for flat steps; NULL: these use channels, too */
    bool watched;    /* its steps end without a caller's test: the engine runs shm_flags ones */
    float *residual; /* [elems] or NULL */
    struct wring_memory_place residual_place;
    void *const *states;         /* of the codec, from the whole bucket's element 0 on; or NULL */
    struct wring_levels *levels; /* hierarchical: its legs; else NULL */
    struct wring_collective *whole; /* that it is a leg of: costs count there; NULL: it is none */
    uint64_t first;                 /* of the bucket's elements, that is its own first one */
    uint64_t rows, columns;         /* of the whole bucket; 0: it is no matrix */
    uint32_t send_tasks, reduce_tasks, decode_tasks;
    size_t slot_bytes;         /* of one piece that is encoded or staged */
    struct wring_block *slots; /* registered memory for pieces to be sent */
    uint8_t *slots_base;       /* [send_tasks + reduce_tasks][stride] in it */
    /** Called by the engine, which has set the status: it may be posted again. NULL: nobody is
     *  told */
    void (*finished)(struct wring_collective *collective, enum wring_status status);
    void *owner;
    struct wring_work work;

    /* the engine's and the state machine's */
    atomic_int status; /* enum wring_status; WRING_ERR_AGAIN while under way */
    struct wring_collective *next_posted, *next_active;
    struct wring_collective *next_listed, **link; /* of the engine's; NULL: it is not prepared */
    bool runnable, blocked;
    uint32_t begun; /* steps, since it was prepared */
    bool running;   /* the last of them has not ended */
    struct wring_standstill standstill;
    bool waiting; /* it was seen to */
    bool timed;   /* this step is: to read clocks takes as long as a small collective */
    uint64_t step;
    uint64_t ended;      /* the last one as so many-eth of the engine; 0: past the engine */
    uint64_t started_ns; /* if it is not timed, when it was first seen to wait; 0: not yet */
    struct wring_steps_cost cost;
    struct wring_codec_error_stats error_stats;
    struct wring_task *tasks; /* sends, then reduces, then decodes */
    uint8_t *task_arrays;     /* what they have for each member */
    uint64_t *sent;           /* [n] chunks begun for each member; those for all count as our own */
    uint64_t *decoded;        /* [n] chunks begun, of each member */
    uint32_t *arrivals;       /* [n] placed: count of arrivals when this step is complete */
    uint64_t reduced;         /* chunks begun */
    bool all_ready;           /* direct: everyone's contribution to our shard is */
    uint32_t busy;            /* tasks not free */

    float *sums; /* [reduce_tasks][sum_elems] or NULL: where sums of codes are made that
                    another one is to have; they travel from slots */
    uint64_t sum_elems;
    void *scratch;    /* of a bucket's work; else NULL */
    uint64_t *begins; /* [2][n + 1] with calls: of runs of any lengths, in and out */
};

extern const struct wring_collective_ops wring_allreduce_two_shot;
extern const struct wring_collective_ops wring_allreduce_one_shot;
extern const struct wring_collective_ops wring_allreduce_eager;
extern const struct wring_collective_ops wring_allreduce_doubling;
extern const struct wring_collective_ops wring_reduce_tree; /* by the same exchanges */
extern const struct wring_collective_ops wring_allreduce_ring;
extern const struct wring_collective_ops wring_allreduce_shm_flags;
extern const struct wring_collective_ops wring_allgather_alltoall;
extern const struct wring_collective_ops wring_broadcast_tree;
extern const struct wring_collective_ops wring_relay;
extern const struct wring_collective_ops wring_allreduce_bruck;
extern const struct wring_collective_ops wring_round_job, wring_round_gathered; /* coding.h */
extern const struct wring_collective_ops wring_hierarchical;

/** Does this member get the result? */
static inline bool wring_collective_ends_here(const struct wring_collective *collective)
{
    return !collective->work.to_root || collective->work.root == collective->members.me;
}

/* Members that exchange partial sums two by two. */

#define WRING_NO_PARTNER UINT32_MAX

/** A member exchanges with so many others at most. @param n  members */
static inline uint32_t wring_partners_most(uint32_t n)
{
    return 32 - (uint32_t)__builtin_clz(n);
}

/* Members that exchange codes after Bruck: 2^k on, for each k. */

/** @param n  members */
static inline uint32_t wring_bruck_most(uint32_t n)
{
    return n > 1 ? 32 - (uint32_t)__builtin_clz(n - 1) : 0;
}

/** Bytes of the largest message. @param code  bytes of the largest code */
size_t wring_bruck_message_bytes(uint32_t members, size_t code);

/** Scratch memory that it needs; 0: the work's algorithm is another. */
size_t wring_bruck_scratch_bytes(const struct wring_work *work, uint32_t members);

/** Those that send to a member, in a bucket. */
struct wring_senders {
    uint32_t most; /* so many, or less */
    /* which one of those that send to `me` a member is: below that. WRING_NO_PARTNER: it is none */
    uint32_t (*place)(uint32_t n, uint32_t me, uint32_t member);
};

struct wring_senders wring_senders_of(enum wring_algorithm algorithm, uint32_t n);

/** Does this step exchange anything with that other member? Word that travels along these pairs
 * alone comes to all members. */
bool wring_collective_pairs_with(const struct wring_collective *collective, uint32_t member);

/** The first such member that is `from` or above; members.n: there is none. Where a member
 * exchanges with a few others, to go through them takes no longer than they are many, squared. */
uint32_t wring_collective_next_pair(const struct wring_collective *collective, uint32_t from);

/** What a member's step over connections will come to, before it begins. */
struct wring_collective_traffic {
    uint32_t partners; /* members that it exchanges with */
    uint64_t messages; /* that it sends, credits not counted */
};

/** Of an allreduce. Of the collective its members and work are looked at. */
struct wring_collective_traffic wring_collective_traffic(const struct wring_collective *collective);
struct wring_collective_traffic wring_doubling_traffic(const struct wring_collective *collective);
struct wring_collective_traffic wring_ring_traffic(const struct wring_collective *collective);

/** Have chunks of a ring's work so short that a block has several. */
void wring_ring_cut(struct wring_partition *partition);

/** Scratch memory that a relay needs; 0: the work's algorithm is none. */
size_t wring_relay_scratch_bytes(const struct wring_work *work, uint32_t members);

/** Bytes that wring_collective_prepare() allocates for so many members and tasks. */
size_t wring_collective_state_bytes(uint32_t members, uint32_t tasks);

/** Where its costs and losses count. */
static inline struct wring_collective *wring_collective_whole(struct wring_collective *collective)
{
    return collective->whole != NULL ? collective->whole : collective;
}

/** One that was timed has ended. */
void wring_collective_add_cost(struct wring_collective *collective);

/** How its steps end from now on, where they are to end early; else WRING_OK. */
static inline enum wring_status wring_collective_ceased(const struct wring_collective *collective)
{
    return collective->cease != NULL ? (enum wring_status)atomic_load_explicit(
                                           &collective->cease->status, memory_order_relaxed)
                                     : WRING_OK;
}

/** Does its work go past the engine, for the most part? */
static inline bool wring_collective_uses_shm_flags(const struct wring_collective *collective)
{
    return wring_algorithm_has_board(collective->work.algorithm);
}

/** Are clocks to be read for the step that is about to begin? For all but small ones, and for a
 *  share of these. */
static inline bool wring_collective_is_timed(const struct wring_collective *collective)
{
    return !wring_algorithm_is_eager(collective->work.algorithm) ||
           collective->step % WRING_STEPS_PER_TIMED == 0 || collective->engine->trace != NULL;
}

/** For the session's trace; nothing happens without one. */
void wring_collective_trace_job(const struct wring_task *task);
void wring_collective_trace_wait(const struct wring_collective *collective, uint64_t began_ns);
void wring_collective_trace_sent(const struct wring_task *task);
void wring_collective_trace_arrived(const struct wring_collective *collective, uint32_t rank,
                                    size_t bytes);

/** Allocate what a collective needs for its steps. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_collective_prepare(struct wring_collective *collective);

/** Make room for sums of codes that another member is to have. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_collective_make_sums(struct wring_collective *collective);

/** Make the scratch memory of a bucket's work. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_collective_make_scratch(struct wring_collective *collective, size_t bytes);

/** The work's runs have any lengths: cut by them. */
void wring_collective_lay_out(struct wring_collective *collective);

/** There are slots after all: slots_base, which was NULL, is that. */
void wring_collective_give_slots(struct wring_collective *collective, uint8_t *base);

/** Free what prepare allocated. Zeroed memory is fine. */
void wring_collective_finish(struct wring_collective *collective);

/** Bytes of send slots that prepare will cut from slots_base. */
size_t wring_collective_slot_memory(const struct wring_collective *collective);

/* Functions that the state machines share. */

/** A span of our contribution as it is. */
struct wring_source wring_collective_own(const struct wring_collective *collective,
                                         struct wring_span span);

/** The piece that a task sends. @param codec  that it is encoded by; NULL: raw */
struct wring_source wring_collective_piece(const struct wring_task *task,
                                           const struct wring_codec *codec);

/** A free task of that kind, or NULL. */
struct wring_task *wring_collective_task(struct wring_collective *collective,
                                         enum wring_task_kind kind);
void wring_collective_free_task(struct wring_task *task);

/** Where a span of our contribution, or of the result, lies. */
const void *wring_collective_in(const struct wring_collective *collective, struct wring_span span);
void *wring_collective_out(const struct wring_collective *collective, struct wring_span span);

/**
 * Begin to send the next chunk of a shard of our contribution to a member, or to WRING_EVERYBODY,
 * if there are credit and a free task. One for ourselves goes nowhere.
 *
 * @param chunks  how many the shard has
 * @return the task, or NULL
 */
struct wring_task *wring_collective_send_next(struct wring_collective *collective, uint32_t member,
                                              struct wring_span shard, uint64_t chunks);

/** The task's piece is ready and goes to task->member. */
void wring_collective_ready(struct wring_task *task, const void *piece, size_t bytes);

/**
 * Begin to take the next piece of a member into its place in a shard of the result, if it has come
 * and there is a free task.
 *
 * @param from   the shard that it was to the member, which may have had it elsewhere
 * @param phase  of the codec context under which it was encoded: 0 a contribution, 1 a sum
 */
bool wring_collective_take_next(struct wring_collective *collective, struct wring_channel *channel,
                                uint32_t member, struct wring_span shard, struct wring_span from,
                                uint32_t phase);

/**
 * Take a source, encoded or raw, into a span of the result.
 * @param context  under which it was encoded
 */
void wring_collective_take(struct wring_task *task, struct wring_span span,
                           struct wring_source source, struct wring_codec_context context);

/**
 * Make the task's job the reduction of all members' pieces of a span, which this takes; `own` is
 * ours.
 * @param encoded  the result is also encoded into the task's slot, and is what that decodes to
 */
void wring_collective_reduction(struct wring_task *task, struct wring_channel *channel,
                                struct wring_span span, struct wring_source own, bool encoded);

/** The same, and begin it: with the code of our own piece, where it has to be encoded, too. */
void wring_collective_reduce(struct wring_task *task, struct wring_channel *channel,
                             struct wring_span span, struct wring_source own, bool encoded);

/** Begin to encode a span of our contribution into the task's slot. */
void wring_collective_encode(struct wring_task *task, struct wring_span span);

/** Begin the reduction of a span of all members' codes, by a REDUCE task whose sources they are. */
void wring_collective_reduce_sources(struct wring_task *task, struct wring_span span);

/** Our own piece is encoded: begin the reduction itself. @return false: that had begun already */
bool wring_collective_reduce_on(struct wring_task *task);

/** Send a member the word that our contribution to it is ready, if there are credit and a free
 *  task. @return whether it goes */
bool wring_collective_send_word(struct wring_collective *collective, uint32_t member);

/** Every other member's next piece lies in the channel. */
bool wring_collective_all_arrived(const struct wring_collective *collective,
                                  const struct wring_channel *channel);

/** Give back what a REDUCE took. */
void wring_collective_release_all(struct wring_task *task, struct wring_channel *channel);

/** Put all pieces that are ready and can go. @return true if one went */
bool wring_collective_send(struct wring_collective *collective);

/** We ourselves need the piece of a SEND no longer: it may go once it has been sent. */
void wring_collective_let_go(struct wring_task *task);

/** No job and no put of it uses memory, which a task of a step that was ended early may still do.
 */
bool wring_collective_is_quiet(const struct wring_collective *collective);

/** A put of a task's piece completed. */
void wring_collective_put_done(struct wring_task *task);

/** A member whose piece is being waited for, or members.n. */
uint32_t wring_collective_missing(const struct wring_collective *collective);

/** What a sum of everyone's pieces is divided by. */
float wring_collective_divisor(const struct wring_collective *collective);

/** The codec context of a span that this rank encodes. */
struct wring_codec_context wring_collective_context(const struct wring_collective *collective,
                                                    struct wring_span span, uint32_t phase);

#endif
