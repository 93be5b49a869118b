/* SPDX-License-Identifier: Apache-2.0 */
/** What benchmarks print that measure round trips and streams between two ranks. */
#ifndef WRING_TOOLS_BENCH_LATENCY_H
#define WRING_TOOLS_BENCH_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"

/** On a terminal: the size that was measured last. */
void wring_latency_progress(uint64_t bytes, double median_us, double gb_per_s);

/**
 * All results, as a table below a title or as one JSON object. Nothing where there are none: then
 * this is not rank 0.
 *
 * @param results  a row for each size: bytes, latency_us, bandwidth_gb_per_s, and messages_per_s if
 *                 that has a column
 * @param head     what the object says besides; taken over
 * @return an exit status
 */
int wring_latency_print(json_t *results, bool json, json_t *head, const char *title);

#endif
