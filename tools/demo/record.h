/* SPDX-License-Identifier: Apache-2.0 */
/** What a training of the demo's leaves for the planner: gradients, and when they were ready. */
#ifndef WRING_TOOLS_DEMO_RECORD_H
#define WRING_TOOLS_DEMO_RECORD_H

#include "planner/tool/gradients.h"
#include "tools/demo/demo.h"

/* What codecs are given in a training of the demo's, for calibration and for `wring bench codec`.
 */

#define DEMO_RECORDED_STEPS 8 /* that follow each other, twice */

/** Of one rank in one run; in rank 0 with room for those of other ranks. */
struct demo_recording {
    struct wring_gradients gradients;
    struct wring_gradients_tensor tensors[DEMO_TENSORS_MAX];
    uint64_t steps[2 * DEMO_RECORDED_STEPS];
};

/**
 * Choose the steps, from a quarter and from three quarters of the training on, and make room. Free
 * it with demo_recording_finish().
 *
 * @param tensors  [n] whose gradients are recorded
 * @param steps    of the run, 4 × DEMO_RECORDED_STEPS or more
 * @param ranks    that there is room for; our own come first
 * Errors: WRING_ERR_NO_MEMORY; WRING_ERR_INVALID: more values than a file may have, said.
 */
enum wring_status demo_recording_init(struct demo_recording *recording,
                                      const struct demo_tensor *tensors, uint32_t n, uint32_t steps,
                                      uint32_t ranks);

/** Keep a sample of a tensor's gradient, if it is one of the steps. */
void demo_recording_take(struct demo_recording *recording, uint32_t step, uint32_t tensor,
                         const float *gradient);

/**
 * Hand rank 0 what the ranks before `ranks` have recorded, which all of these call.
 * Errors: those of wring_send() and wring_recv().
 */
enum wring_status demo_recording_collect(struct demo_recording *recording,
                                         struct wring_session *session, uint32_t ranks);

/**
 * Write them as wring-gradients.
 * @param config  with which they were trained
 * @return false with a line on standard error
 */
bool demo_recording_write(struct demo_recording *recording, const struct demo_results *results,
                          const struct demo_config *config);

void demo_recording_finish(struct demo_recording *recording);

/* A training of the demo's as a trace for the planner. */

/** Write results->times as a wring-trace. @return false with a line on standard error */
bool demo_training_trace_write(const struct demo_results *results, const char *path);

#endif
