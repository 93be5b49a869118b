/* SPDX-License-Identifier: Apache-2.0 */
/** Queues of jobs: lists through the jobs' own `next`. Threads: one at a time. */
#ifndef WRING_OFFLOAD_JOB_QUEUE_H
#define WRING_OFFLOAD_JOB_QUEUE_H

#include <stddef.h>

#include <wring/executor.h>

struct wring_job_queue {
    struct wring_job *first, **last;
};

static inline void wring_job_queue_init(struct wring_job_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

/** It stays the caller's, and where it is. */
static inline void wring_job_queue_push(struct wring_job_queue *queue, struct wring_job *job)
{
    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
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

#endif
