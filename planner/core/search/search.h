/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Searching for a plan, and proving how far from the best one it can be at most.
 *
 * Everything here is deterministic: the same problem and the same limits other than time give the
 * same answer. Each call owns its memory; threads: safe on one problem.
 */
#ifndef WRING_SEARCH_SEARCH_H
#define WRING_SEARCH_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/problem.h"
#include <wring/status.h>

enum wring_search_method {
    WRING_SEARCH_BEST,      /* all that is known here: starting points, then local search */
    WRING_SEARCH_ESPRESSO,  /* Algorithms 1 and 2 of Espresso (EuroSys 2023) */
    WRING_SEARCH_MERGECOMP, /* MergeComp's partition into groups (arXiv:2103.15195) */
};

struct wring_search_params {
    enum wring_search_method method;
    uint64_t budget_ns;      /* ends by then with the best so far; 0: by itself */
    uint64_t evaluations;    /* WRING_SEARCH_BEST: goes far, and begins nothing new after so many;
                                0: as far as takes milliseconds */
    const uint32_t *offload; /* [n_options] Algorithm 2: the option of the same codec on the
                                CPU, or n_options for none; NULL: none has one */
    const bool *on_device;   /* [n_options] Algorithm 1: the options it may choose, which code on
                                the device alone; NULL: all that are nobody's offload */
    uint32_t uncompressed;   /* the option in which nothing is coded */

    /* Tensors of several kinds, no two of which may take one option; NULL: all are of one kind */
    const uint8_t *kinds;  /* [n_tensors] */
    const uint32_t *alike; /* [kinds × n_options] what a kind takes where all tensors are to take
                              that option: its own, in the end; n_options: the first that a tensor
                              may take */
};

struct wring_found {
    struct wring_grouping grouping; /* the caller's to finish */
    double time_us;
    uint64_t evaluations; /* of a timeline, whole or in part */
    uint64_t took_ns;
};

/**
 * Look for a good grouping.
 *
 * Errors: WRING_ERR_INVALID (some tensor may take no option), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_search_run(const struct wring_problem *problem,
                                   const struct wring_search_params *params,
                                   struct wring_found *out);

/**
 * Put neighbours into one group wherever that costs no time: of groupings that take as long, one
 * of few groups is easier to run and to read.
 *
 * @param time_us  in and out: the grouping's time; it gets no longer, but for rounding
 */
enum wring_status wring_search_merge(const struct wring_problem *problem,
                                     struct wring_grouping *grouping, double *time_us);

struct wring_bound_params {
    uint64_t budget_ns; /* 0: until it is exact or nothing more is gained */
    uint64_t effort;    /* 0: likewise; else ends when about as much was looked at as takes as many
                           nanoseconds here, whatever the machine: the answer is the same on all */
};

struct wring_bound {
    double time_us; /* no grouping takes less */
    bool exact;     /* and one takes as much: it was put into `grouping` */
    uint64_t nodes; /* of branch-and-bound that were looked at */
    uint64_t took_ns;
};

/**
 * Prove a lower bound: the relaxation over the chain of lanes, then branch-and-bound.
 *
 * @param grouping  in: the best known; replaced where a better one is found
 * @param time_us   in and out: its time
 */
enum wring_status wring_bound_run(const struct wring_problem *problem,
                                  const struct wring_bound_params *params,
                                  struct wring_grouping *grouping, double *time_us,
                                  struct wring_bound *out);

/** Room for as many groups as there are tensors. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_grouping_init(struct wring_grouping *grouping, uint32_t n_tensors);

/** Free what init took. */
void wring_grouping_finish(struct wring_grouping *grouping);

#endif
