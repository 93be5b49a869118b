/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/tool/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

#define PLOT 560 /* width of a chart's plot; names are beside it */
#define ABOVE 34 /* it: the title */
#define BELOW 18 /* it: numbers */
#define NAME_ROW 17
#define NAMES (WRING_SVG_CHART_LEFT + PLOT + 16)
#define PARTS 6 /* of an upright axis */

const char wring_svg_style[] =
    ":root{--fg:#1c2733;--dim:#5b6b7b;--line:#dde3ea;--bg:#fff;--c0:#1f6feb;--c1:#8250df;"
    "--c2:#0a7d6c;--c3:#9a6700;--c4:#cf222e;--c5:#8c959f;--c6:#3fa0d8;--c7:#d070c8;--c8:#5ba03a;"
    "--c9:#d1570a}"
    "@media(prefers-color-scheme:dark){:root{--fg:#e2e8ef;--dim:#93a1b0;--line:#2a3542;"
    "--bg:#0f151c;--c0:#58a6ff;--c1:#bc8cff;--c2:#3fcfb4;--c3:#d29922;--c4:#ff7b72;--c5:#6e7681;"
    "--c6:#7cc7f0;--c7:#e79be0;--c8:#8fd06a;--c9:#ff9a4d}}"
    ".c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}"
    ".c5{--c:var(--c5)}.c6{--c:var(--c6)}.c7{--c:var(--c7)}.c8{--c:var(--c8)}.c9{--c:var(--c9)}"
    "text{fill:var(--fg)}.title{font-size:17px;font-weight:600}.bold{font-weight:600}"
    ".small{fill:var(--dim);font-size:11px}.legend{font-size:12px}.middle{text-anchor:middle}"
    ".end{text-anchor:end}.grid{stroke:var(--line)}.mark{stroke:var(--fg);stroke-dasharray:3 3}"
    ".path{stroke:var(--c4);stroke-width:3}.curve{fill:none;stroke:var(--c);stroke-width:2}"
    ".box,.dot{fill:var(--c)}.box{opacity:.38}.strong{opacity:1}";

/** As character data or an attribute; a space for control characters, which have no place there. */
static void put_escaped(FILE *file, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc((unsigned char)*text < 32 ? ' ' : *text, file);
        }
}

static void put_formatted(FILE *file, const char *format, va_list args)
{
    char *text;

    if (vasprintf(&text, format, args) < 0)
        return;
    put_escaped(file, text);
    free(text);
}

/** @param space  the attribute that names the language, which a page's pictures do without */
static void put_begin(FILE *file, const char *space, double width, double height, const char *name)
{
    fprintf(file,
            "<svg%s viewBox=\"0 0 %.6g %.6g\" font-family=\"system-ui,sans-serif\" "
            "font-size=\"13\" role=\"img\" aria-label=\"",
            space, width, height);
    put_escaped(file, name);
    fputs("\">\n", file);
}

void wring_svg_begin(FILE *file, double width, double height, const char *name)
{
    put_begin(file, "", width, height, name);
}

void wring_svg_begin_file(FILE *file, double width, double height, const char *name)
{
    put_begin(file, " xmlns=\"http://www.w3.org/2000/svg\"", width, height, name);
    fprintf(file,
            "<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"var(--bg)\"/>\n",
            wring_svg_style);
}

void wring_svg_end(FILE *file)
{
    fputs("</svg>\n", file);
}

void wring_svg_text(FILE *file, const char *classes, double x, double y, const char *format, ...)
{
    va_list args;

    fprintf(file, "<text class=\"%s\" x=\"%.6g\" y=\"%.6g\">", classes, x, y);
    va_start(args, format);
    put_formatted(file, format, args);
    va_end(args);
    fputs("</text>\n", file);
}

void wring_svg_line(FILE *file, const char *classes, double x1, double y1, double x2, double y2)
{
    fprintf(file, "<line class=\"%s\" x1=\"%.6g\" y1=\"%.6g\" x2=\"%.6g\" y2=\"%.6g\"/>\n", classes,
            x1, y1, x2, y2);
}

void wring_svg_box(FILE *file, enum wring_svg_colour colour, bool strong, double x, double y,
                   double width, double height)
{
    double drawn = width > 1 ? width - 0.4 : fmax(width, 0.3); /* a gap before the next one */

    fprintf(file,
            "<rect class=\"box c%d%s\" x=\"%.6g\" y=\"%.6g\" width=\"%.4g\" height=\"%.4g\"%s/>\n",
            (int)colour, strong ? " strong" : "", x, y, drawn, height,
            width > 8 && height >= NAME_ROW ? " rx=\"3\"" : "");
}

