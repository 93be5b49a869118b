/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Threads that take jobs off one queue and put them onto another.
 *
 * Both queues are lists through the jobs' own `next` under one mutex: submit can then neither fail
 * nor block for long, however many jobs come, and any thread takes the oldest job. A job is worth
 * tens of microseconds or more, a lock well under one, so a lock-free queue would gain nothing.
 */
#include "offload/pool.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/wait_set.h"
#include "compress/executor_host.h"
#include "offload/cores.h"

#define WRING_MODULE "pool"

struct pool;

struct worker {
    struct pool *pool;
    pthread_t thread;
    unsigned core;
    void *scratch; /* [wring_job_scratch_bytes(pool->max_elems)] */
    _Atomic uint64_t cpu_ns;
};

/** An event has happened once all jobs are over that were submitted before it was recorded. */
struct wring_event {
    struct wring_event *next; /* of those that have not happened */
    uint64_t before;          /* the ticket of the first job that does not count */
    uint64_t left;            /* jobs that are not over; 0: it has happened */
};

struct pool {
    struct wring_executor base;
    pthread_mutex_t lock; /* of all that follows up to `workers` */
    pthread_cond_t work;
    struct wring_job_queue waiting, done;
    struct wring_job_queue held; /* until an event of theirs happens */
    struct wring_event *events;  /* that have not happened */
    uint64_t tickets, over;      /* jobs submitted, and ended */
    bool armed, stopping;
    uint64_t max_elems;

    int wake_fd;
    size_t n_workers; /* threads that run */
    struct worker workers[WRING_POOL_THREADS_MAX];
};

/** The next job, or NULL when the pool stops. */
static struct wring_job *wait_for_job(struct pool *pool)
{
    struct wring_job *job = NULL;

    pthread_mutex_lock(&pool->lock);
    while (!pool->stopping && (job = wring_job_queue_pop(&pool->waiting)) == NULL)
        pthread_cond_wait(&pool->work, &pool->lock); /* ended by submit or destroy */
    pthread_mutex_unlock(&pool->lock);
    return job;
}

/** May it begin? It waits among those held, else. Under the lock. */
static void hold_or_queue(struct pool *pool, struct wring_job *job)
{
    if (job->after == NULL || job->after->left == 0)
        wring_job_queue_push(&pool->waiting, job);
    else
        wring_job_queue_append(&pool->held, job);
}

/** Something has happened that jobs may have waited for. Under the lock. */
static void release_held_jobs(struct pool *pool)
{
    struct wring_job_queue held = pool->held;
    struct wring_job *job;

    if (held.first == NULL)
        return;
    wring_job_queue_init(&pool->held);
    while ((job = wring_job_queue_pop(&held)) != NULL)
        hold_or_queue(pool, job);
    pthread_cond_broadcast(&pool->work);
}

/** A job is over: events that waited for it. Under the lock. */
static void count_job_over(struct pool *pool, const struct wring_job *job)
{
    bool any = false;

    pool->over++;
    for (struct wring_event **at = &pool->events; *at != NULL;) {
        struct wring_event *event = *at;
        if (job->ticket < event->before && --event->left == 0) {
            *at = event->next;
            any = true;
        } else
            at = &event->next;
    }
    if (any)
        release_held_jobs(pool);
}

static void finish_job(struct pool *pool, struct wring_job *job)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&pool->lock);
    count_job_over(pool, job);
    wring_job_queue_append(&pool->done, job);
    bool wake = pool->armed;
    pool->armed = false;
    pthread_mutex_unlock(&pool->lock);
    if (wake && write(pool->wake_fd, &one, sizeof(one)) < 0) {
        /* Only a full counter refuses, and that is readable already. */
    }
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;
    struct wring_job *job;

    while ((job = wait_for_job(worker->pool)) != NULL) {
        wring_host_run(job, worker->scratch, worker->pool->max_elems);
        atomic_store_explicit(&worker->cpu_ns, wring_thread_cpu_ns(), memory_order_relaxed);
        finish_job(worker->pool, job);
    }
    return NULL;
}

