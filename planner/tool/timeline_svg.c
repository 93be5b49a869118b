/* SPDX-License-Identifier: Apache-2.0 */
/* A row per lane, a box per group, time to the right. The path that decides is drawn strong, the
 * rest pale; beside each lane stands what it adds to the iteration. */
#include "planner/tool/timeline_svg.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/xml.h"

#define TOP 64
#define ROW 46
#define PART_ROW 21
#define PART_BOX 13
#define PART_WIDTH_LEAST 4 /* of a piece: narrower ones are drawn as one */

static bool svg_has_parts(const struct wring_svg *svg);

/** Lay out the rows: everything but the file is there. */
static void svg_place_rows(struct wring_svg *svg)
{
    const struct wring_cost_model *model = svg->model;
    double y = TOP;

    wring_timeline_part_sums(model, svg->grouping, svg->result, svg->part_us,
                             svg->part_critical_us);
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++) {
        svg->lane_y[lane] = y;
        y += ROW;
        if (strcmp(model->lanes[lane], WRING_LANE_COLLECTIVE) != 0)
            continue;
        for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
            if (svg->part_us[part] > 0) {
                svg->part_y[part] = y;
                y += PART_ROW;
            }
        y += svg_has_parts(svg) ? 6 : 0;
    }
    svg->bottom = y;
}

/** Are there such rows? */
static bool svg_has_parts(const struct wring_svg *svg)
{
    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
        if (svg->part_us[part] > 0)
            return true;
    return false;
}

static double share_of(const struct wring_svg *svg, double us)
{
    return svg->result->iteration_us > 0 ? us * 100 / svg->result->iteration_us : 0;
}

static void put_lane(const struct wring_svg *svg, uint32_t lane)
{
    double y = svg->lane_y[lane];
    double line = lane + 1 < svg->model->problem.n_lanes ? svg->lane_y[lane + 1] : svg->bottom;

    fprintf(svg->file,
            "<text x=\"16\" y=\"%.0f\" font-weight=\"600\">%s</text><text class=\"dim\" x=\"16\" "
            "y=\"%.0f\" font-size=\"11\">busy %.0f %%, decides %.3g ms</text>"
            "<line class=\"row\" x1=\"16\" x2=\"%d\" y1=\"%.0f\" y2=\"%.0f\"/>\n",
            y + 16, svg->model->lanes[lane], y + 31, share_of(svg, svg->result->busy_us[lane]),
            svg->result->critical_us[lane] / 1e3, WRING_SVG_LEFT + WRING_SVG_WIDTH, line - 6,
            line - 6);
}

static void put_part(const struct wring_svg *svg, enum wring_collective_part part)
{
    double y = svg->part_y[part] + 11;

    fprintf(svg->file,
            "<text x=\"28\" y=\"%.0f\" font-size=\"11\">%s</text>"
            "<text class=\"dim\" x=\"%d\" y=\"%.0f\" font-size=\"11\" text-anchor=\"end\">"
            "%.0f %%</text>\n",
            y, wring_collective_part_name(part), WRING_SVG_LEFT - 12, y,
            share_of(svg, svg->part_us[part]));
}

/** Names, what they are busy for and what of that decides; lines below. */
static void svg_put_rows(const struct wring_svg *svg)
{
    for (uint32_t lane = 0; lane < svg->model->problem.n_lanes; lane++)
        put_lane(svg, lane);
    for (uint32_t part = 0; part < WRING_COLLECTIVE_PARTS; part++)
        if (svg->part_us[part] > 0)
            put_part(svg, (enum wring_collective_part)part);
}

static const char *class_of_part(enum wring_collective_part part)
{
    switch (part) {
    case WRING_PART_ENCODE:
    case WRING_PART_DECODE:
        return "codec";
    case WRING_PART_WIRE:
        return "wire";
    case WRING_PART_WORK:
        return "work";
    case WRING_PART_CORES:
    case WRING_PART_PEERS:
        break;
    }
    return "wait";
}

static void put_part_box(void *arg, const struct wring_part_box *box)
{
    const struct wring_svg *svg = arg;
    double x = WRING_SVG_LEFT + box->begin_us * svg->scale, y = svg->part_y[box->part];
    double width = fmax((box->end_us - box->begin_us) * svg->scale, 0.3);

    fprintf(svg->file,
            "<g><rect class=\"box %s%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>",
            class_of_part(box->part), box->critical ? " hot" : "", x, y,
            width > 1 ? width - 0.4 : width, PART_BOX);
    if (box->critical)
        fprintf(svg->file,
                "<rect class=\"path\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"2\"/>", x,
                y + PART_BOX + 1, width);
    fprintf(svg->file, "<title>%s, of %" PRIu64 " piece%s: %.1f us, apportioned</title></g>\n",
            wring_collective_part_name(box->part), box->pieces, box->pieces > 1 ? "s" : "",
            box->end_us - box->begin_us);
}

