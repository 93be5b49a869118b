/* SPDX-License-Identifier: Apache-2.0 */
/** What whole exchanges take: runtime/plan/measure_ways.h, for what the profile wants. */
#include "base/clock.h"
#include "runtime/commit/commit.h"
#include "tools/calibrate/calibrate.h"

#define ROUNDS_MIN 9

static void tell(void *arg, uint32_t round, bool noisy)
{
    wring_calibration_tell(arg, "exchanges: round %u%s", round + 1,
                           noisy ? " of what is noisy" : "");
}

/** What is left of the time; half of the share at least, where other parts took longer. */
static uint64_t budget_of(const struct wring_calibration *job, double share)
{
    double all = job->params->seconds * 1e9;
    double left = all - (double)(wring_now_ns() - job->begin_ns);

    return (uint64_t)(left > share * all / 2 ? left : share * all / 2);
}

enum wring_status wring_calibrate_ways(struct wring_calibration *job, double share,
                                       struct wring_profile *profile,
                                       struct wring_measure_noise *noise)
{
    const struct wring_measure_params params = {
        .codecs = job->wants.codecs,
        .every_scheme = true,
        .cores = job->machine.cores,
        .ranks_per_node = job->machine.ranks_per_node,
        .max_elems = job->max_elems,
        .budget_ns = budget_of(job, share),
        .rounds_min = ROUNDS_MIN,
        .placed = true,
        .tell = tell,
        .arg = job,
    };

    if (job->wants.codecs.n == 0)
        return WRING_OK;
    enum wring_status status = wring_commit_take_back(job->session);
    return status == WRING_OK ? wring_measure_ways(job->session, &params, profile, noise) : status;
}
