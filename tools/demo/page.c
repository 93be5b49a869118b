/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/tool/svg.h"
#include "tools/commands.h"
#include "tools/demo/curve.h"
#include "tools/demo/judge.h"
#include "tools/demo/task.h"
#include "tools/output.h"

#define PLOT 420 /* height */
#define MINUS "\u2212"

struct page {
    const struct demo_results *results;
    const struct demo_judgement *judgement;
    const char *picture; /* its name, beside the page */
};

static bool is_timed(const struct demo_results *results)
{
    return results->n > 0 && results->measures[0].step_us > 0;
}

static void put_number(FILE *file, double value, const char *format)
{
    char text[32];

    if (!isfinite(value)) {
        fputs(" - |", file);
        return;
    }
    snprintf(text, sizeof(text), format, value);
    fprintf(file, " %s%s |", text[0] == '-' ? MINUS : "", text[0] == '-' ? text + 1 : text);
}

static void put_spread(FILE *file, const struct demo_spread *spread, uint32_t seeds,
                       const char *format)
{
    char mean[32];

    if (!isfinite(spread->mean)) {
        fputs(" - |", file);
        return;
    }
    snprintf(mean, sizeof(mean), format, spread->mean);
    fprintf(file, " %s%s", mean[0] == '-' ? MINUS : "", mean[0] == '-' ? mean + 1 : mean);
    if (seeds > 1)
        fprintf(file, " ± %.4f", spread->deviation);
    fputs(" |", file);
}

static void put_head(FILE *file, const struct page *page)
{
    bool timed = is_timed(page->results);

    fputs("| codec | rate | loss | to fp32 | to bf16 | wire kB a step |", file);
    if (timed)
        fputs(" step ms | cores |", file);
    for (int t = 0; t < DEMO_TARGETS; t++)
        if (isfinite(page->judgement->targets[t]))
            fprintf(file, " %s to %.3f |", timed ? "s" : "steps", page->judgement->targets[t]);
        else
            fputs(" no target |", file);
    fputs("\n|---|---|---|---|---|---|", file);
    for (int i = 0; i < DEMO_TARGETS + (timed ? 2 : 0); i++)
        fputs("---|", file);
    fputs("\n", file);
}

/** Bytes of the whole run; those of its last tenth, where they differ. */
static void put_wire(FILE *file, const struct demo_measure *m)
{
    double late = m->trainings[0].late_wire_bytes, all = m->trainings[0].wire_bytes;

    if (fabs(late - all) > 0.02 * all)
        fprintf(file, " %.2f, in the end %.2f |", all / 1e3, late / 1e3);
    else
        fprintf(file, " %.2f |", all / 1e3);
}

static void put_row(FILE *file, const struct page *page, uint32_t i)
{
    const struct demo_results *results = page->results;
    const struct demo_measure *m = &results->measures[i];
    const struct demo_verdict *verdict = &page->judgement->verdicts[i];
    uint32_t seeds = results->options->seeds;

    fprintf(file, "| `%s` | %.3g |", m->config->codec, m->rate);
    put_spread(file, &verdict->loss, seeds, "%.4f");
    put_spread(file, &verdict->to_fp32, seeds, "%+.4f");
    put_spread(file, &verdict->to_bf16, seeds, "%+.4f");
    put_wire(file, m);
    if (is_timed(results)) {
        put_number(file, m->step_us / 1e3, "%.2f");
        put_number(file, m->cores, "%.2f");
    }
    for (int t = 0; t < DEMO_TARGETS; t++)
        put_number(file, is_timed(results) ? verdict->time_to_s[t] : verdict->steps_to[t],
                   is_timed(results) ? "%.1f" : "%.0f");
    fputs("\n", file);
}

/** Whether the table tells codecs apart, and why. */
static void put_resolution(FILE *file, const struct page *page)
{
    const struct demo_judgement *j = page->judgement;

    if (isfinite(j->fp32_range) && isfinite(j->control_loses))
        fprintf(file,
                "**%s.** fp32's seeds lie %.4f apart, and the negative control `%s` loses %.4f.\n",
                j->resolved ? "Resolved" : "Not resolved", j->fp32_range, DEMO_CONTROL,
                j->control_loses);
    else
        fputs("**Not resolved.** That needs fp32 and the negative control, each with two seeds or "
              "more.\n",
              file);
}

