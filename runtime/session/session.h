/* SPDX-License-Identifier: Apache-2.0 */
/** A session: what it was told, what it runs on, and how its ranks agree outside of steps. */
#ifndef WRING_RUNTIME_SESSION_SESSION_H
#define WRING_RUNTIME_SESSION_SESSION_H

#include <pthread.h>

#include "base/config.h"
#include "base/descriptor.h"
#include "runtime/buffer.h"
#include "runtime/progress/progress.h"
#include "runtime/session/callers.h"
#include "runtime/session/distance.h"
#include "transport/bootstrap/launcher.h"
#include "transport/interface.h"
#include "transport/trace.h"
#include <wring/wring.h>

#define WRING_EXECUTOR_TEXT 64 /* of an executor's name as a bucket has it, its NUL included */

struct wring_autotune;
struct wring_bucket;
struct wring_buffer;
struct wring_group;
struct wring_messenger;
struct wring_plan;
struct wring_recorder;
struct wring_codec_bypass_case;

struct wring_session {
    unsigned born;         /* wring_forked_count() of the process that opened it */
    atomic_bool told_born; /* that another one called was logged, there */
    struct wring_callers callers;
    struct wring_completions completions;
    atomic_uint any_turn; /* calls that waited for one of several */
    struct wring_config config;
    struct wring_log log;
    struct wring_launched launched; /* the launcher, and the rank that it gave this process */
    uint32_t rank, size;
    uint64_t seed;
    uint64_t meeting;                            /* a newcomer's: tells its meeting from others */
    const struct wring_codec_ops *const *codecs; /* the program's own; NULL: none */
    struct wring_bootstrap *bootstrap;
    bool owns_bootstrap;
    int root_fd;     /* rank 0's listening socket while it is this session's; -1: there is none */
    int *held_ports; /* [n_held] of sessions before, which left ranks behind: they see that we live
                      */
    uint32_t n_held;
    int door_fd; /* where newcomers knock, this session's; -1: nowhere, or at config.door_fd */
    char local_address[WRING_INTERFACE_ADDRESS]; /* by which the others reach it; "": unknown */
    struct wring_distance distance;              /* between its ranks */
    struct wring_executor *executor;
    pthread_mutex_t executor_mutex; /* of which one it is; statistics ask it from any thread */
    uint64_t executors_gone_ns;     /* processor time of those before it */
    char queues[WRING_EXECUTOR_QUEUES_MAX]
               [WRING_EXECUTOR_TEXT]; /* after the first one, as asked for */
    uint64_t reserved_elems;          /* of the largest job that any was told of */
    struct wring_engine *engine;
    struct wring_fabric *fabric;
    struct wring_progress *progress;
    /* of the next three; immediate calls look there from any thread */
    pthread_mutex_t buffers_mutex;
    struct wring_buffer *buffers;
    struct wring_buffer_index buffer_index; /* of the same */
    size_t arena_bytes;                     /* of those that are arenas */
    atomic_uint n_device_buffers;           /* of all; read by any thread */
    struct wring_bucket
        *buckets;               /* that are exchanged: in the order of registration, or a plan's */
    struct wring_bucket *fused; /* that travel in some of them */
    struct wring_plan *plan;    /* NULL: there is none */
    struct wring_autotune *autotune; /* NULL: it does not plan for itself; else whose `plan` is */
    struct wring_recorder *recorder; /* NULL: no trace for the planner is to be written */
    const struct wring_cancel *called_off; /* asked while it opens and commits; NULL: nobody can */
    bool keeps_choices; /* codecs run or not as before: the next commit measures nothing */
    /* commit anew, as `plan` says; fused buckets are parted. Nothing is under way */
    enum wring_status (*recommit)(struct wring_session *session);
    struct wring_group *world;
    struct wring_group *groups;
    struct wring_messenger *messenger;
    struct wring_trace *trace; /* NULL: not recorded */
    bool all_trace;            /* every rank records */
    atomic_bool told_flat;     /* that immediate calls go flat was logged */
    bool told_rules;           /* rules of codecs that count for no bucket were looked for */

    struct wring_codec_bypass_case *tried; /* what commits measured, in the order of trials */

