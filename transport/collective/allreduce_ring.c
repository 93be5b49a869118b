/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allreduce around a ring of its n members: each sends to the next one alone. The elements are
 * cut into n blocks, and member r owns block r. In turn t, from 0 to 2n - 3, member r sends block
 * r - 1 - t, all numbers modulo n:
 *
 *     turn 0               its own contribution
 *     turns 1 to n - 2     the partial sum that it got in the turn before, its own contribution
 *                          added: s[b + 1] + … + s[r] of block b
 *     turns n - 1 and on   sums: first that of its own block, then those that it gets
 *
 * So block b is ((s[b + 1] + s[b + 2]) + …) + s[b]. A block goes in pieces, all blocks in as many.
 * What a piece of one turn becomes is a piece of the next one, in the same order: it goes on as
 * soon as it has come, whatever the others do. Contributions and sums travel as they are, partial
 * sums of 16-bit floats in float32.
 */
#include <inttypes.h>
#include <string.h>

#include "base/fpenv.h"
#include "compress/reduce.h"
#include "transport/collective/collective.h"

#define BLOCK_PIECES 4          /* of a block: enough to overlap what comes, is added and goes */
#define PIECE_LEAST (16u << 10) /* bytes; shorter ones cost more than they overlap */

/** A piece of a block in one turn. */
struct passing {
    uint32_t turn, block;
    struct wring_span span;
};

void wring_ring_cut(struct wring_partition *partition)
{
    struct wring_span largest = wring_partition_shard(partition, 0);
    uint64_t least = PIECE_LEAST / partition->elem_bytes;
    uint64_t elems = (largest.end - largest.begin) / BLOCK_PIECES;

    elems = (elems > least ? elems : least) / partition->grain * partition->grain;
    if (elems < partition->chunk_elems)
        partition->chunk_elems = elems;
}

static bool widens(const struct wring_collective *collective)
{
    return wring_algorithm_widens(collective->work.dtype, collective->work.op);
}

static uint64_t count_grains(const struct wring_partition *partition, struct wring_span span)
{
    return (span.end - span.begin + partition->grain - 1) / partition->grain;
}

/** Pieces of each block: as few as the largest one needs. */
static uint32_t count_pieces(const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    uint64_t grains = count_grains(partition, wring_partition_shard(partition, 0));
    uint64_t most = partition->chunk_elems / partition->grain;

    if (widens(collective))
        most = most * partition->elem_bytes / sizeof(float);
    most = most > 0 ? most : 1;
    return (uint32_t)((grains + most - 1) / most);
}

static uint32_t count_turns(const struct wring_collective *collective)
{
    return 2 * (collective->members.n - 1);
}

/** Pieces that a member sends, and that it receives. */
static uint64_t count_passings(const struct wring_collective *collective)
{
    return (uint64_t)count_turns(collective) * count_pieces(collective);
}

static uint32_t next_member(const struct wring_collective *collective)
{
    return (collective->members.me + 1) % collective->members.n;
}

static uint32_t previous_member(const struct wring_collective *collective)
{
    return (collective->members.me + collective->members.n - 1) % collective->members.n;
}

/** The k-th piece that a member sends. */
static struct passing passing_of(const struct wring_collective *collective, uint32_t member,
                                 uint64_t k)
{
    const struct wring_partition *whole = &collective->work.partition;
    uint32_t n = collective->members.n, pieces = count_pieces(collective);
    uint32_t turn = (uint32_t)(k / pieces), block = (member + 2 * n - 1 - turn) % n;
    struct wring_span span = wring_partition_shard(whole, block);
    struct wring_partition cut = {
        .elems = span.end - span.begin, .grain = whole->grain, .shards = pieces};
    struct wring_span piece = wring_partition_shard(&cut, (uint32_t)(k % pieces));

    return (struct passing){turn, block, {span.begin + piece.begin, span.begin + piece.end}};
}

static bool is_sum(const struct wring_collective *collective, uint32_t turn)
{
    return turn + 1 >= collective->members.n;
}

