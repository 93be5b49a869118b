/* SPDX-License-Identifier: Apache-2.0 */
/* Candidates that are worth a try. Rank 0 asks the planner for them, and sends its plans to the
 * others.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "compress/codec.h"
#include "planner/core/files/plan.h"
#include "planner/core/model/tunings.h"
#include "planner/core/search/search.h"
#include "runtime/autotune/autotune.h"
#include "runtime/autotune/codecs.h"
#include "runtime/autotune/extra_tunings.h"
#include "runtime/autotune/tunables.h"
#include "runtime/plan/recorder.h"
#include "runtime/session/executor.h"

#define WRING_MODULE "plan"

/** One that a plan may put on any bucket, and take off again? Says why not. */
static bool is_switchable(const struct wring_session *session, const struct wring_codec *codec)
{
    const struct wring_codec_info *info = wring_codec_info(codec);
    bool alters = wring_codec_alters(codec);

    if (alters || info->states > 0)
        wring_error(&session->log,
                    "WRING_PLAN_CODECS=%s: %s %s, so that no plan may switch it on or off; name it "
                    "where buckets are registered, and they keep it",
                    session->config.plan_codecs, info->spec,
                    alters ? "changes what training does" : "keeps state from step to step");
    return !alters && info->states == 0;
}

/** @return the list as it was where it has that one already */
static enum wring_status add_codec(const struct wring_session *session, const char *spec,
                                   struct wring_collective_bench_codecs *out)
{
    struct wring_codec *codec;
    char why[WRING_TEXT_MAX];
    enum wring_status status =
        wring_codec_create(spec, session->config.cpu, session->codecs, why, sizeof(why), &codec);

    if (status != WRING_OK) {
        wring_error(&session->log, "WRING_PLAN_CODECS=%s: %s", session->config.plan_codecs, why);
        return status;
    }
    if (!is_switchable(session, codec)) {
        wring_codec_destroy(codec);
        return WRING_ERR_INVALID;
    }
    const struct wring_codec_info *info = wring_codec_info(codec);
    bool known = (info->flags & WRING_CODEC_RAW) != 0;
    for (uint32_t i = 0; i < out->n; i++)
        known = known || strcmp(out->specs[i], info->spec) == 0;
    if (!known && out->n < WRING_COLLECTIVE_BENCH_CODECS_MAX - 1) /* none is one, too */
        snprintf(out->specs[out->n++], WRING_CODEC_SPEC_MAX, "%s", info->spec);
    wring_codec_destroy(codec);
    return WRING_OK;
}

/** Codecs that the setting lists, as "bf16,onebit+ef", canonical. Errors: INVALID (logged),
 *  NO_MEMORY. */
static enum wring_status read_listed_codecs(const struct wring_session *session,
                                            struct wring_collective_bench_codecs *out)
{
    const char *list = session->config.plan_codecs;
    const char *rest = list[0] != '\0' ? list : NULL;
    enum wring_status status = WRING_OK;
    struct wring_list_item item;

    out->n = 0;
    while (status == WRING_OK && wring_list_next(&rest, &item)) {
        char spec[WRING_CONFIG_TEXT];
        if (item.length == 0) {
            wring_error(&session->log,
                        "WRING_PLAN_CODECS=%s: nothing stands before or after a comma", list);
            return WRING_ERR_INVALID;
        }
        snprintf(spec, sizeof(spec), "%.*s", (int)item.length, item.text);
        status = add_codec(session, spec, out);
    }
    return status;
}

enum wring_status wring_autotune_codecs(const struct wring_session *session,
                                        const struct wring_autotune *autotune,
                                        struct wring_collective_bench_codecs *out)
{
    enum wring_status status = read_listed_codecs(session, out);
    for (uint32_t i = 0; i < autotune->iterations.n && status == WRING_OK; i++)
        status = add_codec(
            session, wring_codec_info(autotune->iterations.tensors[i].bucket->codec)->spec, out);
    return status;
}

