/* SPDX-License-Identifier: Apache-2.0 */
/* A step of the mapped scheme: the threads that post and wait do all of it. */
#include "transport/collective/shm_flags.h"

#include <string.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/fpenv.h"
#include "base/spin.h"
#include "transport/collective/collective.h"
#include "transport/collective/shm_flags_inside.h"
#include "transport/wait_policy.h"

#define AT_ONCE 4096 /* bytes that stay near until they are copied to others */

/** Set the elements that we reduce: all of them, or in place our own shard. */
static void set_span(struct wring_mapped *mapped, const struct wring_work *work)
{
    const struct wring_geometry *geometry = &work->geometry;
    uint32_t n = mapped->members.n;
    struct wring_span span = {0, geometry->elems};

    mapped->in_place = wring_algorithm_is_direct(work->algorithm);
    if (mapped->in_place)
        span = wring_geometry_shard(geometry, mapped->members.me);
    mapped->elems = span.end - span.begin;
    mapped->bytes = wring_geometry_bytes(geometry, span);
    mapped->shown = mapped->in_place ? 0 : mapped->bytes;
    mapped->all_bytes = (uint64_t)mapped->bytes * (n - 1);
    mapped->other_bytes = mapped->in_place ? geometry->elems * geometry->elem_bytes - mapped->bytes
                                           : mapped->all_bytes;
    mapped->in = work->in; /* NULL where there is nothing, or nothing yet */
    mapped->out = work->out;
    mapped->data[mapped->members.me] = work->out;
    for (unsigned odd = 0; odd < 2; odd++)
        mapped->turns[odd].run[mapped->members.me] = mapped->in;
    if (mapped->in_place)
        wring_mapped_cut(mapped, geometry);
}

void wring_mapped_prepare(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    const struct wring_work *work = &collective->work;
    uint32_t n = mapped->members.n;

    mapped->by_engine = false;
    mapped->watched = collective->engine->trace != NULL || collective->watched;
    mapped->crowded = collective->engine->fabric->crowded;
    mapped->spreads = n == collective->engine->fabric->size;
    set_span(mapped, work);
    if (mapped->dtype == work->dtype && mapped->op == work->op)
        return;
    mapped->dtype = work->dtype;
    mapped->op = work->op;
    mapped->reduction =
        wring_reduction_find(work->dtype, work->op, n, collective->engine->config->cpu);
}

static inline bool anyone_sleeps(const struct wring_mapped *mapped)
{
    for (uint32_t i = 0; i < mapped->n_others; i++)
        if (wring_mapped_sleeps(mapped, i))
            return true;
    return false;
}

/** A copy of eight bytes takes one instruction, where it is known that there are eight. */
static inline void copy_contribution(void *to, const void *from, size_t bytes)
{
    if (bytes == sizeof(uint64_t))
        memcpy(to, from, sizeof(uint64_t));
    else if (bytes > 0)
        memcpy(to, from, bytes);
}

/** Enter a round: a member that finds its number in the slot finds our contribution behind it.
 *  Calls are counted, too. */
static inline void show(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    uint64_t number = mapped->ready.number;

    if (collective->calls != NULL)
        number |= wring_calls_begin(collective);
    if (mapped->crowded)
        wring_mapped_show_core(mapped);
    if (mapped->in_place)
        wring_mapped_open(mapped);
    copy_contribution(mapped->ready.place, mapped->in, mapped->shown);
    atomic_store_explicit(&mapped->ready.slot->number, number, memory_order_release);
    mapped->number = number;
    wring_mapped_enter(mapped, mapped->round + 1);
}

/** After show(). @return whether a member is to be woken, which has seen our board otherwise */
static inline bool missed(const struct wring_mapped *mapped)
{
    if (mapped->fenced)
        wring_fence_full();
    wring_fence_light();
    return anyone_sleeps(mapped);
}

/** Functions like this one are kept apart so that the short way past them does not carry their
 *  weight: it is of a small share of steps. */
__attribute__((noinline)) static void read_clock(struct wring_collective *collective)
{
    collective->started_ns = wring_now_ns();
}

static inline void start_clock(struct wring_collective *collective)
{
    collective->timed = wring_collective_is_timed(collective);
    collective->started_ns = 0;
    if (collective->timed)
        read_clock(collective);
}

bool wring_mapped_begin(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    atomic_store_explicit(&collective->status, WRING_ERR_AGAIN, memory_order_relaxed);
    start_clock(collective);
    show(collective);
    mapped->by_engine = missed(mapped) || mapped->watched;
    mapped->looks = 0;
    mapped->claimed = false;
    collective->cost.wire_bytes += mapped->all_bytes;
    wring_count(&mapped->puts, mapped->n_others);
    wring_count(&mapped->sent_bytes, mapped->all_bytes);
    return !mapped->by_engine;
}

