/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Collectives with tunings other than the configured one. A short measurement of these is enough:
 * the times with the configured tuning are known, and theirs are compared with them.
 */
#ifndef WRING_RUNTIME_AUTOTUNE_EXTRA_TUNINGS_H
#define WRING_RUNTIME_AUTOTUNE_EXTRA_TUNINGS_H

#include "runtime/autotune/autotune.h"

/** One piece size below the configured one and one above it; one core, and several. */
#define WRING_AUTOTUNE_EXTRA_TUNINGS_MAX 4

/** A tuning, and the codecs of which the profile has no collectives with it. */
struct wring_autotune_extra_tuning {
    struct wring_tuning tuning;
    struct wring_collective_bench_codecs codecs;
};

struct wring_autotune_extra_tunings {
    uint32_t n;
    struct wring_autotune_extra_tuning list[WRING_AUTOTUNE_EXTRA_TUNINGS_MAX];
};

/** Elements of the largest bucket that they are measured with: it has several pieces as configured,
 *  and one at least with any of the tunings. */
uint64_t wring_autotune_extra_elems(const struct wring_autotune *autotune);

/**
 * In rank 0: choose the tunings that are worth measuring, and log why others are not.
 *
 * Pinned cores are worth it if a collective with a codec keeps its processor at work. A rank that
 * waits for the link gains nothing from them. A turn of a tuning's buckets must fit into its
 * share of the time, by the profile's times for the configured tuning.
 *
 * @param codecs  that may be used beside none
 * @param params  how the configured one is measured
 */
void wring_autotune_find_extra_tunings(const struct wring_autotune *autotune,
                                       const struct wring_collective_bench_codecs *codecs,
                                       const struct wring_collective_bench_params *params,
                                       struct wring_autotune_extra_tunings *out);

/**
 * Find them, measure them and put them into rank 0's profile. Collective. The session is set as
 * configured before and after. A tuning that cannot be had is left out, with a line that says so.
 *
 * @param out  the number of tunings that were measured
 * Errors: those of an exchange.
 */
enum wring_status wring_autotune_measure_extra_tunings(
    struct wring_autotune *autotune, const struct wring_collective_bench_codecs *codecs,
    const struct wring_collective_bench_params *params, uint32_t *out);

#endif
