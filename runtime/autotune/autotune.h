/* SPDX-License-Identifier: Apache-2.0 */
/**
 * WRING_PLAN=auto: a session that plans for itself while the job runs.
 *
 *     commit      a profile: from the cache if its times still hold, else measured
 *     record      a few iterations as registered: when buckets are posted, how long it all takes
 *     try         each of a few plans for as many iterations, then those that are near in turn
 *     keep        the best one, or none where none is better; from time to time all ranks look
 *                 whether iterations still take as long, and begin anew where they do not
 *
 * iterations.h defines iterations, and the buckets that take part; others travel as registered. At
 * the first post of an iteration ranks agree and buckets change their options. All ranks do so
 * after the same number of iterations, so they need not tell each other anything in between.
 */
#ifndef WRING_RUNTIME_AUTOTUNE_AUTOTUNE_H
#define WRING_RUNTIME_AUTOTUNE_AUTOTUNE_H

#include "planner/core/files/profile.h"
#include "runtime/autotune/tunables.h"
#include "runtime/bucket.h"
#include "runtime/plan/collective_bench.h"
#include "runtime/plan/iterations.h"
#include "runtime/plan/machine.h"
#include "runtime/session/session.h"

#define WRING_AUTOTUNE_CANDIDATES_MAX 5
#define WRING_AUTOTUNE_LOOKS 3 /* at a candidate, at most */

/** A plan, or how buckets were registered, and what iterations take so. */
struct wring_autotune_candidate {
    struct wring_plan *plan;                  /* NULL: as registered */
    char name[64];                            /* "the plan", "none alone" */
    double predicted_us;                      /* NAN: nothing was */
    double measured_us[WRING_AUTOTUNE_LOOKS]; /* medians of the slowest rank */
    uint32_t measured;
    double compute_us; /* of them in computing */
};

enum wring_autotune_stage {
    WRING_AUTOTUNE_RECORD,
    WRING_AUTOTUNE_TRY,
    WRING_AUTOTUNE_KEEP,
    WRING_AUTOTUNE_OFF,
};

struct wring_autotune {
    struct wring_session *session;
    struct wring_iterations iterations; /* its mutex is that of all of this */
    enum wring_autotune_stage stage;
    double *ready_us;      /* [iterations.n] of the slowest rank, while ranks meet */
    uint64_t tensors_hash; /* hash of their names, sizes, codecs: equal on all ranks */
    struct wring_job_machine machine;
    struct wring_autotune_tunables tunables;
    struct wring_profile *profile;    /* rank 0's */
    struct wring_profile_aside aside; /* its collectives of other tunings than the configured one,
                                         while that one's are measured */
    bool known;                       /* ranks have found one, for this question */
    bool measure;                     /* the next commit is to measure anew, whatever there is */

    uint32_t n_candidates, at; /* the first is as registered; which one is in force */
    struct wring_autotune_candidate candidates[WRING_AUTOTUNE_CANDIDATES_MAX];
    uint32_t in_turn;                /* a bit for each candidate that has further looks */
    uint32_t first;                  /* of these; before, of all */
    double kept_us, kept_compute_us; /* what iterations took when it was settled */
    double without_us;               /* and what they took as registered */
    uint32_t worse;                  /* looks in a row that found more than that */
    uint32_t busy;                   /* meetings in a row at which something was under way */
    uint64_t spent_ns;               /* rank 0: by measuring and planning, the last time */
    uint64_t settled_ns;             /* rank 0: when that was over */
};

/** Does the session plan for itself? Make what that needs. Errors: WRING_ERR_NO_MEMORY, INVALID
 *  (WRING_PLAN_CODECS; logged). */
enum wring_status wring_autotune_open(struct wring_session *session);
void wring_autotune_close(struct wring_session *session);

/** A commit of the application begins, no bucket is joined: who takes part? A plan for others is
 *  dropped. Local. */
enum wring_status wring_autotune_begin(struct wring_session *session);

/** Buckets are compared: find a profile, together. Collective. */
enum wring_status wring_autotune_prepare(struct wring_session *session);

/** What came of it. */
struct wring_autotune_report {
    bool settled;                             /* a plan is kept, or none */
    bool planned;                             /* it is a plan */
    double with_us, without_us, predicted_us; /* iterations; NAN: not known */
    uint32_t groups;
    char name[64];
};
void wring_autotune_tell(const struct wring_session *session, struct wring_autotune_report *out);

/* ---- between the files of it ---- */

/** Choose the next candidate by all looks so far. @param candidate  out
 *  @return true: it stays; false: it is to be tried */
bool wring_autotune_choose(struct wring_autotune *autotune, uint32_t *candidate);

/** The same, told to all ranks by rank 0. Collective. Errors: those of thinking, and of an
 * exchange. */
enum wring_status wring_autotune_find_candidates(struct wring_autotune *autotune, bool early);

/** There is none any more; NULL is fine. */
void wring_autotune_forget_profile(struct wring_autotune *autotune);

/* What ranks say of their last iterations when they meet. */

/** Of one rank, or of all: the slowest one's times, and whether anybody is busy or early. */
struct wring_autotune_rank_report {
    uint32_t stage, at, busy, early, may;
    double us, compute_us;
};

#endif
