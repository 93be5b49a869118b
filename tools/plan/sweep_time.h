/* SPDX-License-Identifier: Apache-2.0 */
/** How long a plan's iterations take where nodes and links are slower by chance. */
#ifndef WRING_TOOLS_SWEEP_TIME_H
#define WRING_TOOLS_SWEEP_TIME_H

#include "tools/plan/sweep.h"

/** One cluster's iterations. */
struct wring_sweep_timing {
    const struct wring_sweep *sweep;
    const struct wring_cost_model *model; /* with local steps, of what all of them changed: nothing
                                             is computed in it */
    double forward_us, last_ready_us;
    uint32_t local_steps;
    double link_jitter;
    double *times;                                /* [sweep->iterations] scratch */
    double *compute_us;                           /* [tensors] likewise */
    bool said_lacking[WRING_PLANNING_CODECS_MAX]; /* of these codecs; once is enough */
};

/**
 * Median of the iterations that are drawn.
 * @param p90_us  out, nine of ten take no longer
 */
double wring_sweep_time(const struct wring_sweep_timing *timing,
                        const struct wring_grouping *grouping, double *p90_us);

#endif
