/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Requests: operations of a group that are under way or wait for their turn. A group runs one at a
 * time, in the order of the calls, which is the same on all members; different groups run side by
 * side.
 */
#ifndef WRING_RUNTIME_REQUEST_H
#define WRING_RUNTIME_REQUEST_H

#include "runtime/group/group.h"
#include "runtime/progress/completions.h"
#include "runtime/session/session.h"

/** A collective call; a message has one as its first part (runtime/message.c). */
struct wring_request {
    struct wring_group *group;
    struct wring_completion completion;
    uint64_t ended; /* as so many-eth of the session's engine */
    atomic_int status;

    /* of calls: in their group's queue */
    struct wring_request *next;
    struct wring_work work;

    /* what the caller holds is in a list of its group until it is waited for */
    bool held;
    struct wring_request *older, *newer;
};

/**
 * Queue an operation, and hand out its request; with out NULL wait for its end instead.
 * @param work  whose memory is freed with the request, or before this returns if there is none
 * @param how   whose callback is called at its end
 * Threads: safe. Errors: WRING_ERR_NO_MEMORY, WRING_ERR_PEER and others of the session's failure.
 */
enum wring_status wring_request_start(struct wring_group *group, const struct wring_work *work,
                                      const struct wring_call *how, struct wring_request **out);

/** List what a caller is about to hold. */
void wring_request_hold(struct wring_request *request);

/** It has ended: write that, and call who wants to be. Whoever waits may free it now. */
void wring_request_end(struct wring_request *request, const struct wring_result *result);

/**
 * Wait for a status of a request, or of a message. @return it, or WRING_ERR_AGAIN at the deadline
 *
 * When the session is closed, all requests end; one whose group runs another that is just being
 * handed to the engine does so a little later.
 */
enum wring_status wring_request_await(struct wring_session *session, const atomic_int *status,
                                      uint64_t deadline_ns);

/** wring_send(), but never eager: for a receive that may be in device memory. */
enum wring_status wring_send_offered(struct wring_group *group, const void *buf, uint64_t bytes,
                                     uint32_t to, uint64_t tag, struct wring_request **request);

/** Has it ended? Takes no lock. */
static inline bool wring_request_is_over(const struct wring_request *request)
{
    return atomic_load_explicit(&request->status, memory_order_acquire) != WRING_ERR_AGAIN;
}

static inline struct wring_session *wring_request_session(const struct wring_request *request)
{
    return request->group->session;
}

/** As wring_request_cancel(), by a caller that is inside, of one that has not ended and is a send
 * or receive (runtime/message.c). */
enum wring_status wring_request_cancel_message(struct wring_request *request);

/** It has ended, and is gone. @param result out, checked; may be NULL @return how it ended */
enum wring_status wring_request_take(struct wring_request *request, struct wring_result *result);

/** Those that wait for their turn end with WRING_ERR_CANCELLED. The engine is locked. */
void wring_requests_cease(struct wring_group *group);

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
