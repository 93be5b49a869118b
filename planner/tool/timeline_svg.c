/* SPDX-License-Identifier: Apache-2.0 */
/* A row per lane, a box per group, time to the right. The path that decides is drawn strong, the
 * rest pale; beside each lane stands what it adds to the iteration. */
#include <inttypes.h>
#include <string.h>

#include "planner/tool/svg.h"
#include "planner/tool/timeline.h"

#define MARGIN 16
#define LEFT 210
#define WIDTH 1000 /* of the time axis */
#define AXIS 58    /* where marks begin */
#define MARKS 10
#define TOP 64
#define ROW 46
#define BOX 30 /* height of a group on its lane */
#define PART_ROW 21
#define PART_BOX 13
#define PART_WIDTH_LEAST 4 /* of a piece: narrower ones are drawn as one */

/** A picture while it is drawn. */
struct picture {
    FILE *file;
    const struct wring_cost_model *model;
    const struct wring_grouping *grouping;
    const struct wring_timeline_result *result;
    struct wring_svg_axis ms;
    double lane_y[WRING_PLAN_LANES_MAX];
    double part_y[WRING_COLLECTIVE_PARTS]; /* below the lane of exchanges */
    double part_us[WRING_COLLECTIVE_PARTS], part_critical_us[WRING_COLLECTIVE_PARTS];
    bool has_parts; /* rows for those that take time */
    double bottom;
};

/** Lay out the rows: everything but the file is there. */
static void place_rows(struct picture *picture)
{
    const struct wring_cost_model *model = picture->model;
    double y = TOP;

    wring_timeline_part_sums(model, picture->grouping, picture->result, picture->part_us,
                             picture->part_critical_us);
    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
        picture->has_parts |= picture->part_us[part] > 0;
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++) {
        picture->lane_y[lane] = y;
        y += ROW;
        if (strcmp(model->lanes[lane], WRING_LANE_COLLECTIVE) != 0)
            continue;
        for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
            if (picture->part_us[part] > 0) {
                picture->part_y[part] = y;
                y += PART_ROW;
            }
        y += picture->has_parts ? 6 : 0;
    }
    picture->bottom = y;
}

static double place(const struct picture *picture, double us)
{
    return wring_svg_place(&picture->ms, us / 1e3);
}

static double share_of(const struct picture *picture, double us)
{
    return picture->result->iteration_us > 0 ? us * 100 / picture->result->iteration_us : 0;
}

static void put_lane(const struct picture *picture, uint32_t lane)
{
    double y = picture->lane_y[lane];
    bool last = lane + 1 == picture->model->problem.n_lanes;
    double line = (last ? picture->bottom : picture->lane_y[lane + 1]) - 6;

    wring_svg_text(picture->file, "bold", MARGIN, y + 16, "%s", picture->model->lanes[lane]);
    wring_svg_text(picture->file, "small", MARGIN, y + 31, "busy %.0f %%, decides %.3g ms",
                   share_of(picture, picture->result->busy_us[lane]),
                   picture->result->critical_us[lane] / 1e3);
    wring_svg_line(picture->file, "grid", MARGIN, line, LEFT + WIDTH, line);
}

/** Names, what they are busy for and what of that decides; lines below. */
static void put_rows(const struct picture *picture)
{
    for (uint32_t lane = 0; lane < picture->model->problem.n_lanes; lane++)
        put_lane(picture, lane);
    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++) {
        double y = picture->part_y[part] + 11;
        if (picture->part_us[part] <= 0)
            continue;
        wring_svg_text(picture->file, "small", MARGIN + 12, y, "%s",
                       wring_collective_part_name((enum wring_collective_part)part));
        wring_svg_text(picture->file, "small end", LEFT - 12, y, "%.0f %%",
                       share_of(picture, picture->part_us[part]));
    }
}

static void put_axis(const struct picture *picture)
{
    double ready = place(picture, picture->result->last_ready_us);
    double middle = ready < LEFT + 80 ? LEFT + 80 : ready;

    wring_svg_axis_put(picture->file, &picture->ms, MARKS, AXIS, picture->bottom, AXIS - 4);
    wring_svg_line(picture->file, "mark", ready, AXIS, ready, picture->bottom + 4);
    wring_svg_text(picture->file, "small middle",
                   middle > LEFT + WIDTH - 80 ? LEFT + WIDTH - 80 : middle, picture->bottom + 18,
                   "all gradients ready, undelayed");
}

static enum wring_svg_colour colour_of_part(enum wring_collective_part part)
{
    switch (part) {
    case WRING_PART_ENCODE:
    case WRING_PART_DECODE:
        return WRING_SVG_PURPLE;
    case WRING_PART_WIRE:
        return WRING_SVG_BLUE;
    case WRING_PART_WORK:
        return WRING_SVG_AMBER;
    case WRING_PART_CORES:
    case WRING_PART_PEERS:
        break;
    }
    return WRING_SVG_GREY;
}

/** Of the box above it, if that is on the path. */
static void put_path(const struct picture *picture, bool critical, double from, double to,
                     double bottom)
{
    if (critical)
        wring_svg_line(picture->file, "path", from, bottom + 2.5, to, bottom + 2.5);
}

