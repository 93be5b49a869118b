/* SPDX-License-Identifier: Apache-2.0 */
/** Which tensors may take an option, as far as its error goes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/model/building.h"

/** A codec's error where it is needed again and again. */
struct error {
    const struct wring_building *building;
    const char *spec;
    struct wring_encodings encodings;
    bool on_gradients; /* or else of bell-shaped numbers */
    char
        in[WRING_CODEC_SPEC_MAX]; /* of "in>back" where both were measured by themselves; else "" */
    const char *back;             /* likewise */
    double nmse_in, nmse_back;
};

/** On the gradients of one tensor, or of all together where that was not recorded. */
static double on_gradients(const struct error *error, const char *spec, const char *tensor)
{
    return wring_profile_error(error->building->params->profile, spec, tensor);
}

static struct error find_error(const struct wring_building *building, uint32_t codec,
                               struct wring_encodings encodings)
{
    const struct wring_profile_codec *both = &building->model->codecs[codec];
    struct error error = {.building = building,
                          .spec = both->spec,
                          .encodings = encodings,
                          .nmse_in = building->nmse_in[codec],
                          .nmse_back = building->back[codec].nmse};
    const char *two = strchr(both->spec, '>');

    error.on_gradients = !isnan(on_gradients(&error, both->spec, NULL));
    if (two == NULL)
        return error;
    memcpy(error.in, both->spec, (size_t)(two - both->spec));
    error.in[two - both->spec] = '\0';
    error.back = two + 1;
    if (error.on_gradients ? isnan(on_gradients(&error, error.in, NULL)) ||
                                 isnan(on_gradients(&error, error.back, NULL))
                           : strcmp(building->back[codec].spec, both->spec) == 0)
        error.in[0] = '\0'; /* measured as one */
    return error;
}

/** What a tensor loses: each encoding as much as one. */
static double error_on(const struct error *error, uint32_t tensor)
{
    const char *name = error->building->params->trace->tensors[tensor].name;
    double in = error->encodings.in, back = error->encodings.back;

    if (error->in[0] != '\0')
        return error->on_gradients ? in * on_gradients(error, error->in, name) +
                                         back * on_gradients(error, error->back, name)
                                   : in * error->nmse_in + back * error->nmse_back;
    double times = error->back != NULL ? fmax(in, back) : in + back;
    return times * (error->on_gradients ? on_gradients(error, error->spec, name) : error->nmse_in);
}

struct wring_encodings wring_building_fewest(const char *spec)
{
    return (struct wring_encodings){1, strchr(spec, '>') != NULL};
}

static enum wring_budget weigh(const struct wring_building *building, uint32_t codec,
                               struct wring_encodings encodings)
{
    uint32_t n = building->params->trace->n, within = 0;

    if (building->params->max_nmse <= 0 || encodings.in + encodings.back == 0)
        return WRING_BUDGET_WITHIN;
    struct error error = find_error(building, codec, encodings);
    if (!error.on_gradients && isnan(building->model->codecs[codec].nmse))
        return WRING_BUDGET_UNKNOWN;
    for (uint32_t i = 0; i < n; i++)
        within += error_on(&error, i) <= building->params->max_nmse;
    if (within == n)
        return WRING_BUDGET_WITHIN;
    return within > 0 ? WRING_BUDGET_SOMEWHERE : WRING_BUDGET_BEYOND;
}

void wring_building_weigh(struct wring_building *building, uint32_t codec)
{
    for (uint32_t in = 0; in <= WRING_ENCODINGS_MAX; in++)
        for (uint32_t back = 0; back <= WRING_ENCODINGS_MAX; back++)
            building->budgets[codec].of[in][back] =
                weigh(building, codec, (struct wring_encodings){in, back});
}

enum wring_budget wring_building_budget(const struct wring_building *building, uint32_t codec,
                                        struct wring_encodings encodings)
{
    return building->budgets[codec].of[encodings.in][encodings.back];
}

/** An option is not for the tensors on which it loses too much; what is only compared with is for
 *  nobody. */
static void bar_option(const struct wring_building *building, uint32_t option, bool nobody)
{
    struct wring_cost_model *model = building->model;
    const struct wring_cost_option *of = &model->options[option];
    struct error error = find_error(building, of->codec, wring_option_encodings(&of->option));
    uint32_t words = wring_problem_words(&model->problem);

    for (uint32_t tensor = 0; tensor < model->problem.n_tensors; tensor++)
        if (nobody || error_on(&error, tensor) > building->params->max_nmse)
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

enum wring_status wring_building_bar(struct wring_building *building)
{
    struct wring_cost_model *model = building->model;
    enum wring_status status = WRING_OK;

    for (uint32_t i = 0; i < model->problem.n_options && status == WRING_OK; i++) {
        uint32_t codec = model->options[i].codec;
        enum wring_budget budget = wring_building_budget(
            building, codec, wring_option_encodings(&model->options[i].option));
        bool nobody = building->candidates.list[i].barred;
        if (!nobody && budget == WRING_BUDGET_WITHIN)
            continue;
        status = make_allowed(model);
        if (status == WRING_OK)
            bar_option(building, i, nobody);
    }
    return status;
}
