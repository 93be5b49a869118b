/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/svg.h"

#include <math.h>

#define WIDTH 800
#define HEIGHT 380
#define LEFT 64
#define RIGHT 220 /* room for the names at the curves' ends */
#define TOP 48
#define BOTTOM 48
#define ROW 24
#define LABEL 200

struct scale {
    double low, high; /* values */
    double from, to;  /* pixels */
};

static double place(const struct scale *scale, double value)
{
    double part = (value - scale->low) / (scale->high - scale->low);
    return scale->from + part * (scale->to - scale->from);
}

/** A step of 1, 2 or 5 times a power of ten that gives about `parts` parts. */
static double nice_step(double range, int parts)
{
    double raw = range / parts, power = pow(10, floor(log10(raw))), digit = raw / power;
    return power * (digit < 1.5 ? 1 : digit < 3.5 ? 2 : digit < 7.5 ? 5 : 10);
}

/** The lowest value of all curves. */
static double lowest(const struct svg_chart *chart)
{
    double low = INFINITY;
    for (uint32_t c = 0; c < chart->n; c++)
        for (uint32_t i = 0; i < chart->curves[c].n; i++)
            low = fmin(low, chart->curves[c].y[i]);
    return isfinite(low) ? low : 0;
}

static void bounds(const struct svg_chart *chart, struct scale *x, struct scale *y)
{
    double low = lowest(chart);
    double top = chart->y_top > low ? chart->y_top : INFINITY; /* never cut everything off */
    *x = (struct scale){0, 0, LEFT, WIDTH - RIGHT};
    *y = (struct scale){low, low, HEIGHT - BOTTOM, TOP};
    for (uint32_t c = 0; c < chart->n; c++)
        for (uint32_t i = 0; i < chart->curves[c].n; i++) {
            double value = chart->curves[c].y[i];
            x->high = fmax(x->high, chart->curves[c].x[i]);
            if (value <= top && isfinite(value))
                y->high = fmax(y->high, value);
        }
    double step = nice_step(y->high - y->low + 1e-9, 6);
    y->low = floor(y->low / step) * step;
    y->high = ceil(y->high / step) * step;
    if (x->high <= 0)
        x->high = 1;
}

static void write_axes(FILE *file, const struct svg_chart *chart, const struct scale *x,
                       const struct scale *y)
{
    double step = nice_step(y->high - y->low, 6);
    for (double v = y->low; v <= y->high + step / 2; v += step)
        fprintf(file,
                "<line class='grid' x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>"
                "<text class='tick' text-anchor='end' x='%d' y='%.1f'>%.4g</text>\n",
                LEFT, WIDTH - RIGHT, place(y, v), place(y, v), LEFT - 8, place(y, v) + 4, v);
    step = nice_step(x->high, 6);
    for (double v = 0; v <= x->high + step / 100; v += step)
        fprintf(file,
                "<line class='axis' x1='%.1f' x2='%.1f' y1='%d' y2='%d'/>"
                "<text class='tick' text-anchor='middle' x='%.1f' y='%d'>%.4g</text>\n",
                place(x, v), place(x, v), HEIGHT - BOTTOM, HEIGHT - BOTTOM + 5, place(x, v),
                HEIGHT - BOTTOM + 20, v);
    fprintf(file, "<line class='axis' x1='%d' x2='%d' y1='%d' y2='%d'/>\n", LEFT, WIDTH - RIGHT,
            HEIGHT - BOTTOM, HEIGHT - BOTTOM);
    fprintf(file,
            "<text class='name' x='%d' y='%d'>%s</text>"
            "<text class='tick' text-anchor='middle' x='%d' y='%d'>%s</text>"
            "<text class='tick' x='%d' y='%d'>%s</text>\n",
            LEFT, 16, chart->title, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, chart->x_title, LEFT,
            TOP - 12, chart->y_title);
}

static const char *dashes(const struct svg_curve *curve)
{
    return curve->dashed ? " stroke-dasharray='5 4'" : "";
}

