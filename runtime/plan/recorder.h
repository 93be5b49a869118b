/* SPDX-License-Identifier: Apache-2.0 */
/**
 * WRING_RECORD: rank 0 writes a trace of the job while it runs, as `wring plan` and others read it
 * (docs/planner-files.md): when tensors are ready, and how large they are.
 *
 * A job with committed buckets that take part (iterations.h) is recorded by these; its immediate
 * calls are left out then. One that has none is recorded by its immediate calls among all ranks.
 * One that plans for itself writes what it asks the planner.
 *
 * The trace is written once, by the thread whose post or call makes it complete. What goes wrong is
 * one log line, and never an error of the job's.
 */
#ifndef WRING_RUNTIME_PLAN_RECORDER_H
#define WRING_RUNTIME_PLAN_RECORDER_H

#include "planner/core/files/tensor_trace.h"
#include "runtime/group/group.h"
#include "runtime/plan/iterations.h"
#include "runtime/session/session.h"

/*
 * The calls that one rank makes among all ranks, one after another, and the iterations in them.
 *
 * Nobody says where an iteration of immediate calls begins. It is taken to be the shortest sequence
 * of calls, alike in kind, type, operation, elements and root, that repeats: WRING_CALLS_REPEATS
 * times without a break. It begins behind the longest stretch of computing, where training has its
 * forward pass and the optimizer's step. Calls that are alike, as of buckets that are equally
 * large, are told apart by that: n of them are an iteration if before one in n, each time at the
 * same place, WRING_CALLS_STANDS_OUT times as much is computed as before the others. Each of an
 * iteration's sums of f32, f16 and bf16 is a tensor.
 */

#define WRING_CALLS_REPEATS (WRING_ITERATIONS_WARM + WRING_ITERATIONS_TIMED)
#define WRING_CALLS_SURE                                                     \
    512 /* calls that repeat before a job that goes on is taken at its word: \
           layers of one size, one after another, are no iterations */
#define WRING_CALLS_STANDS_OUT 2
#define WRING_CALLS_MAX 16384 /* that are kept; an iteration has a ninth of them at most */

struct wring_recorded_call {
    uint64_t signature; /* equal where calls are alike */
    uint64_t elems;     /* of a sum that may be planned; 0: it is something else */
    uint32_t dtype;     /* enum wring_dtype */
    double at_us;       /* how long was computed until then, since the beginning */
};

/** Zeroed at first. */
struct wring_recorded_calls {
    uint32_t n;
    struct wring_recorded_call *list; /* [WRING_CALLS_MAX]; NULL: no memory yet */
};

/** The last iterations. */
struct wring_recorded_period {
    uint32_t calls; /* of each */
    uint32_t last;  /* the first call of the last complete one; those before are so far apart */
};

/** @return false: there is no room, or no memory for it */
bool wring_recorded_calls_add(struct wring_recorded_calls *calls,
                              const struct wring_recorded_call *call);

/**
 * Look for iterations that have a tensor.
 *
 * @param ends  no more calls follow: what repeats need not be the last ones, but half of all
 * @return false: there are none
 */
bool wring_recorded_calls_find(const struct wring_recorded_calls *calls, bool ends,
                               struct wring_recorded_period *out);

/** The trace of an iteration, times as medians of WRING_ITERATIONS_TIMED of them. The caller
 *  destroys it. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_recorded_calls_trace(const struct wring_recorded_calls *calls,
                                             const struct wring_recorded_period *period,
                                             struct wring_tensor_trace **out);

/** Zeroed memory is fine. */
void wring_recorded_calls_finish(struct wring_recorded_calls *calls);

struct wring_recorder;

/** Is a trace to be written, by this rank? Make what that needs. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_recorder_open(struct wring_session *session);

/** Nobody is inside. Says so where no trace could be had. */
void wring_recorder_close(struct wring_session *session);

/** A commit of the application begins, no bucket is joined. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_recorder_begin(struct wring_session *session);

/** Write the trace, unless one was written. Threads: safe. */
void wring_recorder_write(struct wring_recorder *recorder, const struct wring_tensor_trace *trace);

/** An immediate call begins. @return whether its time is none of computing: then
 *  wring_recorder_leave() is to follow. Threads: safe. */
bool wring_recorder_call(struct wring_recorder *recorder, const struct wring_group *group,
                         const struct wring_work *work);

/** Somebody waits for a call of that group. @return as above */
bool wring_recorder_wait(struct wring_recorder *recorder, const struct wring_group *group);
void wring_recorder_leave(struct wring_recorder *recorder);

#endif
