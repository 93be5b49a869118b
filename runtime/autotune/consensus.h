/* SPDX-License-Identifier: Apache-2.0 */
/** What ranks say of their last iterations when they meet. */
#ifndef WRING_RUNTIME_AUTOTUNE_CONSENSUS_H
#define WRING_RUNTIME_AUTOTUNE_CONSENSUS_H

#include "runtime/autotune/autotune.h"

/** Of one rank, or of all: the slowest one's times, and whether anybody is busy or early. */
struct wring_autotune_rank_report {
    uint32_t stage, at, busy, early, may;
    double us, compute_us;
};

#endif
