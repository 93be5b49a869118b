/* SPDX-License-Identifier: Apache-2.0 */
/* Ways that are worth a try. Rank 0 asks the planner for them, and sends its plans to the others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "planner/core/files/plan.h"
#include "planner/core/model/tunings.h"
#include "planner/core/search/search.h"
#include "runtime/autotune/autotune.h"
#include "runtime/autotune/codecs.h"
#include "runtime/autotune/extra_tunings.h"
#include "runtime/plan/recorder.h"

#define WRING_MODULE "plan"

/* What rank 0 asks the planner. */

/** What was recorded, as the planner has it, and what may be chosen. */
struct question {
    const struct wring_autoplan *autoplan;
    bool early;                      /* buckets cannot be merged */
    struct wring_tensor_trace trace; /* by when tensors are ready */
    uint32_t *order;                 /* [trace.n] the session's tensors likewise */
    struct wring_collective_bench_codecs codecs, listed;  /* of any bucket; that all may take */
    const char *specs[WRING_COLLECTIVE_BENCH_CODECS_MAX]; /* the former */
    struct wring_profile profile; /* the session's, but for the ways: a copy, in which those of
                                     other tunings are carried on */
};

/** The planner's model with one tuning; which options a tensor may take is the job's affair. */
struct model {
    struct wring_cost_model *model;
    uint64_t *allowed; /* its problem's, in the place of its own */
};

/** An option's codec. */
static const char *option_spec(const struct model *made, uint32_t option)
{
    return made->model->codecs[made->model->options[option].codec].spec;
}

/* ---- which options each may take ---- */

/** Its own, none, and those that the setting lists. */
static bool allows(const struct question *question, uint32_t tensor, const char *spec)
{
    const struct wring_bucket *bucket = question->autoplan->iterations.tensors[tensor].bucket;

    return strcmp(spec, "none") == 0 || strcmp(spec, wring_codec_info(bucket->codec)->spec) == 0 ||
           wring_collective_bench_has(&question->listed, spec);
}

static enum wring_status set_allowed(const struct question *question, struct model *out)
{
    struct wring_problem *problem = &out->model->problem;
    uint32_t words = wring_problem_words(problem);
    const uint64_t *before = problem->allowed;

    out->allowed = calloc((size_t)problem->n_tensors * words, sizeof(*out->allowed));
    if (out->allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < problem->n_tensors; i++)
        for (uint32_t o = 0; o < problem->n_options; o++) {
            size_t word = (size_t)i * words + o / 64;
            bool barred = before != NULL && (before[word] >> o % 64 & 1) == 0;
            if (!barred && allows(question, question->order[i], option_spec(out, o)))
                out->allowed[word] |= UINT64_C(1) << o % 64;
        }
    problem->allowed = out->allowed;
    return WRING_OK;
}

/** May tensor i of the trace take that option? */
static bool may_take(const struct model *made, uint32_t i, uint32_t option)
{
    uint32_t words = wring_problem_words(&made->model->problem);

    return made->allowed[(size_t)i * words + option / 64] >> option % 64 & 1;
}

/* ---- models ---- */

static struct wring_cost_model_params params_of(const struct question *question)
{
    const struct wring_autoplan *autoplan = question->autoplan;

    return (struct wring_cost_model_params){
        .trace = &question->trace,
        .profile = &question->profile,
        .nodes = autoplan->machine.nodes,
        .ranks_per_node = autoplan->machine.ranks_per_node,
        .timeline = WRING_TIMELINE_FULL,
        .codecs = question->specs,
        .n_codecs = question->codecs.n,
        .places = 1u << WRING_PLACE_CPU,
        .chunk_bytes = autoplan->leeway.chunk_bytes,
        .runnable = true,
        .flat = true, /* a hierarchy's sums have other bits: measurements do not choose it */
    };
}

/** @param tuning  NULL: as configured. Errors: those of a model; it is to be finished then, too.
 */
