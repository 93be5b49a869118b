/* SPDX-License-Identifier: Apache-2.0 */
/** The measurements of `wring bench`, and what they have in common. */
#ifndef WRING_TOOLS_BENCH_H
#define WRING_TOOLS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"

int wring_bench_allreduce(int argc, char **argv);
int wring_bench_codec(int argc, char **argv);
int wring_bench_p2p(int argc, char **argv);
int wring_bench_sendrecv(int argc, char **argv);

/** Minimum, median and 99th percentile (nearest rank) of n > 0 times; sorts them. */
struct wring_spread {
    double min, median, p99;
};
struct wring_spread wring_spread_of(double *times, size_t n);

/** How many of `each_ns` fit into `ns`; from min to max. */
uint64_t wring_bench_fit(double ns, double each_ns, uint64_t min, uint64_t max);

/**
 * Number i of a rank: bell-shaped, within (-1, 1), a multiple of 2^-15, so that float32 sums over
 * up to WRING_PATTERN_RANKS_MAX ranks are exact in any order.
 */
float wring_pattern(uint32_t rank, uint64_t i);
#define WRING_PATTERN_RANKS_MAX 512

/** Fill [elems] with a rank's numbers. */
void wring_pattern_fill(float *data, uint64_t elems, uint32_t rank);

#endif
