/* SPDX-License-Identifier: Apache-2.0 */
/**
 * WRING_RECORD: rank 0 writes a trace of the job while it runs, as `wring plan` and others read it
 * (docs/planner-files.md): when tensors are ready, and how large they are.
 *
 * A job with committed buckets that take part (iterations.h) is recorded by these; its immediate
 * calls are left out then. One that has none is recorded by its immediate calls among all ranks
 * (recorded_calls.h). One that plans for itself writes what it asks the planner.
 *
 * The trace is written once, by the thread whose post or call makes it complete. What goes wrong is
 * one log line, and never an error of the job's.
 */
#ifndef WRING_RUNTIME_RECORDER_H
#define WRING_RUNTIME_RECORDER_H

#include "planner/files/tensor_trace.h"
#include "runtime/group/group.h"
#include "runtime/session/session.h"

struct wring_recorder;

/** Is a trace to be written, by this rank? Make what that needs. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_recorder_open(struct wring_session *session);

/** Nobody is inside. Says so where no trace could be had. */
void wring_recorder_close(struct wring_session *session);

/** A commit of the application begins, no bucket is joined. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_recorder_begin(struct wring_session *session);

/** Write the trace, unless one was written. Threads: safe. */
void wring_recorder_write(struct wring_recorder *recorder, const struct wring_tensor_trace *trace);

/** An immediate call begins. @return whether its time is none of computing: then
 *  wring_recorder_leave() is to follow. Threads: safe. */
bool wring_recorder_call(struct wring_recorder *recorder, const struct wring_group *group,
                         const struct wring_work *work);

/** Somebody waits for a call of that group. @return as above */
bool wring_recorder_wait(struct wring_recorder *recorder, const struct wring_group *group);
void wring_recorder_leave(struct wring_recorder *recorder);

#endif
