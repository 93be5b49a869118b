/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/model/interference.h"

#include <math.h>

/** What exchanges lose of each wake-up. */
static double wake_us(const struct wring_profile_computing *profile, double load, uint32_t n,
                      const double *compute_us)
{
    double all_us = 0;

    for (uint32_t i = 0; i < n; i++)
        all_us += compute_us[i];
    double rate = all_us > 0 ? n * profile->wake_us / all_us : 1; /* of the processor */
    double missing = load + rate - 1;
    if (missing <= 0)
        return 0;
    return profile->wake_us * (missing < rate ? missing / rate : 1);
}

double wring_computing_shift(const struct wring_profile_computing *profile,
                             enum wring_computing computing, double load, bool coded, uint32_t n,
                             double *compute_us)
{
    double spin_lost = fmax(profile->spin_lost, coded ? profile->spin_coded_lost : 0), lost_us = 0;

    if (!profile->present)
        return 0;
    double each_us = wake_us(profile, load, n, compute_us);
    for (uint32_t i = 1; i < n; i++) { /* nothing is exchanged during the first */
        double lost = computing == WRING_COMPUTING_PROCESSOR ? spin_lost * compute_us[i]
                                                             : fmin(each_us, compute_us[i]);
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
        double took = model->compute_us[i],
               ready = trace->optimizer_us + trace->tensors[i].ready_us;
        if (us < shown + took)
            return before + (us - shown) / took * (ready - before);
        shown += took;
        before = ready;
    }
    return us;
}
