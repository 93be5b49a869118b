/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/model/shared_cores.h"

#include <math.h>

/** Of progress, what the cores that code have to do. */
static double share_of(const struct wring_pinned *pinned)
{
    double processors = wring_pinned_processors(pinned->profile), ranks = pinned->ranks_per_node;
    uint32_t cores = pinned->setting != NULL ? pinned->setting->cores : 0;

    if (cores == 0)
        return fmax(1, ranks / processors);
    return fmin(1, fmax(0, (ranks * (cores + 1.0) - processors) / ranks));
}

bool wring_shared_cores_progress(const struct wring_pinned *pinned, struct wring_cost *us_by_bytes)
{
    const struct wring_profile *profile = pinned->profile;
    double ranks = (double)profile->nodes * profile->ranks_per_node;
    const struct wring_profile_way *way =
        ranks > 1 ? wring_profile_way(profile, "none", "auto", (uint32_t)ranks) : NULL;
    double share = share_of(pinned);

    if (way == NULL || share <= 0)
        return false;
    /* 2 (n - 1) / n of a bucket pass a rank's link */
    *us_by_bytes = wring_cost_scale(&way->cpu.us, share, ranks / (2 * (ranks - 1) * sizeof(float)));
    return true;
}

double wring_shared_cores_spin_lost(const struct wring_pinned *pinned)
{
    const struct wring_profile *profile = pinned->profile;
    double processors = wring_pinned_processors(profile), ranks = pinned->ranks_per_node;
    double lost = 1 - fmin(1, processors / (2 * ranks)) / fmin(1, processors / ranks);

    if (pinned->ranks_per_node >= profile->ranks_per_node)
        lost = fmax(lost, profile->computing.spin_lost);
    return lost;
}
