/* SPDX-License-Identifier: Apache-2.0 */
/** A collective without a registered bucket, and the work for the engine that it comes to. */
#ifndef WRING_RUNTIME_GROUP_IMMEDIATE_WORK_H
#define WRING_RUNTIME_GROUP_IMMEDIATE_WORK_H

#include "runtime/group/group.h"

/** One call. */
struct wring_immediate {
    enum wring_call_kind kind;
    struct wring_group *group;
    const void *in;
    void *out;
    uint64_t elems;           /* of each run: the most where they have any lengths */
    const uint64_t *in_runs;  /* [members] of runs of any lengths; NULL: there are none */
    const uint64_t *out_runs; /* alltoallv; else NULL */
    enum wring_dtype dtype;
    enum wring_op op;
    uint32_t root;      /* broadcast, reduce, gather, scatter; else 0 */
    uint64_t in_elems;  /* of all that `in` holds */
    uint64_t out_elems; /* of all that `out` does */
    const void *alias;  /* where in `out` `in` may lie, exactly; NULL: nowhere */
    struct wring_call how;
    bool has_how; /* else `how` is all defaults */
};

static inline bool wring_immediate_is_root(const struct wring_immediate *call)
{
    return call->root == call->group->members.me;
}

/**
 * Check a call and describe its work. The algorithm is left to wring_immediate_select().
 * @param call  kind to dtype, op and root are set; the rest is written
 * @param how   NULL: no options
 * @param work  out; its `memory` is the caller's to free, whatever is returned
 * Errors: WRING_ERR_INVALID, WRING_ERR_UNSUPPORTED, those of wring_group_codec(): all are logged.
 *         WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_immediate_begin(struct wring_immediate *call, const struct wring_call *how,
                                        struct wring_work *work);

/** The same of an allreduce like one that was made before. @param kept  that one's work
 *  Errors: WRING_ERR_INVALID. */
enum wring_status wring_immediate_begin_again(struct wring_immediate *call,
                                              const struct wring_work *kept,
                                              struct wring_work *work);

#endif
