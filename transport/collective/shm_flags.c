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
#include "transport/control.h"
#include "transport/wait_policy.h"

#define LOOKS 100 /* for about as long as a line and its reader take */

/** In place: cut what there is into shards. */
static void cut_shards(struct wring_shm_flags *flags, const struct wring_partition *partition)
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

/** In place, before we say that our data is ready: our shard is open in the epoch to come. */
static void shm_flags_open(struct wring_shm_flags *flags)
{
    uint64_t open = (flags->epoch + 1) << WRING_SHARD_BITS | WRING_SHARD_OPEN;
    atomic_store_explicit(&flags->own->shard, open, memory_order_relaxed);
}

/** The state of a shard of this epoch that nobody has come for. */
static uint64_t open_state(const struct wring_shm_flags *flags)
{
    return flags->epoch << WRING_SHARD_BITS | WRING_SHARD_OPEN;
}

/** Everybody has said that its data is ready, and nobody has come for this shard. */
static bool is_shard_open(const struct wring_shm_flags_shard *shard, uint64_t open)
{
    return shard->bytes > 0 &&
           atomic_load_explicit(&shard->board->shard, memory_order_relaxed) == open;
}

static void shm_flags_reduce(struct wring_collective *collective,
                             const struct wring_shm_flags_sum *sum);

static void sum_claimed_shard(struct wring_collective *collective,
                              const struct wring_shm_flags_shard *shard)
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
    shm_flags_reduce(collective, &sum);
    atomic_store_explicit(&shard->board->shard,
                          flags->epoch << WRING_SHARD_BITS | WRING_SHARD_SUMMED,
                          memory_order_release);
}

/** Nobody else is about to sum it: it is ours, or its member last showed the core that we run
 *  on, so that it cannot run now. */
static bool is_shard_near(const struct wring_shm_flags *flags, uint32_t i)
{
    const struct wring_board *board = flags->shards[i].board;
    return i == 0 ||
           (flags->crowded && atomic_load_explicit(&board->core, memory_order_relaxed) ==
                                  atomic_load_explicit(&flags->own->core, memory_order_relaxed));
}

/** Sum a shard, unless somebody else comes first, or the group's steps have ended. The thread
 *  that ends them waits until we have written. @return whether we have */
static bool claim_and_sum_shard(struct wring_collective *collective,
                                const struct wring_shm_flags_shard *shard, uint64_t open)
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
        sum_claimed_shard(collective, shard);
    if (cease != NULL)
        atomic_fetch_sub_explicit(&cease->writing, 1, memory_order_release);
    return claimed;
}

/** @param near  none but these @return whether there was one */
static bool sum_open_shards(struct wring_collective *collective, bool near)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    uint64_t open = open_state(flags);
    bool any = false;

    for (uint32_t i = 0; i < flags->members.n; i++) {
        const struct wring_shm_flags_shard *shard = &flags->shards[i];
        if ((!near || is_shard_near(flags, i)) && is_shard_open(shard, open))
            any |= claim_and_sum_shard(collective, shard, open);
    }
    return any;
}

static bool is_any_shard_open(const struct wring_shm_flags *flags, uint64_t open)
{
    for (uint32_t i = 1; i < flags->members.n; i++)
        if (is_shard_open(&flags->shards[i], open))
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

    while ((any = is_any_shard_open(flags, open)) && look++ < LOOKS)
        wring_spin_pause();
    return any;
}

/** In place, where all data is ready: sum what nobody else does. Between wring_fp_enter() and
 *  wring_fp_leave(). @return whether there was anything */
static bool sum_shards(struct wring_collective *collective)
{
    bool any = sum_open_shards(collective, true);
    return (await_owners(collective->shm_flags) && sum_open_shards(collective, false)) || any;
}

/** That member sums the shard now, as its state says. */
static bool is_summed_by(const struct wring_shm_flags *flags,
                         const struct wring_shm_flags_shard *shard, uint32_t member)
{
    uint64_t its = flags->epoch << WRING_SHARD_BITS | (member + 1);
    return shard->bytes > 0 &&
           atomic_load_explicit(&shard->board->shard, memory_order_relaxed) == its;
}

/** Does the step wait for another one, by its index? */
static bool is_awaited(const struct wring_shm_flags *flags, uint32_t other)
{
    if (!flags->claimed)
        return wring_shm_flags_number(flags, other) != flags->number;
    for (uint32_t i = 0; i < flags->members.n; i++)
        if (is_summed_by(flags, &flags->shards[i], flags->others[other].member))
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
    return wring_fabric_peer(collective->engine->fabric, collective->members.ranks[member]);
}

/** Any message wakes: one that says that we live is at hand. @return false: there is no room for
 *  one; then others lie there, which the peer takes before it sleeps, and looks once more */
