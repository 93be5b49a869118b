/* SPDX-License-Identifier: Apache-2.0 */
/** The best grouping of small problems, found by looking at all of them. */
#ifndef WRING_TESTS_EXHAUST_H
#define WRING_TESTS_EXHAUST_H

#include <stdbool.h>

#include "planner/core/problem.h"

/** The least time of any grouping, from the definition alone. */
double wring_exhaust(const struct wring_problem *problem);

/**
 * The same by prefixes, of which three kinds are dropped. Those that end later on some lane, and
 * sooner on none, than another one; whatever follows takes no less then, as ends are made of sums
 * and maxima, in which nothing falls when a part rises. Those whose last group could take less on
 * some lane, and more on none. And those after which some lane alone has more left to do than
 * there is time for. Aborts without memory.
 *
 * @param limit_us  the time of some grouping, or a little more; DBL_MAX where none is known
 */
double wring_exhaust_prefixes(const struct wring_problem *problem, double limit_us);

/** Is it a grouping of this problem, whose groups are small enough and may take their options? */
bool wring_exhaust_valid(const struct wring_problem *problem,
                         const struct wring_grouping *grouping);

#endif
