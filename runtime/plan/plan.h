/* SPDX-License-Identifier: Apache-2.0 */
/** The plan that a session is given: WRING_PLAN. Is it for this job, and can it be executed here?
 */
#ifndef WRING_RUNTIME_PLAN_PLAN_H
#define WRING_RUNTIME_PLAN_PLAN_H

#include <string.h>

#include "runtime/session/session.h"

/** Is the session to plan for itself? */
static inline bool wring_plan_is_auto(const struct wring_session *session)
{
    return strcmp(session->config.plan, "auto") == 0;
}

/**
 * Load the plan that the configuration names, if it names a file, and see whether it is for as many
 * ranks and can be executed here.
 *
 * Errors, with one log line: WRING_ERR_INVALID (the file), WRING_ERR_MISMATCH (another number of
 * ranks, fewer cores, other settings), WRING_ERR_UNSUPPORTED (a group that this build cannot run),
 * WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_plan_open(struct wring_session *session);

/**
 * Was the plan made from a profile of this machine, its links and this build? One that was made
 * from a built-in profile, which is of no machine, is taken. Collective, in a commit, once ranks
 * know that they have the same plan; rank 0's machine counts.
 *
 * Errors: WRING_ERR_MISMATCH, with a log line of rank 0 that names both; those of an exchange.
 */
enum wring_status wring_plan_check_job(struct wring_session *session);

/* The plan that a session executes, on its buckets. */

/**
 * Join the session's buckets as the plan says; nothing where there is none. Before a commit, with
 * nothing under way. Local.
 *
 * Errors, with one log line: WRING_ERR_MISMATCH (a bucket that the plan has not, or lacks, or of
 * another size), those of wring_bucket_fusion_make().
 */
enum wring_status wring_plan_apply(struct wring_session *session);

#endif
