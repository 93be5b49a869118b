/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing moves: which ranks the engine waits for, whether that can ever end, and what a sleeper
 * must watch. */
#include "transport/engine.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "transport/collective/collective.h"
#include "transport/engine_inside.h"
#include "transport/message/message.h"
#include "transport/pairs.h"
#include "transport/slot_pool.h"
#include "transport/wait_policy.h"

#define WRING_MODULE "engine"
#define PAIRS_RETRY_NS (1 * WRING_NS_PER_MS)
#define LONG_BYTES (8u << 20) /* memory alone takes a millisecond or more */

/** Nothing moves. If a rank has left to which a collective owes a piece, or from which it awaits
 *  one, the job fails. */
static void fail_if_departed(struct wring_engine *engine)
{
    if (!engine->fabric->any_left)
        return;
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active)
        for (uint32_t i = wring_collective_next_pair(at, 0); i < at->members.n;
             i = wring_collective_next_pair(at, i + 1)) {
            uint32_t rank = at->members.ranks[i];
            const struct wring_peer *peer = &engine->fabric->peers[rank];
            bool departed = peer->state == WRING_PEER_GONE || peer->state == WRING_PEER_NONE;
            if (departed && peer->left &&
                (at->work.ops->owes(at, i) || at->work.ops->awaits(at, i))) {
                wring_fabric_put_failed(wring_fabric_peer(engine->fabric, rank), WRING_ERR_PEER);
                return;
            }
        }
}

static void fail_if_timed_out(struct wring_engine *engine)
{
    uint64_t limit = engine->config->timeout_ns, now = engine->fabric->tick_ns;
    for (struct wring_collective *at = engine->active; limit > 0 && at != NULL;
         at = at->next_active) {
        if (now < at->started_ns || now - at->started_ns <= limit)
            continue;
        uint32_t missing = wring_collective_missing(at);
        int32_t rank = missing < at->members.n ? (int32_t)at->members.ranks[missing] : -1;
        wring_fabric_fail(
            engine->fabric, WRING_ERR_PEER, rank,
            "a step took longer than %.3g s (WRING_TIMEOUT), waiting for rank %" PRId32,
            (double)limit / 1e9, rank);
        return;
    }
}

/** Do the other members of a group call what we do? */
static void fail_if_calls_differ(struct wring_engine *engine)
{
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active)
        if (at->calls != NULL && engine->fabric->state == WRING_FABRIC_WORKING)
            wring_op_check_look(at, engine->fabric->tick_ns);
}

/** Is there one that nobody can go on with? */
static void fail_if_standstill(struct wring_engine *engine)
{
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active)
        if (engine->fabric->state == WRING_FABRIC_WORKING)
            wring_standstill_look(at, engine->fabric->tick_ns);
}

/** Collectives that wait, from now on. */
static void note_waiting(struct wring_engine *engine)
{
    uint64_t now = engine->fabric->tick_ns;
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active) {
        if (at->waiting)
            continue;
        at->waiting = true;
        if (at->started_ns == 0)
            at->started_ns = now;
        if (at->calls != NULL)
            wring_op_check_wait(at, now);
    }
}

/** Nothing moves: is there a reason that will not pass? Then the job fails. */
static void fail_if_stuck(struct wring_engine *engine)
{
    engine->checked_ns = engine->fabric->tick_ns;
    if (engine->messenger != NULL && engine->fabric->state == WRING_FABRIC_WORKING)
        wring_messenger_check(engine->messenger);
    if (engine->active == NULL || engine->jobs_under_way > 0 ||
        engine->fabric->state != WRING_FABRIC_WORKING)
        return;
    note_waiting(engine);
    fail_if_departed(engine);
    fail_if_timed_out(engine);
    fail_if_calls_differ(engine);
    fail_if_standstill(engine);
}

bool wring_engine_works_long(const struct wring_engine *engine)
{
    bool all = engine->active != NULL;
    for (const struct wring_collective *at = engine->active; at != NULL && all;
         at = at->next_active)
        all = at->levels != NULL || /* its legs are asked */
              (wring_algorithm_is_direct(at->work.algorithm) &&
               at->work.partition.elems >= LONG_BYTES / at->work.partition.elem_bytes);
    return all;
}

