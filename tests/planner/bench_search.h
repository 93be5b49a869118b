/* SPDX-License-Identifier: Apache-2.0 */
/** How fast the search is: figures to read, nothing that passes or fails. */
#ifndef WRING_TESTS_BENCH_SEARCH_H
#define WRING_TESTS_BENCH_SEARCH_H

/** Evaluations per second; then searches of the traces named. @return exit status */
int wring_bench_search(int n_traces, char **traces);

#endif
