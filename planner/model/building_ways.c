/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Options of a profile that has measured whole exchanges. They say more than what can be put
 * together from links and codecs, and are just those that the runtime can execute.
 *
 * A group is exchanged for as long as a further bucket takes behind others, which is when the next
 * one can begin; what a single one takes longer than that follows on a lane of its own.
 */
#include <string.h>

#include "planner/model/building.h"

enum {
    DEVICE,
    EXCHANGE,
    REST
};

static const struct wring_lanes way_lanes = {3, {"device", WRING_LANE_EXCHANGE, "rest of it"}};

static struct wring_step code(enum wring_step_kind kind)
{
    return (struct wring_step){.kind = kind, .phase = WRING_PHASE_FLAT, .place = WRING_PLACE_CPU};
}

static struct wring_step send(enum wring_routine routine, bool coded)
{
    return (struct wring_step){
        .kind = WRING_STEP_COMM, .phase = WRING_PHASE_FLAT, .routine = routine, .coded = coded};
}

/** The steps of an exchange, as the tree has them. */
static struct wring_option steps_of(const char *spec, const char *run_as)
{
    if (strcmp(spec, "none") == 0)
        return (struct wring_option){1, {send(WRING_ROUTINE_ALLREDUCE, false)}};
    if (strcmp(run_as, "indivisible") == 0)
        return (struct wring_option){3,
                                     {code(WRING_STEP_ENCODE), send(WRING_ROUTINE_ALLGATHER, true),
                                      code(WRING_STEP_DECODE)}};
    return (struct wring_option){6,
                                 {code(WRING_STEP_ENCODE), send(WRING_ROUTINE_ALLTOALL, true),
                                  code(WRING_STEP_DECODE), code(WRING_STEP_ENCODE),
                                  send(WRING_ROUTINE_ALLGATHER, true), code(WRING_STEP_DECODE)}};
}

static enum wring_status offer_way(struct wring_building *building, uint32_t codec,
                                   const char *run_as, bool baseline)
{
    const struct wring_cost_model *model = building->model;
    const struct wring_pinned pinned = wring_building_pinned(building);
    struct wring_way_cost cost;
    const struct wring_profile_way *way =
        wring_pinned_way(&pinned, model->codecs[codec].spec, run_as, &cost);
    struct wring_candidate candidate = {.baseline = baseline,
                                        .barred = building->barred[codec],
                                        .option = {.codec = codec, .place = WRING_PLACE_CPU}};

    candidate.option.option = steps_of(model->codecs[codec].spec, run_as);
    if (way == NULL &&
        !wring_building_parts(building, codec, &candidate.option.option, &cost.busy, &cost.rest))
        return WRING_OK;
    candidate.encodings = wring_option_encodings(&candidate.option.option);
    enum wring_budget budget = wring_building_budget(building, codec, candidate.encodings);
    candidate.somewhere = budget == WRING_BUDGET_SOMEWHERE;
    candidate.barred = candidate.barred || budget == WRING_BUDGET_BEYOND;
    if (building->params->indivisible && wring_option_is_divisible(&candidate.option.option))
        candidate.barred = true;
    if (candidate.barred && !baseline)
        return WRING_OK;
    candidate.option.way = way;
    candidate.cost.each[EXCHANGE] = cost.busy;
    candidate.cost.each[REST] = cost.rest;
    if (building->params->scattered) {
        struct wring_cost copy = wring_work_copy(building->params->profile);
        copy = wring_cost_scale(&copy, 2, 1);
        candidate.cost.each[EXCHANGE] = wring_cost_add(&cost.busy, &copy);
    }
    return wring_candidates_offer(&building->candidates, &candidate);
}

struct wring_pinned wring_building_pinned(const struct wring_building *building)
{
    const struct wring_cost_model *model = building->model;

    return (struct wring_pinned){.profile = building->params->profile,
                                 .nodes = model->nodes,
                                 .ranks_per_node = model->ranks_per_node,
                                 .link_scale = building->link_scale,
                                 .computing = building->params->computing,
                                 .setting = model->settled ? &model->setting : NULL};
}

bool wring_building_has_ways(const struct wring_building *building)
{
    const struct wring_pinned pinned = wring_building_pinned(building);
    struct wring_way_cost cost;

    return building->model->timeline == WRING_TIMELINE_FULL &&
           wring_pinned_way(&pinned, "none", "auto", &cost) != NULL;
}

/** Of a codec in its faster scheme; 0 where the profile has neither. */
static double load_of(const struct wring_building *building, const char *spec)
{
    static const char *const schemes[] = {"auto", "divisible", "indivisible"};
    const struct wring_pinned pinned = wring_building_pinned(building);
    double share = building->params->profile->computing.core_share, load = 0, pace = 0;

    for (uint32_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
        struct wring_way_cost cost;
        const struct wring_profile_way *way = wring_pinned_way(&pinned, spec, schemes[i], &cost);
        if (way == NULL)
            continue;
        double elems = (double)way->max_elems, us = wring_cost_at(&cost.busy, elems);
        if (us > 0 && elems / us > pace) {
            pace = elems / us;
            load = wring_cost_at(&way->cpu.us, elems) / us / (share > 0 ? share : 1);
        }
    }
    return load < 1 ? load : 1;
}

double wring_building_load(const struct wring_building *building)
{
    const struct wring_cost_model *model = building->model;
    double most = 0;
    bool any = false;

    for (uint32_t codec = 1; codec < model->n_codecs; codec++) {
        double load = building->barred[codec] ? 0 : load_of(building, model->codecs[codec].spec);
        most = load > most ? load : most;
        any = any || !building->barred[codec];
    }
    if (any && building->params->keep_dominated)
        return most; /* only these may be taken */
    double raw = load_of(building, "none");
    return raw > most ? raw : most;
}

enum wring_status wring_building_ways(struct wring_building *building)
{
    const struct wring_cost_model *model = building->model;
    enum wring_status status = offer_way(building, 0, "auto", true);

    building->lanes = way_lanes;
    wring_building_tell_parts(building);
    for (uint32_t codec = 1; codec < model->n_codecs && status == WRING_OK; codec++) {
        bool baseline = strcmp(model->codecs[codec].spec, "fp16") == 0;
        status = offer_way(building, codec, "divisible", baseline);
        bool one_way = strchr(model->codecs[codec].spec, '>') == NULL;
        if (status == WRING_OK && one_way)
            status = offer_way(building, codec, "indivisible", false);
    }
    return status;
}