static void put_part_box(void *arg, const struct wring_part_box *box)
{
    const struct picture *picture = arg;
    double x = place(picture, box->begin_us), to = place(picture, box->end_us);
    double y = picture->part_y[box->part];

    wring_svg_group_begin(picture->file);
    wring_svg_box(picture->file, colour_of_part(box->part), box->critical, x, y, to - x, PART_BOX);
    put_path(picture, box->critical, x, to, y + PART_BOX);
    wring_svg_group_end(picture->file, "%s, of %" PRIu64 " piece%s: %.1f us, apportioned",
                        wring_collective_part_name(box->part), box->pieces,
                        box->pieces > 1 ? "s" : "", box->end_us - box->begin_us);
}

/** Lanes that code, the first one, which computes, and links. */
static enum wring_svg_colour colour_of(const struct wring_cost_model *model, uint32_t lane)
{
    if (lane == 0)
        return WRING_SVG_GREEN;
    return strstr(model->lanes[lane], "code") != NULL || strstr(model->lanes[lane], "cpu") != NULL
               ? WRING_SVG_PURPLE
               : WRING_SVG_BLUE;
}

/** What one sees when pointing at a task. */
static void put_tooltip(const struct picture *picture, const struct wring_lane_task *task)
{
    const struct wring_cost_model *model = picture->model;
    uint32_t begin = task->group == 0 ? 0 : picture->grouping->end[task->group - 1];
    uint32_t end = picture->grouping->end[task->group];
    const struct wring_cost_option *option =
        &model->options[picture->grouping->option[task->group]];
    bool many = end - begin > 1;
    char scheme[256];

    wring_option_text(&option->option, scheme, sizeof(scheme));
    wring_svg_group_end(picture->file,
                        "%s%s%s (%" PRIu32 " tensors, %" PRIu64
                        " elements), %s: %s; %.1f to %.1f us, busy %.1f us, waited %.1f us",
                        model->trace->tensors[begin].name, many ? " … " : "",
                        many ? model->trace->tensors[end - 1].name : "", end - begin,
                        model->problem.elems[end] - model->problem.elems[begin],
                        model->codecs[option->codec].spec, scheme, task->begin_us, task->end_us,
                        task->busy_us, task->begin_us - task->ready_us);
}

/** What of a stay on the first lane is coding, which comes after the computing. */
static void put_coding(const struct picture *picture, const struct wring_lane_task *task)
{
    uint32_t begin = task->group == 0 ? 0 : picture->grouping->end[task->group - 1];
    double coding_us = task->busy_us, to = place(picture, task->end_us);

    for (uint32_t i = begin; i < picture->grouping->end[task->group]; i++)
        coding_us -= picture->model->problem.compute_us[i];
    double x = place(picture, task->end_us - coding_us);
    if (to - x >= 0.1)
        wring_svg_box(picture->file, WRING_SVG_PURPLE, task->critical, x, picture->lane_y[0],
                      to - x, BOX);
}

static void put_task(const struct picture *picture, const struct wring_lane_task *task)
{
    double x = place(picture, task->begin_us), to = place(picture, task->end_us);
    double y = picture->lane_y[task->lane];

    wring_svg_group_begin(picture->file);
    wring_svg_box(picture->file, colour_of(picture->model, task->lane), task->critical, x, y,
                  to - x, BOX);
    if (task->lane == 0)
        put_coding(picture, task);
    put_path(picture, task->critical, x, to, y + BOX);
    put_tooltip(picture, task);
    wring_timeline_parts(picture->model, picture->grouping, task,
                         (uint64_t)((to - x) / PART_WIDTH_LEAST), put_part_box, (void *)picture);
}

static void put_legend(const struct picture *picture, double y)
{
    wring_svg_text(picture->file, "small", MARGIN, y,
                   "Strong boxes over a red line decide: each began when the one before it on that "
                   "line ended. Point at a box to see what it is.");
    if (picture->has_parts)
        wring_svg_text(picture->file, "small", MARGIN, y + 16,
                       "The narrow rows are apportioned, not measured: exchanges were measured "
                       "whole, their codec work, processor time and bytes apart. A box is a piece, "
                       "or several where these would be too narrow.");
}

enum wring_status wring_timeline_write_svg(const struct wring_cost_model *model,
                                           const struct wring_grouping *grouping,
                                           const struct wring_timeline_result *result, FILE *file)
{
    struct picture picture = {
        .file = file,
        .model = model,
        .grouping = grouping,
        .result = result,
        .ms = {.high = result->iteration_us / 1e3, .from = LEFT, .to = LEFT + WIDTH, .unit = " ms"},
    };

    place_rows(&picture);
    wring_svg_begin_file(file, LEFT + WIDTH + 30, picture.bottom + (picture.has_parts ? 66 : 50),
                         model->trace->model);
    wring_svg_text(file, "title", MARGIN, 26,
                   "%s: %.3f ms an iteration, %" PRIu32 " tensors in %" PRIu32 " groups",
                   model->trace->model, result->iteration_us / 1e3, model->problem.n_tensors,
                   grouping->n);
    put_axis(&picture);
    put_rows(&picture);
    for (uint32_t i = 0; i < result->n; i++)
        put_task(&picture, &result->tasks[i]);
    put_legend(&picture, picture.bottom + 40);
    wring_svg_end(file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}
