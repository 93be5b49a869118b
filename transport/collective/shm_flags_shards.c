/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place: the member that comes first sums a shard. So two ranks that share a core need one
 * hand-over less than if each had to sum its own, and lines that one of them fetches from another
 * core need not come a second time.
 */
#include <string.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/fpenv.h"
#include "base/spin.h"
#include "transport/collective/collective.h"
#include "transport/collective/shm_flags_inside.h"
#include "transport/control.h"

#define LOOKS 100 /* for about as long as a line and its reader take */

void wring_shm_flags_cut(struct wring_shm_flags *flags, const struct wring_partition *partition)
{
    uint32_t n = flags->members.n, me = flags->members.me;

    for (uint32_t i = 0; i < n; i++) {
        struct wring_shm_flags_shard *shard = &flags->shards[i];
        struct wring_span span = wring_partition_shard(partition, (me + i) % n);
        shard->offset = (size_t)span.begin * partition->elem_bytes;
        shard->elems = span.end - span.begin;
        shard->bytes = wring_partition_bytes(partition, span);
    }
}

void wring_shm_flags_open(struct wring_shm_flags *flags)
{
    uint64_t open = (flags->round + 1) << WRING_SHARD_BITS | WRING_SHARD_OPEN;
    atomic_store_explicit(&flags->own->shard, open, memory_order_relaxed);
}

/** The state of a shard of this round that nobody has come for. */
static uint64_t open_state(const struct wring_shm_flags *flags)
{
    return flags->round << WRING_SHARD_BITS | WRING_SHARD_OPEN;
}

/** Everybody has said that its data is ready, and nobody has come for this shard. */
static bool is_open(const struct wring_shm_flags_shard *shard, uint64_t open)
{
    return shard->bytes > 0 &&
           atomic_load_explicit(&shard->board->shard, memory_order_relaxed) == open;
}

static void sum_up(struct wring_collective *collective, const struct wring_shm_flags_shard *shard)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    struct wring_shm_flags_sum sum = {.runs = flags->parts,
                                      .out = flags->data[flags->members.me] + shard->offset,
                                      .data = flags->data,
                                      .offset = shard->offset,
                                      .bytes = shard->bytes,
                                      .elems = shard->elems};

    for (uint32_t i = 0; i < flags->members.n; i++)
        flags->parts[i] = flags->data[i] + shard->offset;
    wring_shm_flags_reduce(collective, &sum);
    atomic_store_explicit(&shard->board->shard,
                          flags->round << WRING_SHARD_BITS | WRING_SHARD_SUMMED,
                          memory_order_release);
}

/** Nobody else is about to sum it: it is ours, or its member last showed the core that we run
 *  on, so that it cannot run now. */
static bool is_near(const struct wring_shm_flags *flags, uint32_t i)
{
    const struct wring_board *board = flags->shards[i].board;
    return i == 0 ||
           (flags->crowded && atomic_load_explicit(&board->core, memory_order_relaxed) ==
                                  atomic_load_explicit(&flags->own->core, memory_order_relaxed));
}

/** Sum a shard, unless somebody else comes first, or the group's steps have ended. The thread
 *  that ends them waits until we have written. @return whether we have */
static bool sum_one(struct wring_collective *collective, const struct wring_shm_flags_shard *shard,
                    uint64_t open)
{
    struct wring_cease *cease = collective->cease;
    uint64_t ours = open + collective->shm_flags->members.me + 1;

    if (cease != NULL)
        atomic_fetch_add(&cease->writing, 1);
    bool claimed =
        (cease == NULL || atomic_load(&cease->status) == WRING_OK) &&
        atomic_compare_exchange_strong_explicit(&shard->board->shard, &open, ours,
                                                memory_order_acq_rel, memory_order_relaxed);
    if (claimed)
        sum_up(collective, shard);
    if (cease != NULL)
        atomic_fetch_sub_explicit(&cease->writing, 1, memory_order_release);
    return claimed;
}

/** @param near  none but these @return whether there was one */
static bool sum_open(struct wring_collective *collective, bool near)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    uint64_t open = open_state(flags);
    bool any = false;

    for (uint32_t i = 0; i < flags->members.n; i++) {
        const struct wring_shm_flags_shard *shard = &flags->shards[i];
        if ((!near || is_near(flags, i)) && is_open(shard, open))
            any |= sum_one(collective, shard, open);
    }
    return any;
}

static bool any_is_open(const struct wring_shm_flags *flags, uint64_t open)
{
    for (uint32_t i = 1; i < flags->members.n; i++)
        if (is_open(&flags->shards[i], open))
            return true;
    return false;
}

/** A member with a core of its own may be about to sum its shard: two members are sooner done.
 *  @return whether one is left that nobody comes for */
static bool await_owners(const struct wring_shm_flags *flags)
{
    int look = flags->crowded ? LOOKS : 0;
    uint64_t open = open_state(flags);
    bool any;

    while ((any = any_is_open(flags, open)) && look++ < LOOKS)
        wring_spin_pause();
    return any;
}

bool wring_shm_flags_sum_shards(struct wring_collective *collective)
{
    bool any = sum_open(collective, true);
    return (await_owners(collective->shm_flags) && sum_open(collective, false)) || any;
}