static bool wake_peer(struct wring_peer *peer)
{
    const struct wring_control life = {.kind = WRING_CONTROL_HEARTBEAT};
    return wring_control_send(peer, &life) != WRING_ERR_AGAIN;
}

/** Wake all members that sleep: each waits for our data, or for another one's. Once is enough. */
static void wake_sleepers(struct wring_collective *collective)
{
    struct wring_shm_flags *flags = collective->shm_flags;
    for (uint32_t i = 0; i < flags->n_others; i++)
        if (!flags->woken[i] && wring_shm_flags_sleeps(flags, i))
            flags->woken[i] = wake_peer(peer_of(collective, i));
}

static void suspect_foreign_calls(struct wring_collective *collective)
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

static bool wring_shm_flags_advance(struct wring_collective *collective, bool *summed);

/** Go on, as all data is there that the step waits for. */
static void continue_step(struct wring_collective *collective)
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
    wake_sleepers(collective);
    if (wring_shm_flags_all_there(collective->shm_flags))
        continue_step(collective);
    else if (collective->calls != NULL)
        suspect_foreign_calls(collective);
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
           is_awaited(flags, wring_shm_flags_other_of(flags, member));
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

/* ---- epochs ---- */

#define AT_ONCE 4096 /* bytes that stay near until they are copied to others */

/** Set the elements that we reduce: all of them, or in place our own shard. */
static void set_span(struct wring_shm_flags *flags, const struct wring_work *work)
{
    const struct wring_partition *partition = &work->partition;
    uint32_t n = flags->members.n;
    struct wring_span span = {0, partition->elems};

    flags->in_place = wring_algorithm_is_direct(work->algorithm);
    if (flags->in_place)
        span = wring_partition_shard(partition, flags->members.me);
    flags->elems = span.end - span.begin;
    flags->bytes = wring_partition_bytes(partition, span);
    flags->shown = flags->in_place ? 0 : flags->bytes;
    flags->all_bytes = (uint64_t)flags->bytes * (n - 1);
    flags->other_bytes = flags->in_place ? partition->elems * partition->elem_bytes - flags->bytes
                                         : flags->all_bytes;
    flags->in = work->in; /* NULL where there is nothing, or nothing yet */
    flags->out = work->out;
    flags->data[flags->members.me] = work->out;
    for (unsigned odd = 0; odd < 2; odd++)
        flags->turns[odd].run[flags->members.me] = flags->in;
    if (flags->in_place)
        cut_shards(flags, partition);
}

void wring_shm_flags_prepare(struct wring_collective *collective)
{
    struct wring_shm_flags *flags = collective->shm_flags;
    const struct wring_work *work = &collective->work;
    uint32_t n = flags->members.n;

    flags->by_engine = false;
    flags->watched = collective->engine->trace != NULL || collective->watched;
    flags->crowded = collective->engine->fabric->crowded;
    flags->spreads = n == collective->engine->fabric->size;
    set_span(flags, work);
    if (flags->dtype == work->dtype && flags->op == work->op)
        return;
    flags->dtype = work->dtype;
    flags->op = work->op;
    flags->reduction =
        wring_reduction_find(work->dtype, work->op, n, collective->engine->config->cpu);
}

static inline bool anyone_sleeps(const struct wring_shm_flags *flags)
{
    for (uint32_t i = 0; i < flags->n_others; i++)
        if (wring_shm_flags_sleeps(flags, i))
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

/** Enter an epoch: a member that finds its number in the slot finds our contribution behind it.
 *  Calls are counted, too. */
static inline void show_contribution(struct wring_collective *collective)
{
    struct wring_shm_flags *flags = collective->shm_flags;
    uint64_t number = flags->ready.number;

    if (collective->calls != NULL)
        number |= wring_op_check_begin(collective);
    if (flags->crowded)
        wring_shm_flags_show_core(flags);
    if (flags->in_place)
        shm_flags_open(flags);
    copy_contribution(flags->ready.contribution, flags->in, flags->shown);
    atomic_store_explicit(&flags->ready.slot->number, number, memory_order_release);
    flags->number = number;
    wring_shm_flags_enter(flags, flags->epoch + 1);
}

/** After show_contribution(). @return whether a member is to be woken, which has seen our board
 * otherwise */
static inline bool has_missed_us(const struct wring_shm_flags *flags)
{
    if (flags->fenced)
        wring_fence_full();
    wring_fence_light();
    return anyone_sleeps(flags);
}

/** Functions like this one are kept apart so that the fast path past them does not carry their
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

bool wring_shm_flags_begin(struct wring_collective *collective)
{
    struct wring_shm_flags *flags = collective->shm_flags;

    atomic_store_explicit(&collective->status, WRING_ERR_AGAIN, memory_order_relaxed);
    start_clock(collective);
    show_contribution(collective);
    flags->by_engine = has_missed_us(flags) || flags->watched;
    flags->looks = 0;
    flags->claimed = false;
    collective->cost.wire_bytes += flags->all_bytes;
    wring_count(&flags->puts, flags->n_others);
    wring_count(&flags->sent_bytes, flags->all_bytes);
    return !flags->by_engine;
}

/** As a job, which tells how long it took and where, and copies what is long piece by piece. */
__attribute__((noinline)) static void reduce_as_job(struct wring_collective *collective,
                                                    const struct wring_shm_flags_sum *sum)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    struct wring_task *task = &collective->tasks[0];
    uint32_t copies = 0;

    for (uint32_t i = 0; i < flags->members.n; i++)
        task->sources[i] = (struct wring_source){sum->runs[i], sum->bytes, NULL, {0}};
    for (uint32_t i = 0; sum->data != NULL && i < flags->members.n; i++)
        if (i != flags->members.me)
            task->copies[copies++] = sum->data[i] + sum->offset;
    task->job = (struct wring_job){
        .kind = WRING_JOB_REDUCE,
        .dtype = collective->work.dtype,
        .op = collective->work.op,
        .tier = collective->engine->config->cpu,
        .elems = sum->elems,
        .divisor = flags->reduction.divisor,
        .sources = task->sources,
        .n_sources = flags->members.n,
        .dst = sum->out,
        .copies = task->copies,
        .n_copies = copies,
        .untimed = !collective->timed,
        .cookie = task,
    };
    wring_engine_run(collective->engine, &task->job);
}

