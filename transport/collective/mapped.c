/* SPDX-License-Identifier: Apache-2.0 */
/* A step: who posts and who waits do all of it. */
#include "transport/collective/mapped_inside.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/fpenv.h"
#include "base/spin.h"
#include "transport/collective/collective.h"
#include "transport/collective/spread.h"

/* others may keep the core long: then the engine is to see deadlines */
#define CROWDED_NS WRING_NS_PER_MS
#define COMPARED_EVERY 64 /* times that the core was given away: some hundred microseconds */
#define UNEVEN_FOR 3      /* comparisons: the scheduler may see to it, and whoever moved settles */
#define LOOKS_BESIDE 10   /* as long as a line and a late rank take, not half of a hand-over */

void wring_mapped_prepare(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;
    const struct wring_work *work = &collective->work;
    uint32_t n = mapped->members.n;

    mapped->by_engine = false;
    mapped->crowded = collective->engine->fabric->crowded;
    mapped->spreads = n == collective->engine->fabric->size;
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

static bool anyone_sleeps(const struct wring_mapped *mapped)
{
    for (uint32_t i = 0; i < mapped->n_others; i++)
        if (wring_mapped_sleeps(mapped, i))
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

/** Threads move seldom, so that this line stays with its readers. @return as it is shown */
static uint32_t show_core(const struct wring_mapped *mapped)
{
    uint32_t core = (uint32_t)(sched_getcpu() + 1);
    if (atomic_load_explicit(&mapped->own->core, memory_order_relaxed) != core)
        atomic_store_explicit(&mapped->own->core, core, memory_order_relaxed);
    return core;
}

/** A copy of eight bytes takes one instruction, where it is known that there are eight. */
static void copy_contribution(void *to, const void *from, size_t bytes)
{
    if (bytes == sizeof(uint64_t))
        memcpy(to, from, sizeof(uint64_t));
    else if (bytes > 0)
        memcpy(to, from, bytes);
}

/** @return whether a member is to be woken, which has seen it otherwise */
static bool show(struct wring_mapped *mapped, const void *data)
{
    struct wring_mapped_slot *slot = wring_mapped_slot(mapped->own, mapped->at);

    if (mapped->crowded)
        show_core(mapped);
    copy_contribution((uint8_t *)slot + mapped->head, data, mapped->bytes);
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

void wring_mapped_reduce(struct wring_collective *collective)
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

/** Everybody has shown what it contributes. Between wring_fp_enter() and wring_fp_leave(). */
static void end_step(struct wring_collective *collective)
{
    wring_mapped_reduce(collective);
    if (collective->timed)
        wring_collective_add_cost(collective);
    collective->step++;
    wring_count(&collective->mapped->ended, 1);
    atomic_store_explicit(&collective->status, WRING_OK, memory_order_release);
}

bool wring_mapped_end(struct wring_collective *collective)
{
    const struct wring_mapped *mapped = collective->mapped;

    if (atomic_load_explicit(&collective->status, memory_order_acquire) != WRING_ERR_AGAIN)
        return true;
    if (mapped->by_engine || !wring_mapped_all_shown(mapped))
        return false;
    uint64_t mode = wring_fp_enter();
    end_step(collective);
    wring_fp_leave(mode);
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

/**
 * Whoever has not shown anything yet runs on another core, by what it said last: to give ours away
 * would help nobody, and cost as much as the wait.
 */
static bool all_come_from_beside(const struct wring_mapped *mapped, uint32_t core)
{
    for (uint32_t i = 0; i < mapped->n_others; i++) {
        uint32_t its = atomic_load_explicit(&mapped->others[i].board->core, memory_order_relaxed);
        if ((its == core || its == 0) && wring_mapped_number(mapped, i) != mapped->number)
            return false;
    }
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
    if (mapped->uneven < UNEVEN_FOR)
        return;
    mapped->uneven = 0;
    wring_spread_move(core, &usable);
}

static void give_core_away(struct wring_mapped *mapped)
{
    sched_yield();
    if (!mapped->spreads || ++mapped->yields < COMPARED_EVERY)
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
    uint32_t core = show_core(mapped);

    for (unsigned beside = 0; !wring_mapped_all_shown(mapped);) {
        if (beside++ < LOOKS_BESIDE && all_come_from_beside(mapped, core)) {
            wring_spin_pause();
            continue;
        }
        limit_ns = limit_ns == 0 ? wring_deadline_in(CROWDED_NS) : limit_ns;
        if (wring_mapped_give(collective, wring_now_ns() >= limit_ns ? 0 : looks)) {
            wring_engine_post(collective->engine, collective);
            return false;
        }
        give_core_away(mapped);
        core = show_core(mapped);
        beside = 0;
    }
    return true;
}

/** @return false: the engine has the step */
static bool look(struct wring_collective *collective, unsigned looks)
{
    while (!wring_mapped_all_shown(collective->mapped)) {
        if (wring_mapped_give(collective, looks)) {
            wring_engine_post(collective->engine, collective);
            return false;
        }
        wring_spin_pause();
    }
    return true;
}

bool wring_mapped_wait(struct wring_collective *collective, unsigned looks)
{
    const struct wring_mapped *mapped = collective->mapped;

    if (atomic_load_explicit(&collective->status, memory_order_acquire) != WRING_ERR_AGAIN)
        return true;
    if (mapped->by_engine)
        return false;
    uint64_t mode = wring_fp_enter(); /* here rather than after the wait, for which others wait */
    bool shown = mapped->crowded ? look_crowded(collective, looks) : look(collective, looks);
    if (shown)
        end_step(collective);
    wring_fp_leave(mode);
    return shown;
}
