/* SPDX-License-Identifier: Apache-2.0 */
/** A planning's plans, with their baselines, bounds and tunings. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/files/plan.h"
#include "planner/tool/each_codec.h"
#include "tools/plan/planning.h"

#define WRING_MODULE "plan"

static bool may_take(const struct wring_problem *problem, uint32_t tensor, uint32_t option)
{
    size_t word = (size_t)tensor * wring_problem_words(problem) + option / 64;
    return problem->allowed == NULL || (problem->allowed[word] >> option % 64 & 1) != 0;
}

/** Every tensor by itself, all with one option, each type with its own. @return whether all may */
static bool take_apart(const struct wring_problem *problem,
                       const struct wring_search_params *params, uint32_t option,
                       struct wring_grouping *grouping)
{
    wring_planned_apart(problem->n_tensors, option, grouping);
    for (uint32_t i = 0; i < problem->n_tensors; i++) {
        if (params->kinds != NULL)
            grouping->option[i] =
                params->alike[(size_t)params->kinds[i] * problem->n_options + option];
        if (grouping->option[i] >= problem->n_options || !may_take(problem, i, grouping->option[i]))
            return false;
    }
    return true;
}

/**
 * Instead of a search: every tensor by itself, all with the same option, the best one for that. So
 * does who compresses without a planner.
 *
 * Errors, with one log line: WRING_ERR_INVALID (no option is for all tensors), WRING_ERR_NO_MEMORY.
 */
static enum wring_status planned_layers(const struct wring_planning *planning,
                                        const struct wring_search_params *params,
                                        const struct wring_problem *problem,
                                        struct wring_found *out)
{
    struct wring_found found = {.time_us = INFINITY};
    uint64_t began_ns = wring_now_ns();
    uint32_t best = 0;
    enum wring_status status = wring_grouping_init(&found.grouping, problem->n_tensors);

    if (status != WRING_OK)
        return status;
    for (uint32_t option = 0; option < problem->n_options; option++) {
        if (!take_apart(problem, params, option, &found.grouping))
            continue;
        double time_us = wring_problem_time(problem, &found.grouping);
        found.evaluations++;
        if (time_us < found.time_us) {
            found.time_us = time_us;
            best = option;
        }
    }
    if (found.evaluations == 0) {
        wring_error(&planning->log, "there is no option that all tensors may take");
        wring_grouping_finish(&found.grouping);
        return WRING_ERR_INVALID;
    }
    take_apart(problem, params, best, &found.grouping);
    found.took_ns = wring_now_ns() - began_ns;
    *out = found;
    return WRING_OK;
}

/* ---- planned part ---- */

/* Plans in which every tensor takes a codec that was asked for: a part of the model's options. */

static void choose_part_options(const struct wring_planning *planning,
                                const struct wring_cost_model *model,
                                struct wring_planned_part *part)
{
    for (uint32_t option = 0; option < model->problem.n_options; option++) {
        const struct wring_cost_option *of = &model->options[option];
        if (!wring_planning_lists(planning, model->codecs[of->codec].spec))
            continue;
        part->options[part->problem.n_options] = model->problem.options[option];
        part->whole[part->problem.n_options++] = option;
    }
}

/** Set the options that each tensor of the part may take, by the part's numbers. */
static enum wring_status allow_part_options(const struct wring_planning *planning,
                                            const struct wring_problem *whole,
                                            struct wring_planned_part *part)
{
    uint32_t words = wring_problem_words(&part->problem);

    if (whole->allowed == NULL)
        return WRING_OK;
    part->allowed = calloc((size_t)whole->n_tensors * words, sizeof(*part->allowed));
    if (part->allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < whole->n_tensors; i++) {
        bool any = false;
        for (uint32_t option = 0; option < part->problem.n_options; option++)
            if (may_take(whole, i, part->whole[option])) {
                part->allowed[(size_t)i * words + option / 64] |= UINT64_C(1) << option % 64;
                any = true;
            }
        if (!any) {
            wring_error(
                &planning->log,
                "--only: every codec of --codec loses more of the tensor %s than --max-nmse "
                "allows",
                planning->trace->tensors[i].name);
            return WRING_ERR_INVALID;
        }
    }
    part->problem.allowed = part->allowed;
    return WRING_OK;
}

