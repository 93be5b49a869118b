/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allreduce, a barrier or a reduce of more than eight members by exchanges of two members each,
 * as many as log2 of their number and a few. With p the largest power of two that is not more than
 * n:
 *
 *     fold     member p + i sends all it has to member i
 *     sums     at level l = 0, 1, … members i < p and i ^ 2^l exchange partial sums: all of them
 *              (doubling), or each the half that the other one goes on with (halving)
 *     gather   halving: the same pairs, the last ones first, exchange the sums that they have
 *     result   member i sends it to member p + i
 *
 * These are the steps of the tree that compress/reduce.h walks, so the bits are those of the other
 * algorithms. Contributions and results travel as they are, partial sums as the tree has them:
 * those of 16-bit floats in float32.
 *
 * A reduce has the first two steps alone, one way. The root takes the part of its leaf, be it
 * member i or p + i of that. Let v be the bits in which a leaf differs from the root's: at level l
 * the leaf whose v ends with bit l sends to its partner what it has summed, and is done.
 */
#include <inttypes.h>
#include <string.h>

#include "base/fpenv.h"
#include "compress/reduce.h"
#include "transport/collective/collective.h"

enum exchange_kind {
    FOLD,   /* of a contribution, one way */
    SUM,    /* of the partial sum so far */
    GATHER, /* of sums that are done */
    RESULT, /* of all of them, one way */
};

/** What this member exchanges with another one. */
struct exchange {
    enum exchange_kind kind;
    uint32_t member, level;
    bool sends, receives;
    struct wring_span send, receive;
};

static uint32_t levels_of(uint32_t n)
{
    return 31 - (uint32_t)__builtin_clz(n);
}

static uint32_t count_levels(const struct wring_collective *collective)
{
    return levels_of(collective->members.n);
}

/** p */
static uint32_t count_leaves(const struct wring_collective *collective)
{
    return 1u << count_levels(collective);
}

static bool halves(const struct wring_collective *collective)
{
    return collective->work.algorithm == WRING_ALLREDUCE_HALVING ||
           collective->work.algorithm == WRING_ALLREDUCE_HALVING_PLACED;
}

/**
 * Do the sums of this exchange go straight into the receiver's data? It needs what lies there no
 * longer: it has sent us that, or it could not have our sums.
 */
static bool is_placed(const struct wring_collective *collective, const struct exchange *exchange)
{
    return wring_algorithm_is_placed(collective->work.algorithm) &&
           (exchange->kind == GATHER || exchange->kind == RESULT);
}

static bool is_reduce(const struct wring_collective *collective)
{
    return collective->work.algorithm == WRING_REDUCE_TREE;
}

/** The leaf of the tree that a member contributes to. */
static uint32_t leaf_of(const struct wring_collective *collective, uint32_t member)
{
    return member & (count_leaves(collective) - 1);
}

/** The member that goes on with a leaf's sum. */
static uint32_t actor_of(const struct wring_collective *collective, uint32_t leaf)
{
    uint32_t root = collective->work.root;
    return is_reduce(collective) && leaf_of(collective, root) == leaf ? root : leaf;
}

/** Is another member's contribution folded into that of this one, or this one's into the other's?
 */
static bool has_fold(const struct wring_collective *collective, uint32_t member)
{
    return leaf_of(collective, member) < collective->members.n - count_leaves(collective);
}

/** The bits in which our leaf is not the root's. */
static uint32_t bits_from_root(const struct wring_collective *collective)
{
    return leaf_of(collective, collective->members.me) ^ leaf_of(collective, collective->work.root);
}

/** Levels of a reduce at which we take another leaf's sum. */
static uint32_t count_taken_levels(const struct wring_collective *collective)
{
    uint32_t bits = bits_from_root(collective);
    return bits == 0 ? count_levels(collective) : (uint32_t)__builtin_ctz(bits);
}

static bool is_actor(const struct wring_collective *collective)
{
    uint32_t me = collective->members.me;
    return actor_of(collective, leaf_of(collective, me)) == me;
}