static enum wring_status pool_reserve(struct wring_executor *executor, uint64_t max_elems)
{
    struct pool *pool = (struct pool *)executor;
    if (max_elems <= pool->max_elems)
        return WRING_OK;

    for (size_t i = 0; i < pool->n_workers; i++) {
        void *scratch = aligned_alloc(WRING_SCRATCH_ALIGN, wring_job_scratch_bytes(max_elems));
        if (scratch == NULL)
            return WRING_ERR_NO_MEMORY; /* larger scratch of some threads does no harm */
        free(pool->workers[i].scratch);
        pool->workers[i].scratch = scratch;
    }
    pthread_mutex_lock(&pool->lock); /* makes it known to the threads, which are idle */
    pool->max_elems = max_elems;
    pthread_mutex_unlock(&pool->lock);
    return WRING_OK;
}

static void pool_submit(struct wring_executor *executor, struct wring_job *const *jobs, size_t n)
{
    struct pool *pool = (struct pool *)executor;

    pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < n; i++) {
        jobs[i]->ticket = pool->tickets++;
        hold_or_queue(pool, jobs[i]);
    }
    pthread_mutex_unlock(&pool->lock);
    if (n == 1)
        pthread_cond_signal(&pool->work);
    else if (n > 1)
        pthread_cond_broadcast(&pool->work);
}

/** Empty the descriptor, so that it does not stay readable for jobs that have been polled. */
static void drain_wake_fd(const struct pool *pool)
{
    uint64_t count;
    while (read(pool->wake_fd, &count, sizeof(count)) < 0 && errno == EINTR) {
    }
}

static size_t pool_poll(struct wring_executor *executor, struct wring_job **done, size_t max)
{
    struct pool *pool = (struct pool *)executor;
    size_t n = 0;

    pthread_mutex_lock(&pool->lock);
    for (; n < max; n++) {
        done[n] = wring_job_queue_pop(&pool->done);
        if (done[n] == NULL)
            break;
    }
    if (n > 0) /* a last look that finds nothing leaves it armed: the caller will sleep */
        pool->armed = false;
    pthread_mutex_unlock(&pool->lock);
    return n;
}

static void pool_arm(struct wring_executor *executor, struct wring_wait_set *set)
{
    struct pool *pool = (struct pool *)executor;

    drain_wake_fd(pool);
    pthread_mutex_lock(&pool->lock);
    pool->armed = true;
    pthread_mutex_unlock(&pool->lock);
    wring_wait_set_watch(set, pool->wake_fd);
}

