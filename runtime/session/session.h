/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of this room know of a session. */
#ifndef WRING_RUNTIME_SESSION_H
#define WRING_RUNTIME_SESSION_H

#include <pthread.h>

#include "base/config.h"
#include "base/forked.h"
#include "runtime/arena.h"
#include "runtime/buffer_index.h"
#include "runtime/commit/bypass.h"
#include "runtime/progress/progress.h"
#include "runtime/session/callers.h"
#include "transport/bootstrap/launcher.h"
#include "transport/collective/hierarchical.h"
#include "transport/interface.h"
#include "transport/trace.h"
#include <wring/wring.h>

/** Registered memory: the application's own, or an arena that wring_buffer_alloc() gives from. */
struct wring_buffer {
    struct wring_block block;
    bool is_arena;
    struct wring_arena arena;
    struct wring_buffer *next;
};

struct wring_autoplan;
struct wring_autoplan_tensor;
struct wring_bucket_levels;
struct wring_joined;
struct wring_plan;

struct wring_bucket {
    struct wring_session *session;
    struct wring_bucket *next;
    char name[WRING_NAME_MAX];
    void *data;
    uint64_t elems;
    enum wring_dtype dtype;
    enum wring_op op;
    enum wring_scheme scheme;
    int32_t priority;
    struct wring_group *group;
    struct wring_codec *codec;
    float *residual;
    float *kept;        /* the residual as it was before the last post; NULL: not kept */
    uint64_t kept_step; /* how many steps it had seen then */
    bool loose;         /* the residual is in units of contributions everywhere: residual.h */
    bool idle;          /* and goes out with the next step, which does not hold anything back */

    bool committed;
    struct wring_caller_mark mark;   /* plain: committed, and a post has nothing to see to but the
                                        exchange */
    bool dropped;                    /* to be freed by the next commit */
    struct wring_block borrowed;     /* registration of foreign memory, if any */
    const struct wring_block *block; /* where data lies: a buffer's, or `borrowed`; NULL: nowhere */
    bool placed;                     /* all members can take the sum in place */
    bool mapped;                     /* and each can read what the others contribute there */
    struct wring_choice choice;      /* does the codec run? */
    struct wring_span owned[WRING_SLICES_MAX]; /* rising: elements whose sums we own and encode
                                                  again, when the codec runs */
    uint32_t n_owned;
    struct wring_channel scatter, gather;
    struct wring_collective collective;
    struct wring_joined *carries; /* those that travel in it; NULL: it is an application's own */
    struct wring_joined *joined;  /* those that it travels with; NULL: it travels by itself */
    uint64_t joined_at;           /* its first element among theirs */
    uint64_t joined_step;         /* of their carrier, that its last post belongs to */

    struct wring_bucket_levels *levels; /* it goes hierarchically, by these legs (commit/legs.h);
                                           NULL: it goes flat */
    struct wring_bucket *whole; /* that it is a leg of: whose codec it uses, and whose block;
                                   NULL: it is none */
    enum wring_leg leg;
    uint64_t first; /* of the whole's elements */

    struct wring_autoplan_tensor *tensor; /* it takes part in planning; NULL: it does not */

    size_t memory_offset;  /* of its channels in the session's slots */
    size_t sources_offset; /* of its send slots in the session's sources */
};

