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
    _Atomic uint64_t number; /* of the round and call whose contribution it is, written before */
    uint8_t data[];
};

static size_t stride_of(size_t bytes)
{
    size_t all = sizeof(struct slot) + bytes;
    return (all + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
}

size_t wring_mapped_memory(size_t room)
{
    return sizeof(struct wring_board) + 2 * stride_of(room);
}

/** The slot of a round on somebody's board; only our own is written. */
static struct slot *slot_of(const struct wring_mapped *mapped, const struct wring_board *board,
                            uint64_t round)
{
    return (struct slot *)((uint8_t *)(board + 1) + (round & 1) * mapped->stride);
}

enum wring_status wring_mapped_create(struct wring_members members, size_t room, uint8_t *memory,
                                      struct wring_mapped **out)
{
    struct wring_mapped *mapped = calloc(1, sizeof(*mapped));
    if (mapped == NULL)
        return WRING_ERR_NO_MEMORY;
    mapped->members = members;
    mapped->room = room;
    mapped->stride = stride_of(room);
    mapped->op = WRING_OPS; /* no reduction has been chosen */
    mapped->own = (struct wring_board *)memory;
    mapped->boards = calloc(members.n, sizeof(*mapped->boards));
    mapped->runs = calloc(2 * (size_t)members.n, sizeof(*mapped->runs));
    mapped->woken = calloc(members.n, sizeof(*mapped->woken));
    if (mapped->boards == NULL || mapped->runs == NULL || mapped->woken == NULL) {
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
    free(mapped->woken);
    free(mapped->runs);
    free(mapped->boards);
    free(mapped);
}

static enum wring_status map_board(const struct wring_mapped *mapped, struct wring_remote *remote,
                                   uint64_t offset, const struct wring_board **out)
{
    size_t bytes = wring_mapped_memory(mapped->room);
    void *base;

    if (offset > remote->bytes || bytes > remote->bytes - offset || offset % WRING_BOARD_ALIGN != 0)
        return WRING_ERR_FRAME;
    enum wring_status status = remote->conn->provider->ops->remote_map(remote, &base);
    if (status == WRING_OK)
        *out = (const struct wring_board *)((const uint8_t *)base + offset);
    return status;
}

enum wring_status wring_mapped_connect(struct wring_mapped *mapped, uint32_t member,
                                       struct wring_remote *remote, uint64_t offset)
{
    const struct wring_board *board;
    enum wring_status status = map_board(mapped, remote, offset, &board);
    if (status != WRING_OK)
        return status;
    mapped->boards[member] = board;
    mapped->fenced |= atomic_load(&board->fenced) != 0;
    for (uint64_t round = 0; round < 2; round++)
        mapped->runs[round * mapped->members.n + member] = slot_of(mapped, board, round)->data;
    return WRING_OK;
}

void wring_mapped_prepare(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    const struct wring_work *work = &collective->work;
    uint32_t n = mapped->members.n;

    mapped->by_engine = false;
    mapped->bytes = (size_t)work->geometry.elems * work->geometry.elem_bytes;
    mapped->runs[mapped->members.me] = mapped->runs[n + mapped->members.me] = work->in;
    if (mapped->dtype == work->dtype && mapped->op == work->op)
        return;
    mapped->dtype = work->dtype;
    mapped->op = work->op;
    mapped->reduction =
        wring_reduction_find(work->dtype, work->op, n, collective->engine->config->cpu);
}

struct wring_mapped_counts wring_mapped_count(const struct wring_mapped *list)
{
    struct wring_mapped_counts counts = {0};
    for (const struct wring_mapped *at = list; at != NULL; at = at->next) {
        counts.bytes_sent += atomic_load_explicit(&at->sent_bytes, memory_order_relaxed);
        counts.bytes_received += atomic_load_explicit(&at->taken_bytes, memory_order_relaxed);
        counts.puts_sent += atomic_load_explicit(&at->puts, memory_order_relaxed);
        counts.steps += atomic_load_explicit(&at->ended, memory_order_relaxed);
    }
    return counts;
}

/* ---- a step ------------------------------------------------------------------------------ */

static uint64_t number_of(const struct wring_mapped *mapped, uint32_t member)
{
    const struct slot *slot = slot_of(mapped, mapped->boards[member], mapped->round);
    return atomic_load_explicit(&slot->number, memory_order_acquire);
}

static bool is_shown(const struct wring_mapped *mapped, uint32_t member)
{
    return number_of(mapped, member) == mapped->number;
}

bool wring_mapped_is_foreign(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_mapped *mapped = collective->mapped;
    uint64_t number = number_of(mapped, member);
    return number != mapped->number && number >> WRING_TAG_BITS == mapped->round;
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
    uint32_t others = mapped->members.n - 1;
    struct slot *slot = slot_of(mapped, mapped->own, mapped->round);

    if (mapped->bytes > 0)
        memcpy(slot->data, data, mapped->bytes);
    atomic_store_explicit(&slot->number, mapped->number, memory_order_release);
    if (mapped->fenced)
        atomic_thread_fence(memory_order_seq_cst);
    wring_fence_light();
    wring_count(&mapped->puts, others);
    wring_count(&mapped->sent_bytes, others * mapped->bytes);
    return anyone_sleeps(mapped);
}

/** Say which step it is; calls are counted, too. */
static void enter_round(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    uint32_t tag = 0;

    if (collective->calls != NULL)
        tag = wring_calls_begin(collective);
    mapped->number = ++mapped->round << WRING_TAG_BITS | tag;
    mapped->looks = 0;
}

bool wring_mapped_begin(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    atomic_store_explicit(&collective->status, WRING_ERR_AGAIN, memory_order_relaxed);
    collective->timed = wring_collective_is_timed(collective);
    collective->started_ns = collective->timed ? wring_now_ns() : 0;
    collective->cost.wire_bytes += mapped->bytes * (mapped->members.n - 1);
    enter_round(collective);
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

    if (mapped->bytes == 0)
        return;
    if (collective->timed)
        reduce_timed(collective);
    else
        wring_reduction_run(&mapped->reduction, collective->work.out, runs_of(mapped),
                            collective->work.geometry.elems);
    wring_count(&mapped->taken_bytes, mapped->bytes * (mapped->members.n - 1));
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

static void mapped_start(struct wring_collective *collective)
{
    struct wring_task *task = &collective->tasks[0];
    if (!collective->mapped->by_engine) /* a call that nobody has begun yet */
        wring_mapped_begin(collective);
    collective->mapped->by_engine = true;
    memset(collective->mapped->woken, 0, collective->members.n * sizeof(bool));
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
    struct wring_mapped *mapped = collective->mapped;
    for (uint32_t i = 0; i < mapped->members.n; i++)
        if (i != mapped->members.me && !mapped->woken[i] && sleeps(mapped, i))
            mapped->woken[i] = wake(collective, i);
}

/** Has somebody made another call? */
static void suspect(struct wring_collective *collective)
{
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != collective->members.me && wring_mapped_is_foreign(collective, i))
            wring_calls_suspect(collective, collective->engine->fabric->tick_ns);
}

static void mapped_advance(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    wake_all(collective);
    if (!all_shown(mapped)) {
        if (collective->calls != NULL)
            suspect(collective);
        return;
    }
    for (uint32_t i = 0; i < mapped->members.n; i++)
        if (i != mapped->members.me)
            wring_collective_trace_arrived(collective, collective->members.ranks[i], mapped->bytes);
    reduce(collective);
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
