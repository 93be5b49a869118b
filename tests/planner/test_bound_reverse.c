/* SPDX-License-Identifier: Apache-2.0 */
/** A problem seen from its end: whatever the grouping, it takes as long. */
#include <math.h>
#include <string.h>

#include "planner/tool/bound/flow.h"
#include "planner/tool/bound/groups.h"
#include "tests/lib/test.h"
#include "tests/planner/exhaust.h"
#include "tests/planner/made_problem.h"

enum {
    TENSORS_MAX = 16,
    OPTIONS_MAX = 6
};

struct made_grouping {
    uint32_t end[TENSORS_MAX], option[TENSORS_MAX];
    struct wring_grouping grouping;
};

/** An option that these tensors may take: all may take the first one. */
static uint32_t draw_option(const struct wring_problem *problem, uint32_t begin, uint32_t end,
                            uint32_t *random)
{
    uint32_t option = wring_test_random(random) % problem->n_options;

    for (uint32_t i = begin; i < end; i++)
        if (!wring_problem_allows(problem, i, option))
            return 0;
    return option;
}

static void draw(const struct wring_problem *problem, uint32_t *random, struct made_grouping *made)
{
    struct wring_grouping *grouping = &made->grouping;
    uint32_t begin = 0;

    *grouping = (struct wring_grouping){.end = made->end, .option = made->option};
    for (uint32_t end = 1; end <= problem->n_tensors; end++)
        if (end == problem->n_tensors || wring_test_random(random) % 3 == 0) {
            made->end[grouping->n] = end;
            made->option[grouping->n++] = draw_option(problem, begin, end, random);
            begin = end;
        }
}

static void takes_as_long(void)
{
    uint32_t random = 3;

    for (uint32_t seed = 1; seed <= 400; seed += WRING_TEST_STRIDE) {
        struct wring_made_problem made;
        struct wring_reversed back;
        struct made_grouping there, kept;
        wring_made_seeded(seed, TENSORS_MAX, OPTIONS_MAX, &made);
        REQUIRE(wring_reversed_init(&back, &made.problem) == WRING_OK, "seed %u", seed);
        for (int turn = 0; turn < 5; turn++) {
            draw(&made.problem, &random, &there);
            kept = there;
            double time = wring_problem_time(&made.problem, &there.grouping);
            wring_grouping_reverse(&there.grouping);
            CHECK(wring_exhaust_valid(&back.problem, &there.grouping), "seed %u", seed);
            double again = wring_problem_time(&back.problem, &there.grouping);
            CHECK(fabs(again - time) <= 1e-12 * time, "seed %u: %.15g, not %.15g", seed, again,
                  time);
            wring_grouping_reverse(&there.grouping);
            uint32_t bytes = kept.grouping.n * sizeof(uint32_t);
            CHECK(there.grouping.n == kept.grouping.n && memcmp(there.end, kept.end, bytes) == 0 &&
                      memcmp(there.option, kept.option, bytes) == 0,
                  "seed %u: reversed twice it is another one", seed);
        }
        wring_reversed_finish(&back);
        wring_made_finish(&made);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"takes_as_long", takes_as_long}, {NULL, NULL}};
    return wring_test_main(argc, argv, cases);
}
