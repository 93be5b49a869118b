/* SPDX-License-Identifier: Apache-2.0 */
/** Which options a model has. */
#include "planner/core/model/cost_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/model/builder.h"
#include "planner/core/model/candidates.h"
#include "planner/core/model/lanes.h"
#include "planner/core/model/measured_collective.h"

#define WRING_MODULE "planner"

static uint64_t chunk_bytes(const struct wring_model_builder *builder)
{
    if (builder->model->settled)
        return builder->model->tuning.chunk_bytes;
    return builder->params->chunk_bytes != 0 ? builder->params->chunk_bytes
                                             : WRING_TUNING_CHUNK_BYTES;
}

static struct wring_candidates_params codec_params(const struct wring_model_builder *builder,
                                                   uint32_t codec)
{
    const struct wring_cost_model_params *params = builder->params;
    const struct wring_cost_model *model = builder->model;
    const struct wring_profile_codec *in = codec > 0 ? &model->codecs[codec] : NULL;
    bool two_ways = in != NULL && strchr(in->spec, '>') != NULL;
    const struct wring_profile_codec *out = two_ways ? &builder->back[codec] : in;
    const struct wring_core_scaling scaling = wring_model_core_scaling(builder);

    struct wring_candidates_params walk = {
        .work = {.profile = params->profile,
                 .nodes = model->nodes,
                 .ranks_per_node = model->ranks_per_node,
                 .link_scale = builder->link_scale,
                 .elem_bytes = wring_model_elem_bytes(builder),
                 .width = in != NULL ? wring_cost_model_width(builder->dtype, in->spec) : 1,
                 .scattered = params->scattered,
                 .own_cores = wring_core_scaling_knows(&scaling, in) &&
                              wring_core_scaling_knows(&scaling, out),
                 .in = in,
                 .out = out},
        .timeline = model->timeline,
        .runnable = params->runnable,
        .flat = params->flat,
        .indivisible = params->indivisible,
        .codec = codec,
        .dtype = builder->dtype,
        .sites =
            params->sites != 0 && !builder->barred[codec] ? params->sites : WRING_SITES_DEFAULT,
        .chunk_bytes = chunk_bytes(builder),
        .baseline = codec == 0 ||
                    (builder->dtype == WRING_F32 && strcmp(model->codecs[codec].spec, "fp16") == 0),
        .barred = builder->barred[codec],
        .budgets = builder->budgets[codec]};

    if (!wring_core_scaling_progress(&scaling, &walk.work.progress_us))
        walk.work.progress_us = (struct wring_cost){0};
    return walk;
}

/** Drop lanes that no option uses: a group passes them in no time, so no group waits there. */
static void drop_idle_lanes(struct wring_cost_model *model, const struct wring_lanes *from)
{
    struct wring_lanes lanes = *from;
    uint32_t left = 0;

    for (uint32_t lane = 0; lane < lanes.n; lane++) {
        bool busy = lane == 0;
        for (uint32_t i = 0; i < model->problem.n_options; i++)
            busy = busy || model->costs[i].each[lane].n > 0 || model->costs[i].once[lane].n > 0;
        if (!busy)
            continue;
        for (uint32_t i = 0; i < model->problem.n_options; i++) {
            model->costs[i].each[left] = model->costs[i].each[lane];
            model->costs[i].once[left] = model->costs[i].once[lane];
        }
        model->lanes[left++] = lanes.names[lane];
    }
    model->problem.n_lanes = left;
}

static bool codes_only_on(const struct wring_option *option, enum wring_site site)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind != WRING_STEP_COMM && option->steps[i].site != site)
            return false;
    return true;
}

/** Does the CPU code any of it? */
static bool needs_cores(const struct wring_option *option)
{
    for (uint32_t i = 0; i < option->n; i++)
        if (option->steps[i].kind != WRING_STEP_COMM && option->steps[i].site == WRING_SITE_CPU)
            return true;
    return false;
}