void wring_autotune_write_codecs(const struct wring_collective_bench_codecs *codecs,
                                 struct wring_writer *out)
{
    wring_write_u32(out, codecs->n);
    for (uint32_t i = 0; i < codecs->n; i++)
        wring_write_sized(out, codecs->specs[i], strlen(codecs->specs[i]));
}

void wring_autotune_read_codecs(struct wring_reader *in, struct wring_collective_bench_codecs *out)
{
    out->n = wring_read_u32(in);
    if (out->n > WRING_COLLECTIVE_BENCH_CODECS_MAX) {
        in->failed = true;
        out->n = 0;
    }
    for (uint32_t i = 0; i < out->n; i++)
        wring_read_text(in, out->specs[i], WRING_CODEC_SPEC_MAX);
}

/* ---- tunables ---- */

/** What one rank was configured to. */
struct heard {
    char executor[WRING_CONFIG_TEXT];
    uint64_t chunk_bytes;
    bool executor_given, pieces_given;
};

/* ---- what all ranks were told ---- */

static void write_own_config(const struct wring_autotune *autotune, struct wring_writer *out)
{
    const struct wring_config *config = &autotune->session->config;
    const struct wring_autotune_tunables *tunables = &autotune->tunables;

    wring_write_sized(out, tunables->executor, strlen(tunables->executor));
    wring_write_u64(out, tunables->chunk_bytes);
    wring_write_u32(out, wring_config_given(config, "WRING_EXECUTOR"));
    wring_write_u32(out, wring_config_given(config, "WRING_CHUNK_BYTES"));
}

static bool read_config(struct wring_reader in, struct heard *out)
{
    wring_read_text(&in, out->executor, sizeof(out->executor));
    out->chunk_bytes = wring_read_u64(&in);
    out->executor_given = wring_read_u32(&in) != 0;
    out->pieces_given = wring_read_u32(&in) != 0;
    return !in.failed;
}

/** What any rank was given, and whether all have the same. @param all  out */
static enum wring_status read_all_configs(const struct wring_session *session,
                                          const struct wring_blobs *blobs, struct heard *all,
                                          bool *alike)
{
    struct heard one = {.chunk_bytes = 0};

    *alike = true;
    for (uint32_t i = 0; i < session->size; i++) {
        if (!read_config(wring_blobs_reader(blobs, i), &one))
            return WRING_ERR_FRAME;
        if (i == 0)
            *all = one;
        *alike = *alike && strcmp(one.executor, all->executor) == 0 &&
                 one.chunk_bytes == all->chunk_bytes;
        all->executor_given = all->executor_given || one.executor_given;
        all->pieces_given = all->pieces_given || one.pieces_given;
    }
    return WRING_OK;
}

static void decide_tunables(struct wring_autotune *autotune, const struct heard *all, bool alike)
{
    struct wring_autotune_tunables *tunables = &autotune->tunables;
    uint32_t own = autotune->machine.own_cores, counted;
    bool told = alike && wring_executor_count_cores(all->executor, &counted);

    tunables->tuning = (struct wring_tuning){0};
    tunables->cores = 0;
    tunables->pieces = told && !all->pieces_given;
    tunables->pieces_why = tunables->pieces ? NULL
                           : told           ? "WRING_CHUNK_BYTES is set"
                                            : "WRING_EXECUTOR says which cores, or differs";
    if (told)
        tunables->tuning = (struct wring_tuning){counted, all->chunk_bytes};
    if (!told || all->executor_given)
        tunables->cores_why = "WRING_EXECUTOR is set";
    else if (own == 0)
        tunables->cores_why = "ranks of a host share their cores: bind each to its own";
    else if (own == 1)
        tunables->cores_why = "a rank has one core, and none to spare";
    else {
        tunables->cores_why = NULL;
        tunables->cores = own - 1;
    }
}

enum wring_status wring_autotune_agree_on_tunables(struct wring_autotune *autotune)
{
    struct wring_session *session = autotune->session;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;
    struct heard all = {.chunk_bytes = 0};
    bool alike;

