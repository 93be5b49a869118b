/* SPDX-License-Identifier: Apache-2.0 */
/** How an operation ended, as callers and callbacks are told. */
#ifndef WRING_RUNTIME_RESULT_H
#define WRING_RUNTIME_RESULT_H

#include "runtime/session/session.h"

/** @param bytes  that it has in memory now if it succeeded */
struct wring_result wring_result_make(struct wring_session *session, enum wring_status status,
                                      uint64_t bytes);

/** Can a caller be told? NULL: it does not ask. Errors: WRING_ERR_INVALID (the size), logged. */
enum wring_status wring_result_check(const struct wring_session *session,
                                     const struct wring_result *theirs);

/** Tell a caller, who was checked and may not ask: NULL. */
void wring_result_give(const struct wring_result *ours, struct wring_result *theirs);

/** Deliver what is queued; by a caller that is inside and holds no lock. */
static inline void wring_session_call_back(struct wring_session *session)
{
    if (wring_completions_wait(&session->completions))
        wring_completions_deliver(&session->completions);
}

/** Is this thread inside a callback, where a call that would wait is refused? Then that is logged.
 *  @param call  its name */
bool wring_session_refuses_to_wait(const struct wring_session *session, const char *call);

#endif