static uint32_t count_in_reduce(const struct wring_collective *collective)
{
    if (!is_actor(collective))
        return 1;
    return has_fold(collective, collective->members.me) + count_taken_levels(collective) +
           (bits_from_root(collective) != 0);
}

static uint32_t count_exchanges(const struct wring_collective *collective)
{
    uint32_t me = collective->members.me, levels = count_levels(collective);

    if (collective->work.partition.elems == 0 && !collective->work.sync)
        return 0;
    if (is_reduce(collective))
        return count_in_reduce(collective);
    if (me >= count_leaves(collective))
        return 2;
    return (halves(collective) ? 2 : 1) * levels + (has_fold(collective, me) ? 2 : 0);
}

/** The half of a span that members go on with whose index has the level's bit, or has it not. */
static struct wring_span half_of(const struct wring_collective *collective, struct wring_span span,
                                 bool high)
{
    uint64_t grain = collective->work.partition.grain;
    uint64_t half = ((span.end - span.begin) / 2 + grain - 1) / grain * grain;
    uint64_t middle = span.begin + half < span.end ? span.begin + half : span.end;

    return high ? (struct wring_span){middle, span.end} : (struct wring_span){span.begin, middle};
}

static struct wring_span whole_span(const struct wring_collective *collective)
{
    return (struct wring_span){0, collective->work.partition.elems};
}

static struct exchange one_way(const struct wring_collective *collective, enum exchange_kind kind,
                               uint32_t member, bool sends)
{
    return (struct exchange){.kind = kind,
                             .member = member,
                             .sends = sends,
                             .receives = !sends,
                             .send = whole_span(collective),
                             .receive = whole_span(collective)};
}

static struct exchange both_ways(const struct wring_collective *collective, enum exchange_kind kind,
                                 uint32_t level)
{
    uint32_t me = collective->members.me;
    struct wring_span own = whole_span(collective), other = own;

    for (uint32_t l = 0; halves(collective) && l <= level; l++) {
        other = half_of(collective, own, !(me >> l & 1));
        own = half_of(collective, own, me >> l & 1);
    }
    return (struct exchange){.kind = kind,
                             .member = me ^ 1u << level,
                             .level = level,
                             .sends = true,
                             .receives = true,
                             .send = kind == SUM ? other : own,
                             .receive = kind == SUM ? own : other};
}

/** @param k  below count_in_reduce() */
static struct exchange exchange_in_reduce(const struct wring_collective *collective, uint32_t k)
{
    uint32_t me = collective->members.me, p = count_leaves(collective);
    uint32_t leaf = leaf_of(collective, me), fold = has_fold(collective, me);

    if (!is_actor(collective) || k < fold)
        return one_way(collective, FOLD, me ^ p, !is_actor(collective));
    uint32_t level = k - fold;
    struct exchange exchange = one_way(collective, SUM, actor_of(collective, leaf ^ 1u << level),
                                       level == count_taken_levels(collective));
    exchange.level = level;
    return exchange;
}

/** @param k  below count_exchanges() */
static struct exchange exchange_at(const struct wring_collective *collective, uint32_t k)
{
    uint32_t me = collective->members.me, p = count_leaves(collective);
    uint32_t levels = count_levels(collective), fold = has_fold(collective, me);

    if (is_reduce(collective))
        return exchange_in_reduce(collective, k);
    if (me >= p)
        return one_way(collective, k == 0 ? FOLD : RESULT, me - p, k == 0);
    if (k < fold)
        return one_way(collective, FOLD, me + p, false);
    if (k - fold < levels)
        return both_ways(collective, SUM, k - fold);
    if (halves(collective) && k - fold < 2 * levels)
        return both_ways(collective, GATHER, 2 * levels - 1 - (k - fold));
    return one_way(collective, RESULT, me + p, true);
}

/* ---- pieces ---- */

static bool widens(const struct wring_collective *collective)
{
    return wring_algorithm_widens(collective->work.dtype, collective->work.op);
}

