/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/judge.h"

#include <math.h>
#include <string.h>

#include "tools/demo/curve.h"

const struct demo_measure *demo_measure_find(const struct demo_results *results, const char *name)
{
    for (uint32_t i = 0; i < results->n; i++)
        if (strcmp(results->measures[i].config->name, name) == 0)
            return &results->measures[i];
    return NULL;
}

static double last_loss(const struct demo_measure *measure, uint32_t seed)
{
    return measure->trainings[seed].last_loss;
}

/** Of a configuration's last losses, less those of another one where it is given. */
static struct demo_spread spread_of(const struct demo_measure *measure,
                                    const struct demo_measure *other, uint32_t seeds)
{
    struct demo_spread spread = {0, 0};
    double squares = 0;

    for (uint32_t s = 0; s < seeds; s++)
        spread.mean += (last_loss(measure, s) - (other != NULL ? last_loss(other, s) : 0)) / seeds;
    for (uint32_t s = 0; s < seeds; s++) {
        double off =
            last_loss(measure, s) - (other != NULL ? last_loss(other, s) : 0) - spread.mean;
        squares += off * off;
    }
    spread.deviation = seeds > 1 ? sqrt(squares / (seeds - 1)) : 0;
    return spread;
}

static struct demo_spread difference_of(const struct demo_measure *measure,
                                        const struct demo_measure *other, uint32_t seeds)
{
    return other != NULL ? spread_of(measure, other, seeds) : (struct demo_spread){NAN, NAN};
}

static double range_of(const struct demo_measure *measure, uint32_t seeds)
{
    double low = INFINITY, high = -INFINITY;

    if (measure == NULL || seeds < 2)
        return NAN;
    for (uint32_t s = 0; s < seeds; s++) {
        low = fmin(low, last_loss(measure, s));
        high = fmax(high, last_loss(measure, s));
    }
    return high - low;
}

void demo_judge_mean(struct demo_measure *measure, uint32_t seeds)
{
    for (int i = 0; i <= DEMO_EVALS; i++) {
        measure->losses[i] = 0;
        for (uint32_t s = 0; s < seeds; s++)
            measure->losses[i] += measure->trainings[s].losses[i] / seeds;
    }
}

double demo_judge_time_s(const struct demo_results *results, const struct demo_measure *measure,
                         double steps)
{
    const struct demo_measure *fp32 = demo_measure_find(results, "fp32");
    double raw = fmin(steps, results->options->optimizer.warmup);
    double raw_us = raw > 0 ? raw * (fp32 != NULL ? fp32->step_us : NAN) : 0;

    return measure->step_us > 0 ? (raw_us + (steps - raw) * measure->step_us) / 1e6 : NAN;
}

bool demo_judge_warms_up(const struct demo_results *results, const struct demo_measure *measure)
{
    return measure->warmup > 0 && measure->warmup < results->options->steps;
}

struct demo_bytes demo_judge_bytes(const struct demo_results *results,
                                   const struct demo_measure *measure, bool late)
{
    const struct demo_options *o = results->options;
    double ranks = o->ranks, values = (double)results->coded_values;
    double fp16 = 2 * (ranks - 1) / ranks * values * 2; /* to the owners and back */
    struct demo_bytes bytes = {0};

    for (uint32_t s = 0; s < o->seeds; s++) {
        const struct demo_training *t = &measure->trainings[s];
        bytes.wire += (late ? t->late_wire_bytes : t->wire_bytes) / o->seeds;
        bytes.coded += (late ? t->late_coded_bytes : t->coded_bytes) / o->seeds;
    }
    bytes.fewer = fp16 / bytes.coded;
    bytes.a_value = 16 / bytes.fewer;
    return bytes;
}

static void judge_one(const struct demo_results *results, const struct demo_measure *measure,
                      const double *targets, struct demo_verdict *out)
{
    const struct demo_options *o = results->options;

    out->loss = spread_of(measure, NULL, o->seeds);
    out->to_fp32 = difference_of(measure, demo_measure_find(results, "fp32"), o->seeds);
    out->to_bf16 = difference_of(measure, demo_measure_find(results, "bf16"), o->seeds);
    for (int t = 0; t < DEMO_TARGETS; t++) {
        out->steps_to[t] = demo_curve_steps_to(measure->losses, o->steps, targets[t]);
        out->time_to_s[t] = demo_judge_time_s(results, measure, out->steps_to[t]);
    }
}

void demo_judge(const struct demo_results *results, struct demo_judgement *out)
{
    static const double shares[DEMO_TARGETS] = {0.5, 0.75, 1};
    const struct demo_options *o = results->options;
    const struct demo_measure *fp32 = demo_measure_find(results, "fp32"),
                              *bf16 = demo_measure_find(results, "bf16"),
                              *control = demo_measure_find(results, DEMO_CONTROL);

    *out = (struct demo_judgement){.fp32_range = range_of(fp32, o->seeds), .control_loses = NAN};
    for (int t = 0; t < DEMO_TARGETS; t++)
        out->targets[t] =
            bf16 != NULL ? DEMO_SLACK * demo_curve_at(bf16->losses, o->steps, shares[t] * o->steps)
                         : NAN;
    if (isfinite(o->target_loss))
        out->targets[DEMO_TARGETS - 1] = o->target_loss;
    if (fp32 != NULL && control != NULL)
        out->control_loses = spread_of(control, fp32, o->seeds).mean;
    out->resolved = out->fp32_range < out->control_loses / 2;
    for (uint32_t i = 0; i < results->n; i++)
        judge_one(results, &results->measures[i], out->targets, &out->verdicts[i]);
}
