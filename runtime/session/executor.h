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

/**
 * The engine's queue of an executor that a bucket names: the session's own where that is the same,
 * else one that lives as long as the session, made when it is first asked for. The engine is not
 * locked. One thread at a time.
 *
 * @param bucket  for log lines
 * @param text    as WRING_EXECUTOR has it; "" or NULL: the session's own, which a session that
 *                plans for itself may change
 * Errors, logged: WRING_ERR_INVALID (no executor, or too many), those of a pool.
 */
enum wring_status wring_session_find_queue(struct wring_session *session, const char *bucket,
                                           const char *text, struct wring_executor_queue **out);

/** Those that buckets named are gone, once the engine has nothing to do any more. */
void wring_session_drop_queues(struct wring_session *session);

/** All executors get scratch for jobs of so many elements, and so does any that comes after them.
 * The engine is locked, or not yet there. Errors: WRING_ERR_NO_MEMORY. */
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
