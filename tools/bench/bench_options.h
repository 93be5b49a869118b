/* SPDX-License-Identifier: Apache-2.0 */
/** Options that the measurements of `wring bench` have in common. */
#ifndef WRING_TOOLS_BENCH_OPTIONS_H
#define WRING_TOOLS_BENCH_OPTIONS_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Where their values go; borrowed while they are parsed. */
struct wring_bench_options {
    double *seconds; /* on each of what is measured */
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

#define WRING_BENCH_LIST_MAX 32

#endif
