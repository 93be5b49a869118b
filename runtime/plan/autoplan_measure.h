/* SPDX-License-Identifier: Apache-2.0 */
/** Measuring what a job's profile lacks. */
#ifndef WRING_RUNTIME_AUTOPLAN_MEASURE_H
#define WRING_RUNTIME_AUTOPLAN_MEASURE_H

#include "runtime/plan/autoplan_missing.h"

/**
 * What is missing is measured with the session as it is configured, then other settings are as far
 * as they are worth it; all of it is added to rank 0's profile, which is kept for other jobs, too.
 * Collective. The profile has ways of the configured setting alone before, and all after it.
 *
 * @param codecs   that may be used beside none
 * @param missing  nothing, where the profile lacks nothing of the configured setting; without a
 *                 profile there is one then
 * Errors: those of measuring, and WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_autoplan_measure(struct wring_autoplan *autoplan,
                                         const struct wring_measure_codecs *codecs,
                                         const struct wring_measure_params *params,
                                         const struct wring_autoplan_missing *missing);

#endif
