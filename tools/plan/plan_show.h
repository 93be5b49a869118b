/* SPDX-License-Identifier: Apache-2.0 */
/** wring plan: its question and what it shows. */
#ifndef WRING_TOOLS_PLAN_SHOW_H
#define WRING_TOOLS_PLAN_SHOW_H

#include "planner/files/plan.h"
#include "tools/plan/planning.h"

/** For people: the times beside each other, and a table of groups. */
void wring_plan_show(const struct wring_planning *planning, const struct wring_planned *planned,
                     const struct wring_plan *plan);

/** All leaves of the tree of options, as text or as one JSON object. @return exit status */
int wring_plan_list_options(const char *name, uint32_t places, bool json);

/**
 * What the search for this question ranges over: groups, codecs, settings, and every way of each
 * codec, with counts; as text or as one JSON object. Trace and profile are loaded.
 * @return exit status
 */
int wring_plan_list_range(const struct wring_planning *planning, bool json);

#endif