static struct wring_option moved_to(const struct wring_option *option, enum wring_site site)
{
    struct wring_option moved = *option;

    for (uint32_t i = 0; i < moved.n; i++)
        if (moved.steps[i].kind != WRING_STEP_COMM)
            moved.steps[i].site = site;
    return moved;
}

/** The option on the CPU that is the same otherwise, or no worse than that one; n if none is. */
static uint32_t find_offload(struct wring_model_builder *builder, uint32_t option)
{
    const struct wring_candidates *candidates = &builder->candidates;
    const struct wring_candidate *from = &candidates->list[option];
    uint32_t codec = from->option.codec;

    builder->dtype = from->option.dtype;
    struct wring_candidates_params params = codec_params(builder, codec);
    struct wring_option_cost moved_cost;

    if (codec == 0 || !codes_only_on(&from->option.option, WRING_SITE_DEVICE) ||
        !params.work.in->at[WRING_SITE_CPU].present || !params.work.out->at[WRING_SITE_CPU].present)
        return candidates->n;
    struct wring_option moved = moved_to(&from->option.option, WRING_SITE_CPU);
    wring_candidate_cost(&params, &moved, &moved_cost);
    for (uint32_t i = 0; i < candidates->n; i++) {
        const struct wring_candidate *to = &candidates->list[i];
        if (to->option.codec == codec && to->option.dtype == builder->dtype &&
            codes_only_on(&to->option.option, WRING_SITE_CPU) &&
            wring_dominates(&to->cost, &moved_cost, WRING_PLAN_LANES_MAX))
            return i;
    }
    return candidates->n;
}

/* ---- all options ---- */

static enum wring_status walk_codecs(struct wring_model_builder *builder)
{
    struct wring_cost_model *model = builder->model;
    struct wring_candidates *candidates = &builder->candidates;
    enum wring_status status = WRING_OK;

    builder->lanes = wring_lanes_of(model->timeline);
    for (uint32_t codec = 0; codec < model->n_codecs && status == WRING_OK; codec++) {
        struct wring_candidates_params params = codec_params(builder, codec);
        status = wring_candidates_walk(candidates, &params);
    }
    return status;
}

/** Is any tensor of that type? */
static bool has_dtype(const struct wring_model_builder *builder, enum wring_dtype dtype)
{
    const struct wring_tensor_trace *trace = builder->params->trace;

    for (uint32_t i = 0; i < trace->n; i++)
        if (wring_tensor_trace_dtype(trace, i) == dtype)
            return true;
    return false;
}

/** The first type that the trace has, float32 before others. */
static enum wring_dtype first_dtype(const struct wring_model_builder *builder)
{
    enum wring_dtype dtype = WRING_F32;

    while (!has_dtype(builder, dtype))
        dtype++;
    return dtype;
}

/** An option in which nothing is compressed, or fp16's baseline: remember it. */
static void note_baseline(struct wring_cost_model *model, enum wring_dtype first, uint32_t option,
                          const struct wring_candidate *candidate)
{
    uint32_t *raw = &model->raws[candidate->option.dtype];

    if (candidate->option.codec == 0 && !candidate->barred &&
        (candidate->baseline || *raw == model->problem.n_options))
        *raw = option;
    if (candidate->baseline && candidate->option.dtype == first)
        *(candidate->option.codec == 0 ? &model->uncompressed : &model->fp16) = option;
}

