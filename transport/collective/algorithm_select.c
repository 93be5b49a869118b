/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/collective/algorithm_select.h"

#include "compress/reduce.h"
#include "transport/collective/collective.h"

#define EAGER_MEMBERS_MAX                                                  \
    WRING_REDUCTION_RUNS      /* a sum of more needs scratch memory, which \
                                 executors have */
#define EAGER_TIMES 8         /* of two ranks, and of data that all map */
#define EAGER_COPIED_TIMES 64 /* of two ranks where a kernel copies anyway */
#define CODE_SMALL (4u << 10)
#define SHOWN_BYTES                                        \
    1024 /* what comes with a board's number; more is read \
            where it lies */

const struct wring_algorithm_parts wring_algorithms[WRING_ALGORITHMS] = {
    /* clang-format off */
    [WRING_ALLREDUCE_EAGER]           = {"eager",           &wring_allreduce_eager,     WRING_ORDER_MEMBERS, false, true},
    [WRING_ALLREDUCE_EAGER_BOARD]     = {"eager-board",     &wring_allreduce_shm_flags, WRING_ORDER_MEMBERS, false, false},
    [WRING_ALLREDUCE_EAGER_IN_PLACE]  = {"eager-in-place",  &wring_allreduce_shm_flags, WRING_ORDER_MEMBERS, false, false},
    [WRING_ALLREDUCE_DOUBLING]        = {"doubling",        &wring_allreduce_doubling,  WRING_ORDER_MEMBERS, true,  false},
    [WRING_ALLREDUCE_HALVING]         = {"halving",         &wring_allreduce_doubling,  WRING_ORDER_MEMBERS, true,  false},
    [WRING_ALLREDUCE_ONE_SHOT]        = {"one-shot",        &wring_allreduce_one_shot,  WRING_ORDER_MEMBERS, false, true},
    [WRING_ALLREDUCE_TWO_SHOT]        = {"two-shot",        &wring_allreduce_two_shot,  WRING_ORDER_MEMBERS, true,  true},
    [WRING_ALLREDUCE_TWO_SHOT_PLACED] = {"two-shot-placed", &wring_allreduce_two_shot,  WRING_ORDER_MEMBERS, true,  true},
    [WRING_ALLREDUCE_TWO_SHOT_DIRECT] = {"two-shot-direct", &wring_allreduce_two_shot,  WRING_ORDER_MEMBERS, true,  true},
    [WRING_ALLREDUCE_HIERARCHICAL]    = {"hierarchical",    &wring_hierarchical,        WRING_ORDER_NODES,   false, false},
    [WRING_REDUCE_SCATTER_OWNERS]     = {"owners",          &wring_allreduce_two_shot,  WRING_ORDER_MEMBERS, true,  false},
    [WRING_REDUCE_SCATTER_DIRECT]     = {"owners-direct",   &wring_allreduce_two_shot,  WRING_ORDER_MEMBERS, true,  true},
    [WRING_REDUCE_ONE_SHOT]           = {"reduce-one-shot", &wring_allreduce_one_shot,  WRING_ORDER_MEMBERS, true,  false},
    [WRING_REDUCE_TWO_SHOT]           = {"reduce-two-shot", &wring_allreduce_two_shot,  WRING_ORDER_MEMBERS, true,  false},
    [WRING_ALLGATHER_ALLTOALL]        = {"alltoall",        &wring_allgather_alltoall,  WRING_ORDER_NONE,    false, true},
    [WRING_ALLGATHER_ALLTOALL_PLACED] = {"alltoall-placed", &wring_allgather_alltoall,  WRING_ORDER_NONE,    false, true},
    [WRING_BROADCAST_TREE]            = {"tree",            &wring_broadcast_tree,      WRING_ORDER_NONE,    true,  false},
    [WRING_REDUCE_TREE]               = {"reduce-tree",     &wring_reduce_tree,         WRING_ORDER_MEMBERS, true,  false},
    [WRING_GATHER_TREE]               = {"gather-tree",     &wring_relay,               WRING_ORDER_NONE,    true,  false},
    [WRING_SCATTER_TREE]              = {"scatter-tree",    &wring_relay,               WRING_ORDER_NONE,    true,  false},
    [WRING_ALLGATHER_BRUCK]           = {"allgather-bruck", &wring_relay,               WRING_ORDER_NONE,    true,  false},
    [WRING_ALLTOALL_BRUCK]            = {"alltoall-bruck",  &wring_relay,               WRING_ORDER_NONE,    true,  false},
    [WRING_ALLREDUCE_BRUCK]           = {"one-shot-bruck",  &wring_allreduce_bruck,     WRING_ORDER_MEMBERS, true,  false},
    [WRING_ALLREDUCE_HALVING_PLACED]  = {"halving-placed",  &wring_allreduce_doubling,  WRING_ORDER_MEMBERS, true,  true},
    [WRING_ALLREDUCE_RING]            = {"ring",            &wring_allreduce_ring,      WRING_ORDER_RING,    true,  false},
    [WRING_ALLREDUCE_RING_PLACED]     = {"ring-placed",     &wring_allreduce_ring,      WRING_ORDER_RING,    true,  true},
    /* clang-format on */
};

