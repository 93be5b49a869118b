/* SPDX-License-Identifier: Apache-2.0 */
/** An executor of threads, each pinned to a core of its own. */
#ifndef WRING_OFFLOAD_POOL_H
#define WRING_OFFLOAD_POOL_H

#include <stddef.h>

#include "base/log.h"
#include <wring/executor.h>

/* Queues of jobs: lists through the jobs' own `next`, most urgent first. Threads: one at a time.
 */

struct wring_job_queue {
    struct wring_job *first, **last;
    int32_t lowest; /* priority of the last one, if there is any */
};

static inline void wring_job_queue_init(struct wring_job_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

/** Behind all others. It stays the caller's, and where it is. */
static inline void wring_job_queue_append(struct wring_job_queue *queue, struct wring_job *job)
{
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
    queue->lowest = job->priority;
}

/** Behind all that are as urgent, of a queue that is filled by this alone. */
static inline void wring_job_queue_push(struct wring_job_queue *queue, struct wring_job *job)
{
    if (queue->first == NULL || queue->lowest <= job->priority) {
        wring_job_queue_append(queue, job);
        return;
    }
    struct wring_job **at = &queue->first;
    while ((*at)->priority <= job->priority)
        at = &(*at)->next;
    job->next = *at;
    *at = job;
}

/** The oldest, or NULL. */
static inline struct wring_job *wring_job_queue_pop(struct wring_job_queue *queue)
{
    struct wring_job *job = queue->first;
    if (job != NULL) {
        queue->first = job->next;
        if (queue->first == NULL)
            queue->last = &queue->first;
    }
    return job;
}

#define WRING_POOL_THREADS_MAX 256

struct wring_pool_params {
    /**
     * How many cores, or which: "2", "cores=0,2-3" (the system's numbers). NULL or "": one core.
     * A count takes cores that this process may use, last ones first and the caller's own last of
     * all, so that the application keeps the core it runs on while there is a choice.
     */
    const char *cores;
    const struct wring_log *log; /* borrowed for the call; NULL: silent */
};

/**
 * Start the threads. The calling thread counts as the application's.
 *
 * Errors: WRING_ERR_INVALID (malformed list, or a core that this process may not use),
 * WRING_ERR_NO_MEMORY, WRING_ERR_SYSTEM (a thread or descriptor was refused).
 */
enum wring_status wring_executor_pool_create(const struct wring_pool_params *params,
                                             struct wring_executor **out);

#endif
