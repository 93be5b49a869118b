/* SPDX-License-Identifier: Apache-2.0 */
/** Few cases out of many dimensions, such that every pair of values stands in one of them. */
#ifndef WRING_TESTS_COVER_H
#define WRING_TESTS_COVER_H

#include <stddef.h>
#include <stdint.h>

#define WRING_COVER_DIMENSIONS 24

struct wring_cover_params {
    size_t dimensions;
    uint32_t values[WRING_COVER_DIMENSIONS]; /* of each dimension: 0..values-1 */
    uint32_t seed;                           /* not 0 */
    void *arg;
    /** Make a choice one that can be run, by changing what does not go together. */
    void (*mend)(void *arg, uint32_t *choice);
    void (*run)(void *arg, const uint32_t *choice);
};

/**
 * Run choices until all pairs that mended choices are found to hold have been run.
 * @return how many choices were run
 */
size_t wring_cover_pairs(const struct wring_cover_params *params);

#endif