/** Does it wait for ranks on other cores alone, which need none of ours? Not in steps of one
 *  hop, or of many small ones: a rank that gets our core meanwhile ends its own there. */
static bool waits_beside(const struct wring_collective *collective)
{
    const struct wring_peer *peers = collective->engine->fabric->peers;
    if (wring_algorithm_is_eager(collective->work.algorithm) ||
        wring_algorithm_has_partners(collective->work.algorithm))
        return false;
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != collective->members.me && !peers[collective->members.ranks[i]].beside &&
            collective->work.ops->awaits(collective, i))
            return false;
    return true;
}

bool wring_engine_waits_beside(const struct wring_engine *engine)
{
    bool all = engine->active != NULL;
    for (const struct wring_collective *at = engine->active; at != NULL && all;
         at = at->next_active)
        all = waits_beside(at);
    return all;
}

static void wake_by(struct wring_wait_set *set, uint64_t deadline_ns)
{
    if (deadline_ns < set->deadline_ns)
        set->deadline_ns = deadline_ns;
}

void wring_engine_arm(struct wring_engine *engine, struct wring_wait_set *set)
{
    if (engine->fabric->ticked)
        fail_if_stuck(engine); /* before a sleep that may be long */
    for (uint32_t i = 0; i < engine->n_queues;
         i++) /* before providers, which may take all places */
        if (engine->queues[i].jobs_under_way > 0)
            engine->queues[i].executor->ops->arm(engine->queues[i].executor, set);
    wring_fabric_arm(engine->fabric, set);
    wake_by(set, wring_formations_deadline(&engine->formations));
    wake_by(set, wring_flight_deadline(engine));
    wake_by(set, wring_membership_deadline(engine));
    if (engine->owes_pairs)
        wake_by(set, engine->fabric->tick_ns + PAIRS_RETRY_NS);
    if (engine->active != NULL && engine->config->timeout_ns > 0)
        wake_by(set, wring_now_ns() + engine->config->timeout_ns / 4);
    for (struct wring_collective *at = engine->active; at != NULL; at = at->next_active) {
        if (at->calls != NULL)
            wake_by(set, at->calls->look_ns);
        if (wring_collective_uses_shm_flags(at))
            wring_shm_flags_sleep(at);
    }
    if (engine->messenger != NULL)
        wring_messenger_arm(engine->messenger);
}

/* ---- engine ---- */

#define JOBS_PER_POLL 32

enum wring_status wring_engine_create(const struct wring_config *config,
                                      const struct wring_log *log, struct wring_executor *executor,
                                      struct wring_engine **out)
{
    struct wring_engine *engine = calloc(1, sizeof(*engine));
    if (engine == NULL)
        return WRING_ERR_NO_MEMORY;
    engine->config = config;
    engine->log = log;
    wring_engine_add_executor(engine, executor);
    *out = engine;
    return WRING_OK;
}

struct wring_executor_queue *wring_engine_add_executor(struct wring_engine *engine,
                                                       struct wring_executor *executor)
{
    if (engine->n_queues == WRING_EXECUTOR_QUEUES_MAX)
        return NULL;
    struct wring_executor_queue *queue = &engine->queues[engine->n_queues++];
    queue->executor = executor;
    return queue;
}

void wring_engine_set_fabric(struct wring_engine *engine, struct wring_fabric *fabric)
{
    engine->fabric = fabric;
    engine->formations.fabric = fabric;
    engine->formations.given_up = wring_pairs_given_up;
    engine->formations.arg = engine;
}

void wring_engine_destroy(struct wring_engine *engine)
{
    if (engine == NULL)
        return;
    wring_formations_finish(&engine->formations);
    wring_pairs_forget(engine);
    wring_flight_finish(&engine->flight);
    wring_membership_finish(&engine->membership);
    free(engine->channels);
    free(engine);
}

