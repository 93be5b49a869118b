/* SPDX-License-Identifier: Apache-2.0 */
/* A group whose calls end now, on all of its members; and calls that are given up by that. */
#include "runtime/group/group_abort.h"

#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/request.h"
#include "runtime/result.h"

#define WRING_MODULE "group"
#define QUIET_NS (50 * WRING_NS_PER_MS) /* so long may what is under way still use memory */

void wring_group_cease(struct wring_group *group, uint32_t rank)
{
    struct wring_session *session = group->session;

    if (atomic_load(&group->aborted_by) != 0)
        return;
    atomic_store(&group->aborted_by, rank + 1);
    if (rank != session->rank)
        wring_warn(&session->log, "rank %" PRIu32 " aborted a group of %" PRIu32 " ranks", rank,
                   group->members.n);
    wring_requests_cease(group);
    wring_engine_cease(session->engine, &group->collective, WRING_ERR_CANCELLED);
}

/** End all, and tell the others. The engine is locked. */
static void cease_all(struct wring_group *group)
{
    bool first = atomic_load(&group->aborted_by) == 0;
    wring_group_cease(group, group->session->rank);
    if (first)
        wring_pairs_cease(&group->pairs);
    wring_engine_poll(group->session->engine);
}

/** No job and no put of its calls uses anybody's memory. */
static bool is_quiet(struct wring_group *group)
{
    struct wring_progress *progress = group->session->progress;
    wring_progress_lock(progress);
    wring_engine_poll(group->session->engine);
    bool quiet = wring_collective_is_quiet(&group->collective);
    wring_progress_unlock(progress);
    return quiet;
}

/** @return WRING_ERR_BUSY: a peer does not take what is on its way to it */
static enum wring_status await_quiet(struct wring_group *group)
{
    const struct timespec pause = {0, WRING_NS_PER_MS / 4};
    uint64_t until_ns = wring_deadline_in(QUIET_NS);

    while (!is_quiet(group)) {
        if (wring_now_ns() >= until_ns)
            return WRING_ERR_BUSY;
        nanosleep(&pause, NULL);
    }
    return WRING_OK;
}

enum wring_status wring_group_abort_inside(struct wring_group *group)
{
    struct wring_session *session = group->session;

    if (atomic_load(&group->n_buckets) > 0) {
        wring_error(&session->log, "a group that has buckets cannot be aborted alone: abort the "
                                   "session, or make the calls in a group of their own");
        return WRING_ERR_UNSUPPORTED;
    }
    wring_progress_lock(session->progress);
    cease_all(group);
    wring_progress_unlock(session->progress);
    enum wring_status status = await_quiet(group);
    wring_session_call_back(session);
    return status;
}

enum wring_status wring_group_abort(struct wring_group *group)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, wring_group_abort_inside(group));
}
