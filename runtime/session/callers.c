/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/callers.h"

#include "runtime/session/session.h"

#define WRING_MODULE "session"

void wring_callers_init(struct wring_callers *callers)
{
    callers->may_mark = wring_fence_register();
}

bool wring_callers_enter(struct wring_callers *callers)
{
    atomic_fetch_add(&callers->n, 1);
    if (!atomic_load(&callers->closing))
        return true;
    wring_callers_leave(callers);
    return false;
}

enum wring_status wring_session_refuse(struct wring_session *session)
{
    if (!atomic_exchange(&session->told_born, true))
        wring_error(&session->log, "%s", WRING_SESSION_NOT_OURS);
    return WRING_ERR_INVALID;
}
