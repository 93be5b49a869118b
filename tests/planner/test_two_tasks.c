/* SPDX-License-Identifier: Apache-2.0 */
/** Two tasks side by side come to what each comes to by itself, to the last bit. */
#include "planner/core/search/cost_tables.h"
#include "tests/lib/test.h"

enum {
    STRIDE = 3
};

static double draw(uint32_t *random)
{
    return wring_test_random(random) % 1000003 / 7.0;
}

static void draw_task(uint32_t *random, bool chunked, struct wring_task *task)
{
    for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX; lane++) {
        task->took[lane] = draw(random);
        task->each[lane] = draw(random);
    }
    task->more = chunked ? 1 + wring_test_random(random) % 5 : 0;
}

static void check_one(uint32_t n_lanes, const struct wring_task *task, bool backward,
                      const double *from, const double *to, double most, double sum)
{
    double after[WRING_PLAN_LANES_MAX], want_most = 0, want_sum = 0;

    if (backward)
        wring_task_retreat(n_lanes, task, from, after);
    else
        wring_task_advance(n_lanes, task, from, after);
    for (uint32_t lane = 0; lane < n_lanes; lane++) {
        want_most = wring_later(want_most, after[lane] + to[lane * STRIDE]);
        want_sum += after[lane] + to[lane * STRIDE];
    }
    CHECK(most == want_most && sum == want_sum, "%u lanes, %g more chunks, %s: %.17g, not %.17g",
          n_lanes, task->more, backward ? "backward" : "forward", most, want_most);
}

/** @param chunked  a bit for each task */
static void check_two(uint32_t n_lanes, int chunked, bool backward, uint32_t *random)
{
    double from[WRING_PLAN_LANES_MAX], to[WRING_PLAN_LANES_MAX * STRIDE];
    struct wring_task tasks[2];

    for (int i = 0; i < 2; i++)
        draw_task(random, (chunked >> i & 1) != 0, &tasks[i]);
    for (uint32_t lane = 0; lane < WRING_PLAN_LANES_MAX; lane++) {
        from[lane] = draw(random);
        to[lane * STRIDE] = draw(random);
    }
    struct wring_two_times times =
        wring_two_tasks_meet(n_lanes, &tasks[0], &tasks[1], backward, from, to, STRIDE);
    for (int i = 0; i < 2; i++)
        check_one(n_lanes, &tasks[i], backward, from, to, times.most[i], times.sum[i]);
}

static void as_each_by_itself(void)
{
    uint32_t random = 7;

    for (int turn = 0; turn < 50; turn++)
        for (uint32_t n_lanes = 1; n_lanes <= WRING_PLAN_LANES_MAX; n_lanes++)
            for (int chunked = 0; chunked < 4; chunked++) {
                check_two(n_lanes, chunked, false, &random);
                check_two(n_lanes, chunked, true, &random);
            }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"as_each_by_itself", as_each_by_itself},
                                                   {NULL, NULL}};
    return wring_test_main(argc, argv, cases);
}
