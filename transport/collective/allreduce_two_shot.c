/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alltoall of shards and reduction in order at each shard's owner, who then sends the sum to
 * all (allreduce) or to the root (reduce), or keeps it (reduce-scatter). Where everyone's data is
 * mapped nothing is sent to the owner but a word: it reads each contribution where it lies, alone,
 * before it places the sum there.
 */
#include "transport/collective/collective.h"

static bool is_direct(const struct wring_collective *collective)
{
    return wring_algorithm_is_direct(collective->work.algorithm);
}

static bool keeps_sums(const struct wring_collective *collective)
{
    return wring_algorithm_keeps_sums(collective->work.algorithm);
}

static bool is_placed(const struct wring_collective *collective)
{
    return wring_algorithm_is_placed(collective->work.algorithm);
}

static struct wring_span shard_of(const struct wring_collective *collective, uint32_t member)
{
    return wring_partition_shard(&collective->work.partition, member);
}

static uint64_t count_chunks(const struct wring_collective *collective, uint32_t member)
{
    return wring_partition_chunks(&collective->work.partition, shard_of(collective, member));
}

/** How many pieces of ours go to a member. */
static uint64_t count_pieces_for(const struct wring_collective *collective, uint32_t member)
{
    uint64_t chunks = count_chunks(collective, member);
    return is_direct(collective) && chunks > 1 ? 1 : chunks;
}

/** Do sums come in pieces that are decoded or copied into place? */
static bool expects_sums(const struct wring_collective *collective)
{
    return !keeps_sums(collective) && !is_placed(collective) &&
           wring_collective_ends_here(collective);
}

/** Do our own sums go to somebody? */
static bool sends_sums(const struct wring_collective *collective)
{
    const struct wring_work *work = &collective->work;
    return !keeps_sums(collective) && (!work->to_root || work->root != collective->members.me);
}

/** The channel of sums: what goes to the root alone follows our contributions to it. */
static struct wring_channel *sums_channel(const struct wring_collective *collective)
{
    return collective->work.to_root ? collective->scatter : collective->gather;
}

static void two_shot_start(struct wring_collective *collective)
{
    collective->reduced = 0;
    collective->all_ready = false;
    for (uint32_t i = 0; i < collective->members.n; i++) {
        collective->sent[i] = 0;
        collective->decoded[i] = 0;
        if (is_placed(collective) && !keeps_sums(collective) && i != collective->members.me)
            collective->arrivals[i] += (uint32_t)count_chunks(collective, i);
    }
}

/** One chunk for each member in turn, beginning after us, so that no rank is flooded. */
static bool send_shards(struct wring_collective *collective)
{
    bool any = false;
    for (uint32_t d = 1; d < collective->members.n; d++) {
        uint32_t member = (collective->members.me + d) % collective->members.n;
        if (!is_direct(collective))
            any |= wring_collective_send_next(collective, member, shard_of(collective, member),
                                              count_chunks(collective, member)) != NULL;
        else if (count_pieces_for(collective, member) > 0)
            any |= wring_collective_send_word(collective, member);
    }
    return any;
}

/** Direct: everyone's word has come; it is taken, and holds for all of our shard. */
static bool hear_words(struct wring_collective *collective)
{
    struct wring_channel *scatter = collective->scatter;
    if (collective->all_ready || !wring_collective_all_arrived(collective, scatter))
        return collective->all_ready;
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != collective->members.me)
            wring_channel_release(scatter, i, wring_channel_take(scatter, i));
    return collective->all_ready = true;
}

/** The next chunk of everyone's contribution can be reduced. */
static bool hear_contributions(struct wring_collective *collective)
{
    return is_direct(collective) ? hear_words(collective)
                                 : wring_collective_all_arrived(collective, collective->scatter);
}

/** Has each receiver of the sum a slot for it? A root gets sums after all our contributions to
 *  it. */
static bool can_send_sum(const struct wring_collective *collective)
{
    uint32_t root = collective->work.root;
    if (!collective->work.to_root)
        return wring_channel_has_credits(collective->gather);
    return collective->sent[root] == count_pieces_for(collective, root) &&
           wring_channel_has_credit(collective->scatter, root);
}

static void reserve_sum(struct wring_collective *collective, struct wring_task *task)
{
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != collective->members.me && (!collective->work.to_root || i == task->member))
            task->sequence = wring_channel_reserve(sums_channel(collective), i);
}

