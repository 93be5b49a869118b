/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/bench_search.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "planner/core/search/cost_tables.h"
#include "tests/lib/test.h"
#include "tests/planner/made_problem.h"
#include "tests/planner/traced.h"

enum {
    TENSORS = 314, /* as many as ResNet101 has, on the six lanes of the made fabric */
    TURNS = 15,
};

/** Heads and tails at each tensor of a grouping in which each is a group. */
struct cuts {
    double heads[TENSORS + 1][WRING_PLAN_LANES_MAX];
    double tails[TENSORS + 1][WRING_PLAN_LANES_MAX];
};

static volatile double sink; /* what is timed has to be needed */

static void make_problem(struct wring_made_problem *made)
{
    uint64_t elems[TENSORS];
    double ready_us[TENSORS];
    uint32_t random = 1;

    for (int i = 0; i < TENSORS; i++) {
        elems[i] = 1 + wring_test_random(&random) % (i % 3 == 0 ? 2000000 : 4000);
        ready_us[i] = 400.0 * i;
    }
    wring_made_fabric(TENSORS, elems, ready_us, false, 1, made);
}

static void work_out(const struct wring_cost_tables *tables, struct cuts *cuts)
{
    struct wring_task task;

    for (uint32_t i = 0; i < TENSORS; i++) {
        wring_cost_tables_task(tables, i, i + 1, i % tables->n_options, &task);
        wring_task_advance(tables->n_lanes, &task, cuts->heads[i], cuts->heads[i + 1]);
    }
    for (uint32_t i = TENSORS; i-- > 0;) {
        wring_cost_tables_task(tables, i, i + 1, i % tables->n_options, &task);
        wring_task_retreat(tables->n_lanes, &task, cuts->tails[i + 1], cuts->tails[i]);
    }
}

/** One tensor with another option, and the time of the whole. @return evaluations */
static uint64_t change_options(const struct wring_cost_tables *tables, const struct cuts *cuts)
{
    double heads[WRING_PLAN_LANES_MAX], least = 1e300;
    struct wring_task task;

    for (uint32_t option = 0; option < tables->n_options; option++)
        for (uint32_t i = 0; i < TENSORS; i++) {
            wring_cost_tables_task(tables, i, i + 1, option, &task);
            wring_task_advance(tables->n_lanes, &task, cuts->heads[i], heads);
            double time = wring_heads_meet(tables->n_lanes, heads, cuts->tails[i + 1]);
            least = time < least ? time : least;
        }
    sink = least;
    return (uint64_t)tables->n_options * TENSORS;
}

/** Two neighbours parted elsewhere. @return evaluations */
static uint64_t move_borders(const struct wring_cost_tables *tables, const struct cuts *cuts)
{
    double heads[WRING_PLAN_LANES_MAX], least = 1e300;
    struct wring_task task;
    uint64_t n = 0;

    for (uint32_t i = 0; i + 8 < TENSORS; i++)
        for (uint32_t border = i + 1; border < i + 8; border++, n++) {
            wring_cost_tables_task(tables, i, border, i % tables->n_options, &task);
            wring_task_advance(tables->n_lanes, &task, cuts->heads[i], heads);
            wring_cost_tables_task(tables, border, i + 8, i % tables->n_options, &task);
            wring_task_advance(tables->n_lanes, &task, heads, heads);
            double time = wring_heads_meet(tables->n_lanes, heads, cuts->tails[i + 8]);
            least = time < least ? time : least;
        }
    sink = least;
    return n;
}

/** Every group anew, from rates. @return evaluations */
static uint64_t evaluate_all(const struct wring_cost_tables *tables, const struct cuts *cuts)
{
    double heads[WRING_PLAN_LANES_MAX];
    struct wring_task task;

    for (uint32_t i = 0; i < WRING_PLAN_LANES_MAX; i++)
        heads[i] = cuts->heads[0][i];
    for (uint32_t i = 0; i < TENSORS; i++) {
        wring_cost_tables_task(tables, i, i + 1, i % tables->n_options, &task);
        wring_task_advance(tables->n_lanes, &task, heads, heads);
    }
    sink = heads[tables->n_lanes - 1];
    return 1;
}

