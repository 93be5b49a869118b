/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes progress: set up, held still, given work, and what it took. */
#include "runtime/progress/progress.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/descriptor.h"
#include "base/log.h"
#include "base/thread.h"
#include "runtime/progress/state.h"
#include "transport/collective/collective.h"
#include "transport/message/message.h"

#define WRING_MODULE "progress"

static bool may_thread_drive(struct wring_progress *progress)
{
    return !atomic_load(&progress->stop) && atomic_load(&progress->takers) == 0;
}

/** Hold the driver lock as the thread; false where a caller wants it, or it is time to stop. A
 *  blocking wait comes last: whoever lets go would have to wake us. */
static bool lock_driver_as_thread(struct wring_progress *progress)
{
    uint64_t since = wring_now_ns();
    while (may_thread_drive(progress)) {
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
static void sleep_unlocked(struct wring_progress *progress, struct wring_wait_set *set)
{
    wring_let_go(progress);
    if (atomic_load(&progress->takers) == 0)
        wring_wait_set_sleep(set);
    wring_sleep_end(&progress->own);
}

/** Drive until nothing moves for long, a caller wants to, or it is time to stop. Holds the driver
 *  lock, and lets go of it. */
static void drive_as_thread(struct wring_progress *progress)
{
    uint64_t idle_since = 0;
    while (may_thread_drive(progress) && !wring_completions_wait(progress->completions)) {
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
        sleep_unlocked(progress, &set);
        return;
    }
    wring_let_go(progress);
}

/** How long the thread stands back at a stretch. While a caller drives it would only take the core
 *  from other ranks, and a turn of all that share it takes longer than a look is worth. */
static uint64_t park_ns(const struct wring_progress *progress)
{
    const struct wring_fabric *fabric = progress->engine->fabric;
    bool driven = fabric->crowded && atomic_load(&progress->takers) > 0 &&
                  !atomic_load_explicit(&progress->visited, memory_order_relaxed);
    return wring_wait_policy.park_ns * (driven ? fabric->turns : 1);
}

/** @return true if we slept all the time, and nobody called */
static bool sleep_parked(struct wring_progress *progress)
{
    bool called = true;
    pthread_mutex_lock(&progress->park_mutex);
    atomic_store(&progress->parked, true);
    if (!atomic_load(&progress->resumed) && !atomic_load(&progress->stop))
        called = !wring_sleep_on(progress, &progress->resume, park_ns(progress));
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
static void stand_back_for_callers(struct wring_progress *progress)
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
        if (lock_driver_as_thread(progress))
            drive_as_thread(progress);
        else
            stand_back_for_callers(progress);
    }
    return NULL;
}

static enum wring_status thread_start(struct wring_progress *progress)
{
    errno = wring_thread_create(&progress->thread, thread_main, progress);
    progress->threaded = errno == 0;
    if (progress->threaded)
        return WRING_OK;
    wring_error(progress->engine->log, "the progress thread cannot start: %s",
                WRING_REFUSED("pthread_create"));
    return WRING_ERR_SYSTEM;
}

/** Start and stop the thread. */
static void thread_stop(struct wring_progress *progress)
{
    if (!progress->threaded)
        return;
    wring_wake_driver(progress);
    wring_wake_thread(progress);
    pthread_join(progress->thread, NULL);
    progress->threaded = false;
}

/* ---- progress ---- */

static bool maps_all_peers(const struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->size; i++)
        if (i != fabric->rank && !wring_fabric_device(fabric, i)->caps.remote_map)
            return false;
    return true;
}

