/* SPDX-License-Identifier: Apache-2.0 */
/* A mapped step that takes long, or has to wake somebody: as a state machine of the engine. */
#include "transport/collective/mapped_inside.h"

#include <string.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/fpenv.h"
#include "transport/collective/collective.h"
#include "transport/control.h"

/** A bucket's step was begun by who posted it, and is left alone; a call may begin here. */
static void begin_call(struct wring_collective *collective)
{
    if (collective->mapped->by_engine)
        return;
    wring_mapped_begin(collective);
    collective->mapped->by_engine = true;
}

static void mapped_start(struct wring_collective *collective)
{
    struct wring_task *task = &collective->tasks[0];

    begin_call(collective);
    memset(collective->mapped->woken, 0, collective->mapped->n_others * sizeof(bool));
    if (collective->engine->trace == NULL)
        return;
    task->ready_ns = wring_now_ns();
    task->piece_bytes = collective->mapped->bytes;
    wring_collective_trace_sent(task);
}

static struct wring_peer *peer_of(const struct wring_collective *collective, uint32_t other)
{
    uint32_t member = collective->mapped->others[other].member;
    return &collective->engine->fabric->peers[collective->members.ranks[member]];
}

/** Any message wakes: one that says that we live is at hand. @return false: there is no room for
 *  one; then others lie there, which the peer takes before it sleeps, and looks once more */
static bool wake(struct wring_peer *peer)
{
    const struct wring_control life = {.kind = WRING_CONTROL_HEARTBEAT};
    return wring_control_send(peer, &life) != WRING_ERR_AGAIN;
}

/** Whoever sleeps needs what we show, or what another one does; once is enough. */
static void wake_all(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    for (uint32_t i = 0; i < mapped->n_others; i++)
        if (!mapped->woken[i] && wring_mapped_sleeps(mapped, i))
            mapped->woken[i] = wake(peer_of(collective, i));
}

/** Has somebody made another call? */
static bool is_foreign(const struct wring_mapped *mapped, uint32_t other)
{
    uint64_t number = wring_mapped_number(mapped, other);
    return number != mapped->number && number >> WRING_TAG_BITS == mapped->round;
}

static void suspect(struct wring_collective *collective)
{
    for (uint32_t i = 0; i < collective->mapped->n_others; i++)
        if (is_foreign(collective->mapped, i))
            wring_calls_suspect(collective, collective->engine->fabric->tick_ns);
}

static void trace_arrived(const struct wring_collective *collective)
{
    for (uint32_t i = 0; i < collective->mapped->n_others; i++)
        wring_collective_trace_arrived(collective, peer_of(collective, i)->rank,
                                       collective->mapped->bytes);
}

/** What the step waits for is there. */
static void go_on(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    bool summed;

    if (!mapped->claimed)
        trace_arrived(collective);
    uint64_t mode = wring_fp_enter();
    bool ended = wring_mapped_advance(collective, &summed);
    wring_fp_leave(mode);
    if (summed) { /* who sleeps needs that, too, and perhaps no more */
        memset(mapped->woken, 0, mapped->n_others * sizeof(bool));
        collective->runnable = true;
    } else if (ended) {
        atomic_store_explicit(&mapped->own->asleep, 0, memory_order_relaxed);
        wring_engine_finish(collective->engine, collective, WRING_OK);
    }
}

static void mapped_advance(struct wring_collective *collective)
{
    wake_all(collective);
    if (wring_mapped_all_there(collective->mapped))
        go_on(collective);
    else if (collective->calls != NULL)
        suspect(collective);
}

/** No job of ours goes to an executor. */
static void mapped_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective, (void)task;
}

/** What we contribute is shown before the engine hears of the step. */
static bool mapped_owes(const struct wring_collective *collective, uint32_t member)
{
    (void)collective, (void)member;
    return false;
}

/** Its index among the others. */
static uint32_t other_of(const struct wring_mapped *mapped, uint32_t member)
{
    uint32_t i = 0;
    while (mapped->others[i].member != member)
        i++;
    return i;
}

static bool mapped_awaits(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_mapped *mapped = collective->mapped;
    return member != mapped->members.me && wring_mapped_lacks(mapped, other_of(mapped, member));
}

bool wring_mapped_is_foreign(const struct wring_collective *collective, uint32_t member)
{
    return is_foreign(collective->mapped, other_of(collective->mapped, member));
}

void wring_mapped_sleep(struct wring_collective *collective)
{
    atomic_store_explicit(&collective->mapped->own->asleep, 1, memory_order_relaxed);
    if (collective->mapped->fenced)
        wring_fence_full();
    else
        wring_fence_heavy();
}

const struct wring_collective_ops wring_flat_mapped = {
    .name = "flat, mapped",
    .start = mapped_start,
    .advance = mapped_advance,
    .job_done = mapped_job_done,
    .owes = mapped_owes,
    .awaits = mapped_awaits,
};
