/* SPDX-License-Identifier: Apache-2.0 */
/* A reduction gives the bits of its first tier's kernel, however few the elements. */
#include "compress/reduction.h"

#include <math.h>
#include <string.h>

#include "tests/lib/test.h"

#define RUNS 5
#define ELEMS 70

static float values[RUNS][ELEMS];

static float some_value(uint32_t *random)
{
    static const float special[] = {0.0f, -0.0f, 1e-42f, 3e38f, INFINITY, -INFINITY, NAN, -NAN};
    uint32_t bits = wring_test_random(random);
    if (bits % 8 == 0)
        return special[bits / 8 % (sizeof(special) / sizeof(special[0]))];
    return (float)(int32_t)bits * 0x1p-20f;
}

static void compare(const char *tier, enum wring_op op, size_t n, uint64_t elems)
{
    struct wring_reduction reduction = wring_reduction_find(WRING_F32, op, n, tier);
    const void *runs[RUNS];
    float want[ELEMS], got[ELEMS];

    for (size_t run = 0; run < n; run++)
        runs[run] = values[run];
    wring_sum_tiers[0].sum(want, runs, n, elems, op == WRING_AVG ? (float)n : 1);
    wring_reduction_run(&reduction, got, runs, elems);
    CHECK(memcmp(want, got, elems * sizeof(*got)) == 0, "%s, op %d, %zu runs of %llu", tier,
          (int)op, n, (unsigned long long)elems);
    wring_reduction_run(&reduction, values[0], runs, elems); /* in place */
    CHECK(memcmp(want, values[0], elems * sizeof(*got)) == 0, "in place: %s, %zu runs of %llu",
          tier, n, (unsigned long long)elems);
}

static void sums_have_the_same_bits(void)
{
    uint32_t random = 1;
    static const char *const tiers[] = {"scalar", "best"};

    for (size_t tier = 0; tier < 2; tier++)
        for (size_t n = 1; n <= RUNS; n++)
            for (uint64_t elems = 1; elems <= ELEMS; elems++) {
                for (size_t i = 0; i < (size_t)RUNS * ELEMS; i++)
                    values[i / ELEMS][i % ELEMS] = some_value(&random);
                compare(tiers[tier], WRING_SUM, n, elems);
                compare(tiers[tier], WRING_AVG, n, elems);
            }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sums_have_the_same_bits", sums_have_the_same_bits},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
