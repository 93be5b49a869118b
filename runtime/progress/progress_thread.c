/* SPDX-License-Identifier: Apache-2.0 */
/* The session's own thread: drives the engine while no caller does. */
#include "runtime/progress/progress_state.h"

#include <errno.h>
#include <sys/prctl.h>

#include "base/refusal.h"
#include "base/thread.h"

#define WRING_MODULE "progress"

static bool is_wanted(struct wring_progress *progress)
{
    return !atomic_load(&progress->stop) && atomic_load(&progress->takers) == 0;
}

/** Hold the driver lock as the thread; false where a caller wants it, or it is time to stop. A
 *  blocking wait comes last: whoever lets go would have to wake us. */
static bool take_driver(struct wring_progress *progress)
{
    uint64_t since = wring_now_ns();
    while (is_wanted(progress)) {
        if (pthread_mutex_trylock(&progress->driver) == 0)
            return true;
        if (wring_spin(progress, wring_now_ns() - since))
            continue;
        pthread_mutex_lock(&progress->driver);
        return true;
    }
    return false;
}

/** Sleep without the driver lock, so that whoever waits may drive meanwhile. */
static void sleep_outside(struct wring_progress *progress, struct wring_wait_set *set)
{
    wring_let_go(progress);
    if (atomic_load(&progress->takers) == 0)
        wring_wait_set_sleep(set);
    wring_sleep_end(&progress->own);
}

/** Drive until nothing moves for long, a caller wants to, or it is time to stop. Holds the driver
 *  lock, and lets go of it. */
static void drive(struct wring_progress *progress)
{
    uint64_t idle_since = 0;
    while (is_wanted(progress) && !wring_completions_wait(progress->completions)) {
        if (wring_engine_poll(progress->engine)) {
            idle_since = 0;
            wring_wake_onlookers(progress);
            continue;
        }
        uint64_t now = wring_now_ns();
        idle_since = idle_since == 0 ? now : idle_since;
        if (wring_spin(progress, now - idle_since))
            continue;
        struct wring_wait_set set = {.deadline_ns = WRING_NEVER};
        if (!wring_sleep_prepare(progress, &set, &progress->own))
            continue;
        sleep_outside(progress, &set);
        return;
    }
    wring_let_go(progress);
}

/** @return true if we slept all the time, and nobody called */
static bool sleep_parked(struct wring_progress *progress)
{
    bool called = true;
    pthread_mutex_lock(&progress->park_mutex);
    atomic_store(&progress->parked, true);
    if (!atomic_load(&progress->resumed) && !atomic_load(&progress->stop))
        called = !wring_sleep_on(progress, &progress->resume);
    atomic_store(&progress->parked, false);
    pthread_mutex_unlock(&progress->park_mutex);
    return !called;
}

/** Something is under way, and no caller drives. */
static bool is_unattended(struct wring_progress *progress)
{
    return atomic_load(&progress->takers) == 0 && (atomic_load(&progress->engine->n_active) > 0 ||
                                                   wring_engine_has_posted(progress->engine) ||
                                                   wring_completions_wait(progress->completions));
}

/** May the thread poll while it waits? Where ranks share cores, only while it has work to do: each
 *  look takes the core from somebody, and the hand-over of it and back costs more than a step. */
static bool may_spin(const struct wring_progress *progress, uint64_t idle_ns)
{
    return !progress->engine->fabric->crowded && wring_spin(progress, idle_ns);
}

/** Callers that have come less often for a while do not drive any more. */
static void end_visits(struct wring_progress *progress, uint64_t now)
{
    if (now - progress->visits_seen_ns < wring_wait_policy.park_ns)
        return;
    unsigned visits = atomic_load_explicit(&progress->visits, memory_order_relaxed);
    if (visits - progress->visits_seen < wring_wait_policy.visits &&
        atomic_exchange(&progress->visited, false))
        atomic_fetch_sub(&progress->takers, 1);
    progress->visits_seen = visits;
    progress->visits_seen_ns = now;
}

/** Stand back while callers drive, and a little longer: they tend to come again. */
static void park(struct wring_progress *progress)
{
    unsigned seen = atomic_load(&progress->taken);
    uint64_t began = wring_now_ns(), since = began;

    while (!atomic_exchange(&progress->resumed, false) && !atomic_load(&progress->stop)) {
        uint64_t now = wring_now_ns();
        unsigned taken = atomic_load(&progress->taken);
        since = taken == seen ? since : now;
        seen = taken;
        end_visits(progress, now);
        if (atomic_load(&progress->takers) == 0 && now - since >= wring_wait_policy.park_ns)
            return;
        if (may_spin(progress, now - began) || !sleep_parked(progress))
            continue;
        if (is_unattended(progress)) { /* so it may have been for as long as we slept */
            atomic_store_explicit(&progress->prompt, false, memory_order_relaxed);
            return;
        }
    }
}

static void *thread_main(void *arg)
{
    struct wring_progress *progress = arg;
    pthread_setname_np(pthread_self(), "wring-progress");
    prctl(PR_SET_TIMERSLACK, 1000ul); /* an emulated link counts on exact wake-ups; in ns */
    while (!atomic_load(&progress->stop)) {
        if (take_driver(progress))
            drive(progress);
        else
            park(progress);
    }
    return NULL;
}

enum wring_status wring_thread_start(struct wring_progress *progress)
{
    errno = wring_thread_create(&progress->thread, thread_main, progress);
    progress->threaded = errno == 0;
    if (progress->threaded)
        return WRING_OK;
    wring_error(progress->engine->log, "the progress thread cannot start: %s",
                WRING_REFUSED("pthread_create"));
    return WRING_ERR_SYSTEM;
}

void wring_thread_stop(struct wring_progress *progress)
{
    if (!progress->threaded)
        return;
    wring_wake_driver(progress);
    wring_wake_thread(progress);
    pthread_join(progress->thread, NULL);
    progress->threaded = false;
}
