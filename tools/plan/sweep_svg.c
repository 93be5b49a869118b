/* SPDX-License-Identifier: Apache-2.0 */
/* Three charts under each other, over nodes or, where there is one number of those, over links;
 * a curve for each combination of what else is swept. The axis to the right is logarithmic. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/xml.h"
#include "planner/files/profile.h"
#include "planner/files/tensor_trace.h"
#include "tools/plan/sweep_give.h"

#define WIDTH 900
#define LEFT 70
#define PLOT 560 /* the rest is names */
#define TOP 70
#define HEIGHT 210
#define GAP 70
#define CURVES_MAX 10

static const char style[] =
    "<style>:root{--fg:#1c2733;--dim:#5b6b7b;--line:#dde3ea;--bg:#fff}"
    "@media(prefers-color-scheme:dark){:root{--fg:#e2e8ef;--dim:#93a1b0;--line:#2a3542;"
    "--bg:#0f151c}}text{fill:var(--fg)}.dim{fill:var(--dim);font-size:11px}"
    ".grid{stroke:var(--line)}polyline{fill:none;stroke-width:2}</style>\n";
static const char *const colours[CURVES_MAX] = {"#1f6feb", "#8250df", "#0a7d6c", "#bf8700",
                                                "#cf222e", "#57606a", "#3fa0d8", "#d070c8",
                                                "#5ba03a", "#e07b39"};

/** What is drawn upwards. */
struct measure {
    const char *title;
    double (*of)(const struct wring_point *point);
};

static double scaling_of(const struct wring_point *point)
{
    return point->scaling_factor;
}

static double fp32_of(const struct wring_point *point)
{
    return point->speedup_fp32;
}

static double fp16_of(const struct wring_point *point)
{
    return point->speedup_fp16;
}

static const struct measure measures[] = {
    {"scaling factor (1: every rank trains as fast as one alone)", scaling_of},
    {"speed-up against float32", fp32_of},
    {"speed-up against fp16", fp16_of},
};

struct chart {
    const struct wring_sweep *sweep;
    const struct wring_point *points;
    size_t n;
    bool by_link;
    double x_low, x_high; /* logarithms */
    uint32_t curves;
    size_t first[CURVES_MAX]; /* a point of each curve */
};

static double x_of(const struct chart *chart, const struct wring_point *point)
{
    return log2(chart->by_link ? point->link_gbit : point->nodes);
}

static bool same_curve(const struct chart *chart, const struct wring_point *a,
                       const struct wring_point *b)
{
    return strcmp(a->codec, b->codec) == 0 && a->local_steps == b->local_steps &&
           a->link_jitter == b->link_jitter &&
           (chart->by_link || isnan(a->link_gbit) || a->link_gbit == b->link_gbit);
}

/** Which curves there are, as far as they can be told apart. @return how many are left out */
static uint32_t find_curves(struct chart *chart)
{
    uint32_t left_out = 0;

    for (size_t i = 0; i < chart->n; i++) {
        bool known = false, begins = true;
        for (uint32_t c = 0; c < chart->curves; c++)
            known = known || same_curve(chart, &chart->points[i], &chart->points[chart->first[c]]);
        for (size_t j = 0; j < i && !known; j++)
            begins = begins && !same_curve(chart, &chart->points[i], &chart->points[j]);
        if (!known && chart->curves < CURVES_MAX)
            chart->first[chart->curves++] = i;
        else if (!known && begins)
            left_out++;
        chart->x_low = fmin(chart->x_low, x_of(chart, &chart->points[i]));
        chart->x_high = fmax(chart->x_high, x_of(chart, &chart->points[i]));
    }
    return left_out;
}

static double place_x(const struct chart *chart, double x)
{
    double range = chart->x_high - chart->x_low;
    return LEFT + (range > 0 ? (x - chart->x_low) / range : 0.5) * PLOT;
}

/** 1, 2 or 5 times a power of ten: about five marks. */
static double mark_step(double high)
{
    double step = pow(10, floor(log10(high / 5)));

    if (high / step > 25)
        return step * 5;
    return high / step > 10 ? step * 2 : step;
}