static enum wring_status model_init(const struct question *question,
                                    const struct wring_tuning *tuning, struct model *out)
{
    struct wring_cost_model_params params = params_of(question);

    *out = (struct model){.model = NULL};
    params.tuning = tuning;
    enum wring_status status =
        wring_cost_model_create(&params, &question->autoplan->session->log, &out->model);
    if (status != WRING_OK)
        return status;
    if (question->early) /* who waits for a bucket may not have posted its mates */
        out->model->problem.max_group_elems = 1;
    return set_allowed(question, out);
}

static void model_finish(struct model *made)
{
    if (made->model != NULL)
        made->model->problem.allowed = NULL;
    wring_cost_model_destroy(made->model);
    free(made->allowed);
    *made = (struct model){.model = NULL};
}

/* ---- tunings ---- */

static bool is_configured(const struct wring_autoplan *autoplan, const struct wring_tuning *tuning)
{
    return tuning->cores == autoplan->leeway.tuning.cores &&
           tuning->chunk_bytes == autoplan->leeway.tuning.chunk_bytes;
}

/** Does the profile know buckets of several pieces with it? */
static bool is_told(const struct wring_autoplan *autoplan, const struct wring_tuning *tuning)
{
    const struct wring_measured_collective *way = wring_profile_collective_at(
        autoplan->profile, "none", "auto", autoplan->session->size, tuning);

    return way != NULL && way->max_elems >= wring_autoplan_further_elems(autoplan);
}

/** Tunings that a plan may choose among, the configured one first. None: nothing is told apart,
 *  and all is as configured. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status list_settings(const struct question *question, struct wring_tunings *out)
{
    const struct wring_autoplan *autoplan = question->autoplan;
    const struct wring_cost_model_params params = params_of(question);
    struct wring_tunings *all = calloc(1, sizeof(*all));

    out->n = 0;
    if (all == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_tunings_list(&params, NULL, &autoplan->session->log, all);
    for (uint32_t i = 0; i < all->n && status == WRING_OK; i++)
        if (is_configured(autoplan, &all->list[i]))
            out->list[out->n++] = all->list[i];
    for (uint32_t i = 0; i < all->n && out->n > 0; i++) /* without that one nothing compares */
        if (!is_configured(autoplan, &all->list[i]) &&
            wring_autoplan_may_have(autoplan, &all->list[i]) && is_told(autoplan, &all->list[i]))
            out->list[out->n++] = all->list[i];
    free(all);
    return status;
}

/* ---- the question ---- */

/** The profile, with other tunings' ways as far as the configured one's. */
static enum wring_status make_profile(struct question *question)
{
    const struct wring_profile *profile = question->autoplan->profile;
    size_t bytes = (size_t)profile->n_collectives * sizeof(*profile->collectives);

    question->profile = *profile;
    question->profile.collectives = malloc(bytes + 1);
    if (question->profile.collectives == NULL)
        return WRING_ERR_NO_MEMORY;
    memcpy(question->profile.collectives, profile->collectives, bytes);
    if (question->autoplan->leeway.tuning.chunk_bytes != 0)
        wring_profile_carry_on(&question->profile, &question->autoplan->leeway.tuning);
    return WRING_OK;
}

/** Errors: WRING_ERR_NO_MEMORY, INVALID (WRING_PLAN_CODECS; logged). It is to be finished then,
 *  too. */
static enum wring_status question_init(struct question *question,
                                       const struct wring_autoplan *autoplan, bool early)
{
    *question = (struct question){.autoplan = autoplan, .early = early};
    enum wring_status status = wring_iterations_trace(&autoplan->iterations, autoplan->ready_us,
                                                      &question->order, &question->trace);
    if (status == WRING_OK)
        status = wring_autoplan_codecs(autoplan->session, autoplan, &question->codecs);
    if (status == WRING_OK)
        status = wring_autoplan_listed(autoplan->session, &question->listed);
    if (status == WRING_OK)
        status = make_profile(question);
    for (uint32_t i = 0; i < question->codecs.n; i++)
        question->specs[i] = question->codecs.specs[i];
    return status;
}

