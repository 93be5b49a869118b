/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small raw pieces of more than eight members, which travel together and through other members: a
 * member sends no more messages than log2 of the members' number. Each member's piece is a block in
 * memory of the call's own. Blocks are counted from a first member: from the root, or from oneself.
 *
 *     gather     by a binomial tree. Member v gets the blocks v + 2^k to v + 2^(k+1) - 1 from
 *                member v + 2^k, for each 2^k below v's lowest bit, and sends all of them to the
 *                member without that bit
 *     scatter    the same backwards, the largest subtree first
 *     allgather  after Bruck and others. At step k member m has the blocks of 2^k members from
 *                itself on, gets as many from member m + 2^k, and sends its own to member m - 2^k
 *     alltoall   likewise. Block j is what goes to member m + j. At step k all blocks whose number
 *                has bit k go to member m + 2^k, so that each has gone j members far at last
 *
 * Source: J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for
 * all-to-all communications in multiport message-passing systems, IEEE TPDS 8 (1997).
 */
#include <inttypes.h>
#include <string.h>

#include "transport/collective/collective.h"

/** Blocks [begin, end); with a bit only those whose number has it. */
struct blocks {
    uint32_t begin, end, bit;
};

/** What this member exchanges at a time. */
struct exchange {
    bool sends, receives;
    uint32_t to, from;
    struct blocks send, receive;
};

static bool is(const struct wring_collective *collective, enum wring_algorithm algorithm)
{
    return collective->work.algorithm == algorithm;
}

static bool is_rooted(const struct wring_collective *collective)
{
    return is(collective, WRING_GATHER_TREE) || is(collective, WRING_SCATTER_TREE);
}

/** The member that blocks are counted from: the root, or oneself. */
static uint32_t block_origin(const struct wring_collective *collective)
{
    return is_rooted(collective) ? collective->work.root : collective->members.me;
}

/** The member that comes so many after the origin. */
static uint32_t member_at(const struct wring_collective *collective, uint32_t place)
{
    return (uint32_t)(((uint64_t)block_origin(collective) + place) % collective->members.n);
}

/** How many after the root we come. */
static uint32_t own_place(const struct wring_collective *collective)
{
    const struct wring_members *members = &collective->members;
    return (members->me + members->n - collective->work.root) % members->n;
}

static size_t block_bytes(const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    return (size_t)partition->elems * partition->elem_bytes;
}

static uint8_t *block_at(const struct wring_collective *collective, uint32_t block)
{
    return (uint8_t *)collective->work.scratch + block * block_bytes(collective);
}

size_t wring_relay_scratch_bytes(const struct wring_work *work, uint32_t members)
{
    size_t all = (size_t)work->partition.elems * work->partition.elem_bytes * members;

    switch (work->algorithm) {
    case WRING_GATHER_TREE:
    case WRING_SCATTER_TREE:
    case WRING_ALLGATHER_BRUCK:
        return all;
    case WRING_ALLTOALL_BRUCK: /* blocks that go together do not lie together */
        return 2 * all;
    default:
        return 0;
    }
}

/* ---- exchanges ---- */

/** Members whose subtrees hang from ours. */
static uint32_t count_children(const struct wring_collective *collective)
{
    uint32_t v = own_place(collective), n = collective->members.n, children = 0;

    for (uint32_t bit = 1; bit < n - v && (v & bit) == 0; bit *= 2)
        children++;
    return children;
}

/** Steps of an exchange of all with all. */
static uint32_t count_steps(const struct wring_collective *collective)
{
    return 32 - (uint32_t)__builtin_clz(collective->members.n - 1);
}

static uint32_t count_exchanges(const struct wring_collective *collective)
{
    if (block_bytes(collective) == 0)
        return 0;
    return is_rooted(collective) ? count_children(collective) + (own_place(collective) != 0)
                                 : count_steps(collective);
}

/** The subtree of the member in that place, whose lowest bit this is. */
static struct blocks subtree(const struct wring_collective *collective, uint32_t place,
                             uint32_t bit)
{
    uint32_t n = collective->members.n;
    return (struct blocks){place, bit < n - place ? place + bit : n, 0};
}

static struct exchange with_parent(const struct wring_collective *collective)
{
    uint32_t v = own_place(collective), parent = member_at(collective, v & (v - 1));
    struct blocks ours = subtree(collective, v, v & -v);

    return is(collective, WRING_GATHER_TREE)
               ? (struct exchange){.sends = true, .to = parent, .send = ours}
               : (struct exchange){.receives = true, .from = parent, .receive = ours};
}

