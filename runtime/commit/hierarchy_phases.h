/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Legs: what a bucket that goes hierarchically is made of (transport/collective/hierarchical.h).
 * Each is a bucket among the session's, over a part of the whole's data, in a group that only it
 * has: so it is compared, laid out and connected like any other. Applications do not see them.
 */
#ifndef WRING_RUNTIME_COMMIT_HIERARCHY_PHASES_H
#define WRING_RUNTIME_COMMIT_HIERARCHY_PHASES_H

#include "runtime/bucket.h"
#include "runtime/group/group.h"
#include "transport/collective/hierarchical.h"

/** A bucket's legs, and what drives them. */
struct wring_bucket_levels {
    struct wring_levels driven;
    uint32_t n; /* slices */
    struct wring_bucket *legs[WRING_SLICES_MAX][WRING_LEGS];
};

static inline struct wring_bucket *wring_leg_bucket(const struct wring_bucket *whole,
                                                    uint32_t slice, enum wring_leg leg)
{
    return whole->levels->legs[slice][leg];
}

/**
 * Make the legs of all buckets whose scheme wants them, as far as their group has two nodes or more
 * of two ranks or more each, equally many. Others go flat, by the scheme that they want between
 * nodes; where nodes are not equal, that is logged once, and a plan that wants legs is refused. So
 * do votes (WRING_CODEC_VOTES), which is logged, too. Buckets that go around a ring have its order
 * in their group after this. Local; before buckets are compared. Errors: WRING_ERR_MISMATCH (the
 * plan), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_legs_make(struct wring_session *session);

/** All legs are gone from the session's list; their channels were before. */
void wring_legs_remove(struct wring_session *session);

#endif
