/* SPDX-License-Identifier: Apache-2.0 */
/** A session's commit, all of its steps in order. */
#ifndef WRING_RUNTIME_SESSION_COMMIT_H
#define WRING_RUNTIME_SESSION_COMMIT_H

#include "runtime/session/session.h"

/** As wring_session_commit(), by a caller that is inside and has settled the plan itself. Nothing
 * is under way. */
enum wring_status wring_session_recommit(struct wring_session *session);

#endif