struct wring_session {
    unsigned born;         /* wring_forked_count() of the process that opened it */
    atomic_bool told_born; /* that another one called was logged, there */
    struct wring_callers callers;
    struct wring_config config;
    struct wring_log log;
    struct wring_launched launched; /* who started this process, and as what */
    uint32_t rank, size;
    uint64_t seed;
    struct wring_bootstrap *bootstrap;
    bool owns_bootstrap;
    int root_fd; /* rank 0's listening socket while it is this session's; -1: there is none */
    char local_address[WRING_INTERFACE_ADDRESS]; /* by which the others reach it; "": unknown */
    struct wring_executor *executor;
    pthread_mutex_t executor_mutex; /* of which one it is; statistics ask it from any thread */
    uint64_t executors_gone_ns;     /* processor time of those before it */
    uint64_t reserved_elems;        /* of the largest job that any was told of */
    struct wring_engine *engine;
    struct wring_fabric *fabric;
    struct wring_progress *progress;
    /* of the next three; immediate calls look there from any thread */
    pthread_mutex_t buffers_mutex;
    struct wring_buffer *buffers;
    struct wring_buffer_index buffer_index; /* of the same */
    size_t arena_bytes;                     /* of those that are arenas */
    struct wring_bucket
        *buckets;                /* that are exchanged: in the order of registration, or a plan's */
    struct wring_bucket *joined; /* that travel in some of them */
    struct wring_plan *plan;     /* NULL: there is none */
    struct wring_autoplan *autoplan; /* NULL: it does not plan for itself; else whose `plan` is */
    struct wring_group *world;
    struct wring_group *groups;
    struct wring_trace *trace; /* NULL: not recorded */
    bool all_trace;            /* every rank records */
    atomic_bool told_flat;     /* that immediate calls go flat was logged */

    struct wring_tried *tried; /* what commits measured, in the order of trials */

    /* of the last commit */
    struct wring_block slots;
    struct wring_block sources; /* send slots, which no peer can write into */
    struct wring_imports imports;
    pthread_mutex_t mapped_mutex; /* of the list; statistics look there from any thread */
    struct wring_mapped *mapped;  /* of all buckets and groups that are */
};

/** A group's members and what its immediate calls run on. */
struct wring_group {
    struct wring_session *session;
    struct wring_group *next;
    uint32_t *ranks;
    struct wring_members members;
    struct wring_group *node, *across; /* group_nodes.h; NULL: nobody has asked */
    bool told_flat;                    /* that its nodes are not equal was logged */
    bool flat_untold; /* WRING_SCHEME is hierarchical, and its immediate calls are not: we are to
                         say so with the first that would gain */
    struct wring_block slots;
    struct wring_block sources; /* send slots, which no peer can write into */
    struct wring_imports imports;
    struct wring_channel scatter, gather;
    size_t channel_bytes; /* of the slots of one */
    struct wring_collective collective;
    struct wring_calls calls;
    char unfit[WRING_TEXT_MAX]; /* why no call can be made in this group; "" if one can */
    struct wring_request *running, *waiting; /* under mutex */
    struct wring_request *held;              /* not waited for; newest first; under mutex */
    bool unwanted;                           /* goes as soon as nobody uses it any more */
    struct wring_codec *codecs[8];           /* of earlier calls, by spec; under mutex */
    pthread_mutex_t mutex;
};

/** Rank, size and settings: the environment's, then those of params. Errors: WRING_ERR_INVALID. */
enum wring_status wring_session_configure(struct wring_session *session,
                                          const struct wring_session_params *params);

/** Find the other ranks: make the bootstrap, or take the one of params. */
enum wring_status wring_session_meet(struct wring_session *session,
                                     const struct wring_session_params *params);

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

/** Is this a child that fork() made of the process that opened it? Then nothing of it may be
 *  touched: no lock, no memory that ranks share, no descriptor. Every public call asks first. */
static inline bool wring_session_is_inherited(const struct wring_session *session)
{
    return session->born != wring_forked_count();
}

/** What such a child is answered: WRING_ERR_INVALID, after a log line the first time. */
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

/**
 * First half of a commit: everyone's list of buckets is compared, and what depends on all members
 * (whether sums can be placed) is settled. Errors: WRING_ERR_MISMATCH and others, on every rank.
 */
enum wring_status wring_commit_compare(struct wring_session *session);

/** The application's bucket of that name, dropped ones passed over; or NULL. */
struct wring_bucket *wring_bucket_find(const struct wring_session *session, const char *name);

/** The same among those that ranks exchange: what others carry is not there, carriers are. */
struct wring_bucket *wring_bucket_find_exchanged(const struct wring_session *session,
                                                 const char *name);

/** A bucket of those params, checked already, which is in no list yet. Errors: of registration. */
enum wring_status wring_bucket_make(struct wring_session *session,
                                    const struct wring_bucket_params *params,
                                    struct wring_bucket **out);

