/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What trainings of several seeds say of a codec. Every codec starts from the same weights and sees
 * the same batches for a seed, so differences are taken seed by seed.
 */
#ifndef WRING_TOOLS_DEMO_JUDGE_H
#define WRING_TOOLS_DEMO_JUDGE_H

#include "tools/demo/demo.h"

#define DEMO_TARGETS 3   /* bf16's loss after half, three quarters and all of the steps */
#define DEMO_SLACK 1.001 /* times bf16's loss is near enough: chance lies between equal codecs */

/** A mean over seeds and how far they lie apart. */
struct demo_spread {
    double mean, deviation; /* of the sample; 0 for one seed */
};

struct demo_verdict {
    struct demo_spread loss;             /* the last, held out */
    struct demo_spread to_fp32, to_bf16; /* the difference, seed by seed; NAN without it */
    double steps_to[DEMO_TARGETS];       /* until the mean curve is there; NAN: it never was */
    double time_to_s[DEMO_TARGETS];      /* likewise, times the step time; NAN: untimed */
};

struct demo_judgement {
    double targets[DEMO_TARGETS]; /* losses; NAN where bf16 did not run */
    double fp32_range;            /* of the last losses of fp32's seeds; NAN for one seed */
    double control_loses;         /* the negative control, against fp32, on average; NAN */
    bool resolved; /* seeds differ by less than half of control_loses: codecs can be told apart */
    struct demo_verdict verdicts[DEMO_CONFIGS_MAX]; /* of results->measures */
};

/** The name of the configuration that must do worse. */
#define DEMO_CONTROL "onebit"

/** Judge all configurations. Their mean curves stand in the measures already. */
void demo_judge(const struct demo_results *results, struct demo_judgement *out);

/**
 * What the first so many steps take on the link, in s. Those of an optimizer that warms up
 * uncompressed take as long as fp32's.
 * @return NAN where they, or fp32's, were not timed
 */
double demo_judge_time_s(const struct demo_results *results, const struct demo_measure *measure,
                         double steps);

/** What a rank sends in a step of some of a training's steps, mean over the seeds. */
struct demo_bytes {
    double wire;    /* in all */
    double coded;   /* of buckets that are compressed */
    double fewer;   /* times fewer than fp16 takes for the same values over the divisible scheme */
    double a_value; /* bits: 16 over `fewer`, so each way where the scheme is divisible */
};

/**
 * Bytes of the whole run, or of the steps after the warm-up.
 * @return NAN inside where an earlier release kept a training
 */
struct demo_bytes demo_judge_bytes(const struct demo_results *results,
                                   const struct demo_measure *measure, bool late);

/** Has a measure's training steps after a warm-up? */
bool demo_judge_warms_up(const struct demo_results *results, const struct demo_measure *measure);

/** Fill a measure's mean curve from its trainings. */
void demo_judge_mean(struct demo_measure *measure, uint32_t seeds);

#endif
