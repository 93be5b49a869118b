/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/result.h"
#include "runtime/versioned_struct.h"

#define WRING_MODULE "session"

static const struct wring_versioned_struct result_sized = {
    "struct wring_result",
    sizeof(struct wring_result),
    sizeof(struct wring_result),
};

struct wring_result wring_result_make(struct wring_session *session, enum wring_status status,
                                      uint64_t bytes)
{
    struct wring_result result = {.struct_bytes = sizeof(result), .status = status, .rank = -1};
    struct wring_failure failure;

    if (status == WRING_OK)
        result.bytes = bytes;
    else if (wring_fabric_failure(session->fabric, &failure) == status)
        result.rank = failure.rank;
    return result;
}

enum wring_status wring_result_check(const struct wring_session *session,
                                     const struct wring_result *theirs)
{
    if (theirs == NULL || wring_versioned_struct_takes(&result_sized, theirs))
        return WRING_OK;
    return wring_versioned_struct_refuse(&result_sized, theirs, &session->log);
}

void wring_result_give(const struct wring_result *ours, struct wring_result *theirs)
{
    if (theirs != NULL)
        wring_versioned_struct_write(&result_sized, ours, theirs);
}

bool wring_session_refuses_to_wait(const struct wring_session *session, const char *call)
{
    if (!wring_completions_inside(&session->completions))
        return false;
    wring_error(&session->log,
                "%s() is called inside a completion callback, which may post, test and cancel, but "
                "not wait, commit or close: let another thread do that",
                call);
    return true;
}
