/* SPDX-License-Identifier: Apache-2.0 */
/* What a search found, made into a plan. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/files/plan.h"
#include "planner/files/plan_fits.h"
#include "planner/model/cost_model.h"

/** Cut where a character ends, since half a one is no text for JSON. */
static void copy_text(char *to, size_t bytes, const char *from)
{
    size_t n = strnlen(from, bytes - 1);

    while (n > 0 && from[n] != '\0' && ((unsigned char)from[n] & 0xC0) == 0x80)
        n--;
    memcpy(to, from, n);
    to[n] = '\0';
}

static bool codes_at_all(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind != WRING_STEP_COMM)
            return true;
    return false;
}

static enum wring_status copy_tensors(const struct wring_tensor *tensors, uint32_t n,
                                      struct wring_plan_group *out)
{
    out->tensors = calloc(n, sizeof(*out->tensors));
    out->each = calloc(n, sizeof(*out->each));
    if (out->tensors == NULL || out->each == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++) {
        out->tensors[i] = strdup(tensors[i].name);
        if (out->tensors[i] == NULL)
            return WRING_ERR_NO_MEMORY;
        out->each[out->n++] = tensors[i].elems;
        out->elems += tensors[i].elems;
    }
    return WRING_OK;
}

static enum wring_status fill_group(const struct wring_cost_model *model,
                                    const struct wring_cost_option *chosen,
                                    const struct wring_tensor *tensors, uint32_t n,
                                    struct wring_plan_group *out)
{
    const char *codec = model->codecs[chosen->codec].spec;

    copy_text(out->codec, sizeof(out->codec), codec);
    if (codes_at_all(&chosen->option))
        snprintf(out->where, sizeof(out->where), "%s", wring_place_name(chosen->place));
    wring_option_text(&chosen->option, out->scheme, sizeof(out->scheme));
    out->chunk_elems = chosen->chunk_elems;
    out->cores = chosen->cores;
    copy_text(out->run_as, sizeof(out->run_as),
              wring_plan_run_as(&chosen->option, codec, model->ranks_per_node));
    return copy_tensors(tensors, n, out);
}

static enum wring_status fill_groups(const struct wring_cost_model *model,
                                     const struct wring_tensor_trace *trace,
                                     const struct wring_grouping *grouping, struct wring_plan *plan)
{
    uint32_t begin = 0;

    plan->groups = calloc(grouping->n, sizeof(*plan->groups));
    if (plan->groups == NULL)
        return WRING_ERR_NO_MEMORY;
    while (plan->n_groups < grouping->n) {
        uint32_t g = plan->n_groups++;
        enum wring_status status =
            fill_group(model, &model->options[grouping->option[g]], &trace->tensors[begin],
                       grouping->end[g] - begin, &plan->groups[g]);
        if (status != WRING_OK)
            return status;
        begin = grouping->end[g];
    }
    return WRING_OK;
}

/** Every tensor alone and by this option; NaN where there is no such option, or no memory. */
static double time_of_all(const struct wring_problem *problem, uint32_t option)
{
    struct wring_grouping alone = {.n = problem->n_tensors};
    double us = NAN;

    alone.end = calloc(alone.n, sizeof(*alone.end));
    alone.option = calloc(alone.n, sizeof(*alone.option));
    if (alone.end != NULL && alone.option != NULL && option < problem->n_options) {
        for (uint32_t i = 0; i < alone.n; i++) {
            alone.end[i] = i + 1;
            alone.option[i] = option;
        }
        us = wring_problem_time(problem, &alone);
    }
    free(alone.end);
    free(alone.option);
    return us;
}

/** What the session has to be set to; nothing where any will do. */
static void fill_setting(const struct wring_cost_model *model, struct wring_plan *plan)
{
    if (!model->settled)
        return;
    plan->chunk_bytes = model->setting.chunk_bytes;
    if (model->setting.cores > 0)
        snprintf(plan->executor, sizeof(plan->executor), "pool:%u", model->setting.cores);
    else
        snprintf(plan->executor, sizeof(plan->executor), "inline");
}

static void fill_times(const struct wring_cost_model *model, const struct wring_tensor_trace *trace,
                       const struct wring_grouping *grouping, struct wring_plan *plan)
{
    plan->iteration_us = wring_problem_time(&model->problem, grouping);
    plan->last_ready_us = wring_tensor_trace_alone_us(trace);
    plan->fp32_us = time_of_all(&model->problem, model->uncompressed);
    plan->fp16_us = time_of_all(&model->problem, model->fp16);
    plan->espresso_us = plan->bound_us = plan->gap = NAN;
    plan->selection_us = plan->bound_time_us = NAN;
}

enum wring_status wring_plan_create(const struct wring_cost_model *model,
                                    const struct wring_tensor_trace *trace,
                                    const struct wring_profile *profile,
                                    const struct wring_grouping *grouping, struct wring_plan **out)
{
    struct wring_plan *plan = calloc(1, sizeof(*plan));

    if (plan == NULL)
        return WRING_ERR_NO_MEMORY;
    plan->trace_hash = trace->hash;
    plan->profile_hash = profile->hash;
    copy_text(plan->model, sizeof(plan->model), trace->model);
    copy_text(plan->profile, sizeof(plan->profile), profile->name);
    copy_text(plan->machine, sizeof(plan->machine), profile->machine);
    snprintf(plan->timeline, sizeof(plan->timeline), "%s", wring_timeline_name(model->timeline));
    snprintf(plan->costs, sizeof(plan->costs), "%s", wring_cost_source_name(model->source));
    plan->nodes = model->nodes;
    plan->ranks_per_node = model->ranks_per_node;
    fill_setting(model, plan);
    fill_times(model, trace, grouping, plan);
    enum wring_status status = fill_groups(model, trace, grouping, plan);
    if (status != WRING_OK) {
        wring_plan_destroy(plan);
        return status;
    }
    *out = plan;
    return WRING_OK;
}
