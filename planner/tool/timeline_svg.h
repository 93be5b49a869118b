/* SPDX-License-Identifier: Apache-2.0 */
/** What the files that draw timelines share: where rows are, and how boxes look. */
#ifndef WRING_TIMELINE_SVG_H
#define WRING_TIMELINE_SVG_H

#include <stdio.h>

#include "planner/tool/timeline.h"

#define WRING_SVG_LEFT 210
#define WRING_SVG_WIDTH 1000 /* of the time axis */
#define WRING_SVG_BOX 30     /* height of a group on its lane */

/** A picture while it is drawn. */
struct wring_svg {
    FILE *file;
    const struct wring_cost_model *model;
    const struct wring_grouping *grouping;
    const struct wring_timeline_result *result;
    double scale; /* of a microsecond */
    double lane_y[WRING_PLAN_LANES_MAX];
    double part_y[WRING_COLLECTIVE_PARTS]; /* below the lane of exchanges; 0: no such row */
    double part_us[WRING_COLLECTIVE_PARTS], part_critical_us[WRING_COLLECTIVE_PARTS];
    double bottom;
};

#endif
