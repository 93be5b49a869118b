/* SPDX-License-Identifier: Apache-2.0 */
/** Which tensors may take a codec, as far as its error goes. */
#include <math.h>
#include <stdlib.h>

#include "planner/model/building.h"

/** Of the tensor's own gradients where they were recorded, else of all; NaN: not measured on any.
 */
static double error_on(const struct wring_building *building, const char *spec, uint32_t tensor)
{
    return wring_profile_error(building->params->profile, spec,
                               building->params->trace->tensors[tensor].name);
}

static uint32_t count_within(const struct wring_building *building, const char *spec)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < building->params->trace->n; i++)
        n += error_on(building, spec, i) <= building->params->max_nmse;
    return n;
}

enum wring_budget wring_building_budget(const struct wring_building *building,
                                        const struct wring_profile_codec *codec)
{
    double budget = building->params->max_nmse;

    if (budget <= 0)
        return WRING_BUDGET_WITHIN;
    if (!isnan(wring_profile_error(building->params->profile, codec->spec, NULL))) {
        uint32_t within = count_within(building, codec->spec);
        if (within == building->params->trace->n)
            return WRING_BUDGET_WITHIN;
        return within > 0 ? WRING_BUDGET_SOMEWHERE : WRING_BUDGET_BEYOND;
    }
    if (isnan(codec->nmse))
        return WRING_BUDGET_UNKNOWN;
    return codec->nmse <= budget ? WRING_BUDGET_WITHIN : WRING_BUDGET_BEYOND;
}

/** A codec's options are not for the tensors on which it loses too much. */
static void bar_codec(const struct wring_building *building, uint32_t codec, uint64_t *allowed)
{
    const struct wring_cost_model *model = building->model;
    uint32_t words = wring_problem_words(&model->problem);

    for (uint32_t tensor = 0; tensor < model->problem.n_tensors; tensor++) {
        if (error_on(building, model->codecs[codec].spec, tensor) <= building->params->max_nmse)
            continue;
        for (uint32_t i = 0; i < model->problem.n_options; i++)
            if (model->options[i].codec == codec)
                allowed[(size_t)tensor * words + i / 64] &= ~(UINT64_C(1) << i % 64);
    }
}

/** What is only compared with is for nobody. */
static void bar_option(const struct wring_cost_model *model, uint32_t i, uint64_t *allowed)
{
    uint32_t words = wring_problem_words(&model->problem);

    for (uint32_t tensor = 0; tensor < model->problem.n_tensors; tensor++)
        allowed[(size_t)tensor * words + i / 64] &= ~(UINT64_C(1) << i % 64);
}

enum wring_status wring_building_bar(struct wring_building *building)
{
    struct wring_cost_model *model = building->model;
    size_t words = (size_t)model->problem.n_tensors * wring_problem_words(&model->problem);
    const struct wring_candidate *candidates = building->candidates.list;
    bool any = false;

    for (uint32_t i = 0; i < model->problem.n_options; i++)
        any = any || candidates[i].barred;
    for (uint32_t codec = 0; codec < model->n_codecs; codec++)
        any = any || building->somewhere[codec];
    if (!any)
        return WRING_OK;
    model->problem.allowed = model->allowed = malloc(words * sizeof(*model->allowed));
    if (model->allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    for (size_t i = 0; i < words; i++)
        model->allowed[i] = UINT64_MAX;
    for (uint32_t codec = 0; codec < model->n_codecs; codec++)
        if (building->somewhere[codec])
            bar_codec(building, codec, model->allowed);
    for (uint32_t i = 0; i < model->problem.n_options; i++)
        if (candidates[i].barred)
            bar_option(model, i, model->allowed);
    return WRING_OK;
}
