/* SPDX-License-Identifier: Apache-2.0 */
/* A group whose calls and steps end now, on all of its members; buckets and requests that are given
 * up by that. */
#include "runtime/group/abort.h"

#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/bucket.h"
#include "runtime/buffer.h"
#include "runtime/request.h"
#include "runtime/versioned_struct.h"

#define WRING_MODULE "group"
#define QUIET_NS (50 * WRING_NS_PER_MS) /* so long may what is under way still use memory */

void wring_group_cease(struct wring_group *group, uint32_t rank)
{
    struct wring_session *session = group->session;

    if (atomic_load(&group->aborted_by) != 0)
        return;
    atomic_store(&group->aborted_by, rank + 1);
    if (rank != session->rank)
        wring_warn(&session->log, "rank %" PRIu32 " aborted a group of %" PRIu32 " ranks", rank,
                   group->members.n);
    wring_requests_cease(group);
    wring_engine_cease(session->engine, &group->cease, WRING_ERR_CANCELLED);
    wring_pairs_cease(&group->pairs, rank);
}

/** End all, and tell the others. */
static void cease_group(struct wring_group *group)
{
    struct wring_session *session = group->session;

    wring_progress_lock(session->progress);
    wring_group_cease(group, session->rank);
    wring_engine_poll(session->engine);
    wring_progress_unlock(session->progress);
}

/* ---- other users of memory of a ceased group ---- */

static bool is_committed(const struct wring_bucket *bucket, const struct wring_group *group)
{
    return bucket->group == group && bucket->committed && bucket->whole == NULL;
}

/** Copy all data in flight to other members, and send it from the copies. @return whether all is */
static bool copy_sources(const struct wring_group *group)
{
    const struct wring_members *members = &group->members;
    bool copied = true;

    for (uint32_t i = 0; i < members->n; i++) {
        const struct wring_peer *peer = &group->session->fabric->peers[members->ranks[i]];
        if (i != members->me)
            copied &= wring_fabric_copy_sources(peer) == WRING_OK;
    }
    return copied;
}

/** No job of ours uses anybody's memory, and no put of ours reads it. */
static bool try_release_memory(const struct wring_group *group)
{
    const struct wring_engine *engine = group->session->engine;
    return !wring_engine_writes(engine, &group->cease) &&
           (wring_engine_is_quiet(engine, &group->cease) || copy_sources(group));
}

/** No member puts into its data any more by devices where that can be had: what still comes goes
 *  nowhere. @return the devices by which none writes there, a bit each */
static uint32_t revoke_bucket_keys(struct wring_bucket *bucket)
{
    const struct wring_fabric *fabric = bucket->session->fabric;
    bool put_into = bucket->keys.fabric != NULL;
    uint32_t safe = 0;

    if (put_into)
        bucket->revoked |= wring_block_revoke(&bucket->keys);
    for (uint32_t i = 0; i < fabric->n_devices; i++)
        if (!fabric->devices[i].caps.remote_map && (!put_into || (bucket->revoked >> i & 1) != 0))
            safe |= 1u << i;
    return safe;
}

