/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/files/tensor_trace.h"
#include "tools/plan/sweep.h"

/** splitmix64, a generator that any seed starts well (Steele and others, OOPSLA 2014). */
static double draw_uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return ((double)((z ^ (z >> 31)) >> 11) + 0.5) * 0x1p-53;
}

/** Box and Muller's way to a normal number. */
static double draw_normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(draw_uniform(state)));
    return radius * cos(2 * M_PI * draw_uniform(state));
}

/** How much longer than usual the slowest node computes: all wait for it. */
static double draw_slowest(const struct wring_sweep *sweep, uint32_t nodes, uint64_t *state)
{
    double slowest = 0;

    for (uint32_t node = 0; node < nodes; node++) {
        double factor = sweep->jitter > 0 ? exp(sweep->jitter * draw_normal(state)) : 1;
        if (node == 0)
            factor *= sweep->straggler;
        slowest = fmax(slowest, factor);
    }
    return slowest;
}

/**
 * Of what a node exchanges with every other, (nodes − rack) / (nodes − 1) leaves its rack, over a
 * way that is oversubscribed; the rest does not.
 */
static double rack_slowdown(const struct wring_sweep *sweep, uint32_t nodes)
{
    if (sweep->rack == 0 || nodes <= sweep->rack)
        return 1;
    double leaves = (double)(nodes - sweep->rack) / (double)(nodes - 1);
    return fmax(1, leaves * sweep->oversubscription);
}

/** A plan's time where computing takes `factor` times as long. @param compute_us [n] scratch */
static double time_slowed(const struct wring_problem *problem,
                          const struct wring_grouping *grouping, double factor, double *compute_us)
{
    struct wring_problem slowed = *problem;

    for (uint32_t i = 0; i < problem->n_tensors; i++)
        compute_us[i] = problem->compute_us[i] * factor;
    slowed.compute_us = compute_us;
    return wring_problem_time(&slowed, grouping);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/** Local steps: each computes by itself; what is exchanged after H of them travels during the next
 * H, and only what is left then is waited for. */
static double time_local(double step_us, double exchange_us, uint32_t steps)
{
    return step_us + fmax(0, exchange_us - steps * step_us) / steps;
}

struct timing {
    const struct wring_sweep *sweep;
    const struct wring_problem *problem;
    double forward_us, last_ready_us;
    uint32_t local_steps;
    double *factors;    /* [iterations] of the slowest node */
    double *times;      /* [iterations] scratch */
    double *compute_us; /* [n_tensors] scratch */
};

static double time_once(const struct timing *timing, const struct wring_grouping *grouping,
                        double factor)
{
    if (timing->local_steps == 1)
        return time_slowed(timing->problem, grouping, factor, timing->compute_us);
    double exchange_us = time_slowed(timing->problem, grouping, 0, timing->compute_us);
    double step_us = (timing->forward_us + timing->last_ready_us) * factor;
    return time_local(step_us, exchange_us, timing->local_steps) - timing->forward_us;
}

/** Median and 90th percentile over the drawn iterations. */
static double time_all(const struct timing *timing, const struct wring_grouping *grouping,
                       double *p90)
{
    uint32_t n = timing->sweep->iterations;

    for (uint32_t i = 0; i < n; i++)
        timing->times[i] = time_once(timing, grouping, timing->factors[i]);
    qsort(timing->times, n, sizeof(*timing->times), by_value);
    *p90 = timing->times[(n * 9 + 9) / 10 - 1];
    return timing->times[n / 2];
}

/** The better of two ways to send everything with one option. */
static double time_baseline(const struct timing *timing, const struct wring_baseline *baseline)
{
    double p90;

    if (baseline->grouping.n == 0)
        return NAN;
    return time_all(timing, &baseline->grouping, &p90);
}

static void draw_factors(const struct wring_sweep *sweep, uint32_t nodes, double *factors)
{
    uint64_t state = sweep->seed * 0x9e3779b97f4a7c15 + nodes;

    for (uint32_t i = 0; i < sweep->iterations; i++)
        factors[i] = draw_slowest(sweep, nodes, &state);
}

static void compare(const struct timing *timing, struct wring_point *point)
{
    double alone = timing->forward_us + timing->last_ready_us;
    double takes = timing->forward_us + point->iteration_us;

    point->scaling_factor = alone / takes;
    point->speedup_fp32 = (timing->forward_us + point->fp32_us) / takes;
    point->speedup_fp16 = (timing->forward_us + point->fp16_us) / takes;
}

/** Forward takes half of backward's time, where a trace does not say. */
static double forward_of(const struct wring_tensor_trace *trace)
{
    return isnan(trace->forward_us) ? trace->tensors[trace->n - 1].ready_us / 2 : trace->forward_us;
}

static void fill_point(struct timing *timing, const struct wring_planned *planned,
                       struct wring_point *point)
{
    timing->problem = &planned->model->problem;
    timing->last_ready_us = planned->last_ready_us;
    timing->forward_us = forward_of(timing->sweep->planning.trace);
    timing->local_steps = point->local_steps;
    point->ranks = planned->model->nodes * planned->model->ranks_per_node;
    point->forward_us = timing->forward_us;
    point->last_ready_us = planned->last_ready_us;
    point->iteration_us = time_all(timing, &planned->found.grouping, &point->p90_us);
    point->fp32_us = time_baseline(timing, &planned->fp32);
    point->fp16_us = time_baseline(timing, &planned->fp16);
    compare(timing, point);
}

uint64_t wring_sweep_count(const struct wring_sweep *sweep)
{
    uint64_t sets = sweep->each && sweep->planning.n_codecs > 1 ? sweep->planning.n_codecs + 1 : 1;

    return sets * sweep->n_nodes * sweep->n_links * sweep->n_local_steps;
}

/** The set-ups of one cluster and one set of codecs: they share a plan. */
static enum wring_status run_cluster(const struct wring_sweep *sweep, struct timing *timing,
                                     const struct wring_point *set_up, bool *more,
                                     wring_point_fn each, void *arg)
{
    struct wring_planned_want want = {.nodes = set_up->nodes,
                                      .link_gbit =
                                          set_up->link_gbit / rack_slowdown(sweep, set_up->nodes)};
    struct wring_planned planned;
    enum wring_status status = wring_planned_init(&sweep->planning, &want, &planned);

    if (status != WRING_OK)
        return status;
    for (uint32_t i = 0; *more && i < sweep->n_local_steps; i++) {
        struct wring_point point = *set_up;
        point.local_steps = sweep->local_steps[i];
        fill_point(timing, &planned, &point);
        *more = each(arg, &point);
    }
    wring_planned_finish(&planned);
    return WRING_OK;
}

/** All clusters, for the codecs that the question has now. */
static enum wring_status run_codecs(const struct wring_sweep *sweep, struct timing *timing,
                                    const char *codec, bool *more, wring_point_fn each, void *arg)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < sweep->n_links; i++)
        for (uint32_t j = 0; *more && j < sweep->n_nodes; j++) {
            struct wring_point set_up = {
                .nodes = sweep->nodes[j], .link_gbit = sweep->link_gbit[i], .codec = codec};
            draw_factors(sweep, set_up.nodes, timing->factors);
            status = run_cluster(sweep, timing, &set_up, more, each, arg);
            if (status != WRING_OK)
                return status;
        }
    return WRING_OK;
}

