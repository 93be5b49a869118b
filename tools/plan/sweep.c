/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/files/tensor_trace.h"
#include "tools/plan/draw.h"

/** One cluster's iterations, in which nodes and links are slower by chance. */
struct sweep_timing {
    const struct wring_sweep *sweep;
    const struct wring_cost_model *model; /* with local steps: of the collective after them, which
                                             has no computing */
    double forward_us, last_ready_us;
    uint32_t local_steps;
    double link_jitter;
    double *times;                                /* [sweep->iterations] scratch */
    double *compute_us;                           /* [tensors] likewise */
    bool said_lacking[WRING_PLANNING_CODECS_MAX]; /* of these codecs; once is enough */
};

enum {
    KEY_COMPUTING,
    KEY_LINKS,
};

/** The links of a level that a collective passes on a lane, all of them at once. */
struct links {
    uint64_t n;        /* 0: the lane is no link */
    uint64_t key;      /* lanes with the same one are parts of one collective */
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
                 {WRING_LANE_COLLECTIVE, {ranks, 4, true}},
                 {"rest of it", {ranks, 4, true}}};

    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(known[i].lane, model->lanes[lane]) == 0)
            return known[i].links;
    return (struct links){0};
}

/** Scale a group's times on its links by how slow these are in that collective. */
static void slow_links_down(const struct sweep_timing *timing, uint64_t key, double *once,
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

/** An iteration. @param factor  of computing @param key  of its collectives */
static double time_collectives(const struct sweep_timing *timing,
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
        slow_links_down(timing, wring_draw_key(key, begin), once, each);
        wring_problem_advance(&slowed, chunks, once, each, ends);
    }
    return ends[slowed.n_lanes - 1];
}

/** Local steps: each computes by itself; what is exchanged after H of them travels during the next
 * H, and only what is left then is waited for. */
static double time_local(double step_us, double collective_us, uint32_t steps)
{
    return step_us + fmax(0, collective_us - steps * step_us) / steps;
}

