/* SPDX-License-Identifier: Apache-2.0 */
/* What options take, and which tensors may take them. */
#include "planner/core/model/builder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/model/option_work.h"
#include <wring/codec.h>
#include <wring/types.h>

#define WRING_MODULE "planner"

/** A codec's error where it is needed again and again. */
struct error {
    const struct wring_model_builder *builder;
    const char *spec;
    struct wring_encodings encodings;
    bool on_gradients; /* or else of bell-shaped numbers */
    char
        in[WRING_CODEC_SPEC_MAX]; /* of "in>back" where both were measured by themselves; else "" */
    const char *back;             /* likewise */
    bool other_back; /* its sums travel as other codes, whose error is known: nmse_back */
    double nmse_in, nmse_back;
};

/** On the gradients of one tensor, or of all together where that was not recorded. */
static double error_on_gradients(const struct error *error, const char *spec, const char *tensor)
{
    return wring_profile_error(error->builder->params->profile, spec, tensor);
}

static struct error find_error(const struct wring_model_builder *builder, uint32_t codec,
                               struct wring_encodings encodings)
{
    const struct wring_profile_codec *both = &builder->model->codecs[codec];
    struct error error = {.builder = builder,
                          .spec = both->spec,
                          .encodings = encodings,
                          .nmse_in = builder->nmse_in[codec],
                          .nmse_back = builder->back[codec].nmse};
    const char *two = strchr(both->spec, '>');

    error.on_gradients = !isnan(error_on_gradients(&error, both->spec, NULL));
    if (two != NULL) {
        memcpy(error.in, both->spec, (size_t)(two - both->spec));
        error.in[two - both->spec] = '\0';
        error.back = two + 1;
        if (error.on_gradients ? isnan(error_on_gradients(&error, error.in, NULL)) ||
                                     isnan(error_on_gradients(&error, error.back, NULL))
                               : strcmp(builder->back[codec].spec, both->spec) == 0)
            error.in[0] = '\0'; /* measured as one */
    }
    /* on gradients, a pair that was measured as one has lost on both ways */
    error.other_back = error.in[0] == '\0' && both->traits.way_back.bytes.n > 0 &&
                       (two == NULL || !error.on_gradients);
    if (error.other_back)
        error.nmse_back = both->traits.way_back.nmse;
    return error;
}

/** A tensor's error: the sum over its encodings, each with the error of one. */
static double error_on_tensor(const struct error *error, uint32_t tensor)
{
    const char *name = error->builder->params->trace->tensors[tensor].name;
    double in = error->encodings.in, back = error->encodings.back;

    if (error->in[0] != '\0')
        return error->on_gradients ? in * error_on_gradients(error, error->in, name) +
                                         back * error_on_gradients(error, error->back, name)
                                   : in * error->nmse_in + back * error->nmse_back;
    double nmse =
        error->on_gradients ? error_on_gradients(error, error->spec, name) : error->nmse_in;
    if (error->other_back)
        return in * nmse + back * error->nmse_back;
    return (error->back != NULL ? fmax(in, back) : in + back) * nmse;
}

/** The fewest encodings that a collective has with a codec of that name. */
static struct wring_encodings model_fewest(const char *spec)
{
    return (struct wring_encodings){1, strchr(spec, '>') != NULL};
}

static enum wring_budget compute_budget(const struct wring_model_builder *builder, uint32_t codec,
                                        struct wring_encodings encodings)
{
    uint32_t n = builder->params->trace->n, within = 0;

    if (builder->params->max_nmse <= 0 || encodings.in + encodings.back == 0)
        return WRING_BUDGET_WITHIN;
    struct error error = find_error(builder, codec, encodings);
    if (!error.on_gradients && isnan(builder->model->codecs[codec].nmse))
        return WRING_BUDGET_UNKNOWN;
    for (uint32_t i = 0; i < n; i++)
        within += error_on_tensor(&error, i) <= builder->params->max_nmse;
    if (within == n)
        return WRING_BUDGET_WITHIN;
    return within > 0 ? WRING_BUDGET_SOMEWHERE : WRING_BUDGET_BEYOND;
}

