/* SPDX-License-Identifier: Apache-2.0 */
/** What the files that draw timelines share: where rows are, and how boxes look. */
#ifndef WRING_PLANNER_TIMELINE_SVG_H
#define WRING_PLANNER_TIMELINE_SVG_H

#include <stdio.h>

#include "planner/timeline_parts.h"

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
    double part_y[WRING_EXCHANGE_PARTS]; /* below the lane of exchanges; 0: no such row */
    double part_us[WRING_EXCHANGE_PARTS], part_critical_us[WRING_EXCHANGE_PARTS];
    double bottom;
};

/** Lay out the rows: everything but the file is there. */
void wring_svg_place_rows(struct wring_svg *svg);

/** Names, what they are busy for and what of that decides; lines below. */
void wring_svg_put_rows(const struct wring_svg *svg);

/** The parts of an exchange in rows of their own; nothing for other tasks. */
void wring_svg_put_parts(const struct wring_svg *svg, const struct wring_lane_task *task);

/** Are there such rows? */
bool wring_svg_has_parts(const struct wring_svg *svg);

#endif
