/* SPDX-License-Identifier: Apache-2.0 */
/** The problem's arithmetic: costs, and chunks in closed form against a chunk by chunk walk. */
#include <math.h>

#include "planner/core/problem.h"
#include "tests/lib/test.h"

static double some(uint32_t *random, double most)
{
    return most * (double)(wring_test_random(random) >> 8) / 16777216.0;
}

static struct wring_cost some_cost(uint32_t *random)
{
    struct wring_cost cost = {.n = wring_test_random(random) % (WRING_COST_CORNERS + 1)};
    double x = 0, y = some(random, 10);

    for (uint32_t i = 0; i < cost.n; i++) {
        cost.corners[i].x = x;
        cost.corners[i].y = y;
        x += 1 + some(random, 1000);
        y += some(random, 10);
    }
    cost.slope = some(random, 0.1);
    return cost;
}

static void cost_shapes(void)
{
    struct wring_cost nothing = {0};
    struct wring_cost line = wring_cost_line(5, 2);
    struct wring_cost knee = {.n = 2, .slope = 3, .corners = {{10, 1}, {20, 2}}};

    CHECK(wring_cost_at(&nothing, 1e9) == 0, "no corners cost something");
    CHECK(wring_cost_at(&line, 0) == 5 && wring_cost_at(&line, 10) == 25, "a line is no line");
    CHECK(wring_cost_at(&knee, 0) == 1, "not level before the first corner");
    CHECK(wring_cost_at(&knee, 15) == 1.5, "not on the line between corners");
    CHECK(wring_cost_at(&knee, 20) == 2 && wring_cost_at(&knee, 30) == 32, "not on the last slope");
}

static void cost_arithmetic(void)
{
    uint32_t random = 1;

    for (int turn = 0; turn < 2000; turn++) {
        struct wring_cost a = some_cost(&random), b = some_cost(&random);
        if (a.n + b.n > WRING_COST_CORNERS)
            continue; /* sums of more are not exact */
        struct wring_cost sum = wring_cost_add(&a, &b), scaled = wring_cost_scale(&a, 3, 0.25);
        for (int i = 0; i < 20; i++) {
            double x = some(&random, 12000);
            double want = wring_cost_at(&a, x) + wring_cost_at(&b, x);
            CHECK(fabs(wring_cost_at(&sum, x) - want) <= 1e-9 * (1 + want), "sum at %g", x);
            want = 3 * wring_cost_at(&a, 0.25 * x);
            CHECK(fabs(wring_cost_at(&scaled, x) - want) <= 1e-9 * (1 + want), "scaled at %g", x);
        }
    }
}

static void cost_of_larger(void)
{
    struct wring_cost small = {.n = 2, .slope = 9, .corners = {{10, 1}, {20, 2}}}, nothing = {0};
    struct wring_cost large = {.n = 3, .slope = 1, .corners = {{10, 7}, {30, 1.5}, {40, 8}}};
    struct wring_cost both = wring_cost_continue(&small, 25, &large);
    struct wring_cost one = wring_cost_continue(&nothing, 25, &large);

    CHECK(wring_cost_at(&both, 15) == 1.5 && wring_cost_at(&both, 25) == 47, "not as it was");
    CHECK(wring_cost_at(&both, 30) == 47 && wring_cost_at(&both, 40) == 47, "it falls");
    CHECK(wring_cost_at(&both, 50) == 57, "not on the other's slope: %g", wring_cost_at(&both, 50));
    CHECK(wring_cost_at(&one, 50) == 18, "not the other");
    small.slope = 0.25;
    both = wring_cost_continue(&small, 25, &large);
    CHECK(wring_cost_at(&both, 40) == 8, "%g at a corner", wring_cost_at(&both, 40));
}

static void cost_of_cost(void)
{
    uint32_t random = 4;

    for (int turn = 0; turn < 2000; turn++) {
        struct wring_cost outer = some_cost(&random), inner = some_cost(&random);
        if (outer.n + inner.n > WRING_COST_CORNERS)
            continue;
        for (uint32_t i = 0; i < outer.n; i++)
            outer.corners[i].x /= 50; /* where inner's values are */
        struct wring_cost both = wring_cost_of(&outer, &inner);
        for (int i = 0; i < 50; i++) {
            double x = some(&random, i % 2 == 0 ? 12000 : 1000);
            double want = inner.n ? wring_cost_at(&outer, wring_cost_at(&inner, x)) : 0;
            CHECK(fabs(wring_cost_at(&both, x) - want) <= 1e-9 * (1 + want),
                  "turn %d at %g: %g, not %g", turn, x, wring_cost_at(&both, x), want);
        }
    }
}

static void cost_below(void)
{
    uint32_t random = 2, below = 0;

    for (int turn = 0; turn < 2000; turn++) {
        struct wring_cost a = some_cost(&random), b = some_cost(&random);
        bool claimed = wring_cost_below(&a, &b);
        below += claimed;
        for (int i = 0; i < 50 && claimed; i++) {
            double x = some(&random, 1e5);
            CHECK(wring_cost_at(&a, x) <= wring_cost_at(&b, x) + 1e-9, "above at %g", x);
        }
        CHECK(wring_cost_below(&a, &a), "not below itself");
    }
    CHECK(below > 50, "only %u of the pairs were below: nothing was tested", below);
}

/** The definition: chunk after chunk, lane after lane. */
static void walk_chunks(uint32_t n_lanes, uint64_t chunks, const double *once, const double *each,
                        double *ends)
{
    for (uint64_t chunk = 0; chunk < chunks; chunk++)
        for (uint32_t lane = 0; lane < n_lanes; lane++) {
            double begin = lane > 0 && ends[lane - 1] > ends[lane] ? ends[lane - 1] : ends[lane];
            ends[lane] = begin + each[lane] + (chunk == 0 ? once[lane] : 0);
        }
}

static void chunks(void)
{
    uint32_t random = 3;

    for (int turn = 0; turn < 5000; turn++) {
        struct wring_problem problem = {.n_lanes =
                                            1 + wring_test_random(&random) % WRING_PLAN_LANES_MAX};
        uint64_t chunks = 1 + wring_test_random(&random) % 20;
        double once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX], want[WRING_PLAN_LANES_MAX],
            got[WRING_PLAN_LANES_MAX];

        for (uint32_t lane = 0; lane < problem.n_lanes; lane++) {
            once[lane] = some(&random, 5);
            each[lane] = wring_test_random(&random) % 4 == 0 ? 0 : some(&random, 5);
            want[lane] = got[lane] = some(&random, 30);
        }
        walk_chunks(problem.n_lanes, chunks, once, each, want);
        wring_problem_advance(&problem, chunks, once, each, got);
        for (uint32_t lane = 0; lane < problem.n_lanes; lane++)
            CHECK(fabs(want[lane] - got[lane]) < 1e-9, "lane %u of %u, %llu chunks: %g, not %g",
                  lane, problem.n_lanes, (unsigned long long)chunks, got[lane], want[lane]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"cost_shapes", cost_shapes},
        {"cost_arithmetic", cost_arithmetic},
        {"cost_of_larger", cost_of_larger},
        {"cost_of_cost", cost_of_cost},
        {"cost_below", cost_below},
        {"chunks", chunks},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