/** Compare a new codec's error with the budget. If it was not measured on gradients, its error on
 * bell-shaped numbers is taken. */
static void model_weigh(struct wring_model_builder *builder, uint32_t codec)
{
    for (uint32_t in = 0; in <= WRING_ENCODINGS_MAX; in++)
        for (uint32_t back = 0; back <= WRING_ENCODINGS_MAX; back++)
            builder->budgets[codec].of[in][back] =
                compute_budget(builder, codec, (struct wring_encodings){in, back});
}

/** The same for that many encodings, one after another. */
static enum wring_budget model_budget(const struct wring_model_builder *builder, uint32_t codec,
                                      struct wring_encodings encodings)
{
    return builder->budgets[codec].of[encodings.in][encodings.back];
}

/** Bar an option from the tensors on which it loses too much. @param nobody  from all: it serves
 *  comparisons only */
static void bar_option(const struct wring_model_builder *builder, uint32_t option, bool nobody)
{
    struct wring_cost_model *model = builder->model;
    const struct wring_cost_option *of = &model->options[option];
    struct error error = find_error(builder, of->codec, wring_option_encodings(&of->option));
    uint32_t words = wring_problem_words(&model->problem);

    for (uint32_t tensor = 0; tensor < model->problem.n_tensors; tensor++)
        if (nobody || error_on_tensor(&error, tensor) > builder->params->max_nmse)
            model->allowed[(size_t)tensor * words + option / 64] &= ~(UINT64_C(1) << option % 64);
}

static enum wring_status make_allowed(struct wring_cost_model *model)
{
    size_t words = (size_t)model->problem.n_tensors * wring_problem_words(&model->problem);

    if (model->allowed != NULL)
        return WRING_OK;
    model->problem.allowed = model->allowed = malloc(words * sizeof(*model->allowed));
    if (model->allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    memset(model->allowed, 0xFF, words * sizeof(*model->allowed));
    return WRING_OK;
}

/** An option is for tensors of its own type: what is merged is of one type. */
static void bar_other_dtypes(const struct wring_model_builder *builder, uint32_t option)
{
    struct wring_cost_model *model = builder->model;
    uint32_t words = wring_problem_words(&model->problem);

    for (uint32_t tensor = 0; tensor < model->problem.n_tensors; tensor++)
        if (wring_tensor_trace_dtype(model->trace, tensor) != model->options[option].dtype)
            model->allowed[(size_t)tensor * words + option / 64] &= ~(UINT64_C(1) << option % 64);
}

enum wring_status wring_model_bar(struct wring_model_builder *builder)
{
    struct wring_cost_model *model = builder->model;
    bool mixed = wring_tensor_trace_is_mixed(model->trace);
    enum wring_status status = mixed ? make_allowed(model) : WRING_OK;

