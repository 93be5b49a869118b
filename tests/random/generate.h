/* SPDX-License-Identifier: Apache-2.0 */
/** Random programs, out of a seed. */
#ifndef WRING_TESTS_RANDOM_GENERATE_H
#define WRING_TESTS_RANDOM_GENERATE_H

#include "tests/random/program.h"

/** Names of configurations, NULL-terminated: which axes are drawn, and of what. */
extern const char *const generate_configs[];

/**
 * The program of a seed and a configuration, always the same one.
 * @param config  one of the above
 * @param faults  with disconnects, or a process that is killed
 */
void generate_program(struct program *out, uint64_t seed, const char *config, bool faults);

#endif
