/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/charts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/tool/svg.h"
#include "tools/demo/task.h"

#define PLOT 300       /* height of a chart */
#define CHART_CURVES 6 /* of a chart, beside those of the baselines and targets */

/** The steep beginning says little: what is shown ends at the curves' points after a fifth of the
 *  steps, or half as high again as the first curve's there. */
static double cut_of(const struct demo_results *results)
{
    double cut = 0;

    for (uint32_t i = 0; i < results->n; i++)
        cut = fmax(cut, fmin(results->measures[i].losses[DEMO_EVALS / 5],
                             1.5 * results->measures[0].losses[DEMO_EVALS / 5]));
    return cut;
}

static void add_curve(struct wring_svg_chart *chart, const struct demo_results *results,
                      const struct demo_measure *m, bool by_time, enum wring_svg_colour colour,
                      double dash)
{
    struct wring_svg_curve *curve = &chart->curves[chart->n++];

    snprintf(curve->name, sizeof(curve->name), "%s", m->config->name);
    curve->colour = colour;
    curve->dash = dash;
    for (int i = 0; i <= DEMO_EVALS; i++) {
        double steps = (double)i / DEMO_EVALS * results->options->steps;
        wring_svg_curve_add(curve, by_time ? demo_judge_time_s(results, m, steps) : steps,
                            m->losses[i]);
    }
}

/** A level line for each target, as long as the first curve. */
static void add_targets(struct wring_svg_chart *chart, const struct demo_judgement *judgement)
{
    const struct wring_svg_curve *first = &chart->curves[0];

    for (int t = 0; t < DEMO_TARGETS && first->n > 0; t++) {
        double target = judgement->targets[t];
        if (!isfinite(target))
            continue;
        struct wring_svg_curve *curve = &chart->curves[chart->n++];
        snprintf(curve->name, sizeof(curve->name), "target %.3f", target);
        curve->colour = WRING_SVG_GREY;
        curve->dash = 2;
        wring_svg_curve_add(curve, first->x[0], target);
        wring_svg_curve_add(curve, first->x[first->n - 1], target);
    }
}

static bool is_baseline(const struct demo_measure *m)
{
    return strcmp(m->config->name, "fp32") == 0 || strcmp(m->config->name, "bf16") == 0;
}

/** Fill a chart with the baselines and the next few others. @param next  in and out, of measures */
static void fill_chart(struct wring_svg_chart *chart, const struct demo_results *results,
                       const struct demo_judgement *judgement, bool by_time, uint32_t *next)
{
    static const enum wring_svg_colour colours[CHART_CURVES] = {WRING_SVG_BLUE,  WRING_SVG_RED,
                                                                WRING_SVG_GREEN, WRING_SVG_PURPLE,
                                                                WRING_SVG_AMBER, WRING_SVG_PINK};
    uint32_t others = 0;

    for (uint32_t i = 0; i < results->n; i++)
        if (is_baseline(&results->measures[i]))
            add_curve(chart, results, &results->measures[i], by_time, WRING_SVG_GREY, chart->n * 5);
    for (; *next < results->n && others < CHART_CURVES; ++*next)
        if (!is_baseline(&results->measures[*next]))
            add_curve(chart, results, &results->measures[*next], by_time, colours[others++], 0);
    add_targets(chart, judgement);
}

static uint32_t count_charts(const struct demo_results *results)
{
    uint32_t others = 0;

    for (uint32_t i = 0; i < results->n; i++)
        others += !is_baseline(&results->measures[i]);
    return others > 0 ? (others + CHART_CURVES - 1) / CHART_CURVES : 1;
}

double demo_charts_height(const struct demo_results *results)
{
    return count_charts(results) * (PLOT + WRING_SVG_CHART_ROOM);
}

bool demo_charts_put(FILE *file, const struct demo_results *results,
                     const struct demo_judgement *judgement, bool by_time, const char *title)
{
    struct wring_svg_chart *chart = malloc(sizeof(*chart));
    uint32_t charts = count_charts(results), next = 0;

    if (chart == NULL)
        return false;
    for (uint32_t c = 0; c < charts; c++) {
        memset(chart, 0, sizeof(*chart));
        chart->title = title;
        chart->x_title = by_time ? "seconds (steps × step time)" : "steps";
        chart->height = PLOT;
        chart->y.low = chart->y.high = NAN;
        chart->y_cut = cut_of(results);
        fill_chart(chart, results, judgement, by_time, &next);
        wring_svg_chart_put(file, chart, c * (PLOT + WRING_SVG_CHART_ROOM));
    }
    free(chart);
    return true;
}

void demo_charts_title(char *title, size_t bytes, const struct demo_results *results, bool by_time)
{
    snprintf(title, bytes, "Held-out loss in %s, against %s", results->options->task->loss_unit,
             by_time ? "seconds on the link" : "steps");
}
