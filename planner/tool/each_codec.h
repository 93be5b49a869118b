/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A further codec to choose from must not make a plan worse. A search tries a share of all
 * groupings, and the more options there are, the smaller that share. So it may miss a plan that it
 * finds with one of the codecs alone, and each codec is searched alone as well.
 */
#ifndef WRING_PLANNER_EACH_CODEC_H
#define WRING_PLANNER_EACH_CODEC_H

#include "planner/core/model/cost_model.h"
#include "planner/core/search/search.h"

/**
 * Search with each codec alone, as if no other had been asked for, and keep the best plan. Unless
 * the deadline comes first, the plan depends on the problem alone and takes no longer than any of
 * these.
 *
 * @param params       those of the model
 * @param method       of the searches
 * @param deadline_ns  of wring_now_ns(), WRING_NEVER for none; a codec is not begun if, by the
 *                     times of those before, it would hardly end by then
 * @param found        in and out: a plan of the model's problem; what it took adds up
 *
 * Errors: WRING_ERR_NO_MEMORY; those of wring_cost_model_create().
 */
enum wring_status wring_each_codec_search(const struct wring_cost_model_params *params,
                                          const struct wring_cost_model *model,
                                          enum wring_search_method method, uint64_t deadline_ns,
                                          const struct wring_log *log, struct wring_found *found);

#endif