static bool write_page(FILE *file, void *arg)
{
    const struct page *page = arg;
    const struct demo_results *results = page->results;
    const struct demo_options *o = results->options;

    fprintf(file,
            "Task %s: %s of %.2f M parameters, %u ranks, %u samples each, %u steps with %s, %u "
            "seed%s from %llu on;\n%s.\nLoss is held out, in %s; differences are taken seed by "
            "seed.",
            o->task->name, o->task->what, (double)results->parameters / 1e6, o->ranks, o->batch,
            o->steps, o->optimizer_text, o->seeds, o->seeds > 1 ? "s" : "",
            (unsigned long long)o->seed, results->data, o->task->loss_unit);
    if (is_timed(results))
        fprintf(file, " Times are those of an emulated link of %s each way.", o->link);
    fputs("\n\n", file);
    put_resolution(file, page);
    fputs("\n", file);
    put_head(file, page);
    for (uint32_t i = 0; i < results->n; i++)
        put_row(file, page, i);
    fprintf(file, "\n![Held-out loss of each codec](%s)\n", page->picture);
    return ferror(file) == 0;
}

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

static bool write_picture(FILE *file, void *arg)
{
    const struct demo_results *results = ((const struct page *)arg)->results;
    struct wring_svg_chart *chart = calloc(1, sizeof(*chart));
    bool timed = is_timed(results);
    char title[96];

    if (chart == NULL)
        return false;
    snprintf(title, sizeof(title), "Held-out loss in %s, against %s",
             results->options->task->loss_unit, timed ? "seconds on the link" : "steps");
    chart->title = title;
    chart->x_title = timed ? "seconds (steps × measured step time)" : "steps";
    chart->height = PLOT;
    chart->y.low = chart->y.high = NAN;
    chart->y_cut = cut_of(results);
    for (uint32_t c = 0; c < results->n; c++) {
        const struct demo_measure *m = &results->measures[c];
        if (chart->n == WRING_SVG_CURVES_MAX) {
            chart->left_out++;
            continue;
        }
        struct wring_svg_curve *curve = &chart->curves[chart->n++];
        snprintf(curve->name, sizeof(curve->name), "%s", m->config->name);
        curve->colour = (enum wring_svg_colour)(c % WRING_SVG_COLOURS);
        curve->dash = c >= WRING_SVG_COLOURS ? 5 : 0;
        for (int i = 0; i <= DEMO_EVALS; i++) {
            double steps = (double)i / DEMO_EVALS * results->options->steps;
            wring_svg_curve_add(curve, timed ? demo_judge_time_s(results, m, steps) : steps,
                                m->losses[i]);
        }
    }
    wring_svg_begin_file(file, WRING_SVG_CHART_WIDTH, PLOT + WRING_SVG_CHART_ROOM, chart->title);
    wring_svg_chart_put(file, chart, 0);
    wring_svg_end(file);
    free(chart);
    return ferror(file) == 0;
}

bool demo_page_write(const struct demo_results *results, const char *path)
{
    static struct demo_judgement judgement;
    size_t stem = strlen(path) - strlen(".md");
    char *picture = malloc(stem + sizeof(".svg"));

    if (picture == NULL) {
        wring_fail("wring demo", "out of memory");
        return false;
    }
    memcpy(picture, path, stem);
    memcpy(picture + stem, ".svg", sizeof(".svg"));
    const char *slash = strrchr(picture, '/');
    struct page page = {results, &judgement, slash != NULL ? slash + 1 : picture};
    demo_judge(results, &judgement);
    bool well = wring_output_file("wring demo", path, write_page, &page) == WRING_EXIT_OK &&
                wring_output_file("wring demo", picture, write_picture, &page) == WRING_EXIT_OK;
    free(picture);
    return well;
}
