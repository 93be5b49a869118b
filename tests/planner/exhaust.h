/* SPDX-License-Identifier: Apache-2.0 */
/** The best grouping of small problems, found by looking at all of them. */
#ifndef WRING_TESTS_EXHAUST_H
#define WRING_TESTS_EXHAUST_H

#include <stdbool.h>

#include "planner/problem.h"

/** The least time of any grouping, from the definition alone. */
double wring_exhaust(const struct wring_problem *problem);

/** Is it a grouping of this problem, whose groups are small enough and may take their options? */
bool wring_exhaust_valid(const struct wring_problem *problem,
                         const struct wring_grouping *grouping);

#endif