/** As a job, which tells how long it took and where, and copies what is long piece by piece. */
__attribute__((noinline)) static void reduce_as_job(struct wring_collective *collective,
                                                    const struct wring_mapped_sum *sum)
{
    const struct wring_mapped *mapped = collective->mapped;
    struct wring_task *task = &collective->tasks[0];
    uint32_t copies = 0;

    for (uint32_t i = 0; i < mapped->members.n; i++)
        task->sources[i] = (struct wring_source){sum->runs[i], sum->bytes, NULL, {0}};
    for (uint32_t i = 0; sum->data != NULL && i < mapped->members.n; i++)
        if (i != mapped->members.me)
            task->copies[copies++] = sum->data[i] + sum->offset;
    task->job = (struct wring_job){
        .kind = WRING_JOB_REDUCE,
        .dtype = collective->work.dtype,
        .op = collective->work.op,
        .tier = collective->engine->config->cpu,
        .elems = sum->elems,
        .divisor = mapped->reduction.divisor,
        .sources = task->sources,
        .n_sources = mapped->members.n,
        .dst = sum->out,
        .copies = task->copies,
        .n_copies = copies,
        .untimed = !collective->timed,
        .cookie = task,
    };
    wring_engine_run(collective->engine, &task->job);
}

static void reduce_now(const struct wring_mapped *mapped, const struct wring_mapped_sum *sum)
{
    wring_reduction_run(&mapped->reduction, sum->out, sum->runs, sum->elems);
    for (uint32_t i = 0; i < mapped->members.n; i++)
        if (i != mapped->members.me)
            memcpy(sum->data[i] + sum->offset, sum->out, sum->bytes);
}

void wring_mapped_reduce(struct wring_collective *collective, const struct wring_mapped_sum *sum)
{
    if (collective->timed || sum->bytes > AT_ONCE)
        reduce_as_job(collective, sum);
    else
        reduce_now(collective->mapped, sum);
}

__attribute__((noinline)) static void reduce_shown_as_job(struct wring_collective *collective)
{
    const struct wring_mapped *mapped = collective->mapped;
    const struct wring_mapped_sum all = {.runs = mapped->turn->run,
                                         .out = mapped->out,
                                         .bytes = mapped->bytes,
                                         .elems = mapped->elems};
    reduce_as_job(collective, &all);
}

static inline void reduce_shown(struct wring_collective *collective)
{
    const struct wring_mapped *mapped = collective->mapped;
    if (mapped->bytes > 0 && collective->timed)
        reduce_shown_as_job(collective);
    else if (mapped->bytes > 0)
        wring_reduction_run(&mapped->reduction, mapped->out, mapped->turn->run, mapped->elems);
}

/** @return whether that was all of it */
__attribute__((noinline)) static bool sum_in_place(struct wring_collective *collective,
                                                   bool *summed)
{
    struct wring_mapped *mapped = collective->mapped;
    *summed = wring_mapped_sum_shards(collective);
    mapped->claimed = true;
    return wring_mapped_all_summed(mapped);
}

static inline bool advance(struct wring_collective *collective, bool *summed)
{
    struct wring_mapped *mapped = collective->mapped;

    *summed = false;
    if (mapped->claimed)
        return true;
    wring_count(&mapped->taken_bytes, mapped->other_bytes);
    if (mapped->in_place)
        return sum_in_place(collective, summed);
    reduce_shown(collective);
    return true;
}

bool wring_mapped_advance(struct wring_collective *collective, bool *summed)
{
    return advance(collective, summed);
}

/** Everybody has shown all there is in this step. */
static void end_step(struct wring_collective *collective)
{
    if (collective->timed)
        wring_collective_add_cost(collective);
    collective->step++;
    collective->ended = 0;
    wring_count(&collective->mapped->ended, 1);
    atomic_store_explicit(&collective->status, WRING_OK, memory_order_release);
}

/** Give the step to the engine, which nobody drives on that account. */
static void mapped_yield(struct wring_collective *collective)
{
    collective->mapped->by_engine = true;
    wring_engine_post(collective->engine, collective);
}

/** Go on, as all data is there that the step waits for. Between wring_fp_enter() and
 *  wring_fp_leave(). */
static void mapped_go_on(struct wring_collective *collective)
{
    bool summed, ended = advance(collective, &summed);
    if (summed && missed(collective->mapped))
        mapped_yield(collective);
    else if (ended)
        end_step(collective);
}