static bool reduce_next(struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    uint32_t me = collective->members.me;
    bool slots = sends_sums(collective) && !is_placed(collective);

    if (collective->reduced == count_chunks(collective, me) || !hear_contributions(collective) ||
        (slots && !can_send_sum(collective)))
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_REDUCE);
    if (task == NULL)
        return false;

    struct wring_span span =
        wring_partition_chunk(partition, shard_of(collective, me), collective->reduced++);
    task->member = collective->work.to_root ? collective->work.root : WRING_EVERYBODY;
    if (slots)
        reserve_sum(collective, task);
    struct wring_source own = wring_collective_own(collective, span);
    wring_collective_reduce(task, collective->scatter, span, own,
                            collective->work.codec != NULL && !keeps_sums(collective));
    return true;
}

static bool take_sums(struct wring_collective *collective)
{
    bool any = false;
    if (collective->work.to_root &&
        collective->reduced < count_chunks(collective, collective->members.me))
        return false; /* contributions come first */
    for (uint32_t i = 0; expects_sums(collective) && i < collective->members.n; i++)
        if (i != collective->members.me)
            any |= wring_collective_take_next(collective, sums_channel(collective), i,
                                              shard_of(collective, i), shard_of(collective, i), 1);
    return any;
}

/** The sums of a member's shard are not all here. */
static bool lacks_sums(const struct wring_collective *collective, uint32_t member)
{
    if (keeps_sums(collective) || !wring_collective_ends_here(collective))
        return false;
    if (is_placed(collective))
        return collective->gather->in[member].arrivals != collective->arrivals[member];
    return collective->decoded[member] < count_chunks(collective, member);
}

static bool is_complete(const struct wring_collective *collective)
{
    uint32_t me = collective->members.me;
    if (collective->busy > 0 || collective->reduced < count_chunks(collective, me))
        return false;
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != me &&
            (collective->sent[i] < count_pieces_for(collective, i) || lacks_sums(collective, i)))
            return false;
    return true;
}

static void two_shot_advance(struct wring_collective *collective)
{
    bool any = true;
    while (any && !wring_engine_turn_is_over(collective->engine)) {
        any = reduce_next(collective); /* what unblocks the others comes first */
        any |= take_sums(collective);
        any |= send_shards(collective);
        any |= wring_collective_send(collective);
    }
    collective->runnable |= any;
    if (is_complete(collective))
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

static void on_reduced(struct wring_collective *collective, struct wring_task *task)
{
    const struct wring_job *job = &task->job;

    if (!is_direct(collective))
        wring_collective_release_all(task, collective->scatter);
    if (!sends_sums(collective))
        wring_collective_free_task(task);
    else if (job->codec_out != NULL)
        wring_collective_ready(task, task->slot, job->result.code_bytes);
    else
        wring_collective_ready(task, job->dst,
                               wring_partition_bytes(&collective->work.partition, task->span));
}

static void two_shot_job_done(struct wring_collective *collective, struct wring_task *task)
{
    switch (task->kind) {
    case WRING_TASK_SEND:
        wring_collective_ready(task, task->slot, task->job.result.code_bytes);
        return;
    case WRING_TASK_REDUCE:
        if (!wring_collective_reduce_on(task))
            on_reduced(collective, task);
        return;
    case WRING_TASK_DECODE:
        wring_channel_release(sums_channel(collective), task->member, task->taken[task->member]);
        wring_collective_free_task(task);
        return;
    }
}

/** To a root sums, too, once their contributions are there. */
static bool two_shot_owes(const struct wring_collective *collective, uint32_t member)
{
    if (collective->sent[member] < count_pieces_for(collective, member))
        return true;
    return collective->work.to_root && collective->work.root == member &&
           collective->reduced < count_chunks(collective, collective->members.me) &&
           wring_collective_missing(collective) == collective->members.n;
}

/** Our own sums first: a member whose sums are missing may wait for the same contributions. */
static bool two_shot_awaits(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;
    if (collective->reduced < count_chunks(collective, collective->members.me))
        return !collective->all_ready &&
               wring_channel_peek(collective->scatter, member, &bytes) == NULL;
    return lacks_sums(collective, member) &&
           (is_placed(collective) ||
            wring_channel_peek(sums_channel(collective), member, &bytes) == NULL);
}

const struct wring_collective_ops wring_allreduce_two_shot = {
    .name = "sharded",
    .start = two_shot_start,
    .advance = two_shot_advance,
    .job_done = two_shot_job_done,
    .owes = two_shot_owes,
    .awaits = two_shot_awaits,
};