static void question_finish(struct question *question)
{
    free(question->profile.collectives);
    free(question->order);
    free(question->trace.tensors);
}

/* ---- think ---- */

/* Rank 0 has the recorded iterations and a profile, and asks the planner for ways worth a try. */

#define BUDGET_NS                                                                  \
    (100 * 1000000ull) /* of all searches; models of hundreds of tensors take less \
                        */
#define WORTH_IT 0.95  /* of the time as configured: another tuning must promise more than noise */

/** What the planner says of one tuning. */
struct answer {
    struct model made;
    struct wring_found found;
};

/** The question, and what becomes of it. */
struct thought {
    struct wring_autoplan *autoplan;
    struct question question;
    struct wring_tunings *tunings;
    struct answer configured, best; /* the latter of other tunings; without a model: there is none
                                     */
    struct wring_grouping grouping;
    uint64_t took_ns; /* by searches */
};

/* ---- ways ---- */

/** A plan with the configured number of cores names the executor as the configuration does. */
static void name_executor(const struct wring_autoplan *autoplan,
                          const struct wring_cost_model *model, struct wring_plan *plan)
{
    const struct wring_autoplan_leeway *leeway = &autoplan->leeway;

    if (model->settled && model->tuning.cores == leeway->tuning.cores)
        snprintf(plan->executor, sizeof(plan->executor), "%.63s", leeway->executor);
}

static enum wring_status add_way(struct thought *thought, const struct wring_cost_model *model,
                                 const struct wring_grouping *grouping, const char *name)
{
    struct wring_autoplan *autoplan = thought->autoplan;
    struct wring_autoplan_way *way = &autoplan->candidates[autoplan->n_candidates];
    const struct question *question = &thought->question;

    *way = (struct wring_autoplan_way){.plan = NULL};
    enum wring_status status =
        wring_plan_create(model, &question->trace, &question->profile, grouping, &way->plan);
    if (status != WRING_OK)
        return status;
    name_executor(autoplan, model, way->plan);
    snprintf(way->name, sizeof(way->name), "%s", name);
    way->predicted_us = way->plan->iteration_us;
    autoplan->n_candidates++;
    return WRING_OK;
}

/* ---- tunings ---- */

static void finish(struct answer *answer)
{
    wring_grouping_finish(&answer->found.grouping);
    model_finish(&answer->made);
    *answer = (struct answer){.found.time_us = INFINITY};
}

/** @param left  tunings to be looked at, this one among them */
static enum wring_status ask(struct thought *thought, const struct wring_tuning *tuning,
                             uint32_t left, struct answer *out)
{
    uint64_t rest_ns = thought->took_ns < BUDGET_NS ? BUDGET_NS - thought->took_ns : 0;
    struct wring_search_params params = {.budget_ns = rest_ns / left + 1};

    *out = (struct answer){.found.time_us = INFINITY};
    enum wring_status status = model_init(&thought->question, tuning, &out->made);
    if (status != WRING_OK)
        return status;
    params.offload = out->made.model->offload;
    params.on_device = out->made.model->on_device;
    params.uncompressed = out->made.model->raw;
    status = wring_search_run(&out->made.model->problem, &params, &out->found);
    thought->took_ns += status == WRING_OK ? out->found.took_ns : 0;
    return status;
}

/** The best plan as configured, and the best one with another tuning. */
static enum wring_status ask_all(struct thought *thought)
{
    const struct wring_tunings *tunings = thought->tunings;
    const struct wring_tuning *configured = tunings->n > 0 ? tunings->list : NULL;
    uint32_t n = tunings->n > 0 ? tunings->n : 1;
    enum wring_status status = ask(thought, configured, n, &thought->configured);

