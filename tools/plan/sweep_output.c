/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/xml.h"
#include "planner/core/files/json.h"
#include "planner/core/files/profile.h"
#include "planner/core/files/tensor_trace.h"
#include "tools/output.h"
#include "tools/plan/sweep.h"

/** With a measured profile: say which times were not measured as they are. */
static void show_costs(const struct wring_sweep *sweep, const struct wring_point *points, size_t n,
                       FILE *file)
{
    size_t rescaled = 0, parts = 0;

    for (size_t i = 0; i < n; i++) {
        rescaled += strcmp(points[i].costs, "rescaled") == 0;
        parts += strcmp(points[i].costs, "parts") == 0;
    }
    if (sweep->planning.profile->machine[0] == '\0')
        return;
    if (rescaled > 0)
        fprintf(file, "\nrescaled: exchanges as they were measured, with links as fast as these\n");
    if (parts > 0)
        fprintf(
            file,
            "\nparts: %s has no exchanges of such a cluster; times are put together from links, "
            "codecs and\nprocessors, and no run was compared with them\n",
            sweep->planning.profile->name);
}

enum wring_status wring_sweep_show(const struct wring_sweep *sweep,
                                   const struct wring_point *points, size_t n, FILE *file)
{
    static const struct wring_table_column columns[] = {
        {"nodes", WRING_ALIGN_RIGHT},       {"ranks", WRING_ALIGN_RIGHT},
        {"Gbit/s", WRING_ALIGN_RIGHT},      {"local steps", WRING_ALIGN_RIGHT},
        {"link jitter", WRING_ALIGN_RIGHT}, {"iteration", WRING_ALIGN_RIGHT},
        {"9 of 10", WRING_ALIGN_RIGHT},     {"scaling", WRING_ALIGN_RIGHT},
        {"x float32", WRING_ALIGN_RIGHT},   {"x fp16", WRING_ALIGN_RIGHT},
        {"codecs", WRING_ALIGN_LEFT},       {"costs", WRING_ALIGN_LEFT},
    };
    const struct wring_tensor_trace *trace = sweep->planning.trace;
    struct wring_table *table = wring_table_create(columns, sizeof(columns) / sizeof(columns[0]));

    fprintf(file, "%s on %s; forward takes %.3f ms%s, backward %.3f ms\n\n", trace->model,
            sweep->planning.profile->name, points[0].forward_us / 1e3,
            isnan(trace->forward_us) ? " (assumed: half of backward)" : "",
            points[0].last_ready_us / 1e3);
    for (size_t i = 0; i < n; i++) {
        wring_table_cell(table, "%" PRIu32, points[i].nodes);
        wring_table_cell(table, "%" PRIu32, points[i].ranks);
        if (isnan(points[i].link_gbit))
            wring_table_cell(table, "-");
        else
            wring_table_cell(table, "%g", points[i].link_gbit);
        wring_table_cell(table, "%" PRIu32, points[i].local_steps);
        wring_table_cell(table, "%g", points[i].link_jitter);
        wring_table_cell(table, "%.3f ms", points[i].iteration_us / 1e3);
        wring_table_cell(table, "%.3f ms", points[i].p90_us / 1e3);
        wring_table_cell(table, "%.3f", points[i].scaling_factor);
        wring_table_cell(table, "%.2f", points[i].speedup_fp32);
        wring_table_cell(table, "%.2f", points[i].speedup_fp16);
        wring_table_cell(table, "%s", points[i].codec);
        wring_table_cell(table, "%s", points[i].costs);
    }
    wring_table_finish(table, file);
    show_costs(sweep, points, n, file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}

static json_t *point_json(const struct wring_point *point)
{
    return json_pack("{s:i, s:i, s:o, s:i, s:f, s:o, s:s, s:f, s:f, s:f, s:o, s:f, s:f, s:o}",
                     "nodes", (int)point->nodes, "ranks", (int)point->ranks, "link_gbit",
                     wring_json_number(point->link_gbit), "local_steps", (int)point->local_steps,
                     "link_jitter", point->link_jitter, "codec", wring_json_text(point->codec),
                     "costs", point->costs, "iteration_us", point->iteration_us, "p90_us",
                     point->p90_us, "fp32_us", point->fp32_us, "fp16_us",
                     wring_json_number(point->fp16_us), "scaling_factor", point->scaling_factor,
                     "speedup_fp32", point->speedup_fp32, "speedup_fp16",
                     wring_json_number(point->speedup_fp16));
}

enum wring_status wring_sweep_write_json(const struct wring_sweep *sweep,
                                         const struct wring_point *points, size_t n, FILE *file)
{
    const struct wring_tensor_trace *trace = sweep->planning.trace;
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, point_json(&points[i]));
    return wring_json_print(
        file, json_pack("{s:o, s:o, s:f, s:b, s:f, s:I, s:i, s:f, s:f, s:f, s:o}", "model",
                        wring_json_text(trace->model), "profile",
                        wring_json_text(sweep->planning.profile->name), "forward_us",
                        points[0].forward_us, "forward_assumed", isnan(trace->forward_us),
                        "last_ready_us", points[0].last_ready_us, "seed", (json_int_t)sweep->seed,
                        "iterations", (int)sweep->iterations, "jitter", sweep->jitter, "straggler",
                        sweep->straggler, "link_straggler", sweep->link_straggler, "points", list));
}

/** Write a number, or nothing if it is not known. */
static void write_number(double number, const char *after, FILE *file)
{
    if (isfinite(number))
        fprintf(file, "%.10g", number);
    fputs(after, file);
}

static void write_row(const struct wring_point *point, FILE *file)
{
    fprintf(file, "%" PRIu32 ",%" PRIu32 ",", point->nodes, point->ranks);
    write_number(point->link_gbit, ",", file);
    fprintf(file, "%" PRIu32 ",%g,%s,%s,%.3f,%.3f,%.3f,", point->local_steps, point->link_jitter,
            point->codec, point->costs, point->iteration_us, point->p90_us, point->fp32_us);
    write_number(point->fp16_us, ",", file);
    fprintf(file, "%.6f,%.6f,", point->scaling_factor, point->speedup_fp32);
    write_number(point->speedup_fp16, "\r\n", file);
}

enum wring_status wring_sweep_write_csv(const struct wring_sweep *sweep,
                                        const struct wring_point *points, size_t n, FILE *file)
{
    (void)sweep;
    fputs("nodes,ranks,link_gbit,local_steps,link_jitter,codec,costs,iteration_us,p90_us,fp32_us,"
          "fp16_us,"
          "scaling_factor,speedup_fp32,speedup_fp16\r\n",
          file);
    for (size_t i = 0; i < n; i++)
        write_row(&points[i], file);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}

/* ---- sweep svg ---- */

/* Three charts, one below the other, over nodes or, if only one number of nodes is swept, over
 * links. Each combination of the other swept values has a curve. The axis to the right is
 * logarithmic. */

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
