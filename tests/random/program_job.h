/* SPDX-License-Identifier: Apache-2.0 */
/** All ranks of a random program, as threads or as processes. */
#ifndef WRING_TESTS_RANDOM_PROGRAM_JOB_H
#define WRING_TESTS_RANDOM_PROGRAM_JOB_H

#include "tests/random/results.h"

/**
 * Run it. A rank that fails without a fault of the program's, one that is not through in time, and
 * one that ends in another way than a fault allows, is a failed check.
 * @param verbose  ranks' log lines are shown
 */
void job_run(const struct program *p, struct results *results, bool verbose);

#endif
