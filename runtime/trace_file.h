/* SPDX-License-Identifier: Apache-2.0 */
/** WRING_TRACE: the record of a session, as a file that Perfetto shows. */
#ifndef WRING_RUNTIME_TRACE_FILE_H
#define WRING_RUNTIME_TRACE_FILE_H

#include "runtime/session/session.h"

/**
 * Begin to record, where WRING_TRACE is set. Rank 0 makes the file anew.
 * Errors: WRING_ERR_NO_MEMORY; WRING_ERR_SYSTEM (the file cannot be written), logged.
 */
enum wring_status wring_session_trace_open(struct wring_session *session);

/**
 * Begin to compare this rank's clock with rank 0's, which goes on as long as the session.
 * @return true: all ranks record, and are to meet before any of them goes on
 */
bool wring_session_trace_clocks(struct wring_session *session);

/** Add this rank's record to the file, and end it. */
void wring_session_trace_close(struct wring_session *session);

#endif
