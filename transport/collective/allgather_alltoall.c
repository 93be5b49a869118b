/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces that go from member to member and are taken as they are:
 *
 *     allgather   one piece of ours to all; that of member m becomes shard m of the result
 *     broadcast   the same with one contributor, the root, whose piece is all of the result
 *     alltoall    shard m of ours to member m; what comes from m becomes shard m of the result
 *     scatter     the same with one contributor, the root
 *     gather      the same with one taker
 *
 * An allgather may be placed: pieces go straight to where they belong in everyone's data.
 */
#include <inttypes.h>

#include "transport/collective/collective.h"

static bool is_placed(const struct wring_collective *collective)
{
    return wring_algorithm_is_placed(collective->work.algorithm);
}

static bool is_contributor(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_work *work = &collective->work;
    return work->root == WRING_EVERYBODY || work->to_root || work->root == member;
}

static bool is_receiver(const struct wring_collective *collective, uint32_t member)
{
    return !collective->work.to_root || collective->work.root == member;
}

/** The shard that a member's contribution makes, or that goes to it; a broadcast has just one. */
static struct wring_span shard_of(const struct wring_collective *collective, uint32_t member)
{
    const struct wring_partition *partition = &collective->work.partition;
    return wring_partition_shard(partition, partition->shards == 1 ? 0 : member);
}

/** The shard of the result that a member's contribution becomes. */
static struct wring_span result_shard_of(const struct wring_collective *collective, uint32_t member)
{
    const uint64_t *begins = collective->work.out_begins;
    return begins != NULL ? (struct wring_span){begins[member], begins[member + 1]}
                          : shard_of(collective, member);
}

static uint64_t count_chunks_from(const struct wring_collective *collective, uint32_t member)
{
    return wring_partition_chunks(&collective->work.partition, result_shard_of(collective, member));
}

static uint64_t count_shard_chunks(const struct wring_collective *collective, uint32_t member)
{
    return wring_partition_chunks(&collective->work.partition, shard_of(collective, member));
}

/** The channel in which contributions come. */
static struct wring_channel *contributions_channel(const struct wring_collective *collective)
{
    return collective->work.to_all ? collective->gather : collective->scatter;
}

/** Do we decode our own contribution as well, so that all ranks end with the same bits? */
static bool decodes_own(const struct wring_collective *collective)
{
    return collective->work.to_all && collective->work.codec != NULL;
}

/** How many chunks of our own contribution are copied into the result. */
static uint64_t count_own_copies(const struct wring_collective *collective)
{
    uint32_t me = collective->members.me;

    if (!is_contributor(collective, me) || !is_receiver(collective, me) || decodes_own(collective))
        return 0;
    bool there = wring_collective_in(collective, shard_of(collective, me)) ==
                 wring_collective_out(collective, result_shard_of(collective, me));
    return there ? 0 : count_shard_chunks(collective, me);
}

static void allgather_alltoall_start(struct wring_collective *collective)
{
    for (uint32_t i = 0; i < collective->members.n; i++) {
        collective->sent[i] = collective->decoded[i] = 0;
        if (is_placed(collective) && i != collective->members.me)
            collective->arrivals[i] += (uint32_t)count_shard_chunks(collective, i);
    }
}

static bool send_to_all(struct wring_collective *collective)
{
    uint32_t me = collective->members.me;
    struct wring_task *task = wring_collective_send_next(
        collective, WRING_EVERYBODY, shard_of(collective, me), count_shard_chunks(collective, me));
    if (task == NULL)
        return false;
    task->held = decodes_own(collective);
    return true;
}

/** One chunk for each member in turn, beginning after us, so that no rank is flooded. */
static bool send_to_each(struct wring_collective *collective)
{
    bool any = false;
    for (uint32_t d = 1; d < collective->members.n; d++) {
        uint32_t member = (collective->members.me + d) % collective->members.n;
        if (is_receiver(collective, member))
            any |= wring_collective_send_next(collective, member, shard_of(collective, member),
                                              count_shard_chunks(collective, member)) != NULL;
    }
    return any;
}

static bool send_next_chunk(struct wring_collective *collective)
{
    if (!is_contributor(collective, collective->members.me))
        return false;
    return collective->work.to_all ? send_to_all(collective) : send_to_each(collective);
}

static bool copy_own(struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    uint32_t me = collective->members.me;

    if (collective->decoded[me] == count_own_copies(collective))
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_DECODE);
    if (task == NULL)
        return false;
    uint64_t chunk = collective->decoded[me]++;
    struct wring_span span = wring_partition_chunk(partition, shard_of(collective, me), chunk);
    struct wring_source own = wring_collective_own(collective, span);
    struct wring_codec_context context = wring_collective_context(collective, span, 0);
    task->member = me;
    wring_collective_take(task,
                          wring_partition_chunk(partition, result_shard_of(collective, me), chunk),
                          own, context);
    return true;
}

