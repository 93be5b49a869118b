/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/mapped.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/spin.h"
#include "transport/collective/collective.h"
#include "transport/control.h"

struct slot {
    _Atomic uint64_t round; /* whose contribution it is; written after that */
    uint8_t data[];
};

static size_t stride_of(size_t bytes)
{
    size_t all = sizeof(struct slot) + bytes;
    return (all + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
}

size_t wring_mapped_memory(size_t bytes)
{
    return sizeof(struct wring_board) + 2 * stride_of(bytes);
}

/** The slot of a round on somebody's board; only our own is written. */
static struct slot *slot_of(const struct wring_mapped *mapped, const struct wring_board *board,
                            uint64_t round)
{
    return (struct slot *)((uint8_t *)(board + 1) + (round & 1) * mapped->stride);
}

enum wring_status wring_mapped_create(struct wring_members members, size_t bytes, uint8_t *memory,
                                      struct wring_mapped **out)
{
    struct wring_mapped *mapped = calloc(1, sizeof(*mapped));
    if (mapped == NULL)
        return WRING_ERR_NO_MEMORY;
    mapped->members = members;
    mapped->bytes = bytes;
    mapped->stride = stride_of(bytes);
    mapped->own = (struct wring_board *)memory;
    mapped->boards = calloc(members.n, sizeof(*mapped->boards));
    mapped->runs = calloc(2 * (size_t)members.n, sizeof(*mapped->runs));
    if (mapped->boards == NULL || mapped->runs == NULL) {
        wring_mapped_destroy(mapped);
        return WRING_ERR_NO_MEMORY;
    }
    mapped->fenced = !wring_fence_register();
    atomic_store(&mapped->own->fenced, mapped->fenced);
    mapped->boards[members.me] = mapped->own;
    *out = mapped;
    return WRING_OK;
}

void wring_mapped_destroy(struct wring_mapped *mapped)
{
    if (mapped == NULL)
        return;
    free(mapped->runs);
    free(mapped->boards);
    free(mapped);
}

void wring_mapped_connect(struct wring_mapped *mapped, uint32_t member, const uint8_t *board)
{
    mapped->boards[member] = (const struct wring_board *)board;
    mapped->fenced |= atomic_load(&mapped->boards[member]->fenced) != 0;
    for (uint64_t round = 0; round < 2; round++)
        mapped->runs[round * mapped->members.n + member] =
            slot_of(mapped, mapped->boards[member], round)->data;
}

void wring_mapped_prepare(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    const struct wring_work *work = &collective->work;
    uint32_t n = mapped->members.n;

    mapped->reduction =
        wring_reduction_find(work->dtype, work->op, n, collective->engine->config->cpu);
    mapped->runs[mapped->members.me] = mapped->runs[n + mapped->members.me] = work->in;
}

struct wring_mapped_counts wring_mapped_count(const struct wring_mapped *list)
{
    struct wring_mapped_counts counts = {0};
    for (const struct wring_mapped *at = list; at != NULL; at = at->next) {
        uint64_t others = at->members.n - 1;
        uint64_t sent = atomic_load_explicit(&at->sent, memory_order_relaxed) * others;
        uint64_t taken = atomic_load_explicit(&at->taken, memory_order_relaxed) * others;
        counts.bytes_sent += sent * at->bytes;
        counts.bytes_received += taken * at->bytes;
        counts.puts_sent += sent;
        counts.steps += atomic_load_explicit(&at->ended, memory_order_relaxed);
    }
    return counts;
}

/* ---- a step ------------------------------------------------------------------------------ */

static bool is_shown(const struct wring_mapped *mapped, uint32_t member)
{
    const struct slot *slot = slot_of(mapped, mapped->boards[member], mapped->round);
    return atomic_load_explicit(&slot->round, memory_order_acquire) == mapped->round;
}

static bool all_shown(const struct wring_mapped *mapped)
{
    for (uint32_t i = 0; i < mapped->members.n; i++)
        if (i != mapped->members.me && !is_shown(mapped, i))
            return false;
    return true;
}

static bool sleeps(const struct wring_mapped *mapped, uint32_t member)
{
    return atomic_load_explicit(&mapped->boards[member]->asleep, memory_order_relaxed) != 0;
}

static bool anyone_sleeps(const struct wring_mapped *mapped)
{
    for (uint32_t i = 0; i < mapped->members.n; i++)
        if (i != mapped->members.me && sleeps(mapped, i))
            return true;
    return false;
}

/** @return whether a member is to be woken, which has seen it otherwise */
static bool show(struct wring_mapped *mapped, const void *data)
{
    struct slot *slot = slot_of(mapped, mapped->own, ++mapped->round);
    memcpy(slot->data, data, mapped->bytes);
    atomic_store_explicit(&slot->round, mapped->round, memory_order_release);
    if (mapped->fenced)
        atomic_thread_fence(memory_order_seq_cst);
    wring_fence_light();
    wring_count(&mapped->sent, 1);
    return anyone_sleeps(mapped);
}

bool wring_mapped_begin(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    atomic_store_explicit(&collective->status, WRING_ERR_AGAIN, memory_order_relaxed);
    collective->timed = wring_collective_is_timed(collective);
    collective->started_ns = collective->timed ? wring_now_ns() : 0;
    collective->cost.wire_bytes += mapped->bytes * (mapped->members.n - 1);
    mapped->looks = 0;
    bool asleep = show(mapped, collective->work.in);
    mapped->by_engine = asleep || collective->engine->trace != NULL;
    return !mapped->by_engine;
}

static const void *const *runs_of(const struct wring_mapped *mapped)
{
    return mapped->runs + (mapped->round & 1) * mapped->members.n;
}

/** As a job, which tells how long it took and where. */
static void reduce_timed(struct wring_collective *collective)
{
    const struct wring_mapped *mapped = collective->mapped;
    struct wring_task *task = &collective->tasks[0];

    for (uint32_t i = 0; i < mapped->members.n; i++)
        task->sources[i] = (struct wring_source){runs_of(mapped)[i], mapped->bytes, NULL};
    task->job = (struct wring_job){
        .kind = WRING_JOB_REDUCE,
        .dtype = collective->work.dtype,
        .op = collective->work.op,
        .tier = collective->engine->config->cpu,
        .elems = collective->work.geometry.elems,
        .divisor = mapped->reduction.divisor,
        .sources = task->sources,
        .n_sources = mapped->members.n,
        .dst = collective->work.out,
        .cookie = task,
    };
    wring_engine_run(collective->engine, &task->job);
}

static void reduce(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    if (collective->timed)
        reduce_timed(collective);
    else
        wring_reduction_run(&mapped->reduction, collective->work.out, runs_of(mapped),
                            collective->work.geometry.elems);
    wring_count(&mapped->taken, 1);
}

bool wring_mapped_end(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    if (atomic_load_explicit(&collective->status, memory_order_acquire) != WRING_ERR_AGAIN)
        return true;
    if (mapped->by_engine || !all_shown(mapped))
        return false;
    reduce(collective);
    if (collective->timed)
        wring_collective_add_cost(collective);
    collective->step++;
    wring_count(&mapped->ended, 1);
    atomic_store_explicit(&collective->status, WRING_OK, memory_order_release);
    return true;
}

bool wring_mapped_give(struct wring_collective *collective, unsigned looks)
{
    struct wring_mapped *mapped = collective->mapped;

    if (mapped->by_engine || mapped->looks++ < looks)
        return false;
    mapped->by_engine = true;
    return true;
}

bool wring_mapped_wait(struct wring_collective *collective, unsigned looks)
{
    while (!wring_mapped_end(collective)) {
        if (wring_mapped_give(collective, looks))
            wring_engine_post(collective->engine, collective);
        if (collective->mapped->by_engine)
            return false;
        wring_spin_pause();
    }
    return true;
}

/* ---- as a state machine of the engine ----------------------------------------------------- */

/** It was begun by wring_mapped_begin(). */
static void mapped_start(struct wring_collective *collective)
{
    struct wring_task *task = &collective->tasks[0];
    if (collective->engine->trace == NULL)
        return;
    task->ready_ns = wring_now_ns();
    task->piece_bytes = collective->mapped->bytes;
    wring_collective_trace_sent(task);
}

/** Any message wakes: one that says that we live is at hand. @return false: no room for one yet */
static bool wake(struct wring_collective *collective, uint32_t member)
{
    struct wring_peer *peer = &collective->engine->fabric->peers[collective->members.ranks[member]];
    const struct wring_control life = {.kind = WRING_CONTROL_HEARTBEAT};
    return wring_control_send(peer, &life) != WRING_ERR_AGAIN;
}

/** Whoever sleeps does so in the round under way, for which it needs us, and is woken once. */
static void wake_all(struct wring_collective *collective)
{
    struct wring_task *task = &collective->tasks[0];
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != collective->members.me && !task->put_to[i] && sleeps(collective->mapped, i))
            task->put_to[i] = wake(collective, i);
}

static void mapped_advance(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    struct wring_task *task = &collective->tasks[0];
    size_t members = mapped->members.n;

    wake_all(collective);
    if (!all_shown(mapped))
        return;
    for (uint32_t i = 0; i < members; i++)
        if (i != mapped->members.me)
            wring_collective_trace_arrived(collective, collective->members.ranks[i], mapped->bytes);
    reduce(collective);
    memset(task->put_to, 0, members * sizeof(*task->put_to));
    atomic_store_explicit(&mapped->own->asleep, 0, memory_order_relaxed);
    wring_engine_finish(collective->engine, collective, WRING_OK);
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

static bool mapped_awaits(const struct wring_collective *collective, uint32_t member)
{
    return !is_shown(collective->mapped, member);
}

void wring_mapped_sleep(struct wring_collective *collective)
{
    atomic_store_explicit(&collective->mapped->own->asleep, 1, memory_order_relaxed);
    if (collective->mapped->fenced)
        atomic_thread_fence(memory_order_seq_cst);
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