    write_own_config(autotune, &writer);
    enum wring_status status = wring_session_exchange_writer(session, &writer, &blobs);
    if (status != WRING_OK)
        return status;
    status = read_all_configs(session, &blobs, &all, &alike);
    wring_blobs_finish(&blobs);
    if (status == WRING_OK)
        decide_tunables(autotune, &all, alike);
    return status;
}

bool wring_autotune_may_have(const struct wring_autotune *autotune,
                             const struct wring_tuning *tuning)
{
    const struct wring_autotune_tunables *tunables = &autotune->tunables;
    bool cores = tuning->cores == tunables->tuning.cores || tuning->cores <= tunables->cores;
    bool pieces = tuning->chunk_bytes == tunables->tuning.chunk_bytes || tunables->pieces;

    return tunables->tuning.chunk_bytes != 0 && cores && pieces;
}

/* ---- the session ---- */

enum wring_status wring_autotune_settle(struct wring_session *session)
{
    const struct wring_plan *plan = session->plan;

    if (session->autotune == NULL)
        return WRING_OK;
    const struct wring_autotune_tunables *tunables = &session->autotune->tunables;
    bool has_executor = plan != NULL && plan->executor[0] != '\0';
    bool has_pieces = plan != NULL && plan->chunk_bytes != 0;
    return wring_session_settle(session, has_executor ? plan->executor : tunables->executor,
                                has_pieces ? plan->chunk_bytes : tunables->chunk_bytes);
}

/* ---- candidates ---- */

/* What rank 0 asks the planner. */

/** What was recorded, as the planner has it, and what may be chosen. */
struct input {
    const struct wring_autotune *autotune;
    bool early;                      /* buckets cannot be merged */
    struct wring_tensor_trace trace; /* by when tensors are ready */
    uint32_t *order;                 /* [trace.n] the session's tensors likewise */
    struct wring_collective_bench_codecs codecs, listed;  /* of any bucket; that all may take */
    const char *specs[WRING_COLLECTIVE_BENCH_CODECS_MAX]; /* the former */
    struct wring_profile profile; /* the session's, but for the candidates: a copy, in which those
                                     of other tunings are carried on */
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
static bool allows_codec(const struct input *input, uint32_t tensor, const char *spec)
{
    const struct wring_bucket *bucket = input->autotune->iterations.tensors[tensor].bucket;

    return strcmp(spec, "none") == 0 || strcmp(spec, wring_codec_info(bucket->codec)->spec) == 0 ||
           wring_collective_bench_has(&input->listed, spec);
}

static enum wring_status set_allowed(const struct input *input, struct model *out)
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
            if (!barred && allows_codec(input, input->order[i], option_spec(out, o)))
                out->allowed[word] |= UINT64_C(1) << o % 64;
        }
    problem->allowed = out->allowed;
    return WRING_OK;
}

/** May tensor i of the trace take that option? */
static bool may_take_option(const struct model *made, uint32_t i, uint32_t option)
{
    uint32_t words = wring_problem_words(&made->model->problem);

    return made->allowed[(size_t)i * words + option / 64] >> option % 64 & 1;
}

/* ---- models ---- */

static struct wring_cost_model_params cost_model_params(const struct input *input)
{
    const struct wring_autotune *autotune = input->autotune;

    return (struct wring_cost_model_params){
        .trace = &input->trace,
        .profile = &input->profile,
        .nodes = autotune->machine.nodes,
        .ranks_per_node = autotune->machine.ranks_per_node,
        .timeline = WRING_TIMELINE_FULL,
        .codecs = input->specs,
        .n_codecs = input->codecs.n,
        .sites = 1u << WRING_SITE_CPU,
        .chunk_bytes = autotune->tunables.chunk_bytes,
        .runnable = true,
        .flat = true, /* a hierarchy's sums have other bits: measurements do not choose it */
    };
}

/** @param tuning  NULL: as configured. Errors: those of a model; it is to be finished then, too.
 */
static enum wring_status model_init(const struct input *input, const struct wring_tuning *tuning,
                                    struct model *out)
{
    struct wring_cost_model_params params = cost_model_params(input);