/** What types take in the place of the part's options: options of the part. */
static enum wring_status make_alike_of_part(const struct wring_cost_model *model,
                                            struct wring_planned_part *part)
{
    uint32_t n = model->problem.n_options, n_part = part->problem.n_options;
    uint32_t *numbers = malloc(n * sizeof(*numbers)); /* in the part */

    part->alike = calloc((size_t)n_part * (WRING_BF16 + 1), sizeof(*part->alike));
    if (numbers == NULL || part->alike == NULL) {
        free(numbers);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < n; i++)
        numbers[i] = n_part;
    for (uint32_t i = 0; i < n_part; i++)
        numbers[part->whole[i]] = i;
    for (size_t kind = 0; kind <= WRING_BF16; kind++)
        for (uint32_t i = 0; i < n_part; i++)
            part->alike[kind * n_part + i] = numbers[model->alike[kind * n + part->whole[i]]];
    free(numbers);
    return WRING_OK;
}

static void planned_part_finish(struct wring_planned_part *part);

/**
 * A model's problem with nothing but options of the codecs that were asked for. Free it with
 * planned_part_finish(). Errors, with one log line: WRING_ERR_INVALID (there are none),
 * WRING_ERR_NO_MEMORY.
 */
static enum wring_status planned_part_init(const struct wring_planning *planning,
                                           const struct wring_cost_model *model,
                                           struct wring_planned_part *out)
{
    uint32_t n = model->problem.n_options;
    struct wring_planned_part part = {.problem = model->problem};
    enum wring_status status = WRING_ERR_NO_MEMORY;

    part.whole = calloc(n, sizeof(*part.whole));
    part.options = calloc(n, sizeof(*part.options));
    if (part.whole == NULL || part.options == NULL)
        goto finish;
    part.problem.n_options = 0;
    part.problem.options = part.options;
    choose_part_options(planning, model, &part);
    status = WRING_ERR_INVALID;
    if (part.problem.n_options == 0) {
        wring_error(&planning->log,
                    "there is no option in which tensors take the codecs of --codec");
        goto finish;
    }
    status = allow_part_options(planning, &model->problem, &part);
    if (status == WRING_OK && model->kinds != NULL)
        status = make_alike_of_part(model, &part);
    if (status != WRING_OK)
        goto finish;
    *out = part;
    return WRING_OK;

finish:
    planned_part_finish(&part);
    return status;
}

/** The options of a grouping of the part made those of the whole. */
static void planned_part_map(const struct wring_planned_part *part, struct wring_grouping *grouping)
{
    for (uint32_t i = 0; i < grouping->n; i++)
        grouping->option[i] = part->whole[grouping->option[i]];
}

static void planned_part_finish(struct wring_planned_part *part)
{
    free(part->whole);
    free(part->options);
    free(part->allowed);
    free(part->alike);
    *part = (struct wring_planned_part){0};
}

/* ---- planned find ---- */

/* A plan is found by the search, by that of each codec alone, and by the proof. */

/** The rest of a time; 1 if all is spent, since 0 would be no limit. */
static uint64_t time_left(uint64_t ns, uint64_t spent_ns)
{
    return spent_ns < ns ? ns - spent_ns : 1;
}

/**
 * Each codec alone, where there is time: what the search was given and did not need, or else what
 * the proof has; all of them where neither has a limit. Without a proof the first answer stays.
 * @param params  of the model
 */
static enum wring_status try_each_codec(const struct wring_planning *planning,
                                        const struct wring_planned_want *want,
                                        const struct wring_cost_model_params *params,
                                        struct wring_planned *planned)
{
    struct wring_found *found = &planned->found;
    uint64_t took_ns = found->took_ns, evaluations = found->evaluations;
    uint64_t deadline_ns = WRING_NEVER;

