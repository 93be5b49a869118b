/* SPDX-License-Identifier: Apache-2.0 */
/** A model while it is built: what the files that build it share. */
#ifndef WRING_PLANNER_CORE_MODEL_BUILDER_H
#define WRING_PLANNER_CORE_MODEL_BUILDER_H

#include "planner/core/model/candidates.h"
#include "planner/core/model/core_scaling.h"
#include "planner/core/model/cost_model.h"
#include "planner/core/model/lanes.h"

struct wring_model_builder {
    const struct wring_cost_model_params *params;
    const struct wring_log *log;
    struct wring_cost_model *model;
    struct wring_profile_codec *back; /* [n_codecs] for the way back; of most the codec itself */
    bool *barred;                     /* [n_codecs] it is there to compare with only */
    double *nmse_in;                  /* [n_codecs] of bell-shaped numbers on the way in alone */
    struct wring_budgets *budgets;    /* [n_codecs] */
    double link_scale;
    struct wring_lanes lanes; /* of the options */
    struct wring_candidates candidates;
};

/** The model's cluster, tuning and profile, for the functions of core_scaling.h. */
struct wring_core_scaling wring_model_core_scaling(const struct wring_model_builder *builder);

/** The codecs: none, fp16, the allow-list. Errors: as wring_cost_model_create(). */
enum wring_status wring_model_find_codecs(struct wring_model_builder *builder);

/** Compare a new codec's error with the budget. If it was not measured on gradients, its error on
 * bell-shaped numbers is taken. */
void wring_model_weigh(struct wring_model_builder *builder, uint32_t codec);

/** The same for that many encodings, one after another. */
enum wring_budget wring_model_budget(const struct wring_model_builder *builder, uint32_t codec,
                                     struct wring_encodings encodings);

/** The fewest encodings that an exchange has with a codec of that name. */
struct wring_encodings wring_model_fewest(const char *spec);

/** Which options each tensor may take. The options are there. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_model_bar(struct wring_model_builder *builder);

/** Has the profile measured whole exchanges of such a cluster, and is that what is asked for? */
bool wring_model_has_measured(const struct wring_model_builder *builder);

/** Which part of a rank's processor exchanges keep busy in a backlog, 0 to 1: those of the codec
 * that keeps it busiest, in its faster scheme, with the largest buckets that were measured. */
double wring_model_load(const struct wring_model_builder *builder);

/** Candidates and lanes of these. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_model_from_measured(struct wring_model_builder *builder);

/** Log the codecs whose times are put together from parts. */
void wring_model_tell_components(const struct wring_model_builder *builder);

/**
 * The cost of a codec without measured collectives on their lanes: the sum of its steps, and
 * latencies.
 * @return false: it has some, or was not measured on cores as the tuning has them
 */
bool wring_model_from_components(const struct wring_model_builder *builder, uint32_t codec,
                                 const struct wring_option *option, struct wring_cost *busy,
                                 struct wring_cost *rest);

#endif
