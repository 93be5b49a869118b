/* SPDX-License-Identifier: Apache-2.0 */
/** A model while it is built: what the files that build it share. */
#ifndef WRING_MODEL_BUILDER_H
#define WRING_MODEL_BUILDER_H

#include "planner/core/model/candidates.h"
#include "planner/core/model/cost_model.h"
#include "planner/core/model/lanes.h"
#include "planner/core/model/measured_collective.h"

struct wring_model_builder {
    const struct wring_cost_model_params *params;
    const struct wring_log *log;
    struct wring_cost_model *model;
    struct wring_profile_codec *back; /* [n_codecs] for the way back; of most the codec itself */
    bool *barred;                     /* [n_codecs] it is there to compare with only */
    double *nmse_in;                  /* [n_codecs] of bell-shaped numbers on the way in alone */
    struct wring_budgets *budgets;    /* [n_codecs] */
    struct wring_profile_codec *ways; /* [2] for a moment: a codec in and back, as cores code it */
    double link_scale;
    enum wring_dtype dtype;   /* whose options are made now */
    struct wring_lanes lanes; /* of the options */
    struct wring_candidates candidates;
};

/** The model's cluster, tuning and profile, for the functions of model/measured_collective.h. */
struct wring_core_scaling wring_model_core_scaling(const struct wring_model_builder *builder);

/** The codecs: none, fp16, the allow-list. Errors: as wring_cost_model_create(). */
enum wring_status wring_model_find_codecs(struct wring_model_builder *builder);

/** Bytes of an element of the type whose options are made. */
static inline uint32_t wring_model_elem_bytes(const struct wring_model_builder *builder)
{
    return (uint32_t)wring_dtype_bytes(builder->dtype);
}

/** Which options each tensor may take. The options are there. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_model_bar(struct wring_model_builder *builder);

/** Has the profile measured whole collectives of such a cluster, and is that what is asked for? */
bool wring_model_has_measured(const struct wring_model_builder *builder);

/** Which part of a rank's processor collectives keep busy in a backlog, 0 to 1: those of the codec
 * that keeps it busiest, in its faster scheme, with the largest buckets that were measured. */
double wring_model_load(const struct wring_model_builder *builder);

/** Log the codecs whose times are put together from parts, beside whole collectives of others. */
void wring_model_tell_components(const struct wring_model_builder *builder);

/** Candidates of the present type, and lanes of these. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_model_from_measured(struct wring_model_builder *builder);

#endif