    /* of the last commit */
    struct wring_block slots;
    struct wring_block sources; /* send slots, which no peer can write into */
    struct wring_imports imports;
    pthread_mutex_t shm_flags_mutex;   /* of the list; statistics look there from any thread */
    struct wring_shm_flags *shm_flags; /* of all buckets and groups that are */
};

/** Find the other ranks: make the bootstrap, or take the one of params. */
enum wring_status wring_session_meet(struct wring_session *session,
                                     const struct wring_session_params *params);

/** Open a session with the settings of another one. The bootstrap is taken over.
 *  @param called_off  borrowed until `out`'s is set to NULL. Errors: those of wring_session_open()
 */
enum wring_status wring_session_open_like(const struct wring_session *like,
                                          struct wring_bootstrap *bootstrap,
                                          const struct wring_cancel *called_off,
                                          struct wring_session **out);

/** A newcomer: have a rank of the job let it in, and say where to meet. Errors: those of
 *  wring_newcomer_knock(). */
enum wring_status wring_session_find_place(struct wring_session *session);

/** Name the job, make the fabric and connect it with everyone's. The engine is there. */
enum wring_status wring_session_connect(struct wring_session *session);

/** All ranks' blobs; gives up when the job has failed. Errors: those of the bootstrap. */
enum wring_status wring_session_exchange(struct wring_session *session, const void *blob,
                                         size_t bytes, struct wring_blobs *out);

/** The same for a blob that this call frees. */
enum wring_status wring_session_exchange_writer(struct wring_session *session,
                                                struct wring_writer *writer,
                                                struct wring_blobs *out);

/** The blob of one rank. */
struct wring_reader wring_blobs_reader(const struct wring_blobs *blobs, uint32_t rank);

/** A collective exchange in which every rank says whether it could do its part, and why not.
 *  @param text  why not; "": the status says it; NULL: this rank has logged it already
 *  @return WRING_OK if all could; else the first status, after a log line with its text */
enum wring_status wring_session_agree(struct wring_session *session, enum wring_status status,
                                      const char *text);

/**
 * Connect to all other members; blocks until all connections stand. Without the driver lock.
 * @param missing  out, where it is WRING_ERR_TIMEOUT: the first member that has not connected
 * Errors: the job's failure; WRING_ERR_CLOSED; WRING_ERR_TIMEOUT.
 */
enum wring_status wring_session_reach_by(struct wring_session *session,
                                         const struct wring_members *members, uint64_t deadline_ns,
                                         uint32_t *missing);

/** The same within WRING_JOIN_TIMEOUT, after which the job fails. */
enum wring_status wring_session_reach(struct wring_session *session,
                                      const struct wring_members *members);

/** Is this a child that fork() made of the process that opened it? Then nothing of it may be
 *  touched: no lock, no memory that ranks share, no descriptor. Every public call asks first. */
static inline bool wring_session_is_inherited(const struct wring_session *session)
{
    return session->born != wring_forked_count();
}

/** What it is told then. */
#define WRING_SESSION_NOT_OURS                                                          \
    "this process was made by fork() of the one that opened the session, which is its " \
    "parent's alone: leave it to the parent, or open a session of its own here"

/** Refuse a call of such a child. @return WRING_ERR_INVALID, after a log line the first time */
enum wring_status wring_session_refuse(struct wring_session *session);

/** A call begins. @return why it may not, and what it answers then: WRING_ERR_CLOSED while another
 *  thread closes the session, WRING_ERR_INVALID in a forked child */
static inline enum wring_status wring_session_enter(struct wring_session *session)
{
    if (wring_session_is_inherited(session))
        return wring_session_refuse(session);
    return wring_callers_enter(&session->callers) ? WRING_OK : WRING_ERR_CLOSED;
}

/** It ends with that status; nothing of the session is touched after this. */
static inline enum wring_status wring_session_leave(struct wring_session *session,
                                                    enum wring_status status)
{
    wring_callers_leave(&session->callers);
    return status;
}

/** Why no call can work any more, or WRING_OK. */
static inline enum wring_status wring_session_check(const struct wring_session *session)
{
    return wring_fabric_status(session->fabric);
}

#endif
