/* SPDX-License-Identifier: Apache-2.0 */
/* A step: who posts and who waits do all of it. */
#include "transport/collective/mapped_inside.h"

#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/fence.h"
#include "base/spin.h"
#include "transport/collective/collective.h"

/* others may keep the core long: then the engine is to see deadlines */
#define CROWDED_NS WRING_NS_PER_MS

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

/** @return whether a member is to be woken, which has seen it otherwise */
static bool show(struct wring_mapped *mapped, const void *data)
{
    struct wring_mapped_slot *slot = wring_mapped_slot(mapped->own, mapped->at);

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

bool wring_mapped_end(struct wring_collective *collective)
{
    struct wring_mapped *mapped = collective->mapped;

    if (atomic_load_explicit(&collective->status, memory_order_acquire) != WRING_ERR_AGAIN)
        return true;
    if (mapped->by_engine || !wring_mapped_all_shown(mapped))
        return false;
    wring_mapped_reduce(collective);
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

/** Where there are more ranks than cores, who is waited for may be waiting for this one. */
static void pause_between_looks(bool crowded)
{
    if (crowded)
        sched_yield();
    else
        wring_spin_pause();
}

bool wring_mapped_wait(struct wring_collective *collective, unsigned looks)
{
    struct wring_mapped *mapped = collective->mapped;

    if (wring_mapped_end(collective))
        return true;
    bool crowded = collective->engine->fabric->crowded;
    uint64_t limit_ns = crowded ? wring_deadline_in(CROWDED_NS) : WRING_NEVER;
    while (!mapped->by_engine) {
        if (wring_mapped_all_shown(mapped))
            return wring_mapped_end(collective);
        bool late = crowded && wring_now_ns() >= limit_ns;
        if (wring_mapped_give(collective, late ? 0 : looks))
            wring_engine_post(collective->engine, collective);
        else
            pause_between_looks(crowded);
    }
    return false;
}
