/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/planner/made_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/test.h"

static const struct wring_log quiet = {.level = WRING_LOG_ERROR};

struct wring_cost_model *wring_made_model(const struct wring_cost_model_params *params)
{
    struct wring_cost_model *model = NULL;
    enum wring_status status = wring_cost_model_create(params, &quiet, &model);

    CHECK(status == WRING_OK, "no model: %s", wring_status_text(status));
    return model;
}

bool wring_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (1 + fabs(b));
}

double wring_made_model_time(const struct wring_cost_model *model, uint32_t option)
{
    uint32_t n = model->problem.n_tensors;
    struct wring_grouping grouping = {n, calloc(n, sizeof(uint32_t)), calloc(n, sizeof(uint32_t))};

    for (uint32_t i = 0; i < n; i++) {
        grouping.end[i] = i + 1;
        grouping.option[i] = option;
    }
    double time = wring_problem_time(&model->problem, &grouping);
    free(grouping.end);
    free(grouping.option);
    return time;
}

double wring_made_model_lane(const struct wring_cost_model *model, uint32_t option,
                             const char *name, double elems)
{
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++)
        if (strcmp(model->lanes[lane], name) == 0)
            return wring_cost_at(&model->costs[option].each[lane], elems);
    CHECK(false, "no lane %s", name);
    return NAN;
}
