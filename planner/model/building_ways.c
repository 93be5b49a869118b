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
#include <wring/types.h>

enum {
    DEVICE,
    EXCHANGE,
    REST
};

static const struct wring_lanes way_lanes = {3, {"device", WRING_LANE_EXCHANGE, "rest of it"}};

static struct wring_step code(enum wring_step_kind kind)
{
    return (struct wring_step){.kind = kind, .place = WRING_PLACE_CPU};
}

static struct wring_step send(enum wring_routine routine, bool coded)
{
    return (struct wring_step){.kind = WRING_STEP_COMM, .routine = routine, .coded = coded};
}

static bool is_in_nodes(const char *run_as)
{
    return strncmp(run_as, "hierarchical", strlen("hierarchical")) == 0;
}

/** One exchange, as the tree has its steps, without phases. */
static struct wring_option exchange_of(const char *spec, const char *run_as)
{
    if (strcmp(spec, "none") == 0)
        return (struct wring_option){1, {send(WRING_ROUTINE_ALLREDUCE, false)}};
    if (strcmp(run_as, "indivisible") == 0 || strcmp(run_as, "hierarchical-indivisible") == 0)
        return (struct wring_option){3,
                                     {code(WRING_STEP_ENCODE), send(WRING_ROUTINE_ALLGATHER, true),
                                      code(WRING_STEP_DECODE)}};
    return (struct wring_option){6,
                                 {code(WRING_STEP_ENCODE), send(WRING_ROUTINE_ALLTOALL, true),
                                  code(WRING_STEP_DECODE), code(WRING_STEP_ENCODE),
                                  send(WRING_ROUTINE_ALLGATHER, true), code(WRING_STEP_DECODE)}};
}

static void push(struct wring_option *option, struct wring_step step, enum wring_phase phase)
{
    step.phase = phase;
    option->steps[option->n++] = step;
}

/** The steps of a way, as the tree has them: what is decoded last belongs to the last phase. */
static struct wring_option steps_of(const char *spec, const char *run_as)
{
    struct wring_option exchange = exchange_of(spec, run_as), option = {.n = 0};
    bool in_nodes = is_in_nodes(run_as);
    enum wring_phase phase = in_nodes ? WRING_PHASE_INTER : WRING_PHASE_FLAT;

    if (in_nodes)
        push(&option, send(WRING_ROUTINE_REDUCE_SCATTER, false), WRING_PHASE_INTRA_IN);
    for (uint32_t i = 0; i < exchange.n; i++)
        push(&option, exchange.steps[i],
             in_nodes && i > 0 && i + 1 == exchange.n ? WRING_PHASE_INTRA_OUT : phase);
    if (in_nodes)
        push(&option, send(WRING_ROUTINE_ALLGATHER, false), WRING_PHASE_INTRA_OUT);
    return option;
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
        (is_in_nodes(run_as) ||
         !wring_building_parts(building, codec, &candidate.option.option, &cost.busy, &cost.rest)))
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
    const struct wring_pinned pinned = wring_building_pinned(building);
    double share = building->params->profile->computing.core_share, load = 0, pace = 0;

    for (unsigned i = 0; i < WRING_SCHEMES; i++) {
        struct wring_way_cost cost;
        const struct wring_profile_way *way =
            wring_pinned_way(&pinned, spec, wring_scheme_name((enum wring_scheme)i), &cost);
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

/** Of large buckets: what is compared with is the faster of two ways without a choice. */
static bool is_faster(const struct wring_building *building, uint32_t codec, const char *run_as,
                      const char *than)
{
    const struct wring_pinned pinned = wring_building_pinned(building);
    const char *spec = building->model->codecs[codec].spec;
    struct wring_way_cost cost, other_cost;
    const struct wring_profile_way *way = wring_pinned_way(&pinned, spec, run_as, &cost);
    const struct wring_profile_way *other = wring_pinned_way(&pinned, spec, than, &other_cost);

    if (way == NULL || other == NULL)
        return way != NULL;
    double elems = (double)(way->max_elems < other->max_elems ? way->max_elems : other->max_elems);
    return wring_cost_at(&cost.busy, elems) < wring_cost_at(&other_cost.busy, elems);
}

/** A codec in one scheme, between all ranks and, unless plans do without, between nodes. */
static enum wring_status offer_both(struct wring_building *building, uint32_t codec,
                                    enum wring_scheme flat, bool baseline)
{
    const char *all = wring_scheme_name(flat);
    const char *nodes = wring_scheme_name((enum wring_scheme)(flat + WRING_SCHEME_HIERARCHICAL));
    bool in_nodes = !building->params->flat && is_faster(building, codec, nodes, all);
    enum wring_status status = offer_way(building, codec, all, baseline && !in_nodes);

    if (status != WRING_OK || building->params->flat)
        return status;
    return offer_way(building, codec, nodes, baseline && in_nodes);
}

enum wring_status wring_building_ways(struct wring_building *building)
{
    const struct wring_cost_model *model = building->model;
    enum wring_status status = offer_both(building, 0, WRING_SCHEME_AUTO, true);

    building->lanes = way_lanes;
    wring_building_tell_parts(building);
    for (uint32_t codec = 1; codec < model->n_codecs && status == WRING_OK; codec++) {
        bool baseline = strcmp(model->codecs[codec].spec, "fp16") == 0;
        status = offer_both(building, codec, WRING_SCHEME_DIVISIBLE, baseline);
        bool one_way = strchr(model->codecs[codec].spec, '>') == NULL;
        if (status == WRING_OK && one_way)
            status = offer_both(building, codec, WRING_SCHEME_INDIVISIBLE, false);
    }
    return status;
}
