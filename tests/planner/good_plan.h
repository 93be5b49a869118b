/* SPDX-License-Identifier: Apache-2.0 */
/** A plan with all that one can have, as a file and loaded. */
#ifndef WRING_TESTS_GOOD_PLAN_H
#define WRING_TESTS_GOOD_PLAN_H

#include "planner/core/files/plan.h"

extern const char good_plan[];

/** A failed check and NULL where it is refused. */
struct wring_plan *good_plan_load(void);

/** What is saved, loaded and saved again is the same text. */
void good_plan_check_round_trip(const struct wring_plan *plan);

#endif
