/* SPDX-License-Identifier: Apache-2.0 */
/** What codecs are given in a training of the demo's, for calibration. */
#ifndef WRING_TOOLS_DEMO_TRAINING_H
#define WRING_TOOLS_DEMO_TRAINING_H

#include "planner/tool/gradients.h"
#include "tools/demo/demo.h"
#include "tools/demo/model.h"

#define DEMO_RECORDED_STEPS 8 /* that follow each other, twice */

/** Of one rank in one run. */
struct demo_recording {
    struct wring_gradients gradients;
    struct wring_gradients_tensor tensors[DEMO_TENSORS];
    uint64_t steps[2 * DEMO_RECORDED_STEPS];
};

/**
 * Choose the steps, from a quarter and from three quarters of the training on, and make room. Free
 * it with demo_recording_finish().
 *
 * @param elems  [DEMO_TENSORS] of the gradients
 * @param steps  of the run, 4 × DEMO_RECORDED_STEPS or more
 * @return -1 without memory
 */
int demo_recording_init(struct demo_recording *recording, const uint64_t *elems, uint32_t steps);

/** Keep a sample of a tensor's gradient, if it is one of the steps. */
void demo_recording_take(struct demo_recording *recording, uint32_t step, enum demo_tensor tensor,
                         const float *gradient);

/**
 * Write them as wring-gradients.
 * @param config  with which they were trained
 * @return false with a line on standard error
 */
bool demo_recording_write(struct demo_recording *recording, const struct demo_options *options,
                          const struct demo_config *config);

void demo_recording_finish(struct demo_recording *recording);

/* A training of the demo's as a trace for the planner. */

/**
 * The median of each time by itself. Tensors stay in order: what is never later in any step has no
 * later median.
 *
 * @param steps  in, [n]
 * @param n      1 or more
 */
void demo_times_median(const struct demo_times *steps, uint32_t n, struct demo_times *out);

/** Write results->times as a wring-trace. @return false with a line on standard error */
bool demo_training_trace_write(const struct demo_results *results, const char *path);

#endif
