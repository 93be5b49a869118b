/* SPDX-License-Identifier: Apache-2.0 */
/** One rank's part of a random program. */
#ifndef WRING_TESTS_RANDOM_PROGRAM_RUN_H
#define WRING_TESTS_RANDOM_PROGRAM_RUN_H

#include "tests/random/results.h"

#define RUN_TEXT 640

struct run_memory; /* that a rank got and has not given back */

/**
 * Run it on an open session, which the caller closes; then run_free().
 * @param why   out, [RUN_TEXT]; what failed where, if anything did
 * @param kept  out, memory that buckets use until the session is closed
 * @return WRING_OK, or what the first call that failed returned
 */
enum wring_status run_program(struct wring_session *session, const struct results *results,
                              char *why, struct run_memory **kept);

void run_free(struct run_memory *kept);

/** The settings of a rank: pointers into the program and to `node`, [32], which is written; NULL
 *  ends. @param list  out, [PROGRAM_SETTINGS + 2] */
void run_settings(const struct program *p, uint32_t rank, char *node, const char **list);

#endif
