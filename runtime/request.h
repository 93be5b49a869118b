/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Requests: operations of a group that are under way or wait for their turn. A group runs one at a
 * time, in the order of the calls, which is the same on all members; different groups run side by
 * side.
 */
#ifndef WRING_RUNTIME_REQUEST_H
#define WRING_RUNTIME_REQUEST_H

#include "runtime/group/group.h"
#include "runtime/session/session.h"

/**
 * Queue an operation, and hand out its request; with out NULL wait for its end instead.
 * Threads: safe. Errors: WRING_ERR_NO_MEMORY, WRING_ERR_PEER and others of the session's failure.
 */
enum wring_status wring_request_start(struct wring_group *group, const struct wring_work *work,
                                      struct wring_request **out);

/** Those that were not waited for are gone. None of the group is under way. */
void wring_requests_free(struct wring_group *group);

/**
 * The codec of a spec, made once per group and kept until it goes. @param out NULL for raw
 * Threads: safe. Errors: WRING_ERR_INVALID (spec), WRING_ERR_UNSUPPORTED (not in immediate calls,
 * not for that type or operation); logged.
 */
enum wring_status wring_group_codec(struct wring_group *group, const char *spec,
                                    enum wring_dtype dtype, enum wring_op op,
                                    const struct wring_codec **out);

#endif
