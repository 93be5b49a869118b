/* SPDX-License-Identifier: Apache-2.0 */
/* How buckets come to travel as one, and part again. */
#include "runtime/plan/bucket_fusion.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/codec_states.h"
#include "runtime/residual.h"
#include "runtime/session/session.h"
#include "transport/wait_policy.h"

#define WRING_MODULE "bucket"

/** Do they lie one after another? */
static bool is_contiguous(struct wring_bucket *const *members, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if ((uint8_t *)members[i]->data !=
            (uint8_t *)members[i - 1]->data + wring_bucket_bytes(members[i - 1]))
            return false;
    return true;
}

/** The carrier's memory: the members' own, or a buffer. */
static enum wring_status find_room(struct wring_session *session, struct wring_joined *joined,
                                   uint64_t elems, void **out)
{
    joined->in_place = is_contiguous(joined->members, joined->n);
    if (joined->in_place) {
        *out = joined->members[0]->data;
        return WRING_OK;
    }
    size_t bytes = (size_t)elems * wring_dtype_bytes(joined->members[0]->dtype);
    enum wring_status status = wring_buffer_alloc(session, bytes > 0 ? bytes : 1, out);
    joined->owns_data = status == WRING_OK;
    return status;
}

/** Take a bucket out of the session's list. */
static void unlist(struct wring_session *session, const struct wring_bucket *bucket)
{
    struct wring_bucket **at = &session->buckets;

    while (*at != bucket)
        at = &(*at)->next;
    *at = bucket->next;
}

static void append(struct wring_bucket **list, struct wring_bucket *bucket)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = bucket;
    bucket->next = NULL;
}

/** Move a member's residual into the carrier's. */
static void carry_residual(const struct wring_bucket *carrier, struct wring_bucket *member)
{
    wring_residual_loosen(member);
    if (member->residual != NULL)
        memcpy(carrier->residual + member->joined_at, member->residual,
               member->elems * sizeof(*member->residual));
    wring_residual_free(member);
}

/** Give a carrier whose codec has no residual one for its members' residuals: it sends them on. */
static enum wring_status make_room_for_residuals(const struct wring_joined *joined)
{
    struct wring_bucket *carrier = joined->carrier;
    bool any = false;

