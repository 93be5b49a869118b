/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Exchanges with tunings other than the configured one. A short measurement of these is enough:
 * the times with the configured tuning are known, and theirs are compared with them.
 */
#ifndef WRING_RUNTIME_AUTOTUNE_EXTRA_TUNINGS_H
#define WRING_RUNTIME_AUTOTUNE_EXTRA_TUNINGS_H

#include "runtime/autotune/autotune.h"

/** One piece size below the configured one and one above it; one core, and several. */
#define WRING_AUTOPLAN_FURTHER_MAX 4

/** A tuning, and the codecs of which the profile has no exchanges with it. */
struct wring_autoplan_further {
    struct wring_tuning tuning;
    struct wring_collective_bench_codecs codecs;
};

struct wring_autoplan_furthers {
    uint32_t n;
    struct wring_autoplan_further list[WRING_AUTOPLAN_FURTHER_MAX];
};

/** Elements of the largest bucket that they are measured with: it has several pieces as configured,
 *  and one at least with any of the tunings. */
uint64_t wring_autoplan_further_elems(const struct wring_autoplan *autoplan);

/**
 * In rank 0: choose the tunings that are worth measuring, and log why others are not.
 *
 * Pinned cores are worth it if an exchange with a codec keeps its processor at work. A rank that
 * waits for the link gains nothing from them. A round of a tuning's buckets must fit into its
 * share of the time, by the profile's times for the configured tuning.
 *
 * @param codecs  that may be used beside none
 * @param params  how the configured one is measured
 */
void wring_autoplan_find_further(const struct wring_autoplan *autoplan,
                                 const struct wring_collective_bench_codecs *codecs,
                                 const struct wring_collective_bench_params *params,
                                 struct wring_autoplan_furthers *out);

/**
 * Find them, measure them and put them into rank 0's profile. Collective. The session is set as
 * configured before and after. A tuning that cannot be had is left out, with a line that says so.
 *
 * @param out  the number of tunings that were measured
 * Errors: those of an exchange.
 */
enum wring_status wring_autoplan_measure_further(struct wring_autoplan *autoplan,
                                                 const struct wring_collective_bench_codecs *codecs,
                                                 const struct wring_collective_bench_params *params,
                                                 uint32_t *out);

#endif