/** Does a member send a partial sum there, not its contribution or the result? */
static bool sends_partial(const struct wring_collective *collective,
                          const struct exchange *exchange, uint32_t member)
{
    return exchange->kind == SUM && (exchange->level > 0 || has_fold(collective, member));
}

static size_t piece_bytes(const struct wring_collective *collective,
                          const struct exchange *exchange, uint32_t member, struct wring_span span)
{
    bool wide = sends_partial(collective, exchange, member) && widens(collective);
    size_t elem_bytes = wide ? sizeof(float) : collective->work.partition.elem_bytes;

    return (size_t)(span.end - span.begin) * elem_bytes;
}

/** Elements of a full piece: as many in whichever type they travel. */
static uint64_t piece_elems(const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    return widens(collective) ? partition->chunk_elems * partition->elem_bytes / sizeof(float)
                              : partition->chunk_elems;
}

/** Of a barrier there is one, without elements. */
static uint64_t count_pieces(const struct wring_collective *collective, struct wring_span span)
{
    uint64_t most = piece_elems(collective);
    return collective->work.sync ? 1 : (span.end - span.begin + most - 1) / most;
}

static uint64_t count_to_send(const struct wring_collective *collective,
                              const struct exchange *exchange)
{
    return exchange->sends ? count_pieces(collective, exchange->send) : 0;
}

static uint64_t count_to_receive(const struct wring_collective *collective,
                                 const struct exchange *exchange)
{
    return exchange->receives ? count_pieces(collective, exchange->receive) : 0;
}

static struct wring_span piece_span(const struct wring_collective *collective,
                                    struct wring_span span, uint64_t piece)
{
    uint64_t most = piece_elems(collective), begin = span.begin + piece * most;
    return (struct wring_span){begin, begin + most < span.end ? begin + most : span.end};
}

struct wring_collective_traffic wring_doubling_traffic(const struct wring_collective *collective)
{
    bool leaf = collective->members.me < count_leaves(collective);
    struct wring_collective_traffic traffic = {
        .partners =
            leaf ? count_levels(collective) + has_fold(collective, collective->members.me) : 1};
    for (uint32_t k = 0; k < count_exchanges(collective); k++) {
        struct exchange exchange = exchange_at(collective, k);
        traffic.messages += count_to_send(collective, &exchange);
    }
    return traffic;
}

/* The state: which exchange is under way, and how many of its pieces have been begun and taken. */

static struct exchange current(const struct wring_collective *collective)
{
    return exchange_at(collective, (uint32_t)collective->reduced);
}

static uint64_t *sent(const struct wring_collective *collective)
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

/** Where partial sums are made. */
static void *partial_at(const struct wring_collective *collective, struct wring_span span)
{
    size_t bytes = widens(collective) ? sizeof(float) : collective->work.partition.elem_bytes;

    if (collective->work.scratch == NULL)
        return wring_collective_out(collective, span);
    return (uint8_t *)collective->work.scratch + span.begin * bytes;
}

/** What this member has summed so far, or its contribution. */
static struct wring_tree_run own_run(const struct wring_collective *collective,
                                     const struct exchange *exchange, struct wring_span span)
{
    bool partial = sends_partial(collective, exchange, collective->members.me);
    return (struct wring_tree_run){
        partial ? partial_at(collective, span) : wring_collective_in(collective, span), partial};
}

static const void *data_to_send(const struct wring_collective *collective,
                                const struct exchange *exchange, struct wring_span span)
{
    if (exchange->kind == GATHER || exchange->kind == RESULT)
        return wring_collective_out(collective, span);
    return own_run(collective, exchange, span).data;
}

static void doubling_start(struct wring_collective *collective)
{
    collective->reduced = 0;
    *sent(collective) = *taken(collective) = 0;
    for (uint32_t k = 0;
         wring_algorithm_is_placed(collective->work.algorithm) && k < count_exchanges(collective);
         k++) {
        struct exchange exchange = exchange_at(collective, k);
        if (is_placed(collective, &exchange))
            collective->arrivals[exchange.member] +=
                (uint32_t)count_to_receive(collective, &exchange);
    }
}

