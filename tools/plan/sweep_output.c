/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "planner/core/files/json.h"
#include "planner/core/files/profile.h"
#include "planner/core/files/tensor_trace.h"
#include "planner/tool/svg.h"
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
 * links. Each combination of the other swept values has a curve. */

#define TOP 20
#define HEIGHT 210
#define CURVES_MAX 10

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

#define MEASURES (sizeof(measures) / sizeof(measures[0]))

/** The points, by curve. */
struct curves {
    const struct wring_point *points;
    size_t n;
    bool by_link;
    uint32_t drawn, left_out;
    size_t first[CURVES_MAX]; /* a point of each that is drawn */
};

static bool same_curve(const struct curves *curves, const struct wring_point *a,
                       const struct wring_point *b)
{
    return strcmp(a->codec, b->codec) == 0 && a->local_steps == b->local_steps &&
           a->link_jitter == b->link_jitter &&
           (curves->by_link || isnan(a->link_gbit) || a->link_gbit == b->link_gbit);
}

/** Which curves there are, as far as they can be told apart. */
static void find_curves(struct curves *curves)
{
    for (size_t i = 0; i < curves->n; i++) {
        bool begins = true;
        for (size_t j = 0; j < i; j++)
            begins = begins && !same_curve(curves, &curves->points[i], &curves->points[j]);
        if (begins && curves->drawn < CURVES_MAX)
            curves->first[curves->drawn++] = i;
        else
            curves->left_out += begins;
    }
}

static void name_curve(const struct curves *curves, const struct wring_point *first, char *name,
                       size_t bytes)
{
    char link[32] = "", steps[32] = "", jitter[32] = "";

    if (!curves->by_link && !isnan(first->link_gbit))
        snprintf(link, sizeof(link), ", %g Gbit/s", first->link_gbit);
    if (first->local_steps > 1)
        snprintf(steps, sizeof(steps), ", %" PRIu32 " local steps", first->local_steps);
    if (first->link_jitter > 0)
        snprintf(jitter, sizeof(jitter), ", link jitter %g", first->link_jitter);
    snprintf(name, bytes, "%s%s%s%s", first->codec, link, steps, jitter);
}

static void fill_chart(struct wring_svg_chart *chart, const struct curves *curves,
                       const struct measure *measure)
{
    *chart = (struct wring_svg_chart){
        .title = measure->title,
        .x_title = curves->by_link ? "Gbit/s between nodes" : "nodes",
        .height = HEIGHT,
        .x = {.low = NAN, .high = NAN, .base = 2},
        .y = {.low = 0, .high = 1},
        .n = curves->drawn,
        .left_out = curves->left_out,
    };
    for (uint32_t c = 0; c < curves->drawn; c++) {
        struct wring_svg_curve *curve = &chart->curves[c];
        const struct wring_point *first = &curves->points[curves->first[c]];
        curve->colour = (enum wring_svg_colour)(c % WRING_SVG_COLOURS);
        name_curve(curves, first, curve->name, sizeof(curve->name));
        for (size_t i = 0; i < curves->n; i++) {
            const struct wring_point *point = &curves->points[i];
            if (same_curve(curves, point, first))
                wring_svg_curve_add(curve, curves->by_link ? point->link_gbit : point->nodes,
                                    measure->of(point));
        }
    }
}

enum wring_status wring_sweep_write_svg(const struct wring_sweep *sweep,
                                        const struct wring_point *points, size_t n, FILE *file)
{
    struct curves curves = {.points = points, .n = n, .by_link = sweep->n_nodes == 1};
    struct wring_svg_chart *chart = malloc(sizeof(*chart));

    if (chart == NULL)
        return WRING_ERR_NO_MEMORY;
    find_curves(&curves);
    wring_svg_begin_file(file, WRING_SVG_CHART_WIDTH,
                         TOP + MEASURES * (HEIGHT + WRING_SVG_CHART_ROOM),
                         sweep->planning.trace->model);
    for (size_t i = 0; i < MEASURES; i++) {
        fill_chart(chart, &curves, &measures[i]);
        wring_svg_chart_put(file, chart, TOP + (double)i * (HEIGHT + WRING_SVG_CHART_ROOM));
    }
    wring_svg_end(file);
    free(chart);
    return ferror(file) ? WRING_ERR_SYSTEM : WRING_OK;
}