    for (uint32_t i = 1; i < n && status == WRING_OK; i++) {
        struct answer other;
        status = ask(thought, &tunings->list[i], n - i, &other);
        if (status == WRING_OK && other.found.time_us < thought->best.found.time_us) {
            struct answer worse = thought->best;
            thought->best = other;
            other = worse;
        }
        finish(&other);
    }
    return status;
}

/** The plan; where another tuning promises to be faster, that of the configured one beside it:
 * what pinned cores take from the application is in no profile. */
static enum wring_status add_searched(struct thought *thought)
{
    const struct answer *configured = &thought->configured, *best = &thought->best;
    enum wring_status status = ask_all(thought);

    if (status != WRING_OK)
        return status;
    if (best->found.time_us >= WORTH_IT * configured->found.time_us)
        return add_way(thought, configured->made.model, &configured->found.grouping, "the plan");
    status = add_way(thought, best->made.model, &best->found.grouping, "the plan");
    return status == WRING_OK ? add_way(thought, configured->made.model,
                                        &configured->found.grouping, "the plan as configured")
                              : status;
}

/* ---- plain ways, as configured ---- */

/** Each bucket by itself, with an option where it may take it, else uncompressed. */
static void set_apart(struct thought *thought, uint32_t option)
{
    const struct model *made = &thought->configured.made;
    struct wring_grouping *grouping = &thought->grouping;

    grouping->n = thought->question.trace.n;
    for (uint32_t i = 0; i < grouping->n; i++) {
        grouping->end[i] = i + 1;
        grouping->option[i] = may_take(made, i, option) ? option : made->model->raw;
    }
}

/** Is it what runs now? */
static bool is_as_registered(const struct thought *thought, const char *spec)
{
    const struct wring_autoplan *autoplan = thought->autoplan;

    for (uint32_t i = 0; i < autoplan->iterations.n; i++)
        if (strcmp(wring_bucket_spec(autoplan->iterations.tensors[i].bucket), spec) != 0)
            return false;
    return true;
}

static const char *spec_of(const struct thought *thought, uint32_t option)
{
    return option_spec(&thought->configured.made, option);
}

/** The option that ends the iteration soonest if each tensor travels by itself with it. Raw and the
 *  codec as registered are left out. */
