/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which tunings a plan may choose: how many cores are pinned for codecs in each rank, and how
 * large the pieces are. Both are a session's, so that a plan has one tuning for all its groups.
 */
#ifndef WRING_PLANNER_CORE_MODEL_TUNINGS_H
#define WRING_PLANNER_CORE_MODEL_TUNINGS_H

#include "planner/core/model/cost_model.h"

#define WRING_TUNINGS_EACH_MAX 16 /* numbers of cores, sizes of pieces */
#define WRING_TUNINGS_MAX (WRING_TUNINGS_EACH_MAX * WRING_TUNINGS_EACH_MAX)

/** What is asked for. */
struct wring_tunings_wanted {
    uint32_t n_cores, cores[WRING_TUNINGS_EACH_MAX]; /* none: all that are known */
    uint32_t n_chunks;
    uint64_t chunk_bytes[WRING_TUNINGS_EACH_MAX]; /* likewise */
};

/** Known tunings: by size of pieces, the default one first, then by cores, fewest first. */
struct wring_tunings {
    uint32_t n; /* 0: nothing is known apart, the plan leaves them to the job */
    struct wring_tuning list[WRING_TUNINGS_MAX];
};

/**
 * List the tunings whose times the profile knows.
 *
 * If it has whole collectives of such a cluster, these are the tunings of these measurements, and
 * those that wring_core_scaling_collective() can derive from them. Each codec of the model that has
 * collectives at all must have one with the tuning.
 *
 * Otherwise, in timeline full, these are the numbers of cores on which all codecs were measured, as
 * far as a node has them. Pieces have the default size then, unless others are wanted, since the
 * link's cost of each piece is not known. Other timelines know no tuning.
 *
 * @param params  of the model; its tuning is not looked at
 * @param wanted  NULL: all
 *
 * Errors: WRING_ERR_INVALID, with one log line: a wanted tuning is not known, and which ones are.
 */
enum wring_status wring_tunings_list(const struct wring_cost_model_params *params,
                                     const struct wring_tunings_wanted *wanted,
                                     const struct wring_log *log, struct wring_tunings *out);

#endif
