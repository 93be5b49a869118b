/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A commit from above: which buckets travel as one (plan/), what ranks mean by them, which codecs
 * run and over which channels (commit/). The two do not call each other.
 */
#include "runtime/session/commit.h"

#include "runtime/autotune/autotune.h"
#include "runtime/commit/commit.h"
#include "runtime/commit/hierarchy_phases.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/recorder.h"
#include "runtime/versioned_struct.h"

/** What travels as one, in which legs, and where it lies. Collective: it goes on where all ranks
 * could. */
static enum wring_status arrange_buckets(struct wring_session *session)
{
    enum wring_status status = wring_commit_check_groups(session);
    if (status == WRING_OK)
        status = wring_autotune_settle(session);
    if (status == WRING_OK)
        status = wring_plan_apply(session);
    if (status == WRING_OK)
        status = wring_legs_make(session);
    status = wring_session_agree(session, status, NULL);
    if (status != WRING_OK)
        return status;
    return wring_commit_find_data(session);
}

/** All that follows the last commit's end. */
static enum wring_status commit_buckets(struct wring_session *session)
{
    enum wring_status status = arrange_buckets(session);
    if (status == WRING_OK)
        status = wring_commit_compare(session);
    if (status == WRING_OK)
        status = wring_plan_check_job(session);
    if (status == WRING_OK)
        status = wring_autotune_prepare(session);
    if (status == WRING_OK)
        status = wring_codec_bypass_choose(session);
    if (status == WRING_OK)
        status = wring_commit_connect(session);
    if (status != WRING_OK) {
        wring_progress_lock(session->progress);
        wring_commit_undo(session);
        wring_progress_unlock(session->progress);
    }
    return status;
}

static enum wring_status take_back_commit(struct wring_session *session)
{
    enum wring_status status = wring_commit_take_back(session);
    if (status == WRING_OK)
        status = wring_bucket_fusion_part_all(session);
    if (status == WRING_OK)
        wring_commit_free_dropped(session);
    return status;
}

enum wring_status wring_session_commit(struct wring_session *session)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    enum wring_status status = wring_session_refuses_to_wait(session, "wring_session_commit")
                                   ? WRING_ERR_INVALID
                                   : wring_session_check(session);
    if (status == WRING_OK)
        status = take_back_commit(session);
    if (status == WRING_OK)
        status = wring_autotune_begin(session);
    if (status == WRING_OK)
        status = wring_recorder_begin(session);
    if (status == WRING_OK)
        status = commit_buckets(session);
    return wring_session_leave(session, status);
}

enum wring_status wring_session_recommit(struct wring_session *session)
{
    enum wring_status status = wring_session_check(session);
    if (status == WRING_OK)
        status = take_back_commit(session);
    return status == WRING_OK ? commit_buckets(session) : status;
}