static enum wring_status pool_event_create(struct wring_executor *executor,
                                           struct wring_event **out)
{
    (void)executor;
    *out = calloc(1, sizeof(**out));
    return *out != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

/** Out of the list, if it is there. Under the lock. */
static void forget_event(struct pool *pool, const struct wring_event *event)
{
    struct wring_event **at = &pool->events;
    while (*at != NULL && *at != event)
        at = &(*at)->next;
    if (*at != NULL)
        *at = event->next;
}

static void pool_event_destroy(struct wring_executor *executor, struct wring_event *event)
{
    struct pool *pool = (struct pool *)executor;
    if (event == NULL)
        return;
    pthread_mutex_lock(&pool->lock);
    forget_event(pool, event);
    pthread_mutex_unlock(&pool->lock);
    free(event);
}

static enum wring_status pool_event_record(struct wring_executor *executor,
                                           struct wring_event *event,
                                           const struct wring_stream *stream)
{
    struct pool *pool = (struct pool *)executor;
    if (stream != NULL)
        return WRING_ERR_UNSUPPORTED;
    pthread_mutex_lock(&pool->lock);
    forget_event(pool, event);
    event->before = pool->tickets;
    event->left = pool->tickets - pool->over;
    event->next = pool->events;
    if (event->left > 0)
        pool->events = event;
    pthread_mutex_unlock(&pool->lock);
    return WRING_OK;
}

static uint64_t pool_cpu_ns(struct wring_executor *executor)
{
    struct pool *pool = (struct pool *)executor;
    uint64_t total = 0;
    for (size_t i = 0; i < pool->n_workers; i++)
        total += atomic_load_explicit(&pool->workers[i].cpu_ns, memory_order_relaxed);
    return total;
}

static void pool_destroy(struct wring_executor *executor)
{
    struct pool *pool = (struct pool *)executor;
    if (pool == NULL)
        return;

    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_mutex_unlock(&pool->lock);
    pthread_cond_broadcast(&pool->work);
    for (size_t i = 0; i < pool->n_workers; i++) {
        pthread_join(pool->workers[i].thread, NULL);
        free(pool->workers[i].scratch);
    }
    wring_descriptor_close(pool->wake_fd);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static const struct wring_executor_ops pool_ops = {
    .name = "pool",
    .reserve = pool_reserve,
    .submit = pool_submit,
    .poll = pool_poll,
    .arm = pool_arm,
    .event_create = pool_event_create,
    .event_destroy = pool_event_destroy,
    .event_record = pool_event_record,
    .allocate = wring_host_allocate,
    .release = wring_host_release,
    .copy = wring_host_copy,
    .cpu_ns = pool_cpu_ns,
    .destroy = pool_destroy,
};

static void pin_thread(hwloc_topology_t topology, const struct worker *worker,
                       const struct wring_log *log)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (set != NULL)
        hwloc_bitmap_only(set, worker->core);
    if (set == NULL ||
        hwloc_set_thread_cpubind(topology, worker->thread, set, HWLOC_CPUBIND_STRICT) != 0)
        wring_warn(log, "a thread cannot be pinned to core %u and runs unpinned: %s", worker->core,
                   strerror(errno));
    hwloc_bitmap_free(set);
}

static enum wring_status start_workers(struct pool *pool, hwloc_topology_t topology,
                                       const unsigned *cores, size_t count,
                                       const struct wring_log *log)
{
    int error = 0;

    for (size_t i = 0; i < count && error == 0; i++) {
        struct worker *worker = &pool->workers[i];
        worker->pool = pool;
        worker->core = cores[i];
        error = wring_thread_create(&worker->thread, worker_main, worker);
        if (error != 0)
            break;
        pool->n_workers++;
        pin_thread(topology, worker, log);
        wring_info(log, "thread %zu of %zu runs codecs on core %u", i + 1, count, worker->core);
    }
    if (error == 0)
        return WRING_OK;
    errno = error;
    wring_error(log, "thread %zu of %zu cannot start: %s", pool->n_workers + 1, count,
                WRING_REFUSED("pthread_create"));
    return WRING_ERR_SYSTEM;
}

static enum wring_status pool_alloc(const struct wring_log *log, struct pool **out)
{
    struct pool *pool = calloc(1, sizeof(*pool));
    if (pool == NULL)
        return WRING_ERR_NO_MEMORY;
    pool->wake_fd = WRING_DESCRIPTOR(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (pool->wake_fd < 0) {
        wring_error(log, "no wake-up descriptor: %s", WRING_REFUSED("eventfd"));
        free(pool);
        return WRING_ERR_SYSTEM;
    }
    pool->base.ops = &pool_ops;
    wring_job_queue_init(&pool->waiting);
    wring_job_queue_init(&pool->done);
    wring_job_queue_init(&pool->held);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    *out = pool;
    return WRING_OK;
}

enum wring_status wring_executor_pool_create(const struct wring_pool_params *params,
                                             struct wring_executor **out)
{
    unsigned cores[WRING_POOL_THREADS_MAX];
    size_t count;
    hwloc_topology_t topology;
    struct pool *pool;

    enum wring_status status = wring_cores_load(params->log, &topology);
    if (status != WRING_OK)
        return status;
    status = wring_cores_choose(topology, params->cores, sched_getcpu(), params->log, cores,
                                WRING_POOL_THREADS_MAX, &count);
    if (status != WRING_OK)
        goto destroy_topology;
    status = pool_alloc(params->log, &pool);
    if (status != WRING_OK)
        goto destroy_topology;

    status = start_workers(pool, topology, cores, count, params->log);
    if (status != WRING_OK)
        pool_destroy(&pool->base);
    else
        *out = &pool->base;

destroy_topology:
    hwloc_topology_destroy(topology);
    return status;
}
