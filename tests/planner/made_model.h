/* SPDX-License-Identifier: Apache-2.0 */
/** Models for tests: made, and asked what they say. */
#ifndef WRING_TESTS_MADE_MODEL_H
#define WRING_TESTS_MADE_MODEL_H

#include <stdbool.h>

#include "planner/core/model/cost_model.h"

/** A model; a failed check and NULL where there is none. */
struct wring_cost_model *wring_made_model(const struct wring_cost_model_params *params);

/** The time when every tensor travels by itself, all with one option. */
double wring_made_model_time(const struct wring_cost_model *model, uint32_t option);

/** What a group of that size takes on a lane; a failed check where there is no such lane. */
double wring_made_model_lane(const struct wring_cost_model *model, uint32_t option,
                             const char *name, double elems);

/** Equal, but for rounding. */
bool wring_near(double a, double b);

#endif