static void fill_from_candidates(struct wring_model_builder *builder)
{
    struct wring_cost_model *model = builder->model;
    enum wring_dtype first = first_dtype(builder);
    uint32_t n = builder->candidates.n;

    model->uncompressed = model->fp16 = model->problem.n_options = n;
    for (size_t i = 0; i < sizeof(model->raws) / sizeof(model->raws[0]); i++)
        model->raws[i] = n;
    for (uint32_t i = 0; i < n; i++) {
        const struct wring_candidate *candidate = &builder->candidates.list[i];
        model->costs[i] = candidate->cost;
        model->options[i] = candidate->option;
        if (model->settled && needs_cores(&candidate->option.option))
            model->options[i].cores = model->tuning.cores;
        model->offload[i] = find_offload(builder, i);
        model->on_device[i] = codes_only_on(&candidate->option.option, WRING_SITE_DEVICE);
        note_baseline(model, first, i, candidate);
    }
    model->raw = model->raws[first];
    if (first != WRING_F32 || (model->source == WRING_COSTS_NOTHING && model->fp16 < n))
        model->fp16 = model->uncompressed; /* without collectives nothing is rounded */
}

/** An option's number by a key of its codec and steps, for tensors of a type. */
struct keyed {
    uint64_t key;
    uint32_t option;
};

/** Options that are alike have one key of a type; few others share it. */
static uint64_t key_of(const struct wring_cost_option *of, enum wring_dtype dtype)
{
    uint64_t key = ((uint64_t)of->codec << 8 | of->option.n) << 8 | (uint64_t)dtype;

    for (uint32_t i = 0; i < of->option.n; i++) {
        const struct wring_step *step = &of->option.steps[i];
        bool comm = step->kind == WRING_STEP_COMM;
        key = (key ^ ((uint64_t)step->kind << 8 | (uint64_t)(comm ? step->routine : step->site))) *
              1099511628211u;
    }
    return key;
}

static int by_key(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->option > y->option) - (x->option < y->option);
}

static bool are_alike(const struct wring_cost_option *a, const struct wring_cost_option *b)
{
    return a->codec == b->codec && wring_option_has_steps_of(&a->option, &b->option);
}

/** What tensors of a type take in the place of an option. @param sorted  [n_options] by key */
static uint32_t find_alike(const struct wring_cost_model *model, const struct keyed *sorted,
                           enum wring_dtype dtype, uint32_t option)
{
    const struct wring_cost_option *of = &model->options[option];
    uint64_t key = key_of(of, dtype);
    uint32_t from = 0, to = model->problem.n_options;

    if (of->dtype == dtype)
        return option;
    if (option == model->fp16)
        return model->raws[dtype];
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (sorted[middle].key < key)
            from = middle + 1;
        else
            to = middle;
    }
    for (; from < model->problem.n_options && sorted[from].key == key; from++) {
        uint32_t other = sorted[from].option;
        if (model->options[other].dtype == dtype && are_alike(&model->options[other], of))
            return other;
    }
    return model->raws[dtype];
}

static void fill_alike(const struct wring_model_builder *builder, struct keyed *sorted)
{
    struct wring_cost_model *model = builder->model;
    uint32_t n = model->problem.n_options;

    for (uint32_t i = 0; i < n; i++)
        sorted[i] = (struct keyed){key_of(&model->options[i], model->options[i].dtype), i};
    qsort(sorted, n, sizeof(*sorted), by_key);
    for (enum wring_dtype dtype = WRING_F32; dtype <= WRING_BF16; dtype++) {
        bool any = has_dtype(builder, dtype);
        for (uint32_t i = 0; any && i < n; i++)
            model->alike[(size_t)dtype * n + i] = find_alike(model, sorted, dtype, i);
    }
}

/** Of mixed types. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status find_kinds(const struct wring_model_builder *builder)
{
    struct wring_cost_model *model = builder->model;
    uint32_t n = model->problem.n_options;

    if (!wring_tensor_trace_is_mixed(model->trace))
        return WRING_OK;
    struct keyed *sorted = malloc(n * sizeof(*sorted));
    model->kinds = calloc(model->problem.n_tensors, sizeof(*model->kinds));
    model->alike = calloc((size_t)n * (WRING_BF16 + 1), sizeof(*model->alike));
    if (sorted == NULL || model->kinds == NULL || model->alike == NULL) {
        free(sorted);
        return WRING_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < model->problem.n_tensors; i++)
        model->kinds[i] = (uint8_t)wring_tensor_trace_dtype(model->trace, i);
    fill_alike(builder, sorted);
    free(sorted);
    return WRING_OK;
}

/** Searches begin with it, and a tensor that no codec is for has to travel somehow. */
static enum wring_status check_raw(const struct wring_model_builder *builder)
{
    const struct wring_cost_model *model = builder->model;
    bool any = true;

