/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/progress.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"

#define PARK_NS (1 * WRING_NS_PER_MS) /* how long the thread stands back after a caller drove */

struct wring_progress {
    struct wring_engine *engine;
    uint64_t spin_ns;
    bool threaded;
    pthread_t thread;
    pthread_mutex_t driver;

    int wake_fd;                 /* ends the sleep of whoever drives */
    atomic_bool sleeping;        /* the driver sleeps, or is about to */
    atomic_bool thread_sleeping; /* the thread does, and others may drive meanwhile */
    atomic_bool stop;

    atomic_uint takers; /* callers that drive or want to */
    atomic_uint taken;  /* how often a caller has */
    pthread_mutex_t park_mutex;
    pthread_cond_t resume;  /* the thread may drive again */
    pthread_cond_t changed; /* a driver let go, or something finished */
    bool resumed;
    atomic_uint onlookers; /* callers that wait while another drives */

    atomic_bool metered; /* somebody asks for waiter_ns; to count it enters the kernel */
    atomic_ullong waiter_ns;
};

static void end_sleeps(struct wring_progress *progress)
{
    uint64_t one = 1;
    ssize_t ignored = write(progress->wake_fd, &one, sizeof(one));
    (void)ignored; /* full means that it will be seen anyway */
}

static void wake_driver(struct wring_progress *progress)
{
    if (atomic_exchange(&progress->sleeping, false))
        end_sleeps(progress);
}

static void tell_onlookers(struct wring_progress *progress)
{
    if (atomic_load(&progress->onlookers) == 0)
        return;
    pthread_mutex_lock(&progress->park_mutex);
    pthread_cond_broadcast(&progress->changed);
    pthread_mutex_unlock(&progress->park_mutex);
}

/**
 * The thread is to drive again, wherever it waits. One that sleeps may have been disarmed: whoever
 * polled meanwhile took over what would have woken it.
 */
static void resume_thread(struct wring_progress *progress)
{
    if (!progress->threaded)
        return;
    if (atomic_load(&progress->thread_sleeping)) {
        end_sleeps(progress);
        return;
    }
    pthread_mutex_lock(&progress->park_mutex);
    progress->resumed = true;
    pthread_cond_signal(&progress->resume);
    pthread_mutex_unlock(&progress->park_mutex);
}

static struct timespec from_now(uint64_t ns)
{
    struct timespec until;
    uint64_t at = wring_clock_ns(CLOCK_MONOTONIC) + ns;
    until.tv_sec = (time_t)(at / WRING_NS_PER_S);
    until.tv_nsec = (long)(at % WRING_NS_PER_S);
    return until;
}

/** Prepare to sleep. @return false if there is something to do after all */
static bool prepare_sleep(struct wring_progress *progress, struct wring_wait_set *set)
{
    wring_engine_arm(progress->engine, set);
    set->fds[set->n++] = (struct pollfd){progress->wake_fd, POLLIN, 0};
    atomic_store(&progress->sleeping, true);
    bool posted = atomic_load(&progress->engine->posted) != NULL;
    if (set->busy || posted || atomic_load(&progress->stop) ||
        wring_engine_poll(progress->engine)) {
        atomic_store(&progress->sleeping, false);
        return false;
    }
    return true;
}

static void end_sleep(struct wring_progress *progress)
{
    uint64_t count;
    atomic_store(&progress->sleeping, false);
    ssize_t ignored = read(progress->wake_fd, &count, sizeof(count));
    (void)ignored; /* EAGAIN: something else woke us */
}

/** Spinning is for short gaps; with more ranks than cores the one we wait for needs the core. */
static bool spin(const struct wring_progress *progress, uint64_t idle_ns)
{
    if (idle_ns >= progress->spin_ns)
        return false;
    if (idle_ns > progress->spin_ns / 4)
        sched_yield();
    return true;
}

