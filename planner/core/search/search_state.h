/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A search under way: what all methods share. Each method offers the groupings that it finds; the
 * best of them stays.
 */
#ifndef WRING_SEARCH_SEARCH_STATE_H
#define WRING_SEARCH_SEARCH_STATE_H

#include <stdbool.h>

#include "planner/core/search/cost_tables.h"
#include "planner/core/search/search.h"

/** Of the time: what is less is as good. */
#define WRING_SEARCH_ROUNDING 1e-12

struct wring_search_state {
    const struct wring_cost_tables *tables; /* borrowed, as are the parameters */
    const struct wring_search_params *params;
    const struct wring_choices *choices; /* [WRING_SIZES] options that are worth trying by now */
    uint64_t deadline_ns;
    uint64_t evaluations;
    double time_us;              /* of `best`; DBL_MAX before the first offer */
    struct wring_grouping best;  /* room for a group per tensor */
    struct wring_grouping trial; /* likewise; scratch of the caller */
};

/** Has the time run out? There is an answer by then, at least one offer having been made. */
bool wring_search_late(const struct wring_search_state *search);

/** Keep a copy of the grouping where it is the best so far, or as good with fewer groups. */
void wring_search_offer(struct wring_search_state *search, const struct wring_grouping *grouping);

/** dst = src; room for all groups. */
void wring_search_copy(struct wring_grouping *dst, const struct wring_grouping *src);

/** Are two tensors of kinds that travel apart? */
bool wring_search_kinds_differ(const struct wring_search_state *search, uint32_t tensor,
                               uint32_t other);

/** What a tensor's kind takes where all tensors are to take that option. */
uint32_t wring_search_alike(const struct wring_search_state *search, uint32_t tensor,
                            uint32_t option);

/** Each tensor by itself, with the option (its kind's) or else the first that it may take. */
void wring_search_alone(const struct wring_search_state *search, uint32_t option,
                        struct wring_grouping *out);

/**
 * The grouping that ends groups at the breakpoints, all with one option, each kind with its own; a
 * group that is too large, has several kinds or may not take it falls into ones that can, each
 * tensor by itself with the first option it may take if need be.
 *
 * @param breakpoints  in, [n] rising, the last one n_tensors
 */
void wring_search_uniform(const struct wring_search_state *search, const uint32_t *breakpoints,
                          uint32_t n, uint32_t option, struct wring_grouping *out);

/** Algorithms 1 and 2 of Espresso; one offer. Errors, of all methods: WRING_ERR_NO_MEMORY. */
enum wring_status wring_search_espresso(struct wring_search_state *search);

/** MergeComp's partition, all with one option, within each kind; one offer. Cuts are searched among
 * the breakpoints. */
enum wring_status wring_search_mergecomp(struct wring_search_state *search, uint32_t option,
                                         const uint32_t *breakpoints, uint32_t n);

/** From the best so far: options, borders, merges, splits, until none of them helps. */
enum wring_status wring_local_search(struct wring_search_state *search);

/** From the best so far: neighbours in one group, wherever that costs no time. */
enum wring_status wring_local_search_merge(struct wring_search_state *search);

/**
 * From the best so far: any option for any group, until none helps.
 *
 * @param marked  out, [WRING_SIZES × n_options] options are marked, beside those that are already,
 *                that did best for groups of such sizes
 */
enum wring_status wring_search_every_option(struct wring_search_state *search, bool *marked);

#endif