/** Start a posted collective and put it among the active ones, by priority, then by age. */
static void activate_collective(struct wring_engine *engine, struct wring_collective *collective)
{
    struct wring_collective **at = &engine->active;
    while (*at != NULL && (*at)->priority <= collective->priority)
        at = &(*at)->next_active;
    collective->next_active = *at;
    *at = collective;
    engine->n_active++;

    collective->begun++;
    collective->running = true;
    collective->runnable = true;
    collective->blocked = false;
    collective->busy = 0;
    collective->timed = wring_collective_is_timed(collective);
    collective->started_ns = collective->timed ? wring_now_ns() : 0;
    collective->waiting = false;
    enum wring_status ceased = wring_collective_ceased(collective);
    if (ceased != WRING_OK || collective->members.n == 1) {
        wring_engine_finish(engine, collective, ceased);
        return;
    }
    if (collective->calls != NULL && !wring_collective_uses_shm_flags(collective))
        wring_op_check_begin(collective);
    wring_coding_start(collective);
}

static bool activate_posted(struct wring_engine *engine)
{
    if (atomic_load_explicit(&engine->posted, memory_order_relaxed) == NULL)
        return false;
    struct wring_collective *newest =
        atomic_exchange_explicit(&engine->posted, NULL, memory_order_acquire);
    struct wring_collective *oldest = NULL;
    while (newest != NULL) { /* reverse: first come, first started */
        struct wring_collective *next = newest->next_posted;
        newest->next_posted = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != NULL) {
        struct wring_collective *next = oldest->next_posted;
        activate_collective(engine, oldest);
        oldest = next;
    }
    return true;
}

/** Take jobs that have ended in a queue. @return how many of done[JOBS_PER_POLL] */
static size_t poll_queue(struct wring_engine *engine, struct wring_executor_queue *queue,
                         struct wring_job **done)
{
    if (queue->jobs_under_way == 0)
        return 0;
    size_t n = queue->executor->ops->poll(queue->executor, done, JOBS_PER_POLL);
    queue->jobs_under_way -= (uint32_t)n;
    engine->jobs_under_way -= (uint32_t)n;
    return n;
}

/** Is one of its tasks with the executor? */
static bool collective_has_jobs(const struct wring_collective *collective)
{
    uint32_t n = collective->send_tasks + collective->reduce_tasks + collective->decode_tasks;
    for (uint32_t i = 0; i < n; i++)
        if (collective->tasks[i].has_job)
            return true;
    return false;
}

/** End a ceased collective, if that was its last job. @return whether it has ended by that */
static bool end_ceased(struct wring_engine *engine, struct wring_collective *collective)
{
    if (!collective->running || collective_has_jobs(collective))
        return false;
    wring_pool_ended(collective);
    wring_engine_finish(engine, collective, wring_collective_ceased(collective));
    return true;
}

/** A job of a ceased collective is done: nothing follows from it. */
static void cease_task(struct wring_engine *engine, struct wring_task *task)
{
    if (task->state == WRING_TASK_SENDING) /* its piece, which the job read, may be on the way */
        wring_collective_let_go(task);
    else
        wring_collective_free_task(task);
    end_ceased(engine, task->collective);
}

void wring_engine_cease(struct wring_engine *engine, struct wring_cease *cease,
                        enum wring_status status)
{
    atomic_store(&cease->status, (int)status);
    if (engine->pool != NULL)
        wring_pool_cease(engine->pool, cease);
    for (struct wring_collective *at = engine->active; at != NULL;) {
        bool ended = at->cease == cease && end_ceased(engine, at);
        at = ended ? engine->active : at->next_active; /* the callback may have posted more */
    }
}

bool wring_engine_is_quiet(const struct wring_engine *engine, const struct wring_cease *cease)
{
    if (wring_engine_writes(engine, cease))
        return false;
    for (uint32_t i = 0; i < engine->n_channels; i++) {
        const struct wring_channel *channel = engine->channels[i];
        if (channel != NULL && channel->owner->cease == cease &&
            !wring_collective_is_quiet(channel->owner))
            return false;
    }
    return engine->pool == NULL || wring_pool_is_quiet(engine->pool, cease);
}

static void take_done_jobs(struct wring_engine *engine, struct wring_job *const *done, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct wring_task *task = done[i]->cookie;
        task->has_job = false;
        if (!wring_engine_take_job(engine, done[i]))
            continue;
        if (wring_collective_ceased(task->collective) != WRING_OK)
            cease_task(engine, task);
        else if (engine->fabric->state == WRING_FABRIC_WORKING)
            task->collective->work.ops->job_done(task->collective, task);
        task->collective->runnable = true;
    }
}

