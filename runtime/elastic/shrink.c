/* SPDX-License-Identifier: Apache-2.0 */
/* Going on without ranks that are lost. */
#include "base/clock.h"
#include "runtime/elastic/elastic.h"
#include "runtime/versioned_struct.h"

#define WRING_MODULE "elastic"

static enum wring_status check_shrink(struct wring_session *session)
{
    if (wring_session_is_inherited(session))
        return wring_session_refuse(session);
    if (wring_session_refuses_to_wait(session, "wring_session_shrink"))
        return WRING_ERR_INVALID;
    if (wring_session_check(session) == WRING_OK) {
        wring_error(&session->log,
                    "wring_session_shrink: the session has not failed, and has all its ranks");
        return WRING_ERR_INVALID;
    }
    if (session->size == 1) {
        wring_error(&session->log, "wring_session_shrink: a session of one rank cannot shrink");
        return WRING_ERR_INVALID;
    }
    return wring_elastic_check(session);
}

enum wring_status wring_session_shrink(struct wring_session *session, uint64_t timeout_ns,
                                       struct wring_session **out)
{
    struct wring_guests nobody = {0};
    enum wring_status status = check_shrink(session);
    if (status != WRING_OK)
        return status;
    if (timeout_ns == 0)
        timeout_ns = session->config.join_timeout_ns;
    uint64_t deadline_ns = wring_deadline_in(timeout_ns);
    uint64_t late_ns = wring_deadline_in(timeout_ns / 2);

    /* the ranks of a new session may lose one before it has begun */
    do {
        status = wring_elastic_reform(session, late_ns, deadline_ns, &nobody, out);
        if (status == WRING_OK)
            session = *out;
    } while (status == WRING_OK && session->size > 1 &&
             wring_session_check(session) == WRING_ERR_PEER);
    return status;
}