    for (uint32_t i = 0; i < joined->n; i++)
        any |= joined->members[i]->residual != NULL;
    if (!any || carrier->residual != NULL || carrier->elems == 0)
        return WRING_OK;
    carrier->residual = wring_residual_alloc(carrier);
    return carrier->residual != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static void settle(struct wring_completion *completion);

static void take_members(struct wring_session *session, struct wring_joined *joined)
{
    uint64_t at = 0;

    joined->carrier->collective.step = joined->members[0]->collective.step;
    joined->carrier->loose = true;
    for (uint32_t i = 0; i < joined->n; i++) {
        struct wring_bucket *member = joined->members[i];
        unlist(session, member);
        append(&session->joined, member);
        member->joined = joined;
        member->carrier = joined->carrier;
        member->ops = &wring_bucket_joined;
        wring_completion_settle_by(&session->completions, &member->completion, settle);
        member->joined_at = at;
        member->joined_step = 0;
        at += member->elems;
        carry_residual(joined->carrier, member);
    }
}

/** An array of state belongs to one bucket, and to one codec. */
static enum wring_status check_states(const struct wring_session *session,
                                      const struct wring_joined *joined)
{
    const struct wring_bucket *with = joined->carrier->states != NULL ? joined->members[0] : NULL;

    for (uint32_t i = 0; i < joined->n; i++)
        if (joined->members[i]->states != NULL)
            with = joined->members[i];
    if (with == NULL)
        return WRING_OK;
    wring_error(
        &session->log,
        "bucket '%s': a plan cannot carry what codec %s keeps between steps; plan without "
        "that codec, or without the bucket",
        with->name,
        wring_codec_info(with->states != NULL ? with->codec : joined->carrier->codec)->spec);
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status make_carrier(struct wring_session *session, struct wring_joined *joined,
                                      const struct wring_joined_way *way)
{
    const struct wring_bucket *first = joined->members[0];
    struct wring_bucket_params params = {
        .name = way->name,
        .dtype = first->dtype,
        .op = first->op,
        .codec = way->codec,
        .scheme = way->scheme,
        .priority = way->priority,
        .group = first->group,
        .executor = way->executor != NULL ? way->executor : first->executor,
    };

    if (joined->n == 1) {
        params.shape.rows = first->rows;
        params.shape.columns = first->columns;
    }
    for (uint32_t i = 0; i < joined->n; i++)
        params.elems += joined->members[i]->elems;
    enum wring_status status = find_room(session, joined, params.elems, &params.data);
    if (status != WRING_OK)
        return status;
    status = wring_bucket_make(session, &params, &joined->carrier);
    if (status != WRING_OK)
        goto free_data;
    status = check_states(session, joined);
    if (status == WRING_OK)
        status = make_room_for_residuals(joined);
    if (status == WRING_OK)
        return WRING_OK;

    wring_bucket_free(joined->carrier);
free_data:
    if (joined->owns_data)
        wring_buffer_free(session, params.data);
    return status;
}

static void free_joined(struct wring_joined *joined)
{
    if (joined != NULL)
        free(joined->members);
    free(joined);
}

enum wring_status wring_join(struct wring_session *session, struct wring_bucket *const *members,
                             uint32_t n, const struct wring_joined_way *way)
{
    struct wring_joined *joined = calloc(1, sizeof(*joined));

    if (joined != NULL)
        joined->members = calloc(n, sizeof(*joined->members));
    if (joined == NULL || joined->members == NULL) {
        free_joined(joined);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(joined->members, members, n * sizeof(*members));
    joined->n = n;
    enum wring_status status = make_carrier(session, joined, way);
    if (status != WRING_OK) {
        free_joined(joined);
        return status;
    }
    joined->carrier->carries = joined;
    take_members(session, joined);
    append(&session->buckets, joined->carrier);
    return WRING_OK;
}

/** Give a member its part of the carrier's residual, even if the member's own codec has none. */
static enum wring_status return_residual(const struct wring_bucket *carrier,
                                         struct wring_bucket *member)
{
    enum wring_status status = wring_residual_make(member);

    member->loose = true;
    if (status != WRING_OK || carrier->residual == NULL || member->elems == 0)
        return status;
    if (member->residual == NULL)
        member->residual = wring_residual_alloc(member);
    if (member->residual == NULL)
        return WRING_ERR_NO_MEMORY;
    memcpy(member->residual, carrier->residual + member->joined_at,
           member->elems * sizeof(*member->residual));
    return WRING_OK;
}

/** All members are without the carrier from then on, which is gone. */
static enum wring_status part(struct wring_session *session, struct wring_bucket *carrier)
{
    struct wring_joined *joined = carrier->carries;
    enum wring_status status = WRING_OK;

    wring_residual_loosen(carrier);
    for (uint32_t i = 0; i < joined->n; i++) {
        struct wring_bucket *member = joined->members[i];
        if (status == WRING_OK)
            status = return_residual(carrier, member);
        member->collective.step = carrier->collective.step;
        member->joined = NULL;
        member->carrier = member;
        member->ops = &wring_bucket_alone;
        member->joined_at = 0;
    }
    unlist(session, carrier);
    if (joined->owns_data)
        wring_buffer_free(session, carrier->data);
    wring_bucket_free(carrier); /* and `joined` with it */
    return status;
}

enum wring_status wring_part_all(struct wring_session *session)
{
    enum wring_status status = WRING_OK;

    for (struct wring_bucket *at = session->buckets, *next; at != NULL; at = next) {
        next = at->next;
        if (at->carries == NULL)
            continue;
        enum wring_status parted = part(session, at);
        status = status == WRING_OK ? parted : status;
    }
    while (session->joined != NULL) {
        struct wring_bucket *member = session->joined;
        session->joined = member->next;
        append(&session->buckets, member);
    }
    return status;
}

/* ---- joined ---- */

/** Its elements in the carrier. */
static void *part_of(const struct wring_bucket *bucket)
{
    return (uint8_t *)bucket->joined->carrier->data +
           bucket->joined_at * wring_dtype_bytes(bucket->dtype);
}

static void set_status(struct wring_bucket *bucket, enum wring_status status)
{
    atomic_store_explicit(&bucket->collective.status, status, memory_order_release);
}

static enum wring_status status_of(const struct wring_bucket *bucket)
{
    return (enum wring_status)atomic_load_explicit(&bucket->collective.status,
                                                   memory_order_acquire);
}

/** Why a step that its mates have not joined will not go out; WRING_OK: it may. */
static enum wring_status check_unsent(const struct wring_bucket *bucket)
{
    enum wring_status failed = wring_session_check(bucket->session);
    return failed == WRING_OK && wring_bucket_is_ceased(bucket) ? WRING_ERR_CANCELLED : failed;
}

/** It has ended as that says. @return how */
static enum wring_status end_unsent(struct wring_bucket *bucket)
{
    enum wring_status failed = check_unsent(bucket);
    if (failed == WRING_ERR_CANCELLED && wring_bucket_is_ceased(bucket))
        set_status(bucket, failed);
    return failed;
}

/** Is its step under way as far as its mates have been posted? */
static bool is_sent(const struct wring_bucket *bucket)
{
    return atomic_load_explicit(&bucket->joined->step, memory_order_acquire) == bucket->joined_step;
}

/** Are all members posted? Then the thread of the last one has posted the carrier, or is about to.
 */
static bool is_complete(const struct wring_bucket *bucket)
{
    const struct wring_joined *joined = bucket->joined;
    return atomic_load_explicit(&joined->posted, memory_order_acquire) >=
           bucket->joined_step * joined->n;
}

/** Those that were posted before it hear that nothing comes of that. */
static void end_others(const struct wring_bucket *bucket, enum wring_status status)
{
    const struct wring_joined *joined = bucket->joined;
    for (uint32_t i = 0; i < joined->n; i++)
        if (joined->members[i] != bucket)
            wring_bucket_end(joined->members[i], status);
}

/** Each member is posted once before the next step begins, so that whose post makes it n of them is
 *  the last. */
static enum wring_status post(struct wring_bucket *bucket)
{
    struct wring_joined *joined = bucket->joined;

    if (status_of(bucket) == WRING_ERR_AGAIN)
        return WRING_ERR_BUSY;
    if (!joined->in_place || bucket->source != NULL)
        wring_bucket_bring(bucket, joined->in_place ? bucket->data : part_of(bucket));
    uint64_t step = atomic_load_explicit(&joined->step, memory_order_acquire) + 1;
    bucket->joined_step = step;
    set_status(bucket, WRING_ERR_AGAIN);
    if (atomic_fetch_add(&joined->posted, 1) + 1 < step * joined->n)
        return WRING_OK;
    enum wring_status refused = wring_bucket_post_inside(joined->carrier);
    atomic_store_explicit(&joined->refused, refused, memory_order_relaxed);
    atomic_store_explicit(&joined->step, step, memory_order_release);
    if (refused != WRING_OK)
        end_others(bucket, refused);
    return refused;
}

/** A step that goes past the engine takes one thread at a time, and members may have several. */
static bool take_turn(struct wring_joined *joined)
{
    return joined->carrier->collective.shm_flags == NULL ||
           !atomic_exchange_explicit(&joined->turn, true, memory_order_acquire);
}

static void end_turn(struct wring_joined *joined)
{
    atomic_store_explicit(&joined->turn, false, memory_order_release);
}

/** The carrier's, while it is not another thread's to see to. */
static bool carrier_is_left(struct wring_joined *joined)
{
    if (!take_turn(joined))
        return wring_bucket_under_way(joined->carrier);
    bool left = joined->carrier->ops->is_left(joined->carrier);
    end_turn(joined);
    return left;
}

static enum wring_status test_carrier(struct wring_joined *joined)
{
    if (!take_turn(joined))
        return WRING_ERR_AGAIN;
    enum wring_status status = wring_bucket_test_inside(joined->carrier);
    end_turn(joined);
    return status;
}

/** @return whether it has ended */
static bool wait_for_carrier(struct wring_joined *joined, uint64_t deadline_ns,
                             enum wring_status *status)
{
    const struct timespec pause = {0, wring_wait_policy.pause_ns};

    while (!take_turn(joined)) {
        if (wring_now_ns() >= deadline_ns) {
            *status = WRING_ERR_TIMEOUT;
            return false;
        }
        nanosleep(&pause, NULL);
    }
    uint64_t now_ns = wring_now_ns();
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    *status = wring_bucket_wait_inside(joined->carrier,
                                       deadline_ns == WRING_NEVER ? WRING_FOREVER : left_ns);
    end_turn(joined);
    return !wring_bucket_under_way(joined->carrier);
}

static bool is_left(struct wring_bucket *bucket)
{
    if (status_of(bucket) != WRING_ERR_AGAIN)
        return false;
    return is_sent(bucket) ? carrier_is_left(bucket->joined) : check_unsent(bucket) == WRING_OK;
}

static bool is_unsent(const struct wring_bucket *bucket)
{
    return status_of(bucket) == WRING_ERR_AGAIN && !is_complete(bucket);
}

/** The carrier is done. */
static void take_part(struct wring_bucket *bucket)
{
    const struct wring_joined *joined = bucket->joined;
    enum wring_status status =
        (enum wring_status)atomic_load_explicit(&joined->refused, memory_order_relaxed);
    if (status == WRING_OK)
        status = status_of(bucket->carrier);
    if (status == WRING_OK && !joined->in_place && bucket->elems > 0)
        memcpy(bucket->data, part_of(bucket), wring_bucket_bytes(bucket));
    set_status(bucket, status);
}

/** Take its part of a carrier that is done; one that was never sent has failed with the session.
 *  The thread that calls back may do so at the same time. */
static enum wring_status take(struct wring_bucket *bucket)
{
    if (status_of(bucket) == WRING_ERR_AGAIN && !is_sent(bucket))
        return end_unsent(bucket);
    while (status_of(bucket) == WRING_ERR_AGAIN) {
        if (atomic_exchange_explicit(&bucket->taking, true, memory_order_acquire)) {
            sched_yield();
            continue;
        }
        if (status_of(bucket) == WRING_ERR_AGAIN)
            take_part(bucket);
        atomic_store_explicit(&bucket->taking, false, memory_order_release);
    }
    return status_of(bucket);
}

static enum wring_status test(struct wring_bucket *bucket)
{
    if (status_of(bucket) != WRING_ERR_AGAIN)
        return status_of(bucket);
    enum wring_status failed =
        is_sent(bucket) ? wring_session_check(bucket->session) : end_unsent(bucket);
    if (failed != WRING_OK)
        return failed;
    if (!is_sent(bucket) || test_carrier(bucket->joined) == WRING_ERR_AGAIN)
        return WRING_ERR_AGAIN;
    return take(bucket);
}

/** One of those that a bucket waits for. */
static const struct wring_bucket *find_missing(const struct wring_bucket *bucket)
{
    const struct wring_joined *joined = bucket->joined;
    uint32_t i = 0;

    while (i + 1 < joined->n && status_of(joined->members[i]) == WRING_ERR_AGAIN &&
           !is_sent(joined->members[i]))
        i++;
    return joined->members[i];
}

/** Wait while another thread posts the last member; that thread waits for no other. */
static bool await_post(const struct wring_bucket *bucket, uint64_t deadline_ns)
{
    while (!is_sent(bucket)) {
        if (wring_now_ns() >= deadline_ns)
            return false;
        sched_yield();
    }
    return true;
}

static enum wring_status wait(struct wring_bucket *bucket, uint64_t timeout_ns)
{
    if (status_of(bucket) != WRING_ERR_AGAIN)
        return status_of(bucket);
    enum wring_status failed =
        is_sent(bucket) ? wring_session_check(bucket->session) : end_unsent(bucket);
    if (failed != WRING_OK)
        return failed;
    if (is_unsent(bucket)) {
        wring_error(&bucket->session->log,
                    "bucket '%s' is waited for, and travels with '%s', which is not posted yet: "
                    "post both before waiting, or plan without merging them",
                    bucket->name, find_missing(bucket)->name);
        return WRING_ERR_INVALID;
    }
    uint64_t deadline_ns = wring_deadline_in(timeout_ns);
    if (!await_post(bucket, deadline_ns))
        return WRING_ERR_TIMEOUT;
    enum wring_status status;
    return wait_for_carrier(bucket->joined, deadline_ns, &status) ? take(bucket) : status;
}

/** Before its callback: bring its part of the carrier to where it belongs. */
static void settle(struct wring_completion *completion)
{
    struct wring_bucket *bucket = wring_bucket_of(completion);
    while (bucket->joined != NULL && status_of(bucket) == WRING_ERR_AGAIN) {
        if (is_sent(bucket))
            take(bucket);
        else
            sched_yield(); /* the last post has ended and returns just now */
    }
}

void wring_joined_end_unsent(struct wring_session *session)
{
    for (struct wring_bucket *at = session->joined; at != NULL; at = at->next)
        if (is_unsent(at)) {
            set_status(at, WRING_ERR_CLOSED);
            wring_bucket_end(at, WRING_ERR_CLOSED);
        }
}

const struct wring_bucket_ops wring_bucket_joined = {
    .post = post,
    .test = test,
    .wait = wait,
    .is_left = is_left,
    .is_unsent = is_unsent,
    .take = take,
};
