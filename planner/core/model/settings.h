/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which settings a plan may choose: how many cores are pinned for codecs in each rank, and how
 * large the pieces are. Both are a session's, so that a plan has one setting for all its groups.
 */
#ifndef WRING_PLANNER_SETTINGS_H
#define WRING_PLANNER_SETTINGS_H

#include "planner/core/model/cost_model.h"

#define WRING_SETTINGS_EACH_MAX 16 /* numbers of cores, sizes of pieces */
#define WRING_SETTINGS_MAX (WRING_SETTINGS_EACH_MAX * WRING_SETTINGS_EACH_MAX)

/** What is asked for. */
struct wring_settings_wanted {
    uint32_t n_cores, cores[WRING_SETTINGS_EACH_MAX]; /* none: all that are known */
    uint32_t n_chunks;
    uint64_t chunk_bytes[WRING_SETTINGS_EACH_MAX]; /* likewise */
};

/** Known settings: by size of pieces, the default one first, then by cores, fewest first. */
struct wring_settings {
    uint32_t n; /* 0: nothing is known apart, the plan leaves them to the job */
    struct wring_setting list[WRING_SETTINGS_MAX];
};

/**
 * List the settings whose times the profile knows.
 *
 * If it has whole exchanges of such a cluster, these are the settings of these measurements, and
 * those that wring_pinned_way() can derive from them. Each codec of the model that has exchanges at
 * all must have one with the setting.
 *
 * Otherwise, in timeline full, these are the numbers of cores on which all codecs were measured, as
 * far as a node has them. Pieces have the default size then, unless others are wanted, since the
 * link's cost of each piece is not known. Other timelines know no setting.
 *
 * @param params  of the model; its setting is not looked at
 * @param wanted  NULL: all
 *
 * Errors: WRING_ERR_INVALID, with one log line: a wanted setting is not known, and which ones are.
 */
enum wring_status wring_settings_list(const struct wring_cost_model_params *params,
                                      const struct wring_settings_wanted *wanted,
                                      const struct wring_log *log, struct wring_settings *out);

#endif