    for (uint32_t i = 0; i < model->problem.n_options && status == WRING_OK; i++) {
        uint32_t codec = model->options[i].codec;
        enum wring_budget budget =
            model_budget(builder, codec, wring_option_encodings(&model->options[i].option));
        bool nobody = builder->candidates.list[i].barred;
        if (mixed && status == WRING_OK)
            bar_other_dtypes(builder, i);
        if (!nobody && budget == WRING_BUDGET_WITHIN)
            continue;
        status = make_allowed(model);
        if (status == WRING_OK)
            bar_option(builder, i, nobody);
    }
    return status;
}

/* ---- collectives ---- */

/*
 * Options of a profile that has measured whole collectives. These measurements say more than sums
 * of link and codec times, and they are of just the options that the runtime can execute.
 *
 * A group is exchanged for as long as a further bucket takes behind others: then the next group can
 * begin. A single bucket takes longer; the difference follows on a lane of its own.
 */

enum {
    DEVICE,
    COLLECTIVE,
    REST
};

static const struct wring_lanes collective_lanes = {
    3, {"device", WRING_LANE_COLLECTIVE, "rest of it"}};

static struct wring_step make_coding_step(enum wring_step_kind kind)
{
    return (struct wring_step){.kind = kind, .site = WRING_SITE_CPU};
}

static struct wring_step make_comm_step(enum wring_routine routine, bool coded)
{
    return (struct wring_step){.kind = WRING_STEP_COMM, .routine = routine, .coded = coded};
}

static bool is_in_nodes(const char *run_as)
{
    return strncmp(run_as, "hierarchical", strlen("hierarchical")) == 0;
}

/** One collective, as the tree has its steps, without phases. */
static struct wring_option collective_of(const char *spec, const char *run_as)
{
    if (strcmp(spec, "none") == 0)
        return (struct wring_option){1, {make_comm_step(WRING_ROUTINE_ALLREDUCE, false)}};
    if (strcmp(run_as, "indivisible") == 0 || strcmp(run_as, "hierarchical-indivisible") == 0)
        return (struct wring_option){3,
                                     {make_coding_step(WRING_STEP_ENCODE),
                                      make_comm_step(WRING_ROUTINE_ALLGATHER, true),
                                      make_coding_step(WRING_STEP_DECODE)}};
    if (wring_option_adds_codes(spec))
        return (struct wring_option){4,
                                     {make_coding_step(WRING_STEP_ENCODE),
                                      make_comm_step(WRING_ROUTINE_REDUCE_SCATTER, true),
                                      make_comm_step(WRING_ROUTINE_ALLGATHER, true),
                                      make_coding_step(WRING_STEP_DECODE)}};
    return (struct wring_option){
        6,
        {make_coding_step(WRING_STEP_ENCODE), make_comm_step(WRING_ROUTINE_ALLTOALL, true),
         make_coding_step(WRING_STEP_DECODE), make_coding_step(WRING_STEP_ENCODE),
         make_comm_step(WRING_ROUTINE_ALLGATHER, true), make_coding_step(WRING_STEP_DECODE)}};
}

static void append_step(struct wring_option *option, struct wring_step step, enum wring_phase phase)
{
    step.phase = phase;
    option->steps[option->n++] = step;
}

/** The steps of a collective, as the tree has them: what is decoded last belongs to the last phase.
 */
static struct wring_option steps_of(const char *spec, const char *run_as)
{
    struct wring_option inner = collective_of(spec, run_as), option = {.n = 0};
    bool in_nodes = is_in_nodes(run_as);
    enum wring_phase phase = in_nodes ? WRING_PHASE_INTER : WRING_PHASE_FLAT;