enum wring_status wring_progress_create(struct wring_engine *engine, bool threaded,
                                        uint64_t spin_ns, struct wring_completions *completions,
                                        struct wring_progress **out)
{
    struct wring_progress *progress = calloc(1, sizeof(*progress));
    if (progress == NULL)
        return WRING_ERR_NO_MEMORY;
    progress->engine = engine;
    progress->completions = completions;
    progress->spin_ns = spin_ns;
    progress->visitable = threaded && maps_all_peers(engine->fabric);
    progress->caller.fd = progress->own.fd = -1;
    atomic_init(&progress->outside_fd, -1);
    pthread_mutex_init(&progress->driver, NULL);
    enum wring_status status = wring_sleep_init(progress, threaded);
    if (status == WRING_OK && threaded)
        status = thread_start(progress);
    if (status != WRING_OK) {
        wring_progress_destroy(progress);
        return status;
    }
    *out = progress;
    return WRING_OK;
}

void wring_progress_set_aside(struct wring_progress *progress, struct wring_aside aside)
{
    progress->aside = aside;
}

void wring_progress_drop(struct wring_progress *progress)
{
    pthread_mutex_lock(&progress->driver);
    wring_engine_drop(progress->engine, WRING_ERR_CLOSED);
    pthread_mutex_unlock(&progress->driver);
    wring_wake_onlookers(progress);
}

void wring_progress_stop(struct wring_progress *progress)
{
    atomic_store(&progress->stop, true);
    wring_engine_drop(progress->engine, WRING_ERR_CLOSED);
}

void wring_progress_destroy(struct wring_progress *progress)
{
    if (progress == NULL)
        return;
    atomic_store(&progress->stop, true);
    thread_stop(progress);
    wring_descriptor_close(atomic_load(&progress->outside_fd));
    wring_sleep_finish(progress);
    pthread_mutex_destroy(&progress->driver);
    free(progress);
}

void wring_progress_lock(struct wring_progress *progress)
{
    atomic_fetch_add(&progress->takers, 1);
    atomic_fetch_add(&progress->lockers, 1);
    wring_wake_driver(progress);
    pthread_mutex_lock(&progress->driver);
    atomic_fetch_sub(&progress->lockers, 1);
}

void wring_progress_unlock(struct wring_progress *progress)
{
    pthread_mutex_unlock(&progress->driver);
    atomic_fetch_sub(&progress->takers, 1);
    wring_wake_onlookers(progress);
    wring_disturb_loop(progress);
    wring_wake_thread(progress);
}

void wring_hand_over(struct wring_progress *progress)
{
    bool prompt = atomic_load_explicit(&progress->prompt, memory_order_relaxed) ||
                  atomic_load_explicit(&progress->visited, memory_order_relaxed);
    if (!prompt || !atomic_load(&progress->parked) ||
        wring_completions_wait(progress->completions)) /* no caller comes for these */
        wring_wake_thread(progress);
}

/** Remember when the first post came that nobody has waited for. */
static void note_post(struct wring_progress *progress)
{
    if (!atomic_load_explicit(&progress->prompt, memory_order_relaxed) &&
        atomic_load_explicit(&progress->posted_ns, memory_order_relaxed) == 0)
        atomic_store_explicit(&progress->posted_ns, wring_now_ns(), memory_order_relaxed);
}

/** Begin it in this thread. @return true if nothing is left to be done */
static bool begin_here(struct wring_progress *progress, struct wring_collective *collective)
{
    if (pthread_mutex_trylock(&progress->driver) != 0) {
        wring_engine_post(progress->engine, collective);
        return false;
    }
    bool idle = wring_engine_begin(progress->engine, collective);
    pthread_mutex_unlock(&progress->driver);
    wring_disturb_loop(progress);
    return idle && !wring_completions_wait(progress->completions);
}

/** To hand it to another thread takes longer than to begin it. What goes in one hop may be longer
 *  than that: then the session's thread copies it while the caller computes. */
static bool is_urgent(const struct wring_progress *progress,
                      const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    return partition->elems * partition->elem_bytes <= progress->engine->config->flat_bytes;
}

/** Something was posted: somebody is to see to it. */
static void wake_a_driver(struct wring_progress *progress)
{
    if (atomic_load(&progress->takers) > 0)
        wring_wake_driver(progress); /* the caller that drives may be asleep */
    else
        wring_hand_over(progress);
    note_post(progress);
}

