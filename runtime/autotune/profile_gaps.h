/* SPDX-License-Identifier: Apache-2.0 */
/** Finds the codecs and bucket sizes that this job may use and its profile does not know. */
#ifndef WRING_RUNTIME_AUTOTUNE_PROFILE_GAPS_H
#define WRING_RUNTIME_AUTOTUNE_PROFILE_GAPS_H

#include "runtime/autotune/autotune.h"

struct wring_autotune_profile_gaps {
    struct wring_collective_bench_codecs codecs; /* of which it knows nothing */
    struct wring_collective_bench_codecs larger; /* of which it knows too small buckets only */
    uint32_t first; /* of their sizes: the largest that all of them know */
};

/**
 * Find it, in rank 0, whose profile has nothing but collectives of the configured tuning.
 *
 * Larger buckets are worth measuring as far as groups of this job may have so many elements, and
 * where a round of them takes no longer than measuring lets one take: what was left out for its
 * time is not missing.
 *
 * @param codecs  that may be used beside none
 * @param params  how it would be measured: max_elems, budget_ns
 * @param out     no codec, where nothing is missing; without a profile all codecs, and none
 */
void wring_autotune_find_profile_gaps(const struct wring_autotune *autotune,
                                      const struct wring_collective_bench_codecs *codecs,
                                      const struct wring_collective_bench_params *params,
                                      struct wring_autotune_profile_gaps *out);

/** Say it to the other ranks, or hear it. Errors: as reading fails, in->failed. */
void wring_autotune_write_profile_gaps(const struct wring_autotune_profile_gaps *gaps,
                                       struct wring_writer *out);
void wring_autotune_read_profile_gaps(struct wring_reader *in,
                                      struct wring_autotune_profile_gaps *out);

/* Measuring what a job's profile lacks. */

/**
 * Measure what is missing with the session as configured, and then other tunings that are worth
 * it. All of it is added to rank 0's profile. Collective. Before it the profile has collectives of
 * the configured tuning alone, and afterwards all.
 *
 * @param codecs   that may be used beside none
 * @param missing  nothing, where the profile lacks nothing of the configured tuning; without a
 *                 profile there is one then
 * @param measured out, true if anything was, and the profile is another one than before
 * Errors: those of measuring, and WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_autotune_measure(struct wring_autotune *autotune,
                                         const struct wring_collective_bench_codecs *codecs,
                                         const struct wring_collective_bench_params *params,
                                         const struct wring_autotune_profile_gaps *gaps,
                                         bool *measured);

#endif