static void reduce_now(const struct wring_shm_flags *flags, const struct wring_shm_flags_sum *sum)
{
    wring_reduction_run(&flags->reduction, sum->out, sum->runs, sum->elems);
    for (uint32_t i = 0; i < flags->members.n; i++)
        if (i != flags->members.me)
            memcpy(sum->data[i] + sum->offset, sum->out, sum->bytes);
}

/** In place. Between wring_fp_enter() and wring_fp_leave(). */
static void shm_flags_reduce(struct wring_collective *collective,
                             const struct wring_shm_flags_sum *sum)
{
    if (collective->timed || sum->bytes > AT_ONCE)
        reduce_as_job(collective, sum);
    else
        reduce_now(collective->shm_flags, sum);
}

__attribute__((noinline)) static void reduce_shown_as_job(struct wring_collective *collective)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    const struct wring_shm_flags_sum all = {
        .runs = flags->turn->run, .out = flags->out, .bytes = flags->bytes, .elems = flags->elems};
    reduce_as_job(collective, &all);
}

static inline void reduce_shown(struct wring_collective *collective)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    if (flags->bytes > 0 && collective->timed)
        reduce_shown_as_job(collective);
    else if (flags->bytes > 0)
        wring_reduction_run(&flags->reduction, flags->out, flags->turn->run, flags->elems);
}

/** @return whether that was all of it */
__attribute__((noinline)) static bool sum_in_place(struct wring_collective *collective,
                                                   bool *summed)
{
    struct wring_shm_flags *flags = collective->shm_flags;
    *summed = sum_shards(collective);
    flags->claimed = true;
    return wring_shm_flags_all_summed(flags);
}

static inline bool advance_step(struct wring_collective *collective, bool *summed)
{
    struct wring_shm_flags *flags = collective->shm_flags;

    *summed = false;
    if (flags->claimed)
        return true;
    wring_count(&flags->taken_bytes, flags->other_bytes);
    if (flags->in_place)
        return sum_in_place(collective, summed);
    reduce_shown(collective);
    return true;
}

/** Go on with a step; nobody is told.
 *  @param summed  out: in place, there is a sum of ours that others may sleep for
 *  @return whether that is all of the step */
static bool wring_shm_flags_advance(struct wring_collective *collective, bool *summed)
{
    return advance_step(collective, summed);
}

/** Everybody has shown all there is in this step. */
static void end_step(struct wring_collective *collective)
{
    if (collective->timed)
        wring_collective_add_cost(collective);
    collective->step++;
    collective->ended = 0;
    wring_count(&collective->shm_flags->ended, 1);
    atomic_store_explicit(&collective->status, WRING_OK, memory_order_release);
}

/** Give the step to the engine, which nobody drives on that account. */
static void shm_flags_yield(struct wring_collective *collective)
{
    collective->shm_flags->by_engine = true;
    wring_engine_post(collective->engine, collective);
}

/** Go on, as all data is there that the step waits for. Between wring_fp_enter() and
 *  wring_fp_leave(). */
static void shm_flags_go_on(struct wring_collective *collective)
{
    bool summed, ended = advance_step(collective, &summed);
    if (summed && has_missed_us(collective->shm_flags))
        shm_flags_yield(collective);
    else if (ended)
        end_step(collective);
}

