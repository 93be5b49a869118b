/* SPDX-License-Identifier: Apache-2.0 */
/* With which other members one exchanges pieces in a step, if not with all. */
#include "transport/collective/collective.h"

static uint32_t partners_place(uint32_t n, uint32_t a, uint32_t b)
{
    uint32_t levels = wring_partners_most(n) - 1, p = 1u << levels, apart = a ^ b;

    if (a >= p || b >= p)
        return a + p == b || b + p == a ? levels : WRING_NO_PARTNER;
    if (apart == 0 || (apart & (apart - 1)) != 0)
        return WRING_NO_PARTNER;
    return (uint32_t)__builtin_ctz(apart);
}

static uint32_t bruck_place(uint32_t n, uint32_t me, uint32_t member)
{
    uint32_t far = (member + n - me) % n;
    return far != 0 && (far & (far - 1)) == 0 ? (uint32_t)__builtin_ctz(far) : WRING_NO_PARTNER;
}

/** The member before, which alone sends. */
static uint32_t ring_place(uint32_t n, uint32_t me, uint32_t member)
{
    return member != me && (member + 1) % n == me ? 0 : WRING_NO_PARTNER;
}

static uint32_t place_of_all(uint32_t n, uint32_t me, uint32_t member)
{
    (void)n, (void)me;
    return member;
}

struct wring_senders wring_senders_of(enum wring_algorithm algorithm, uint32_t n)
{
    if (!wring_algorithm_has_partners(algorithm))
        return (struct wring_senders){n, place_of_all};
    if (wring_algorithm_is_ring(algorithm))
        return (struct wring_senders){1, ring_place};
    return algorithm == WRING_ALLREDUCE_BRUCK
               ? (struct wring_senders){wring_bruck_most(n), bruck_place}
               : (struct wring_senders){wring_partners_most(n), partners_place};
}

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

/** The one before and the one after. */
static void consider_ring(const struct wring_members *members, struct nearest *nearest)
{
    uint32_t n = members->n, me = members->me;

    if (n == 1)
        return;
    consider(nearest, (me + 1) % n);
    consider(nearest, (me + n - 1) % n);
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
    case WRING_ALLREDUCE_RING:
    case WRING_ALLREDUCE_RING_PLACED:
        consider_ring(members, &nearest);
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