static struct exchange with_child(const struct wring_collective *collective, uint32_t k)
{
    uint32_t place = own_place(collective) + (1u << k), child = member_at(collective, place);
    struct blocks theirs = subtree(collective, place, 1u << k);

    return is(collective, WRING_GATHER_TREE)
               ? (struct exchange){.receives = true, .from = child, .receive = theirs}
               : (struct exchange){.sends = true, .to = child, .send = theirs};
}

static struct exchange in_allgather(const struct wring_collective *collective, uint32_t k)
{
    uint32_t n = collective->members.n, far = 1u << k;
    uint32_t count = far < n - far ? far : n - far;

    return (struct exchange){.sends = true,
                             .receives = true,
                             .to = member_at(collective, n - far),
                             .from = member_at(collective, far),
                             .send = {0, count, 0},
                             .receive = {far, far + count, 0}};
}

static struct exchange in_alltoall(const struct wring_collective *collective, uint32_t k)
{
    uint32_t n = collective->members.n, far = 1u << k;

    return (struct exchange){.sends = true,
                             .receives = true,
                             .to = member_at(collective, far),
                             .from = member_at(collective, n - far),
                             .send = {far, n, far},
                             .receive = {far, n, far}};
}

/** @param k  below count_exchanges() */
static struct exchange exchange_at(const struct wring_collective *collective, uint32_t k)
{
    uint32_t children = count_children(collective);

    switch (collective->work.algorithm) {
    case WRING_GATHER_TREE:
        return k < children ? with_child(collective, k) : with_parent(collective);
    case WRING_SCATTER_TREE:
        if (own_place(collective) != 0 && k == 0)
            return with_parent(collective);
        return with_child(collective, children - 1 - (k - (own_place(collective) != 0)));
    case WRING_ALLGATHER_BRUCK:
        return in_allgather(collective, k);
    default:
        return in_alltoall(collective, k);
    }
}

/* ---- blocks ---- */

static bool is_among(const struct blocks *blocks, uint32_t block)
{
    return blocks->bit == 0 || block & blocks->bit;
}

static size_t bytes_of(const struct wring_collective *collective, const struct blocks *blocks)
{
    size_t n = 0;
    for (uint32_t block = blocks->begin; block < blocks->end; block++)
        n += is_among(blocks, block);
    return n * block_bytes(collective);
}

/** The blocks one after the other: where they lie, or a copy. */
static const uint8_t *pack(const struct wring_collective *collective, const struct blocks *blocks)
{
    size_t bytes = block_bytes(collective);
    uint8_t *packed = block_at(collective, collective->members.n), *to = packed;

    if (blocks->bit == 0)
        return block_at(collective, blocks->begin);
    for (uint32_t block = blocks->begin; block < blocks->end; block++)
        if (is_among(blocks, block)) {
            memcpy(to, block_at(collective, block), bytes);
            to += bytes;
        }
    return packed;
}

static void unpack(const struct wring_collective *collective, const struct blocks *blocks,
                   const uint8_t *from)
{
    size_t bytes = block_bytes(collective);

    for (uint32_t block = blocks->begin; block < blocks->end; block++)
        if (is_among(blocks, block)) {
            memcpy(block_at(collective, block), from, bytes);
            from += bytes;
        }
}

/** Does `in` have a run for each member? Else it is one run, if it is there. */
static bool contributes_all(const struct wring_collective *collective)
{
    return is(collective, WRING_ALLTOALL_BRUCK) ||
           (is(collective, WRING_SCATTER_TREE) && own_place(collective) == 0);
}

/** Copy our contribution into its blocks. */
static void load(const struct wring_collective *collective)
{
    const uint8_t *in = collective->work.in;
    size_t bytes = block_bytes(collective);

    for (uint32_t i = 0; contributes_all(collective) && i < collective->members.n; i++)
        memcpy(block_at(collective, i), in + member_at(collective, i) * bytes, bytes);
    if (!contributes_all(collective) && !is(collective, WRING_SCATTER_TREE))
        memcpy(block_at(collective, is_rooted(collective) ? own_place(collective) : 0), in, bytes);
}

/** Which member's run of `out` a block becomes. */
static uint32_t run_of(const struct wring_collective *collective, uint32_t block)
{
    return is(collective, WRING_ALLTOALL_BRUCK)
               ? member_at(collective, collective->members.n - block)
               : member_at(collective, block);
}

/** Put what has come to where it belongs. */
static void store(const struct wring_collective *collective)
{
    uint8_t *out = collective->work.out;
    size_t bytes = block_bytes(collective);

    if (is(collective, WRING_SCATTER_TREE)) {
        memcpy(out, block_at(collective, own_place(collective)), bytes);
        return;
    }
    for (uint32_t i = 0; wring_collective_ends_here(collective) && i < collective->members.n; i++)
        memcpy(out + run_of(collective, i) * bytes, block_at(collective, i), bytes);
}

