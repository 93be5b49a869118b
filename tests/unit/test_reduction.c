/* SPDX-License-Identifier: Apache-2.0 */
/* A reduction gives the bits of its definition in every tier, however few the elements. */
#include "compress/reduce.h"

#include <math.h>
#include <string.h>

#include "tests/lib/elements.h"
#include "tests/lib/test.h"

#define RUNS 64
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
    wring_test_reduce(WRING_F32, op, runs, (uint32_t)n, elems, want);
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
        for (size_t n = 1; n <= RUNS; n += n < 18 ? 1 : 23)
            for (uint64_t elems = 1; elems <= ELEMS; elems += n < 10 ? 1 : 7) {
                for (size_t i = 0; i < (size_t)RUNS * ELEMS; i++)
                    values[i / ELEMS][i % ELEMS] = some_value(&random);
                compare(tiers[tier], WRING_SUM, n, elems);
                compare(tiers[tier], WRING_AVG, n, elems);
            }
}

/** Every type and operation over more runs than are folded, of elements in several blocks. */
static void every_type_by_the_tree(void)
{
    enum {
        N = 1100
    };
    static const size_t counts[] = {9, 12, 16, 17, 33, 64};
    static uint64_t in[RUNS][2 * N], want[2 * N], got[2 * N];
    const void *runs[RUNS];

    for (int dtype = 0; dtype < WRING_DTYPES; dtype++)
        for (int op = 0; op < WRING_PREMUL_SUM; op++)
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                if (!wring_op_takes((enum wring_op)op, (enum wring_dtype)dtype))
                    continue;
                size_t bytes = N * wring_dtype_bytes((enum wring_dtype)dtype);
                for (uint32_t r = 0; r < counts[i]; r++) {
                    wring_test_fill((enum wring_dtype)dtype, in[r], N,
                                    (enum wring_test_kind)((op + i) % WRING_TEST_KINDS), r + 3);
                    runs[r] = in[r];
                }
                wring_test_reduce((enum wring_dtype)dtype, (enum wring_op)op, runs,
                                  (uint32_t)counts[i], N, want);
                for (int tier = 0; tier < 3; tier++) {
                    struct wring_reduction reduction =
                        wring_reduction_find((enum wring_dtype)dtype, (enum wring_op)op, counts[i],
                                             (const char *const[]){"scalar", "avx2", "best"}[tier]);
                    wring_reduction_run(&reduction, got, runs, N);
                    CHECK(memcmp(want, got, bytes) == 0, "%s %s of %zu, tier %d",
                          wring_dtype_name((enum wring_dtype)dtype),
                          wring_op_name((enum wring_op)op), counts[i], tier);
                }
                struct wring_reduction reduction = wring_reduction_find(
                    (enum wring_dtype)dtype, (enum wring_op)op, counts[i], "best");
                wring_reduction_run(&reduction, in[counts[i] / 2], runs, N);
                CHECK(memcmp(want, in[counts[i] / 2], bytes) == 0, "in place: %s %s of %zu",
                      wring_dtype_name((enum wring_dtype)dtype), wring_op_name((enum wring_op)op),
                      counts[i]);
            }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sums_have_the_same_bits", sums_have_the_same_bits},
        {"every_type_by_the_tree", every_type_by_the_tree},
        {NULL, NULL},
    };
    return wring_test_main_in_mode(argc, argv, cases);
}
