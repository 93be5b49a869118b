/* SPDX-License-Identifier: Apache-2.0 */
/* Several buckets and requests of which one is waited for. */
#include "runtime/bucket.h"
#include "runtime/plan/recorder.h"
#include "runtime/request.h"
#include "runtime/result.h"

#include "base/clock.h"

struct any {
    const struct wring_waitable *entries;
    size_t n;
    size_t first; /* of several that ended at once, this one or those after it: another in each call
                   */
};

static bool is_empty(const struct wring_waitable *entry)
{
    return entry->bucket == NULL && entry->request == NULL;
}

static bool is_over(const struct wring_waitable *entry)
{
    if (entry->bucket != NULL)
        return !entry->bucket->ops->is_left(entry->bucket);
    return entry->request != NULL && wring_request_is_over(entry->request);
}

/** Is one done? */
static bool is_any_over(const struct any *any)
{
    size_t i = 0;
    while (i < any->n && !is_over(&any->entries[i]))
        i++;
    return i < any->n;
}

/** Where among all ends that of one that is done stands. What ended past the engine did so now, as
 *  far as it is known. */
static uint64_t find_order(const struct wring_waitable *entry)
{
    if (entry->request != NULL)
        return entry->request->ended;
    struct wring_collective *collective = &entry->bucket->carrier->collective;
    if (collective->ended == 0)
        collective->ended =
            atomic_load_explicit(&collective->engine->finished, memory_order_relaxed);
    return collective->ended;
}

/** The one that ended first; n: none is done. Whoever waits longest has its turn, so none waits for
 *  ever. */
static size_t find_first(const struct any *any)
{
    size_t best = any->n;
    uint64_t least = 0;

    for (size_t i = 0; i < any->n; i++) {
        size_t at = any->first + i < any->n ? any->first + i : any->first + i - any->n;
        if (!is_over(&any->entries[at]))
            continue;
        uint64_t order = find_order(&any->entries[at]);
        if (best == any->n || order < least) {
            best = at;
            least = order;
        }
    }
    return best;
}

/** What nobody has to see to so far is the engine's from now on, unless one is done. Their groups
 *  may be aborted meanwhile. */
static void give_all(const struct any *any)
{
    size_t over = 0;
    for (size_t i = 0; i < any->n; i++) {
        struct wring_bucket *bucket = any->entries[i].bucket;
        bool inside = bucket != NULL && wring_bucket_enter(bucket);
        over += is_over(&any->entries[i]);
        wring_bucket_leave(bucket, inside);
    }
    for (size_t i = 0; i < any->n && over == 0; i++) {
        struct wring_bucket *bucket = any->entries[i].bucket;
        if (bucket == NULL)
            continue;
        bool inside = wring_bucket_enter(bucket);
        wring_bucket_give(bucket->carrier);
        wring_bucket_leave(bucket, inside);
    }
}

static bool any_is_done(const void *arg)
{
    return is_any_over(arg);
}

static struct wring_session *session_of(const struct wring_waitable *entry)
{
    return entry->bucket != NULL ? entry->bucket->session : wring_request_session(entry->request);
}

/** All of them belong to this session, and are committed. */
static bool any_is_sound(const struct any *any, const struct wring_session *session)
{
    for (size_t i = 0; i < any->n; i++) {
        const struct wring_waitable *entry = &any->entries[i];
        if (is_empty(entry))
            continue;
        if ((entry->bucket != NULL && entry->request != NULL) || session_of(entry) != session ||
            (entry->bucket != NULL && !entry->bucket->committed))
            return false;
    }
    return true;
}

/** One of those whose mates are not posted, where there are no others; else NULL. */
static struct wring_bucket *find_unsent(const struct any *any)
{
    struct wring_bucket *unsent = NULL;
    for (size_t i = 0; i < any->n; i++) {
        struct wring_bucket *bucket = any->entries[i].bucket;
        if (any->entries[i].request != NULL || (bucket != NULL && !bucket->ops->is_unsent(bucket)))
            return NULL;
        unsent = bucket != NULL ? bucket : unsent;
    }
    return unsent;
}

/** Hand out what is done. */
static enum wring_status take(const struct wring_waitable *entry, uint64_t began_ns,
                              struct wring_result *result)
{
    struct wring_bucket *bucket = entry->bucket;
    if (bucket == NULL)
        return wring_request_take(entry->request, result);
    enum wring_status status = bucket->ops->take(bucket);
    if (bucket->watch != NULL)
        bucket->watch->waited(bucket, began_ns, true);
    wring_bucket_tell(bucket, status, result);
    return status;
}

/** @return whether the recorder is to be told of the end */
static bool waits_for_recorded(struct wring_session *session, const struct any *any)
{
    for (size_t i = 0; session->recorder != NULL && i < any->n; i++) {
        const struct wring_request *request = any->entries[i].request;
        if (request != NULL && request->work.ops != NULL &&
            wring_recorder_wait(session->recorder, request->group))
            return true;
    }
    return false;
}

static enum wring_status wait_any(struct wring_session *session, struct any *any,
                                  uint64_t timeout_ns, size_t *index, struct wring_result *result)
{
    if (wring_session_refuses_to_wait(session, "wring_wait_any") ||
        wring_result_check(session, result) != WRING_OK || !any_is_sound(any, session))
        return WRING_ERR_INVALID;
    uint64_t began_ns = session->autoplan != NULL || session->recorder != NULL ? wring_now_ns() : 0;
    struct wring_bucket *unsent = find_unsent(any);
    if (unsent != NULL && wring_session_check(session) == WRING_OK)
        return unsent->ops->wait(unsent, 0); /* which says what is missing */
    any->first = atomic_fetch_add_explicit(&session->any_turn, 1, memory_order_relaxed) % any->n;
    give_all(any);
    bool inside = waits_for_recorded(session, any);
    bool one = wring_progress_drive(session->progress, (struct wring_goal){any_is_done, any},
                                    wring_deadline_in(timeout_ns));
    if (inside)
        wring_recorder_leave(session->recorder);
    if (!one)
        return wring_callers_closing(&session->callers) ? WRING_ERR_CLOSED : WRING_ERR_TIMEOUT;
    *index = find_first(any);
    return take(&any->entries[*index], began_ns, result);
}

enum wring_status wring_wait_any(const struct wring_waitable *entries, size_t n,
                                 uint64_t timeout_ns, size_t *index, struct wring_result *result)
{
    struct any any = {entries, n, 0};
    size_t first = 0;

    *index = n;
    while (first < n && is_empty(&entries[first]))
        first++;
    if (first == n)
        return WRING_OK;
    struct wring_session *session = session_of(&entries[first]);
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, wait_any(session, &any, timeout_ns, index, result));
}
