/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that go past the engine: who posts and who waits do all of them. */
#include "runtime/progress/progress_state.h"
#include "transport/collective/collective.h"
#include "transport/message/message.h"

void wring_progress_attend(struct wring_progress *progress, struct wring_collective *collective)
{
    if (!progress->threaded)
        wring_progress_nudge(progress);
    if (collective->mapped->by_engine)
        wring_progress_hand_in(progress, collective);
}

/** Ranks that share a core must leave it to each other. */
static unsigned looks_alone(const struct wring_progress *progress)
{
    uint64_t most = progress->spin_ns / wring_wait_policy.look_ns;
    if (progress->engine->fabric->crowded)
        return wring_wait_policy.looks_crowded;
    return most < wring_wait_policy.looks_max ? (unsigned)most : wring_wait_policy.looks_max;
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
    if (wring_collective_ceased(collective) != WRING_OK || !wring_mapped_begin(collective)) {
        wring_engine_post(progress->engine, collective);
        return false;
    }
    return wring_mapped_end(collective) || wait_alone(progress, collective);
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
            wring_have_it_driven(progress);
        return false;
    }
    bool ended = wring_message_begin(messenger, message);
    if (!ended && waits)
        ended = wring_message_look(messenger, message, looks_alone(progress));
    bool called = wring_completions_wait(progress->completions);
    bool idle = wring_engine_idle(progress->engine) && !called;
    pthread_mutex_unlock(&progress->driver);
    wring_wake_onlookers(progress);
    if (!ended && !waits)
        wring_have_it_driven(progress);
    else if (!idle && (ended || called))
        wring_hand_over(progress);
    return ended;
}
