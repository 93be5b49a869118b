/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Those that a member exchanges with are found one after the other, in as many turns as they are.
 * The test writes down who sends to whom after WIRE.md, "Collectives".
 */
#include <string.h>

#include "tests/lib/test.h"
#include "transport/collective/collective.h"

#define MEMBERS_MAX 70

static bool sends[MEMBERS_MAX][MEMBERS_MAX];

static uint32_t leaves_of(uint32_t n)
{
    uint32_t p = 1;
    while (p * 2 <= n)
        p *= 2;
    return p;
}

static void send_two_by_two(uint32_t n)
{
    uint32_t p = leaves_of(n);

    for (uint32_t i = 0; i < p; i++)
        for (uint32_t bit = 1; bit < p; bit *= 2)
            sends[i][i ^ bit] = true;
    for (uint32_t i = p; i < n; i++)
        sends[i][i - p] = true;
}

static void send_up_to(uint32_t n, uint32_t root)
{
    uint32_t p = leaves_of(n), stands[MEMBERS_MAX];

    for (uint32_t leaf = 0; leaf < p; leaf++)
        stands[leaf] = root % p == leaf ? root : leaf;
    for (uint32_t i = 0; i < n; i++)
        if (stands[i % p] != i)
            sends[i][stands[i % p]] = true;
    for (uint32_t leaf = 0; leaf < p; leaf++) {
        uint32_t apart = leaf ^ root % p;
        if (apart != 0)
            sends[stands[leaf]][stands[leaf ^ (apart & -apart)]] = true;
    }
}

static void send_below(uint32_t n, uint32_t root)
{
    for (uint32_t v = 1; v < n; v++)
        sends[(v + root) % n][((v & (v - 1)) + root) % n] = true;
}

static void send_around(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t far = 1; far < n; far *= 2)
            sends[i][(i + far) % n] = true;
}

static void send_to_all(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t other = 0; other < n; other++)
            sends[i][other] = i != other;
}

static void send_all(enum wring_algorithm algorithm, uint32_t n, uint32_t root)
{
    memset(sends, 0, sizeof(sends));
    switch (algorithm) {
    case WRING_ALLREDUCE_DOUBLING:
    case WRING_ALLREDUCE_HALVING:
    case WRING_ALLREDUCE_HALVING_PLACED:
        send_two_by_two(n);
        break;
    case WRING_ALLREDUCE_RING:
    case WRING_ALLREDUCE_RING_PLACED:
        for (uint32_t i = 0; n > 1 && i < n; i++)
            sends[i][(i + 1) % n] = true;
        break;
    case WRING_REDUCE_TREE:
        send_up_to(n, root);
        break;
    case WRING_BROADCAST_TREE:
    case WRING_GATHER_TREE:
    case WRING_SCATTER_TREE:
        send_below(n, root);
        break;
    case WRING_ALLGATHER_BRUCK:
    case WRING_ALLTOALL_BRUCK:
    case WRING_ALLREDUCE_BRUCK:
        send_around(n);
        break;
    default:
        send_to_all(n);
    }
}

static void check_pairs(enum wring_algorithm algorithm, uint32_t n, uint32_t me, uint32_t root)
{
    struct wring_collective collective = {.members = {.n = n, .me = me}};
    collective.work.algorithm = algorithm;
    collective.work.root = root;
    uint32_t next = wring_collective_next_pair(&collective, 0);

    for (uint32_t i = 0; i < n; i++) {
        bool wanted = sends[me][i] || sends[i][me];
        CHECK(wring_collective_pairs_with(&collective, i) == wanted,
              "%s, root %u: member %u of %u and %u", wring_algorithms[algorithm].name, root, me, n,
              i);
        if (!wanted)
            continue;
        CHECK(next == i, "%s, root %u: member %u of %u: %u, not %u",
              wring_algorithms[algorithm].name, root, me, n, next, i);
        next = wring_collective_next_pair(&collective, i + 1);
    }
    CHECK(next == n, "%s, root %u: member %u of %u: %u, which is none",
          wring_algorithms[algorithm].name, root, me, n, next);
}

static void all_pairs_are_found_and_no_others(void)
{
    for (unsigned algorithm = 0; algorithm < WRING_ALGORITHMS; algorithm++)
        for (uint32_t n = 1; n <= MEMBERS_MAX; n++)
            for (uint32_t root = 0; root < n; root += n < 20 ? 1 : 13) {
                send_all((enum wring_algorithm)algorithm, n, root);
                for (uint32_t me = 0; me < n; me++)
                    check_pairs((enum wring_algorithm)algorithm, n, me, root);
            }
}

/** Few of many, whichever way they exchange. */
static void turns_are_few(void)
{
    const uint32_t n = 16384;

    for (unsigned algorithm = 0; algorithm < WRING_ALGORITHMS; algorithm++)
        for (uint32_t me = 0; me < n; me += 1365) {
            struct wring_collective collective = {.members = {.n = n, .me = me}};
            uint32_t turns = 0;
            collective.work.algorithm = (enum wring_algorithm)algorithm;
            if (!wring_algorithm_has_neighbours(collective.work.algorithm))
                continue;
            for (uint32_t i = wring_collective_next_pair(&collective, 0); i < n;
                 i = wring_collective_next_pair(&collective, i + 1))
                turns++;
            CHECK(turns > 0 && turns <= 28, "%s: member %u: %u turns",
                  wring_algorithms[algorithm].name, me, turns);
        }
}

static const struct wring_test_case cases[] = {
    {"all_pairs_are_found_and_no_others", all_pairs_are_found_and_no_others},
    {"turns_are_few", turns_are_few},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
