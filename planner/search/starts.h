/* SPDX-License-Identifier: Apache-2.0 */
/** Where a search begins, and what it cannot get below. */
#ifndef WRING_PLANNER_STARTS_H
#define WRING_PLANNER_STARTS_H

#include "planner/search/seek.h"
#include "planner/search/stops.h"

/**
 * Offer starting points: nothing coded; each option alike in a few groups; MergeComp's partition
 * with the best of these over the stops; in small problems each option tensor by tensor, and
 * Espresso's answer where there are few tensors. Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_seek_start(struct wring_seek *seek, const struct wring_stops *stops);

/**
 * No grouping takes less: all computing, then the last tensor through lanes that are free. 0 where
 * options cut groups into chunks.
 */
double wring_seek_floor(const struct wring_seek *seek);

#endif
