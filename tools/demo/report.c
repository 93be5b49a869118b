/* SPDX-License-Identifier: Apache-2.0 */
/* One HTML file that needs nothing else: numbers, what they mean, and pictures. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "planner/tool/svg.h"
#include "tools/commands.h"
#include "tools/demo/charts.h"
#include "tools/demo/demo.h"
#include "tools/demo/judge.h"
#include "tools/demo/task.h"
#include "tools/output.h"

#define TOP 40 /* of a timeline */
#define ROW 24
#define LABEL 200

static double step_of(const struct demo_results *results, const char *name)
{
    const struct demo_measure *measure = demo_measure_find(results, name);
    return measure != NULL ? measure->step_us : NAN;
}

static void add_table_cell(struct wring_table *table, double value, const char *format)
{
    if (isfinite(value)) {
        char text[32];
        snprintf(text, sizeof(text), format, value);
        wring_table_cell(table, "%s", text);
    } else {
        wring_table_cell(table, "-");
    }
}

static void add_spread_cell(struct wring_table *table, const struct demo_spread *spread,
                            uint32_t seeds, const char *format)
{
    char mean[32];

    snprintf(mean, sizeof(mean), format, spread->mean);
    if (!isfinite(spread->mean))
        wring_table_cell(table, "-");
    else if (seeds == 1)
        wring_table_cell(table, "%s", mean);
    else
        wring_table_cell(table, "%s ± %.4f", mean, spread->deviation);
}

static void print_resolution(const struct demo_judgement *judgement)
{
    printf("Codecs can%s be told apart: see \"resolved\" in the manual page.\n",
           judgement->resolved ? "" : "not");
}

static void print_row(struct wring_table *table, const struct demo_results *results,
                      const struct demo_measure *m, const struct demo_verdict *verdict)
{
    wring_table_cell(table, "%s", m->config->name);
    add_table_cell(table, m->compute_us / 1e3, "%.2f");
    add_table_cell(table, m->step_us / 1e3, "%.2f");
    add_table_cell(table, (m->step_us - m->compute_us) / 1e3, "%.2f");
    add_table_cell(table, m->wire_bytes / 1e3, "%.1f");
    add_table_cell(table, step_of(results, "fp32") / m->step_us, "%.2f");
    add_table_cell(table, step_of(results, "bf16") / m->step_us, "%.2f");
    add_table_cell(table, m->cores, "%.2f");
    add_spread_cell(table, &verdict->loss, results->options->seeds, "%.3f");
    add_spread_cell(table, &verdict->to_fp32, results->options->seeds, "%+.3f");
    add_table_cell(table, m->time_to_target_s, "%.1f");
    wring_table_cell(table, "%s", m->same_bits ? "yes" : "NO");
}

/** What a dash in the column of times stands for, and what it is worth. */
static void print_unreached(const struct demo_results *results)
{
    for (uint32_t i = 0; i < results->n; i++) {
        const struct demo_measure *m = &results->measures[i];
        if (isfinite(results->target_loss) && !isfinite(m->time_to_target_s))
            printf("%s ended %.3f above the target, after %.1f s. bf16 was at %.3f by then.\n",
                   m->config->name, m->losses[DEMO_EVALS] - results->target_loss,
                   results->options->steps * m->step_us / 1e6, m->bf16_loss_then);
    }
}

/** The same work cannot take longer alone than with an allreduce around it. */
static void print_disturbed(const struct demo_results *results)
{
    for (uint32_t i = 0; i < results->n; i++)
        if (results->measures[i].step_us < results->measures[i].compute_us) {
            printf("Compute alone took longer than whole steps: other work on this machine has "
                   "disturbed the\ntimes. Run again when it is quiet.\n");
            return;
        }
}

