/* SPDX-License-Identifier: Apache-2.0 */
/* What a member exchanges in a step: with which others, and how many messages it sends. */
#include "transport/collective/collective.h"

/** The first member from a number on, of those that are considered. */
struct nearest {
    uint32_t from, member;
};

static void consider(struct nearest *nearest, uint32_t member)
{
    if (member >= nearest->from && member < nearest->member)
        nearest->member = member;
}

/** The largest power of two that is not more than the number of members. */
static uint32_t count_leaves(const struct wring_members *members)
{
    return 1u << (31 - (uint32_t)__builtin_clz(members->n));
}

/** Two by two. */
static void consider_partners(const struct wring_members *members, struct nearest *nearest)
{
    uint32_t me = members->me, p = count_leaves(members);

    for (uint32_t bit = 1; bit < p && me < p; bit *= 2)
        consider(nearest, me ^ bit);
    consider(nearest, me < p ? me + p : me - p);
}

/** Two by two up to a root, which stands for the leaf that it contributes to. */
static void consider_reduce_tree(const struct wring_members *members, uint32_t root,
                                 struct nearest *nearest)
{
    uint32_t me = members->me, p = count_leaves(members), leaf = me & (p - 1);
    uint32_t root_leaf = root & (p - 1);

    consider(nearest, me < p ? me + p : me - p);
    if (me != (leaf == root_leaf ? root : leaf))
        return;
    for (uint32_t bit = 1; bit < p; bit *= 2) {
        consider(nearest, (leaf ^ bit) == root_leaf ? root : leaf ^ bit);
        if ((leaf ^ root_leaf) & bit)
            return; /* our sum goes there */
    }
}

/** Below a root: of a broadcast, a gather or a scatter. */
static void consider_binomial_tree(const struct wring_members *members, uint32_t root,
                                   struct nearest *nearest)
{
    uint32_t n = members->n, v = (members->me + n - root) % n;

    if (v != 0)
        consider(nearest, ((v & (v - 1)) + root) % n);
    for (uint32_t bit = 1; bit < n - v && (v & bit) == 0; bit *= 2)
        consider(nearest, (v + bit + root) % n);
}

/** As Bruck has them: 2^k further on, and back. */
static void consider_circle(const struct wring_members *members, struct nearest *nearest)
{
    uint32_t n = members->n, me = members->me;

    for (uint32_t far = 1; far < n; far *= 2) {
        consider(nearest, (me + far) % n);
        consider(nearest, (me + n - far) % n);
    }
}

uint32_t wring_collective_next_pair(const struct wring_collective *collective, uint32_t from)
{
    const struct wring_members *members = &collective->members;
    struct nearest nearest = {from, members->n};

    switch (collective->work.algorithm) {
    case WRING_ALLREDUCE_DOUBLING:
    case WRING_ALLREDUCE_HALVING:
    case WRING_ALLREDUCE_HALVING_PLACED:
        consider_partners(members, &nearest);
        break;
    case WRING_REDUCE_TREE:
        consider_reduce_tree(members, collective->work.root, &nearest);
        break;
    case WRING_BROADCAST_TREE:
    case WRING_GATHER_TREE:
    case WRING_SCATTER_TREE:
        consider_binomial_tree(members, collective->work.root, &nearest);
        break;
    case WRING_ALLGATHER_BRUCK:
    case WRING_ALLTOALL_BRUCK:
    case WRING_ALLREDUCE_BRUCK:
        consider_circle(members, &nearest);
        break;
    default:
        return from == members->me ? from + 1 : from;
    }
    return nearest.member;
}

bool wring_collective_pairs_with(const struct wring_collective *collective, uint32_t member)
{
    return wring_collective_next_pair(collective, member) == member;
}

uint32_t wring_senders_most(enum wring_algorithm algorithm, uint32_t n)
{
    if (!wring_algorithm_has_partners(algorithm))
        return n;
    return algorithm == WRING_ALLREDUCE_BRUCK ? wring_bruck_most(n) : wring_partners_most(n);
}

uint32_t wring_sender_place(enum wring_algorithm algorithm, uint32_t n, uint32_t me,
                            uint32_t member)
{
    if (!wring_algorithm_has_partners(algorithm))
        return member;
    return algorithm == WRING_ALLREDUCE_BRUCK ? wring_bruck_place(n, me, member)
                                              : wring_partners_place(n, me, member);
}

static uint64_t pieces_of(const struct wring_partition *partition, struct wring_span span)
{
    return wring_partition_chunks(partition, span);
}

/** Shards to their owners, and the sum of our own to all, or to the root. */
static uint64_t count_two_shots(const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    uint32_t n = collective->members.n, me = collective->members.me;
    uint64_t messages = (n - 1) * pieces_of(partition, wring_partition_shard(partition, me));
    for (uint32_t i = 0; i < n; i++)
        if (i != me)
            messages += pieces_of(partition, wring_partition_shard(partition, i));
    return messages;
}

struct wring_collective_traffic wring_collective_traffic(const struct wring_collective *collective)
{
    const struct wring_partition *partition = &collective->work.partition;
    uint32_t others = collective->members.n - 1;
    struct wring_collective_traffic traffic = {.partners = others};

    switch (collective->work.algorithm) {
    case WRING_ALLREDUCE_DOUBLING:
    case WRING_ALLREDUCE_HALVING:
    case WRING_ALLREDUCE_HALVING_PLACED:
        return wring_doubling_traffic(collective);
    case WRING_ALLREDUCE_BRUCK:
        traffic.messages = partition->elems > 0 ? wring_bruck_most(others + 1) : 0;
        traffic.partners = 2 * wring_bruck_most(others + 1); /* some may be both */
        return traffic;
    case WRING_ALLREDUCE_EAGER_BOARD:
    case WRING_ALLREDUCE_EAGER_IN_PLACE:
        return traffic; /* nothing is sent in mapped memory */
    case WRING_ALLREDUCE_EAGER:
        traffic.messages = others;
        return traffic;
    case WRING_ALLREDUCE_ONE_SHOT:
        traffic.messages = others * pieces_of(partition, (struct wring_span){0, partition->elems});
        return traffic;
    default:
        traffic.messages = count_two_shots(collective);
        return traffic;
    }
}
