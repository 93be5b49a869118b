/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/curve.h"

#include <math.h>

double demo_curve_steps_to(const double *losses, uint32_t steps, double target)
{
    for (int i = 1; i <= DEMO_EVALS; i++)
        if (losses[i] <= target) {
            double above = losses[i - 1] - target, fall = losses[i - 1] - losses[i];
            double part = fall > 0 && above > 0 ? above / fall : 0;
            return ((double)(i - 1) + part) / DEMO_EVALS * steps;
        }
    return NAN;
}

double demo_curve_at(const double *losses, uint32_t steps, double step)
{
    double at = step / steps * DEMO_EVALS;
    if (!(at < DEMO_EVALS))
        return losses[DEMO_EVALS];
    int before = at > 0 ? (int)at : 0;
    return losses[before] + (at - before) * (losses[before + 1] - losses[before]);
}