static void print_timed(const struct demo_results *results)
{
    static const struct wring_table_column columns[] = {
        {"allreduce", WRING_ALIGN_LEFT},    {"compute ms", WRING_ALIGN_RIGHT},
        {"step ms", WRING_ALIGN_RIGHT},     {"exposed ms", WRING_ALIGN_RIGHT},
        {"wire kB", WRING_ALIGN_RIGHT},     {"x fp32", WRING_ALIGN_RIGHT},
        {"x bf16", WRING_ALIGN_RIGHT},      {"cores", WRING_ALIGN_RIGHT},
        {"loss", WRING_ALIGN_RIGHT},        {"to fp32", WRING_ALIGN_RIGHT},
        {"to target s", WRING_ALIGN_RIGHT}, {"same bits", WRING_ALIGN_LEFT},
    };
    const struct demo_options *o = results->options;
    static struct demo_judgement judgement;
    struct wring_table *table = wring_table_create(columns, sizeof(columns) / sizeof(columns[0]));

    demo_judge(results, &judgement);
    for (uint32_t i = 0; i < results->n; i++)
        print_row(table, results, &results->measures[i], &judgement.verdicts[i]);
    wring_table_finish(table, stdout);
    printf("\nstep: on the emulated link. exposed: step less compute. wire: sent by a rank in a "
           "step.\ncores: burnt by progress and codecs of all ranks. loss: held out, %s, "
           "after\nequal steps. target: %s. onebit without +ef is the negative "
           "control.\nThe model is small and the link slow on purpose: the allreduce is the "
           "bottleneck here.\n",
           o->task->loss_unit,
           isfinite(o->target_loss) ? "--target-loss" : "1.001 times bf16's last loss");
    if (o->seeds > 1)
        print_resolution(&judgement);
    print_unreached(results);
    print_disturbed(results);
}

static void print_losses(const struct demo_results *results)
{
    static const struct wring_table_column columns[] = {
        {"allreduce", WRING_ALIGN_LEFT},
        {"rate", WRING_ALIGN_RIGHT},
        {"loss", WRING_ALIGN_RIGHT},
        {"to fp32", WRING_ALIGN_RIGHT},
        {"to bf16", WRING_ALIGN_RIGHT},
        {"wire kB", WRING_ALIGN_RIGHT},
        {"steps to target", WRING_ALIGN_RIGHT},
        {"same bits", WRING_ALIGN_LEFT},
    };
    const struct demo_options *o = results->options;
    static struct demo_judgement judgement;
    struct wring_table *table = wring_table_create(columns, sizeof(columns) / sizeof(columns[0]));

    demo_judge(results, &judgement);
    for (uint32_t i = 0; i < results->n; i++) {
        const struct demo_measure *m = &results->measures[i];
        const struct demo_verdict *verdict = &judgement.verdicts[i];
        wring_table_cell(table, "%s", m->config->name);
        wring_table_cell(table, "%.3g", m->rate);
        add_spread_cell(table, &verdict->loss, o->seeds, "%.4f");
        add_spread_cell(table, &verdict->to_fp32, o->seeds, "%+.4f");
        add_spread_cell(table, &verdict->to_bf16, o->seeds, "%+.4f");
        add_table_cell(table, m->wire_bytes / 1e3, "%.1f");
        add_table_cell(table, verdict->steps_to[DEMO_TARGETS - 1], "%.0f");
        wring_table_cell(table, "%s", m->same_bits ? "yes" : "NO");
    }
    wring_table_finish(table, stdout);
    printf("\nloss: held out, %s. wire: sent by a rank in a step. target: %s.\n",
           o->task->loss_unit,
           isfinite(o->target_loss) ? "--target-loss" : "1.001 times bf16's last loss");
    print_resolution(&judgement);
}

/** Where a warm-up sends more than later steps, both are said. */
static void print_warmed(const struct demo_results *results)
{
    for (uint32_t i = 0; i < results->n; i++) {
        const struct demo_measure *m = &results->measures[i];
        uint32_t steps = results->options->steps;
        if (!demo_judge_warms_up(results, m))
            continue;
        printf("\n%s, sent by a rank in a step:\n", m->config->name);
        for (int late = 0; late < 2; late++) {
            struct demo_bytes bytes = demo_judge_bytes(results, m, late);
            printf(
                "  %-12s %6u steps: %.2f kB, of these %.2f kB compressed: %.1f x fewer than fp16 "
                "of the same values,\n  %28s%.4f bits a value each way\n",
                late ? "after it" : "with warm-up", late ? steps - m->warmup : steps,
                bytes.wire / 1e3, bytes.coded / 1e3, bytes.fewer, "", bytes.a_value);
        }
    }
}

