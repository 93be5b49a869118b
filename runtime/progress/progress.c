/* SPDX-License-Identifier: Apache-2.0 */
/* Who makes progress: set up, held still, given work, and what it took. */
#include "runtime/progress/progress_state.h"

#include <stdlib.h>
#include <time.h>

#include "base/descriptor.h"
#include "transport/collective/collective.h"

static bool maps_all(const struct wring_fabric *fabric)
{
    for (uint32_t i = 0; i < fabric->size; i++)
        if (i != fabric->rank && !fabric->devices[fabric->peers[i].device].caps.remote_map)
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
    progress->visitable = threaded && maps_all(engine->fabric);
    progress->caller.fd = progress->own.fd = -1;
    atomic_init(&progress->outside_fd, -1);
    pthread_mutex_init(&progress->driver, NULL);
    enum wring_status status = wring_sleep_init(progress);
    if (status == WRING_OK && threaded)
        status = wring_thread_start(progress);
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
    wring_thread_stop(progress);
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
    const struct wring_geometry *geometry = &collective->work.geometry;
    return geometry->elems * geometry->elem_bytes <= progress->engine->config->flat_bytes;
}

void wring_have_it_driven(struct wring_progress *progress)
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
        wring_have_it_driven(progress);
}

void wring_progress_post(struct wring_progress *progress, struct wring_collective *collective)
{
    if (!progress->threaded || is_urgent(progress, collective)) {
        wring_progress_hand_in(progress, collective);
        return;
    }
    wring_engine_post(progress->engine, collective);
    wring_have_it_driven(progress);
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
