/* SPDX-License-Identifier: Apache-2.0 */
/** How a plan's file is read, part by part. Private to plan_read*.c. */
#ifndef WRING_PLANNER_PLAN_READ_H
#define WRING_PLANNER_PLAN_READ_H

#include "planner/files/json_reader.h"
#include "planner/files/plan.h"

/** Its groups, in which each tensor travels once. What was read goes with the plan. */
void wring_plan_read_groups(struct wring_reading *reading, const json_t *object,
                            struct wring_plan *plan);

/** "executor" of a plan or a group. @param executor  out, [bytes], "" before; left so if absent */
void wring_plan_read_executor(struct wring_reading *reading, const json_t *object, char *executor,
                              size_t bytes);

#endif
