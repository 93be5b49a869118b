/* SPDX-License-Identifier: Apache-2.0 */
/** A bucket: what was registered, what a commit made of it, and its steps. */
#ifndef WRING_RUNTIME_BUCKET_H
#define WRING_RUNTIME_BUCKET_H

#include "runtime/codec_states.h"
#include "runtime/commit/bypass.h"
#include "runtime/commit/layout.h"
#include "runtime/group/group.h"
#include "runtime/progress/completions.h"
#include "runtime/session/callers.h"
#include "runtime/session/session.h"
#include "transport/collective/hierarchical.h"
#include <wring/wring.h>

struct wring_iterated;
struct wring_bucket_levels;
struct wring_bucket_fusion;

/**
 * How a bucket's steps are run: as a collective of its own (bucket.c), or within another bucket's
 * (plan/bucket_fusion.c). The callers have entered the session, one at a time for a bucket.
 */
struct wring_bucket_ops {
    enum wring_status (*post)(struct wring_bucket *bucket);
    enum wring_status (*test)(struct wring_bucket *bucket);
    enum wring_status (*wait)(struct wring_bucket *bucket, uint64_t timeout_ns);

    /** Is a step of it under way, once what is here already has been seen to? Takes no lock. */
    bool (*is_left)(struct wring_bucket *bucket);

    /** It is posted, but others have to be, too, before its step can end. */
    bool (*is_unsent)(const struct wring_bucket *bucket);

    /** Nothing of it is left: @return how its step ended */
    enum wring_status (*take)(struct wring_bucket *bucket);
};

/** Who is told of a bucket's steps: the session that plans for itself (autotune/). */
struct wring_bucket_watch {
    /** A post begins: agree with other ranks first, if it is time. Errors: its own. */
    enum wring_status (*arrive)(struct wring_bucket *bucket);
    void (*posted)(struct wring_bucket *bucket, uint64_t at_ns);

    /** Has its last step been seen to end? Then how: nothing of the bucket is looked at, as it may
     *  be changing its option. @param status  out */
    bool (*is_over)(struct wring_bucket *bucket, enum wring_status *status);

    /** A caller came to wait at a time (0: it asked, and went on), and goes away.
     *  @param ended  the bucket has; or the caller gave up */
    void (*waited)(struct wring_bucket *bucket, uint64_t began_ns, bool ended);
};

struct wring_bucket {
    struct wring_session *session;
    struct wring_bucket *next;
    const struct wring_bucket_ops *ops;
    const struct wring_bucket_watch *watch; /* NULL: nobody is told */
    struct wring_bucket *posted_as;         /* itself, or the fused bucket that it is in */
    char name[WRING_NAME_MAX];
    void *data; /* where the result goes, and what is contributed lies unless `source` says */
    const void *source; /* what each step contributes; NULL: what lies in data */
    double factor;      /* times this, where it multiplies */
    bool multiplies;    /* premul_sum was asked for; op says sum */
    bool reads_source;  /* a step reads it where it lies; else it is brought into data first */
    uint64_t elems;
    uint64_t rows, columns; /* of the tensor; 0: it is no matrix */
    bool ruled;             /* its program named no codec, and rules are for its like */
    enum wring_dtype dtype;
    enum wring_op op;
    enum wring_scheme scheme;
    int32_t priority;
    struct wring_group *group;
    char executor[WRING_EXECUTOR_TEXT]; /* that runs its jobs, by name; "": the session's */
    struct wring_executor_queue *queue; /* of that one */
    struct wring_memory_place place;    /* of data */
    struct wring_codec *codec;
    struct wring_codec_states *states; /* what its codec keeps besides; NULL: nothing */
    float *residual;                   /* in the executor's home */
    float *kept;        /* the residual as it was before the last post; NULL: not kept */
    void *kept_input;   /* what the last step of a bucket in place was given; NULL: not kept */
    uint64_t kept_step; /* how many steps these, or the codec's state, had seen then */
    bool loose; /* the residual is in units of contributions everywhere: runtime/codec_states.h */
    bool idle;  /* and goes out with the next step, which does not hold anything back */
    bool sent;  /* it went out with the last step */

    bool committed;
    struct wring_caller_mark mark; /* plain: committed, and a post has nothing to see to but the
                                      collective */
    atomic_uint entered; /* calls of it, and of those that it carries, that entered by the count */
    atomic_bool ending;  /* a thread sees to the end of a step of a group that was aborted */
    bool dropped;        /* to be freed by the next commit */
    struct wring_block borrowed;     /* registration of foreign memory, if any */
    const struct wring_block *block; /* where data lies: a buffer's, or `borrowed`; NULL: nowhere */
    bool placed;                     /* all members can take the sum in place */
    bool mapped;                     /* and each can read what the others contribute there */
    struct wring_choice choice;      /* does the codec run? */
    struct wring_shape shape;        /* of its collective, since the last commit */
    struct wring_span owned[WRING_SLICES_MAX]; /* rising: elements whose sums we own and encode
                                                  again, when the codec runs */
    uint32_t n_owned;
    struct wring_channel scatter, gather;
    struct wring_collective collective;
    struct wring_completion completion; /* who is told of its steps' ends */
    struct wring_bucket_fusion *fuses;  /* what travels in it; NULL: one of the application's */
    struct wring_bucket_fusion *fusion; /* those that it travels with; NULL: it travels by itself */
    uint64_t fusion_at;                 /* its first element among theirs */
    uint64_t fusion_step; /* of their fused bucket, that its last post belongs to. Read by others
                             only while its status says that it is under way */
    atomic_bool taking;   /* a thread takes its part of a fused bucket that is done */