/** The parts of an exchange in rows of their own; nothing for other tasks. */
static void svg_put_parts(const struct wring_svg *svg, const struct wring_lane_task *task)
{
    double width = (task->end_us - task->begin_us) * svg->scale;

    wring_timeline_parts(svg->model, svg->grouping, task, (uint64_t)(width / PART_WIDTH_LEAST),
                         put_part_box, (void *)svg);
}

/* ---- timeline svg ---- */

#define LEFT WRING_SVG_LEFT
#define WIDTH WRING_SVG_WIDTH
#define BOX WRING_SVG_BOX
#define AXIS 58 /* where marks begin */

static const char head[] =
    "<style>:root{--fg:#1c2733;--dim:#5b6b7b;--line:#dde3ea;--bg:#fff;--app:#0a7d6c;"
    "--codec:#8250df;--wire:#1f6feb;--hot:#cf222e;--work:#9a6700;--wait:#8c959f}@media(prefers-"
    "color-scheme:dark){:root{"
    "--fg:#e2e8ef;--dim:#93a1b0;--line:#2a3542;--bg:#0f151c;--app:#3fcfb4;--codec:#bc8cff;"
    "--wire:#58a6ff;--hot:#ff7b72;--work:#d29922;--wait:#6e7681}}text{fill:var(--fg)}.dim{fill:var("
    "--dim)}"
    ".row{stroke:var(--line)}.app{fill:var(--app)}.codec{fill:var(--codec)}.wire{fill:var(--wire)}"
    ".work{fill:var(--work)}.wait{fill:var(--wait)}"
    ".box{opacity:.38}.hot{opacity:1}.path{fill:var(--hot)}.mark{stroke:var(--fg);"
    "stroke-dasharray:3 3}</style>\n";

/** 1, 2 or 5 times a power of ten: about ten marks on the axis. */
static double mark_step(double iteration_us)
{
    double step = pow(10, floor(log10(iteration_us / 10)));

    if (iteration_us / step > 50)
        return step * 5;
    return iteration_us / step > 20 ? step * 2 : step;
}

static void put_axis(const struct wring_svg *svg)
{
    double step = svg->result->iteration_us > 0 ? mark_step(svg->result->iteration_us) : 1;

    for (double at = 0; at <= svg->result->iteration_us; at += step) {
        double x = LEFT + at * svg->scale;
        fprintf(svg->file, "<line class=\"row\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.0f\"/>", x,
                x, AXIS, svg->bottom);
        fprintf(svg->file,
                "<text class=\"dim\" x=\"%.1f\" y=\"%d\" font-size=\"11\" "
                "text-anchor=\"middle\">%g ms</text>\n",
                x, AXIS - 4, at / 1e3);
    }
    double ready = LEFT + svg->result->last_ready_us * svg->scale;
    fprintf(svg->file,
            "<line class=\"mark\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%.0f\"/>"
            "<text class=\"dim\" x=\"%.1f\" y=\"%.0f\" font-size=\"11\" text-anchor=\"middle\">"
            "all gradients ready, undelayed</text>\n",
            ready, ready, AXIS, svg->bottom + 4, fmin(fmax(ready, LEFT + 80), LEFT + WIDTH - 80),
            svg->bottom + 18);
}

/** "codec" lanes code, the first one computes, the others are links. */
static const char *class_of(const struct wring_cost_model *model, uint32_t lane)
{
    if (lane == 0)
        return "app";
    return strstr(model->lanes[lane], "code") != NULL || strstr(model->lanes[lane], "cpu") != NULL
               ? "codec"
               : "wire";
}