bool wring_mapped_end(struct wring_collective *collective)
{
    const struct wring_mapped *mapped = collective->mapped;

    while (wring_mapped_under_way(collective)) {
        if (mapped->by_engine || !wring_mapped_all_there(mapped))
            return false;
        uint64_t mode = wring_fp_enter();
        mapped_go_on(collective);
        wring_fp_leave(mode);
    }
    return true;
}

/* ---- wait ---- */

/* How a caller waits for data that others have not shown yet. */

bool wring_mapped_give(struct wring_collective *collective, unsigned looks)
{
    struct wring_mapped *mapped = collective->mapped;

    if (mapped->by_engine || mapped->looks++ < looks)
        return false;
    mapped->by_engine = true;
    return true;
}

/** That member showed last that it runs on another core. */
static bool is_beside(const struct wring_mapped *mapped, uint32_t other, uint32_t core)
{
    const struct wring_board *board = mapped->others[other].board;
    uint32_t its = atomic_load_explicit(&board->core, memory_order_relaxed);
    return its != core && its != 0;
}

/**
 * Each member that has not shown anything yet, or still sums a shard, runs on another core. To give
 * ours away would help none of them, and cost as much as the wait.
 */
static bool all_come_from_beside(const struct wring_mapped *mapped, uint32_t core)
{
    for (uint32_t i = 0; i < mapped->n_others; i++)
        if (wring_mapped_lacks(mapped, i) && !is_beside(mapped, i, core))
            return false;
    return true;
}

/** One rank too many shares our core, and has for a while: somebody leaves, perhaps we. */
static void spread_out(struct wring_mapped *mapped)
{
    cpu_set_t usable;

    mapped->cores[mapped->members.me] =
        atomic_load_explicit(&mapped->own->core, memory_order_relaxed);
    for (uint32_t i = 0; i < mapped->n_others; i++)
        mapped->cores[mapped->others[i].member] =
            atomic_load_explicit(&mapped->others[i].board->core, memory_order_relaxed);
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0)
        return;
    int core = wring_spread_choose(mapped->cores, mapped->members.n, mapped->members.me, &usable);
    mapped->uneven = core >= 0 ? mapped->uneven + 1 : 0;
    if (mapped->uneven < wring_wait_policy.uneven_for)
        return;
    mapped->uneven = 0;
    wring_spread_move(core, &usable);
}

static void give_core_away(struct wring_mapped *mapped)
{
    sched_yield();
    if (!mapped->spreads || ++mapped->yields < wring_wait_policy.compared_every)
        return;
    mapped->yields = 0;
    spread_out(mapped);
}

/**
 * There are more ranks than cores. One that shares ours gets it as soon as it is waited for; it
 * then ends this step, shows what it has in the next one, and gives the core back: once in each
 * step. @return false: the engine has the step
 */
static bool look_crowded(struct wring_collective *collective, unsigned looks)
{
    struct wring_mapped *mapped = collective->mapped;
    uint64_t limit_ns = 0; /* known when it is first needed */
    uint32_t core = wring_mapped_show_core(mapped);

    for (unsigned beside = 0; !wring_mapped_all_there(mapped);) {
        unsigned most =
            mapped->claimed ? wring_wait_policy.looks_summed : wring_wait_policy.looks_beside;
        if (beside++ < most && all_come_from_beside(mapped, core)) {
            wring_spin_pause();
            continue;
        }
        limit_ns = limit_ns == 0 ? wring_deadline_in(wring_wait_policy.crowded_ns) : limit_ns;
        if (wring_mapped_give(collective, wring_now_ns() >= limit_ns ? 0 : looks)) {
            mapped_yield(collective);
            return false;
        }
        give_core_away(mapped);
        core = wring_mapped_show_core(mapped);
        beside = 0;
    }
    return true;
}

/** @return false: the engine has the step */
static bool look(struct wring_collective *collective, unsigned looks)
{
    while (!wring_mapped_all_there(collective->mapped)) {
        if (wring_mapped_give(collective, looks)) {
            mapped_yield(collective);
            return false;
        }
        wring_spin_pause();
    }
    return true;
}

bool wring_mapped_wait(struct wring_collective *collective, unsigned looks)
{
    const struct wring_mapped *mapped = collective->mapped;
    bool ours = true;

    if (!wring_mapped_under_way(collective))
        return true;
    if (mapped->by_engine)
        return false;
    uint64_t mode = wring_fp_enter(); /* here rather than after the wait, for which others wait */
    while (ours && wring_mapped_under_way(collective)) {
        ours = mapped->crowded ? look_crowded(collective, looks) : look(collective, looks);
        if (ours)
            mapped_go_on(collective);
        ours = ours && !mapped->by_engine;
    }
    wring_fp_leave(mode);
    return ours;
}
