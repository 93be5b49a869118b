/* SPDX-License-Identifier: Apache-2.0 */
#define WRING_MODULE "plan"

#include "tools/plan/planning.h"

#include <math.h>
#include <sched.h>
#include <string.h>

#include "base/config.h"
#include "planner/files/machine.h"
#include "planner/files/tensor_trace.h"
#include "tools/commands.h"

enum wring_status wring_planning_load_trace(struct wring_planning *planning)
{
    struct wring_config config;
    char path[4096];
    enum wring_status status = wring_config_load(&config, &planning->log);

    if (status == WRING_OK)
        status = wring_tensor_trace_find(planning->trace_path, config.traces, &planning->log, path,
                                         sizeof(path));
    if (status != WRING_OK)
        return status;
    status = wring_tensor_trace_load(path, &planning->log, &planning->trace);
    if (status != WRING_OK || planning->scale == 1)
        return status;
    return wring_tensor_trace_scale(planning->trace, planning->scale);
}

/** One may plan for another machine; one should know. */
static void warn_of_machine(const struct wring_planning *planning)
{
    struct wring_machine_params here = {.version = WRING_VERSION};
    char why[512];
    cpu_set_t cpus;

    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof(cpus), &cpus);
    here.cores = (uint32_t)CPU_COUNT(&cpus);
    if (wring_machine_differs(planning->profile->machine, &here, why, sizeof(why)))
        wring_warn(&planning->log,
                   "the profile %s was measured on another machine than this one: %s; its jobs "
                   "run nowhere else",
                   planning->profile->name, why);
}

enum wring_status wring_planning_load(struct wring_planning *planning)
{
    enum wring_status status = wring_planning_load_trace(planning);

    if (status != WRING_OK)
        return status;
    status = wring_profile_load(planning->profile_path, &planning->log, &planning->profile);
    if (status == WRING_OK)
        warn_of_machine(planning);
    return status;
}

static void say(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level;
    (void)module;
    wring_fail(arg, "%s", text);
}

struct wring_log wring_planning_log(char *name)
{
    return (struct wring_log){say, name, WRING_LOG_WARN};
}

void wring_planning_finish(struct wring_planning *planning)
{
    wring_tensor_trace_destroy(planning->trace);
    wring_profile_destroy(planning->profile);
    planning->trace = NULL;
    planning->profile = NULL;
}

enum wring_status wring_planning_said(const struct wring_planning *planning, const char *what,
                                      enum wring_status status)
{
    if (status != WRING_OK)
        wring_error(&planning->log, "%s: %s", what, wring_status_text(status));
    return status;
}

double wring_planning_link_gbit(const struct wring_profile *profile)
{
    const struct wring_profile_link *link = &profile->links[WRING_LEVEL_INTER];
    double us_per_byte = link->us.slope;

    if (!link->present)
        return NAN;
    return us_per_byte > 0 ? 8e-3 / us_per_byte : INFINITY;
}

/** All tensors by themselves, with one option. */
void wring_planned_apart(uint32_t n_tensors, uint32_t option, struct wring_grouping *grouping)
{
    grouping->n = n_tensors;
    for (uint32_t i = 0; i < n_tensors; i++) {
        grouping->end[i] = i + 1;
        grouping->option[i] = option;
    }
}

/** Let the search merge, where all take one option. */
static enum wring_status merge(const struct wring_planning *planning,
                               const struct wring_problem *problem, uint32_t option,
                               struct wring_found *found)
{
    struct wring_problem alone = *problem;
    struct wring_search_params params = {.budget_ns = planning->budget_ns, .uncompressed = 0};

    alone.options = &problem->options[option];
    alone.n_options = 1;
    alone.allowed = NULL;
    enum wring_status status = wring_search_run(&alone, &params, found);
    for (uint32_t i = 0; status == WRING_OK && i < found->grouping.n; i++)
        found->grouping.option[i] = option;
    return status;
}

static enum wring_status baseline_init(const struct wring_planning *planning,
                                       const struct wring_problem *problem, uint32_t option,
                                       struct wring_baseline *out)
{
    struct wring_baseline baseline;
    struct wring_found found;

    *out = (struct wring_baseline){.apart_us = NAN, .merged_us = NAN};
    if (option >= problem->n_options)
        return WRING_OK;
    enum wring_status status = wring_grouping_init(&baseline.grouping, problem->n_tensors);
    if (status != WRING_OK)
        return status;
    wring_planned_apart(problem->n_tensors, option, &baseline.grouping);
    baseline.apart_us = wring_problem_time(problem, &baseline.grouping);
    status = merge(planning, problem, option, &found);
    if (status != WRING_OK) {
        wring_grouping_finish(&baseline.grouping);
        return status;
    }
    baseline.merged_us = wring_problem_time(problem, &found.grouping);
    struct wring_grouping worse = found.grouping;
    if (baseline.merged_us < baseline.apart_us) {
        worse = baseline.grouping;
        baseline.grouping = found.grouping;
    }
    wring_grouping_finish(&worse);
    *out = baseline;
    return WRING_OK;
}