/**
 * The order of an allreduce or a barrier: the first row that fits. A ring's or a hierarchy's bits
 * are not those of the members' order, so nothing that was measured may add to this table: only
 * scheme, nodes and size. Integers, whose order shows in no bit, go by it as well. No row of "auto"
 * has a ring: as many bytes go through shards or halves, in fewer steps after one another.
 */
static const struct {
    enum wring_scheme least, most;
    uint32_t members, nodes, node_members; /* or more; as many on each node */
    uint64_t elems, member_elems;          /* or more: of all, and for each member */
    bool raw, sums;                        /* only; no votes */
    enum wring_reduction_order order;
} orders[] = {
    /* clang-format off */
    {WRING_SCHEME_HIERARCHICAL, WRING_SCHEME_HIERARCHICAL_INDIVISIBLE, 4, 2, 2, 1, 0,    false, true,  WRING_ORDER_NODES},
    {WRING_SCHEME_RING,         WRING_SCHEME_RING,                     2, 0, 0, 0, 1024, true,  true,  WRING_ORDER_RING},
    {WRING_SCHEME_AUTO,         WRING_SCHEME_RING,                     0, 0, 0, 0, 0,    false, false, WRING_ORDER_MEMBERS},
    /* clang-format on */
};

static bool is_ordered_by(const struct wring_operation *operation, size_t row)
{
    return operation->scheme >= orders[row].least && operation->scheme <= orders[row].most &&
           operation->members >= orders[row].members && operation->nodes >= orders[row].nodes &&
           operation->node_members >= orders[row].node_members &&
           operation->elems >= orders[row].elems &&
           operation->elems >= orders[row].member_elems * operation->members &&
           (operation->code == NULL ||
            (!orders[row].raw &&
             !(orders[row].sums && operation->code->flags & WRING_CODEC_VOTES)));
}

enum wring_reduction_order wring_algorithm_order(const struct wring_operation *operation)
{
    size_t i = 0;

    if (operation->kind != WRING_CALL_ALLREDUCE && operation->kind != WRING_CALL_BARRIER)
        return wring_call_reduces(operation->kind) ? WRING_ORDER_MEMBERS : WRING_ORDER_NONE;
    while (!is_ordered_by(operation, i))
        i++;
    return orders[i].order;
}

const char *wring_reduction_order_name(enum wring_reduction_order order)
{
    switch (order) {
    case WRING_ORDER_NONE:
        return "none";
    case WRING_ORDER_MEMBERS:
        return "members";
    case WRING_ORDER_NODES:
        return "nodes";
    case WRING_ORDER_RING:
        return "ring";
    }
    return "?";
}

