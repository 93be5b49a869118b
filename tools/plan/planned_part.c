/* SPDX-License-Identifier: Apache-2.0 */
/** Plans in which every tensor takes a codec that was asked for: a part of the model's options. */
#include <stdlib.h>
#include <string.h>

#include "tools/plan/planning.h"

#define WRING_MODULE "plan"

static bool is_listed(const struct wring_planning *planning, const char *spec)
{
    for (size_t i = 0; i < planning->n_codecs; i++)
        if (strcmp(planning->codecs[i], spec) == 0)
            return true;
    return false;
}

static void choose(const struct wring_planning *planning, const struct wring_cost_model *model,
                   struct wring_planned_part *part)
{
    for (uint32_t option = 0; option < model->problem.n_options; option++) {
        const struct wring_cost_option *of = &model->options[option];
        if (!is_listed(planning, model->codecs[of->codec].spec))
            continue;
        part->options[part->problem.n_options] = model->problem.options[option];
        part->whole[part->problem.n_options++] = option;
    }
}

static bool may(const struct wring_problem *problem, uint32_t tensor, uint32_t option)
{
    size_t word = (size_t)tensor * wring_problem_words(problem) + option / 64;
    return problem->allowed[word] >> option % 64 & 1;
}

/** Who may take what, by the part's numbers. */
static enum wring_status allow(const struct wring_planning *planning,
                               const struct wring_problem *whole, struct wring_planned_part *part)
{
    uint32_t words = wring_problem_words(&part->problem);

    if (whole->allowed == NULL)
        return WRING_OK;
    part->allowed = calloc((size_t)whole->n_tensors * words, sizeof(*part->allowed));
    if (part->allowed == NULL)
        return WRING_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < whole->n_tensors; i++) {
        bool any = false;
        for (uint32_t option = 0; option < part->problem.n_options; option++)
            if (may(whole, i, part->whole[option])) {
                part->allowed[(size_t)i * words + option / 64] |= UINT64_C(1) << option % 64;
                any = true;
            }
        if (!any) {
            wring_error(
                &planning->log,
                "--only: every codec of --codec loses more of the tensor %s than --max-nmse "
                "allows",
                planning->trace->tensors[i].name);
            return WRING_ERR_INVALID;
        }
    }
    part->problem.allowed = part->allowed;
    return WRING_OK;
}

enum wring_status wring_planned_part_init(const struct wring_planning *planning,
                                          const struct wring_cost_model *model,
                                          struct wring_planned_part *out)
{
    uint32_t n = model->problem.n_options;
    struct wring_planned_part part = {.problem = model->problem};
    enum wring_status status = WRING_ERR_NO_MEMORY;

    part.whole = calloc(n, sizeof(*part.whole));
    part.options = calloc(n, sizeof(*part.options));
    if (part.whole == NULL || part.options == NULL)
        goto finish;
    part.problem.n_options = 0;
    part.problem.options = part.options;
    choose(planning, model, &part);
    status = WRING_ERR_INVALID;
    if (part.problem.n_options == 0) {
        wring_error(&planning->log, "there is no way in which tensors take the codecs of --codec");
        goto finish;
    }
    status = allow(planning, &model->problem, &part);
    if (status != WRING_OK)
        goto finish;
    *out = part;
    return WRING_OK;

finish:
    wring_planned_part_finish(&part);
    return status;
}

void wring_planned_part_map(const struct wring_planned_part *part, struct wring_grouping *grouping)
{
    for (uint32_t i = 0; i < grouping->n; i++)
        grouping->option[i] = part->whole[grouping->option[i]];
}

void wring_planned_part_finish(struct wring_planned_part *part)
{
    free(part->whole);
    free(part->options);
    free(part->allowed);
    *part = (struct wring_planned_part){0};
}