    struct wring_bucket_levels *levels; /* it goes hierarchically, by these legs
                                           (commit/hierarchy_phases.h); NULL: it goes flat */
    struct wring_bucket *whole; /* that it is a leg of: whose codec it uses, and whose block;
                                   NULL: it is none */
    enum wring_leg leg;
    uint64_t first; /* of the whole's elements */

    struct wring_iterated *tensor; /* it takes part in planning; NULL: it does not */

    struct wring_block keys; /* to `block`, for members who put sums there: they can be revoked */
    uint32_t revoked;        /* the devices by which no member can put there any more, a bit each */

    size_t memory_offset;  /* of its channels in the session's slots */
    size_t sources_offset; /* of its send slots in the session's sources */
};

/** The application's bucket of that name, dropped ones passed over; or NULL. */
struct wring_bucket *wring_bucket_find(const struct wring_session *session, const char *name);

/** A bucket of those params, checked already, which is in no list yet. Errors: of registration. */
enum wring_status wring_bucket_make(struct wring_session *session,
                                    const struct wring_bucket_params *params,
                                    struct wring_bucket **out);

/**
 * What the public calls do with a bucket that takes no part in planning, for callers that have
 * entered the session already. They enter no second time: a call that is inside goes on until its
 * steps have ended, also once another thread closes the session.
 */
extern const struct wring_bucket_ops wring_bucket_alone;
enum wring_status wring_bucket_post_inside(struct wring_bucket *bucket);
enum wring_status wring_bucket_test_inside(struct wring_bucket *bucket);
enum wring_status wring_bucket_wait_inside(struct wring_bucket *bucket, uint64_t timeout_ns);

/** What a step contributes, multiplied where that is asked for. @param to  [elems]; may be data */
void wring_bucket_bring(const struct wring_bucket *bucket, void *to);

/** Was its group aborted? Then its steps have ended, or do. */
static inline bool wring_bucket_is_ceased(const struct wring_bucket *bucket)
{
    return atomic_load(&bucket->group->cease.status) != WRING_OK;
}

/**
 * A call begins that looks at a bucket's step, beside which its group may be aborted.
 * @return whether it has to wring_bucket_leave(); if not, the group was, and the step has ended
 */
bool wring_bucket_enter(struct wring_bucket *bucket);

static inline void wring_bucket_leave(struct wring_bucket *bucket, bool entered)
{
    if (entered)
        atomic_fetch_sub(&bucket->posted_as->entered, 1);
}

/** Its group was aborted: the step that is under way ends, once calls that look at it have given it
 *  to the engine, and nothing of ours touches its data. @return whether it has within 50 ms */
bool wring_bucket_end_ceased(struct wring_bucket *bucket);

/** All that its steps run on is there. What a post has to see to besides is settled for good here,
 *  so that it need not ask each time. */
void wring_bucket_set_committed(struct wring_bucket *bucket);
/** Undo that, before its steps lose anything that they run on. */
void wring_bucket_uncommit(struct wring_bucket *bucket);

static inline struct wring_bucket *wring_bucket_of(struct wring_completion *completion)
{
    return (struct wring_bucket *)((char *)completion - offsetof(struct wring_bucket, completion));
}

/** Hand out how its step ended; nothing where it has not. @param result checked; NULL: nobody asks
 */
void wring_bucket_tell(const struct wring_bucket *bucket, enum wring_status status,
                       struct wring_result *result);

/** Its step has ended: its callback is queued, and the descriptor tells. */
void wring_bucket_end(struct wring_bucket *bucket, enum wring_status status);

/** The `finished` of a bucket's collective. */
void wring_bucket_finished(struct wring_collective *collective, enum wring_status status);

/** Its step, if it goes past the engine, is the engine's from now on. */
void wring_bucket_give(struct wring_bucket *bucket);

/** Are its residual or its codec's state, as they were before a step, kept for a save after it? */
static inline bool wring_bucket_keeps(const struct wring_bucket *bucket)
{
    return bucket->kept != NULL || (bucket->states != NULL && bucket->states->kept[0] != NULL);
}

/** It is of that session from now on, and so is its residual; no session has it committed, or in a
 *  list. Errors: those of registration; it is of neither then, and wring_bucket_free() is
 *  all that may be called. */
enum wring_status wring_bucket_move(struct wring_bucket *bucket, struct wring_session *to);

/** What registration made; channels are gone already. */
void wring_bucket_free(struct wring_bucket *bucket);

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
 * @param what   for the log line: "bucket 'x'"
 * @param ranks  of the group
 * Errors: WRING_ERR_UNSUPPORTED.
 */
enum wring_status wring_bucket_check_codec(const struct wring_session *session, const char *what,
                                           const struct wring_codec *codec, uint32_t ranks,
                                           enum wring_dtype dtype, enum wring_op op);

#endif