    if (planning->search != WRING_SEARCH_BEST || planning->layers ||
        (planning->budget_ns == 0 && !want->bound))
        return WRING_OK;
    if (planning->budget_ns > 0)
        deadline_ns = wring_deadline_in(time_left(planning->budget_ns, took_ns));
    else if (planning->bound_ns > 0)
        deadline_ns = wring_deadline_in(planning->bound_ns);
    enum wring_status status = wring_each_codec_search(params, planned->model, planning->search,
                                                       deadline_ns, &planning->log, found);
    if (planning->budget_ns > 0)
        return status;
    planned->bound.took_ns = found->took_ns - took_ns;
    planned->evaluations_before_proof = found->evaluations - evaluations;
    found->took_ns = took_ns;
    return status;
}

/** What searches take of the proof's time or effort. */
enum {
    EVALUATION_NS = 15,      /* about, of one evaluation; counted where an effort ends the proof */
    FARTHER_PART = 5,        /* one in so many parts of the proof goes to looking farther */
    FARTHER_LEAST = 1000000, /* evaluations; with less nothing is found that the search did not */
};

/** The time or effort that searches left to the proof. */
static uint64_t left_to_prove(const struct wring_planning *planning,
                              const struct wring_planned *planned)
{
    if (planning->bound_ns > 0)
        return time_left(planning->bound_ns, planned->bound.took_ns);
    return time_left(planning->bound_effort, EVALUATION_NS * planned->evaluations_before_proof);
}

/** Before the proof: look farther than the search did. What it takes is the proof's. */
static enum wring_status search_farther(const struct wring_planning *planning,
                                        struct wring_search_params params,
                                        const struct wring_problem *problem,
                                        struct wring_planned *planned)
{
    uint64_t proof_ns = left_to_prove(planning, planned);
    struct wring_found farther;

    params.evaluations = proof_ns / FARTHER_PART / EVALUATION_NS;
    if (params.evaluations < FARTHER_LEAST)
        return WRING_OK;
    params.budget_ns = planning->bound_ns > 0 ? proof_ns / 2 : 0;
    enum wring_status status = wring_search_run(problem, &params, &farther);
    if (status != WRING_OK)
        return status;
    planned->bound.took_ns += farther.took_ns;
    planned->found.evaluations += farther.evaluations;
    planned->evaluations_before_proof += farther.evaluations;
    if (farther.time_us < planned->found.time_us) {
        struct wring_grouping worse = planned->found.grouping;
        planned->found.grouping = farther.grouping;
        planned->found.time_us = farther.time_us;
        farther.grouping = worse;
    }
    wring_grouping_finish(&farther.grouping);
    return WRING_OK;
}

/** Prove a bound, where one is wanted. Only the best plan is improved by it: other methods show
 * what they found. */
static enum wring_status prove_bound(const struct wring_planning *planning,
                                     const struct wring_planned_want *want,
                                     const struct wring_search_params *params,
                                     const struct wring_problem *problem,
                                     struct wring_planned *planned)
{
    struct wring_bound_params limits = {0};
    struct wring_found *found = &planned->found;
    struct wring_grouping grouping;
    enum wring_status status = WRING_OK;

    if (!want->bound || planning->layers)
        return WRING_OK;
    if (planning->search == WRING_SEARCH_BEST)
        status = search_farther(planning, *params, problem, planned);
    if (status == WRING_OK)
        status = wring_grouping_init(&grouping, problem->n_tensors);
    if (status != WRING_OK)
        return status;
    uint64_t spent_ns = planned->bound.took_ns;
    double time_us = found->time_us;
    if (planning->bound_ns > 0)
        limits.budget_ns = left_to_prove(planning, planned);
    else
        limits.effort = left_to_prove(planning, planned);
    grouping.n = found->grouping.n;
    memcpy(grouping.end, found->grouping.end, grouping.n * sizeof(*grouping.end));
    memcpy(grouping.option, found->grouping.option, grouping.n * sizeof(*grouping.option));
    status = wring_bound_run(problem, &limits, &grouping, &time_us, &planned->bound);
    planned->bound.took_ns += spent_ns;
    if (status == WRING_OK && planning->search == WRING_SEARCH_BEST) {
        status = wring_search_merge(problem, &grouping, &time_us);
        struct wring_grouping worse = found->grouping;
        found->grouping = grouping;
        found->time_us = time_us;
        grouping = worse;
    }
    wring_grouping_finish(&grouping);
    return status;
}

