/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The iterations of a job that posts committed buckets. WRING_PLAN=auto counts and times them
 * (autotune/autotune.h), and so does the recorder (recorder.h).
 *
 * An iteration is over when every bucket that takes part has been posted and seen to end. Computing
 * is the time that is not spent in posts and waits, from the end of one iteration on.
 *
 * Sums and averages of f32, f16 and bf16 among all ranks take part. The threads that post and wait
 * call the hooks: any thread may.
 */
#ifndef WRING_RUNTIME_ITERATIONS_H
#define WRING_RUNTIME_ITERATIONS_H

#include <pthread.h>

#include "planner/core/files/tensor_trace.h"
#include "runtime/bucket.h"

#define WRING_ITERATIONS_WARM 2  /* iterations after a change that do not count */
#define WRING_ITERATIONS_TIMED 7 /* and those that do */

struct wring_iterations;

/** A bucket that takes part. */
struct wring_iterated {
    struct wring_iterations *iterations;
    struct wring_bucket *bucket;
    uint64_t posts;                          /* since the last change */
    bool pending;                            /* posted, and not seen to end */
    double ready_us[WRING_ITERATIONS_TIMED]; /* computing before its post, of each iteration */
};

struct wring_iterations {
    struct wring_session *session;
    pthread_mutex_t mutex;
    /** So many as were due are complete, and the next one begins. Under the mutex. */
    enum wring_status (*reached)(struct wring_iterations *iterations);
    uint32_t n; /* buckets that take part */
    struct wring_iterated *tensors;
    bool off; /* nobody counts any more */

    /* since the last change; under mutex */
    uint64_t iteration; /* complete ones */
    uint64_t due;       /* after which `reached` is called */
    uint32_t left;      /* buckets that the current one lacks */
    uint64_t began_ns;  /* the end of the one before; 0: not known */
    uint64_t ended_ns;  /* when a bucket was last seen to end */
    uint64_t waited_ns; /* of the current one, in posts and in waits before all was posted */
    bool early;         /* somebody waited before all was posted */
    double took_us[WRING_ITERATIONS_TIMED], compute_us[WRING_ITERATIONS_TIMED]; /* the last ones */
};

void wring_iterations_init(struct wring_iterations *iterations, struct wring_session *session,
                           enum wring_status (*reached)(struct wring_iterations *iterations));
void wring_iterations_finish(struct wring_iterations *iterations);

/**
 * A commit of the application begins, no bucket is joined: who takes part from now on?
 * @param movable  only buckets that a plan may move to another codec and merge
 * Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_iterations_list(struct wring_iterations *iterations, bool movable);

/** Nobody takes part any more; hooks are taken off. None is under way. */
void wring_iterations_forget(struct wring_iterations *iterations);

/** Counting begins anew, after a change. @param due  iterations */
void wring_iterations_restart(struct wring_iterations *iterations, uint64_t due);

/** Nobody posts any more: the last iteration is over, if it is complete. Errors: those of
 *  `reached`. */
enum wring_status wring_iterations_end(struct wring_iterations *iterations);

/** @param n  1 to WRING_ITERATIONS_TIMED */
double wring_iterations_median(const double *values, uint32_t n);

/**
 * The trace of an iteration in which tensors are ready at these times.
 *
 * @param ready_us  [n]
 * @param order     out, [trace->n] its tensors, as they are numbered here; freed by the caller
 * @param trace     out, zeroed; its tensors are freed by the caller, whose names are the buckets'
 *
 * Errors: WRING_ERR_NO_MEMORY; what was made is freed by the caller then, too.
 */
enum wring_status wring_iterations_trace(const struct wring_iterations *iterations,
                                         const double *ready_us, uint32_t **order,
                                         struct wring_tensor_trace *trace);

#endif