void demo_print_table(const struct demo_results *results)
{
    const struct demo_options *o = results->options;

    printf("%u ranks on this host, %s%s%u samples a rank, %.2f M parameters\n", o->ranks,
           o->losses_only ? "" : o->link, o->losses_only ? "" : " each way emulated, ", o->batch,
           (double)results->parameters / 1e6);
    printf("trained %u steps with %s on %s\n\n", o->steps, o->optimizer_text, results->data);
    if (o->losses_only)
        print_losses(results);
    else
        print_timed(results);
    print_warmed(results);
}

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *reals_json(const double *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(array, real_or_null(values[i]));
    return array;
}

static json_t *spread_json(const struct demo_spread *spread)
{
    return json_pack("{s:o, s:o}", "mean", real_or_null(spread->mean), "deviation",
                     real_or_null(spread->deviation));
}

static json_t *trainings_json(const struct demo_options *o, const struct demo_measure *m)
{
    json_t *array = json_array();
    for (uint32_t s = 0; s < o->seeds; s++) {
        const struct demo_training *training = &m->trainings[s];
        json_array_append_new(
            array,
            json_pack("{s:I, s:f, s:f, s:o, s:o, s:o}", "seed", (json_int_t)(o->seed + s),
                      "wire_bytes", training->wire_bytes, "late_wire_bytes",
                      training->late_wire_bytes, "coded_bytes", real_or_null(training->coded_bytes),
                      "late_coded_bytes", real_or_null(training->late_coded_bytes), "losses",
                      reals_json(training->losses, DEMO_EVALS + 1)));
    }
    return array;
}

static json_t *bytes_json(const struct demo_results *results, const struct demo_measure *m,
                          bool late)
{
    struct demo_bytes bytes = demo_judge_bytes(results, m, late);

    if (late && !demo_judge_warms_up(results, m))
        return json_null();
    return json_pack("{s:I, s:o, s:o, s:o, s:o}", "steps",
                     (json_int_t)(results->options->steps - (late ? m->warmup : 0)), "wire_bytes",
                     real_or_null(bytes.wire), "coded_bytes", real_or_null(bytes.coded),
                     "fewer_than_fp16", real_or_null(bytes.fewer), "bits_a_value",
                     real_or_null(bytes.a_value));
}

static json_t *run_object(const struct demo_results *results, const struct demo_measure *m,
                          const struct demo_verdict *verdict)
{
    bool timed = m->step_us > 0;
    double fp32 = step_of(results, "fp32") / m->step_us;
    double bf16 = step_of(results, "bf16") / m->step_us;
    json_t *run =
        json_pack("{s:s, s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}",
                  "config", m->config->name, "codec", m->config->codec, "rate", m->rate,
                  "compute_us", real_or_null(timed ? m->compute_us : NAN), "step_us",
                  real_or_null(timed ? m->step_us : NAN), "exposed_us",
                  real_or_null(timed ? m->step_us - m->compute_us : NAN), "wire_bytes",
                  real_or_null(m->wire_bytes), "loss", real_or_null(m->losses[DEMO_EVALS]),
                  "time_to_target_s", real_or_null(timed ? m->time_to_target_s : NAN),
                  "bf16_loss_then", real_or_null(timed ? m->bf16_loss_then : NAN), "speedup_fp32",
                  real_or_null(timed ? fp32 : NAN), "speedup_bf16",
                  real_or_null(timed ? bf16 : NAN), "cores", real_or_null(timed ? m->cores : NAN),
                  "same_bits", m->same_bits, "losses", reals_json(m->losses, DEMO_EVALS + 1));
    json_object_update_new(run, json_pack("{s:o, s:o}", "whole_run", bytes_json(results, m, false),
                                          "after_warmup", bytes_json(results, m, true)));
    json_object_update_new(run, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "final_loss",
                                          spread_json(&verdict->loss), "to_fp32",
                                          spread_json(&verdict->to_fp32), "to_bf16",
                                          spread_json(&verdict->to_bf16), "steps_to",
                                          reals_json(verdict->steps_to, DEMO_TARGETS), "time_to_s",
                                          reals_json(verdict->time_to_s, DEMO_TARGETS), "trainings",
                                          trainings_json(results->options, m)));
    return run;
}

