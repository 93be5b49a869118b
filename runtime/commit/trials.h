/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Trials: buckets that exist for as long as it takes to see how long their steps take. Everything
 * that a real bucket's step meets is in them: the link, the slots, the codec, other ranks' cores.
 */
#ifndef WRING_RUNTIME_TRIALS_H
#define WRING_RUNTIME_TRIALS_H

#include "runtime/bucket.h"
#include "runtime/commit/bypass.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"

/** One way for buckets to travel in a group, and what steps took in it. */
struct wring_tried {
    struct wring_tried *next;
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

/**
 * Measure all that are fresh in the session's list. Collective: a rank has the fresh ones of its
 * groups, perhaps none, and all lists are in one order. The session's channels are gone; what it
 * has of buckets is left alone.
 *
 * Each takes a few steps of 4 KiB, 64 KiB, 1 MiB and 8 MiB, the largest no larger than `wanted`,
 * and ends early once a step takes milliseconds. The time of a step is that of its slowest rank,
 * and of a few the median counts. All ways have two turns at steps of less than 50 ms, and the
 * lower median is taken: who was disturbed in one turn is not left out for it.
 *
 * Errors: those of a commit, and of a bucket's wait. Nothing is taken over then.
 */
enum wring_status wring_trials_run(struct wring_session *session);

/** Forget all that was measured. */
void wring_trials_forget(struct wring_session *session);

#endif