static enum wring_status search_plan(const struct wring_planning *planning,
                                     const struct wring_search_params *params,
                                     const struct wring_problem *problem,
                                     struct wring_planned *planned)
{
    if (planning->layers)
        return planned_layers(planning, params, problem, &planned->found);
    return wring_planning_said(planning, "the search",
                               wring_search_run(problem, params, &planned->found));
}

static enum wring_status find_and_prove(const struct wring_planning *planning,
                                        const struct wring_planned_want *want,
                                        const struct wring_cost_model_params *model,
                                        struct wring_planned *planned)
{
    struct wring_search_params params = {.method = planning->search,
                                         .budget_ns = planning->budget_ns,
                                         .offload = planned->model->offload,
                                         .on_device = planned->model->on_device,
                                         .uncompressed = planned->model->raw,
                                         .kinds = planned->model->kinds,
                                         .alike = planned->model->alike};

    const struct wring_problem *problem = &planned->model->problem;
    enum wring_status status = search_plan(planning, &params, problem, planned);

    if (status == WRING_OK)
        status = wring_planning_said(planning, "each codec alone",
                                     try_each_codec(planning, want, model, planned));
    if (status != WRING_OK)
        return status;
    return wring_planning_said(planning, "the bound",
                               prove_bound(planning, want, &params, problem, planned));
}

/** Among the options of the codecs that were asked for. */
static enum wring_status find_only(const struct wring_planning *planning,
                                   const struct wring_planned_want *want,
                                   struct wring_planned *planned)
{
    /* .uncompressed matters to Espresso's algorithms alone, which are refused */
    struct wring_search_params params = {.method = planning->search,
                                         .budget_ns = planning->budget_ns};
    struct wring_planned_part part;
    enum wring_status status = planned_part_init(planning, planned->model, &part);

    if (status != WRING_OK)
        return status;
    params.kinds = planned->model->kinds;
    params.alike = part.alike;
    status = search_plan(planning, &params, &part.problem, planned);
    if (status == WRING_OK)
        status = wring_planning_said(planning, "the bound",
                                     prove_bound(planning, want, &params, &part.problem, planned));
    if (status == WRING_OK)
        planned_part_map(&part, &planned->found.grouping);
    planned_part_finish(&part);
    return status;
}

/**
 * A part of that, with one tuning: search, try each codec alone where there is time, prove.
 *
 * @param params   of the model
 * @param planned  in: the model; out: what was found, and the bound
 */
static enum wring_status planned_find(const struct wring_planning *planning,
                                      const struct wring_planned_want *want,
                                      const struct wring_cost_model_params *params,
                                      struct wring_planned *planned)
{
    return planning->only ? find_only(planning, want, planned)
                          : find_and_prove(planning, want, params, planned);
}

/* ---- planned tunings ---- */

/* A plan for each tuning of a session that the profile knows, and the best of them. */

#define WORTH_A_CORE 1e-9 /* of the time: what is no more than rounding is no reason */

/** What all of them have come to. */
struct course {
    const struct wring_planning *planning;
    const struct wring_planned_want *want;
    struct wring_cost_model_params params;
    uint64_t took_ns, bound_ns, nodes, evaluations; /* so far */
    double bound_us;                                /* the least of all; NaN: there is none */
    double open_us;                                 /* the least that nobody reached */
};

