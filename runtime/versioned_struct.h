/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Public structs whose first field is their size as the caller was compiled, so that a later
 * release can add fields at their end without breaking programs that do not know them.
 */
#ifndef WRING_RUNTIME_VERSIONED_STRUCT_H
#define WRING_RUNTIME_VERSIONED_STRUCT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "runtime/session/session.h"
#include <wring/status.h>

/* How an operation ended, as callers and callbacks are told. */

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

#define WRING_VERSIONED_STRUCT_MAX 4096 /* bytes; more is no size but memory that was not set */

/** What this release knows of a struct. */
struct wring_versioned_struct {
    const char *name; /* "struct wring_session_params" */
    size_t bytes;     /* its size here */
    size_t first;     /* its size in the first release, which 0 stands for */
};

/**
 * Take what a caller filled: fields that the caller lacks are zero.
 *
 * @param theirs  in, as many bytes as it says
 * @param ours    out, [sized->bytes]
 * @return whether no field is set that this release lacks, and the size can be one
 */
bool wring_versioned_struct_read(const struct wring_versioned_struct *sized, const void *theirs,
                                 void *ours);

/** Say why wring_versioned_struct_read() failed. @return
 * WRING_ERR_INVALID */
enum wring_status wring_versioned_struct_refuse(const struct wring_versioned_struct *sized,
                                                const void *theirs, const struct wring_log *log);

/**
 * Give a caller the fields that it knows, and in the first how many bytes those are.
 * Errors: WRING_ERR_INVALID (no size; nothing is written).
 */
enum wring_status wring_versioned_struct_write(const struct wring_versioned_struct *sized,
                                               const void *ours, void *theirs);

#endif