static void put_tooltip(FILE *file, const struct wring_cost_model *model,
                        const struct wring_grouping *grouping, const struct wring_lane_task *task)
{
    uint32_t begin = task->group == 0 ? 0 : grouping->end[task->group - 1];
    uint32_t end = grouping->end[task->group];
    const struct wring_cost_option *option = &model->options[grouping->option[task->group]];
    char scheme[256];

    fputs("<title>", file);
    wring_xml_put(file, model->trace->tensors[begin].name);
    if (end - begin > 1) {
        fputs(" … ", file);
        wring_xml_put(file, model->trace->tensors[end - 1].name);
    }
    fprintf(file, " (%" PRIu32 " tensors, %" PRIu64 " elements), %s: ", end - begin,
            model->problem.elems[end] - model->problem.elems[begin],
            model->codecs[option->codec].spec);
    wring_option_text(&option->option, scheme, sizeof(scheme));
    wring_xml_put(file, scheme);
    fprintf(file, "; %.1f to %.1f us, busy %.1f us, waited %.1f us</title>", task->begin_us,
            task->end_us, task->busy_us, task->begin_us - task->ready_us);
}

/** What of a stay on the first lane is coding, which comes after the computing. */
static void put_coding(const struct wring_svg *svg, const struct wring_lane_task *task)
{
    uint32_t begin = task->group == 0 ? 0 : svg->grouping->end[task->group - 1];
    double coding_us = task->busy_us;

    for (uint32_t i = begin; i < svg->grouping->end[task->group]; i++)
        coding_us -= svg->model->problem.compute_us[i];
    if (coding_us * svg->scale < 0.1)
        return;
    fprintf(svg->file,
            "<rect class=\"box codec%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>",
            task->critical ? " hot" : "", LEFT + (task->end_us - coding_us) * svg->scale,
            svg->lane_y[0], coding_us * svg->scale, BOX);
}

static void put_box(const struct wring_svg *svg, const struct wring_lane_task *task)
{
    double x = LEFT + task->begin_us * svg->scale;
    double width = fmax((task->end_us - task->begin_us) * svg->scale, 0.3);
    double y = svg->lane_y[task->lane];

    fprintf(svg->file,
            "<g><rect class=\"box %s%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" "
            "rx=\"%g\"/>",
            class_of(svg->model, task->lane), task->critical ? " hot" : "", x, y,
            width > 1 ? width - 0.4 : width, BOX, width > 8 ? 3.0 : 0);
    if (task->lane == 0)
        put_coding(svg, task);
    if (task->critical)
        fprintf(svg->file,
                "<rect class=\"path\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"3\"/>", x,
                y + BOX + 1, width);
    put_tooltip(svg->file, svg->model, svg->grouping, task);
    fputs("</g>\n", svg->file);
    svg_put_parts(svg, task);
}

static void put_legend(const struct wring_svg *svg, double y)
{
    fprintf(svg->file,
            "<text class=\"dim\" x=\"16\" y=\"%.0f\" font-size=\"11\">Strong boxes over a red "
            "line decide: each began when the one before it on that line ended. Point at a box "
            "to see what it is.</text>\n",
            y);
    if (svg_has_parts(svg))
        fprintf(svg->file,
                "<text class=\"dim\" x=\"16\" y=\"%.0f\" font-size=\"11\">The narrow rows are "
                "apportioned, not measured: exchanges were measured whole, their codec work, "
                "processor time and bytes apart. A box is a piece, or several where these would "
                "be too narrow.</text>\n",
                y + 16);
}

enum wring_status wring_timeline_write_svg(const struct wring_cost_model *model,
                                           const struct wring_grouping *grouping,
                                           const struct wring_timeline_result *result, FILE *file)
{
    struct wring_svg svg = {
        .file = file,
        .model = model,
        .grouping = grouping,
        .result = result,
        .scale = result->iteration_us > 0 ? WIDTH / result->iteration_us : 0,
    };

    svg_place_rows(&svg);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" "
            "font-family=\"system-ui,sans-serif\" font-size=\"13\">\n",
            LEFT + WIDTH + 30, svg.bottom + (svg_has_parts(&svg) ? 66 : 50));
    fputs(head, file);
    fprintf(file, "<rect width=\"100%%\" height=\"100%%\" fill=\"var(--bg)\"/>"
                  "<text x=\"16\" y=\"26\" font-size=\"17\" font-weight=\"600\">");
    wring_xml_put(file, model->trace->model);
    fprintf(file, ": %.3f ms an iteration, %" PRIu32 " tensors in %" PRIu32 " groups</text>\n",
            result->iteration_us / 1e3, model->problem.n_tensors, grouping->n);
    put_axis(&svg);
    svg_put_rows(&svg);
    for (uint32_t i = 0; i < result->n; i++)
        put_box(&svg, &result->tasks[i]);
    put_legend(&svg, svg.bottom + 40);
    fputs("</svg>\n", file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}