int demo_print_json(const struct demo_results *results)
{
    const struct demo_options *o = results->options;
    static struct demo_judgement judgement;
    json_t *runs = json_array();

    demo_judge(results, &judgement);
    for (uint32_t i = 0; i < results->n; i++)
        json_array_append_new(runs,
                              run_object(results, &results->measures[i], &judgement.verdicts[i]));
    json_t *object = json_pack(
        "{s:o, s:s?, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "runs",
        runs, "report", o->losses_only || o->report[0] == '\0' ? NULL : o->report, "task",
        o->task->name, "optimizer", o->optimizer_text, "link", o->link, "ranks",
        (json_int_t)o->ranks, "steps", (json_int_t)o->steps, "seed", (json_int_t)o->seed, "seeds",
        (json_int_t)o->seeds, "parameters", (json_int_t)results->parameters, "target_loss",
        real_or_null(results->target_loss), "targets", reals_json(judgement.targets, DEMO_TARGETS),
        "fp32_range", real_or_null(judgement.fp32_range), "control_loses",
        real_or_null(judgement.control_loses), "resolved", judgement.resolved);
    return wring_json_print(stdout, object) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
}

/* ---- report ---- */

/** Beside that of pictures. */
static const char style[] =
    ":root{--card:#f6f8fa}@media(prefers-color-scheme:dark){:root{--card:#18212b}}"
    "body{background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,sans-serif;max-width:62rem;"
    "margin:2rem auto;padding:0 1rem}h1{font-size:1.7rem;margin:0}h2{font-size:1.2rem;"
    "margin-top:2.2rem}p{max-width:46rem}.dim{color:var(--dim)}table{border-collapse:collapse;"
    "width:100%;font-variant-numeric:tabular-nums;font-size:.93rem}th,td{padding:.35rem .55rem;"
    "text-align:right;border-bottom:1px solid var(--line)}th{color:var(--dim);font-weight:600}"
    "th:first-child,td:first-child{text-align:left}.cards{display:flex;gap:1rem;flex-wrap:wrap}"
    ".card{background:var(--card);border-radius:.6rem;padding:.8rem 1.1rem;flex:1 1 12rem}"
    ".card b{display:block;font-size:1.5rem}svg{width:100%;height:auto;background:var(--card);"
    "border-radius:.6rem;margin:.6rem 0}.scroll{overflow-x:auto}";

/** The fastest of those that keep a residual. */
static const struct demo_measure *find_fastest_feedback(const struct demo_results *results)
{
    const struct demo_measure *found = NULL;
    for (uint32_t i = 0; i < results->n; i++) {
        const struct demo_measure *m = &results->measures[i];
        if (strstr(m->config->codec, "+ef") != NULL &&
            (found == NULL || m->step_us < found->step_us))
            found = m;
    }
    return found;
}

static void put_html_cell(FILE *file, double value, const char *format)
{
    fputs("<td>", file);
    if (isfinite(value))
        fprintf(file, format, value);
    else
        fputs("–", file);
    fputs("</td>", file);
}

static void put_html_spread(FILE *file, const struct demo_spread *spread, uint32_t seeds,
                            const char *format)
{
    if (seeds == 1 || !isfinite(spread->mean)) {
        put_html_cell(file, spread->mean, format);
        return;
    }
    fputs("<td>", file);
    fprintf(file, format, spread->mean);
    fprintf(file, " ± %.3f</td>", spread->deviation);
}

static void write_table(FILE *file, const struct demo_results *results,
                        const struct demo_judgement *judgement)
{
    uint32_t seeds = results->options->seeds;
    const struct demo_measure *fp32 = demo_measure_find(results, "fp32"),
                              *bf16 = demo_measure_find(results, "bf16");
    fputs("<div class='scroll'><table><tr><th>allreduce<th>step ms<th>compute ms<th>exposed ms"
          "<th>wire kB<th>× fp32<th>× bf16<th>cores<th>loss<th>loss − fp32<th>s to bf16's loss"
          "<th>bf16 after as long</tr>\n",
          file);
    for (uint32_t i = 0; i < results->n; i++) {
        const struct demo_measure *m = &results->measures[i];
        fprintf(file, "<tr><td>%s<br><span class='dim'>%s</span></td>", m->config->label,
                m->config->note);
        put_html_cell(file, m->step_us / 1e3, "%.2f");
        put_html_cell(file, m->compute_us / 1e3, "%.2f");
        put_html_cell(file, (m->step_us - m->compute_us) / 1e3, "%.2f");
        put_html_cell(file, m->wire_bytes / 1e3, "%.1f");
        put_html_cell(file, fp32 != NULL ? fp32->step_us / m->step_us : NAN, "%.2f");
        put_html_cell(file, bf16 != NULL ? bf16->step_us / m->step_us : NAN, "%.2f");
        put_html_cell(file, m->cores, "%.2f");
        put_html_spread(file, &judgement->verdicts[i].loss, seeds, "%.3f");
        put_html_spread(file, &judgement->verdicts[i].to_fp32, seeds, "%+.3f");
        put_html_cell(file, m->time_to_target_s, "%.1f");
        put_html_cell(file, m->bf16_loss_then, "%.3f");
        fputs("</tr>\n", file);
    }
    fputs("</table></div>\n", file);
    if (seeds == 1)
        return;
    fprintf(file, "<p>Losses are means of %u seeds ± standard deviations. ", seeds);
    if (isfinite(judgement->fp32_range) && isfinite(judgement->control_loses))
        fprintf(file, "fp32's seeds lie %.3f apart, and the negative control loses %.3f. ",
                judgement->fp32_range, judgement->control_loses);
    fprintf(file, "Codecs can%s be told apart.</p>\n", judgement->resolved ? "" : "not");
}

