/* SPDX-License-Identifier: Apache-2.0 */
/* What is worth a try: rank 0 has what was recorded and a profile, and asks the planner. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "planner/files/plan.h"
#include "planner/files/tensor_trace.h"
#include "planner/model/cost_model.h"
#include "planner/search/search.h"
#include "runtime/plan/autoplan.h"

#define WRING_MODULE "plan"
#define BUDGET_NS (100 * 1000000ull) /* of a search; models of hundreds of tensors take less */

/** The question as the planner has it. */
struct thought {
    struct wring_autoplan *autoplan;
    struct wring_tensor_trace trace;
    uint32_t *order;                            /* [n] tensors by when they are ready */
    struct wring_measure_codecs codecs, listed; /* of any bucket; that all may take */
    struct wring_cost_model *model;
    uint64_t *allowed; /* [n * words] the model's problem's, in the place of its own */
    struct wring_grouping grouping;
};

/* ---- what was recorded, as a trace ---- */

/** Insertion: posts come in this order or nearly so. */
static void sort_by_ready(struct thought *thought)
{
    const double *ready_us = thought->autoplan->ready_us;
    uint32_t *order = thought->order;

    for (uint32_t i = 0; i < thought->autoplan->n; i++) {
        uint32_t at = i;
        for (; at > 0 && ready_us[order[at - 1]] > ready_us[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static enum wring_status make_trace(struct thought *thought)
{
    const struct wring_autoplan *autoplan = thought->autoplan;
    struct wring_tensor_trace *trace = &thought->trace;

    trace->model = (char *)"this job";
    trace->source = (char *)"recorded while it ran";
    trace->dtype = WRING_F32;
    trace->forward_us = NAN; /* it is in when they are ready, and so is the optimizer's step */
    trace->tensors = calloc(autoplan->n, sizeof(*trace->tensors));
    thought->order = calloc(autoplan->n, sizeof(*thought->order));
    if (trace->tensors == NULL || thought->order == NULL)
        return WRING_ERR_NO_MEMORY;
    sort_by_ready(thought);
    for (trace->n = 0; trace->n < autoplan->n; trace->n++) {
        uint32_t tensor = thought->order[trace->n];
        const struct wring_bucket *bucket = autoplan->tensors[tensor].bucket;
        trace->tensors[trace->n] =
            (struct wring_tensor){(char *)bucket->name, bucket->elems, autoplan->ready_us[tensor]};
    }
    return wring_tensor_trace_rehash(trace);
}

/* ---- which options each may take ---- */

static bool may(const struct thought *thought, uint32_t i, uint32_t option)
{
    uint32_t words = wring_problem_words(&thought->model->problem);

    return thought->allowed[(size_t)i * words + option / 64] >> option % 64 & 1;
}

/** Its own, none, and those that the setting lists. */
static bool allows(const struct thought *thought, uint32_t tensor, const char *spec)
{
    const struct wring_bucket *bucket = thought->autoplan->tensors[tensor].bucket;

    if (strcmp(spec, "none") == 0 || strcmp(spec, wring_codec_info(bucket->codec)->spec) == 0)
        return true;
    for (uint32_t i = 0; i < thought->listed.n; i++)
        if (strcmp(thought->listed.specs[i], spec) == 0)
            return true;
    return false;
}

static enum wring_status set_allowed(struct thought *thought)
{
    struct wring_cost_model *model = thought->model;
    struct wring_problem *problem = &model->problem;
    uint32_t words = wring_problem_words(problem);
    const uint64_t *before = problem->allowed;

    thought->allowed = calloc((size_t)problem->n_tensors * words, sizeof(*thought->allowed));
    if (thought->allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        for (uint32_t o = 0; o < problem->n_options; o++) {
            size_t word = (size_t)i * words + o / 64;
            bool barred = before != NULL && (before[word] >> o % 64 & 1) == 0;
            const char *spec = model->codecs[model->options[o].codec].spec;
            if (!barred && allows(thought, thought->order[i], spec))
                thought->allowed[word] |= UINT64_C(1) << o % 64;
        }
    problem->allowed = thought->allowed;
    return WRING_OK;
}

static enum wring_status make_model(struct thought *thought, bool early)
{
    const struct wring_autoplan *autoplan = thought->autoplan;
    const char *specs[WRING_MEASURE_CODECS_MAX];
    struct wring_cost_model_params params = {
        .trace = &thought->trace,
        .profile = autoplan->profile,
        .nodes = autoplan->machine.nodes,
        .ranks_per_node = autoplan->machine.ranks_per_node,
        .timeline = WRING_TIMELINE_FULL,
        .codecs = specs,
        .n_codecs = thought->codecs.n,
        .places = 1u << WRING_PLACE_CPU,
        .chunk_bytes = autoplan->session->config.chunk_bytes,
        .runnable = true,
    };

    for (uint32_t i = 0; i < thought->codecs.n; i++)
        specs[i] = thought->codecs.specs[i];
    enum wring_status status =
        wring_cost_model_create(&params, &autoplan->session->log, &thought->model);
    if (status != WRING_OK)
        return status;
    if (early) /* who waits for a bucket may not have posted its mates */
        thought->model->problem.max_group_elems = 1;
    return set_allowed(thought);
}

/* ---- ways ---- */

static enum wring_status add_way(struct thought *thought, const struct wring_grouping *grouping,
                                 const char *name)
{
    struct wring_autoplan *autoplan = thought->autoplan;
    struct wring_autoplan_way *way = &autoplan->ways[autoplan->n_ways];

    *way = (struct wring_autoplan_way){.plan = NULL};
    enum wring_status status =
        wring_plan_create(thought->model, &thought->trace, autoplan->profile, grouping, &way->plan);
    if (status != WRING_OK)
        return status;
    snprintf(way->name, sizeof(way->name), "%s", name);
    way->predicted_us = way->plan->iteration_us;
    autoplan->n_ways++;
    return WRING_OK;
}

static enum wring_status add_searched(struct thought *thought)
{
    const struct wring_cost_model *model = thought->model;
    const struct wring_search_params params = {
        .budget_ns = BUDGET_NS,
        .offload = model->offload,
        .on_device = model->on_device,
        .uncompressed = model->raw,
    };
    struct wring_found found;
    enum wring_status status = wring_search_run(&model->problem, &params, &found);

    if (status != WRING_OK)
        return status;
    status = add_way(thought, &found.grouping, "the plan");
    wring_grouping_finish(&found.grouping);
    return status;
}

/** Each bucket by itself, with an option where it may take it, else uncompressed. */
static void set_apart(struct thought *thought, uint32_t option)
{
    struct wring_grouping *grouping = &thought->grouping;

    grouping->n = thought->trace.n;
    for (uint32_t i = 0; i < grouping->n; i++) {
        grouping->end[i] = i + 1;
        grouping->option[i] = may(thought, i, option) ? option : thought->model->raw;
    }
}

/** Is it what runs now? */
static bool is_as_registered(const struct thought *thought, const char *spec)
{
    const struct wring_autoplan *autoplan = thought->autoplan;

    for (uint32_t i = 0; i < autoplan->n; i++)
        if (strcmp(wring_bucket_spec(autoplan->tensors[i].bucket), spec) != 0)
            return false;
    return true;
}

static const char *spec_of(const struct thought *thought, uint32_t option)
{
    return thought->model->codecs[thought->model->options[option].codec].spec;
}

/** The option with which everything is done soonest, each by itself, but for what runs now. */
static uint32_t find_best_apart(struct thought *thought)
{
    const struct wring_problem *problem = &thought->model->problem;
    uint32_t best = problem->n_options;
    double least_us = INFINITY;

    for (uint32_t o = 0; o < problem->n_options; o++) {
        if (o == thought->model->raw || is_as_registered(thought, spec_of(thought, o)))
            continue;
        set_apart(thought, o);
        double us = wring_problem_time(problem, &thought->grouping);
        if (us < least_us) {
            least_us = us;
            best = o;
        }
    }
    return best;
}

/** Plain ways beside the plan: a model that errs does not stand between the job and them. */
static enum wring_status add_plain(struct thought *thought)
{
    enum wring_status status = WRING_OK;
    char name[64];

    if (!is_as_registered(thought, "none")) {
        set_apart(thought, thought->model->raw);
        status = add_way(thought, &thought->grouping, "each by itself, none");
    }
    uint32_t best = find_best_apart(thought);
    if (status != WRING_OK || best == thought->model->problem.n_options)
        return status;
    set_apart(thought, best);
    snprintf(name, sizeof(name), "each by itself, %.40s", spec_of(thought, best));
    return add_way(thought, &thought->grouping, name);
}

static enum wring_status think(struct thought *thought, bool early)
{
    enum wring_status status = make_trace(thought);

    if (status == WRING_OK)
        status =
            wring_autoplan_codecs(thought->autoplan->session, thought->autoplan, &thought->codecs);
    if (status == WRING_OK)
        status = wring_autoplan_listed(thought->autoplan->session, &thought->listed);
    if (status == WRING_OK)
        status = make_model(thought, early);
    if (status == WRING_OK)
        status = wring_grouping_init(&thought->grouping, thought->trace.n);
    if (status == WRING_OK)
        status = add_searched(thought);
    return status == WRING_OK ? add_plain(thought) : status;
}

enum wring_status wring_autoplan_think(struct wring_autoplan *autoplan, bool early)
{
    struct thought thought = {.autoplan = autoplan};
    enum wring_status status = think(&thought, early);

    if (early)
        wring_info(&autoplan->session->log,
                   "WRING_PLAN=auto: buckets are waited for before all are posted, so that none "
                   "are merged");
    wring_grouping_finish(&thought.grouping);
    if (thought.model != NULL)
        thought.model->problem.allowed = NULL;
    wring_cost_model_destroy(thought.model);
    free(thought.allowed);
    free(thought.order);
    free(thought.trace.tensors);
    return status;
}
