/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/sweep_time.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/plan/sweep_draw.h"

enum {
    KEY_COMPUTING,
    KEY_LINKS,
};

/** The links of a level that an exchange passes on a lane, all of them at once. */
struct links {
    uint64_t n;        /* 0: the lane is no link */
    uint64_t key;      /* lanes with the same one are parts of one exchange */
    bool may_straggle; /* the one slow link is among them */
};

/** Inside nodes a link is a rank's, between nodes a node's, as profiles have it. */
static struct links links_of(const struct wring_cost_model *model, uint32_t lane)
{
    uint64_t ranks = (uint64_t)model->nodes * model->ranks_per_node;
    const struct {
        const char *lane;
        struct links links;
    } known[] = {{"intra-in", {ranks, 1, false}},
                 {"inter", {model->nodes, 2, true}},
                 {"intra-out", {ranks, 3, false}},
                 {WRING_LANE_EXCHANGE, {ranks, 4, true}},
                 {"rest of it", {ranks, 4, true}}};

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(known[i].lane, model->lanes[lane]) == 0)
            return known[i].links;
    return (struct links){0};
}

/** What a group takes on its links, which are as slow as they are in that exchange. */
static void slow_down(const struct wring_sweep_timing *timing, uint64_t key, double *once,
                      double *each)
{
    for (uint32_t lane = 0; lane < timing->model->problem.n_lanes; lane++) {
        struct links links = links_of(timing->model, lane);
        if (links.n == 0)
            continue;
        double factor =
            wring_draw_slowest(wring_draw_key(key, links.key), links.n, timing->link_jitter,
                               links.may_straggle ? timing->sweep->link_straggler : 1);
        once[lane] *= factor;
        each[lane] *= factor;
    }
}

/** An iteration. @param factor  of computing @param key  of its exchanges */
static double time_exchanges(const struct wring_sweep_timing *timing,
                             const struct wring_grouping *grouping, double factor, uint64_t key)
{
    struct wring_problem slowed = timing->model->problem;
    double ends[WRING_PLAN_LANES_MAX] = {0}, once[WRING_PLAN_LANES_MAX], each[WRING_PLAN_LANES_MAX];
    uint32_t begin = 0;

    for (uint32_t i = 0; i < slowed.n_tensors; i++)
        timing->compute_us[i] = timing->model->problem.compute_us[i] * factor;
    slowed.compute_us = timing->compute_us;
    for (uint32_t group = 0; group < grouping->n; begin = grouping->end[group++]) {
        uint64_t chunks = wring_problem_group(&slowed, begin, grouping->end[group],
                                              grouping->option[group], once, each);
        slow_down(timing, wring_draw_key(key, begin), once, each);
        wring_problem_advance(&slowed, chunks, once, each, ends);
    }
    return ends[slowed.n_lanes - 1];
}

/** Local steps: each computes by itself; what is exchanged after H of them travels during the next
 * H, and only what is left then is waited for. */
static double time_local(double step_us, double exchange_us, uint32_t steps)
{
    return step_us + fmax(0, exchange_us - steps * step_us) / steps;
}

static double time_once(const struct wring_sweep_timing *timing,
                        const struct wring_grouping *grouping, uint32_t iteration)
{
    const struct wring_sweep *sweep = timing->sweep;
    uint64_t key = wring_draw_key(wring_draw_key(sweep->seed, timing->model->nodes), iteration);
    double factor = wring_draw_slowest(wring_draw_key(key, KEY_COMPUTING), timing->model->nodes,
                                       sweep->jitter, sweep->straggler);

    key = wring_draw_key(key, KEY_LINKS);
    if (timing->local_steps == 1)
        return time_exchanges(timing, grouping, factor, key);
    double exchange_us = time_exchanges(timing, grouping, 1, key); /* all is there at once */
    double step_us = (timing->forward_us + timing->last_ready_us) * factor;
    return time_local(step_us, exchange_us, timing->local_steps) - timing->forward_us;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double wring_sweep_time(const struct wring_sweep_timing *timing,
                        const struct wring_grouping *grouping, double *p90_us)
{
    uint32_t n = timing->sweep->iterations;

    for (uint32_t i = 0; i < n; i++)
        timing->times[i] = time_once(timing, grouping, i);
    qsort(timing->times, n, sizeof(*timing->times), by_value);
    *p90_us = timing->times[(n * 9 + 9) / 10 - 1];
    return timing->times[n / 2];
}