/** Names at the ends of the curves, pushed apart where they would overlap. */
static void write_names(FILE *file, const struct svg_chart *chart, const struct scale *y)
{
    double at[SVG_CURVES_MAX];
    uint32_t order[SVG_CURVES_MAX];
    for (uint32_t i = 0; i < chart->n; i++) {
        uint32_t k = i;
        at[i] = place(y, fmin(chart->curves[i].y[chart->curves[i].n - 1], y->high));
        for (; k > 0 && at[order[k - 1]] > at[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (uint32_t k = 1; k < chart->n; k++)
        at[order[k]] = fmax(at[order[k]], at[order[k - 1]] + 17);
    double over = chart->n > 0 ? at[order[chart->n - 1]] - (HEIGHT - BOTTOM) : 0;
    for (uint32_t k = 0; k < chart->n; k++) {
        uint32_t i = order[k];
        double shifted = over > 0 ? at[i] - over : at[i];
        fprintf(file,
                "<line class='curve c%u'%s x1='%d' x2='%d' y1='%.1f' y2='%.1f'/>"
                "<text class='legend' x='%d' y='%.1f'>%s</text>\n",
                i, dashes(&chart->curves[i]), WIDTH - RIGHT + 10, WIDTH - RIGHT + 28, shifted,
                shifted, WIDTH - RIGHT + 34, shifted + 4, chart->curves[i].name);
    }
}

void svg_chart_write(FILE *file, const struct svg_chart *chart)
{
    struct scale x, y;
    bounds(chart, &x, &y);
    fprintf(file, "<svg viewBox='0 0 %d %d' role='img' aria-label='%s'>\n", WIDTH, HEIGHT,
            chart->title);
    write_axes(file, chart, &x, &y);
    for (uint32_t c = 0; c < chart->n; c++) {
        const struct svg_curve *curve = &chart->curves[c];
        fprintf(file, "<polyline class='curve c%u'%s points='", c, dashes(curve));
        for (uint32_t i = 0; i < curve->n; i++)
            if (curve->y[i] <= y.high)
                fprintf(file, "%.1f,%.1f ", place(&x, curve->x[i]), place(&y, curve->y[i]));
        fprintf(file, "'/>\n");
    }
    write_names(file, chart, &y);
    fprintf(file, "</svg>\n");
}

static uint32_t count_rows(const struct svg_bar *bars, uint32_t n)
{
    uint32_t rows = 0;
    for (uint32_t i = 0; i < n; i++)
        rows += bars[i].row != NULL;
    return rows;
}

void svg_timeline_write(FILE *file, const char *title, const struct svg_bar *bars, uint32_t n,
                        double to_us)
{
    uint32_t height = TOP + count_rows(bars, n) * ROW + BOTTOM, row = 0;
    struct scale x = {0, to_us / 1e3, LABEL, WIDTH - 20};
    double step = nice_step(x.high, 8);

    fprintf(file,
            "<svg viewBox='0 0 %d %u' role='img' aria-label='%s'>\n"
            "<text class='name' x='%d' y='16'>%s</text>\n",
            WIDTH, height, title, LABEL, title);
    for (double v = 0; v <= x.high + step / 100; v += step)
        fprintf(file,
                "<line class='grid' x1='%.1f' x2='%.1f' y1='%d' y2='%u'/>"
                "<text class='tick' text-anchor='middle' x='%.1f' y='%u'>%.4g</text>\n",
                place(&x, v), place(&x, v), TOP, height - BOTTOM, place(&x, v),
                height - BOTTOM + 18, v);
    fprintf(file, "<text class='tick' text-anchor='middle' x='%d' y='%u'>ms</text>\n",
            (LABEL + WIDTH) / 2, height - 8);
    for (uint32_t i = 0; i < n; i++) {
        row += bars[i].row != NULL;
        double y = TOP + (row - 1) * ROW, from = place(&x, bars[i].from_us / 1e3);
        double width = place(&x, bars[i].to_us / 1e3) - from;
        if (bars[i].row != NULL)
            fprintf(file, "<text class='tick' text-anchor='end' x='%d' y='%.1f'>%s</text>\n",
                    LABEL - 8, y + 16, bars[i].row);
        fprintf(file,
                "<rect class='%s' x='%.1f' y='%.1f' width='%.1f' height='%d' rx='2'>"
                "<title>%s: %.2f to %.2f ms</title></rect>\n",
                bars[i].class, from, y + 3, width > 0.5 ? width : 0.5, ROW - 6, bars[i].text,
                bars[i].from_us / 1e3, bars[i].to_us / 1e3);
    }
    fprintf(file, "</svg>\n");
}