    if (in_nodes)
        append_step(&option, make_comm_step(WRING_ROUTINE_REDUCE_SCATTER, false),
                    WRING_PHASE_INTRA_IN);
    for (uint32_t i = 0; i < inner.n; i++)
        append_step(&option, inner.steps[i],
                    in_nodes && i > 0 && i + 1 == inner.n ? WRING_PHASE_INTRA_OUT : phase);
    if (in_nodes)
        append_step(&option, make_comm_step(WRING_ROUTINE_ALLGATHER, false), WRING_PHASE_INTRA_OUT);
    return option;
}

static bool model_from_components(const struct wring_model_builder *builder, uint32_t codec,
                                  const struct wring_option *option, struct wring_cost *busy,
                                  struct wring_cost *rest);

/** Benchmarks measure what plans cannot carry, too. Of a program's own codecs nobody can say. */
static bool is_refused(const struct wring_model_builder *builder, uint32_t codec,
                       const struct wring_option *option)
{
    const char *spec = builder->model->codecs[codec].spec;
    struct wring_codec *known;

    if (!builder->params->runnable ||
        wring_option_run_as(option, spec, builder->model->ranks_per_node)[0] != '\0' ||
        wring_codec_create(spec, NULL, NULL, NULL, 0, &known) != WRING_OK)
        return false;
    wring_codec_destroy(known);
    return true;
}

static struct wring_measured_cost scale_elems(const struct wring_measured_cost *cost, double width)
{
    return (struct wring_measured_cost){.busy = wring_cost_scale(&cost->busy, 1, width),
                                        .rest = wring_cost_scale(&cost->rest, 1, width)};
}

static enum wring_status offer_collective(struct wring_model_builder *builder, uint32_t codec,
                                          const char *run_as, bool baseline)
{
    const struct wring_cost_model *model = builder->model;
    const struct wring_core_scaling scaling = wring_model_core_scaling(builder);
    struct wring_measured_cost cost;
    const struct wring_measured_collective *collective =
        wring_core_scaling_collective(&scaling, model->codecs[codec].spec, run_as, &cost);
    struct wring_candidate candidate = {
        .baseline = baseline,
        .barred = builder->barred[codec],
        .option = {.codec = codec, .dtype = builder->dtype, .site = WRING_SITE_CPU}};

    candidate.option.option = steps_of(model->codecs[codec].spec, run_as);
    if (collective == NULL &&
        (is_in_nodes(run_as) ||
         !model_from_components(builder, codec, &candidate.option.option, &cost.busy, &cost.rest)))
        return WRING_OK;
    if (collective != NULL)
        cost =
            scale_elems(&cost, wring_cost_model_width(builder->dtype, model->codecs[codec].spec));
    candidate.encodings = wring_option_encodings(&candidate.option.option);
    enum wring_budget budget = model_budget(builder, codec, candidate.encodings);
    candidate.somewhere = budget == WRING_BUDGET_SOMEWHERE;
    candidate.barred = candidate.barred || budget == WRING_BUDGET_BEYOND;
    if (builder->params->indivisible && wring_option_is_divisible(&candidate.option.option))
        candidate.barred = true;
    if (is_refused(builder, codec, &candidate.option.option))
        candidate.barred = true;
    if (candidate.barred && !baseline)
        return WRING_OK;
    candidate.option.collective = collective;
    candidate.cost.each[COLLECTIVE] = cost.busy;
    candidate.cost.each[REST] = cost.rest;
    if (builder->params->scattered) {
        struct wring_cost copy =
            wring_work_copy(builder->params->profile, wring_model_elem_bytes(builder));
        copy = wring_cost_scale(&copy, 2, 1);
        candidate.cost.each[COLLECTIVE] = wring_cost_add(&cost.busy, &copy);
    }
    return wring_candidates_offer(&builder->candidates, &candidate);
}

struct wring_core_scaling wring_model_core_scaling(const struct wring_model_builder *builder)
{
    const struct wring_cost_model *model = builder->model;