/** An alltoall of runs of any lengths: only the sizes of pieces tell that two members do not mean
 * the same. @return whether the member's next piece, if there is one, is what we expect */
static bool check_next_piece(struct wring_collective *collective, uint32_t member)
{
    const struct wring_partition *partition = &collective->work.partition;
    struct wring_fabric *fabric = collective->engine->fabric;
    uint32_t from = collective->members.ranks[member];
    size_t bytes;

    if (!partition->told || collective->decoded[member] == count_chunks_from(collective, member) ||
        wring_channel_peek(collective->scatter, member, &bytes) == NULL)
        return true;
    struct wring_span span = wring_partition_chunk(partition, result_shard_of(collective, member),
                                                   collective->decoded[member]);
    size_t expected = wring_partition_bytes(partition, span);
    if (bytes != expected)
        wring_fabric_fail(
            fabric, WRING_ERR_MISMATCH, -1,
            "rank %" PRIu32 " sends rank %" PRIu32 " a piece of %zu bytes in an "
            "alltoallv, where that one expects %zu: in_elems of one for the other are "
            "the other's out_elems for it",
            from, fabric->rank, bytes, expected);
    return bytes == expected;
}

static bool take_next_pieces(struct wring_collective *collective)
{
    bool any = false;
    if (is_placed(collective) || !is_receiver(collective, collective->members.me))
        return false;
    for (uint32_t i = 0; i < collective->members.n; i++) {
        struct wring_span shard = result_shard_of(collective, i);
        if (i == collective->members.me || !is_contributor(collective, i))
            continue;
        if (!check_next_piece(collective, i))
            return false;
        struct wring_span from =
            collective->work.to_all ? shard : shard_of(collective, collective->members.me);
        any |= wring_collective_take_next(collective, contributions_channel(collective), i, shard,
                                          from, 0);
    }
    return any;
}

static bool allgather_alltoall_owes(const struct wring_collective *collective, uint32_t member)
{
    uint32_t me = collective->members.me, to = collective->work.to_all ? me : member;
    return is_contributor(collective, me) && is_receiver(collective, member) &&
           collective->sent[to] < count_shard_chunks(collective, to);
}

static bool lacks_contribution(const struct wring_collective *collective, uint32_t member)
{
    if (is_placed(collective))
        return collective->gather->in[member].arrivals != collective->arrivals[member];
    return is_contributor(collective, member) && is_receiver(collective, collective->members.me) &&
           collective->decoded[member] < count_chunks_from(collective, member);
}

static bool is_complete(const struct wring_collective *collective)
{
    uint32_t me = collective->members.me;
    if (collective->busy > 0 || collective->decoded[me] < count_own_copies(collective))
        return false;
    for (uint32_t i = 0; i < collective->members.n; i++)
        if (i != me &&
            (allgather_alltoall_owes(collective, i) || lacks_contribution(collective, i)))
            return false;
    return true;
}

static void allgather_alltoall_advance(struct wring_collective *collective)
{
    bool any = true;
    while (any && !wring_engine_turn_is_over(collective->engine)) {
        any = take_next_pieces(collective);
        any |= send_next_chunk(collective);
        any |= wring_collective_send(collective);
        any |= copy_own(collective);
    }
    collective->runnable |= any;
    if (is_complete(collective))
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

/** Our piece is encoded: it goes out, and meanwhile we decode it ourselves. */
static void on_encoded(struct wring_collective *collective, struct wring_task *task)
{
    wring_collective_ready(task, task->slot, task->job.result.code_bytes);
    struct wring_source code = wring_collective_piece(task, collective->work.codec);
    if (task->held)
        wring_collective_take(task, task->span, code,
                              wring_collective_context(collective, task->span, 0));
}

static void allgather_alltoall_job_done(struct wring_collective *collective,
                                        struct wring_task *task)
{
    if (task->kind == WRING_TASK_SEND && task->job.kind == WRING_JOB_ENCODE) {
        on_encoded(collective, task);
        return;
    }
    if (task->kind == WRING_TASK_SEND) {
        wring_collective_let_go(task);
        return;
    }
    if (task->member != collective->members.me)
        wring_channel_release(contributions_channel(collective), task->member,
                              task->taken[task->member]);
    wring_collective_free_task(task);
}

static bool allgather_alltoall_awaits(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;
    return lacks_contribution(collective, member) &&
           (is_placed(collective) ||
            wring_channel_peek(contributions_channel(collective), member, &bytes) == NULL);
}

const struct wring_collective_ops wring_allgather_alltoall = {
    .name = "alltoall",
    .start = allgather_alltoall_start,
    .advance = allgather_alltoall_advance,
    .job_done = allgather_alltoall_job_done,
    .owes = allgather_alltoall_owes,
    .awaits = allgather_alltoall_awaits,
};