/**
 * What the public calls do with a bucket that takes no part in planning, for callers that have
 * entered the session already. They enter no second time: a call that is inside goes on until its
 * steps have ended, also once another thread closes the session.
 */
enum wring_status wring_bucket_post_inside(struct wring_bucket *bucket);
enum wring_status wring_bucket_test_inside(struct wring_bucket *bucket);
enum wring_status wring_bucket_wait_inside(struct wring_bucket *bucket, uint64_t timeout_ns);

/** All that its steps run on is there. What a post has to see to besides is settled for good here,
 *  so that it need not ask each time. */
void wring_bucket_ready(struct wring_bucket *bucket);
void wring_bucket_unready(struct wring_bucket *bucket);

/** A residual of zeros, where its codec needs one, and room to keep it. Errors: NO_MEMORY. */
enum wring_status wring_bucket_make_residual(struct wring_bucket *bucket);

/** Zeros, aligned for kernels, for free(); or NULL. @param elems  not 0 */
float *wring_residual_alloc(uint64_t elems);

/** What registration made; channels are gone already. */
void wring_bucket_free(struct wring_bucket *bucket);

/** The id of a bucket in codec contexts: a hash of its name (FNV-1a), so equal on all ranks. */
uint32_t wring_bucket_id(const char *name);

/** Undo the last commit: channels, slots, imported memory. The engine is locked and idle. */
void wring_commit_undo(struct wring_session *session);

/** Its memory is unmapped, if it is ours. It is in no list; the engine is locked. */
void wring_buffer_destroy(struct wring_buffer *buffer);

/** The registered memory that holds [data, data + bytes), or NULL. Threads: safe. */
const struct wring_block *wring_buffer_find(struct wring_session *session, const void *data,
                                            size_t bytes);

/** What its steps are encoded by, as a spec. */
static inline const char *wring_bucket_spec(const struct wring_bucket *bucket)
{
    return bucket->choice.bypass ? "none" : wring_codec_info(bucket->codec)->spec;
}

/** Bytes of a bucket's data. */
static inline size_t wring_bucket_bytes(const struct wring_bucket *bucket)
{
    return (size_t)bucket->elems * wring_dtype_bytes(bucket->dtype);
}

/** Has a step begun, and not ended as far as is known? */
static inline bool wring_bucket_under_way(const struct wring_bucket *bucket)
{
    return bucket->committed && atomic_load_explicit(&bucket->collective.status,
                                                     memory_order_acquire) == WRING_ERR_AGAIN;
}

/**
 * Can that codec be used so? Codecs sum float32; everything else travels as it is.
 * @param what  for the log line: "bucket 'x'"
 * Errors: WRING_ERR_UNSUPPORTED.
 */
enum wring_status wring_bucket_check_codec(const struct wring_session *session, const char *what,
                                           const struct wring_codec *codec, enum wring_dtype dtype,
                                           enum wring_op op);

/** The providers that reach a group's members: "shm", or "shm,tcp" where they differ.
 *  @param text out, [bytes] */
void wring_group_name_providers(const struct wring_group *group, char *text, size_t bytes);

/** One of those ranks, ours among them, which knows them and can do nothing. Errors: NO_MEMORY. */
enum wring_status wring_group_new(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                  struct wring_group **out);

/** Make a group without waiting for the engine: for session_open. */
enum wring_status wring_group_make(struct wring_session *session, const uint32_t *ranks, uint32_t n,
                                   struct wring_group **out);
void wring_group_free(struct wring_group *group);

/** What goes past the engine is to be counted. */
void wring_stats_list(struct wring_session *session, struct wring_mapped *mapped);

/** It will be gone, but not what it counted. NULL, and what is not listed, is fine. The engine is
 *  locked. */
void wring_stats_unlist(struct wring_session *session, const struct wring_mapped *mapped);

/** A window for channels that carry that many pieces a step: a power of two. */
uint32_t wring_window(const struct wring_config *config, uint64_t pieces);

#endif
