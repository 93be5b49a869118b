/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that go past the engine: who posts and who waits do all of them. */
#include "runtime/progress/progress_state.h"
#include "transport/collective/collective.h"

#define LOOK_NS 20
#define LOOKS_MAX 1000    /* at another's board, before the engine looks and judges who is silent */
#define LOOKS_CROWDED 200 /* each gives the core away */

/** Only its owner goes on with it then. @return false: it does not stand there any more */
static bool take(struct wring_progress *progress, struct wring_collective *collective)
{
    return atomic_compare_exchange_strong(&progress->alone, &collective, NULL);
}

static bool give(struct wring_collective *collective)
{
    if (collective != NULL)
        wring_mapped_yield(collective);
    return collective != NULL;
}

bool wring_alone_give(struct wring_progress *progress)
{
    return atomic_load(&progress->alone) != NULL && give(atomic_exchange(&progress->alone, NULL));
}

/** Will somebody see to it again soon? A caller who always waits at once, and else the thread. */
static bool may_stand(const struct wring_progress *progress)
{
    return !progress->threaded ||
           (atomic_load_explicit(&progress->prompt, memory_order_relaxed) &&
            atomic_load_explicit(&progress->stands_by, memory_order_relaxed));
}

/** Leave it to whoever takes it. The thread may have gone to drive meanwhile, and looks no more. */
static void stand(struct wring_progress *progress, struct wring_collective *collective)
{
    wring_count(&progress->stood, 1);
    bool given = give(atomic_exchange(&progress->alone, collective));
    if (progress->threaded && !atomic_load(&progress->stands_by))
        given |= wring_alone_give(progress);
    if (given)
        wring_hand_over(progress);
}

/** A step that needs us once more, or the engine. */
__attribute__((noinline)) static void see_to(struct wring_progress *progress,
                                             struct wring_collective *collective)
{
    if (!collective->mapped->by_engine && may_stand(progress)) {
        stand(progress, collective);
        return;
    }
    collective->mapped->by_engine = true;
    wring_progress_post(progress, collective, true);
}

void wring_progress_attend(struct wring_progress *progress, struct wring_collective *collective)
{
    const struct wring_mapped *mapped = collective->mapped;

    if (!progress->threaded)
        wring_progress_nudge(progress);
    if (mapped->by_engine || mapped->in_place)
        see_to(progress, collective);
}

/** Ranks that share a core must leave it to each other. */
static unsigned looks_alone(const struct wring_progress *progress)
{
    uint64_t most = progress->spin_ns / LOOK_NS;
    if (progress->engine->fabric->crowded)
        return LOOKS_CROWDED;
    return most < LOOKS_MAX ? (unsigned)most : LOOKS_MAX;
}

static bool wait_alone(struct wring_progress *progress, struct wring_collective *collective)
{
    if (collective->mapped->by_engine)
        return false;
    uint64_t began_ns = wring_meter_begin(progress);
    bool ended = wring_mapped_wait(collective, looks_alone(progress));
    wring_meter_end(progress, began_ns);
    return ended;
}

bool wring_progress_wait_alone(struct wring_progress *progress, struct wring_collective *collective)
{
    if (collective->mapped->in_place)
        return take(progress, collective) && wait_alone(progress, collective);
    return wring_mapped_end(collective) || wait_alone(progress, collective);
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
    if (!wring_mapped_begin(collective)) {
        wring_engine_post(progress->engine, collective);
        return false;
    }
    return wring_mapped_end(collective) || wait_alone(progress, collective);
}

void wring_progress_release(struct wring_progress *progress)
{
    bool idle = wring_engine_idle(progress->engine);
    pthread_mutex_unlock(&progress->driver);
    wring_wake_onlookers(progress);
    if (!idle)
        wring_hand_over(progress);
    if (!progress->threaded)
        wring_progress_nudge(progress);
}
