/* SPDX-License-Identifier: Apache-2.0 */
/**
 * What whole exchanges take in this session: buckets that exist for as long as it takes to see how
 * long theirs are, alone and several at once.
 */
#ifndef WRING_RUNTIME_MEASURE_WAYS_H
#define WRING_RUNTIME_MEASURE_WAYS_H

#include "planner/files/profile.h"
#include "runtime/session/session.h"

#define WRING_MEASURE_CODECS_MAX 16

struct wring_measure_params {
    uint32_t n_codecs;
    char codecs[WRING_MEASURE_CODECS_MAX][WRING_CODEC_SPEC_MAX]; /* canonical, beside none */
    uint32_t cores;     /* that the ranks of a node have together, for the profile */
    uint64_t max_elems; /* of the largest bucket, about */
    uint64_t budget_ns; /* about; at least a few rounds are made */
    bool placed;        /* in memory of wring's own, where sums are put into place */
    bool probe;         /* none alone, two sizes, a few rounds: do these exchanges still take what a
                           profile says? */
};

/**
 * Measure, and put the ways into a profile, in place of those of the same name; with what a model
 * asks of codecs beside them. Collective, before the buckets are connected; the session is as it
 * was then. All ranks end with the same numbers, those of the slowest one.
 *
 * Sizes are 1 Ki, 4 Ki, ... elements. Larger ones are left out whose exchange takes a tenth of the
 * time.
 *
 * Errors: those of a commit and of a bucket's wait, on all ranks.
 */
enum wring_status wring_measure_ways(struct wring_session *session,
                                     const struct wring_measure_params *params,
                                     struct wring_profile *profile);

#endif
