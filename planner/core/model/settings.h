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

/** What there is: by size of pieces, the default one first, then by cores, fewest first. */
struct wring_settings {
    uint32_t n; /* 0: nothing is known apart, the plan leaves them to the job */
    struct wring_setting list[WRING_SETTINGS_MAX];
};

/**
 * The settings of which the profile can say what they take.
 *
 * Where it has whole exchanges of such a cluster, these are the settings that they were measured
 * with, and those that wring_pinned_way() can tell from them: for each codec that is asked for, of
 * those that have exchanges at all. Elsewhere in timeline full these are
 * the cores that all codecs were measured on, as far as a node has them; and pieces of any size,
 * but only of the default one unless others are wanted, as what each piece costs the link is not
 * known. Other timelines know none.
 *
 * @param params  of the model; its setting is not looked at
 * @param wanted  NULL: all
 *
 * Errors: WRING_ERR_INVALID, with one log line: something wanted is not known, and what is.
 */
enum wring_status wring_settings_list(const struct wring_cost_model_params *params,
                                      const struct wring_settings_wanted *wanted,
                                      const struct wring_log *log, struct wring_settings *out);

#endif
