/* SPDX-License-Identifier: Apache-2.0 */
/* What the demo prints: a table for people, or one JSON object. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "tools/commands.h"
#include "tools/demo/demo.h"
#include "tools/output.h"
#include "tools/table.h"

static double step_of(const struct demo_results *results, const char *name)
{
    const struct demo_measure *measure = demo_measure_find(results, name);
    return measure != NULL ? measure->step_us : NAN;
}

static void cell(struct wring_table *table, double value, const char *format)
{
    if (isfinite(value)) {
        char text[32];
        snprintf(text, sizeof(text), format, value);
        wring_table_cell(table, "%s", text);
    } else {
        wring_table_cell(table, "-");
    }
}

static void print_row(struct wring_table *table, const struct demo_results *results,
                      const struct demo_measure *m)
{
    wring_table_cell(table, "%s", m->config->name);
    cell(table, m->compute_us / 1e3, "%.2f");
    cell(table, m->step_us / 1e3, "%.2f");
    cell(table, (m->step_us - m->compute_us) / 1e3, "%.2f");
    cell(table, m->wire_bytes / 1e3, "%.1f");
    cell(table, step_of(results, "fp32") / m->step_us, "%.2f");
    cell(table, step_of(results, "bf16") / m->step_us, "%.2f");
    cell(table, m->cores, "%.2f");
    cell(table, m->losses[DEMO_EVALS], "%.3f");
    cell(table, m->time_to_target_s, "%.1f");
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

/** The same work cannot take longer alone than with an exchange around it. */
static void print_disturbed(const struct demo_results *results)
{
    for (uint32_t i = 0; i < results->n; i++)
        if (results->measures[i].step_us < results->measures[i].compute_us) {
            printf("Compute alone took longer than whole steps: other work on this machine has "
                   "disturbed the\ntimes. Run again when it is quiet.\n");
            return;
        }
}

void demo_print_table(const struct demo_results *results)
{
    static const struct wring_table_column columns[] = {
        {"exchange", WRING_ALIGN_LEFT},  {"compute ms", WRING_ALIGN_RIGHT},
        {"step ms", WRING_ALIGN_RIGHT},  {"exposed ms", WRING_ALIGN_RIGHT},
        {"wire kB", WRING_ALIGN_RIGHT},  {"x fp32", WRING_ALIGN_RIGHT},
        {"x bf16", WRING_ALIGN_RIGHT},   {"cores", WRING_ALIGN_RIGHT},
        {"loss", WRING_ALIGN_RIGHT},     {"to target s", WRING_ALIGN_RIGHT},
        {"same bits", WRING_ALIGN_LEFT},
    };
    const struct demo_options *o = results->options;
    printf("%u ranks on this host, %s each way emulated, %u samples a rank, %.2f M parameters\n",
           o->ranks, o->link, o->batch, (double)results->parameters / 1e6);
    printf(
        "trained %u steps on %llu files, %.2f MB of text (%llu duplicates dropped), %.0f kB held "
        "out\n\n",
        o->steps, (unsigned long long)results->text_files, (double)results->text_bytes / 1e6,
        (unsigned long long)results->dropped_files, (double)results->held_out_bytes / 1e3);
    struct wring_table *table = wring_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    for (uint32_t i = 0; i < results->n; i++)
        print_row(table, results, &results->measures[i]);
    wring_table_finish(table, stdout);
    printf("\nstep: on the emulated link. exposed: step less compute. wire: sent by a rank in a "
           "step.\ncores: burnt by progress and codecs of all ranks. loss: held out, nats per "
           "byte, after\nequal steps. target: bf16's last loss. onebit without +ef is the negative "
           "control.\nThe model is small and the link slow on purpose: the exchange is the "
           "bottleneck here.\n");
    print_unreached(results);
    print_disturbed(results);
}

static json_t *real_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *curve(const double *losses)
{
    json_t *array = json_array();
    for (int i = 0; i <= DEMO_EVALS; i++)
        json_array_append_new(array, real_or_null(losses[i]));
    return array;
}

static json_t *run_object(const struct demo_results *results, const struct demo_measure *m)
{
    bool timed = m->step_us > 0;
    double fp32 = step_of(results, "fp32") / m->step_us;
    double bf16 = step_of(results, "bf16") / m->step_us;
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "config",
        m->config->name, "codec", m->config->codec, "compute_us",
        real_or_null(timed ? m->compute_us : NAN), "step_us",
        real_or_null(timed ? m->step_us : NAN), "exposed_us",
        real_or_null(timed ? m->step_us - m->compute_us : NAN), "wire_bytes",
        real_or_null(timed ? m->wire_bytes : NAN), "loss", real_or_null(m->losses[DEMO_EVALS]),
        "time_to_target_s", real_or_null(timed ? m->time_to_target_s : NAN), "bf16_loss_then",
        real_or_null(timed ? m->bf16_loss_then : NAN), "speedup_fp32",
        real_or_null(timed ? fp32 : NAN), "speedup_bf16", real_or_null(timed ? bf16 : NAN), "cores",
        real_or_null(timed ? m->cores : NAN), "same_bits", m->same_bits, "losses",
        curve(m->losses));
}

int demo_print_json(const struct demo_results *results)
{
    const struct demo_options *o = results->options;
    json_t *runs = json_array();
    for (uint32_t i = 0; i < results->n; i++)
        json_array_append_new(runs, run_object(results, &results->measures[i]));
    json_t *object =
        json_pack("{s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:o}", "runs", runs, "report", o->report,
                  "link", o->link, "ranks", (json_int_t)o->ranks, "steps", (json_int_t)o->steps,
                  "seed", (json_int_t)o->seed, "parameters", (json_int_t)results->parameters,
                  "target_loss", real_or_null(results->target_loss));
    return wring_json_print(stdout, object) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
}
