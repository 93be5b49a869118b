/* SPDX-License-Identifier: Apache-2.0 */
/** A model while it is built: what the files that build it share. */
#ifndef WRING_PLANNER_BUILDING_H
#define WRING_PLANNER_BUILDING_H

#include "planner/model/candidates.h"
#include "planner/model/cost_model.h"
#include "planner/model/lanes.h"
#include "planner/model/pinned.h"

struct wring_building {
    const struct wring_cost_model_params *params;
    const struct wring_log *log;
    struct wring_cost_model *model;
    struct wring_profile_codec *back; /* [n_codecs] for the way back; of most the codec itself */
    bool *barred;                     /* [n_codecs] it is there to compare with only */
    bool *somewhere; /* [n_codecs] its error is within the budget on some tensors, not on all */
    double link_scale;
    struct wring_lanes lanes; /* of the options */
    struct wring_candidates candidates;
};

/** What the model is for, as those ask who know what a setting makes of costs. */
struct wring_pinned wring_building_pinned(const struct wring_building *building);

/** The codecs: none, fp16, the allow-list. Errors: as wring_cost_model_create(). */
enum wring_status wring_building_codecs(struct wring_building *building);

/** How a codec's error stands to what is allowed. */
enum wring_budget {
    WRING_BUDGET_WITHIN,
    WRING_BUDGET_SOMEWHERE, /* on some tensors */
    WRING_BUDGET_BEYOND,    /* on all of them */
    WRING_BUDGET_UNKNOWN,   /* nobody measured it */
};

/** Where it was not measured on gradients, what bell-shaped numbers lost is taken. */
enum wring_budget wring_building_budget(const struct wring_building *building,
                                        const struct wring_profile_codec *codec);

/** Which options each tensor may take. The options are there. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_building_bar(struct wring_building *building);

/** Has the profile measured whole exchanges of such a cluster, and is that what is asked for? */
bool wring_building_has_ways(const struct wring_building *building);

/** Which part of a rank's processor exchanges keep busy in a backlog, 0 to 1: those of the codec
 * that keeps it busiest, in its faster scheme, with the largest buckets that were measured. */
double wring_building_load(const struct wring_building *building);

/** Candidates and lanes of these. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_building_ways(struct wring_building *building);

/** The options and the lanes. Codecs and tensors are there. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_building_options(struct wring_building *building);

#endif