/** That member sums the shard now, as its state says. */
static bool is_its(const struct wring_shm_flags *flags, const struct wring_shm_flags_shard *shard,
                   uint32_t member)
{
    uint64_t its = flags->round << WRING_SHARD_BITS | (member + 1);
    return shard->bytes > 0 &&
           atomic_load_explicit(&shard->board->shard, memory_order_relaxed) == its;
}

bool wring_shm_flags_lacks(const struct wring_shm_flags *flags, uint32_t other)
{
    if (!flags->claimed)
        return wring_shm_flags_number(flags, other) != flags->number;
    for (uint32_t i = 0; i < flags->members.n; i++)
        if (is_its(flags, &flags->shards[i], flags->others[other].member))
            return true;
    return false;
}

/* ---- engine ---- */

/* A shm_flags step that takes long, or has to wake somebody: as a state machine of the engine. */

/** The posting thread has begun a bucket's step, which is left alone; a call may begin here. */
static void begin_call(struct wring_collective *collective)
{
    if (collective->shm_flags->by_engine)
        return;
    wring_shm_flags_begin(collective);
    collective->shm_flags->by_engine = true;
}

static void shm_flags_start(struct wring_collective *collective)
{
    struct wring_task *task = &collective->tasks[0];

    begin_call(collective);
    memset(collective->shm_flags->woken, 0, collective->shm_flags->n_others * sizeof(bool));
    if (collective->engine->trace == NULL)
        return;
    task->ready_ns = wring_now_ns();
    task->piece_bytes = collective->shm_flags->bytes;
    wring_collective_trace_sent(task);
}

static struct wring_peer *peer_of(const struct wring_collective *collective, uint32_t other)
{
    uint32_t member = collective->shm_flags->others[other].member;
    return &collective->engine->fabric->peers[collective->members.ranks[member]];
}

/** Any message wakes: one that says that we live is at hand. @return false: there is no room for
 *  one; then others lie there, which the peer takes before it sleeps, and looks once more */
static bool wake(struct wring_peer *peer)
{
    const struct wring_control life = {.kind = WRING_CONTROL_HEARTBEAT};
    return wring_control_send(peer, &life) != WRING_ERR_AGAIN;
}

/** Wake all members that sleep: each waits for our data, or for another one's. Once is enough. */
static void wake_all(struct wring_collective *collective)
{
    struct wring_shm_flags *flags = collective->shm_flags;
    for (uint32_t i = 0; i < flags->n_others; i++)
        if (!flags->woken[i] && wring_shm_flags_sleeps(flags, i))
            flags->woken[i] = wake(peer_of(collective, i));
}

static void suspect(struct wring_collective *collective)
{
    for (uint32_t i = 0; i < collective->shm_flags->n_others; i++)
        if (wring_shm_flags_other_is_foreign(collective->shm_flags, i))
            wring_op_check_suspect(collective->calls, collective->engine->fabric->tick_ns);
}

static void trace_arrived(const struct wring_collective *collective)
{
    for (uint32_t i = 0; i < collective->shm_flags->n_others; i++)
        wring_collective_trace_arrived(collective, peer_of(collective, i)->rank,
                                       collective->shm_flags->bytes);
}

/** Go on, as all data is there that the step waits for. */
static void go_on(struct wring_collective *collective)
{
    struct wring_shm_flags *flags = collective->shm_flags;
    bool summed;

    if (!flags->claimed)
        trace_arrived(collective);
    uint64_t mode = wring_fp_enter();
    bool ended = wring_shm_flags_advance(collective, &summed);
    wring_fp_leave(mode);
    if (summed) { /* sleeping members need that, too, and perhaps no more */
        memset(flags->woken, 0, flags->n_others * sizeof(bool));
        collective->runnable = true;
    } else if (ended) {
        atomic_store_explicit(&flags->own->asleep, 0, memory_order_relaxed);
        wring_engine_finish(collective->engine, collective, WRING_OK);
    }
}

static void shm_flags_advance(struct wring_collective *collective)
{
    wake_all(collective);
    if (wring_shm_flags_all_there(collective->shm_flags))
        go_on(collective);
    else if (collective->calls != NULL)
        suspect(collective);
}

/** No job of ours goes to an executor. */
static void shm_flags_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective, (void)task;
}

/** No: our contribution is shown before the engine hears of the step. */
static bool shm_flags_owes(const struct wring_collective *collective, uint32_t member)
{
    (void)collective, (void)member;
    return false;
}

static bool shm_flags_awaits(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    return member != flags->members.me &&
           wring_shm_flags_lacks(flags, wring_shm_flags_other_of(flags, member));
}

void wring_shm_flags_sleep(struct wring_collective *collective)
{
    atomic_store_explicit(&collective->shm_flags->own->asleep, 1, memory_order_relaxed);
    if (collective->shm_flags->fenced)
        wring_fence_full();
    else
        wring_fence_heavy();
}

const struct wring_collective_ops wring_allreduce_shm_flags = {
    .name = "flat, mapped",
    .start = shm_flags_start,
    .advance = shm_flags_advance,
    .job_done = shm_flags_job_done,
    .owes = shm_flags_owes,
    .awaits = shm_flags_awaits,
};
