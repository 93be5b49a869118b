/* SPDX-License-Identifier: Apache-2.0 */
/** Which codecs a model has. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/model/builder.h"
#include "planner/core/model/option_work.h"

#define WRING_MODULE "planner"
#define CODECS_MAX 1024
#define SPEC_BYTES sizeof(((struct wring_profile_codec *)NULL)->spec)

static bool lists(const struct wring_profile *profile, const char *spec)
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

    if (two == NULL || lists(profile, spec) || strlen(spec) >= SPEC_BYTES) {
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

/** Without whole exchanges a codec costs what the cores take that code it. */
static void settle(const struct wring_model_builder *builder, struct wring_profile_codec *codec)
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
    *out = wring_model_budget(builder, index, wring_model_fewest(codec->spec));
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
    uint32_t asked = builder->params->places, places = asked != 0 ? asked : WRING_PLACES_DEFAULT;

    for (uint32_t place = 0; place < WRING_PLACES; place++)
        if (codec->at[place].present && places >> place & 1)
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
    settle(builder, in);
    settle(builder, back);
    wring_model_weigh(builder, known);
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
        settle(builder, &codec);
        uint32_t at = model->n_codecs++;
        builder->back[at] = model->codecs[at] = codec;
        builder->nmse_in[at] = codec.nmse;
        wring_model_weigh(builder, at);
        enum wring_budget budget = wring_model_budget(builder, at, wring_model_fewest(codec.spec));
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
    if (model->codecs == NULL || builder->back == NULL || builder->barred == NULL ||
        builder->nmse_in == NULL || builder->budgets == NULL)
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
 * Exchanges that were not measured as a whole, beside those that were: put together from the times
 * of links and codecs. One thread does all the work, as with inline codecs. Codec work and link
 * follow one another, and a group stays on the exchange's lane for their sum. That is the most it
 * can take there; if a slow link waits for no rank, it is less.
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

/** Are there whole exchanges of others, but none of this codec, which the CPU can code? */
static bool lacks_measured(const struct wring_model_builder *builder, uint32_t codec)
{
    const struct wring_profile_codec *in = &builder->model->codecs[codec];

    return codec > 0 && !has_collective(builder, in->spec) && !is_half_coded(in->spec) &&
           in->at[WRING_PLACE_CPU].present && builder->back[codec].at[WRING_PLACE_CPU].present;
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
        wring_warn(builder->log,
                   "the profile %s has no whole exchanges of %s: their times are put together from "
                   "links and codecs; wring calibrate --codec measures them",
                   builder->params->profile->name, specs);
}

/** With the cores that the tuning has: each rank codes what is its own. @return false: nobody
 *  measured it so */
static bool settle_codec(const struct wring_model_builder *builder,
                         struct wring_profile_codec *codec)
{
    const struct wring_tuning is_inline = {.chunk_bytes = WRING_TUNING_CHUNK_BYTES};
    struct wring_core_scaling scaling = wring_model_core_scaling(builder);

    if (scaling.tuning == NULL)
        scaling.tuning = &is_inline;
    if (!wring_core_scaling_fits(&scaling))
        return false;
    wring_core_scaling_code(&scaling, codec);
    return codec->at[WRING_PLACE_CPU].present;
}

bool wring_model_from_components(const struct wring_model_builder *builder, uint32_t codec,
                                 const struct wring_option *option, struct wring_cost *busy,
                                 struct wring_cost *rest)
{
    const struct wring_cost_model *model = builder->model;
    struct wring_profile_codec in = model->codecs[codec], back = builder->back[codec];
    const struct wring_work_params params = {.profile = builder->params->profile,
                                             .nodes = model->nodes,
                                             .ranks_per_node = model->ranks_per_node,
                                             .link_scale = builder->link_scale,
                                             .own_cores = in.n_coders > 0 && back.n_coders > 0,
                                             .in = &in,
                                             .out = &back};
    struct wring_work work;
    double latency_us = 0;

    if (!lacks_measured(builder, codec) || !settle_codec(builder, &in) ||
        !settle_codec(builder, &back))
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
