/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a timeline's picture, and those inside of the exchange's. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "planner/timeline_svg.h"

#define TOP 64
#define ROW 46
#define PART_ROW 21
#define PART_BOX 13
#define PART_WIDTH_LEAST 4 /* of a piece: narrower ones are drawn as one */

void wring_svg_place_rows(struct wring_svg *svg)
{
    const struct wring_cost_model *model = svg->model;
    double y = TOP;

    wring_timeline_part_sums(model, svg->grouping, svg->result, svg->part_us,
                             svg->part_critical_us);
    for (uint32_t lane = 0; lane < model->problem.n_lanes; lane++) {
        svg->lane_y[lane] = y;
        y += ROW;
        if (strcmp(model->lanes[lane], WRING_LANE_EXCHANGE) != 0)
            continue;
        for (uint32_t part = 0; part < WRING_EXCHANGE_PARTS; part++)
            if (svg->part_us[part] > 0) {
                svg->part_y[part] = y;
                y += PART_ROW;
            }
        y += wring_svg_has_parts(svg) ? 6 : 0;
    }
    svg->bottom = y;
}

bool wring_svg_has_parts(const struct wring_svg *svg)
{
    for (uint32_t part = 0; part < WRING_EXCHANGE_PARTS; part++)
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

static void put_part(const struct wring_svg *svg, enum wring_exchange_part part)
{
    double y = svg->part_y[part] + 11;

    fprintf(svg->file,
            "<text x=\"28\" y=\"%.0f\" font-size=\"11\">%s</text>"
            "<text class=\"dim\" x=\"%d\" y=\"%.0f\" font-size=\"11\" text-anchor=\"end\">"
            "%.0f %%</text>\n",
            y, wring_exchange_part_name(part), WRING_SVG_LEFT - 12, y,
            share_of(svg, svg->part_us[part]));
}

void wring_svg_put_rows(const struct wring_svg *svg)
{
    for (uint32_t lane = 0; lane < svg->model->problem.n_lanes; lane++)
        put_lane(svg, lane);
    for (uint32_t part = 0; part < WRING_EXCHANGE_PARTS; part++)
        if (svg->part_us[part] > 0)
            put_part(svg, (enum wring_exchange_part)part);
}

static const char *class_of(enum wring_exchange_part part)
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

static void put_box(void *arg, const struct wring_part_box *box)
{
    const struct wring_svg *svg = arg;
    double x = WRING_SVG_LEFT + box->begin_us * svg->scale, y = svg->part_y[box->part];
    double width = fmax((box->end_us - box->begin_us) * svg->scale, 0.3);

    fprintf(svg->file,
            "<g><rect class=\"box %s%s\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\"/>",
            class_of(box->part), box->critical ? " hot" : "", x, y, width > 1 ? width - 0.4 : width,
            PART_BOX);
    if (box->critical)
        fprintf(svg->file,
                "<rect class=\"path\" x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"2\"/>", x,
                y + PART_BOX + 1, width);
    fprintf(svg->file, "<title>%s, of %" PRIu64 " piece%s: %.1f us, apportioned</title></g>\n",
            wring_exchange_part_name(box->part), box->pieces, box->pieces > 1 ? "s" : "",
            box->end_us - box->begin_us);
}

void wring_svg_put_parts(const struct wring_svg *svg, const struct wring_lane_task *task)
{
    double width = (task->end_us - task->begin_us) * svg->scale;

    wring_timeline_parts(svg->model, svg->grouping, task, (uint64_t)(width / PART_WIDTH_LEAST),
                         put_box, (void *)svg);
}
