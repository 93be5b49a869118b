/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Does a bucket's codec gain time here, or is it better left out? What was measured, and the rule.
 *
 * All members of a group hold the same measurements, so the same call gives the same answer on
 * each. Nothing here waits or allocates.
 */
#ifndef WRING_RUNTIME_COMMIT_CODEC_BYPASS_H
#define WRING_RUNTIME_COMMIT_CODEC_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/bucket.h"
#include "runtime/commit/bypass.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"

/*
 * Trials: buckets that exist for as long as it takes to see how long their steps take. Everything
 * that a real bucket's step meets is in them: the link, the slots, the codec, other ranks' cores.
 */

/** One case: buckets that travel alike in a group, and what steps took in it. */
struct wring_codec_bypass_case {
    struct wring_codec_bypass_case *next;
    uint32_t *ranks; /* [n] of the group */
    uint32_t n;
    struct wring_group *group; /* while fresh */
    char spec[WRING_CODEC_SPEC_MAX];
    enum wring_scheme scheme;
    char executor[WRING_EXECUTOR_TEXT]; /* "": the session's */
    bool placed;                        /* the data lies where sums can be put in place */
    uint64_t wanted;                    /* bytes of the largest bucket that it is asked about now */
    uint64_t measured;                  /* up to which it was measured */
    bool fresh;                         /* wanted, and not measured yet or only for smaller ones */
    struct wring_curve curve;
};

/** Forget all that was measured. */
void wring_codec_bypass_forget(struct wring_session *session);

/* The buckets of trials, and the memory that they share. */

/** The buckets of one wring_codec_bypass_case. */
struct wring_codec_bypass_trial {
    struct wring_codec_bypass_case *tried;
    uint32_t n; /* sizes */
    struct wring_bucket *buckets[WRING_CURVE_POINTS];
    struct wring_bucket *slowest; /* in which the ranks find out how long a step took */
    struct wring_curve curve;
};

struct wring_codec_bypass_bench {
    struct wring_session *session;
    struct wring_bucket *real; /* the session's own buckets, put aside */
    struct wring_codec_bypass_trial *trials;
    uint32_t n;
    uint64_t bytes;         /* of the largest bucket */
    float *source;          /* [bytes] what steps begin with */
    void *placed, *foreign; /* [bytes] or NULL */
    double ns;              /* the data of all buckets `slowest` */
};

#endif
