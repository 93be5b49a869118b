/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Pictures in SVG: texts, lines and boxes in the colours of one style, and charts of curves. Places
 * are pixels from the top left. Texts of others are escaped here, and nowhere else.
 */
#ifndef WRING_SVG_H
#define WRING_SVG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** Colours that tell curves and boxes apart, in light and in dark. */
enum wring_svg_colour {
    WRING_SVG_BLUE,
    WRING_SVG_PURPLE,
    WRING_SVG_GREEN,
    WRING_SVG_AMBER,
    WRING_SVG_RED,
    WRING_SVG_GREY,
    WRING_SVG_SKY,
    WRING_SVG_PINK,
    WRING_SVG_LEAF,
    WRING_SVG_ORANGE,
    WRING_SVG_COLOURS
};

/** The style sheet: files have it, and pages into which pictures are written need it. Classes of
 *  texts: "title", "bold", "small" and "legend", and "middle" and "end" for where they are held.
 *  Classes of lines: "grid", "mark" and "path". Its variables --fg, --dim, --line and --bg are a
 *  page's to use as well. */
extern const char wring_svg_style[];

/** Begin a file of its own. @param name  for those who cannot see it */
void wring_svg_begin_file(FILE *file, double width, double height, const char *name);

/** Begin a picture of a page that has the style. */
void wring_svg_begin(FILE *file, double width, double height, const char *name);

void wring_svg_end(FILE *file);

/** @param classes  see wring_svg_style; the text is escaped, and empty without memory */
__attribute__((format(printf, 5, 6))) void wring_svg_text(FILE *file, const char *classes, double x,
                                                          double y, const char *format, ...);

void wring_svg_line(FILE *file, const char *classes, double x1, double y1, double x2, double y2);

/** @param strong  or else pale */
void wring_svg_box(FILE *file, enum wring_svg_colour colour, bool strong, double x, double y,
                   double width, double height);

/** What is drawn between these shows a text when one points at it; escaped likewise. */
void wring_svg_group_begin(FILE *file);
__attribute__((format(printf, 2, 3))) void wring_svg_group_end(FILE *file, const char *format, ...);

/** Values along a side. */
struct wring_svg_axis {
    double low, high; /* values at the ends */
    double from, to;  /* the ends */
    double base;      /* logarithmic, with marks at its powers; 0: linear, with marks at 1, 2 or 5
                         times a power of ten */
    const char *unit; /* after the numbers; NULL: none */
    bool binary;      /* numbers as 4k and 16m */
};

/** Where a value is; at an end if it is beyond that. */
double wring_svg_position(const struct wring_svg_axis *axis, double value);

/** Lines down, with their numbers. @param parts  about so many; @param text_y  of the numbers */
void wring_svg_axis_put(FILE *file, const struct wring_svg_axis *axis, int parts, double top,
                        double bottom, double text_y);

#define WRING_SVG_CURVES_MAX 20
#define WRING_SVG_POINTS_MAX 64
#define WRING_SVG_NAME_BYTES 256

struct wring_svg_curve {
    char name[WRING_SVG_NAME_BYTES];
    enum wring_svg_colour colour;
    double dash; /* length of its dashes; 0: solid */
    double x[WRING_SVG_POINTS_MAX], y[WRING_SVG_POINTS_MAX];
    uint32_t n;
};

/** Curves that are named where they end. */
struct wring_svg_chart {
    const char *title, *x_title;
    double height;              /* of the plot */
    struct wring_svg_axis x, y; /* low, high: what they show at least, or NAN; from, to: ignored */
    double y_cut; /* points above are left out, unless all points are above; 0: none are */
    struct wring_svg_curve curves[WRING_SVG_CURVES_MAX];
    uint32_t n;
    uint32_t left_out; /* curves that are not drawn, which a line says */
};

#define WRING_SVG_CHART_WIDTH 960
#define WRING_SVG_CHART_LEFT 80
#define WRING_SVG_CHART_ROOM 90 /* what a chart takes beyond its plot's height */

/** Add a point to a curve; not that of an x that it has. What is not finite is no point. */
void wring_svg_curve_add(struct wring_svg_curve *curve, double x, double y);

void wring_svg_chart_put(FILE *file, const struct wring_svg_chart *chart, double top);

#endif
