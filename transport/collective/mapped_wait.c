/* SPDX-License-Identifier: Apache-2.0 */
/* How a caller waits for what others have not shown yet. */
#include "transport/collective/mapped_inside.h"

#include "base/clock.h"
#include "base/fpenv.h"
#include "base/spin.h"
#include "transport/collective/spread.h"
#include "transport/wait_policy.h"

bool wring_mapped_give(struct wring_collective *collective, unsigned looks)
{
    struct wring_mapped *mapped = collective->mapped;

    if (mapped->by_engine || mapped->looks++ < looks)
        return false;
    mapped->by_engine = true;
    return true;
}

/** It runs on another core, by what it said last. */
static bool is_beside(const struct wring_mapped *mapped, uint32_t other, uint32_t core)
{
    const struct wring_board *board = mapped->others[other].board;
    uint32_t its = atomic_load_explicit(&board->core, memory_order_relaxed);
    return its != core && its != 0;
}

/**
 * Whoever has not shown anything yet, or still sums a shard, runs on another core: to give ours
 * away would help nobody, and cost as much as the wait.
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
            wring_mapped_yield(collective);
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
            wring_mapped_yield(collective);
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
            wring_mapped_go_on(collective);
        ours = ours && !mapped->by_engine;
    }
    wring_fp_leave(mode);
    return ours;
}
