/* SPDX-License-Identifier: Apache-2.0 */
/** What wring simulate draws: the slowest of many at once, as if each had been drawn. */
#include "tools/plan/draw.h"

#include <math.h>
#include <stdlib.h>

#include "tests/lib/test.h"

enum {
    DRAWS = 10000
};

/** P(a normal number ≤ x)^n, in logarithms. */
static double log_share(double x, uint64_t n)
{
    double beyond = erfc(x * M_SQRT1_2) / 2;
    double log_below = beyond < 0.5 ? log1p(-beyond) : log(erfc(-x * M_SQRT1_2) / 2);

    return (double)n * log_below;
}

/** Inverted, from one node alone to all the links of the largest cluster, to the ends of it. */
static void largest_is_the_inverse(void)
{
    static const uint64_t counts[] = {1, 2, 64, 4096, UINT64_C(1) << 20};
    static const double evens[] = {0x1p-54, 1e-9, 0.01, 0.3, 0.5, 0.9, 1 - 1e-9, 1 - 0x1p-53};

    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++)
        for (size_t j = 0; j < sizeof(evens) / sizeof(*evens); j++) {
            double x = wring_draw_largest(counts[i], evens[j]);
            double want = log(evens[j]), got = log_share(x, counts[i]);
            CHECK(fabs(got - want) <= 1e-9 * fabs(want), "%llu, %g: %.12g, not %.12g",
                  (unsigned long long)counts[i], evens[j], got, want);
        }
    CHECK(fabs(wring_draw_largest(1, 0.5)) < 1e-12, "half of all are above 0");
    CHECK(fabs(wring_draw_largest(1, 0.975) - 1.959963984540054) < 1e-9, "1.96 of tables");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Drawn one by one, the largest kept: what the closed form stands for. */
static double slowest_of_all(uint64_t key, uint64_t n, double sigma, double straggler)
{
    double slowest = 0;

    for (uint64_t i = 0; i < n; i++) {
        double x = wring_draw_slowest(wring_draw_key(key, i + 10), 1, sigma, 1);
        slowest = fmax(slowest, i == 0 ? straggler * x : x);
    }
    return slowest;
}

/** Both ways have the same quantiles. */
static void compare(uint64_t n, double sigma, double straggler)
{
    static double at_once[DRAWS], one_by_one[DRAWS];

    for (uint64_t i = 0; i < DRAWS; i++) {
        at_once[i] = wring_draw_slowest(wring_draw_key(1, i), n, sigma, straggler);
        one_by_one[i] = slowest_of_all(wring_draw_key(2, i), n, sigma, straggler);
    }
    qsort(at_once, DRAWS, sizeof(*at_once), by_value);
    qsort(one_by_one, DRAWS, sizeof(*one_by_one), by_value);
    for (int tenth = 1; tenth < 10; tenth++) {
        double a = at_once[DRAWS / 10 * tenth], b = one_by_one[DRAWS / 10 * tenth];
        CHECK(fabs(log(a / b)) < 0.08 * sigma, "%llu, %d tenths: %g, drawn one by one %g",
              (unsigned long long)n, tenth, a, b);
    }
}

static void slowest_is_that_of_all(void)
{
    compare(1, 0.1, 1);
    compare(2, 0.1, 1);
    compare(12, 0.3, 1);
    compare(8, 0.1, 1.2); /* either the straggler or one of the others */
}

static void nothing_by_chance(void)
{
    CHECK(wring_draw_slowest(7, 4096, 0, 1) == 1, "without jitter nobody is slower");
    CHECK(wring_draw_slowest(7, 4096, 0, 3) == 3, "but the straggler");
}

static void keys_differ(void)
{
    for (uint64_t i = 0; i < 1000; i++)
        for (uint64_t j = 0; j < i; j++)
            CHECK(wring_draw_key(i % 32, i / 32) != wring_draw_key(j % 32, j / 32),
                  "keys of %llu and %llu", (unsigned long long)i, (unsigned long long)j);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"largest_is_the_inverse", largest_is_the_inverse},
        {"slowest_is_that_of_all", slowest_is_that_of_all},
        {"nothing_by_chance", nothing_by_chance},
        {"keys_differ", keys_differ},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
