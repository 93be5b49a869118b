/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Calls that are inside a session, so that whoever closes it can have them leave and wait for that.
 *
 * A call counts itself in and out. Only a step of a plain bucket, which takes less time than to
 * count, marks the bucket instead, and then looks whether it is still plain: it is not once the
 * session is being closed. Whoever closes it comes once, and has the kernel fence all cores between
 * making buckets plain no more and looking at their marks (base/fence.h). Where the kernel does not
 * do that for us, no bucket is plain.
 */
#ifndef WRING_RUNTIME_CALLERS_H
#define WRING_RUNTIME_CALLERS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/fence.h"

struct wring_callers {
    atomic_uint n; /* inside, but for those that marked a bucket */
    atomic_bool closing;
    bool may_mark; /* heavy fences reach us */
};

/** A call of a plain bucket, one at a time. */
struct wring_caller_mark {
    atomic_bool inside, plain;
};

void wring_callers_init(struct wring_callers *callers);

/** @return false: the session is being closed, and the call must not touch it */
bool wring_callers_enter(struct wring_callers *callers);

/** The last thing that a call does with the session. */
static inline void wring_callers_leave(struct wring_callers *callers)
{
    atomic_fetch_sub_explicit(&callers->n, 1, memory_order_release);
}

static inline void wring_caller_unmark(struct wring_caller_mark *mark)
{
    atomic_store_explicit(&mark->inside, false, memory_order_release);
}

/** Enter by a mark. @return false: it is not plain, or no longer; enter by the count */
static inline bool wring_caller_mark(struct wring_caller_mark *mark)
{
    atomic_store_explicit(&mark->inside, true, memory_order_relaxed);
    wring_fence_light();
    if (atomic_load_explicit(&mark->plain, memory_order_relaxed))
        return true;
    wring_caller_unmark(mark);
    return false;
}

/** From now on nobody enters by the count. */
static inline void wring_callers_close(struct wring_callers *callers)
{
    atomic_store(&callers->closing, true);
}

static inline bool wring_callers_closing(const struct wring_callers *callers)
{
    return atomic_load_explicit(&callers->closing, memory_order_acquire);
}

#endif