    for (uint32_t i = 0; i < model->problem.n_tensors; i++)
        any = any &&
              model->raws[wring_tensor_trace_dtype(model->trace, i)] < model->problem.n_options;
    if (any)
        return WRING_OK;
    wring_error(builder->log, "no option is left in which nothing is compressed");
    return WRING_ERR_INVALID;
}

static enum wring_status fill_model(struct wring_model_builder *builder)
{
    struct wring_cost_model *model = builder->model;
    uint32_t n = builder->candidates.n;

    model->costs = calloc(n, sizeof(*model->costs));
    model->options = calloc(n, sizeof(*model->options));
    model->offload = calloc(n, sizeof(*model->offload));
    model->on_device = calloc(n, sizeof(*model->on_device));
    if (model->costs == NULL || model->options == NULL || model->offload == NULL ||
        model->on_device == NULL)
        return WRING_ERR_NO_MEMORY;
    fill_from_candidates(builder);
    model->problem.options = model->costs;
    model->problem.max_group_elems = builder->params->apart ? 1 : 0;
    drop_idle_lanes(model, &builder->lanes);
    enum wring_status status = check_raw(builder);
    return status == WRING_OK ? find_kinds(builder) : status;
}

/** Options of each type that the trace has. */
static enum wring_status make_options(struct wring_model_builder *builder)
{
    static const enum wring_dtype dtypes[] = {WRING_F32, WRING_F16, WRING_BF16};
    bool measured = wring_model_has_measured(builder);
    enum wring_status status = WRING_OK;

    if (measured)
        wring_model_tell_components(builder);
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]) && status == WRING_OK; i++) {
        if (!has_dtype(builder, dtypes[i]))
            continue;
        builder->dtype = dtypes[i];
        status = measured ? wring_model_from_measured(builder) : walk_codecs(builder);
    }
    return status;
}

/** The options and the lanes. Codecs and tensors are there. Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status builder_options(struct wring_model_builder *builder)
{
    struct wring_candidates *candidates = &builder->candidates;

    builder->model->n_allowed =
        calloc(builder->model->n_codecs, sizeof(*builder->model->n_allowed));
    if (builder->model->n_allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    candidates->n_allowed = builder->model->n_allowed;
    candidates->keep_dominated = builder->params->keep_dominated;
    enum wring_status status = make_options(builder);
    if (status != WRING_OK)
        return status;
    builder->model->considered = candidates->considered;
    builder->model->dominated = candidates->dominated;
    return fill_model(builder);
}

/* ---- cost model ---- */

#define RANKS_MAX (1u << 20)

const char *wring_timeline_name(enum wring_timeline timeline)
{
    switch (timeline) {
    case WRING_TIMELINE_SERIAL:
        return "serial";
    case WRING_TIMELINE_PHASES:
        return "phases";
    case WRING_TIMELINE_FULL:
    case WRING_TIMELINE_AUTO:
        return "full";
    }
    return "full";
}

/* ---- tensors ---- */

/** May a tensor take any codec? */
static bool may_code(const struct wring_model_builder *builder)
{
    for (uint32_t codec = 1; codec < builder->model->n_codecs; codec++)
        if (!builder->barred[codec])
            return true;
    return false;
}

/** What collectives lose, where a measured profile says that. Put together from parts, they are
 * taken to keep their processors busy. */
