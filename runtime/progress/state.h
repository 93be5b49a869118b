/* SPDX-License-Identifier: Apache-2.0 */
/** The state of progress, and how its sleepers are put to sleep and woken. Private to progress*.c.
 */
#ifndef WRING_RUNTIME_PROGRESS_STATE_H
#define WRING_RUNTIME_PROGRESS_STATE_H

#include <pthread.h>

#include "base/clock.h"
#include "runtime/progress/progress.h"
#include "transport/wait_policy.h"

/**
 * A thread that sleeps until its descriptor is written to. It raises its flag before its last look
 * for work. The thread that wakes it lowers the flag first, so that no sleep is ended twice: each
 * write is a call into the kernel. Each sleeper has its own descriptor: from a common one, the
 * first to wake would read the wake-up of another that is about to sleep.
 */
struct wring_sleeper {
    int fd;
    atomic_bool asleep; /* or about to be */
};

struct wring_progress {
    struct wring_engine *engine;
    struct wring_completions *completions;
    uint64_t spin_ns;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t driver;
    atomic_bool stop;

    struct wring_aside aside; /* set before the first wait */

    uint64_t beside_ns; /* the driver's: since when it looks for data from other cores; 0: not */

    struct wring_sleeper caller; /* one that drives, so one at a time */
    struct wring_sleeper own;    /* the thread, while others may drive */
    atomic_ullong sleeps;        /* of all kinds, since the beginning */

    atomic_uint takers;  /* callers that drive or want to */
    atomic_uint lockers; /* threads that wait to hold the engine still */
    atomic_uint taken;   /* how often a caller has; written under the driver lock */

    /* Callers that test often are one taker together. Any of them begins that, the thread ends it:
     * it stands back meanwhile, and looks how many visits there were since its last look. */
    bool visitable;          /* all peers' memory is mapped: a poll does not enter the kernel */
    atomic_bool visited;     /* callers test often now */
    atomic_uint visits;      /* how many there were; of simultaneous ones some may be missing */
    unsigned visits_seen;    /* the thread's: at its last look */
    uint64_t visits_seen_ns; /* and when that was */

    /*
     * Waking the thread costs more than a small collective and takes a core from another rank. A
     * prompt caller waits at once after its post, and drives. So while callers are prompt, posts
     * leave a parked thread alone. It looks for itself every park_ns; if it finds unattended work,
     * callers are not prompt any more.
     */
    atomic_bool prompt;
    atomic_ullong posted_ns; /* not prompt: the first post since a caller last drove; 0: none */

    pthread_mutex_t park_mutex;
    pthread_cond_t resume;  /* the thread may drive again */
    pthread_cond_t changed; /* a driver let go, or something finished */
    atomic_bool resumed;
    atomic_bool parked;    /* the thread waits for `resume` */
    atomic_uint onlookers; /* callers that wait for `changed` while another drives */

    /* An event loop drives, where there is no thread. */
    atomic_int outside_fd;         /* what it watches; -1: there is none */
    struct wring_wait_set outside; /* what is in that; under the driver lock */
    atomic_ullong outside_ns;      /* when it is to look in any case */

    /* Somebody asks for waiter_ns. To count it enters the kernel, so of short waits a share is. */
    atomic_bool metered;
    atomic_uint meter_every, unmetered; /* one wait of so many; those since the last one */
    atomic_ullong waiter_ns;
};

static inline bool wring_is_stopped(const struct wring_progress *progress)
{
    return atomic_load_explicit(&progress->stop, memory_order_acquire);
}

/** @return the CPU time at which a wait begins that is to be counted; 0: this one is not */
uint64_t wring_meter_begin(struct wring_progress *progress);

/** One wait stands for all since the last one that was counted. */
void wring_meter_end(struct wring_progress *progress, uint64_t began_ns);

/** Make the descriptors and the rest that sleeping needs. Errors: WRING_ERR_SYSTEM. */
enum wring_status wring_sleep_init(struct wring_progress *progress, bool threaded);

/** Nobody sleeps any more. Descriptors may be -1. */
void wring_sleep_finish(struct wring_progress *progress);

/** Make the driver look again, be it a caller or the thread. */
void wring_wake_driver(struct wring_progress *progress);

/** Something finished, or the driver lock is free: tell those who wait for either. */
void wring_wake_onlookers(struct wring_progress *progress);

/** Ring an event loop: another thread has polled, and the loop's descriptors may be disarmed. */
static inline void wring_disturb_loop(struct wring_progress *progress)
{
    if (atomic_load_explicit(&progress->outside_fd, memory_order_relaxed) >= 0)
        wring_completions_ring(progress->completions);
}

/** Let go of the driver lock: a caller who came meanwhile may drive now. Then deliver what was
 *  queued under it. */
static inline void wring_let_go(struct wring_progress *progress)
{
    pthread_mutex_unlock(&progress->driver);
    wring_wake_onlookers(progress);
    wring_disturb_loop(progress);
    if (wring_completions_wait(progress->completions))
        wring_completions_deliver(progress->completions);
}

/**
 * Make the thread drive again, wherever it waits. While it slept, another thread may have polled
 * and taken the events that would have woken it.
 */
void wring_wake_thread(struct wring_progress *progress);

/** Work is in flight that no caller drives: wake the thread for it, unless a caller will come. */
void wring_hand_over(struct wring_progress *progress);

/** Spin through a short gap. With more ranks than cores it yields each time: the rank that we wait
 *  for needs the core now. @return false when it is time to sleep */
bool wring_spin(const struct wring_progress *progress, uint64_t idle_ns);

/**
 * For a caller that drives, after a poll that brought nothing. With more ranks than cores, the rank
 * that shares our core may be the one we wait for, and gets the core at once. If a rank on another
 * core may send next, the caller first looks for its data, for as long as yielding would take.
 */
void wring_yield_core(struct wring_progress *progress);

/** As wring_spin, for a caller that drives. */
bool wring_spin_as_driver(struct wring_progress *progress, uint64_t idle_ns);

/**
 * A caller that drives, and only waits for ranks on its core to work through much mapped data,
 * sleeps a little. The scheduler gives it the core back when the time is over. After a yield, it
 * would wait until the other ranks have used up a slice.
 * @return false if there is no such wait
 */
bool wring_nap_if_crowded(struct wring_progress *progress, uint64_t deadline_ns);

/**
 * Prepare to sleep until something comes for the engine. Under the driver lock.
 * @return false if there is something to do after all; the sleeper's flag is down again
 */
bool wring_sleep_prepare(struct wring_progress *progress, struct wring_wait_set *set,
                         struct wring_sleeper *sleeper);

/** After the sleep. */
void wring_sleep_end(struct wring_sleeper *sleeper);

/** Wait on one of the conditions for at most so long. Under park_mutex. @return true if that time
 * is over */
bool wring_sleep_on(struct wring_progress *progress, pthread_cond_t *condition, uint64_t ns);

#endif