/** As evaluate_all(), from the problem itself. */
static uint64_t evaluate_plainly(const struct wring_cost_tables *tables, const struct cuts *cuts)
{
    uint32_t end[TENSORS], option[TENSORS];
    struct wring_grouping grouping = {TENSORS, end, option};

    (void)cuts;
    for (uint32_t i = 0; i < TENSORS; i++) {
        end[i] = i + 1;
        option[i] = i % tables->n_options;
    }
    sink = wring_problem_time(tables->problem, &grouping);
    return 1;
}

/** The fastest of many turns. */
static void time_it(const char *name,
                    uint64_t (*run)(const struct wring_cost_tables *, const struct cuts *),
                    const struct wring_cost_tables *tables, const struct cuts *cuts)
{
    double best = 0;

    for (int turn = 0; turn < TURNS; turn++) {
        uint64_t evaluations = 0, began_ns = wring_now_ns(), now_ns;
        do {
            for (int i = 0; i < 20; i++)
                evaluations += run(tables, cuts);
            now_ns = wring_now_ns();
        } while (now_ns - began_ns < 5 * WRING_NS_PER_MS);
        double speed = (double)evaluations * 1e9 / (double)(now_ns - began_ns);
        best = speed > best ? speed : best;
    }
    printf("%-44s %12.0f per second\n", name, best);
}

static int bench_evaluations(void)
{
    static struct cuts cuts;
    struct wring_made_problem made;
    struct wring_cost_tables tables;

    make_problem(&made);
    if (wring_cost_tables_init(&tables, &made.problem) != WRING_OK)
        return 1;
    work_out(&tables, &cuts);
    printf("%d tensors, %u lanes, one core, the fastest of %d turns\n", TENSORS, tables.n_lanes,
           TURNS);
    time_it("a group's option changed, incrementally", change_options, &tables, &cuts);
    time_it("a border moved, incrementally", move_borders, &tables, &cuts);
    time_it("all groups, from rates", evaluate_all, &tables, &cuts);
    time_it("all groups, from the problem", evaluate_plainly, &tables, &cuts);
    wring_cost_tables_finish(&tables);
    wring_made_finish(&made);
    return 0;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void bench_method(struct wring_traced *traced, enum wring_search_method method,
                         const char *name)
{
    uint64_t took_ns[TURNS];
    struct wring_found found;

    for (int i = 0; i < TURNS; i++) {
        found = wring_traced_search(traced, method);
        took_ns[i] = found.took_ns;
        wring_grouping_finish(&found.grouping);
    }
    qsort(took_ns, TURNS, sizeof(*took_ns), by_time);
    printf("  %-10s %12.1f us, found in %7.2f ms (fastest %.2f), %8llu evaluations\n", name,
           found.time_us, 1e-6 * (double)took_ns[TURNS / 2], 1e-6 * (double)took_ns[0],
           (unsigned long long)found.evaluations);
}

static int bench_trace(const char *path, const char *profile)
{
    struct wring_traced traced;

    if (!wring_traced_init(&traced, path, profile, "randk:ratio=0.01"))
        return 1;
    printf("%s on %s: %u tensors, %u options, the last gradient ready at %.1f us\n",
           traced.trace->model, profile, traced.trace->n, traced.model->problem.n_options,
           traced.trace->tensors[traced.trace->n - 1].ready_us);
    bench_method(&traced, WRING_SEARCH_BEST, "best");
    bench_method(&traced, WRING_SEARCH_ESPRESSO, "espresso");
    bench_method(&traced, WRING_SEARCH_MERGECOMP, "mergecomp");
    wring_traced_finish(&traced);
    return 0;
}

int wring_bench_search(int n_traces, char **traces)
{
    int failed = bench_evaluations();

    for (int i = 0; i < n_traces; i++) {
        failed |= bench_trace(traces[i], "espresso-pcie");
        failed |= bench_trace(traces[i], "espresso-nvlink");
    }
    return failed;
}