static void set_computing_loss(struct wring_model_builder *builder)
{
    struct wring_cost_model *model = builder->model;
    const struct wring_core_scaling scaling = wring_model_core_scaling(builder);
    struct wring_profile_computing computing = model->profile->computing;
    bool parts = model->source == WRING_COSTS_PARTS;

    if (model->timeline != WRING_TIMELINE_FULL || model->source == WRING_COSTS_NOTHING)
        return;
    if (parts)
        computing.spin_lost = computing.spin_coded_lost = wring_core_scaling_spin_lost(&scaling);
    model->lost_us = wring_interference_shift(
        &computing, builder->params->computing, parts ? 1 : wring_model_load(builder),
        may_code(builder), builder->params->trace->n, model->compute_us);
}

static enum wring_status take_tensors(struct wring_model_builder *builder)
{
    const struct wring_tensor_trace *trace = builder->params->trace;
    struct wring_cost_model *model = builder->model;

    model->compute_us = calloc(trace->n, sizeof(*model->compute_us));
    model->elems = calloc((size_t)trace->n + 1, sizeof(*model->elems));
    if (model->compute_us == NULL || model->elems == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < trace->n; i++) {
        double before = i > 0 ? trace->tensors[i - 1].ready_us : 0;
        model->compute_us[i] = trace->tensors[i].ready_us - before;
        model->elems[i + 1] = model->elems[i] + trace->tensors[i].elems;
    }
    set_computing_loss(builder);
    /* an iteration begins with the optimizer's step of the one before */
    model->compute_us[0] += trace->optimizer_us;
    model->problem.n_tensors = trace->n;
    model->problem.compute_us = model->compute_us;
    model->problem.elems = model->elems;
    return WRING_OK;
}

/* ---- the whole ---- */

const char *wring_cost_source_name(enum wring_cost_source source)
{
    static const char *const names[] = {"nothing", "measured", "rescaled", "parts"};
    return names[source];
}

static enum wring_cost_source source_of(const struct wring_model_builder *builder)
{
    const struct wring_cost_model *model = builder->model;

    if (model->nodes * model->ranks_per_node == 1)
        return WRING_COSTS_NOTHING;
    if (!wring_model_has_measured(builder))
        return WRING_COSTS_PARTS;
    return model->nodes > 1 && builder->link_scale != 1 ? WRING_COSTS_RESCALED
                                                        : WRING_COSTS_MEASURED;
}

static enum wring_status check_links(const struct wring_model_builder *builder)
{
    const struct wring_profile *profile = builder->params->profile;
    const struct wring_cost_model *model = builder->model;