/** An equal part of the remaining time. A time of 0 means no limit or no bound, and stays 0. */
static uint64_t share_time(uint64_t all_ns, uint64_t spent_ns, uint32_t left)
{
    if (all_ns == 0)
        return 0;
    uint64_t part = spent_ns < all_ns ? (all_ns - spent_ns) / left : 0;
    return part > 0 ? part : 1;
}

static enum wring_status plan_one(struct course *course, uint32_t done, uint32_t left,
                                  struct wring_planned *out)
{
    struct wring_planning planning = *course->planning;
    enum wring_status status;

    *out = (struct wring_planned){.espresso_us = NAN, .bound.time_us = NAN};
    planning.budget_ns = share_time(planning.budget_ns, course->took_ns, left);
    planning.bound_ns = share_time(planning.bound_ns, course->bound_ns, left);
    if (planning.bound_effort > 0)
        planning.bound_effort = planning.bound_effort / (done + left) + 1;
    if (done > 0)
        planning.log.level = WRING_LOG_ERROR; /* all else was said of the first */
    status = wring_cost_model_create(&course->params, &planning.log, &out->model);
    if (status != WRING_OK)
        return status;
    return planned_find(&planning, course->want, &course->params, out);
}

static void add_to_course(struct course *course, const struct wring_planned *one)
{
    course->took_ns += one->found.took_ns;
    course->evaluations += one->found.evaluations;
    course->bound_ns += one->bound.took_ns;
    course->nodes += one->bound.nodes;
    course->bound_us = fmin(course->bound_us, one->bound.time_us); /* a number, if there is one */
    if (!one->bound.exact)
        course->open_us = fmin(course->open_us, one->bound.time_us);
}

/** The better of both, in `best`; the other is freed. */
static void keep_better(struct wring_planned *best, struct wring_planned *one)
{
    struct wring_planned worse = *one;

    if (best->model == NULL || one->found.time_us < best->found.time_us * (1 - WORTH_A_CORE)) {
        worse = *best;
        *best = *one;
    }
    wring_planned_finish(&worse);
}

static void complete_from_course(const struct course *course, struct wring_planned *planned)
{
    planned->found.took_ns = course->took_ns;
    planned->found.evaluations = course->evaluations;
    planned->bound.time_us = course->bound_us;
    planned->bound.exact = !isnan(course->bound_us) && course->open_us >= planned->found.time_us;
    planned->bound.nodes = course->nodes;
    planned->bound.took_ns = course->bound_ns;
}

static enum wring_status plan_all(struct course *course, const struct wring_tunings *tunings,
                                  struct wring_planned *planned)
{
    uint32_t n = tunings->n > 0 ? tunings->n : 1;

    for (uint32_t i = 0; i < n; i++) {
        struct wring_planned one;
        course->params.tuning = tunings->n > 0 ? &tunings->list[i] : NULL;
        enum wring_status status = plan_one(course, i, n - i, &one);
        if (status != WRING_OK) {
            wring_planned_finish(&one);
            return status;
        }
        add_to_course(course, &one);
        keep_better(planned, &one);
    }
    complete_from_course(course, planned);
    planned->n_tunings = tunings->n;
    return WRING_OK;
}

enum wring_status wring_planned_tunings(const struct wring_planning *planning,
                                        const struct wring_planned_want *want,
                                        const struct wring_cost_model_params *params,
                                        struct wring_planned *planned)
{
    struct wring_tunings *tunings = malloc(sizeof(*tunings));
    struct course course = {.planning = planning,
                            .want = want,
                            .params = *params,
                            .bound_us = NAN,
                            .open_us = INFINITY};

    *planned = (struct wring_planned){.espresso_us = NAN, .bound.time_us = NAN};
    if (tunings == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status =
        wring_tunings_list(params, &planning->tunings, &planning->log, tunings);
    if (status == WRING_OK)
        status = plan_all(&course, tunings, planned);
    free(tunings);
    return status;
}