/** The answer for coded operations is the same on every link, since a sum that is encoded once
 *  more has other bits. Two ranks send as many bytes either way, and round once less without. Many
 *  ranks keep two hops for small sums, too: a sum of a few units has a few owners, and so takes few
 *  messages, while in one hop each rank decodes all codes. */
bool wring_algorithm_encodes_sums(const struct wring_operation *operation)
{
    const struct wring_codec_info *code = operation->code;
    enum wring_scheme scheme = wring_scheme_across(operation->scheme);

    if (code == NULL)
        return false;
    if (scheme != WRING_SCHEME_AUTO)
        return scheme == WRING_SCHEME_DIVISIBLE;
    return code->flags & WRING_CODEC_TWO_WAYS || (operation->members > 2 && code->unit != 0);
}

static uint64_t operation_bytes(const struct wring_operation *operation)
{
    return operation->elems * operation->elem_bytes;
}

/**
 * One hop is faster than two until bytes dominate the time. Two ranks over a network send as many
 * bytes in one hop as in two, so their limit is higher. It is highest where a kernel copies the
 * bytes anyway (tcp on loopback: from 12 KiB to 512 KiB, faster by a third to a seventh). Steps in
 * mapped data bypass the engine, which pays up to about as many bytes.
 */
uint64_t wring_algorithm_eager_limit(const struct wring_operation *operation,
                                     const struct wring_reach *reach)
{
    uint64_t limit = reach->eager_bytes;

    if (reach->placeable && reach->mappable)
        return limit * EAGER_TIMES < reach->chunk_bytes ? limit * EAGER_TIMES : reach->chunk_bytes;
    if (operation->members != 2 || reach->mappable)
        return limit;
    return limit * (reach->copies ? EAGER_COPIED_TIMES : EAGER_TIMES);
}

/**
 * From a few lines on shards are summed where the data lies: for every line that goes to another
 * core and back there is one that need not be shown, and one that each member need not read.
 */
static enum wring_algorithm select_eager(const struct wring_operation *operation,
                                         const struct wring_reach *reach)
{
    if (!reach->boards || operation->members == 1)
        return WRING_ALLREDUCE_EAGER;
    return reach->placeable && reach->mappable && operation_bytes(operation) > SHOWN_BYTES
               ? WRING_ALLREDUCE_EAGER_IN_PLACE
               : WRING_ALLREDUCE_EAGER_BOARD;
}

static enum wring_algorithm select_two_shot(const struct wring_operation *operation,
                                            const struct wring_reach *reach)
{
    if (operation->code != NULL || !reach->placeable)
        return WRING_ALLREDUCE_TWO_SHOT;
    return reach->mappable ? WRING_ALLREDUCE_TWO_SHOT_DIRECT : WRING_ALLREDUCE_TWO_SHOT_PLACED;
}

/**
 * The algorithm of more than WRING_ORDER_FOLDED members whose messages are sent one by one. Twice
 * log2 of the members' number of messages cost less than twice the number, until bytes dominate the
 * time. The order of the tree is that of partial sums, too.
 */
static const struct {
    uint32_t members; /* or more */
    uint64_t bytes;   /* or less */
    enum wring_algorithm algorithm;
} partners[] = {
    {WRING_ORDER_FOLDED + 1, 32 << 10, WRING_ALLREDUCE_DOUBLING},
    {WRING_ORDER_FOLDED + 1, 2 << 20, WRING_ALLREDUCE_HALVING},
    {32, 4 << 20, WRING_ALLREDUCE_HALVING},
};

/**
 * Mapped members need none of it where a board serves all, or where each reads the others' data. A
 * call's data only its own member can read, and then shards take as many messages as on a network.
 *
 * @return whether members exchange sums two by two
 */
