/* SPDX-License-Identifier: Apache-2.0 */
/** The report's pictures, as inline SVG whose colours come from the page's style sheet. */
#ifndef WRING_DEMO_SVG_H
#define WRING_DEMO_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define SVG_CURVES_MAX 8
#define SVG_POINTS_MAX 64

struct svg_curve {
    const char *name;
    double x[SVG_POINTS_MAX], y[SVG_POINTS_MAX];
    uint32_t n;
    bool dashed;
};

struct svg_chart {
    const char *title, *x_title, *y_title;
    struct svg_curve curves[SVG_CURVES_MAX];
    uint32_t n;
    double y_top; /* values above are cut off, unless all are above; 0: none are */
};

void svg_chart_write(FILE *file, const struct svg_chart *chart);

/** A row of a timeline: what begins and ends when, in µs. */
struct svg_bar {
    const char *row;   /* NULL: the row of the bar before */
    const char *class; /* of the style sheet */
    const char *text;  /* shown when pointed at */
    double from_us, to_us;
};

void svg_timeline_write(FILE *file, const char *title, const struct svg_bar *bars, uint32_t n,
                        double to_us);

#endif