/** Each codec by itself, after all together. */
static enum wring_status run_each(struct wring_sweep *sweep, struct timing *timing, bool *more,
                                  wring_point_fn each, void *arg)
{
    size_t n = sweep->planning.n_codecs;
    char *codecs[WRING_PLANNING_CODECS_MAX];
    enum wring_status status = WRING_OK;

    memcpy(codecs, sweep->planning.codecs, sizeof(codecs));
    sweep->planning.n_codecs = 1;
    for (size_t i = 0; i < n && *more && status == WRING_OK; i++) {
        sweep->planning.codecs[0] = codecs[i];
        status = run_codecs(sweep, timing, codecs[i], more, each, arg);
    }
    memcpy(sweep->planning.codecs, codecs, sizeof(codecs));
    sweep->planning.n_codecs = n;
    return status;
}

enum wring_status wring_sweep_run(struct wring_sweep *sweep, wring_point_fn each, void *arg)
{
    uint32_t n = sweep->iterations;
    struct timing timing = {
        .sweep = sweep,
        .factors = calloc(n, sizeof(double)),
        .times = calloc(n, sizeof(double)),
        .compute_us = calloc(sweep->planning.trace->n, sizeof(double)),
    };
    enum wring_status status = WRING_ERR_NO_MEMORY;
    bool more = true;
    const char *first = sweep->planning.n_codecs == 1 ? sweep->planning.codecs[0] : "all";

    if (timing.factors != NULL && timing.times != NULL && timing.compute_us != NULL)
        status = run_codecs(sweep, &timing, first, &more, each, arg);
    if (status == WRING_OK && sweep->each && sweep->planning.n_codecs > 1)
        status = run_each(sweep, &timing, &more, each, arg);
    free(timing.factors);
    free(timing.times);
    free(timing.compute_us);
    return status;
}
