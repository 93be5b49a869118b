/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/mapped.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/spin.h"
#include "transport/collective/collective.h"
#include "transport/control.h"

#define LINE 64

/** A round's contribution, behind its number, which is written last. */
struct slot {
    _Atomic uint64_t number;
};

/** What fits comes in the number's line; all else begins with a line of its own. */
static size_t head_of(size_t room)
{
    return room <= LINE - sizeof(struct slot) ? sizeof(struct slot) : LINE;
}

static size_t stride_of(size_t room)
{
    size_t all = head_of(room) + room;
    return (all + WRING_BOARD_ALIGN - 1) / WRING_BOARD_ALIGN * WRING_BOARD_ALIGN;
}

size_t wring_mapped_memory(size_t room)
{
    return sizeof(struct wring_board) + 2 * stride_of(room);
}

/** Only our own is written. */
static struct slot *slot_of(const struct wring_board *board, size_t at)
{
    return (struct slot *)((uint8_t *)(board + 1) + at);
}

static uint8_t *data_of(const struct wring_mapped *mapped, const struct wring_board *board,
                        size_t at)
{
    return (uint8_t *)slot_of(board, at) + mapped->head;
}

enum wring_status wring_mapped_create(struct wring_members members, size_t room, uint8_t *memory,
                                      struct wring_mapped **out)
{
    struct wring_mapped *mapped = calloc(1, sizeof(*mapped));
    if (mapped == NULL)
        return WRING_ERR_NO_MEMORY;
    mapped->members = members;
    mapped->room = room;
    mapped->head = head_of(room);
    mapped->stride = stride_of(room);
    mapped->op = WRING_OPS; /* no reduction has been chosen */
    mapped->own = (struct wring_board *)memory;
    mapped->others = calloc(members.n, sizeof(*mapped->others));
    mapped->runs = calloc(2 * (size_t)members.n, sizeof(*mapped->runs));
    mapped->woken = calloc(members.n, sizeof(*mapped->woken));
    if (mapped->others == NULL || mapped->runs == NULL || mapped->woken == NULL) {
        wring_mapped_destroy(mapped);
        return WRING_ERR_NO_MEMORY;
    }
    mapped->fenced = !wring_fence_register();
    atomic_store(&mapped->own->fenced, mapped->fenced);
    *out = mapped;
    return WRING_OK;
}

void wring_mapped_destroy(struct wring_mapped *mapped)
{
    if (mapped == NULL)
        return;
    free(mapped->woken);
    free(mapped->runs);
    free(mapped->others);
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
    mapped->others[mapped->n_others++] = (struct wring_mapped_other){board, member};
    mapped->fenced |= atomic_load(&board->fenced) != 0;
    mapped->runs[member] = data_of(mapped, board, 0);
    mapped->runs[mapped->members.n + member] = data_of(mapped, board, mapped->stride);
    return WRING_OK;
}

void wring_mapped_prepare(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    const struct wring_work *work = &collective->work;
    uint32_t n = mapped->members.n;

    mapped->by_engine = false;
    mapped->bytes = (size_t)work->geometry.elems * work->geometry.elem_bytes;
    mapped->all_bytes = (uint64_t)mapped->bytes * (n - 1);
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

static uint64_t number_of(const struct wring_mapped *mapped, uint32_t other)
{
    const struct slot *slot = slot_of(mapped->others[other].board, mapped->at);
    return atomic_load_explicit(&slot->number, memory_order_acquire);
}

static bool all_shown(const struct wring_mapped *mapped)
{
    for (uint32_t i = 0; i < mapped->n_others; i++)
        if (number_of(mapped, i) != mapped->number)
            return false;
    return true;
}

static bool sleeps(const struct wring_mapped *mapped, uint32_t other)
{
    const struct wring_board *board = mapped->others[other].board;
    return atomic_load_explicit(&board->asleep, memory_order_relaxed) != 0;
}

static bool anyone_sleeps(const struct wring_mapped *mapped)
{
    for (uint32_t i = 0; i < mapped->n_others; i++)
        if (sleeps(mapped, i))
            return true;
    return false;
}

/** Say which step it is; calls are counted, too. */
static void enter_round(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    uint32_t tag = collective->calls != NULL ? wring_calls_begin(collective) : 0;
    bool odd = ++mapped->round & 1;

    mapped->number = mapped->round << WRING_TAG_BITS | tag;
    mapped->at = odd ? mapped->stride : 0;
    mapped->run = mapped->runs + (odd ? mapped->members.n : 0);
    mapped->looks = 0;
}

/** @return whether a member is to be woken, which has seen it otherwise */
static bool show(struct wring_mapped *mapped, const void *data)
{
    struct slot *slot = slot_of(mapped->own, mapped->at);

    if (mapped->bytes > 0)
        memcpy((uint8_t *)slot + mapped->head, data, mapped->bytes);
    atomic_store_explicit(&slot->number, mapped->number, memory_order_release);
    if (mapped->fenced)
        wring_fence_full();
    wring_fence_light();
    return anyone_sleeps(mapped);
}

bool wring_mapped_begin(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    atomic_store_explicit(&collective->status, WRING_ERR_AGAIN, memory_order_relaxed);
    collective->timed = wring_collective_is_timed(collective);
    collective->started_ns = collective->timed ? wring_now_ns() : 0;
    enter_round(collective);
    bool asleep = show(mapped, collective->work.in);
    mapped->by_engine = asleep || collective->engine->trace != NULL;
    collective->cost.wire_bytes += mapped->all_bytes;
    wring_count(&mapped->puts, mapped->n_others);
    wring_count(&mapped->sent_bytes, mapped->all_bytes);
    return !mapped->by_engine;
}

/** As a job, which tells how long it took and where. */
static void reduce_timed(struct wring_collective *collective)
{
    const struct wring_mapped *mapped = collective->mapped;
    struct wring_task *task = &collective->tasks[0];

    for (uint32_t i = 0; i < mapped->members.n; i++)
        task->sources[i] = (struct wring_source){mapped->run[i], mapped->bytes, NULL};
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
        wring_reduction_run(&mapped->reduction, collective->work.out, mapped->run,
                            collective->work.geometry.elems);
    wring_count(&mapped->taken_bytes, mapped->all_bytes);
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
    struct wring_mapped *mapped = collective->mapped;

    if (wring_mapped_end(collective))
        return true;
    while (!mapped->by_engine) {
        if (all_shown(mapped))
            return wring_mapped_end(collective);
        if (wring_mapped_give(collective, looks))
            wring_engine_post(collective->engine, collective);
        else
            wring_spin_pause();
    }
    return false;
}

/* ---- as a state machine of the engine ----------------------------------------------------- */

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
        if (!mapped->woken[i] && sleeps(mapped, i))
            mapped->woken[i] = wake(peer_of(collective, i));
}

/** Has somebody made another call? */
static bool is_foreign(const struct wring_mapped *mapped, uint32_t other)
{
    uint64_t number = number_of(mapped, other);
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

static void mapped_advance(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    wake_all(collective);
    if (all_shown(mapped)) {
        trace_arrived(collective);
        reduce(collective);
        atomic_store_explicit(&mapped->own->asleep, 0, memory_order_relaxed);
        wring_engine_finish(collective->engine, collective, WRING_OK);
    } else if (collective->calls != NULL) {
        suspect(collective);
    }
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
    return member != mapped->members.me &&
           number_of(mapped, other_of(mapped, member)) != mapped->number;
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