    *out = (struct model){.model = NULL};
    params.tuning = tuning;
    enum wring_status status =
        wring_cost_model_create(&params, &input->autotune->session->log, &out->model);
    if (status != WRING_OK)
        return status;
    if (input->early) /* who waits for a bucket may not have posted its mates */
        out->model->problem.max_group_elems = 1;
    return set_allowed(input, out);
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

static bool is_configured_tuning(const struct wring_autotune *autotune,
                                 const struct wring_tuning *tuning)
{
    return tuning->cores == autotune->tunables.tuning.cores &&
           tuning->chunk_bytes == autotune->tunables.tuning.chunk_bytes;
}

/** Does the profile know buckets of several pieces with it? */
static bool is_tuning_profiled(const struct wring_autotune *autotune,
                               const struct wring_tuning *tuning)
{
    const struct wring_measured_collective *candidate = wring_profile_collective_at(
        autotune->profile, "none", "auto", autotune->session->size, tuning);

    return candidate != NULL && candidate->max_elems >= wring_autotune_extra_elems(autotune);
}

/** Tunings that a plan may choose among, the configured one first. None: nothing is told apart,
 *  and all is as configured. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status list_tunings(const struct input *input, struct wring_tunings *out)
{
    const struct wring_autotune *autotune = input->autotune;
    const struct wring_cost_model_params params = cost_model_params(input);
    struct wring_tunings *all = calloc(1, sizeof(*all));

    out->n = 0;
    if (all == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = wring_tunings_list(&params, NULL, &autotune->session->log, all);
    for (uint32_t i = 0; i < all->n && status == WRING_OK; i++)
        if (is_configured_tuning(autotune, &all->list[i]))
            out->list[out->n++] = all->list[i];
    for (uint32_t i = 0; i < all->n && out->n > 0; i++) /* without that one nothing compares */
        if (!is_configured_tuning(autotune, &all->list[i]) &&
            wring_autotune_may_have(autotune, &all->list[i]) &&
            is_tuning_profiled(autotune, &all->list[i]))
            out->list[out->n++] = all->list[i];
    free(all);
    return status;
}

/* ---- the question ---- */

/** The profile, with other tunings' candidates as far as the configured one's. */
static enum wring_status make_profile(struct input *input)
{
    const struct wring_profile *profile = input->autotune->profile;
    size_t bytes = (size_t)profile->n_collectives * sizeof(*profile->collectives);

    input->profile = *profile;
    input->profile.collectives = malloc(bytes + 1);
    if (input->profile.collectives == NULL)
        return WRING_ERR_NO_MEMORY;
    memcpy(input->profile.collectives, profile->collectives, bytes);
    if (input->autotune->tunables.tuning.chunk_bytes != 0)
        wring_profile_carry_on(&input->profile, &input->autotune->tunables.tuning);
    return WRING_OK;
}

/** Errors: WRING_ERR_NO_MEMORY, INVALID (WRING_PLAN_CODECS; logged). It is to be finished then,
 *  too. */
static enum wring_status question_init(struct input *input, const struct wring_autotune *autotune,
                                       bool early)
{
    *input = (struct input){.autotune = autotune, .early = early};
    enum wring_status status = wring_iterations_trace(&autotune->iterations, autotune->ready_us,
                                                      &input->order, &input->trace);
    if (status == WRING_OK)
        status = wring_autotune_codecs(autotune->session, autotune, &input->codecs);
    if (status == WRING_OK)
        status = read_listed_codecs(autotune->session, &input->listed);
    if (status == WRING_OK)
        status = make_profile(input);
    for (uint32_t i = 0; i < input->codecs.n; i++)
        input->specs[i] = input->codecs.specs[i];
    return status;
}

static void question_finish(struct input *input)
{
    free(input->profile.collectives);
    free(input->order);
    free(input->trace.tensors);
}

/* ---- think ---- */

/* Rank 0 has the recorded iterations and a profile, and asks the planner for candidates worth a
 * try. */

#define BUDGET_NS                                                                  \
    (100 * 1000000ull) /* of all searches; models of hundreds of tensors take less \
                        */
#define WORTH_IT 0.95  /* of the time as configured: another tuning must promise more than noise */

