/* SPDX-License-Identifier: Apache-2.0 */
/** A session's setting: where its codecs run, and how large its pieces are. */
#ifndef WRING_RUNTIME_SESSION_EXECUTOR_H
#define WRING_RUNTIME_SESSION_EXECUTOR_H

#include "runtime/session/session.h"

/** How many cores an executor has, by its name: 0 inline. @return false: cores by their names, or
 *  nothing that a session would take */
bool wring_executor_count_cores(const char *executor, uint32_t *out);

/** Make the one that the configuration names. Errors, logged: WRING_ERR_INVALID, those of a pool.
 */
enum wring_status wring_session_make_executor(struct wring_session *session);

/** It gets scratch for jobs of so many elements, and so does any that comes after it. The engine is
 *  locked, or not yet there. Errors: WRING_ERR_NO_MEMORY. */
enum wring_status wring_session_reserve(struct wring_session *session, uint64_t elems);

/** Processor time that executors' own threads have used so far, in ns. Threads: safe. */
uint64_t wring_session_executor_cpu_ns(struct wring_session *session);

/**
 * From now on another executor, and pieces of another size: for buckets that are committed from now
 * on. What is as it was is left alone. Nothing is under way, no bucket is committed. Local: all
 * ranks have to have pieces of one size.
 *
 * @param executor     as WRING_EXECUTOR has it
 * @param chunk_bytes  as WRING_CHUNK_BYTES
 * Errors: those of making an executor, logged; WRING_ERR_BUSY (an immediate call is under way). All
 * is as it was then.
 */
enum wring_status wring_session_settle(struct wring_session *session, const char *executor,
                                       uint64_t chunk_bytes);

#endif
