/* SPDX-License-Identifier: Apache-2.0 */
/* A session in an event loop of the application's. */
#include "runtime/session/session.h"

int wring_session_fd(struct wring_session *session)
{
    int fd = -1;
    if (wring_session_enter(session) != WRING_OK)
        return -1;
    wring_progress_lock(session->progress);
    enum wring_status status = wring_progress_watch(session->progress, &fd);
    wring_progress_unlock(session->progress);
    wring_session_leave(session, status);
    return status == WRING_OK ? fd : -1;
}

enum wring_status wring_session_progress(struct wring_session *session)
{
    enum wring_status status = wring_session_enter(session);
    if (status != WRING_OK)
        return status;
    wring_progress_serve(session->progress);
    return wring_session_leave(session, wring_session_check(session));
}

uint64_t wring_session_next_ns(struct wring_session *session)
{
    if (wring_session_enter(session) != WRING_OK)
        return 0;
    uint64_t next_ns = wring_progress_next_ns(session->progress);
    wring_session_leave(session, WRING_OK);
    return next_ns;
}