static bool poll_jobs(struct wring_engine *engine)
{
    struct wring_job *done[JOBS_PER_POLL];
    bool any = false;

    if (engine->jobs_under_way == 0)
        return false;
    for (uint32_t i = 0; i < engine->n_queues; i++) {
        size_t n = poll_queue(engine, &engine->queues[i], done);
        take_done_jobs(engine, done, n);
        any |= n > 0;
    }
    return any;
}

/** Grows with each put, and with each collective that ends. */
static uint64_t count_moves(const struct wring_engine *engine)
{
    return atomic_load_explicit(&engine->fabric->puts_sent, memory_order_relaxed) +
           atomic_load_explicit(&engine->finished, memory_order_relaxed);
}

/** Something happened to it; or it is mapped, and its members write past the engine unheard. */
static bool is_advance_due(const struct wring_collective *collective, bool kick)
{
    return collective->runnable || wring_collective_uses_shm_flags(collective) ||
           (kick && collective->blocked);
}

/** The most urgent ones first; and again from them on, once much was computed. */
static bool advance_active(struct wring_engine *engine)
{
    bool kick = engine->kick, any = false;
    engine->kick = false;
    engine->computed = 0;
    struct wring_collective *next;
    for (struct wring_collective *at = engine->active; at != NULL; at = next) {
        next = at->next_active;
        if (!is_advance_due(at, kick))
            continue;
        bool retry = !at->runnable; /* its put may find no room again */
        uint64_t before = count_moves(engine);
        at->runnable = at->blocked = false;
        at->work.ops->advance(at);
        any |= !retry || count_moves(engine) != before;
        if (engine->fabric->state != WRING_FABRIC_WORKING)
            break;
        if (next != NULL && wring_engine_turn_is_over(engine)) {
            engine->kick |= kick; /* which the rest have not had */
            return true;
        }
    }
    return any;
}

static void return_owed_credits(struct wring_engine *engine)
{
    engine->fabric->owes_credits = false;
    for (uint32_t i = 0; i < engine->n_channels; i++)
        if (engine->channels[i] != NULL && engine->channels[i]->owes_credits)
            wring_channel_return_credits(engine->channels[i]);
    if (engine->pool != NULL)
        wring_pool_return_owed(engine->pool);
}

/** Everything is to end. Where a rank aborted the job nobody waits for all to have heard of it. */
static bool is_job_over(const struct wring_fabric *fabric)
{
    return fabric->state == WRING_FABRIC_FAILED || fabric->failure.status == WRING_ERR_CANCELLED;
}

/** End posted collectives before they begin. @return false: nothing was */
static bool end_posted(struct wring_engine *engine, enum wring_status status)
{
    if (atomic_load_explicit(&engine->posted, memory_order_relaxed) == NULL)
        return false;
    struct wring_collective *at =
        atomic_exchange_explicit(&engine->posted, NULL, memory_order_acquire);
    while (at != NULL) {
        struct wring_collective *next = at->next_posted;
        at->timed = false;
        wring_engine_finish(engine, at, status);
        at = next;
    }
    return true;
}

/** The job has failed: end everything, once no job touches anybody's memory any more. */
static bool end_all(struct wring_engine *engine)
{
    enum wring_status status = engine->fabric->failure.status;

    if (!is_job_over(engine->fabric) || engine->jobs_under_way > 0)
        return false;
    bool any = engine->active != NULL;
    if (engine->messenger != NULL)
        any |= wring_messenger_end(engine->messenger, status);
    while (engine->active != NULL)
        wring_engine_finish(engine, engine->active, status);
    return end_posted(engine, status) || any;
}

/** Jobs have not ended for long. Said once. */
static void warn_of_stuck_jobs(const struct wring_engine *engine)
{
    const struct wring_executor_queue *queue = engine->queues;

    while (queue->jobs_under_way == 0)
        queue++;
    wring_warn(engine->log,
               "executor %s has not ended %" PRIu32 " codec jobs for 1 s: wring_session_close() "
               "waits for them, as they use the application's memory; is its device stuck?",
               queue->executor->ops->name, queue->jobs_under_way);
}