/* The state: which exchange is under way, and whether its piece has been begun, and taken. */

static uint64_t *begun(const struct wring_collective *collective)
{
    return &collective->sent[collective->members.me];
}

static uint64_t *taken(const struct wring_collective *collective)
{
    return &collective->decoded[collective->members.me];
}

static bool is_over(const struct wring_collective *collective)
{
    return collective->reduced == count_exchanges(collective);
}

static void relay_start(struct wring_collective *collective)
{
    collective->reduced = 0;
    *begun(collective) = *taken(collective) = 0;
    if (block_bytes(collective) > 0)
        load(collective);
}

static bool send_piece(struct wring_collective *collective, const struct exchange *exchange)
{
    if (!exchange->sends || *begun(collective) > 0 ||
        !wring_channel_has_credit(collective->scatter, exchange->to))
        return false;
    struct wring_task *task = wring_collective_task(collective, WRING_TASK_SEND);
    if (task == NULL)
        return false;
    task->member = exchange->to;
    task->chunk = (*begun(collective))++;
    task->span = (struct wring_span){0, 0};
    task->sequence = wring_channel_reserve(collective->scatter, exchange->to);
    wring_collective_ready(task, pack(collective, &exchange->send),
                           bytes_of(collective, &exchange->send));
    return true;
}

/** What comes may overwrite blocks that go: ours is packed before it is taken. */
static bool take_piece(struct wring_collective *collective, const struct exchange *exchange)
{
    struct wring_channel *channel = collective->scatter;
    uint32_t member = exchange->from;
    size_t bytes;

    if (!exchange->receives || *taken(collective) > 0 ||
        (exchange->sends && *begun(collective) == 0))
        return false;
    const void *piece = wring_channel_peek(channel, member, &bytes);
    if (piece == NULL)
        return false;
    if (bytes != bytes_of(collective, &exchange->receive)) {
        uint32_t rank = collective->members.ranks[member];
        wring_fabric_fail(collective->engine->fabric, WRING_ERR_MISMATCH, (int32_t)rank,
                          "rank %" PRIu32 " sent a piece that has another size than here: do all "
                          "ranks pass the same count, type and codec?",
                          rank);
        return false;
    }
    unpack(collective, &exchange->receive, piece);
    wring_channel_release(channel, member, wring_channel_take(channel, member));
    ++*taken(collective);
    return true;
}

/** What is sent lies still until it has gone. */
static bool go_on(struct wring_collective *collective, const struct exchange *exchange)
{
    if (collective->busy > 0 || *begun(collective) < exchange->sends ||
        *taken(collective) < exchange->receives)
        return false;
    collective->reduced++;
    *begun(collective) = *taken(collective) = 0;
    return true;
}

static void relay_advance(struct wring_collective *collective)
{
    bool any = true;
    while (any && !is_over(collective) && !wring_engine_turn_is_over(collective->engine)) {
        struct exchange exchange = exchange_at(collective, (uint32_t)collective->reduced);
        any = send_piece(collective, &exchange);
        if (collective->busy > 0)
            any |= wring_collective_send(collective);
        any |= take_piece(collective, &exchange);
        any |= go_on(collective, &exchange);
    }
    collective->runnable |= any;
    if (!is_over(collective))
        return;
    if (block_bytes(collective) > 0)
        store(collective);
    wring_engine_finish(collective->engine, collective, WRING_OK);
}

/** No job of ours goes to an executor. */
static void relay_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective, (void)task;
}

static bool relay_owes(const struct wring_collective *collective, uint32_t member)
{
    for (uint32_t k = (uint32_t)collective->reduced; k < count_exchanges(collective); k++) {
        struct exchange exchange = exchange_at(collective, k);
        uint64_t gone = k == collective->reduced ? *begun(collective) : 0;
        if (exchange.sends && exchange.to == member && gone == 0)
            return true;
    }
    return false;
}

/** Of the exchange under way alone: what comes later does not hold us up. */
static bool relay_awaits(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;

    if (is_over(collective))
        return false;
    struct exchange exchange = exchange_at(collective, (uint32_t)collective->reduced);
    return exchange.receives && exchange.from == member && *taken(collective) == 0 &&
           wring_channel_peek(collective->scatter, member, &bytes) == NULL;
}

const struct wring_collective_ops wring_relay = {
    .name = "relay",
    .start = relay_start,
    .advance = relay_advance,
    .job_done = relay_job_done,
    .owes = relay_owes,
    .awaits = relay_awaits,
};