/** What the planner says of one tuning. */
struct answer {
    struct model made;
    struct wring_found found;
};

/** The planner's input, and what becomes of it. */
struct thinking {
    struct wring_autotune *autotune;
    struct input input;
    struct wring_tunings *tunings;
    struct answer configured, best; /* the latter of other tunings; without a model: there is none
                                     */
    struct wring_grouping grouping;
    uint64_t took_ns; /* by searches */
};

/* ---- candidates ---- */

/** A plan with the configured number of cores names the executor as the configuration does. */
static void name_executor(const struct wring_autotune *autotune,
                          const struct wring_cost_model *model, struct wring_plan *plan)
{
    const struct wring_autotune_tunables *tunables = &autotune->tunables;

    if (model->settled && model->tuning.cores == tunables->tuning.cores)
        snprintf(plan->executor, sizeof(plan->executor), "%.63s", tunables->executor);
}

static enum wring_status add_candidate(struct thinking *thinking,
                                       const struct wring_cost_model *model,
                                       const struct wring_grouping *grouping, const char *name)
{
    struct wring_autotune *autotune = thinking->autotune;
    struct wring_autotune_candidate *candidate = &autotune->candidates[autotune->n_candidates];
    const struct input *input = &thinking->input;

    *candidate = (struct wring_autotune_candidate){.plan = NULL};
    enum wring_status status =
        wring_plan_create(model, &input->trace, &input->profile, grouping, &candidate->plan);
    if (status != WRING_OK)
        return status;
    name_executor(autotune, model, candidate->plan);
    snprintf(candidate->name, sizeof(candidate->name), "%s", name);
    candidate->predicted_us = candidate->plan->iteration_us;
    autotune->n_candidates++;
    return WRING_OK;
}

/* ---- tunings ---- */

static void finish_answer(struct answer *answer)
{
    wring_grouping_finish(&answer->found.grouping);
    model_finish(&answer->made);
    *answer = (struct answer){.found.time_us = INFINITY};
}

/** @param left  tunings to be looked at, this one among them */
static enum wring_status search_with_tuning(struct thinking *thinking,
                                            const struct wring_tuning *tuning, uint32_t left,
                                            struct answer *out)
{
    uint64_t rest_ns = thinking->took_ns < BUDGET_NS ? BUDGET_NS - thinking->took_ns : 0;
    struct wring_search_params params = {.budget_ns = rest_ns / left + 1};

    *out = (struct answer){.found.time_us = INFINITY};
    enum wring_status status = model_init(&thinking->input, tuning, &out->made);
    if (status != WRING_OK)
        return status;
    params.offload = out->made.model->offload;
    params.on_device = out->made.model->on_device;
    params.uncompressed = out->made.model->raw;
    params.kinds = out->made.model->kinds;
    params.alike = out->made.model->alike;
    status = wring_search_run(&out->made.model->problem, &params, &out->found);
    thinking->took_ns += status == WRING_OK ? out->found.took_ns : 0;
    return status;
}

/** The best plan as configured, and the best one with another tuning. */
static enum wring_status search_all_tunings(struct thinking *thinking)
{
    const struct wring_tunings *tunings = thinking->tunings;
    const struct wring_tuning *configured = tunings->n > 0 ? tunings->list : NULL;
    uint32_t n = tunings->n > 0 ? tunings->n : 1;
    enum wring_status status = search_with_tuning(thinking, configured, n, &thinking->configured);

    for (uint32_t i = 1; i < n && status == WRING_OK; i++) {
        struct answer other;
        status = search_with_tuning(thinking, &tunings->list[i], n - i, &other);
        if (status == WRING_OK && other.found.time_us < thinking->best.found.time_us) {
            struct answer worse = thinking->best;
            thinking->best = other;
            other = worse;
        }
        finish_answer(&other);
    }
    return status;
}

/** The plan; where another tuning promises to be faster, that of the configured one beside it:
 * what pinned cores take from the application is in no profile. */
static enum wring_status add_searched_candidates(struct thinking *thinking)
{
    const struct answer *configured = &thinking->configured, *best = &thinking->best;
    enum wring_status status = search_all_tunings(thinking);