static uint32_t find_best_apart(struct thought *thought)
{
    const struct wring_cost_model *model = thought->configured.made.model;
    const struct wring_problem *problem = &model->problem;
    uint32_t best = problem->n_options;
    double least_us = INFINITY;

    for (uint32_t o = 0; o < problem->n_options; o++) {
        if (o == model->raw || is_as_registered(thought, spec_of(thought, o)))
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
    const struct wring_cost_model *model = thought->configured.made.model;
    enum wring_status status = WRING_OK;
    char name[64];

    if (!is_as_registered(thought, "none")) {
        set_apart(thought, model->raw);
        status = add_way(thought, model, &thought->grouping, "each by itself, none");
    }
    uint32_t best = find_best_apart(thought);
    if (status != WRING_OK || best == model->problem.n_options)
        return status;
    set_apart(thought, best);
    snprintf(name, sizeof(name), "each by itself, %.40s", spec_of(thought, best));
    return add_way(thought, model, &thought->grouping, name);
}

static enum wring_status think(struct thought *thought, bool early)
{
    enum wring_status status = question_init(&thought->question, thought->autoplan, early);

    if (status == WRING_OK && thought->autoplan->session->recorder != NULL)
        wring_recorder_write(thought->autoplan->session->recorder, &thought->question.trace);
    if (status == WRING_OK)
        status = list_settings(&thought->question, thought->tunings);
    if (status == WRING_OK)
        status = wring_grouping_init(&thought->grouping, thought->question.trace.n);
    if (status == WRING_OK)
        status = add_searched(thought);
    return status == WRING_OK ? add_plain(thought) : status;
}

/** In rank 0: add the ways that are worth a try for the recorded iterations. The first way, as
 *  registered, is there already. @param early  buckets cannot be merged. Errors: logged */
static enum wring_status autoplan_think(struct wring_autoplan *autoplan, bool early)
{
    struct thought thought = {.autoplan = autoplan,
                              .tunings = calloc(1, sizeof(*thought.tunings)),
                              .configured.found.time_us = INFINITY,
                              .best.found.time_us = INFINITY};

    if (thought.tunings == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = think(&thought, early);
    if (early)
        wring_info(&autoplan->session->log,
                   "WRING_PLAN=auto: buckets are waited for before all are posted, so that none "
                   "are merged");
    wring_grouping_finish(&thought.grouping);
    finish(&thought.configured);
    finish(&thought.best);
    question_finish(&thought.question);
    free(thought.tunings);
    return status;
}

/* ---- plans to try, from rank 0 to all ---- */

/* Rank 0 decides on the ways to try, and sends its plans to the others. */

#define PLAN_BYTES_MAX (16u << 20)

static void write_way(const struct wring_autoplan_way *way, struct wring_writer *out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file == NULL || wring_plan_save(way->plan, file) != WRING_OK)
        out->failed = true;
    if (file != NULL && fclose(file) != 0)
        out->failed = true;
    wring_write_sized(out, way->name, strlen(way->name));
    wring_write_sized(out, text, out->failed ? 0 : bytes);
    free(text);
}

static enum wring_status read_way(struct wring_autoplan *autoplan, struct wring_reader *in)
{
    struct wring_autoplan_way *way = &autoplan->candidates[autoplan->n_candidates];
    size_t bytes;

    *way = (struct wring_autoplan_way){.plan = NULL};
    wring_read_text(in, way->name, sizeof(way->name));
    const char *text = wring_read_sized(in, &bytes);
    if (in->failed || bytes > PLAN_BYTES_MAX)
        return WRING_ERR_FRAME;
    enum wring_status status =
        wring_plan_parse("rank 0's plan", text, bytes, &autoplan->session->log, &way->plan);
    if (status != WRING_OK)
        return status;
    way->predicted_us = way->plan->iteration_us;
    autoplan->n_candidates++;
    return WRING_OK;
}

static enum wring_status read_ways(struct wring_autoplan *autoplan, struct wring_reader in)
{
    enum wring_status status = (enum wring_status)wring_read_u32(&in);
    uint32_t n = wring_read_u32(&in);

    if (status != WRING_OK || in.failed)
        return status != WRING_OK ? status : WRING_ERR_FRAME;
    if (n == 0 || n > WRING_AUTOPLAN_WAYS_MAX)
        return WRING_ERR_FRAME;
    for (uint32_t i = 1; i < n && status == WRING_OK; i++)
        status = read_way(autoplan, &in);
    return status;
}

enum wring_status wring_autoplan_find_ways(struct wring_autoplan *autoplan, bool early)
{
    struct wring_session *session = autoplan->session;
    enum wring_status status = WRING_OK;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    if (session->rank == 0) {
        uint64_t began_ns = wring_now_ns();
        status = autoplan_think(autoplan, early);
        autoplan->spent_ns += wring_now_ns() - began_ns;
        wring_write_u32(&writer, status);
        wring_write_u32(&writer, autoplan->n_candidates);
        for (uint32_t i = 1; i < autoplan->n_candidates && status == WRING_OK; i++)
            write_way(&autoplan->candidates[i], &writer);
    }
    enum wring_status exchanged = wring_session_exchange_writer(session, &writer, &blobs);
    if (exchanged != WRING_OK)
        return exchanged;
    if (session->rank != 0)
        status = read_ways(autoplan, wring_blobs_reader(&blobs, 0));
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, NULL);
}
