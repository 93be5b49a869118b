/* SPDX-License-Identifier: Apache-2.0 */
/** Queues of jobs: lists through the jobs' own `next`, most urgent first. Threads: one at a time.
 */
#ifndef WRING_OFFLOAD_JOB_QUEUE_H
#define WRING_OFFLOAD_JOB_QUEUE_H

#include <stddef.h>

#include <wring/executor.h>

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

#endif
