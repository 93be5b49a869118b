/* SPDX-License-Identifier: Apache-2.0 */
/* Who of a group is behind, when somebody asks. */
#include <stdio.h>

#include "runtime/group/group.h"
#include "runtime/versioned_struct.h"

/** Who waits for an answer. */
struct question {
    struct wring_session *session;
    uint64_t group;
    unsigned before; /* answers that had come */
};

static bool is_answered(const void *arg)
{
    const struct question *question = arg;
    const struct wring_flight *flight = &question->session->engine->flight;
    bool more = atomic_load_explicit(&flight->told, memory_order_acquire) != question->before;
    bool ours = atomic_load_explicit(&flight->told_group, memory_order_relaxed) == question->group;

    return (more && ours) || wring_session_check(question->session) != WRING_OK;
}

static enum wring_status ask_group(struct wring_session *session, uint64_t group,
                                   uint64_t timeout_ns, char *text, size_t bytes)
{
    struct question question = {.session = session, .group = group};
    struct wring_flight *flight = &session->engine->flight;

    wring_progress_lock(session->progress);
    question.before = atomic_load(&flight->told);
    wring_flight_ask(session->engine, group);
    wring_progress_unlock(session->progress);
    bool answered =
        wring_progress_drive(session->progress, (struct wring_goal){is_answered, &question},
                             wring_deadline_in(timeout_ns));
    enum wring_status failed = wring_session_check(session);
    if (failed != WRING_OK)
        return failed;
    if (!answered)
        return wring_callers_closing(&session->callers) ? WRING_ERR_CLOSED : WRING_ERR_TIMEOUT;
    wring_progress_lock(session->progress);
    snprintf(text, bytes, "%s", flight->line);
    wring_progress_unlock(session->progress);
    return WRING_OK;
}

static enum wring_status find_who_is_behind(struct wring_group *group, uint64_t timeout_ns,
                                            char *text, size_t bytes)
{
    struct wring_session *session = group->session;

    if (wring_session_refuses_to_wait(session, "wring_group_where"))
        return WRING_ERR_INVALID;
    enum wring_status failed = wring_session_check(session);
    if (failed != WRING_OK)
        return failed;
    return ask_group(session, wring_flight_group(&group->pairs), timeout_ns, text, bytes);
}

enum wring_status wring_group_where(struct wring_group *group, uint64_t timeout_ns, char *text,
                                    size_t bytes)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, find_who_is_behind(group, timeout_ns, text, bytes));
}
