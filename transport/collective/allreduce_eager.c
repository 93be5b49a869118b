/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small steps: as collective/allreduce_one_shot.c, with one raw piece of each member, which this
 * thread reduces at once. A latency and a half is all there is to gain, so nothing is set in
 * motion.
 */
#include "transport/collective/collective.h"

static struct wring_span whole_span(const struct wring_collective *collective)
{
    return (struct wring_span){0, collective->work.partition.elems};
}

static uint64_t count_pieces(const struct wring_collective *collective)
{
    return collective->work.partition.elems > 0 || collective->work.sync;
}

static uint64_t count_sent(const struct wring_collective *collective)
{
    return collective->sent[collective->members.me];
}

static void eager_start(struct wring_collective *collective)
{
    collective->sent[collective->members.me] = 0;
    collective->reduced = 0;
}

static void send_own(struct wring_collective *collective)
{
    struct wring_task *own = wring_collective_send_next(
        collective, WRING_EVERYBODY, whole_span(collective), count_pieces(collective));
    if (own != NULL)
        own->held = true;
    if (collective->busy > 0)
        wring_collective_send(collective);
}

/** The sum may overwrite our own piece, once that has been sent. */
static bool can_reduce(const struct wring_collective *collective)
{
    const struct wring_task *own = &collective->tasks[0];
    return count_sent(collective) > collective->reduced && own->puts_left == 0 &&
           own->puts_under_way == 0 && wring_collective_all_arrived(collective, collective->gather);
}

static bool reduce_pieces(struct wring_collective *collective)
{
    struct wring_task *own = &collective->tasks[0];
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_REDUCE);
    struct wring_source source = wring_collective_piece(own, NULL);

    collective->reduced++;
    wring_collective_reduction(task, collective->gather, own->span, source, false);
    task->job.untimed = !collective->timed;
    bool sound = wring_engine_run(collective->engine, &task->job);
    wring_collective_release_all(task, collective->gather);
    wring_collective_free_task(task);
    wring_collective_let_go(own);
    return sound;
}

static void eager_advance(struct wring_collective *collective)
{
    uint64_t pieces = count_pieces(collective);
    if (collective->reduced < pieces)
        send_own(collective);
    if (can_reduce(collective) && !reduce_pieces(collective))
        return;
    if (collective->reduced == pieces)
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

/** No job of ours goes to an executor. */
static void eager_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective, (void)task;
}

static bool eager_owes(const struct wring_collective *collective, uint32_t member)
{
    (void)member; /* all get the same */
    return count_sent(collective) < count_pieces(collective);
}

static bool eager_awaits(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;
    return collective->reduced < count_pieces(collective) &&
           wring_channel_peek(collective->gather, member, &bytes) == NULL;
}

const struct wring_collective_ops wring_allreduce_eager = {
    .name = "flat",
    .start = eager_start,
    .advance = eager_advance,
    .job_done = eager_job_done,
    .owes = eager_owes,
    .awaits = eager_awaits,
};