/** Espresso's answer; where it should be the better one, and any will do, it is the plan. */
static enum wring_status compare_espresso(const struct wring_planning *planning,
                                          struct wring_planned *planned)
{
    const struct wring_cost_model *model = planned->model;
    /* no budget: a comparison cut short would be none */
    struct wring_search_params params = {.method = WRING_SEARCH_ESPRESSO,
                                         .offload = model->offload,
                                         .on_device = model->on_device,
                                         .uncompressed = model->raw};
    struct wring_found found;

    enum wring_status status = wring_search_run(&model->problem, &params, &found);
    if (status != WRING_OK)
        return status;
    planned->espresso_us = found.time_us;
    struct wring_grouping worse = found.grouping;
    bool any = planning->search == WRING_SEARCH_BEST && !planning->layers && !planning->only;
    if (any && found.time_us < planned->found.time_us) {
        worse = planned->found.grouping;
        planned->found.grouping = found.grouping;
        planned->found.time_us = found.time_us;
    }
    wring_grouping_finish(&worse);
    return WRING_OK;
}

struct wring_cost_model_params wring_planning_model(const struct wring_planning *planning,
                                                    const struct wring_planned_want *want)
{
    return (struct wring_cost_model_params){
        .trace = planning->trace,
        .profile = planning->profile,
        .nodes = want->nodes != 0 ? want->nodes : planning->nodes,
        .ranks_per_node = planning->ranks_per_node,
        .timeline = planning->timeline,
        .codecs = (const char *const *)planning->codecs,
        .n_codecs = (uint32_t)planning->n_codecs,
        .places = planning->places,
        .runnable = planning->runnable,
        .flat = planning->flat,
        .indivisible = planning->indivisible,
        .apart = planning->apart,
        .computing = planning->computing,
        .scattered = planning->scattered,
        .max_nmse = planning->max_nmse,
        .link_scale = want->link_scale,
        .keep_dominated = planning->only, /* by another codec, that may be */
    };
}

static bool has_way(const struct wring_cost_model *model, const char *spec)
{
    for (uint32_t codec = 0; codec < model->n_codecs; codec++)
        if (model->ways[codec] > 0 && strcmp(model->codecs[codec].spec, spec) == 0)
            return true;
    return false;
}

void wring_planning_say_lacking(const struct wring_planning *planning,
                                const struct wring_cost_model *model, bool *said)
{
    /* a budget alone is there to leave codecs out */
    for (size_t i = 0; i < planning->n_codecs && planning->runnable; i++) {
        if (said[i] || has_way(model, planning->codecs[i]))
            continue;
        said[i] = true;
        wring_warn(&planning->log,
                   "plans do without %s: it has no way that this build can run%s: codec, place or "
                   "scheme is missing",
                   planning->codecs[i], planning->max_nmse > 0 ? " within --max-nmse" : "");
    }
}

static enum wring_status compare(const struct wring_planning *planning,
                                 struct wring_planned *planned)
{
    const struct wring_cost_model *model = planned->model;

    for (uint32_t i = 0; i < model->problem.n_tensors; i++)
        planned->last_ready_us += model->problem.compute_us[i];
    enum wring_status status =
        baseline_init(planning, &model->problem, model->uncompressed, &planned->fp32);
    if (status != WRING_OK)
        return status;
    return baseline_init(planning, &model->problem, model->fp16, &planned->fp16);
}

enum wring_status wring_planned_init(const struct wring_planning *planning,
                                     const struct wring_planned_want *want,
                                     struct wring_planned *out)
{
    struct wring_planned planned = {.espresso_us = NAN, .bound.time_us = NAN};
    struct wring_cost_model_params params = wring_planning_model(planning, want);
    enum wring_status status = wring_planned_settings(planning, want, &params, &planned);

    if (status == WRING_OK)
        status = wring_planning_said(planning, "the baselines", compare(planning, &planned));
    if (status == WRING_OK && want->espresso)
        status = wring_planning_said(planning, "Espresso's greedy",
                                     compare_espresso(planning, &planned));
    if (status != WRING_OK)
        goto finish;
    *out = planned;
    return WRING_OK;

finish:
    wring_planned_finish(&planned);
    return status;
}

void wring_planned_finish(struct wring_planned *planned)
{
    wring_grouping_finish(&planned->found.grouping);
    wring_grouping_finish(&planned->fp32.grouping);
    wring_grouping_finish(&planned->fp16.grouping);
    wring_cost_model_destroy(planned->model);
    *planned = (struct wring_planned){0};
}