static bool send_next(struct wring_collective *collective, const struct exchange *exchange)
{
    uint32_t me = collective->members.me;
    struct wring_channel *channel = collective->scatter;
    bool placed = is_placed(collective, exchange);

    if (*sent(collective) == count_to_send(collective, exchange) ||
        (!placed && !wring_channel_has_credit(channel, exchange->member)))
        return false;
    struct wring_span span = piece_span(collective, exchange->send, *sent(collective));
    bool partial = sends_partial(collective, exchange, me);
    bool raw = exchange->kind == FOLD || (exchange->kind == SUM && !partial);
    struct wring_task *task =
        wring_collective_task(collective, raw ? WRING_TASK_SEND : WRING_TASK_REDUCE);
    if (task == NULL)
        return false;

    const void *data = data_to_send(collective, exchange, span);
    size_t bytes = piece_bytes(collective, exchange, me, span);
    task->member = exchange->member;
    task->chunk = (*sent(collective))++;
    task->span = span;
    task->in_place = placed;
    if (!placed)
        task->sequence = wring_channel_reserve(channel, exchange->member);
    wring_collective_ready(task, data, bytes);
    return true;
}

/** Has our own piece of that number gone, and may be overwritten? */
static bool is_own_gone(const struct wring_collective *collective, uint64_t piece)
{
    if (*sent(collective) <= piece)
        return false;
    for (uint32_t i = 0; i < collective->send_tasks + collective->reduce_tasks; i++)
        if (collective->tasks[i].state != WRING_TASK_FREE && collective->tasks[i].chunk == piece)
            return false;
    return true;
}

static struct wring_tree find_tree(const struct wring_collective *collective)
{
    enum wring_cpu_tier tier = wring_cpu_best();
    wring_cpu_tier_parse(collective->engine->config->cpu, &tier);
    return wring_tree_find(collective->work.dtype, collective->work.op, tier);
}

/** Add a piece to the partial sum, the lower block of members first. */
static void add_piece(struct wring_collective *collective, const struct exchange *exchange,
                      struct wring_span span, const void *piece)
{
    uint64_t elems = span.end - span.begin;
    struct wring_tree tree = find_tree(collective);
    struct wring_tree_run own = own_run(collective, exchange, span);
    struct wring_tree_run other = {piece, sends_partial(collective, exchange, exchange->member)};
    uint32_t me = collective->members.me;
    bool first =
        exchange->kind == FOLD ? me < count_leaves(collective) : !(me >> exchange->level & 1);
    bool last = exchange->kind == SUM && exchange->level + 1 == count_levels(collective);
    float divisor = last ? wring_collective_divisor(collective) : 1;
    void *to = partial_at(collective, span);
    uint64_t saved = wring_fp_enter();

    wring_tree_step(&tree, to, first ? own : other, first ? other : own, elems,
                    tree.narrow == NULL ? divisor : 1);
    if (last && tree.narrow != NULL)
        tree.narrow(wring_collective_out(collective, span), to, elems, divisor);
    wring_fp_leave(saved);
}

/** @return whether it is as long as it should be; else the job fails */
static bool check_piece(struct wring_collective *collective, const struct exchange *exchange,
                        struct wring_span span, size_t bytes)
{
    uint32_t rank = collective->members.ranks[exchange->member];

    if (bytes == piece_bytes(collective, exchange, exchange->member, span))
        return true;
    wring_fabric_fail(collective->engine->fabric, WRING_ERR_MISMATCH, (int32_t)rank,
                      "rank %" PRIu32 " sent a piece that has another size than here: do all ranks "
                      "pass the same count, type and codec?",
                      rank);
    return false;
}

/** Have all pieces come that go straight into our data? A member sends them in one exchange. */
static bool are_all_placed(const struct wring_collective *collective, uint32_t member)
{
    return collective->gather->in[member].arrivals == collective->arrivals[member];
}

static bool note_placed(struct wring_collective *collective, const struct exchange *exchange)
{
    uint64_t all = count_to_receive(collective, exchange);

    if (*taken(collective) == all || !are_all_placed(collective, exchange->member))
        return false;
    *taken(collective) = all;
    return true;
}

