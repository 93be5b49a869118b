/* SPDX-License-Identifier: Apache-2.0 */
/** The plan that a session executes, on its buckets. */
#ifndef WRING_RUNTIME_PLAN_APPLY_H
#define WRING_RUNTIME_PLAN_APPLY_H

#include "runtime/session/session.h"

/**
 * Join the session's buckets as the plan says; nothing where there is none. Before a commit, with
 * nothing under way. Local.
 *
 * Errors, with one log line: WRING_ERR_MISMATCH (a bucket that the plan has not, or lacks, or of
 * another size), those of wring_join().
 */
enum wring_status wring_plan_apply(struct wring_session *session);

#endif