/** Revoke one bucket's keys, or those of all of the group's. @return bits of the safe devices */
static uint32_t revoke_group_keys(struct wring_group *group, struct wring_bucket *bucket)
{
    struct wring_session *session = group->session;
    struct wring_bucket *const lists[] = {session->fused, session->buckets};
    uint32_t safe = UINT32_MAX;

    if (bucket != NULL)
        return revoke_bucket_keys(bucket);
    for (size_t i = 0; i < 2; i++)
        for (struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            if (is_committed(at, group))
                safe &= revoke_bucket_keys(at);
    return safe;
}

/** The memory that the caller wants for itself. */
struct asked {
    bool others;                 /* what other members write, too */
    struct wring_bucket *bucket; /* of this one alone; NULL: of all of the group */
};

/** Nobody uses it: no job and no put of ours, nor another member. */
static bool revoke_and_check_quiet(struct wring_group *group, const struct asked *asked)
{
    struct wring_session *session = group->session;

    wring_progress_lock(session->progress);
    wring_engine_poll(session->engine);
    bool quiet = try_release_memory(group) &&
                 (!asked->others ||
                  wring_pairs_are_quiet(&group->pairs, revoke_group_keys(group, asked->bucket)));
    wring_progress_unlock(session->progress);
    return quiet;
}

/** @return WRING_ERR_BUSY: a peer does not take what is on its way to it, or does not say that it
 *  has let go */
static enum wring_status await_quiet(struct wring_group *group, struct asked asked)
{
    const struct timespec pause = {0, WRING_NS_PER_MS / 4};
    uint64_t until_ns = wring_deadline_in(QUIET_NS);

    while (!revoke_and_check_quiet(group, &asked)) {
        if (wring_now_ns() >= until_ns)
            return WRING_ERR_BUSY;
        nanosleep(&pause, NULL);
    }
    return WRING_OK;
}

/** End the calls of a group; the caller asks for their memory alone. */
static enum wring_status abort_calls(struct wring_group *group)
{
    cease_group(group);
    enum wring_status status = await_quiet(group, (struct asked){.others = false});
    wring_session_call_back(group->session);
    return status;
}

/** End the step of a bucket whose group has ceased. */
static enum wring_status end_step(struct wring_bucket *bucket)
{
    bool left = !wring_bucket_end_ceased(bucket);
    if (!left && bucket->fusion != NULL)
        bucket->ops->take(bucket); /* before it is the caller's */
    return left ? WRING_ERR_BUSY : WRING_OK;
}

/** What its buckets have under way ends. @return WRING_ERR_BUSY: not all of it has */
static enum wring_status end_all_steps(struct wring_group *group)
{
    struct wring_session *session = group->session;
    struct wring_bucket *const lists[] = {session->fused, session->buckets};
    enum wring_status status = WRING_OK;

    for (size_t i = 0; i < 2; i++)
        for (struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            if (is_committed(at, group) && end_step(at) != WRING_OK)
                status = WRING_ERR_BUSY;
    return status;
}

static void keep_bucket_data(struct wring_group *group)
{
    struct wring_session *session = group->session;
    struct wring_bucket *const lists[] = {session->fused, session->buckets};

    for (size_t i = 0; i < 2; i++)
        for (struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            if (is_committed(at, group))
                wring_buffer_keep(session, at->data);
}

static enum wring_status abort_inside(struct wring_group *group)
{
    bool buckets = atomic_load(&group->n_buckets) > 0;

    cease_group(group);
    enum wring_status status = buckets ? end_all_steps(group) : WRING_OK;
    if (status == WRING_OK)
        status = await_quiet(group, (struct asked){.others = buckets});
    if (buckets && status == WRING_ERR_BUSY)
        keep_bucket_data(group);
    wring_session_call_back(group->session);
    return status;
}

enum wring_status wring_group_abort(struct wring_group *group)
{
    struct wring_session *session = group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, abort_inside(group));
}

static enum wring_status cancel_bucket(struct wring_bucket *bucket)
{
    struct wring_group *group = bucket->group;

    if (!wring_bucket_is_ceased(bucket) && !wring_bucket_under_way(bucket))
        return WRING_OK;
    cease_group(group);
    enum wring_status status = end_step(bucket);
    if (status == WRING_OK)
        status = await_quiet(group, (struct asked){.others = true, .bucket = bucket});
    if (status == WRING_ERR_BUSY)
        wring_buffer_keep(group->session, bucket->data);
    wring_session_call_back(group->session);
    return status;
}

enum wring_status wring_bucket_cancel(struct wring_bucket *bucket)
{
    struct wring_session *session = bucket->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, cancel_bucket(bucket));
}

/* ---- requests ---- */

/** It is in the queue, so that nothing of it has begun. */
static bool is_waiting(const struct wring_request *request)
{
    struct wring_group *group = request->group;
    pthread_mutex_lock(&group->mutex);
    const struct wring_request *at = group->waiting;
    while (at != NULL && at != request)
        at = at->next;
    pthread_mutex_unlock(&group->mutex);
    return at != NULL;
}

static enum wring_status cancel_request(struct wring_request *request)
{
    struct wring_session *session = request->group->session;
    if (wring_request_is_over(request))
        return WRING_OK;
    if (request->work.ops == NULL)
        return wring_request_cancel_message(request);
    bool waiting = is_waiting(request);
    enum wring_status status = abort_calls(request->group);
    if (status != WRING_ERR_BUSY)
        return status;
    if (waiting) /* its memory was never touched */
        return WRING_OK;
    wring_buffer_keep(session, request->work.in);
    wring_buffer_keep(session, request->work.out);
    return WRING_ERR_BUSY;
}

enum wring_status wring_request_cancel(struct wring_request *request)
{
    struct wring_session *session = request->group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, cancel_request(request));
}