    return (struct wring_core_scaling){.profile = builder->params->profile,
                                       .nodes = model->nodes,
                                       .ranks_per_node = model->ranks_per_node,
                                       .link_scale = builder->link_scale,
                                       .computing = builder->params->computing,
                                       .tuning = model->settled ? &model->tuning : NULL};
}

bool wring_model_has_measured(const struct wring_model_builder *builder)
{
    const struct wring_core_scaling scaling = wring_model_core_scaling(builder);
    struct wring_measured_cost cost;

    return builder->model->timeline == WRING_TIMELINE_FULL &&
           wring_core_scaling_collective(&scaling, "none", "auto", &cost) != NULL;
}

/** The load of a codec's collectives, in its faster scheme; 0 if the profile has neither. */
static double load_of(const struct wring_model_builder *builder, const char *spec)
{
    const struct wring_core_scaling scaling = wring_model_core_scaling(builder);
    double share = builder->params->profile->computing.core_share, load = 0, pace = 0;

    for (unsigned i = 0; i < WRING_SCHEMES; i++) {
        struct wring_measured_cost cost;
        const struct wring_measured_collective *collective = wring_core_scaling_collective(
            &scaling, spec, wring_scheme_name((enum wring_scheme)i), &cost);
        if (collective == NULL)
            continue;
        double elems = (double)collective->max_elems, us = wring_cost_at(&cost.busy, elems);
        if (us > 0 && elems / us > pace) {
            pace = elems / us;
            load = wring_cost_at(&collective->cpu.us, elems) / us / (share > 0 ? share : 1);
        }
    }
    return load < 1 ? load : 1;
}

double wring_model_load(const struct wring_model_builder *builder)
{
    const struct wring_cost_model *model = builder->model;
    double most = 0;
    bool any = false;

    for (uint32_t codec = 1; codec < model->n_codecs; codec++) {
        double load = builder->barred[codec] ? 0 : load_of(builder, model->codecs[codec].spec);
        most = load > most ? load : most;
        any = any || !builder->barred[codec];
    }
    if (any && builder->params->keep_dominated)
        return most; /* only these may be taken */
    double raw = load_of(builder, "none");
    return raw > most ? raw : most;
}

/** Is the codec faster as `run_as` than as `than`, with large buckets? The faster is the baseline.
 */
static bool is_faster(const struct wring_model_builder *builder, uint32_t codec, const char *run_as,
                      const char *than)
{
    const struct wring_core_scaling scaling = wring_model_core_scaling(builder);
    const char *spec = builder->model->codecs[codec].spec;
    struct wring_measured_cost cost, other_cost;
    const struct wring_measured_collective *collective =
        wring_core_scaling_collective(&scaling, spec, run_as, &cost);
    const struct wring_measured_collective *other =
        wring_core_scaling_collective(&scaling, spec, than, &other_cost);

    if (collective == NULL || other == NULL)
        return collective != NULL;
    double elems = (double)(collective->max_elems < other->max_elems ? collective->max_elems
                                                                     : other->max_elems);
    return wring_cost_at(&cost.busy, elems) < wring_cost_at(&other_cost.busy, elems);
}

/** A codec in one scheme, between all ranks and, unless plans do without, between nodes. */
static enum wring_status offer_both(struct wring_model_builder *builder, uint32_t codec,
                                    enum wring_scheme flat, bool baseline)
{
    const char *all = wring_scheme_name(flat);
    const char *nodes = wring_scheme_name((enum wring_scheme)(flat + WRING_SCHEME_HIERARCHICAL));
    bool in_nodes = !builder->params->flat && is_faster(builder, codec, nodes, all);
    enum wring_status status = offer_collective(builder, codec, all, baseline && !in_nodes);

    if (status != WRING_OK || builder->params->flat)
        return status;
    return offer_collective(builder, codec, nodes, baseline && in_nodes);
}

enum wring_status wring_model_from_measured(struct wring_model_builder *builder)
{
    const struct wring_cost_model *model = builder->model;
    enum wring_status status = offer_both(builder, 0, WRING_SCHEME_AUTO, true);

    builder->lanes = collective_lanes;
    for (uint32_t codec = 1; codec < model->n_codecs && status == WRING_OK; codec++) {
        bool baseline =
            builder->dtype == WRING_F32 && strcmp(model->codecs[codec].spec, "fp16") == 0;
        status = offer_both(builder, codec, WRING_SCHEME_DIVISIBLE, baseline);
        bool one_way = strchr(model->codecs[codec].spec, '>') == NULL;
        if (status == WRING_OK && one_way)
            status = offer_both(builder, codec, WRING_SCHEME_INDIVISIBLE, false);
    }
    return status;
}

/* ---- from components ---- */

/* Which codecs a model has. */

#define CODECS_MAX 1024
#define SPEC_BYTES sizeof(((struct wring_profile_codec *)NULL)->spec)

static bool has_profile_codec(const struct wring_profile *profile, const char *spec)
{
    for (uint32_t i = 0; i < profile->n_codecs; i++)
        if (strcmp(profile->codecs[i].spec, spec) == 0)
            return true;
    return false;
}

/** Find a codec in the profile, or make it of two of the profile's. */
static enum wring_status find_codec(const struct wring_model_builder *builder, const char *spec,
                                    struct wring_profile_codec *in,
                                    struct wring_profile_codec *back)
{
    const struct wring_profile *profile = builder->params->profile;
    const char *two = strchr(spec, '>');
    char first[SPEC_BYTES];
    enum wring_status status;