static bool take_next(struct wring_collective *collective, const struct exchange *exchange)
{
    struct wring_channel *channel = collective->scatter;
    uint32_t member = exchange->member;
    size_t bytes;

    if (*taken(collective) == count_to_receive(collective, exchange))
        return false;
    const void *piece = wring_channel_peek(channel, member, &bytes);
    struct wring_span span = piece_span(collective, exchange->receive, *taken(collective));
    bool sums = exchange->kind == FOLD || exchange->kind == SUM;
    void *to = sums ? partial_at(collective, span) : wring_collective_out(collective, span);
    bool overwrites = exchange->sends && !halves(collective) && to != NULL &&
                      to == data_to_send(collective, exchange, span);
    if (piece == NULL || (overwrites && !is_own_gone(collective, *taken(collective))) ||
        !check_piece(collective, exchange, span, bytes))
        return false;

    if (span.end > span.begin && sums)
        add_piece(collective, exchange, span, piece);
    else if (span.end > span.begin)
        memcpy(to, piece, bytes);
    wring_channel_release(channel, member, wring_channel_take(channel, member));
    collective->engine->computed += span.end - span.begin;
    ++*taken(collective);
    return true;
}

/** All of an exchange is done: what is sent lies still until then. */
static bool go_on(struct wring_collective *collective, const struct exchange *exchange)
{
    if (collective->busy > 0 || *sent(collective) < count_to_send(collective, exchange) ||
        *taken(collective) < count_to_receive(collective, exchange))
        return false;
    collective->reduced++;
    *sent(collective) = *taken(collective) = 0;
    return true;
}

static void doubling_advance(struct wring_collective *collective)
{
    bool any = true;
    while (any && !is_over(collective) && !wring_engine_turn_is_over(collective->engine)) {
        struct exchange exchange = current(collective);
        any = send_next(collective, &exchange);
        if (collective->busy > 0)
            any |= wring_collective_send(collective);
        any |= is_placed(collective, &exchange) ? note_placed(collective, &exchange)
                                                : take_next(collective, &exchange);
        any |= go_on(collective, &exchange);
    }
    collective->runnable |= any;
    if (is_over(collective))
        wring_engine_finish(collective->engine, collective, WRING_OK);
}

/** No job of ours goes to an executor. */
static void doubling_job_done(struct wring_collective *collective, struct wring_task *task)
{
    (void)collective, (void)task;
}

static bool doubling_owes(const struct wring_collective *collective, uint32_t member)
{
    uint32_t n = wring_collective_pairs_with(collective, member) ? count_exchanges(collective) : 0;

    for (uint32_t k = (uint32_t)collective->reduced; k < n; k++) {
        struct exchange exchange = exchange_at(collective, k);
        uint64_t begun = k == collective->reduced ? *sent(collective) : 0;
        if (exchange.member == member && begun < count_to_send(collective, &exchange))
            return true;
    }
    return false;
}

/** Of the exchange under way alone: what comes later does not hold us up. */
static bool doubling_awaits(const struct wring_collective *collective, uint32_t member)
{
    size_t bytes;

    if (!wring_collective_pairs_with(collective, member) || is_over(collective))
        return false;
    struct exchange exchange = current(collective);
    if (exchange.member != member || *taken(collective) == count_to_receive(collective, &exchange))
        return false;
    return is_placed(collective, &exchange)
               ? !are_all_placed(collective, member)
               : wring_channel_peek(collective->scatter, member, &bytes) == NULL;
}

const struct wring_collective_ops wring_allreduce_doubling = {
    .name = "doubling",
    .start = doubling_start,
    .advance = doubling_advance,
    .job_done = doubling_job_done,
    .owes = doubling_owes,
    .awaits = doubling_awaits,
};

const struct wring_collective_ops wring_reduce_tree = {
    .name = "reduce-tree",
    .start = doubling_start,
    .advance = doubling_advance,
    .job_done = doubling_job_done,
    .owes = doubling_owes,
    .awaits = doubling_awaits,
};
