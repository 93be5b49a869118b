/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw broadcast by a binomial tree. Counted from the root, member v gets each chunk from the
 * member without v's lowest bit, and passes it on to all v + 2^k below that bit, the largest
 * subtree first. Chunks follow one another down the tree.
 */
#include <inttypes.h>
#include <string.h>

#include "transport/collective/collective.h"

/** Counted from the root. */
static uint32_t place_of(const struct wring_collective *collective, uint32_t member)
{
    uint32_t n = collective->members.n;
    return (member + n - collective->work.root) % n;
}

static bool is_root(const struct wring_collective *collective)
{
    return collective->members.me == collective->work.root;
}

/** @return the root's own parent is itself */
static uint32_t parent_of(const struct wring_collective *collective)
{
    uint32_t v = place_of(collective, collective->members.me), n = collective->members.n;
    return ((v & (v - 1)) + collective->work.root) % n;
}

static bool is_child(const struct wring_collective *collective, uint32_t member)
{
    uint32_t v = place_of(collective, member), me = collective->members.me;
    return member != me && v != 0 && (v & (v - 1)) == place_of(collective, me);
}

static struct wring_span whole_span(const struct wring_collective *collective)
{
    return (struct wring_span){0, collective->work.partition.elems};
}

static uint64_t count_chunks(const struct wring_collective *collective)
{
    return wring_partition_chunks(&collective->work.partition, whole_span(collective));
}

/** Chunks that are here, and can be passed on. */
static uint64_t count_here(const struct wring_collective *collective)
{
    return is_root(collective) ? count_chunks(collective) : collective->decoded[0];
}

static void tree_start(struct wring_collective *collective)
{
    uint64_t bytes = wring_partition_bytes(&collective->work.partition, whole_span(collective));

    memset(collective->sent, 0, collective->members.n * sizeof(*collective->sent));
    collective->decoded[0] = 0;
    if (is_root(collective) && collective->work.out != collective->work.in && bytes > 0)
        memcpy(collective->work.out, collective->work.in, bytes);
}

static bool take_next(struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    uint32_t parent = parent_of(collective);
    size_t bytes;

    if (count_here(collective) == count_chunks(collective))
        return false;
    const void *piece = wring_channel_peek(collective->scatter, parent, &bytes);
    if (piece == NULL)
        return false;
    struct wring_span span =
        wring_partition_chunk(partition, whole_span(collective), collective->decoded[0]);
    if (bytes != wring_partition_bytes(partition, span)) {
        uint32_t rank = collective->members.ranks[parent];
        wring_fabric_fail(collective->engine->fabric, WRING_ERR_MISMATCH, (int32_t)rank,
                          "rank %" PRIu32 " sent a piece that has another size than here: do all "
                          "ranks pass the same count, type and codec?",
                          rank);
        return false;
    }
    memcpy(wring_collective_out(collective, span), piece, bytes);
    wring_channel_release(collective->scatter, parent,
                          wring_channel_take(collective->scatter, parent));
    collective->engine->computed += bytes;
    collective->decoded[0]++;
    return true;
}

static bool send_next_to(struct wring_collective *collective, uint32_t member)
{
    const struct wring_partition *partition = &collective->work.partition;

    if (collective->sent[member] == count_here(collective) ||
        !wring_channel_has_credit(collective->scatter, member))
        return false;
    struct wring_task *task = wring_collective_task(
        collective, is_root(collective) ? WRING_TASK_SEND : WRING_TASK_REDUCE);
    if (task == NULL)
        return false;
    task->member = member;
    task->chunk = collective->sent[member]++;
    task->span = wring_partition_chunk(partition, whole_span(collective), task->chunk);
    task->sequence = wring_channel_reserve(collective->scatter, member);
    wring_collective_ready(task,
                           is_root(collective) ? wring_collective_in(collective, task->span)
                                               : wring_collective_out(collective, task->span),
                           wring_partition_bytes(partition, task->span));
    return true;
}

/** The k-th child, the largest subtree first; members.n: there is none. */
static uint32_t next_child(const struct wring_collective *collective, uint32_t *bit)
{
    uint32_t n = collective->members.n, v = place_of(collective, collective->members.me);

    while (*bit > 0) {
        uint32_t child = v | *bit;
        *bit /= 2;
        if (child < n && child != v)
            return (child + collective->work.root) % n;
    }
    return n;
}

/** The highest bit that a child may have besides ours. */
static uint32_t first_bit(const struct wring_collective *collective)
{
    uint32_t v = place_of(collective, collective->members.me);
    return v == 0 ? 1u << (31 - (uint32_t)__builtin_clz(collective->members.n)) : (v & -v) / 2;
}

static bool send_to_children(struct wring_collective *collective)
{
    uint32_t n = collective->members.n, bit = first_bit(collective);
    bool any = false;

    for (uint32_t child = next_child(collective, &bit); child < n;
         child = next_child(collective, &bit))
        any |= send_next_to(collective, child);
    return any;
}

static bool is_complete(const struct wring_collective *collective)
{
    uint64_t chunks = count_chunks(collective);
    uint32_t n = collective->members.n, bit = first_bit(collective);

    if (collective->busy > 0 || count_here(collective) < chunks)
        return false;
    for (uint32_t child = next_child(collective, &bit); child < n;
         child = next_child(collective, &bit))
        if (collective->sent[child] < chunks)
            return false;
    return true;
}

static void tree_advance(struct wring_collective *collective)
{
    bool any = true;
    while (any && !wring_engine_turn_is_over(collective->engine)) {
        any = take_next(collective);
        any |= send_to_children(collective);
        any |= wring_collective_send(collective);
    }
    collective->runnable |= any;
    if (is_complete(collective))
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

/** No job of ours goes to an executor. */
static void tree_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective, (void)task;
}

static bool tree_owes(const struct wring_collective *collective, uint32_t member)
{
    return is_child(collective, member) && collective->sent[member] < count_chunks(collective);
}

static bool tree_awaits(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;
    return count_here(collective) < count_chunks(collective) && member == parent_of(collective) &&
           wring_channel_peek(collective->scatter, member, &bytes) == NULL;
}

const struct wring_collective_ops wring_broadcast_tree = {
    .name = "tree",
    .start = tree_start,
    .advance = tree_advance,
    .job_done = tree_job_done,
    .owes = tree_owes,
    .awaits = tree_awaits,
};