static bool is_partial(const struct wring_collective *collective, uint32_t turn)
{
    return turn > 0 && !is_sum(collective, turn);
}

/** Does it go straight into the next member's data? That needs what lies there no longer: it has
 *  sent it, or there would be no sum. */
static bool is_placed(const struct wring_collective *collective, uint32_t turn)
{
    return wring_algorithm_is_placed(collective->work.algorithm) && is_sum(collective, turn);
}

static size_t passing_bytes(const struct wring_collective *collective,
                            const struct passing *passing)
{
    bool wide = is_partial(collective, passing->turn) && widens(collective);
    size_t elem_bytes = wide ? sizeof(float) : collective->work.partition.elem_bytes;

    return (size_t)(passing->span.end - passing->span.begin) * elem_bytes;
}

/** Where partial sums are made. */
static void *partial_at(const struct wring_collective *collective, struct wring_span span)
{
    if (!widens(collective))
        return wring_collective_out(collective, span);
    return (float *)collective->work.scratch + span.begin;
}

struct wring_collective_traffic wring_ring_traffic(const struct wring_collective *collective)
{
    return (struct wring_collective_traffic){.partners = collective->members.n > 2 ? 2 : 1,
                                             .messages = count_passings(collective)};
}

/* The state: how many pieces have been begun, and how many taken. */

static uint64_t *sent(const struct wring_collective *collective)
{
    return &collective->sent[collective->members.me];
}

static uint64_t *taken(const struct wring_collective *collective)
{
    return &collective->decoded[collective->members.me];
}

/** Those of turn 0, and what has come for the others. */
static uint64_t count_ready(const struct wring_collective *collective)
{
    uint64_t ready = count_pieces(collective) + *taken(collective);
    uint64_t all = count_passings(collective);
    return ready < all ? ready : all;
}

static uint32_t count_placed(const struct wring_collective *collective)
{
    return wring_algorithm_is_placed(collective->work.algorithm)
               ? (collective->members.n - 1) * count_pieces(collective)
               : 0;
}

static void ring_start(struct wring_collective *collective)
{
    *sent(collective) = *taken(collective) = 0;
    collective->arrivals[previous_member(collective)] += count_placed(collective);
}

/** Has a piece to wait until the provider takes it? The next ones stay behind it: of sums that go
 *  straight into its data the receiver can only count how many have come. */
static bool is_held_up(const struct wring_collective *collective)
{
    for (uint32_t i = 0; i < collective->send_tasks + collective->reduce_tasks; i++)
        if (collective->tasks[i].state == WRING_TASK_SENDING && collective->tasks[i].puts_left > 0)
            return true;
    return false;
}

static bool send_next(struct wring_collective *collective)
{
    struct wring_channel *channel = collective->scatter;
    uint32_t next = next_member(collective);

    if (*sent(collective) == count_ready(collective) || is_held_up(collective))
        return false;
    struct passing passing = passing_of(collective, collective->members.me, *sent(collective));
    bool placed = is_placed(collective, passing.turn), sum = is_sum(collective, passing.turn);
    if (!placed && !wring_channel_has_credit(channel, next))
        return false;
    struct wring_task *task =
        wring_collective_task(collective, passing.turn == 0 ? WRING_TASK_SEND : WRING_TASK_REDUCE);
    if (task == NULL)
        return false;

    const void *data = passing.turn == 0 ? wring_collective_in(collective, passing.span)
                       : sum             ? wring_collective_out(collective, passing.span)
                                         : partial_at(collective, passing.span);
    task->member = next;
    task->chunk = (*sent(collective))++;
    task->span = passing.span;
    task->in_place = placed;
    if (!placed)
        task->sequence = wring_channel_reserve(channel, next);
    wring_collective_ready(task, data, passing_bytes(collective, &passing));
    return true;
}

static struct wring_tree find_tree(const struct wring_collective *collective)
{
    enum wring_cpu_tier tier = wring_cpu_best();
    wring_cpu_tier_parse(collective->engine->config->cpu, &tier);
    return wring_tree_find(collective->work.dtype, collective->work.op, tier);
}

