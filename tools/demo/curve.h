/* SPDX-License-Identifier: Apache-2.0 */
/** Loss curves: DEMO_EVALS + 1 points over the steps of a run, taken as straight between them. */
#ifndef WRING_DEMO_CURVE_H
#define WRING_DEMO_CURVE_H

#include "tools/demo/demo.h"

/** The step at which a curve first comes down to a target; NAN where it does not. */
double demo_curve_steps_to(const double *losses, uint32_t steps, double target);

/** The loss at a step, which need not be whole; past the end, the last one. */
double demo_curve_at(const double *losses, uint32_t steps, double step);

#endif