void wring_progress_hand_in(struct wring_progress *progress, struct wring_collective *collective)
{
    if (!begin_here(progress, collective))
        wake_a_driver(progress);
}

void wring_progress_post(struct wring_progress *progress, struct wring_collective *collective)
{
    if (!progress->threaded || is_urgent(progress, collective)) {
        wring_progress_hand_in(progress, collective);
        return;
    }
    wring_engine_post(progress->engine, collective);
    wake_a_driver(progress);
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

uint64_t wring_progress_sleeps(struct wring_progress *progress)
{
    return atomic_load_explicit(&progress->sleeps, memory_order_relaxed);
}

/* ---- alone ---- */

/* Steps that go past the engine: who posts and who waits do all of them. */

void wring_progress_attend(struct wring_progress *progress, struct wring_collective *collective)
{
    if (!progress->threaded)
        wring_progress_nudge(progress);
    if (collective->shm_flags->by_engine)
        wring_progress_hand_in(progress, collective);
}

/** Ranks that share a core must leave it to each other. */
static unsigned count_looks_alone(const struct wring_progress *progress)
{
    uint64_t most = progress->spin_ns / wring_wait_policy.look_ns;
    if (progress->engine->fabric->crowded)
        return wring_wait_policy.looks_crowded;
    return most < wring_wait_policy.looks_max ? (unsigned)most : wring_wait_policy.looks_max;
}

static bool wait_alone(struct wring_progress *progress, struct wring_collective *collective)
{
    if (collective->shm_flags->by_engine)
        return false;
    uint64_t began_ns = wring_meter_begin(progress);
    bool ended = wring_shm_flags_wait(collective, count_looks_alone(progress));
    wring_meter_end(progress, began_ns);
    return ended;
}

bool wring_progress_wait_alone(struct wring_progress *progress, struct wring_collective *collective)
{
    return wring_shm_flags_end(collective) || wait_alone(progress, collective);
}

bool wring_progress_hold(struct wring_progress *progress)
{
    if (pthread_mutex_trylock(&progress->driver) != 0)
        return false;
    if (progress->engine->fabric->state == WRING_FABRIC_WORKING)
        return true;
    pthread_mutex_unlock(&progress->driver);
    return false;
}

bool wring_progress_run_held(struct wring_progress *progress, struct wring_collective *collective)
{
    if (wring_collective_ceased(collective) != WRING_OK || !wring_shm_flags_begin(collective)) {
        wring_engine_post(progress->engine, collective);
        return false;
    }
    return wring_shm_flags_end(collective) || wait_alone(progress, collective);
}

void wring_progress_release(struct wring_progress *progress)
{
    bool idle =
        wring_engine_idle(progress->engine) && !wring_completions_wait(progress->completions);
    pthread_mutex_unlock(&progress->driver);
    wring_wake_onlookers(progress);
    if (!idle)
        wring_hand_over(progress);
    if (!progress->threaded)
        wring_progress_nudge(progress);
}

bool wring_progress_run_message(struct wring_progress *progress, struct wring_message *message,
                                bool waits)
{
    struct wring_messenger *messenger = progress->engine->messenger;

    if (!wring_progress_hold(progress)) {
        wring_message_post(messenger, message);
        if (!waits)
            wake_a_driver(progress);
        return false;
    }
    bool ended = wring_message_begin(messenger, message);
    if (!ended && waits)
        ended = wring_message_look(messenger, message, count_looks_alone(progress));
    bool called = wring_completions_wait(progress->completions);
    bool idle = wring_engine_idle(progress->engine) && !called;
    pthread_mutex_unlock(&progress->driver);
    wring_wake_onlookers(progress);
    if (!ended && !waits)
        wake_a_driver(progress);
    else if (!idle && (ended || called))
        wring_hand_over(progress);
    return ended;
}