    if (status != WRING_OK)
        return status;
    if (best->found.time_us >= WORTH_IT * configured->found.time_us)
        return add_candidate(thinking, configured->made.model, &configured->found.grouping,
                             "the plan");
    status = add_candidate(thinking, best->made.model, &best->found.grouping, "the plan");
    return status == WRING_OK ? add_candidate(thinking, configured->made.model,
                                              &configured->found.grouping, "the plan as configured")
                              : status;
}

/* ---- plain candidates, as configured ---- */

/** Each bucket by itself, with an option, as its type of elements has it, where it may take that,
 *  else uncompressed. */
static void group_each_apart(struct thinking *thinking, uint32_t option)
{
    const struct model *made = &thinking->configured.made;
    const struct wring_cost_model *model = made->model;
    struct wring_grouping *grouping = &thinking->grouping;

    grouping->n = thinking->input.trace.n;
    for (uint32_t i = 0; i < grouping->n; i++) {
        uint32_t wanted = wring_cost_model_option(model, i, option);
        grouping->end[i] = i + 1;
        grouping->option[i] = may_take_option(made, i, wanted)
                                  ? wanted
                                  : wring_cost_model_option(model, i, model->raw);
    }
}

/** Is it what runs now? */
static bool is_as_registered(const struct thinking *thinking, const char *spec)
{
    const struct wring_autotune *autotune = thinking->autotune;

    for (uint32_t i = 0; i < autotune->iterations.n; i++)
        if (strcmp(wring_bucket_spec(autotune->iterations.tensors[i].bucket), spec) != 0)
            return false;
    return true;
}

static const char *registered_spec(const struct thinking *thinking, uint32_t option)
{
    return option_spec(&thinking->configured.made, option);
}

/** The option that ends the iteration soonest if each tensor travels by itself with it. Raw and the
 *  codec as registered are left out. */
static uint32_t find_best_apart(struct thinking *thinking)
{
    const struct wring_cost_model *model = thinking->configured.made.model;
    const struct wring_problem *problem = &model->problem;
    uint32_t best = problem->n_options;
    double least_us = INFINITY;

    for (uint32_t o = 0; o < problem->n_options; o++) {
        bool raw = o == model->raws[model->options[o].dtype];
        if (raw || is_as_registered(thinking, registered_spec(thinking, o)))
            continue;
        group_each_apart(thinking, o);
        double us = wring_problem_time(problem, &thinking->grouping);
        if (us < least_us) {
            least_us = us;
            best = o;
        }
    }
    return best;
}

/** Plain candidates beside the plan: a model that errs does not stand between the job and them. */
static enum wring_status add_plain_candidates(struct thinking *thinking)
{
    const struct wring_cost_model *model = thinking->configured.made.model;
    enum wring_status status = WRING_OK;
    char name[64];

    if (!is_as_registered(thinking, "none")) {
        group_each_apart(thinking, model->raw);
        status = add_candidate(thinking, model, &thinking->grouping, "each by itself, none");
    }
    uint32_t best = find_best_apart(thinking);
    if (status != WRING_OK || best == model->problem.n_options)
        return status;
    group_each_apart(thinking, best);
    snprintf(name, sizeof(name), "each by itself, %.40s", registered_spec(thinking, best));
    return add_candidate(thinking, model, &thinking->grouping, name);
}

static enum wring_status add_all_candidates(struct thinking *thinking, bool early)
{
    enum wring_status status = question_init(&thinking->input, thinking->autotune, early);

    if (status == WRING_OK && thinking->autotune->session->recorder != NULL)
        wring_recorder_write(thinking->autotune->session->recorder, &thinking->input.trace);
    if (status == WRING_OK)
        status = list_tunings(&thinking->input, thinking->tunings);
    if (status == WRING_OK)
        status = wring_grouping_init(&thinking->grouping, thinking->input.trace.n);
    if (status == WRING_OK)
        status = add_searched_candidates(thinking);
    return status == WRING_OK ? add_plain_candidates(thinking) : status;
}

