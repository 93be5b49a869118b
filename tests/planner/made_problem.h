/* SPDX-License-Identifier: Apache-2.0 */
/** Problems for tests of the search: random ones, and a fabric after the constants of Espresso. */
#ifndef WRING_TESTS_MADE_PROBLEM_H
#define WRING_TESTS_MADE_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "planner/core/problem.h"

struct wring_made_problem {
    struct wring_problem problem; /* points into what follows */
    double *compute_us;
    uint64_t *elems;
    struct wring_option_cost *options;
    uint64_t *allowed;
};

struct wring_made_params {
    uint32_t n_tensors, n_lanes, n_options;
    uint32_t seed;
    bool chunked;    /* some options cut groups into chunks */
    bool restricted; /* some tensors may take some options only, but always option 0 */
};

/** A random problem whose options trade lanes against each other. Aborts without memory. */
void wring_made_random(const struct wring_made_params *params, struct wring_made_problem *made);

/** One of up to so many tensors and options. @param seed  tells all of it */
void wring_made_seeded(uint32_t seed, uint32_t tensors_max, uint32_t options_max,
                       struct wring_made_problem *made);

/** One with up to four options, whose groups are limited in some. @param seed  tells all of it */
void wring_made_small(uint32_t seed, uint32_t tensors_max, struct wring_made_problem *made);

/** A poor start: each tensor alone, with option 0. @param grouping  out: room for all tensors */
void wring_made_alone(const struct wring_problem *problem, struct wring_grouping *grouping);

/**
 * A cluster of 8 × 8, phase lanes (device, intra in, CPU, inter, decode, intra out), with none,
 * fp16, and Rand-k and OneBit each on the device, on it at both levels, and on the CPU: 8 options.
 *
 * @param elems     in, [n], of each tensor
 * @param ready_us  in, [n], rising
 * @param nvlink    the faster of two links inside a node
 * @param inter     bandwidth between nodes, times that of 10 Gbit/s
 */
void wring_made_fabric(uint32_t n, const uint64_t *elems, const double *ready_us, bool nvlink,
                       double inter, struct wring_made_problem *made);

void wring_made_finish(struct wring_made_problem *made);

#endif
