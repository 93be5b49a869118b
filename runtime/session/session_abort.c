/* SPDX-License-Identifier: Apache-2.0 */
/* All that a session has under way ends now, on every rank, whoever waits for it. */
#include <inttypes.h>

#include "runtime/result.h"
#include "runtime/session/session.h"

static enum wring_status abort_all(struct wring_session *session)
{
    struct wring_engine *engine = session->engine;

    wring_progress_lock(session->progress);
    wring_fabric_fail(session->fabric, WRING_ERR_CANCELLED, (int32_t)session->rank,
                      "rank %" PRIu32 " aborted the session by wring_session_abort()",
                      session->rank);
    wring_engine_poll(engine); /* peers are told, and what no job uses ends */
    wring_progress_unlock(session->progress);
    wring_session_call_back(session);
    return WRING_OK;
}

enum wring_status wring_session_abort(struct wring_session *session)
{
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, abort_all(session));
}