    if (two == NULL || has_profile_codec(profile, spec) || strlen(spec) >= SPEC_BYTES) {
        status = wring_profile_codec(profile, spec, builder->log, in);
        if (status == WRING_OK)
            *back = *in;
        return status;
    }
    memcpy(first, spec, (size_t)(two - spec));
    first[two - spec] = '\0';
    status = wring_profile_codec(profile, first, builder->log, in);
    if (status == WRING_OK)
        status = wring_profile_codec(profile, two + 1, builder->log, back);
    if (status != WRING_OK)
        return status;
    memcpy(in->spec, spec, strlen(spec) + 1);
    in->feedback = in->feedback || back->feedback;
    return WRING_OK;
}

/** Without whole collectives a codec costs what the cores take that code it. */
static void use_coder_times(const struct wring_model_builder *builder,
                            struct wring_profile_codec *codec)
{
    const struct wring_core_scaling scaling = wring_model_core_scaling(builder);

    if (!wring_model_has_measured(builder))
        wring_core_scaling_code(&scaling, codec);
}

static enum wring_status check_error(const struct wring_model_builder *builder, uint32_t index,
                                     enum wring_budget *out)
{
    const struct wring_profile_codec *codec = &builder->model->codecs[index];
    double least = WRING_BUDGET_NOTHING, budget = builder->params->max_nmse;

    budget = budget > least ? budget : 0; /* as it was asked for */
    *out = model_budget(builder, index, model_fewest(codec->spec));
    if (*out == WRING_BUDGET_UNKNOWN) {
        wring_error(builder->log,
                    "nobody measured the error of %s, so that it cannot be held to a budget of "
                    "%g: calibrate on recorded gradients, or allow codecs by name alone",
                    codec->spec, budget);
        return WRING_ERR_INVALID;
    }
    if (*out == WRING_BUDGET_BEYOND)
        wring_info(builder->log,
                   "%s is left out: its error exceeds the budget of %g on all tensors", codec->spec,
                   budget);
    return WRING_OK;
}

static bool may_code(const struct wring_model_builder *builder,
                     const struct wring_profile_codec *codec)
{
    uint32_t asked = builder->params->sites, sites = asked != 0 ? asked : WRING_SITES_DEFAULT;

    for (uint32_t site = 0; site < WRING_SITES; site++)
        if (codec->at[site].present && sites >> site & 1)
            return true;
    return false;
}

/** Warn if errors are those of made-up numbers: better than none, and worse than the training's. */
static void warn_of_made_up(const struct wring_model_builder *builder)
{
    const struct wring_cost_model *model = builder->model;
    const struct wring_profile *profile = builder->params->profile;
    bool any = false;

    for (uint32_t i = 1; i < model->n_codecs; i++)
        any = any || (!builder->barred[i] && model->codecs[i].nmse != 0 && /* exact on any */
                      isnan(wring_profile_error(profile, model->codecs[i].spec, NULL)));
    if (any && builder->params->max_nmse > 0)
        wring_warn(builder->log,
                   "the errors in the profile %s are those of bell-shaped numbers: wring calibrate "
                   "--gradients measures them on a training's gradients",
                   profile->name);
}

/** A codec that the caller asked for is there to be used. */
static enum wring_status check_codec(const struct wring_model_builder *builder, uint32_t index,
                                     enum wring_budget *budget)
{
    const struct wring_profile_codec *in = &builder->model->codecs[index];

    if (!may_code(builder, in) || !may_code(builder, &builder->back[index])) {
        wring_error(builder->log, "nobody who may code has %s in the profile %s", in->spec,
                    builder->params->profile->name);
        return WRING_ERR_INVALID;
    }
    return check_error(builder, index, budget);
}

/** @return the index of a codec that is there already; n_codecs for none */
static uint32_t index_of(const struct wring_cost_model *model, const char *spec)
{
    uint32_t i = 0;

    while (i < model->n_codecs && strcmp(model->codecs[i].spec, spec) != 0)
        i++;
    return i;
}

static enum wring_status add_codec(struct wring_model_builder *builder, const char *spec)
{
    struct wring_cost_model *model = builder->model;
    struct wring_profile_codec *in, *back;
    uint32_t known = index_of(model, spec);
    enum wring_budget budget;