static void write_cards(FILE *file, const struct demo_results *results)
{
    const struct demo_measure *fp32 = demo_measure_find(results, "fp32"),
                              *bf16 = demo_measure_find(results, "bf16");
    const struct demo_measure *winner = find_fastest_feedback(results);
    if (fp32 == NULL || bf16 == NULL || winner == NULL)
        return;
    fprintf(file,
            "<div class='cards'><div class='card'><b>%.1f ×</b>faster steps than bf16 with "
            "%s</div><div class='card'><b>%.1f ×</b>faster than fp32</div>"
            "<div class='card'><b>%+.3f</b>%s of held-out loss, against fp32 after equal "
            "steps</div><div class='card'><b>%.0f ×</b>fewer bytes on the wire than fp32</div>"
            "</div>\n",
            bf16->step_us / winner->step_us, winner->config->label, fp32->step_us / winner->step_us,
            winner->losses[DEMO_EVALS] - fp32->losses[DEMO_EVALS],
            results->options->task->loss_unit, fp32->wire_bytes / winner->wire_bytes);
}

static bool write_losses(FILE *file, const struct demo_results *results,
                         const struct demo_judgement *judgement, bool by_time)
{
    char title[DEMO_CHARTS_TITLE_BYTES];

    demo_charts_title(title, sizeof(title), results, by_time);
    wring_svg_begin(file, WRING_SVG_CHART_WIDTH, demo_charts_height(results), title);
    bool well = demo_charts_put(file, results, judgement, by_time, title);
    wring_svg_end(file);
    return well;
}

/** A box of a row, and what one sees when pointing at it. */
static void put_span(FILE *file, const struct wring_svg_axis *ms, int row,
                     enum wring_svg_colour colour, const char *what, double from_us, double to_us)
{
    double x = wring_svg_position(ms, from_us / 1e3);

    wring_svg_group_begin(file);
    wring_svg_box(file, colour, true, x, TOP + row * ROW + 3,
                  wring_svg_position(ms, to_us / 1e3) - x, ROW - 6);
    wring_svg_group_end(file, "%s: %.2f to %.2f ms", what, from_us / 1e3, to_us / 1e3);
}

static void put_row(FILE *file, int row, const char *name)
{
    wring_svg_text(file, "small end", LABEL - 8, TOP + row * ROW + 16, "%s", name);
}

static void write_timeline(FILE *file, const struct demo_task *task, const struct demo_measure *m,
                           double to_us)
{
    const struct demo_timeline *t = &m->timeline;
    const struct wring_svg_axis ms = {
        .high = to_us / 1e3, .from = LABEL, .to = WRING_SVG_CHART_WIDTH - 30, .unit = " ms"};
    const int bottom = TOP + (1 + (int)task->n_buckets) * ROW;

    wring_svg_begin(file, WRING_SVG_CHART_WIDTH, bottom + 32, m->config->label);
    wring_svg_text(file, "bold", LABEL, 20, "One step with %s: %.1f ms", m->config->label,
                   t->step_us / 1e3);
    wring_svg_axis_put(file, &ms, 8, TOP, bottom, bottom + 18);
    put_row(file, 0, "compute");
    put_span(file, &ms, 0, WRING_SVG_GREEN, "forward", 0, t->forward_us);
    put_span(file, &ms, 0, WRING_SVG_GREEN, "backward", t->forward_us, t->backward_us);
    for (int i = 0; i < (int)task->n_buckets; i++) {
        const struct demo_span *span = &t->buckets[i];
        double seen = fmin(span->done_us, t->backward_us);
        put_row(file, 1 + i, task->buckets[i].name);
        put_span(file, &ms, 1 + i, WRING_SVG_BLUE, "allreduce behind backward", span->ready_us,
                 fmax(seen, span->ready_us));
        if (span->done_us > t->backward_us)
            put_span(file, &ms, 1 + i, WRING_SVG_ORANGE, "allreduce after backward",
                     fmax(span->ready_us, t->backward_us), span->done_us);
    }
    wring_svg_end(file);
}

