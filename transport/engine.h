/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The engine: everything of a session that moves. It owns no thread; the thread that makes progress
 * calls wring_engine_poll() again and again. Collectives are state machines that the engine drives:
 * pieces arrive in channels, jobs come back from the executor, puts complete, and the collective is
 * asked to advance.
 *
 * One thread at a time, except wring_engine_post() and the counters: safe from any thread.
 */
#ifndef WRING_TRANSPORT_ENGINE_H
#define WRING_TRANSPORT_ENGINE_H

#include "transport/channel.h"
#include "transport/fabric.h"
#include "transport/flight.h"
#include "transport/formation.h"
#include "transport/membership.h"
#include "transport/trace.h"
#include <wring/executor.h>

#define WRING_EXECUTOR_QUEUES_MAX 16 /* executors of a session */
#define WRING_TURN_ELEMS (1u << 16)  /* computed in one turn: they take some 30 microseconds */

struct wring_collective;
struct wring_cease;
struct wring_messenger;
struct wring_pool;
struct wring_task;

/** An executor and what it has to do. */
struct wring_executor_queue {
    struct wring_executor *executor; /* borrowed */
    uint32_t jobs_under_way;
};

struct wring_engine {
    struct wring_fabric *fabric;
    struct wring_executor_queue queues[WRING_EXECUTOR_QUEUES_MAX]; /* [n_queues] at places of their
                                                 own, the first one of those that name none */
    uint32_t n_queues;
    const struct wring_log *log;
    const struct wring_config *config;

    struct wring_channel **channels; /* [n_channels], by id; NULL entries are free */
    uint32_t n_channels;
    uint32_t generation; /* of channels */
    uint32_t next_id;    /* from which on a free one is looked for */
    uint32_t known_ids;  /* those below have been some channel's */

    struct wring_formations formations; /* groups that come about */
    struct wring_pairs *pairs;          /* of all groups */
    struct wring_pairs_answer *answers; /* [n_answers], of groups that are gone, not sent yet */
    uint32_t n_answers;
    bool owes_pairs; /* some of all that could not be told */
    bool owes_pool;  /* somebody waits for a slot of the pool, or for its word */

    struct wring_collective *listed; /* that are prepared, in no order */
    struct wring_flight flight;
    struct wring_membership membership;

    struct wring_pool *pool; /* of all groups; borrowed; NULL: not there yet, or no longer */
    struct wring_messenger *messenger; /* borrowed; NULL: not there yet, or no longer */
    atomic_bool talks; /* a message was posted, or came, at some time: it is to be polled */

    _Atomic(struct wring_collective *) posted; /* newest first */
    struct wring_collective *active;           /* by priority */
    atomic_uint n_active;      /* these, and messages under way; may be read by any thread */
    uint32_t jobs_under_way;   /* in all queues */
    uint64_t computed;         /* elements, of copies bytes, since it last looked around */
    struct wring_trace *trace; /* borrowed; NULL: nothing is recorded */
    bool kick;                 /* something that blocked collectives wait for has happened */
    uint64_t checked_ns;       /* when it was last asked why nothing moves */
    atomic_ullong finished;    /* collectives, since the beginning, legs not counted */
};

/** @param executor  of the first queue; borrowed; NULL: nothing is computed, only messages go. The
 *  fabric is set once it exists, by wring_engine_set_fabric(). */
enum wring_status wring_engine_create(const struct wring_config *config,
                                      const struct wring_log *log, struct wring_executor *executor,
                                      struct wring_engine **out);

/** One more executor, borrowed as long as the engine is there. The engine is locked. @return NULL:
 *  there are as many as can be */
struct wring_executor_queue *wring_engine_add_executor(struct wring_engine *engine,
                                                       struct wring_executor *executor);

/** @param fabric borrowed; made with the engine's handler; NULL: it could not be made */
void wring_engine_set_fabric(struct wring_engine *engine, struct wring_fabric *fabric);

/** The handler to create the engine's fabric with. */
struct wring_fabric_handler wring_engine_handler(struct wring_engine *engine);

/** NULL is fine. Collectives and channels must be gone. */
void wring_engine_destroy(struct wring_engine *engine);

/** Give a channel an id, by which peers name it. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_engine_add_channel(struct wring_engine *engine,
                                           struct wring_channel *channel);
void wring_engine_remove_channel(struct wring_engine *engine, struct wring_channel *channel);

/** Hand over a collective to be run. Threads: safe; takes no lock. */
void wring_engine_post(struct wring_engine *engine, struct wring_collective *collective);

/**
 * Hand over a collective and begin it here and now; by the thread that makes progress.
 * wring_engine_poll() does the rest. @return true if nothing is under way, this collective included
 */
bool wring_engine_begin(struct wring_engine *engine, struct wring_collective *collective);

/** One pass of progress. @return true if anything moved */
bool wring_engine_poll(struct wring_engine *engine);

/** End all that is under way or was posted with that status, once no job touches anybody's memory
 *  any more. Peers are not told. May be repeated. */
void wring_engine_drop(struct wring_engine *engine, enum wring_status status);

/** The collectives of a group are to end with that status, as soon as no job of each runs, and
 *  so are all steps that are posted later. Their pieces on the way to others go on. */
void wring_engine_cease(struct wring_engine *engine, struct wring_cease *cease,
                        enum wring_status status);

/** Of a group that has ceased: may something of ours still write into members' memory, puts that
 *  were begun apart? */
bool wring_engine_writes(const struct wring_engine *engine, const struct wring_cease *cease);

/** Nor does a put of ours read any more. */
bool wring_engine_is_quiet(const struct wring_engine *engine, const struct wring_cease *cease);

/** Add what a sleeper must watch. */
void wring_engine_arm(struct wring_engine *engine, struct wring_wait_set *set);

/** For collectives: hand a task's job to the executor of its collective. */
void wring_engine_submit(struct wring_engine *engine, struct wring_job *job);

/** For collectives: run a small job without codecs here and now. @return false: its sources are
 *  wrong, and the job has failed */
bool wring_engine_run(struct wring_engine *engine, struct wring_job *job);

/** For collectives: done; the owner is told. */
void wring_engine_finish(struct wring_engine *engine, struct wring_collective *collective,
                         enum wring_status status);

/** Is all that is under way steps on so much mapped data that each member works for long? */
bool wring_engine_works_long(const struct wring_engine *engine);

/** Does all that is under way wait for nobody but members that run beside us? */
bool wring_engine_waits_beside(const struct wring_engine *engine);

/**
 * For collectives: has so much been computed that others have their turn, arrivals first, then what
 * is urgent? An executor that computes at once would else encode all that is posted before it
 * reduces any of it, which no cache holds by then.
 */
static inline bool wring_engine_turn_is_over(const struct wring_engine *engine)
{
    return engine->computed >= WRING_TURN_ELEMS;
}

/** Is there nothing to wait for? */
bool wring_engine_idle(const struct wring_engine *engine);

/** Has something been posted that nobody has begun? Threads: safe. */
bool wring_engine_has_posted(const struct wring_engine *engine);

#endif
