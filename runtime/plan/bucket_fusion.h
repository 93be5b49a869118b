/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Buckets that travel as one, because a plan says so. A fused bucket, which the application does
 * not see, has their elements one after another; it is posted with the last of them, and each takes
 * its part back when it is tested or waited for. Where they lie one after another in memory
 * already, nothing is copied.
 */
#ifndef WRING_RUNTIME_PLAN_BUCKET_FUSION_H
#define WRING_RUNTIME_PLAN_BUCKET_FUSION_H

#include "runtime/bucket.h"

struct wring_bucket_fusion {
    struct wring_bucket *fused;    /* among the session's buckets, instead of its members */
    struct wring_bucket **members; /* [n], in the fused bucket's order */
    uint32_t n;
    atomic_ullong posted; /* members, since they were fused: n for each step */
    atomic_ullong step;   /* posts of the fused bucket; the thread that posts it writes this last */
    atomic_int refused;   /* why its last post began no step; WRING_OK: it did */
    atomic_bool turn;     /* a thread looks after a fused bucket that goes past the engine */
    bool in_place;
    bool owns_data; /* the fused bucket's memory is a buffer of its own */
};

/** How a fused bucket travels. */
struct wring_bucket_fusion_params {
    const char *name;  /* of the fused bucket: unique, equal on all ranks */
    const char *codec; /* spec */
    enum wring_scheme scheme;
    int32_t priority;
    const char *executor; /* runs its jobs; NULL: that of the members, which agree */
};

/**
 * Join buckets: one fused bucket takes their place in the session's list, and takes over their
 * residuals. Before a commit; no step is in flight.
 *
 * @param members  [n], in the order of their elements; dtype, operation and group are equal
 *
 * Errors: WRING_ERR_UNSUPPORTED (the codec cannot code these buckets), WRING_ERR_INVALID (codec and
 * scheme), WRING_ERR_NO_MEMORY. After an error the list is as it was.
 */
enum wring_status wring_bucket_fusion_make(struct wring_session *session,
                                           struct wring_bucket *const *members, uint32_t n,
                                           const struct wring_bucket_fusion_params *how);

/** Part them all: the list is as it was, and each member has its residual again. */
enum wring_status wring_bucket_fusion_part_all(struct wring_session *session);

/** The session is closed: those whose fellows were never posted hear of that. */
void wring_bucket_fusion_end_unsent(struct wring_session *session);

/** The steps of a bucket that travels with others. Threads: members may be posted, tested and
 * waited for from different ones. */
extern const struct wring_bucket_ops wring_bucket_fusion_ops;

#endif