static bool select_partners(const struct wring_operation *operation,
                            const struct wring_reach *reach, enum wring_algorithm *out)
{
    uint64_t bytes = operation_bytes(operation);
    bool small = bytes <= wring_algorithm_eager_limit(operation, reach);

    if (reach->mappable && (small ? operation->members <= EAGER_MEMBERS_MAX : reach->placeable))
        return false;
    for (size_t i = 0; i < sizeof(partners) / sizeof(partners[0]); i++)
        if (operation->members >= partners[i].members && bytes <= partners[i].bytes) {
            *out = partners[i].algorithm;
            if (reach->placeable && *out == WRING_ALLREDUCE_HALVING)
                *out = WRING_ALLREDUCE_HALVING_PLACED;
            return true;
        }
    return false;
}

/** All of these give the same bits. */
static enum wring_algorithm select_raw(const struct wring_operation *operation,
                                       const struct wring_reach *reach)
{
    enum wring_scheme scheme = wring_scheme_across(operation->scheme);
    bool small = operation_bytes(operation) <= wring_algorithm_eager_limit(operation, reach);
    bool fits = operation->elems <= reach->piece_elems && operation->members <= EAGER_MEMBERS_MAX;

    enum wring_algorithm paired;

    if (scheme == WRING_SCHEME_AUTO && select_partners(operation, reach, &paired))
        return paired;
    if (scheme == WRING_SCHEME_DIVISIBLE || (scheme == WRING_SCHEME_AUTO && !small))
        return select_two_shot(operation, reach);
    return small && fits ? select_eager(operation, reach) : WRING_ALLREDUCE_ONE_SHOT;
}

/** Of codes: small ones of many members travel together. Those of rounds have gone to all already.
 */
static enum wring_algorithm select_one_shot(const struct wring_operation *operation,
                                            const struct wring_reach *reach)
{
    bool crowd = operation->members > WRING_ORDER_FOLDED && !reach->mappable;
    bool small = reach->code_bytes > 0 && reach->code_bytes <= CODE_SMALL &&
                 operation->elems <= reach->piece_elems && operation->code->rounds == 0;

    return crowd && small &&
                   wring_bruck_message_bytes(operation->members, (size_t)reach->code_bytes) <=
                       reach->chunk_bytes
               ? WRING_ALLREDUCE_BRUCK
               : WRING_ALLREDUCE_ONE_SHOT;
}

static enum wring_algorithm select_allreduce(const struct wring_operation *operation,
                                             const struct wring_reach *reach)
{
    enum wring_reduction_order order = wring_algorithm_order(operation);

    if (order == WRING_ORDER_NODES)
        return WRING_ALLREDUCE_HIERARCHICAL;
    if (order == WRING_ORDER_RING)
        return reach->placeable ? WRING_ALLREDUCE_RING_PLACED : WRING_ALLREDUCE_RING;
    if (operation->code == NULL)
        return select_raw(operation, reach);
    return wring_algorithm_encodes_sums(operation) ? WRING_ALLREDUCE_TWO_SHOT
                                                   : select_one_shot(operation, reach);
}

/** With the bits of an allreduce, so sums are encoded where one would encode them. */
static enum wring_algorithm select_reduce(const struct wring_operation *operation,
                                          const struct wring_reach *reach)
{
    bool small = operation_bytes(operation) <= wring_algorithm_eager_limit(operation, reach);
    bool whole = operation->code == NULL ? small : !wring_algorithm_encodes_sums(operation);
    enum wring_algorithm paired;

    if (operation->code == NULL && select_partners(operation, reach, &paired) &&
        paired == WRING_ALLREDUCE_DOUBLING)
        return WRING_REDUCE_TREE;
    return whole ? WRING_REDUCE_ONE_SHOT : WRING_REDUCE_TWO_SHOT;
}