void wring_svg_group_begin(FILE *file)
{
    fputs("<g>", file);
}

void wring_svg_group_end(FILE *file, const char *format, ...)
{
    va_list args;

    fputs("<title>", file);
    va_start(args, format);
    put_formatted(file, format, args);
    va_end(args);
    fputs("</title></g>\n", file);
}

/* ---- axes ---- */

/** In the measure in which an axis is even. */
static double to_even_measure(const struct wring_svg_axis *axis, double value)
{
    return axis->base > 0 ? log(value) / log(axis->base) : value;
}

double wring_svg_position(const struct wring_svg_axis *axis, double value)
{
    double low = to_even_measure(axis, axis->low), range = to_even_measure(axis, axis->high) - low;
    double share = range > 0 ? (to_even_measure(axis, value) - low) / range : 0.5;
    return axis->from + fmin(fmax(share, 0), 1) * (axis->to - axis->from);
}

/** What lies between two marks, in the even measure. */
static double find_step(const struct wring_svg_axis *axis, int parts)
{
    double range = axis->high - axis->low;

    if (axis->base > 0 || !(range > 0))
        return 1;
    double raw = range / parts, power = pow(10, floor(log10(raw))), digit = raw / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/** Let the ends be marks. */
static void round_ends(struct wring_svg_axis *axis, int parts)
{
    double step = find_step(axis, parts);
    double low = floor(to_even_measure(axis, axis->low) / step + 1e-9) * step;
    double high = ceil(to_even_measure(axis, axis->high) / step - 1e-9) * step;

    high = high > low ? high : low + step;
    axis->low = axis->base > 0 ? pow(axis->base, low) : low;
    axis->high = axis->base > 0 ? pow(axis->base, high) : high;
}

/** The marks, from one value to the next. @param value  in and out; NAN before the first
 *  @return false after the last */
static bool next_mark(const struct wring_svg_axis *axis, int parts, double *value)
{
    double step = find_step(axis, parts);
    double at = isnan(*value) ? ceil(to_even_measure(axis, axis->low) / step - 1e-9)
                              : round(to_even_measure(axis, *value) / step) + 1;

    *value = axis->base > 0 ? pow(axis->base, at) : at * step + 0.0; /* no -0 */
    return at * step <= to_even_measure(axis, axis->high) + step * 1e-9;
}

static void put_number(FILE *file, const struct wring_svg_axis *axis, const char *classes, double x,
                       double y, double value)
{
    bool mega = axis->binary && value >= 0x1p20, kilo = axis->binary && value >= 0x1p10;

    wring_svg_text(file, classes, x, y, "%.6g%s%s",
                   value / (mega   ? 0x1p20
                            : kilo ? 0x1p10
                                   : 1),
                   mega   ? "m"
                   : kilo ? "k"
                          : "",
                   axis->unit != NULL ? axis->unit : "");
}

void wring_svg_axis_put(FILE *file, const struct wring_svg_axis *axis, int parts, double top,
                        double bottom, double text_y)
{
    for (double value = NAN; next_mark(axis, parts, &value);) {
        double x = wring_svg_position(axis, value);
        wring_svg_line(file, "grid", x, top, x, bottom);
        put_number(file, axis, "small middle", x, text_y, value);
    }
}

/** Lines across, with their numbers before them. */
static void put_upright(FILE *file, const struct wring_svg_axis *axis)
{
    for (double value = NAN; next_mark(axis, PARTS, &value);) {
        double y = wring_svg_position(axis, value);
        wring_svg_line(file, "grid", WRING_SVG_CHART_LEFT, y, WRING_SVG_CHART_LEFT + PLOT, y);
        put_number(file, axis, "small end", WRING_SVG_CHART_LEFT - 8, y + 4, value);
    }
}

/* ---- charts ---- */

void wring_svg_curve_add(struct wring_svg_curve *curve, double x, double y)
{
    if (!isfinite(x) || !isfinite(y) || curve->n == WRING_SVG_POINTS_MAX)
        return;
    for (uint32_t i = 0; i < curve->n; i++)
        if (curve->x[i] == x)
            return;
    curve->x[curve->n] = x;
    curve->y[curve->n++] = y;
}

/** Let the axes show all points, but those above the cut. @return the cut */
static double find_ends(const struct wring_svg_chart *chart, struct wring_svg_axis *x,
                        struct wring_svg_axis *y)
{
    double low = INFINITY;

    for (uint32_t c = 0; c < chart->n; c++)
        for (uint32_t i = 0; i < chart->curves[c].n; i++)
            low = fmin(low, chart->curves[c].y[i]);
    double cut = chart->y_cut > low ? chart->y_cut : INFINITY;
    for (uint32_t c = 0; c < chart->n; c++)
        for (uint32_t i = 0; i < chart->curves[c].n; i++) {
            const struct wring_svg_curve *curve = &chart->curves[c];
            x->low = fmin(x->low, curve->x[i]);
            x->high = fmax(x->high, curve->x[i]);
            if (curve->y[i] > cut)
                continue;
            y->low = fmin(y->low, curve->y[i]);
            y->high = fmax(y->high, curve->y[i]);
        }
    round_ends(y, PARTS);
    return cut;
}

/** Begin a line or polyline in a curve's colour and dashes. */
static void put_stroke(FILE *file, const char *element, const struct wring_svg_curve *curve)
{
    fprintf(file, "<%s class=\"curve c%d\"", element, (int)curve->colour);
    if (curve->dash > 0)
        fprintf(file, " stroke-dasharray=\"%.3g 4\"", curve->dash);
}

static void put_curve(FILE *file, const struct wring_svg_curve *curve,
                      const struct wring_svg_axis *x, const struct wring_svg_axis *y, double cut)
{
    if (curve->n == 1)
        fprintf(file, "<circle class=\"dot c%d\" r=\"3\" cx=\"%.1f\" cy=\"%.1f\"/>\n",
                (int)curve->colour, wring_svg_position(x, curve->x[0]),
                wring_svg_position(y, curve->y[0]));
    put_stroke(file, "polyline", curve);
    fputs(" points=\"", file);
    for (uint32_t i = 0; i < curve->n; i++)
        if (curve->y[i] <= cut)
            fprintf(file, "%.1f,%.1f ", wring_svg_position(x, curve->x[i]),
                    wring_svg_position(y, curve->y[i]));
    fputs("\"/>\n", file);
}

/**
 * Where names stand: beside the ends of their curves, pushed apart where they would overlap.
 * @param order  out, [chart->n] curves from top to bottom
 * @param at     out, [chart->n] by curve
 * @return how many have a name: curves with points
 */
static uint32_t stack_names(const struct wring_svg_chart *chart, const struct wring_svg_axis *y,
                            uint32_t *order, double *at)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < chart->n; i++) {
        const struct wring_svg_curve *curve = &chart->curves[i];
        if (curve->n == 0)
            continue;
        at[i] = wring_svg_position(y, curve->y[curve->n - 1]);
        uint32_t k = n++;
        for (; k > 0 && at[order[k - 1]] > at[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (uint32_t k = 1; k < n; k++)
        at[order[k]] = fmax(at[order[k]], at[order[k - 1]] + NAME_ROW);
    for (uint32_t k = n; k-- > 0;)
        at[order[k]] = fmin(at[order[k]], y->from - NAME_ROW * (double)(n - 1 - k));
    return n;
}

static void put_names(FILE *file, const struct wring_svg_chart *chart,
                      const struct wring_svg_axis *y)
{
    uint32_t order[WRING_SVG_CURVES_MAX];
    double at[WRING_SVG_CURVES_MAX];
    uint32_t n = stack_names(chart, y, order, at);

    for (uint32_t k = 0; k < n; k++) {
        const struct wring_svg_curve *curve = &chart->curves[order[k]];
        double middle = at[order[k]];
        put_stroke(file, "line", curve);
        fprintf(file, " x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", NAMES, NAMES + 20, middle,
                middle);
        wring_svg_text(file, "legend", NAMES + 28, middle + 4, "%s", curve->name);
    }
}

void wring_svg_chart_put(FILE *file, const struct wring_svg_chart *chart, double top)
{
    struct wring_svg_axis x = chart->x, y = chart->y;
    double cut = find_ends(chart, &x, &y), above = top + ABOVE, below = above + chart->height;

    x.from = WRING_SVG_CHART_LEFT;
    x.to = x.from + PLOT;
    y.from = below;
    y.to = above;
    wring_svg_text(file, "bold", x.from, above - 14, "%s", chart->title);
    put_upright(file, &y);
    wring_svg_axis_put(file, &x, PARTS, below, below + 5, below + BELOW);
    wring_svg_text(file, "small", NAMES + 28, below + BELOW, "%s", chart->x_title);
    for (uint32_t i = 0; i < chart->n; i++)
        put_curve(file, &chart->curves[i], &x, &y, cut);
    put_names(file, chart, &y);
    if (chart->left_out > 0)
        wring_svg_text(file, "small", x.from, below + 2 * BELOW, "%u more curves are not drawn",
                       chart->left_out);
}
