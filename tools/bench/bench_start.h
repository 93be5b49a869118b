/* SPDX-License-Identifier: Apache-2.0 */
/** Commands that need several ranks: start them here, unless a launcher did. */
#ifndef WRING_TOOLS_BENCH_START_H
#define WRING_TOOLS_BENCH_START_H

#include <stdint.h>

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

#endif