static enum wring_algorithm select_barrier(const struct wring_operation *operation,
                                           const struct wring_reach *reach)
{
    enum wring_algorithm paired;

    if (reach->boards)
        return WRING_ALLREDUCE_EAGER_BOARD;
    return select_partners(operation, reach, &paired) ? paired : WRING_ALLREDUCE_EAGER;
}

/**
 * Pieces of so many members, up to so many bytes each, travel together. In an allgather no byte
 * travels twice. In the others one travels log2 of the members' number times at most, half as often
 * on average. A message costs less to members that map each other's memory; a root that sends or
 * takes them all is the faster there, and on a network up to some thirty members.
 */
static const struct {
    enum wring_call_kind kind;
    uint32_t members;       /* or more */
    uint64_t bytes, mapped; /* or less: on a network, and to members that map memory */
    enum wring_algorithm algorithm;
} relays[] = {
    {WRING_CALL_GATHER, 32, 1 << 10, 0, WRING_GATHER_TREE},
    {WRING_CALL_SCATTER, 32, 1 << 10, 0, WRING_SCATTER_TREE},
    {WRING_CALL_ALLGATHER, WRING_ORDER_FOLDED + 1, 16 << 10, 4 << 10, WRING_ALLGATHER_BRUCK},
    {WRING_CALL_ALLTOALL, WRING_ORDER_FOLDED + 1, 1 << 10, 1 << 10, WRING_ALLTOALL_BRUCK},
    {WRING_CALL_ALLTOALL, 32, 4 << 10, 1 << 10, WRING_ALLTOALL_BRUCK},
};

/** What collects or spreads pieces. All that a member passes on is one piece. */
static enum wring_algorithm select_exchange(const struct wring_operation *operation,
                                            const struct wring_reach *reach)
{
    bool raw = operation->code == NULL;
    bool rooted = operation->kind == WRING_CALL_GATHER || operation->kind == WRING_CALL_SCATTER;
    bool relayed = raw && reach->scratch;
    uint64_t bytes = operation_bytes(operation);

    for (size_t i = 0; relayed && i < sizeof(relays) / sizeof(relays[0]); i++)
        if (relays[i].kind == operation->kind && operation->members >= relays[i].members &&
            bytes <= (reach->mappable ? relays[i].mapped : relays[i].bytes) &&
            bytes * operation->members <= reach->chunk_bytes)
            return relays[i].algorithm;
    return raw && reach->placeable && !rooted ? WRING_ALLGATHER_ALLTOALL_PLACED
                                              : WRING_ALLGATHER_ALLTOALL;
}

enum wring_algorithm wring_algorithm_select(const struct wring_operation *operation,
                                            const struct wring_reach *reach)
{
    bool raw = operation->code == NULL;

    switch (operation->kind) {
    case WRING_CALL_ALLREDUCE:
        return select_allreduce(operation, reach);
    case WRING_CALL_BARRIER:
        return select_barrier(operation, reach);
    case WRING_CALL_REDUCE:
        return select_reduce(operation, reach);
    case WRING_CALL_REDUCE_SCATTERV:
        return WRING_REDUCE_SCATTER_OWNERS;
    case WRING_CALL_REDUCE_SCATTER:
        return raw && reach->placeable && reach->mappable ? WRING_REDUCE_SCATTER_DIRECT
                                                          : WRING_REDUCE_SCATTER_OWNERS;
    case WRING_CALL_ALLGATHERV:
    case WRING_CALL_ALLTOALLV:
        return WRING_ALLGATHER_ALLTOALL;
    case WRING_CALL_BROADCAST:
        if (raw && !reach->mappable && operation->members > WRING_ORDER_FOLDED)
            return WRING_BROADCAST_TREE;
        break;
    case WRING_CALL_GATHER:
    case WRING_CALL_SCATTER:
    case WRING_CALL_ALLGATHER:
    case WRING_CALL_ALLTOALL:
        break;
    }
    return select_exchange(operation, reach);
}