static void write_intro(FILE *file, const struct demo_results *results)
{
    const struct demo_options *o = results->options;
    fprintf(
        file,
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' "
        "content='width=device-width'><title>wring demo</title><style>%s%s</style>\n"
        "<h1>What compressing gradients gained, and what it cost</h1>\n"
        "<p class='dim'>%u processes trained %s of %.2f M parameters together, %u samples each, "
        "for %u steps with %s, on %s. Each process has an emulated link of %s each way.</p>\n",
        wring_svg_style, style, o->ranks, o->task->what, (double)results->parameters / 1e6,
        o->batch, o->steps, o->optimizer_text, results->data, o->link);
}

static void write_notes(FILE *file, const struct demo_results *results)
{
    bool same = true;
    for (uint32_t i = 0; i < results->n; i++)
        same &= results->measures[i].same_bits;
    fprintf(
        file,
        "<h2>How to read this</h2><p>The model is small and the link slow on purpose, so that "
        "the allreduce is the bottleneck; with a larger batch or a faster link compression gains "
        "less, and may gain nothing. Compare with bf16 rather than fp32: halving the bytes "
        "costs nothing in accuracy, and most jobs do it anyway.</p><p><b>compute</b> is a step "
        "without any allreduce, all processes running at once; <b>exposed</b> is what the "
        "allreduce adds to it; <b>cores</b> is the processor time of progress and codecs of all "
        "processes per second. sgd's Nesterov momentum is taken at the worker, before "
        "the codec, and tensors under 2048 elements travel uncompressed. One bit without error "
        "feedback is the negative control: it is as fast and does not converge as well, which is "
        "what error feedback is for.</p><p>The loss curves come from runs without the emulated "
        "link. That is fair because results do not depend on it: after 20 steps the parameters "
        "of all processes, with the link and without, were %s. Loss against time is steps times "
        "the measured step.</p></html>\n",
        same ? "bit for bit the same" : "<b>NOT the same, which is a bug</b>");
}

static bool write_report(FILE *file, void *arg)
{
    const struct demo_results *results = arg;
    const struct demo_measure *bf16 = demo_measure_find(results, "bf16"),
                              *winner = find_fastest_feedback(results);
    static struct demo_judgement judgement;
    double longest_us = 0;
    demo_judge(results, &judgement);
    write_intro(file, results);
    write_cards(file, results);
    fputs("<h2>The numbers</h2>\n", file);
    write_table(file, results, &judgement);
    fputs("<h2>Accuracy</h2>\n", file);
    if (!write_losses(file, results, &judgement, false) ||
        !write_losses(file, results, &judgement, true))
        return false;
    fputs("<h2>Where a step's time goes</h2><p>Green is compute, blue is allreduce that hides "
          "behind backward, orange is what one waits for. Processes "
          "wait for buckets from top to bottom, so a bar ends no earlier than those above. All on "
          "the same scale.</p>\n",
          file);
    for (uint32_t i = 0; i < results->n; i++)
        if (&results->measures[i] == bf16 || &results->measures[i] == winner ||
            strcmp(results->measures[i].config->name, "fp32") == 0)
            longest_us = fmax(longest_us, results->measures[i].timeline.step_us);
    for (uint32_t i = 0; i < results->n; i++)
        if (&results->measures[i] == bf16 || &results->measures[i] == winner ||
            strcmp(results->measures[i].config->name, "fp32") == 0)
            write_timeline(file, results->options->task, &results->measures[i], longest_us);
    write_notes(file, results);
    return ferror(file) == 0;
}

bool demo_report_write(const struct demo_results *results, const char *path)
{
    return wring_output_file("wring demo", path, write_report, (void *)(uintptr_t)results) ==
           WRING_EXIT_OK;
}