bool wring_shm_flags_end(struct wring_collective *collective)
{
    const struct wring_shm_flags *flags = collective->shm_flags;

    while (wring_shm_flags_under_way(collective)) {
        if (flags->by_engine || !wring_shm_flags_all_there(flags))
            return false;
        uint64_t mode = wring_fp_enter();
        shm_flags_go_on(collective);
        wring_fp_leave(mode);
    }
    return true;
}

/* ---- wait ---- */

/* How a caller waits for data that others have not shown yet. */

bool wring_shm_flags_give(struct wring_collective *collective, unsigned looks)
{
    struct wring_shm_flags *flags = collective->shm_flags;

    if (flags->by_engine || flags->looks++ < looks)
        return false;
    flags->by_engine = true;
    return true;
}

/** That member showed last that it runs on another core. */
static bool is_beside(const struct wring_shm_flags *flags, uint32_t other, uint32_t core)
{
    const struct wring_board *board = flags->others[other].board;
    uint32_t its = atomic_load_explicit(&board->core, memory_order_relaxed);
    return its != core && its != 0;
}

/**
 * Each member that has not shown anything yet, or still sums a shard, runs on another core. To give
 * ours away would help none of them, and cost as much as the wait.
 */
static bool all_come_from_beside(const struct wring_shm_flags *flags, uint32_t core)
{
    for (uint32_t i = 0; i < flags->n_others; i++)
        if (is_awaited(flags, i) && !is_beside(flags, i, core))
            return false;
    return true;
}

/** One rank too many shares our core, and has for a while: somebody leaves, perhaps we. */
static void spread_out(struct wring_shm_flags *flags)
{
    cpu_set_t usable;

    flags->cores[flags->members.me] = atomic_load_explicit(&flags->own->core, memory_order_relaxed);
    for (uint32_t i = 0; i < flags->n_others; i++)
        flags->cores[flags->others[i].member] =
            atomic_load_explicit(&flags->others[i].board->core, memory_order_relaxed);
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0)
        return;
    int core =
        wring_core_balance_choose(flags->cores, flags->members.n, flags->members.me, &usable);
    flags->uneven = core >= 0 ? flags->uneven + 1 : 0;
    if (flags->uneven < wring_wait_policy.uneven_for)
        return;
    flags->uneven = 0;
    wring_core_balance_move(core, &usable);
}

static void give_core_away(struct wring_shm_flags *flags)
{
    sched_yield();
    if (!flags->spreads || ++flags->yields < wring_wait_policy.compared_every)
        return;
    flags->yields = 0;
    spread_out(flags);
}

/**
 * There are more ranks than cores. One that shares ours gets it as soon as it is waited for; it
 * then ends this step, shows what it has in the next one, and gives the core back: once in each
 * step. @return false: the engine has the step
 */
static bool look_for_others_crowded(struct wring_collective *collective, unsigned looks)
{
    struct wring_shm_flags *flags = collective->shm_flags;
    uint64_t limit_ns = 0; /* known when it is first needed */
    uint32_t core = wring_shm_flags_show_core(flags);

    for (unsigned beside = 0; !wring_shm_flags_all_there(flags);) {
        unsigned most =
            flags->claimed ? wring_wait_policy.looks_summed : wring_wait_policy.looks_beside;
        if (beside++ < most && all_come_from_beside(flags, core)) {
            wring_spin_pause();
            continue;
        }
        limit_ns = limit_ns == 0 ? wring_deadline_in(wring_wait_policy.crowded_ns) : limit_ns;
        if (wring_shm_flags_give(collective, wring_now_ns() >= limit_ns ? 0 : looks)) {
            shm_flags_yield(collective);
            return false;
        }
        give_core_away(flags);
        core = wring_shm_flags_show_core(flags);
        beside = 0;
    }
    return true;
}

/** @return false: the engine has the step */
static bool look_for_others(struct wring_collective *collective, unsigned looks)
{
    while (!wring_shm_flags_all_there(collective->shm_flags)) {
        if (wring_shm_flags_give(collective, looks)) {
            shm_flags_yield(collective);
            return false;
        }
        wring_spin_pause();
    }
    return true;
}

bool wring_shm_flags_wait(struct wring_collective *collective, unsigned looks)
{
    const struct wring_shm_flags *flags = collective->shm_flags;
    bool ours = true;

    if (!wring_shm_flags_under_way(collective))
        return true;
    if (flags->by_engine)
        return false;
    uint64_t mode = wring_fp_enter(); /* here rather than after the wait, for which others wait */
    while (ours && wring_shm_flags_under_way(collective)) {
        ours = flags->crowded ? look_for_others_crowded(collective, looks)
                              : look_for_others(collective, looks);
        if (ours)
            shm_flags_go_on(collective);
        ours = ours && !flags->by_engine;
    }
    wring_fp_leave(mode);
    return ours;
}
