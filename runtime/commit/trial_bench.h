/* SPDX-License-Identifier: Apache-2.0 */
/** The buckets of trials, and the memory that they share. */
#ifndef WRING_RUNTIME_TRIAL_BENCH_H
#define WRING_RUNTIME_TRIAL_BENCH_H

#include "runtime/commit/trials.h"

/** The buckets of one wring_tried. */
struct wring_trial {
    struct wring_tried *tried;
    uint32_t n; /* sizes */
    struct wring_bucket *buckets[WRING_CURVE_POINTS];
    struct wring_bucket *slowest; /* in which the ranks find out how long a step took */
    struct wring_curve curve;
};

struct wring_trial_bench {
    struct wring_session *session;
    struct wring_bucket *real; /* the session's own buckets, put aside */
    struct wring_trial *trials;
    uint32_t n;
    uint64_t bytes;         /* of the largest bucket */
    float *source;          /* [bytes] what steps begin with */
    void *placed, *foreign; /* [bytes] or NULL */
    double ns;              /* the data of all buckets `slowest` */
};

/**
 * Register the buckets of all that are fresh in the session's list, which has no others meanwhile.
 * Local. Errors: WRING_ERR_NO_MEMORY and those of a registration; finish it then, too.
 */
enum wring_status wring_trial_bench_init(struct wring_trial_bench *bench);

/** The session is as it was before. */
void wring_trial_bench_finish(struct wring_trial_bench *bench);

#endif