    if (model->ranks_per_node > 1 && !profile->links[WRING_LEVEL_INTRA].present) {
        wring_error(builder->log, "the profile %s knows no link inside a node", profile->name);
        return WRING_ERR_INVALID;
    }
    if (model->nodes > 1 && !profile->links[WRING_LEVEL_INTER].present) {
        wring_error(builder->log, "the profile %s knows no link between nodes", profile->name);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

struct wring_cluster wring_cost_model_cluster(const struct wring_cost_model_params *params)
{
    const struct wring_profile *profile = params->profile;
    struct wring_cluster cluster = {params->nodes, params->ranks_per_node, params->timeline};

    if (cluster.nodes == 0)
        cluster.nodes = profile->nodes;
    if (cluster.ranks_per_node == 0)
        cluster.ranks_per_node = profile->ranks_per_node;
    if (cluster.timeline == WRING_TIMELINE_AUTO)
        cluster.timeline = profile->chunked ? WRING_TIMELINE_FULL : WRING_TIMELINE_PHASES;
    return cluster;
}

static enum wring_status set_cluster(struct wring_model_builder *builder)
{
    const struct wring_cost_model_params *params = builder->params;
    const struct wring_cluster cluster = wring_cost_model_cluster(params);
    struct wring_cost_model *model = builder->model;

    model->nodes = cluster.nodes;
    model->ranks_per_node = cluster.ranks_per_node;
    model->timeline = cluster.timeline;
    model->settled = params->tuning != NULL && model->timeline == WRING_TIMELINE_FULL;
    if (model->settled)
        model->tuning = *params->tuning;
    builder->link_scale = params->link_scale != 0 ? params->link_scale : 1;
    model->trace = params->trace;
    model->profile = params->profile;
    if (model->nodes == 0 || model->ranks_per_node == 0 || model->nodes > RANKS_MAX ||
        model->ranks_per_node > RANKS_MAX / model->nodes) {
        wring_error(builder->log, "%u nodes of %u ranks are not a cluster of 1 to %u ranks",
                    model->nodes, model->ranks_per_node, RANKS_MAX);
        return WRING_ERR_INVALID;
    }
    if (params->trace->n == 0) {
        wring_error(builder->log, "a trace without tensors has nothing to plan");
        return WRING_ERR_INVALID;
    }
    if (!(builder->link_scale > 0) || isinf(builder->link_scale)) {
        wring_error(builder->log, "links cannot be %g times as fast", builder->link_scale);
        return WRING_ERR_INVALID;
    }
    if (params->scattered && params->profile->copy_us.n == 0) {
        wring_error(builder->log, "nobody measured copies for the profile %s",
                    params->profile->name);
        return WRING_ERR_INVALID;
    }
    return check_links(builder);
}

static enum wring_status build_model(struct wring_model_builder *builder)
{
    enum wring_status status = set_cluster(builder);

    if (status == WRING_OK) {
        builder->model->source = source_of(builder);
        status = wring_model_find_codecs(builder);
    }
    if (status == WRING_OK)
        status = take_tensors(builder);
    if (status == WRING_OK)
        status = builder_options(builder);
    if (status == WRING_OK)
        status = wring_model_bar(builder);
    return status;
}

enum wring_status wring_cost_model_create(const struct wring_cost_model_params *params,
                                          const struct wring_log *log,
                                          struct wring_cost_model **out)
{
    struct wring_cost_model *model = calloc(1, sizeof(*model));
    struct wring_model_builder builder = {.params = params, .log = log, .model = model};

    if (model == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = build_model(&builder);
    wring_candidates_finish(&builder.candidates);
    free(builder.back);
    free(builder.barred);
    free(builder.nmse_in);
    free(builder.ways);
    free(builder.budgets);
    if (status != WRING_OK) {
        wring_cost_model_destroy(model);
        return status;
    }
    *out = model;
    return WRING_OK;
}

/*
 * Profiles measure buckets of float32. Of 16-bit elements a codec makes the same codes: they are
 * widened before it encodes them. Its times are taken to be those of float32, and so is its error.
 * What travels raw has half the bytes, and so has what lossless encodes as it is. It is taken to
 * cost what a bucket of float32 with as many bytes does: half as many elements.
 */

double wring_cost_model_width(enum wring_dtype dtype, const char *spec)
{
    size_t name = strcspn(spec, ":");
    bool lossless = name == strlen("lossless") && strncmp(spec, "lossless", name) == 0;
    bool as_it_is = lossless || strcmp(spec, "none") == 0;

    return as_it_is ? (double)wring_dtype_bytes(dtype) / sizeof(float) : 1;
}

uint32_t wring_cost_model_option(const struct wring_cost_model *model, uint32_t tensor,
                                 uint32_t option)
{
    if (model->kinds == NULL)
        return option;
    return model->alike[(size_t)model->kinds[tensor] * model->problem.n_options + option];
}

void wring_cost_model_destroy(struct wring_cost_model *model)
{
    if (model == NULL)
        return;
    free(model->options);
    free(model->costs);
    free(model->codecs);
    free(model->n_allowed);
    free(model->offload);
    free(model->on_device);
    free(model->compute_us);
    free(model->elems);
    free(model->allowed);
    free(model->kinds);
    free(model->alike);
    free(model);
}
