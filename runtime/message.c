/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives with tags, between two members of a group. */
#include "transport/message/message.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/buffer.h"
#include "runtime/request.h"
#include "runtime/versioned_struct.h"

#define WRING_MODULE "message"
#define ANSWER_NS (50 * WRING_NS_PER_MS) /* so long may a peer take to let go of memory */

_Static_assert(WRING_ANY_SOURCE == WRING_MATCH_ANY_SOURCE, "any source");
_Static_assert(WRING_ANY_TAG == WRING_MATCH_ANY_TAG, "any tag");

/** What a caller holds. */
struct held_message {
    struct wring_request request; /* first: it is freed as that */
    struct wring_message message;
};

static const struct wring_versioned_struct call_sized = {
    "struct wring_call",
    sizeof(struct wring_call),
    sizeof(struct wring_call),
};

static enum wring_status check_message(const struct wring_group *group,
                                       const struct wring_message *message)
{
    const struct wring_log *log = &group->session->log;
    const char *name = message->is_send ? "send" : "receive";

    if (message->member >= group->members.n &&
        (message->is_send || message->member != WRING_ANY_SOURCE)) {
        wring_error(log, "%s: there is no member %" PRIu32 " in a group of %" PRIu32, name,
                    message->member, group->members.n);
        return WRING_ERR_INVALID;
    }
    if (message->is_send && message->tag == WRING_ANY_TAG) {
        wring_error(log, "send: WRING_ANY_TAG is no tag of a message");
        return WRING_ERR_INVALID;
    }
    if (message->bytes > 0 && message->buf == NULL) {
        wring_error(log, "%s: memory must not be NULL", name);
        return WRING_ERR_INVALID;
    }
    return WRING_OK;
}

/** @param known  out: the options; none where how is NULL */
static enum wring_status read_message_options(const struct wring_group *group,
                                              const struct wring_call *how,
                                              struct wring_message *message,
                                              struct wring_call *known)
{
    const struct wring_log *log = &group->session->log;

    if (how == NULL) {
        known->done = NULL;
        return WRING_OK;
    }
    if (!wring_versioned_struct_read(&call_sized, how, known))
        return wring_versioned_struct_refuse(&call_sized, how, log);
    if (known->codec != NULL && strcmp(known->codec, "none") != 0) {
        wring_error(log, "%s: messages travel as they are, not by codec %s",
                    message->is_send ? "send" : "receive", known->codec);
        return WRING_ERR_UNSUPPORTED;
    }
    message->priority = known->priority;
    return WRING_OK;
}

/** Where a larger message may be put, or put from. */
static void set_message_block(const struct wring_group *group, struct wring_message *message)
{
    struct wring_session *session = group->session;
    bool device = atomic_load_explicit(&session->n_device_buffers, memory_order_relaxed) > 0;
    if (message->bytes > session->config.eager_bytes || (device && message->bytes > 0))
        message->block = wring_buffer_find(session, message->buf, (size_t)message->bytes);
}

/** A core would have to copy what is sent to oneself. */
static enum wring_status check_self_send_place(const struct wring_group *group,
                                               const struct wring_message *message)
{
    if (!message->is_send || message->member != group->members.me ||
        !wring_message_is_on_device(message))
        return WRING_OK;
    wring_error(&group->session->log,
                "send: %" PRIu64 " bytes of device memory to this rank itself: copy them there",
                message->bytes);
    return WRING_ERR_UNSUPPORTED;
}

/** Without a request that the caller would hold, and so without memory for it. @return how it ended
 */
static enum wring_status run_message_to_end(struct wring_group *group,
                                            struct wring_message *message)
{
    struct wring_session *session = group->session;

    if (wring_progress_run_message(session->progress, message, true))
        return (enum wring_status)atomic_load_explicit(&message->status, memory_order_acquire);
    return wring_request_await(session, &message->status, WRING_NEVER);
}

/** The request's last use by those who drive. */
static void on_message_ended(struct wring_message *message)
{
    struct wring_request *request = message->owner;
    enum wring_status status =
        (enum wring_status)atomic_load_explicit(&message->status, memory_order_relaxed);
    struct wring_result result = wring_result_make(request->group->session, status, 0);

    if (status == WRING_OK || status == WRING_ERR_TRUNCATED) {
        result.rank = message->is_send ? -1 : (int32_t)message->end.member;
        result.tag = message->is_send ? message->tag : message->end.tag;
        result.bytes = message->is_send ? message->bytes : message->end.bytes;
    } else if (status == WRING_ERR_PEER && message->is_send && result.rank < 0) {
        result.rank = (int32_t)request->group->members.ranks[message->member];
    }
    wring_request_end(request, &result);
}

