/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/model/computing.h"

static double lost_during(const struct wring_profile_computing *profile,
                          enum wring_computing computing, double compute_us)
{
    if (computing == WRING_COMPUTING_PROCESSOR)
        return profile->spin_lost * compute_us;
    return profile->wake_us < compute_us ? profile->wake_us : compute_us;
}

double wring_computing_shift(const struct wring_profile_computing *profile,
                             enum wring_computing computing, uint32_t n, double *compute_us)
{
    double lost_us = 0;

    if (!profile->present)
        return 0;
    for (uint32_t i = 1; i < n; i++) { /* nothing is exchanged during the first */
        double lost = lost_during(profile, computing, compute_us[i]);
        compute_us[i] -= lost;
        lost_us += lost;
    }
    compute_us[0] += lost_us;
    return lost_us;
}

double wring_computing_true_us(const struct wring_cost_model *model, double us)
{
    const struct wring_tensor_trace *trace = model->trace;
    double shown = 0, before = 0;

    if (model->lost_us <= 0)
        return us;
    for (uint32_t i = 0; i < trace->n; i++) {
        double took = model->compute_us[i], ready = trace->tensors[i].ready_us;
        if (us < shown + took)
            return before + (us - shown) / took * (ready - before);
        shown += took;
        before = ready;
    }
    return us;
}