/** Drive as the thread until a caller wants to, or it is time to stop. Holds the driver lock. */
static void drive_as_thread(struct wring_progress *progress)
{
    uint64_t idle_since = 0;
    while (!atomic_load(&progress->stop) && atomic_load(&progress->takers) == 0) {
        if (wring_engine_poll(progress->engine)) {
            idle_since = 0;
            tell_onlookers(progress);
            continue;
        }
        uint64_t now = wring_now_ns();
        idle_since = idle_since == 0 ? now : idle_since;
        if (spin(progress, now - idle_since))
            continue;
        struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
        atomic_store(&progress->thread_sleeping, true); /* before the last look at what is posted */
        if (!prepare_sleep(progress, &set)) {
            atomic_store(&progress->thread_sleeping, false);
            continue;
        }
        pthread_mutex_unlock(&progress->driver); /* whoever waits may drive meanwhile */
        if (atomic_load(&progress->takers) == 0)
            wring_wait_set_sleep(&set);
        atomic_store(&progress->thread_sleeping, false);
        end_sleep(progress);
        if (atomic_load(&progress->takers) > 0) {
            pthread_mutex_lock(&progress->driver);
            return;
        }
        pthread_mutex_lock(&progress->driver);
        idle_since = 0;
    }
}

/** Stand back while callers drive, and a little longer: they tend to come again. */
static void park(struct wring_progress *progress)
{
    unsigned seen = atomic_load(&progress->taken);
    pthread_mutex_lock(&progress->park_mutex);
    while (!progress->resumed && !atomic_load(&progress->stop)) {
        struct timespec until = from_now(PARK_NS);
        pthread_cond_timedwait(&progress->resume, &progress->park_mutex, &until);
        unsigned now = atomic_load(&progress->taken);
        if (atomic_load(&progress->takers) == 0 && now == seen)
            break;
        seen = now;
    }
    progress->resumed = false;
    pthread_mutex_unlock(&progress->park_mutex);
}

static void *thread_main(void *arg)
{
    struct wring_progress *progress = arg;
    pthread_setname_np(pthread_self(), "wring-progress");
    prctl(PR_SET_TIMERSLACK, 1000ul); /* an emulated link counts on exact wake-ups; in ns */
    while (!atomic_load(&progress->stop)) {
        if (atomic_load(&progress->takers) > 0) {
            park(progress);
            continue;
        }
        pthread_mutex_lock(&progress->driver);
        drive_as_thread(progress);
        pthread_mutex_unlock(&progress->driver);
        tell_onlookers(progress); /* a caller who came meanwhile may drive now */
    }
    return NULL;
}

enum wring_status wring_progress_create(struct wring_engine *engine, bool threaded,
                                        uint64_t spin_ns, struct wring_progress **out)
{
    struct wring_progress *progress = calloc(1, sizeof(*progress));
    pthread_condattr_t monotonic;
    if (progress == NULL)
        return WRING_ERR_NO_MEMORY;
    progress->engine = engine;
    progress->spin_ns = spin_ns;
    progress->threaded = threaded;
    progress->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&progress->driver, NULL);
    pthread_mutex_init(&progress->park_mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&progress->resume, &monotonic);
    pthread_cond_init(&progress->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);

    bool failed = progress->wake_fd < 0;
    if (!failed && threaded)
        failed = pthread_create(&progress->thread, NULL, thread_main, progress) != 0;
    if (failed) {
        progress->threaded = false;
        wring_progress_destroy(progress);
        return WRING_ERR_SYSTEM;
    }
    *out = progress;
    return WRING_OK;
}

void wring_progress_destroy(struct wring_progress *progress)
{
    if (progress == NULL)
        return;
    atomic_store(&progress->stop, true);
    if (progress->threaded) {
        wake_driver(progress);
        resume_thread(progress);
        pthread_join(progress->thread, NULL);
    }
    if (progress->wake_fd >= 0)
        close(progress->wake_fd);
    pthread_cond_destroy(&progress->changed);
    pthread_cond_destroy(&progress->resume);
    pthread_mutex_destroy(&progress->park_mutex);
    pthread_mutex_destroy(&progress->driver);
    free(progress);
}

void wring_progress_lock(struct wring_progress *progress)
{
    atomic_fetch_add(&progress->takers, 1);
    wake_driver(progress);
    pthread_mutex_lock(&progress->driver);
}

void wring_progress_unlock(struct wring_progress *progress)
{
    pthread_mutex_unlock(&progress->driver);
    atomic_fetch_sub(&progress->takers, 1);
    resume_thread(progress);
}

void wring_progress_posted(struct wring_progress *progress, bool urgent)
{
    if ((urgent || !progress->threaded) && pthread_mutex_trylock(&progress->driver) == 0) {
        wring_engine_poll(progress->engine);
        bool idle = wring_engine_idle(progress->engine);
        pthread_mutex_unlock(&progress->driver);
        if (idle)
            return;
    }
    if (atomic_load(&progress->takers) > 0)
        wake_driver(progress); /* the caller that drives may be asleep */
    else
        resume_thread(progress);
}

