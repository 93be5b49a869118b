/* SPDX-License-Identifier: Apache-2.0 */
/** Costs in the planner's files. */
#ifndef WRING_PLANNER_JSON_COST_H
#define WRING_PLANNER_JSON_COST_H

#include <jansson.h>

#include "planner/cost.h"
#include "planner/files/json_reader.h"

/** A field of an object that is a cost: {"corners": [[x, y], ...], "slope": s}. */
struct wring_cost wring_reading_cost(struct wring_reading *reading, const json_t *object,
                                     const char *name);

/** A new reference; NULL without memory. */
json_t *wring_json_cost(const struct wring_cost *cost);

#endif