static enum wring_status begin_request(struct wring_group *group,
                                       const struct wring_message *message,
                                       const struct wring_call *how, struct wring_request **out)
{
    struct held_message *held = malloc(sizeof(*held));
    if (held == NULL)
        return WRING_ERR_NO_MEMORY;
    held->request = (struct wring_request){.group = group};
    if (how->done != NULL)
        held->request.completion =
            (struct wring_completion){.done = how->done, .done_arg = how->done_arg};
    atomic_init(&held->request.status, WRING_ERR_AGAIN);
    memcpy(&held->message, message, sizeof(*message));
    held->message.owner = &held->request;
    held->message.ended = on_message_ended;
    wring_request_hold(&held->request);
    *out = &held->request;
    wring_progress_run_message(group->session->progress, &held->message, false);
    return WRING_OK;
}

/** With a callback, whose request may have to outlast the call. */
static enum wring_status run_with_callback(struct wring_group *group,
                                           const struct wring_message *message,
                                           const struct wring_call *how)
{
    struct wring_request *request;
    enum wring_status status = begin_request(group, message, how, &request);
    if (status != WRING_OK)
        return status;
    wring_request_await(group->session, &request->status, WRING_NEVER);
    return wring_request_take(request, NULL);
}

static enum wring_status start_message(struct wring_group *group, const struct wring_call *how,
                                       struct wring_message *message,
                                       struct wring_request **request)
{
    struct wring_call known;
    enum wring_status status = check_message(group, message);
    if (status == WRING_OK)
        status = read_message_options(group, how, message, &known);
    if (status == WRING_OK)
        status = wring_session_check(group->session);
    if (status == WRING_OK && atomic_load_explicit(&group->aborted_by, memory_order_relaxed) != 0)
        status = WRING_ERR_CANCELLED;
    if (status != WRING_OK)
        return status;
    message->context = group->messages;
    set_message_block(group, message);
    status = check_self_send_place(group, message);
    if (status != WRING_OK)
        return status;
    if (request != NULL)
        return begin_request(group, message, &known, request);
    if (wring_session_refuses_to_wait(group->session, "A send or receive without a request"))
        return WRING_ERR_INVALID;
    return known.done != NULL ? run_with_callback(group, message, &known)
                              : run_message_to_end(group, message);
}

enum wring_status wring_send(struct wring_group *group, const void *buf, uint64_t bytes,
                             uint32_t to, uint64_t tag, const struct wring_call *how,
                             struct wring_request **request)
{
    enum wring_status entered = wring_session_enter(group->session);
    if (entered != WRING_OK)
        return entered;
    struct wring_message message;
    wring_message_init(&message, (void *)(uintptr_t)buf, bytes, to, tag);
    message.is_send = true;
    return wring_session_leave(group->session, start_message(group, how, &message, request));
}

enum wring_status wring_send_offered(struct wring_group *group, const void *buf, uint64_t bytes,
                                     uint32_t to, uint64_t tag, struct wring_request **request)
{
    enum wring_status entered = wring_session_enter(group->session);
    if (entered != WRING_OK)
        return entered;
    struct wring_message message;
    wring_message_init(&message, (void *)(uintptr_t)buf, bytes, to, tag);
    message.is_send = true;
    message.offered = true;
    return wring_session_leave(group->session, start_message(group, NULL, &message, request));
}

enum wring_status wring_recv(struct wring_group *group, void *buf, uint64_t bytes, uint32_t from,
                             uint64_t tag, const struct wring_call *how,
                             struct wring_request **request)
{
    enum wring_status entered = wring_session_enter(group->session);
    if (entered != WRING_OK)
        return entered;
    struct wring_message message;
    wring_message_init(&message, buf, bytes, from, tag);
    message.is_send = false;
    return wring_session_leave(group->session, start_message(group, how, &message, request));
}

/**
 * Has it ended? The engine is locked.
 * @param late  it ends now, without the peer's answer
 * @return WRING_ERR_AGAIN: not yet; WRING_ERR_BUSY: it has, and its memory is in use
 */
static enum wring_status abandon_if_late(struct held_message *held, bool late)
{
    struct wring_messenger *messenger = held->request.group->session->messenger;

    if (held->message.state == WRING_MESSAGE_ENDED)
        return WRING_OK;
    return late ? wring_message_abandon(messenger, &held->message) : WRING_ERR_AGAIN;
}

enum wring_status wring_request_cancel_message(struct wring_request *request)
{
    struct held_message *held = (struct held_message *)request;
    struct wring_session *session = request->group->session;
    const struct timespec pause = {0, WRING_NS_PER_MS / 4};
    uint64_t until_ns = wring_deadline_in(ANSWER_NS);
    enum wring_status status = WRING_ERR_AGAIN;

    for (bool begun = false; status == WRING_ERR_AGAIN; begun = true) {
        if (begun)
            nanosleep(&pause, NULL);
        bool late = wring_now_ns() >= until_ns;
        wring_progress_lock(session->progress);
        if (!begun)
            wring_message_cancel(session->messenger, &held->message);
        wring_engine_poll(session->engine);
        status = abandon_if_late(held, late);
        wring_progress_unlock(session->progress);
    }
    if (status == WRING_ERR_BUSY)
        wring_buffer_keep(session, held->message.buf);
    wring_session_call_back(session);
    return status;
}