void wring_progress_nudge(struct wring_progress *progress)
{
    if (pthread_mutex_trylock(&progress->driver) != 0)
        return;
    wring_engine_poll(progress->engine);
    bool idle = wring_engine_idle(progress->engine);
    pthread_mutex_unlock(&progress->driver);
    if (!idle && atomic_load(&progress->thread_sleeping))
        resume_thread(progress);
}

static bool reached(const struct wring_goal *goal)
{
    return goal->reached(goal->arg);
}

/** Holds the driver lock. */
static void drive_as_caller(struct wring_progress *progress, const struct wring_goal *goal,
                            uint64_t deadline_ns)
{
    uint64_t idle_since = 0;
    while (!reached(goal)) {
        if (wring_engine_poll(progress->engine)) {
            idle_since = 0;
            tell_onlookers(progress);
            continue;
        }
        uint64_t now = wring_now_ns();
        if (now >= deadline_ns)
            return;
        idle_since = idle_since == 0 ? now : idle_since;
        if (spin(progress, now - idle_since))
            continue;
        struct wring_wait_set set = {.deadline_ns = deadline_ns};
        if (prepare_sleep(progress, &set) && !reached(goal)) {
            wring_wait_set_sleep(&set);
            end_sleep(progress);
        }
        idle_since = 0;
    }
}

static bool is_driven(struct wring_progress *progress)
{
    if (pthread_mutex_trylock(&progress->driver) != 0)
        return true;
    pthread_mutex_unlock(&progress->driver);
    return false;
}

/**
 * Somebody else drives: wait until they let go or something finishes. Whoever lets go after the
 * last look sees an onlooker, and cannot tell it anything before it waits.
 */
static void look_on(struct wring_progress *progress, const struct wring_goal *goal)
{
    struct timespec until = from_now(PARK_NS);
    pthread_mutex_lock(&progress->park_mutex);
    atomic_fetch_add(&progress->onlookers, 1);
    if (!reached(goal) && is_driven(progress))
        pthread_cond_timedwait(&progress->changed, &progress->park_mutex, &until);
    pthread_mutex_unlock(&progress->park_mutex);
    atomic_fetch_sub(&progress->onlookers, 1);
}

bool wring_progress_drive(struct wring_progress *progress, struct wring_goal goal,
                          uint64_t deadline_ns)
{
    if (reached(&goal))
        return true;

    bool metered = atomic_load(&progress->metered);
    uint64_t began_ns = metered ? wring_thread_cpu_ns() : 0;
    atomic_fetch_add(&progress->takers, 1);
    atomic_fetch_add(&progress->taken, 1);
    while (!reached(&goal) && wring_now_ns() < deadline_ns) {
        if (pthread_mutex_trylock(&progress->driver) != 0) {
            wake_driver(progress);
            look_on(progress, &goal);
            continue;
        }
        drive_as_caller(progress, &goal, deadline_ns);
        pthread_mutex_unlock(&progress->driver);
        tell_onlookers(progress);
    }
    /* what else is under way goes on without us */
    bool more = atomic_load(&progress->engine->n_active) > 0;
    if (atomic_fetch_sub(&progress->takers, 1) == 1 && more)
        resume_thread(progress);
    if (metered)
        atomic_fetch_add(&progress->waiter_ns, wring_thread_cpu_ns() - began_ns);
    return reached(&goal);
}

static bool is_done(const void *arg)
{
    const atomic_int *status = arg;
    return atomic_load_explicit(status, memory_order_acquire) != WRING_ERR_AGAIN;
}

enum wring_status wring_progress_wait(struct wring_progress *progress, const atomic_int *status,
                                      uint64_t deadline_ns)
{
    wring_progress_drive(progress, (struct wring_goal){is_done, (const void *)status}, deadline_ns);
    return (enum wring_status)atomic_load_explicit(status, memory_order_acquire);
}

void wring_progress_cpu(struct wring_progress *progress, uint64_t *thread_ns, uint64_t *waiter_ns)
{
    clockid_t clock;
    *thread_ns = 0;
    if (progress->threaded && pthread_getcpuclockid(progress->thread, &clock) == 0)
        *thread_ns = wring_clock_ns(clock);
    atomic_store(&progress->metered, true);
    *waiter_ns = atomic_load(&progress->waiter_ns);
}