/** In rank 0: add the candidates that are worth a try for the recorded iterations. The first
 * candidate, as registered, is there already. @param early  buckets cannot be merged. Errors:
 * logged */
static enum wring_status find_candidates(struct wring_autotune *autotune, bool early)
{
    struct thinking thinking = {.autotune = autotune,
                                .tunings = calloc(1, sizeof(*thinking.tunings)),
                                .configured.found.time_us = INFINITY,
                                .best.found.time_us = INFINITY};

    if (thinking.tunings == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = add_all_candidates(&thinking, early);
    if (early)
        wring_info(&autotune->session->log,
                   "WRING_PLAN=auto: buckets are waited for before all are posted, so that none "
                   "are merged");
    wring_grouping_finish(&thinking.grouping);
    finish_answer(&thinking.configured);
    finish_answer(&thinking.best);
    question_finish(&thinking.input);
    free(thinking.tunings);
    return status;
}

/* ---- plans to try, from rank 0 to all ---- */

/* Rank 0 decides on the candidates to try, and sends its plans to the others. */

#define PLAN_BYTES_MAX (16u << 20)

static void write_candidate(const struct wring_autotune_candidate *candidate,
                            struct wring_writer *out)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file == NULL || wring_plan_save(candidate->plan, file) != WRING_OK)
        out->failed = true;
    if (file != NULL && fclose(file) != 0)
        out->failed = true;
    wring_write_sized(out, candidate->name, strlen(candidate->name));
    wring_write_sized(out, text, out->failed ? 0 : bytes);
    free(text);
}

static enum wring_status read_candidate(struct wring_autotune *autotune, struct wring_reader *in)
{
    struct wring_autotune_candidate *candidate = &autotune->candidates[autotune->n_candidates];
    size_t bytes;

    *candidate = (struct wring_autotune_candidate){.plan = NULL};
    wring_read_text(in, candidate->name, sizeof(candidate->name));
    const char *text = wring_read_sized(in, &bytes);
    if (in->failed || bytes > PLAN_BYTES_MAX)
        return WRING_ERR_FRAME;
    enum wring_status status =
        wring_plan_parse("rank 0's plan", text, bytes, &autotune->session->log, &candidate->plan);
    if (status != WRING_OK)
        return status;
    candidate->predicted_us = candidate->plan->iteration_us;
    autotune->n_candidates++;
    return WRING_OK;
}

static enum wring_status read_candidates(struct wring_autotune *autotune, struct wring_reader in)
{
    enum wring_status status = (enum wring_status)wring_read_u32(&in);
    uint32_t n = wring_read_u32(&in);

    if (status != WRING_OK || in.failed)
        return status != WRING_OK ? status : WRING_ERR_FRAME;
    if (n == 0 || n > WRING_AUTOTUNE_CANDIDATES_MAX)
        return WRING_ERR_FRAME;
    for (uint32_t i = 1; i < n && status == WRING_OK; i++)
        status = read_candidate(autotune, &in);
    return status;
}

enum wring_status wring_autotune_find_candidates(struct wring_autotune *autotune, bool early)
{
    struct wring_session *session = autotune->session;
    enum wring_status status = WRING_OK;
    struct wring_writer writer = {0};
    struct wring_blobs blobs;

    if (session->rank == 0) {
        uint64_t began_ns = wring_now_ns();
        status = find_candidates(autotune, early);
        autotune->spent_ns += wring_now_ns() - began_ns;
        wring_write_u32(&writer, status);
        wring_write_u32(&writer, autotune->n_candidates);
        for (uint32_t i = 1; i < autotune->n_candidates && status == WRING_OK; i++)
            write_candidate(&autotune->candidates[i], &writer);
    }
    enum wring_status exchanged = wring_session_exchange_writer(session, &writer, &blobs);
    if (exchanged != WRING_OK)
        return exchanged;
    if (session->rank != 0)
        status = read_candidates(autotune, wring_blobs_reader(&blobs, 0));
    wring_blobs_finish(&blobs);
    return wring_session_agree(session, status, NULL);
}