    if (known < model->n_codecs)
        return builder->barred[known] ? check_codec(builder, known, &budget) : WRING_OK;
    in = &model->codecs[known];
    back = &builder->back[known];
    enum wring_status status = find_codec(builder, spec, in, back);
    if (status != WRING_OK)
        return status;
    builder->nmse_in[known] = in->nmse;
    if (strcmp(back->spec, in->spec) != 0) /* else both ways were measured as one */
        in->nmse += back->nmse;
    use_coder_times(builder, in);
    use_coder_times(builder, back);
    model_weigh(builder, known);
    status = check_codec(builder, known, &budget);
    if (status == WRING_OK && budget != WRING_BUDGET_BEYOND)
        model->n_codecs++;
    return status;
}

/**
 * The codec of the 16-bit baseline, if the profile has it. Its error, or who may code, may bar it
 * from plans; it is compared with nonetheless.
 */
static void add_fp16(struct wring_model_builder *builder)
{
    const struct wring_profile *profile = builder->params->profile;
    struct wring_cost_model *model = builder->model;

    for (uint32_t i = 0; i < profile->n_codecs; i++) {
        if (strcmp(profile->codecs[i].spec, "fp16") != 0)
            continue;
        struct wring_profile_codec codec = profile->codecs[i];
        use_coder_times(builder, &codec);
        uint32_t at = model->n_codecs++;
        builder->back[at] = model->codecs[at] = codec;
        builder->nmse_in[at] = codec.nmse;
        model_weigh(builder, at);
        enum wring_budget budget = model_budget(builder, at, model_fewest(codec.spec));
        builder->barred[at] = budget == WRING_BUDGET_BEYOND || budget == WRING_BUDGET_UNKNOWN ||
                              !may_code(builder, &codec);
        return;
    }
}

enum wring_status wring_model_find_codecs(struct wring_model_builder *builder)
{
    const struct wring_cost_model_params *params = builder->params;
    struct wring_cost_model *model = builder->model;
    enum wring_status status;