static double highest(const struct chart *chart, const struct measure *measure)
{
    double high = 1;

    for (size_t i = 0; i < chart->n; i++)
        if (isfinite(measure->of(&chart->points[i])))
            high = fmax(high, measure->of(&chart->points[i]));
    double step = mark_step(high);
    return ceil(high / step - 1e-9) * step;
}

static void put_axes(FILE *file, const struct chart *chart, const struct measure *measure,
                     double top, double high)
{
    double step = mark_step(high);

    fprintf(file, "<text x=\"%d\" y=\"%.0f\" font-weight=\"600\">%s</text>\n", LEFT, top - 12,
            measure->title);
    for (double y = 0; y <= high * 1.0001; y += step) {
        double at = top + HEIGHT * (1 - y / high);
        fprintf(file,
                "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/><text "
                "class=\"dim\" x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
                LEFT, LEFT + PLOT, at, at, LEFT - 8, at + 4, y);
    }
    for (double x = ceil(chart->x_low); x <= chart->x_high + 1e-9; x++)
        fprintf(file,
                "<text class=\"dim\" x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%g</text>\n",
                place_x(chart, x), top + HEIGHT + 18, exp2(x));
    fprintf(file, "<text class=\"dim\" x=\"%d\" y=\"%.0f\">%s</text>\n", LEFT + PLOT + 16,
            top + HEIGHT + 18, chart->by_link ? "Gbit/s between nodes" : "nodes");
}

static void put_curve(FILE *file, const struct chart *chart, const struct measure *measure,
                      uint32_t curve, double top, double high)
{
    const struct wring_point *first = &chart->points[chart->first[curve]];

    fprintf(file, "<polyline stroke=\"%s\" points=\"", colours[curve]);
    for (size_t i = 0; i < chart->n; i++)
        if (same_curve(chart, &chart->points[i], first) && isfinite(measure->of(&chart->points[i])))
            fprintf(file, "%.1f,%.1f ", place_x(chart, x_of(chart, &chart->points[i])),
                    top + HEIGHT * (1 - measure->of(&chart->points[i]) / high));
    fputs("\"/>\n", file);
    double at = top + 10 + 17 * curve;
    fprintf(file,
            "<line stroke=\"%s\" stroke-width=\"2\" x1=\"%d\" x2=\"%d\" y1=\"%.0f\" y2=\"%.0f\"/>"
            "<text class=\"dim\" x=\"%d\" y=\"%.0f\">",
            colours[curve], LEFT + PLOT + 16, LEFT + PLOT + 34, at, at, LEFT + PLOT + 42, at + 4);
    wring_xml_put(file, first->codec);
    if (!chart->by_link && !isnan(first->link_gbit))
        fprintf(file, ", %g Gbit/s", first->link_gbit);
    if (first->local_steps > 1)
        fprintf(file, ", %" PRIu32 " local steps", first->local_steps);
    if (first->link_jitter > 0)
        fprintf(file, ", link jitter %g", first->link_jitter);
    fputs("</text>\n", file);
}

enum wring_status wring_sweep_write_svg(const struct wring_sweep *sweep,
                                        const struct wring_point *points, size_t n, FILE *file)
{
    struct chart chart = {.sweep = sweep,
                          .points = points,
                          .n = n,
                          .by_link = sweep->n_nodes == 1,
                          .x_low = INFINITY,
                          .x_high = -INFINITY};
    uint32_t left_out = find_curves(&chart);

    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"system-ui,sans-serif\" font-size=\"13\">\n%s"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"var(--bg)\"/>\n",
            WIDTH, TOP + 3 * (HEIGHT + GAP), style);
    for (int i = 0; i < 3; i++) {
        double top = TOP + i * (HEIGHT + GAP), high = highest(&chart, &measures[i]);
        put_axes(file, &chart, &measures[i], top, high);
        for (uint32_t curve = 0; curve < chart.curves; curve++)
            put_curve(file, &chart, &measures[i], curve, top, high);
    }
    if (left_out > 0)
        fprintf(file,
                "<text class=\"dim\" x=\"%d\" y=\"24\">%" PRIu32
                " more curves are in the table only</text>\n",
                LEFT, left_out);
    fputs("</svg>\n", file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}
