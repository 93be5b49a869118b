/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allgather of whole contributions; every member reduces all of them in order. Or a gather, where
 * the root alone does.
 */
#include "transport/collective/collective.h"

static struct wring_span whole_span(const struct wring_collective *collective)
{
    return (struct wring_span){0, collective->work.partition.elems};
}

static uint64_t count_chunks(const struct wring_collective *collective)
{
    return wring_partition_chunks(&collective->work.partition, whole_span(collective));
}

/** The member that our pieces go to; a root's go nowhere, and it gets itself. */
static uint32_t target_member(const struct wring_collective *collective)
{
    return collective->work.to_root ? collective->work.root : WRING_EVERYBODY;
}

static struct wring_channel *pieces_channel(const struct wring_collective *collective)
{
    return collective->work.to_root ? collective->scatter : collective->gather;
}

static uint64_t *sent_counter(const struct wring_collective *collective)
{
    uint32_t target = target_member(collective);
    return &collective->sent[target == WRING_EVERYBODY ? collective->members.me : target];
}

static uint64_t count_sent(const struct wring_collective *collective)
{
    return *sent_counter(collective);
}

static void one_shot_start(struct wring_collective *collective)
{
    *sent_counter(collective) = 0;
    collective->reduced = wring_collective_ends_here(collective) ? 0 : count_chunks(collective);
}

static bool send_next(struct wring_collective *collective)
{
    struct wring_task *task = wring_collective_send_next(
        collective, target_member(collective), whole_span(collective), count_chunks(collective));
    if (task == NULL)
        return false;
    task->held = wring_collective_ends_here(collective);
    return true;
}

/** Our own piece of a chunk, once it can be reduced: a raw one, which the sum will overwrite,
 *  only after it has been sent. */
static struct wring_task *find_own_piece(struct wring_collective *collective, uint64_t chunk)
{
    for (uint32_t i = 0; i < collective->send_tasks; i++) {
        struct wring_task *task = &collective->tasks[i];
        if (task->state != WRING_TASK_SENDING || task->chunk != chunk)
            continue;
        bool gone = task->puts_left == 0 && task->puts_under_way == 0;
        return task->piece == task->slot || gone ? task : NULL;
    }
    return NULL;
}

static bool reduce_next(struct wring_collective *collective)
{
    if (collective->reduced == count_chunks(collective) ||
        !wring_collective_all_arrived(collective, pieces_channel(collective)))
        return false;
    struct wring_task *own = find_own_piece(collective, collective->reduced);
    struct wring_task *task =
        own != NULL ? wring_collective_task(collective, WRING_TASK_REDUCE) : NULL;
    if (task == NULL)
        return false;

    task->chunk = collective->reduced++;
    struct wring_source source = wring_collective_piece(own, collective->work.codec);
    wring_collective_reduce(task, pieces_channel(collective), own->span, source, false);
    return true;
}

static void one_shot_advance(struct wring_collective *collective)
{
    bool any = true;
    while (any && !wring_engine_turn_is_over(collective->engine)) {
        any = reduce_next(collective);
        any |= send_next(collective);
        any |= wring_collective_send(collective);
    }
    collective->runnable |= any;
    uint64_t chunks = count_chunks(collective);
    if (collective->busy == 0 && count_sent(collective) == chunks && collective->reduced == chunks)
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

/** The own piece has been reduced: it may go once it has been sent. */
static void let_go_of_own(struct wring_collective *collective, uint64_t chunk)
{
    for (uint32_t i = 0; i < collective->send_tasks; i++) {
        struct wring_task *own = &collective->tasks[i];
        if (own->state != WRING_TASK_SENDING || own->chunk != chunk)
            continue;
        wring_collective_let_go(own);
        return;
    }
}

static void one_shot_job_done(struct wring_collective *collective, struct wring_task *task)
{
    if (task->kind == WRING_TASK_SEND) {
        wring_collective_ready(task, task->slot, task->job.result.code_bytes);
        return;
    }
    wring_collective_release_all(task, pieces_channel(collective));
    let_go_of_own(collective, task->chunk);
    wring_collective_free_task(task);
}

static bool one_shot_owes(const struct wring_collective *collective, uint32_t member)
{
    uint32_t target = target_member(collective); /* or all get the same */
    return (target == WRING_EVERYBODY || target == member) &&
           count_sent(collective) < count_chunks(collective);
}

static bool one_shot_awaits(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;
    return collective->reduced < count_chunks(collective) &&
           wring_channel_peek(pieces_channel(collective), member, &bytes) == NULL;
}

/** Of a round: the step's own pieces follow. */
static bool round_owes(const struct wring_collective *collective, uint32_t member)
{
    (void)collective, (void)member;
    return true;
}

const struct wring_collective_ops wring_round_gathered = {
    .name = "round",
    .start = one_shot_start,
    .advance = one_shot_advance,
    .job_done = one_shot_job_done,
    .owes = round_owes,
    .awaits = one_shot_awaits,
};

const struct wring_collective_ops wring_allreduce_one_shot = {
    .name = "gathered",
    .start = one_shot_start,
    .advance = one_shot_advance,
    .job_done = one_shot_job_done,
    .owes = one_shot_owes,
    .awaits = one_shot_awaits,
};
