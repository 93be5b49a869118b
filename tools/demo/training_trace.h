/* SPDX-License-Identifier: Apache-2.0 */
/** A training of the demo's as a trace for the planner. */
#ifndef WRING_DEMO_TRAINING_TRACE_H
#define WRING_DEMO_TRAINING_TRACE_H

#include "tools/demo/demo.h"

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
