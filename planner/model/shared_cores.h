/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What exchanges take of processors besides codecs, as far as a profile tells: whoever makes
 * progress moves bytes and adds them, on the cores that code.
 */
#ifndef WRING_PLANNER_SHARED_CORES_H
#define WRING_PLANNER_SHARED_CORES_H

#include "planner/model/pinned.h"

/**
 * By the bytes that a rank's link passes one way, in the lane of a node's cores: how long these are
 * busy with it, all ranks of the node together.
 *
 * It is told by the processor time of uncompressed exchanges, those of the profile's own cluster.
 * Inline a rank's one thread does it before or after it codes, and a node's k ranks share its P
 * processors: max(1, k/P) times as much. Codecs on c pinned cores leave it a core of its own where
 * there is one; of k (c + 1) threads those beyond P share, and only their part counts.
 *
 * @return false: nobody measured it
 */
bool wring_shared_cores_progress(const struct wring_pinned *pinned, struct wring_cost *us_by_bytes);

/**
 * Of an exchange's pace, what is lost while all ranks of a node compute on its processors, where no
 * exchanges of such a cluster were measured: of 2 k threads each has min(1, P/2k) of one, and alone
 * those of exchanges have min(1, P/k). As many ranks as were measured, or more, lose no less than
 * these did.
 */
double wring_shared_cores_spin_lost(const struct wring_pinned *pinned);

#endif