/** Wait for all jobs, and begin no work that follows from them. There is no deadline: their
 *  memory is not free before. */
static void await_jobs(struct wring_engine *engine)
{
    const struct timespec pause = {0, wring_wait_policy.jobs_look_ns};
    struct wring_job *done[JOBS_PER_POLL];
    uint64_t tell_ns =
        engine->jobs_under_way > 0 ? wring_deadline_in(wring_wait_policy.jobs_tell_ns) : 0;
    bool told = false;

    while (engine->jobs_under_way > 0) {
        size_t n = 0;
        for (uint32_t i = 0; i < engine->n_queues; i++)
            n += poll_queue(engine, &engine->queues[i], done);
        if (n > 0)
            continue;
        if (told)
            nanosleep(&pause, NULL);
        else
            sched_yield();
        if (told || wring_now_ns() < tell_ns)
            continue;
        warn_of_stuck_jobs(engine);
        told = true;
    }
}

void wring_engine_drop(struct wring_engine *engine, enum wring_status status)
{
    await_jobs(engine);
    if (engine->messenger != NULL)
        wring_messenger_end(engine->messenger, status);
    do
        while (engine->active != NULL)
            wring_engine_finish(engine, engine->active, status);
    while (end_posted(engine, status));
}

/** @return true if something moves after all */
static bool retry_and_check(struct wring_engine *engine)
{
    engine->kick = true; /* not every provider tells when it has room again: ask */
    if (advance_active(engine) || (engine->owes_pool && wring_pool_make_room(engine->pool)))
        return true;
    if (engine->fabric->ticked &&
        engine->fabric->tick_ns - engine->checked_ns >= wring_wait_policy.check_ns)
        fail_if_stuck(engine);
    return false;
}

bool wring_engine_has_posted(const struct wring_engine *engine)
{
    return atomic_load(&engine->posted) != NULL ||
           (engine->messenger != NULL && wring_messenger_has_posted(engine->messenger));
}

/** Many jobs never do. */
static bool is_messaging(const struct wring_engine *engine)
{
    return atomic_load_explicit(&engine->talks, memory_order_relaxed) && engine->messenger != NULL;
}

bool wring_engine_idle(const struct wring_engine *engine)
{
    return engine->active == NULL &&
           atomic_load_explicit(&engine->posted, memory_order_relaxed) == NULL &&
           (!is_messaging(engine) || wring_messenger_is_idle(engine->messenger));
}

bool wring_engine_begin(struct wring_engine *engine, struct wring_collective *collective)
{
    if (engine->fabric->state != WRING_FABRIC_WORKING) {
        wring_engine_post(engine, collective);
        wring_engine_poll(engine);
        return wring_engine_idle(engine);
    }
    atomic_store_explicit(&collective->status, WRING_ERR_AGAIN, memory_order_relaxed);
    activate_collective(engine, collective);
    advance_active(engine);
    poll_jobs(engine);
    return wring_engine_idle(engine);
}

bool wring_engine_poll(struct wring_engine *engine)
{
    bool any = wring_fabric_poll(engine->fabric);
    if (engine->fabric->state != WRING_FABRIC_WORKING) {
        any |= poll_jobs(engine);
        if (engine->membership.state != WRING_MEMBERSHIP_AWAY)
            wring_membership_poll(engine);
        return end_all(engine) || any;
    }
    any |= activate_posted(engine);
    any |= poll_jobs(engine);
    if (is_messaging(engine))
        any |= wring_messenger_poll(engine->messenger);
    if (engine->formations.first != NULL)
        any |= wring_formations_poll(&engine->formations);
    if (engine->owes_pairs)
        wring_pairs_poll(engine);
    if (engine->fabric->owes_credits)
        return_owed_credits(engine);
    if (engine->flight.number != 0)
        wring_flight_poll(engine);
    if (engine->membership.state != WRING_MEMBERSHIP_AWAY)
        wring_membership_poll(engine);
    if (engine->owes_pool)
        any |= wring_pool_poll(engine->pool);
    any |= advance_active(engine);
    any |= poll_jobs(engine); /* an inline executor is done already */
    if (engine->owes_pairs)   /* a ceased collective's last job may have ended with that */
        wring_pairs_poll(engine);
    return any || retry_and_check(engine);
}
