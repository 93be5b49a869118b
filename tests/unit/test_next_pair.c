/* SPDX-License-Identifier: Apache-2.0 */
/* To go through those that a member exchanges with takes as many turns as they are. */
#include "tests/lib/test.h"
#include "transport/collective/collective.h"

static void check_pairs(enum wring_algorithm algorithm, uint32_t n, uint32_t me)
{
    struct wring_collective collective = {.members = {.n = n, .me = me}};
    collective.work.algorithm = algorithm;
    uint32_t next = wring_collective_next_pair(&collective, 0), turns = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!wring_collective_pairs_with(&collective, i))
            continue;
        CHECK(next == i, "member %u of %u: %u, not %u", me, n, next, i);
        next = wring_collective_next_pair(&collective, i + 1);
        turns++;
    }
    CHECK(next == n, "member %u of %u: %u, which is none", me, n, next);
    CHECK(!wring_algorithm_has_partners(algorithm) || turns <= wring_partners_most(n),
          "member %u of %u: %u turns", me, n, turns);
}

static void all_pairs_are_found_and_no_others(void)
{
    static const enum wring_algorithm algorithms[] = {
        WRING_ALLREDUCE_DOUBLING, WRING_ALLREDUCE_HALVING, WRING_ALLREDUCE_TWO_SHOT};
    for (size_t a = 0; a < sizeof(algorithms) / sizeof(algorithms[0]); a++)
        for (uint32_t n = 1; n <= 70; n++)
            for (uint32_t me = 0; me < n; me++)
                check_pairs(algorithms[a], n, me);
    for (uint32_t me = 0; me < 16384; me += 1365)
        check_pairs(WRING_ALLREDUCE_DOUBLING, 16384, me);
}

static const struct wring_test_case cases[] = {
    {"all_pairs_are_found_and_no_others", all_pairs_are_found_and_no_others},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
