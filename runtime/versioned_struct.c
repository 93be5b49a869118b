/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/versioned_struct.h"

#include <string.h>

#define WRING_MODULE "session"

/** The size that the caller says. @return 0 where that cannot be one */
static size_t read_struct_bytes(const struct wring_versioned_struct *sized, const void *theirs)
{
    size_t bytes;
    memcpy(&bytes, theirs, sizeof(bytes));
    if (bytes == 0)
        return sized->first;
    return bytes >= sizeof(bytes) && bytes <= WRING_VERSIONED_STRUCT_MAX ? bytes : 0;
}

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

bool wring_versioned_struct_read(const struct wring_versioned_struct *sized, const void *theirs,
                                 void *ours)
{
    const unsigned char *fields = theirs;
    size_t bytes = read_struct_bytes(sized, theirs);

    memset(ours, 0, sized->bytes);
    memcpy(ours, theirs, min_size(bytes, sized->bytes));
    for (size_t i = sized->bytes; i < bytes; i++)
        if (fields[i] != 0)
            return false;
    return bytes > 0;
}

/** Can a caller's struct be written to? Its size is one. */
static bool versioned_struct_takes(const struct wring_versioned_struct *sized, const void *theirs)
{
    return read_struct_bytes(sized, theirs) > 0;
}

enum wring_status wring_versioned_struct_refuse(const struct wring_versioned_struct *sized,
                                                const void *theirs, const struct wring_log *log)
{
    size_t bytes;
    memcpy(&bytes, theirs, sizeof(bytes));
    if (read_struct_bytes(sized, theirs) == 0)
        wring_error(log, "%s: struct_bytes is %zu, which is no size of it: start from its _INIT",
                    sized->name, bytes);
    else
        wring_error(log,
                    "%s: the program sets a field that it knows of a later wring, and this one "
                    "lacks (%zu bytes there, %zu here): install that one, or leave the field out",
                    sized->name, bytes, sized->bytes);
    return WRING_ERR_INVALID;
}

enum wring_status wring_versioned_struct_write(const struct wring_versioned_struct *sized,
                                               const void *ours, void *theirs)
{
    size_t bytes = min_size(read_struct_bytes(sized, theirs), sized->bytes);
    if (bytes == 0)
        return WRING_ERR_INVALID;
    memcpy(theirs, ours, bytes);
    memcpy(theirs, &bytes, sizeof(bytes));
    return WRING_OK;
}

/* ---- results ---- */

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
    if (theirs == NULL || versioned_struct_takes(&result_sized, theirs))
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
