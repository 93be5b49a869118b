/* SPDX-License-Identifier: Apache-2.0 */
/** What ranks say of their last iterations when they meet. */
#ifndef WRING_RUNTIME_AUTOPLAN_SAID_H
#define WRING_RUNTIME_AUTOPLAN_SAID_H

#include "runtime/plan/autoplan.h"

/** Of one rank, or of all: the slowest one's times, and whether anybody is busy or early. */
struct wring_autoplan_said {
    uint32_t stage, at, busy, early, may;
    double us, compute_us;
};

/**
 * Tell the others and hear them; the same comes out on all ranks, and autoplan->ready_us with it.
 *
 * Errors: WRING_ERR_MISMATCH (ranks are not at the same place), those of exchanges.
 */
enum wring_status wring_autoplan_hear(struct wring_autoplan *autoplan,
                                      struct wring_autoplan_said *all);

#endif