static double time_once(const struct sweep_timing *timing, const struct wring_grouping *grouping,
                        uint32_t iteration)
{
    const struct wring_sweep *sweep = timing->sweep;
    uint64_t key = wring_draw_key(wring_draw_key(sweep->seed, timing->model->nodes), iteration);
    double factor = wring_draw_slowest(wring_draw_key(key, KEY_COMPUTING), timing->model->nodes,
                                       sweep->jitter, sweep->straggler);

    key = wring_draw_key(key, KEY_LINKS);
    if (timing->local_steps == 1)
        return time_collectives(timing, grouping, factor, key);
    double collective_us = time_collectives(timing, grouping, 1, key); /* all is there at once */
    double step_us = (timing->forward_us + timing->last_ready_us) * factor;
    return time_local(step_us, collective_us, timing->local_steps) - timing->forward_us;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/**
 * Median of the iterations that are drawn.
 * @param p90_us  out, nine of ten take no longer
 */
static double sweep_time(const struct sweep_timing *timing, const struct wring_grouping *grouping,
                         double *p90_us)
{
    uint32_t n = timing->sweep->iterations;

    for (uint32_t i = 0; i < n; i++)
        timing->times[i] = time_once(timing, grouping, i);
    qsort(timing->times, n, sizeof(*timing->times), by_value);
    *p90_us = timing->times[(n * 9 + 9) / 10 - 1];
    return timing->times[n / 2];
}

/* ---- sweep ---- */

/**
 * A node sends (nodes − rack) / (nodes − 1) of its bytes out of its rack, over oversubscribed
 * links. The rest stays within it.
 */
static double rack_slowdown(const struct wring_sweep *sweep, uint32_t nodes)
{
    if (sweep->rack == 0 || nodes <= sweep->rack)
        return 1;
    double leaves = (double)(nodes - sweep->rack) / (double)(nodes - 1);
    return fmax(1, leaves * sweep->oversubscription);
}

/** The bandwidth of the links that are asked for, against the profile's. */
static double link_scale(const struct wring_sweep *sweep, double link_gbit)
{
    return sweep->links_given ? link_gbit / wring_planning_link_gbit(sweep->planning.profile) : 1;
}

/** The better of two groupings that send everything with one option. */
static double time_baseline(const struct sweep_timing *timing,
                            const struct wring_baseline *baseline)
{
    double p90_us;

    if (baseline->grouping.n == 0)
        return NAN;
    return sweep_time(timing, &baseline->grouping, &p90_us);
}

static void compute_speedups(const struct sweep_timing *timing, struct wring_point *point)
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

static void fill_point(struct sweep_timing *timing, const struct wring_planned *planned,
                       struct wring_point *point)
{
    timing->model = planned->model;
    timing->last_ready_us = wring_tensor_trace_alone_us(timing->sweep->planning.trace);
    timing->forward_us = forward_of(timing->sweep->planning.trace);
    timing->local_steps = point->local_steps;
    timing->link_jitter = point->link_jitter;
    point->costs = wring_cost_source_name(planned->model->source);
    point->ranks = planned->model->nodes * planned->model->ranks_per_node;
    point->forward_us = timing->forward_us;
    point->last_ready_us = timing->last_ready_us;
    point->iteration_us = sweep_time(timing, &planned->found.grouping, &point->p90_us);
    point->fp32_us = time_baseline(timing, &planned->fp32);
    point->fp16_us = time_baseline(timing, &planned->fp16);
    compute_speedups(timing, point);
}

uint64_t wring_sweep_count(const struct wring_sweep *sweep)
{
    uint64_t sets = sweep->each && sweep->planning.n_codecs > 1 ? sweep->planning.n_codecs + 1 : 1;

    return sets * sweep->n_nodes * sweep->n_links * sweep->n_local_steps * sweep->n_link_jitters;
}

/** Plan the collective that follows several local steps: all tensors are ready at once. */
static enum wring_status plan_local(const struct wring_planning *planning,
                                    const struct wring_planned_want *want,
                                    struct wring_planned *out)
{
    struct wring_planning local = *planning;
    struct wring_tensor_trace trace = *planning->trace;
    enum wring_status status = WRING_ERR_NO_MEMORY;

    trace.optimizer_us = 0;
    trace.tensors = calloc(trace.n, sizeof(*trace.tensors));
    for (uint32_t i = 0; i < trace.n && trace.tensors != NULL; i++) {
        trace.tensors[i] = planning->trace->tensors[i];
        trace.tensors[i].ready_us = 0;
    }
    local.trace = &trace;
    if (trace.tensors != NULL)
        status = wring_planned_init(&local, want, out);
    free(trace.tensors);
    return status;
}

/** The set-ups of one cluster, one set of codecs and one number of local steps: they share a plan.
 */
static enum wring_status run_steps(const struct wring_sweep *sweep, struct sweep_timing *timing,
                                   const struct wring_point *set_up, bool *more,
                                   wring_point_fn each, void *arg)
{
    struct wring_planned_want want = {.nodes = set_up->nodes,
                                      .link_scale = link_scale(sweep, set_up->link_gbit) /
                                                    rack_slowdown(sweep, set_up->nodes)};
    struct wring_planned planned;
    enum wring_status status = set_up->local_steps > 1
                                   ? plan_local(&sweep->planning, &want, &planned)
                                   : wring_planned_init(&sweep->planning, &want, &planned);

    if (status != WRING_OK)
        return status;
    wring_planning_say_lacking(&sweep->planning, planned.model, timing->said_lacking);
    for (uint32_t i = 0; *more && i < sweep->n_link_jitters; i++) {
        struct wring_point point = *set_up;
        point.link_jitter = sweep->link_jitter[i];
        fill_point(timing, &planned, &point);
        *more = each(arg, &point);
    }
    wring_planned_finish(&planned);
    return WRING_OK;
}

/** The set-ups of one cluster and one set of codecs. */
static enum wring_status run_cluster(const struct wring_sweep *sweep, struct sweep_timing *timing,
                                     const struct wring_point *set_up, bool *more,
                                     wring_point_fn each, void *arg)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; *more && i < sweep->n_local_steps && status == WRING_OK; i++) {
        struct wring_point point = *set_up;
        point.local_steps = sweep->local_steps[i];
        status = run_steps(sweep, timing, &point, more, each, arg);
    }
    return status;
}

/** All clusters, for the codecs that the question has now. */
static enum wring_status run_codecs(const struct wring_sweep *sweep, struct sweep_timing *timing,
                                    const char *codec, bool *more, wring_point_fn each, void *arg)
{
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < sweep->n_links; i++)
        for (uint32_t j = 0; *more && j < sweep->n_nodes; j++) {
            struct wring_point set_up = {
                .nodes = sweep->nodes[j], .link_gbit = sweep->link_gbit[i], .codec = codec};
            status = run_cluster(sweep, timing, &set_up, more, each, arg);
            if (status != WRING_OK)
                return status;
        }
    return WRING_OK;
}

/** Each codec by itself, after all together. */
static enum wring_status run_each(struct wring_sweep *sweep, struct sweep_timing *timing,
                                  bool *more, wring_point_fn each, void *arg)
{
    size_t n = sweep->planning.n_codecs;
    char *codecs[WRING_PLANNING_CODECS_MAX];
    enum wring_status status = WRING_OK;

    memcpy(codecs, sweep->planning.codecs, sizeof(codecs));
    memset(timing->said_lacking, true, sizeof(timing->said_lacking)); /* when all were allowed */
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
    struct sweep_timing timing = {
        .sweep = sweep,
        .times = calloc(sweep->iterations, sizeof(double)),
        .compute_us = calloc(sweep->planning.trace->n, sizeof(double)),
    };
    enum wring_status status = WRING_ERR_NO_MEMORY;
    bool more = true;
    const char *first = sweep->planning.n_codecs == 1 ? sweep->planning.codecs[0] : "all";

    if (timing.times != NULL && timing.compute_us != NULL)
        status = run_codecs(sweep, &timing, first, &more, each, arg);
    if (status == WRING_OK && sweep->each && sweep->planning.n_codecs > 1)
        status = run_each(sweep, &timing, &more, each, arg);
    free(timing.times);
    free(timing.compute_us);
    return status;
}