/** The sum so far, and then our own. With it that of our own block is complete. */
static void add_own(struct wring_collective *collective, const struct passing *passing,
                    const void *piece)
{
    uint64_t elems = passing->span.end - passing->span.begin;
    struct wring_tree tree = find_tree(collective);
    struct wring_tree_run so_far = {piece, is_partial(collective, passing->turn)};
    struct wring_tree_run own = {wring_collective_in(collective, passing->span), false};
    bool last = passing->block == collective->members.me;
    float divisor = last ? wring_collective_divisor(collective) : 1;
    void *to = partial_at(collective, passing->span);
    uint64_t saved = wring_fp_enter();

    wring_tree_step(&tree, to, so_far, own, elems, tree.narrow == NULL ? divisor : 1);
    if (last && tree.narrow != NULL)
        tree.narrow(wring_collective_out(collective, passing->span), to, elems, divisor);
    wring_fp_leave(saved);
}

/** @return whether it is as long as it should be; else the job fails */
static bool check_piece(struct wring_collective *collective, const struct passing *passing,
                        size_t bytes)
{
    uint32_t rank = collective->members.ranks[previous_member(collective)];

    if (bytes == passing_bytes(collective, passing))
        return true;
    wring_fabric_fail(collective->engine->fabric, WRING_ERR_MISMATCH, (int32_t)rank,
                      "rank %" PRIu32 " sent a piece that has another size than here: do all ranks "
                      "pass the same count, type and codec?",
                      rank);
    return false;
}

/** Is the next piece here? */
static bool has_come(const struct wring_collective *collective)
{
    uint32_t previous = previous_member(collective);
    uint64_t k = *taken(collective), left = count_passings(collective) - k;
    size_t bytes;

    if (is_placed(collective, (uint32_t)(k / count_pieces(collective)))) /* the last ones */
        return (uint32_t)(collective->arrivals[previous] -
                          collective->gather->in[previous].arrivals) < left;
    return wring_channel_peek(collective->scatter, previous, &bytes) != NULL;
}

static bool take_next(struct wring_collective *collective)
{
    struct wring_channel *channel = collective->scatter;
    uint32_t previous = previous_member(collective);
    size_t bytes;

    if (*taken(collective) == count_passings(collective) || !has_come(collective))
        return false;
    struct passing passing = passing_of(collective, previous, *taken(collective));
    if (!is_placed(collective, passing.turn)) {
        const void *piece = wring_channel_peek(channel, previous, &bytes);
        if (!check_piece(collective, &passing, bytes))
            return false;
        if (is_sum(collective, passing.turn))
            memcpy(wring_collective_out(collective, passing.span), piece, bytes);
        else
            add_own(collective, &passing, piece);
        wring_channel_release(channel, previous, wring_channel_take(channel, previous));
        collective->engine->computed += passing.span.end - passing.span.begin;
    }
    ++*taken(collective);
    return true;
}

static bool is_complete(const struct wring_collective *collective)
{
    uint64_t all = count_passings(collective);
    return collective->busy == 0 && *sent(collective) == all && *taken(collective) == all;
}

static void ring_advance(struct wring_collective *collective)
{
    bool any = true;
    while (any && !wring_engine_turn_is_over(collective->engine)) {
        any = send_next(collective);
        if (collective->busy > 0)
            any |= wring_collective_send(collective);
        any |= take_next(collective);
    }
    collective->runnable |= any;
    if (is_complete(collective))
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

/** No job of ours goes to an executor. */
static void ring_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective, (void)task;
}

static bool ring_owes(const struct wring_collective *collective, uint32_t member)
{
    return member == next_member(collective) && *sent(collective) < count_passings(collective);
}

static bool ring_awaits(const struct wring_collective *collective, uint32_t member)
{
    return member == previous_member(collective) &&
           *taken(collective) < count_passings(collective) && !has_come(collective);
}

const struct wring_collective_ops wring_allreduce_ring = {
    .name = "ring",
    .start = ring_start,
    .advance = ring_advance,
    .job_done = ring_job_done,
    .owes = ring_owes,
    .awaits = ring_awaits,
};
