/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The problem that the planner solves, free of networks and codecs: tensors become ready one after
 * another; consecutive ones may travel as one group; a group takes one of the options, and passes
 * through a chain of lanes, each of which serves the groups in their order (a permutation flow
 * shop). Wanted: groups and options with the least time until the last lane is done.
 *
 * Lane 0 computes: a group begins there when the group before has left it, takes the computing of
 * its own tensors and, after it, whatever coding its option does there. On the lanes after it:
 *
 *     end[group][lane] = max(end[group − 1][lane], end[group][lane − 1]) + took[group][lane]
 *
 * An option that cuts a group into chunks sends chunk after chunk through the lanes; the first
 * enters when all of the group has been computed.
 *
 * A problem is read-only once built; threads: safe.
 */
#ifndef WRING_PLANNER_PROBLEM_H
#define WRING_PLANNER_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/cost.h"

#define WRING_PLAN_LANES_MAX 8

/** What an option makes of a group of `elems` elements. */
struct wring_option_cost {
    struct wring_cost
        once[WRING_PLAN_LANES_MAX]; /* us by elements of the group, with its first chunk */
    struct wring_cost each[WRING_PLAN_LANES_MAX]; /* us by elements of a chunk, of every chunk */
    uint64_t chunk_elems;                         /* 0: a group is one chunk */
};

struct wring_problem {
    uint32_t n_tensors, n_lanes, n_options;
    const double *compute_us; /* [n_tensors] of lane 0 until a tensor is ready, since the one
                                 before it */
    const uint64_t *elems;    /* [n_tensors + 1] of all tensors before this one */
    const struct wring_option_cost *options; /* [n_options] */
    const uint64_t *allowed;  /* [n_tensors × words] bit o: the tensor may take option o; a group
                                 may what all its tensors may. NULL: anything */
    uint64_t max_group_elems; /* 0: no limit; a tensor alone may always be larger */
    bool backwards; /* seen from its end: it computes on its last lane, and what comes once comes
                       with a group's last chunk */
};

/** Words of wring_problem.allowed of one tensor. */
static inline uint32_t wring_problem_words(const struct wring_problem *problem)
{
    return (problem->n_options + 63) / 64;
}

/** The lane that computes. */
static inline uint32_t wring_problem_computes(const struct wring_problem *problem)
{
    return problem->backwards ? problem->n_lanes - 1 : 0;
}

/** Tensors in consecutive groups, each with its option: what a search looks for. */
struct wring_grouping {
    uint32_t n;       /* groups */
    uint32_t *end;    /* [n] the tensor after a group's last; rising, the last one n_tensors */
    uint32_t *option; /* [n] */
};

/**
 * The times of a group of the tensors [begin, end).
 * @param once  out, [n_lanes]: added to the first chunk; computing is here, in its lane
 * @param each  out, [n_lanes]: of every chunk
 * @return chunks, 1 or more
 */
uint64_t wring_problem_group(const struct wring_problem *problem, uint32_t begin, uint32_t end,
                             uint32_t option, double *once, double *each);

/**
 * One group more. @param ends  in and out, [n_lanes]: when each lane is done
 *
 * K equal chunks p through lanes that were done at s, without a simulation of each (max-plus
 * algebra): end[l] = max over j ≤ l of s[j] + p[j] + … + p[l] + (K − 1) · max(p[j … l]).
 */
void wring_problem_advance(const struct wring_problem *problem, uint64_t chunks, const double *once,
                           const double *each, double *ends);

/** The time of a whole grouping, in us, from the definition above: the plain reference. */
double wring_problem_time(const struct wring_problem *problem,
                          const struct wring_grouping *grouping);

#endif