    if (params->n_codecs > CODECS_MAX) {
        wring_error(builder->log, "%u codecs are more than the %u there may be", params->n_codecs,
                    CODECS_MAX);
        return WRING_ERR_INVALID;
    }
    model->codecs = calloc(params->n_codecs + 2, sizeof(*model->codecs));
    builder->back = calloc(params->n_codecs + 2, sizeof(*builder->back));
    builder->barred = calloc(params->n_codecs + 2, sizeof(*builder->barred));
    builder->budgets = calloc(params->n_codecs + 2, sizeof(*builder->budgets));
    builder->nmse_in = calloc(params->n_codecs + 2, sizeof(*builder->nmse_in));
    builder->ways = calloc(2, sizeof(*builder->ways));
    if (model->codecs == NULL || builder->back == NULL || builder->barred == NULL ||
        builder->nmse_in == NULL || builder->budgets == NULL || builder->ways == NULL)
        return WRING_ERR_NO_MEMORY;
    status = wring_profile_codec(params->profile, "none", builder->log, &model->codecs[0]);
    model->n_codecs = 1;
    add_fp16(builder);
    for (uint32_t i = 0; i < params->n_codecs && status == WRING_OK; i++)
        status = add_codec(builder, params->codecs[i]);
    if (status == WRING_OK)
        warn_of_made_up(builder);
    return status;
}

/* ---- parts ---- */

/*
 * Collectives that were not measured as a whole, beside those that were: put together from the
 * times of links and codecs. One thread does all the work, as with inline codecs. Codec work and
 * link follow one another, and a group stays on the collective's lane for their sum. That is the
 * most it can take there; if a slow link waits for no rank, it is less.
 */

static bool has_collective(const struct wring_model_builder *builder, const char *spec)
{
    static const char *const schemes[] = {"auto", "divisible", "indivisible"};
    uint32_t ranks = builder->model->nodes * builder->model->ranks_per_node;

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (wring_profile_find_collective(builder->params->profile, spec, schemes[i], ranks) !=
            NULL)
            return true;
    return false;
}

/** A pair with an end that is not coded has other steps than these. */
static bool is_half_coded(const char *spec)
{
    const char *two = strchr(spec, '>');

    return two != NULL && (strcmp(two + 1, "none") == 0 || strncmp(spec, "none>", 5) == 0);
}

/** Are there whole collectives of others, but none of this codec, which the CPU can code? */
static bool lacks_measured(const struct wring_model_builder *builder, uint32_t codec)
{
    const struct wring_profile_codec *in = &builder->model->codecs[codec];

    return codec > 0 && !has_collective(builder, in->spec) && !is_half_coded(in->spec) &&
           in->at[WRING_SITE_CPU].present && builder->back[codec].at[WRING_SITE_CPU].present;
}

void wring_model_tell_components(const struct wring_model_builder *builder)
{
    const struct wring_cost_model *model = builder->model;
    char specs[256] = "";

    for (uint32_t codec = 1; codec < model->n_codecs; codec++) {
        size_t used = strlen(specs);
        if (lacks_measured(builder, codec) && !builder->barred[codec])
            snprintf(specs + used, sizeof(specs) - used, "%s%s", used > 0 ? ", " : "",
                     model->codecs[codec].spec);
    }
    if (specs[0] != '\0')
        wring_warn(
            builder->log,
            "the profile %s has no whole collectives of %s: their times are put together from "
            "links and codecs; wring calibrate --codec measures them",
            builder->params->profile->name, specs);
}

/** With the cores that the tuning has: each rank codes what is its own. @return false: nobody
 *  measured it so */
static bool try_coder_times(const struct wring_model_builder *builder,
                            struct wring_profile_codec *codec)
{
    const struct wring_tuning is_inline = {.chunk_bytes = WRING_TUNING_CHUNK_BYTES};
    struct wring_core_scaling scaling = wring_model_core_scaling(builder);

    if (scaling.tuning == NULL)
        scaling.tuning = &is_inline;
    if (!wring_core_scaling_fits(&scaling))
        return false;
    wring_core_scaling_code(&scaling, codec);
    return codec->at[WRING_SITE_CPU].present;
}

/**
 * The cost of a codec without measured collectives on their lanes: the sum of its steps, and
 * latencies.
 * @return false: it has some, or was not measured on cores as the tuning has them
 */
static bool model_from_components(const struct wring_model_builder *builder, uint32_t codec,
                                  const struct wring_option *option, struct wring_cost *busy,
                                  struct wring_cost *rest)
{
    const struct wring_cost_model *model = builder->model;
    struct wring_profile_codec *in = &builder->ways[0], *back = &builder->ways[1];

    *in = model->codecs[codec];
    *back = builder->back[codec];
    const struct wring_work_params params = {.profile = builder->params->profile,
                                             .nodes = model->nodes,
                                             .ranks_per_node = model->ranks_per_node,
                                             .link_scale = builder->link_scale,
                                             .elem_bytes = wring_model_elem_bytes(builder),
                                             .width =
                                                 wring_cost_model_width(builder->dtype, in->spec),
                                             .own_cores = in->n_coders > 0 && back->n_coders > 0,
                                             .in = in,
                                             .out = back};
    struct wring_work work;
    double latency_us = 0;

    if (!lacks_measured(builder, codec) || !try_coder_times(builder, in) ||
        !try_coder_times(builder, back))
        return false;
    wring_option_work(&params, option, &work);
    *busy = (struct wring_cost){.n = 0};
    for (uint32_t worker = 0; worker < WRING_WORKERS; worker++) {
        *busy = wring_cost_add(busy, &work.us[worker]);
        latency_us += work.latency_us[worker];
    }
    *rest = wring_cost_line(latency_us, 0);
    return true;
}
