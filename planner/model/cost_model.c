/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/model/cost_model.h"

#include <math.h>
#include <stdlib.h>

#include "planner/model/building.h"
#include "planner/model/computing.h"
#include "planner/model/shared_cores.h"

#define WRING_MODULE "planner"

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
static bool may_code(const struct wring_building *building)
{
    for (uint32_t codec = 1; codec < building->model->n_codecs; codec++)
        if (!building->barred[codec])
            return true;
    return false;
}

/** What exchanges lose, where a measured profile says that. Put together from parts, they are taken
 * to keep their processors busy. */
static void lose_to_computing(struct wring_building *building)
{
    struct wring_cost_model *model = building->model;
    const struct wring_pinned pinned = wring_building_pinned(building);
    struct wring_profile_computing computing = model->profile->computing;
    bool parts = model->source == WRING_COSTS_PARTS;

    if (model->timeline != WRING_TIMELINE_FULL || model->source == WRING_COSTS_NOTHING)
        return;
    if (parts)
        computing.spin_lost = computing.spin_coded_lost = wring_shared_cores_spin_lost(&pinned);
    model->lost_us = wring_computing_shift(
        &computing, building->params->computing, parts ? 1 : wring_building_load(building),
        may_code(building), building->params->trace->n, model->compute_us);
}

static enum wring_status take_tensors(struct wring_building *building)
{
    const struct wring_tensor_trace *trace = building->params->trace;
    struct wring_cost_model *model = building->model;

    model->compute_us = calloc(trace->n, sizeof(*model->compute_us));
    model->elems = calloc((size_t)trace->n + 1, sizeof(*model->elems));
    if (model->compute_us == NULL || model->elems == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < trace->n; i++) {
        double before = i > 0 ? trace->tensors[i - 1].ready_us : 0;
        model->compute_us[i] = trace->tensors[i].ready_us - before;
        model->elems[i + 1] = model->elems[i] + trace->tensors[i].elems;
    }
    lose_to_computing(building);
    /* an iteration begins with what the one before has brought */
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

static enum wring_cost_source source_of(const struct wring_building *building)
{
    const struct wring_cost_model *model = building->model;

    if (model->nodes * model->ranks_per_node == 1)
        return WRING_COSTS_NOTHING;
    if (!wring_building_has_ways(building))
        return WRING_COSTS_PARTS;
    return model->nodes > 1 && building->link_scale != 1 ? WRING_COSTS_RESCALED
                                                         : WRING_COSTS_MEASURED;
}

static enum wring_status check_links(const struct wring_building *building)
{
    const struct wring_profile *profile = building->params->profile;
    const struct wring_cost_model *model = building->model;

    if (model->ranks_per_node > 1 && !profile->links[WRING_LEVEL_INTRA].present) {
        wring_error(building->log, "the profile %s knows no link inside a node", profile->name);
        return WRING_ERR_INVALID;
    }
    if (model->nodes > 1 && !profile->links[WRING_LEVEL_INTER].present) {
        wring_error(building->log, "the profile %s knows no link between nodes", profile->name);
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

static enum wring_status set_cluster(struct wring_building *building)
{
    const struct wring_cost_model_params *params = building->params;
    const struct wring_cluster cluster = wring_cost_model_cluster(params);
    struct wring_cost_model *model = building->model;

    model->nodes = cluster.nodes;
    model->ranks_per_node = cluster.ranks_per_node;
    model->timeline = cluster.timeline;
    model->settled = params->setting != NULL && model->timeline == WRING_TIMELINE_FULL;
    if (model->settled)
        model->setting = *params->setting;
    building->link_scale = params->link_scale != 0 ? params->link_scale : 1;
    model->trace = params->trace;
    model->profile = params->profile;
    if (model->nodes == 0 || model->ranks_per_node == 0 || model->nodes > RANKS_MAX ||
        model->ranks_per_node > RANKS_MAX / model->nodes) {
        wring_error(building->log, "%u nodes of %u ranks are not a cluster of 1 to %u ranks",
                    model->nodes, model->ranks_per_node, RANKS_MAX);
        return WRING_ERR_INVALID;
    }
    if (params->trace->n == 0) {
        wring_error(building->log, "a trace without tensors has nothing to plan");
        return WRING_ERR_INVALID;
    }
    if (!(building->link_scale > 0) || isinf(building->link_scale)) {
        wring_error(building->log, "links cannot be %g times as fast", building->link_scale);
        return WRING_ERR_INVALID;
    }
    if (params->scattered && params->profile->copy_us.n == 0) {
        wring_error(building->log, "nobody measured copies for the profile %s",
                    params->profile->name);
        return WRING_ERR_INVALID;
    }
    return check_links(building);
}

static enum wring_status build(struct wring_building *building)
{
    enum wring_status status = set_cluster(building);

    if (status == WRING_OK) {
        building->model->source = source_of(building);
        status = wring_building_codecs(building);
    }
    if (status == WRING_OK)
        status = take_tensors(building);
    if (status == WRING_OK)
        status = wring_building_options(building);
    if (status == WRING_OK)
        status = wring_building_bar(building);
    return status;
}

enum wring_status wring_cost_model_create(const struct wring_cost_model_params *params,
                                          const struct wring_log *log,
                                          struct wring_cost_model **out)
{
    struct wring_cost_model *model = calloc(1, sizeof(*model));
    struct wring_building building = {.params = params, .log = log, .model = model};

    if (model == NULL)
        return WRING_ERR_NO_MEMORY;
    enum wring_status status = build(&building);
    wring_candidates_finish(&building.candidates);
    free(building.back);
    free(building.barred);
    free(building.nmse_in);
    free(building.budgets);
    if (status != WRING_OK) {
        wring_cost_model_destroy(model);
        return status;
    }
    *out = model;
    return WRING_OK;
}

void wring_cost_model_destroy(struct wring_cost_model *model)
{
    if (model == NULL)
        return;
    free(model->options);
    free(model->costs);
    free(model->codecs);
    free(model->ways);
    free(model->offload);
    free(model->on_device);
    free(model->compute_us);
    free(model->elems);
    free(model->allowed);
    free(model);
}
