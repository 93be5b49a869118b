/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/progress/completions.h"

#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "transport/wait_policy.h"

void wring_completions_init(struct wring_completions *all)
{
    pthread_mutex_init(&all->mutex, NULL);
    all->end = &all->first;
    atomic_init(&all->bell, -1);
}

void wring_completions_finish(struct wring_completions *all)
{
    wring_descriptor_close(atomic_load(&all->bell));
    pthread_mutex_destroy(&all->mutex);
}

void wring_completions_ring(struct wring_completions *all)
{
    uint64_t one = 1;
    int fd = atomic_load_explicit(&all->bell, memory_order_relaxed);
    if (fd < 0 || atomic_exchange(&all->rung, true))
        return;
    ssize_t ignored = write(fd, &one, sizeof(one));
    (void)ignored; /* it was silent, so it has room */
}

void wring_completions_hush(struct wring_completions *all)
{
    uint64_t count;
    int fd = atomic_load_explicit(&all->bell, memory_order_relaxed);
    if (fd < 0)
        return;
    ssize_t ignored = read(fd, &count, sizeof(count));
    (void)ignored;                   /* EAGAIN: it was silent */
    atomic_store(&all->rung, false); /* what rang in between is seen by the look that follows */
}

void wring_completions_loop(struct wring_completions *all)
{
    pthread_mutex_lock(&all->mutex);
    atomic_store(&all->looped, true);
    atomic_store(&all->heeded, true);
    pthread_mutex_unlock(&all->mutex);
}

/** Under the mutex. */
static void queue_callback(struct wring_completions *all, struct wring_completion *completion)
{
    if (completion->owed++ > 0)
        return;
    completion->next = NULL;
    *all->end = completion;
    all->end = &completion->next;
    atomic_store(&all->any, true);
    atomic_store(&all->heeded, true);
}

void wring_completion_end(struct wring_completions *all, struct wring_completion *completion,
                          const struct wring_result *result, atomic_int *status)
{
    bool called = completion->done != NULL;

    if (called) { /* whoever sees the status may release it, and waits for us */
        pthread_mutex_lock(&all->mutex);
        queue_callback(all, completion);
    }
    completion->result = *result;
    if (status != NULL)
        atomic_store_explicit(status, (int)result->status, memory_order_release);
    if (called)
        pthread_mutex_unlock(&all->mutex);
    wring_completions_ring(all);
}

void wring_completion_release(struct wring_completions *all, struct wring_completion *completion,
                              void (*forget)(struct wring_completion *completion))
{
    bool later = false;
    if (completion->done != NULL) {
        pthread_mutex_lock(&all->mutex);
        later = completion->owed > 0;
        if (later)
            completion->forget = forget;
        pthread_mutex_unlock(&all->mutex);
    }
    if (!later)
        forget(completion);
}

void wring_completion_settle_by(struct wring_completions *all, struct wring_completion *completion,
                                void (*settle)(struct wring_completion *completion))
{
    pthread_mutex_lock(&all->mutex);
    completion->settle = settle;
    pthread_mutex_unlock(&all->mutex);
}

/** A call that is to be made. */
struct call {
    wring_done_fn done;
    void *arg;
    struct wring_result result;
};

/** Of one that ended again since: it was posted again, so it had succeeded. */
static struct wring_result earlier_step_result(const struct wring_completion *completion)
{
    struct wring_result result = completion->result;
    if (result.status != WRING_OK)
        result.bytes = 0;
    result.status = WRING_OK;
    result.rank = -1;
    return result;
}

/** Take the next call off the queue. @return false: there is none */
static bool take_callback(struct wring_completions *all, struct call *call)
{
    void (*settle)(struct wring_completion *) = NULL, (*forget)(struct wring_completion *) = NULL;

    pthread_mutex_lock(&all->mutex);
    struct wring_completion *completion = all->first;
    if (completion != NULL) {
        bool last = completion->owed == 1;
        settle = last ? completion->settle : NULL;
        *call = (struct call){completion->done, completion->done_arg,
                              last ? completion->result : earlier_step_result(completion)};
        if (--completion->owed == 0) {
            all->first = completion->next;
            if (all->first == NULL)
                all->end = &all->first;
            forget = completion->forget;
        }
    }
    atomic_store(&all->any, all->first != NULL);
    atomic_store(&all->heeded, all->first != NULL || atomic_load(&all->looped));
    pthread_mutex_unlock(&all->mutex);
    if (settle != NULL)
        settle(completion);
    if (forget != NULL)
        forget(completion);
    return completion != NULL;
}

static uint64_t count_callbacks(struct wring_completions *all)
{
    uint64_t n = 0;
    pthread_mutex_lock(&all->mutex);
    for (const struct wring_completion *at = all->first; at != NULL; at = at->next)
        n += at->owed;
    pthread_mutex_unlock(&all->mutex);
    return n;
}

void wring_completions_deliver(struct wring_completions *all)
{
    struct call call;

    if (!atomic_load(&all->any) || atomic_exchange(&all->taken, true))
        return;
    atomic_store(&all->deliverer, (unsigned long)pthread_self());
    /* what callbacks bring about is for another pass: our caller may wait for something else */
    for (uint64_t left = count_callbacks(all); left > 0 && take_callback(all, &call); left--)
        call.done(call.arg, &call.result);
    atomic_store(&all->deliverer, 0);
    atomic_store(&all->taken, false);
}

void wring_completions_drain(struct wring_completions *all)
{
    const struct timespec pause = {0, wring_wait_policy.pause_ns};

    while (atomic_load(&all->any) || atomic_load(&all->taken)) {
        wring_completions_deliver(all);
        if (atomic_load(&all->taken))
            nanosleep(&pause, NULL);
    }
}
