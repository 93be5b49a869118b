/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A search under way: what all methods share. Each method offers the groupings that it finds; the
 * best of them stays.
 */
#ifndef WRING_SEARCH_SEARCH_STATE_H
#define WRING_SEARCH_SEARCH_STATE_H

#include <stdbool.h>

#include "planner/core/search/breakpoints.h"
#include "planner/core/search/cost_tables.h"
#include "planner/core/search/search.h"

/** Of the time: what is less is as good. */
#define WRING_SEEK_ROUNDING 1e-12

struct wring_seek {
    const struct wring_rates *rates; /* borrowed, as are the parameters */
    const struct wring_search_params *params;
    const struct wring_choices *choices; /* [WRING_SIZES] options that are worth trying by now */
    uint64_t deadline_ns;
    uint64_t evaluations;
    double time_us;              /* of `best`; DBL_MAX before the first offer */
    struct wring_grouping best;  /* room for a group per tensor */
    struct wring_grouping trial; /* likewise; scratch of the caller */
};

/** Has the time run out? There is an answer by then, at least one offer having been made. */
bool wring_seek_late(const struct wring_seek *seek);

/** Keep a copy of the grouping where it is the best so far, or as good with fewer groups. */
void wring_seek_offer(struct wring_seek *seek, const struct wring_grouping *grouping);

/** dst = src; room for all groups. */
void wring_seek_copy(struct wring_grouping *dst, const struct wring_grouping *src);

/** Each tensor by itself, with the option or else the first that it may take. */
void wring_seek_alone(const struct wring_seek *seek, uint32_t option, struct wring_grouping *out);

/**
 * The grouping that ends groups at the stops, all with one option; a group that is too large or
 * may not take it falls into ones that can, each tensor by itself with the first option it may
 * take if need be.
 *
 * @param stops  in, [n] rising, the last one n_tensors
 */
void wring_seek_uniform(const struct wring_seek *seek, const uint32_t *stops, uint32_t n,
                        uint32_t option, struct wring_grouping *out);

/** Algorithms 1 and 2 of Espresso; one offer. Errors, of all methods: WRING_ERR_NO_MEMORY. */
enum wring_status wring_seek_espresso(struct wring_seek *seek);

/** MergeComp's partition, all with one option; one offer. Cuts are searched among the stops. */
enum wring_status wring_seek_mergecomp(struct wring_seek *seek, uint32_t option,
                                       const uint32_t *stops, uint32_t n);

/** All that is known here. */
enum wring_status wring_seek_best(struct wring_seek *seek);

/** From the best so far: options, borders, merges, splits, until none of them helps. */
enum wring_status wring_seek_nearby(struct wring_seek *seek);

/** From the best so far: neighbours in one group, wherever that costs no time. */
enum wring_status wring_seek_merge(struct wring_seek *seek);

/**
 * From the best so far: any option for any group, until none helps.
 *
 * @param marked  out, [WRING_SIZES × n_options] options are marked, beside those that are already,
 *                that did best for groups of such sizes
 */
enum wring_status wring_seek_every_option(struct wring_seek *seek, bool *marked);

#endif
