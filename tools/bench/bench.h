/* SPDX-License-Identifier: Apache-2.0 */
/** The measurements of `wring bench`, and what they have in common. */
#ifndef WRING_TOOLS_BENCH_H
#define WRING_TOOLS_BENCH_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"

int wring_bench_allreduce(int argc, char **argv);
int wring_bench_codec(int argc, char **argv);
int wring_bench_p2p(int argc, char **argv);
int wring_bench_scale(int argc, char **argv);
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

/** Spreads the bits of x all over the word: the finaliser of SplitMix64. */
uint64_t wring_mix_bits(uint64_t x);

/** Fill [elems] with a rank's numbers. */
void wring_pattern_fill(float *data, uint64_t elems, uint32_t rank);

/* Commands that need several ranks: start them here, unless a launcher did. */

/**
 * Run `wring WORDS` with these arguments in ranks of our own, each of which finds that a launcher
 * started it.
 *
 * @param name   of the command, before messages
 * @param words  "bench", "p2p", NULL: the command's own
 * @param argv  [argc], as given to the command: argv[0] is its name
 * @return the status to exit with
 */
int wring_start_ranks(const char *name, const char *const *words, uint32_t ranks, int argc,
                      char **argv);

/** A copy of the arguments, as parsing cuts lists in place. NULL without memory. */
char **wring_arguments_copy(int argc, char **argv);
void wring_arguments_free(int argc, char **argv);

/* Options that the measurements of `wring bench` have in common. */

/** Where their values go; borrowed while they are parsed. */
struct wring_bench_options {
    double *seconds; /* for each measurement */
    bool *json;
};

/** --seconds and --json, as a child of a command's own parser; input: struct wring_bench_options.
 */
extern const struct argp wring_bench_argp;

/** Sizes that a command takes. */
struct wring_bench_sizes {
    uint64_t min, max, multiple_of;
    const char *what; /* "a size from 1 to 1g" */
};

/**
 * The items of a list; ends in a usage error where there are none, or too many.
 *
 * @param option  "codec", and what its items are: "specs"
 * @param arg     cut in place; items point into it
 * @param items   out, [max]
 * @return how many there are
 */
size_t wring_bench_parse_list(const char *option, const char *what, char *arg, char **items,
                              size_t max, const struct argp_state *state);

/** The sizes of --bytes, likewise; at most WRING_BENCH_LIST_MAX. @param sizes  out */
size_t wring_bench_parse_sizes(const struct wring_bench_sizes *allowed, char *arg, uint64_t *sizes,
                               const struct argp_state *state);

/**
 * Is that a provider's name, or "auto", or none (NULL)? Says so if not: bad usage.
 * @param command  before the line
 */
bool wring_bench_knows_provider(const char *command, const char *provider);

#define WRING_BENCH_LIST_MAX 64

#endif
