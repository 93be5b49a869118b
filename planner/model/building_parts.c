/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exchanges of a codec that nobody measured as a whole, beside those that somebody did: put
 * together from what links and codecs take. One thread does all of it, as inline codecs have it:
 * codec work and link follow one another, and a group stays on the exchange's lane for their sum.
 * That is the most it can take there; where a slow link waits for nobody, it is less.
 */
#include <stdio.h>
#include <string.h>

#include "planner/model/building.h"
#include "planner/model/option_work.h"

#define WRING_MODULE "planner"

static bool has_way(const struct wring_building *building, const char *spec)
{
    static const char *const schemes[] = {"auto", "divisible", "indivisible"};
    uint32_t ranks = building->model->nodes * building->model->ranks_per_node;

    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        if (wring_profile_way(building->params->profile, spec, schemes[i], ranks) != NULL)
            return true;
    return false;
}

/** A pair with an end that is not coded has other steps than these. */
static bool is_half_coded(const char *spec)
{
    const char *two = strchr(spec, '>');

    return two != NULL && (strcmp(two + 1, "none") == 0 || strncmp(spec, "none>", 5) == 0);
}

bool wring_building_lacks_ways(const struct wring_building *building, uint32_t codec)
{
    const struct wring_profile_codec *in = &building->model->codecs[codec];

    return codec > 0 && !has_way(building, in->spec) && !is_half_coded(in->spec) &&
           in->at[WRING_PLACE_CPU].present && building->back[codec].at[WRING_PLACE_CPU].present;
}

void wring_building_tell_parts(const struct wring_building *building)
{
    const struct wring_cost_model *model = building->model;
    char specs[256] = "";

    for (uint32_t codec = 1; codec < model->n_codecs; codec++) {
        size_t used = strlen(specs);
        if (wring_building_lacks_ways(building, codec) && !building->barred[codec])
            snprintf(specs + used, sizeof(specs) - used, "%s%s", used > 0 ? ", " : "",
                     model->codecs[codec].spec);
    }
    if (specs[0] != '\0')
        wring_warn(building->log,
                   "the profile %s has no whole exchanges of %s: their times are put together from "
                   "links and codecs; wring calibrate --codec measures them",
                   building->params->profile->name, specs);
}

/** With the cores that the setting has: each rank codes what is its own. @return false: nobody
 *  measured it so */
static bool settle(const struct wring_building *building, struct wring_profile_codec *codec)
{
    const struct wring_setting is_inline = {.chunk_bytes = WRING_SETTING_CHUNK_BYTES};
    struct wring_pinned pinned = wring_building_pinned(building);

    if (pinned.setting == NULL)
        pinned.setting = &is_inline;
    if (!wring_pinned_fits(&pinned))
        return false;
    wring_pinned_code(&pinned, codec);
    return codec->at[WRING_PLACE_CPU].present;
}

bool wring_building_parts(const struct wring_building *building, uint32_t codec,
                          const struct wring_option *option, struct wring_cost *busy,
                          struct wring_cost *rest)
{
    const struct wring_cost_model *model = building->model;
    struct wring_profile_codec in = model->codecs[codec], back = building->back[codec];
    const struct wring_work_params params = {.profile = building->params->profile,
                                             .nodes = model->nodes,
                                             .ranks_per_node = model->ranks_per_node,
                                             .link_scale = building->link_scale,
                                             .own_cores = in.n_coders > 0 && back.n_coders > 0,
                                             .in = &in,
                                             .out = &back};
    struct wring_work work;
    double latency_us = 0;

    if (!wring_building_lacks_ways(building, codec) || !settle(building, &in) ||
        !settle(building, &back))
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
