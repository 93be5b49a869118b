/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Completions of steps, calls and messages: callbacks, in the order in which these ended, and a
 * descriptor that an event loop watches.
 *
 * They end in a thread that drives, which holds the driver lock and only queues them. The thread
 * that lets go of that lock delivers the queue, one thread at a time, and holds no lock of wring's
 * meanwhile.
 */
#ifndef WRING_RUNTIME_COMPLETIONS_H
#define WRING_RUNTIME_COMPLETIONS_H

#include <pthread.h>
#include <stdatomic.h>

#include <wring/wring.h>

/**
 * A thing that ends once or again and again: a request, a bucket. Its callback gets a copy of the
 * result, so that nothing of it is touched once that has begun.
 */
struct wring_completion {
    wring_done_fn done; /* NULL: nobody is called */
    void *done_arg;
    struct wring_result result; /* of its last end; while calls are owed, under the list's mutex */
    /** Before the callback of its last end, in the thread that calls: bring the data to where it
     *  belongs. NULL: it is there. One that has it is not released while calls are owed. Under the
     *  list's mutex. */
    void (*settle)(struct wring_completion *completion);

    /* under the list's mutex */
    struct wring_completion *next;
    uint32_t owed; /* calls, of as many ends; all but the last were successes */
    void (*forget)(struct wring_completion *completion); /* its owner has let go of it, and it goes
                                                            with the last call; NULL: not yet */
};

struct wring_completions {
    pthread_mutex_t mutex;
    struct wring_completion *first, **end; /* that are owed calls */
    atomic_bool any;                       /* there are some */
    atomic_bool heeded;                    /* whoever lets go of the driver lock has to look here */
    atomic_bool looped;                    /* for an event loop always */
    atomic_bool taken;                     /* a thread delivers */
    atomic_ulong deliverer;                /* its pthread_t; 0: there is none */
    atomic_int bell;                       /* readable while `rung`; -1: nobody watches */
    atomic_bool rung;
};

void wring_completions_init(struct wring_completions *all);

/** Nothing is queued any more. */
void wring_completions_finish(struct wring_completions *all);

/**
 * Something has ended: write its result, then what others see of its end, and queue its callback.
 * @param status  where others look; becomes result->status. NULL: they have seen it already
 * Threads: safe.
 */
void wring_completion_end(struct wring_completions *all, struct wring_completion *completion,
                          const struct wring_result *result, atomic_int *status);

/** From now on that is called before the callbacks of its last ends. Threads: safe. */
void wring_completion_settle_by(struct wring_completions *all, struct wring_completion *completion,
                                void (*settle)(struct wring_completion *completion));

/** Its owner lets go of it: `forget` is called now, or after the calls that it is owed. */
void wring_completion_release(struct wring_completions *all, struct wring_completion *completion,
                              void (*forget)(struct wring_completion *completion));

/** Call what is queued by now, unless another thread does that. Threads: safe, without locks. */
void wring_completions_deliver(struct wring_completions *all);

/** Call all that is queued, and return when no other thread is calling either. Not from inside a
 *  callback. */
void wring_completions_drain(struct wring_completions *all);

/** Is something queued that no thread delivers? */
static inline bool wring_completions_wait(const struct wring_completions *all)
{
    return atomic_load_explicit(&all->any, memory_order_relaxed) &&
           !atomic_load_explicit(&all->taken, memory_order_relaxed);
}

/** Is this thread inside a callback? */
static inline bool wring_completions_inside(const struct wring_completions *all)
{
    unsigned long deliverer = atomic_load_explicit(&all->deliverer, memory_order_relaxed);
    return deliverer != 0 && deliverer == (unsigned long)pthread_self();
}

/** From now on there is an event loop that drives. */
void wring_completions_loop(struct wring_completions *all);

/** Make the descriptor readable, if there is one. Threads: safe. */
void wring_completions_ring(struct wring_completions *all);

/** Make it unreadable; then look for completions. */
void wring_completions_hush(struct wring_completions *all);

#endif
