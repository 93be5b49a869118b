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

/** The fused bucket's memory: the members' own, or a buffer. */
static enum wring_status make_fused_memory(struct wring_session *session,
                                           struct wring_bucket_fusion *fusion, uint64_t elems,
                                           void **out)
{
    fusion->in_place = is_contiguous(fusion->members, fusion->n);
    if (fusion->in_place) {
        *out = fusion->members[0]->data;
        return WRING_OK;
    }
    size_t bytes = (size_t)elems * wring_dtype_bytes(fusion->members[0]->dtype);
    enum wring_status status = wring_buffer_alloc(session, bytes > 0 ? bytes : 1, out);
    fusion->owns_data = status == WRING_OK;
    return status;
}

/** Take a bucket out of the session's list. */
static void unlist_bucket(struct wring_session *session, const struct wring_bucket *bucket)
{
    struct wring_bucket **at = &session->buckets;

    while (*at != bucket)
        at = &(*at)->next;
    *at = bucket->next;
}

static void append_bucket(struct wring_bucket **list, struct wring_bucket *bucket)
{
    while (*list != NULL)
        list = &(*list)->next;
    *list = bucket;
    bucket->next = NULL;
}

/** Move a member's residual into the fused bucket's. */
static void carry_residual(const struct wring_bucket *fused, struct wring_bucket *member)
{
    wring_residual_loosen(member);
    if (member->residual != NULL)
        wring_residual_copy(fused, member->fusion_at, member, 0, member->elems);
    wring_residual_free(member);
}

/** Give a fused bucket whose codec has no residual one for its members' residuals: it sends them
 * on. */
static enum wring_status make_room_for_residuals(const struct wring_bucket_fusion *fusion)
{
    struct wring_bucket *fused = fusion->fused;
    bool any = false;

    for (uint32_t i = 0; i < fusion->n; i++)
        any |= fusion->members[i]->residual != NULL;
    if (!any || fused->residual != NULL || fused->elems == 0)
        return WRING_OK;
    fused->residual = wring_residual_alloc(fused);
    return fused->residual != NULL ? WRING_OK : WRING_ERR_NO_MEMORY;
}

static void settle_member(struct wring_completion *completion);

static void move_members_in(struct wring_session *session, struct wring_bucket_fusion *fusion)
{
    uint64_t at = 0;

    fusion->fused->collective.step = fusion->members[0]->collective.step;
    fusion->fused->loose = true;
    for (uint32_t i = 0; i < fusion->n; i++) {
        struct wring_bucket *member = fusion->members[i];
        unlist_bucket(session, member);
        append_bucket(&session->fused, member);
        member->fusion = fusion;
        member->posted_as = fusion->fused;
        member->ops = &wring_bucket_fusion_ops;
        wring_completion_settle_by(&session->completions, &member->completion, settle_member);
        member->fusion_at = at;
        member->fusion_step = 0;
        at += member->elems;
        carry_residual(fusion->fused, member);
    }
}

/** An array of state belongs to one bucket, and to one codec. */
static enum wring_status check_states(const struct wring_session *session,
                                      const struct wring_bucket_fusion *fusion)
{
    const struct wring_bucket *with = fusion->fused->states != NULL ? fusion->members[0] : NULL;

    for (uint32_t i = 0; i < fusion->n; i++)
        if (fusion->members[i]->states != NULL)
            with = fusion->members[i];
    if (with == NULL)
        return WRING_OK;
    wring_error(&session->log,
                "bucket '%s': a plan cannot carry what codec %s keeps between steps; plan without "
                "that codec, or without the bucket",
                with->name,
                wring_codec_info(with->states != NULL ? with->codec : fusion->fused->codec)->spec);
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status make_fused(struct wring_session *session,
                                    struct wring_bucket_fusion *fusion,
                                    const struct wring_bucket_fusion_params *how)
{
    const struct wring_bucket *first = fusion->members[0];
    struct wring_bucket_params params = {
        .name = how->name,
        .dtype = first->dtype,
        .op = first->op,
        .codec = how->codec,
        .scheme = how->scheme,
        .priority = how->priority,
        .group = first->group,
        .executor = how->executor != NULL ? how->executor : first->executor,
    };

    if (fusion->n == 1) {
        params.shape.rows = first->rows;
        params.shape.columns = first->columns;
    }
    for (uint32_t i = 0; i < fusion->n; i++)
        params.elems += fusion->members[i]->elems;
    enum wring_status status = make_fused_memory(session, fusion, params.elems, &params.data);
    if (status != WRING_OK)
        return status;
    status = wring_bucket_make(session, &params, &fusion->fused);
    if (status != WRING_OK)
        goto free_data;
    status = check_states(session, fusion);
    if (status == WRING_OK)
        status = make_room_for_residuals(fusion);
    if (status == WRING_OK)
        return WRING_OK;

    wring_bucket_free(fusion->fused);
free_data:
    if (fusion->owns_data)
        wring_buffer_free(session, params.data);
    return status;
}

static void free_fusion(struct wring_bucket_fusion *fusion)
{
    if (fusion != NULL)
        free(fusion->members);
    free(fusion);
}

enum wring_status wring_bucket_fusion_make(struct wring_session *session,
                                           struct wring_bucket *const *members, uint32_t n,
                                           const struct wring_bucket_fusion_params *how)
{
    struct wring_bucket_fusion *fusion = calloc(1, sizeof(*fusion));

    if (fusion != NULL)
        fusion->members = calloc(n, sizeof(*fusion->members));
    if (fusion == NULL || fusion->members == NULL) {
        free_fusion(fusion);
        return WRING_ERR_NO_MEMORY;
    }
    memcpy(fusion->members, members, n * sizeof(*members));
    fusion->n = n;
    enum wring_status status = make_fused(session, fusion, how);
    if (status != WRING_OK) {
        free_fusion(fusion);
        return status;
    }
    fusion->fused->fuses = fusion;
    move_members_in(session, fusion);
    append_bucket(&session->buckets, fusion->fused);
    return WRING_OK;
}

/** Give a member its part of the fused bucket's residual, even if the member's own codec has none.
 */
static enum wring_status return_residual(const struct wring_bucket *fused,
                                         struct wring_bucket *member)
{
    enum wring_status status = wring_residual_make(member);

    member->loose = true;
    if (status != WRING_OK || fused->residual == NULL || member->elems == 0)
        return status;
    if (member->residual == NULL)
        member->residual = wring_residual_alloc(member);
    if (member->residual == NULL)
        return WRING_ERR_NO_MEMORY;
    wring_residual_copy(member, 0, fused, member->fusion_at, member->elems);
    return WRING_OK;
}

/** All members are without the fused bucket from then on, which is gone. */
static enum wring_status part_fused(struct wring_session *session, struct wring_bucket *fused)
{
    struct wring_bucket_fusion *fusion = fused->fuses;
    enum wring_status status = WRING_OK;

    wring_residual_loosen(fused);
    for (uint32_t i = 0; i < fusion->n; i++) {
        struct wring_bucket *member = fusion->members[i];
        if (status == WRING_OK)
            status = return_residual(fused, member);
        member->collective.step = fused->collective.step;
        member->fusion = NULL;
        member->posted_as = member;
        member->ops = &wring_bucket_alone;
        member->fusion_at = 0;
    }
    unlist_bucket(session, fused);
    if (fusion->owns_data)
        wring_buffer_free(session, fused->data);
    wring_bucket_free(fused); /* and `fusion` with it */
    return status;
}

enum wring_status wring_bucket_fusion_part_all(struct wring_session *session)
{
    enum wring_status status = WRING_OK;

    for (struct wring_bucket *at = session->buckets, *next; at != NULL; at = next) {
        next = at->next;
        if (at->fuses == NULL)
            continue;
        enum wring_status parted = part_fused(session, at);
        status = status == WRING_OK ? parted : status;
    }
    while (session->fused != NULL) {
        struct wring_bucket *member = session->fused;
        session->fused = member->next;
        append_bucket(&session->buckets, member);
    }
    return status;
}

/* ---- members ---- */

/** Its elements in the fused bucket. */
static void *data_in_fused(const struct wring_bucket *bucket)
{
    return (uint8_t *)bucket->fusion->fused->data +
           bucket->fusion_at * wring_dtype_bytes(bucket->dtype);
}

static void set_member_status(struct wring_bucket *bucket, enum wring_status status)
{
    atomic_store_explicit(&bucket->collective.status, status, memory_order_release);
}

static enum wring_status member_status(const struct wring_bucket *bucket)
{
    return (enum wring_status)atomic_load_explicit(&bucket->collective.status,
                                                   memory_order_acquire);
}

/** Why a step that its fellows have not been posted for will not go out; WRING_OK: it may. */
static enum wring_status check_unsent(const struct wring_bucket *bucket)
{
    enum wring_status failed = wring_session_check(bucket->session);
    return failed == WRING_OK && wring_bucket_is_ceased(bucket) ? WRING_ERR_CANCELLED : failed;
}

/** It has ended as that says. @return how */
static enum wring_status end_if_ceased(struct wring_bucket *bucket)
{
    enum wring_status failed = check_unsent(bucket);
    if (failed == WRING_ERR_CANCELLED && wring_bucket_is_ceased(bucket))
        set_member_status(bucket, failed);
    return failed;
}

/** Is its step under way as far as its fellows have been posted? */
static bool is_fused_posted(const struct wring_bucket *bucket)
{
    return atomic_load_explicit(&bucket->fusion->step, memory_order_acquire) == bucket->fusion_step;
}

/** Are all members posted? Then the thread of the last one has posted the fused bucket, or is about
 * to.
 */
static bool are_all_posted(const struct wring_bucket *bucket)
{
    const struct wring_bucket_fusion *fusion = bucket->fusion;
    return atomic_load_explicit(&fusion->posted, memory_order_acquire) >=
           bucket->fusion_step * fusion->n;
}

/** Those that were posted before it hear that nothing comes of that. */
static void end_fellows(const struct wring_bucket *bucket, enum wring_status status)
{
    const struct wring_bucket_fusion *fusion = bucket->fusion;
    for (uint32_t i = 0; i < fusion->n; i++)
        if (fusion->members[i] != bucket)
            wring_bucket_end(fusion->members[i], status);
}

/** Each member is posted once before the next step begins, so that whose post makes it n of them is
 *  the last. */
static enum wring_status post_member(struct wring_bucket *bucket)
{
    struct wring_bucket_fusion *fusion = bucket->fusion;

    if (member_status(bucket) == WRING_ERR_AGAIN)
        return WRING_ERR_BUSY;
    if (!fusion->in_place || bucket->source != NULL)
        wring_bucket_bring(bucket, fusion->in_place ? bucket->data : data_in_fused(bucket));
    uint64_t step = atomic_load_explicit(&fusion->step, memory_order_acquire) + 1;
    bucket->fusion_step = step;
    set_member_status(bucket, WRING_ERR_AGAIN);
    if (atomic_fetch_add(&fusion->posted, 1) + 1 < step * fusion->n)
        return WRING_OK;
    enum wring_status refused = wring_bucket_post_inside(fusion->fused);
    atomic_store_explicit(&fusion->refused, refused, memory_order_relaxed);
    atomic_store_explicit(&fusion->step, step, memory_order_release);
    if (refused != WRING_OK)
        end_fellows(bucket, refused);
    return refused;
}

/** A step that goes past the engine takes one thread at a time, and members may have several. */
static bool lock_fused(struct wring_bucket_fusion *fusion)
{
    return fusion->fused->collective.shm_flags == NULL ||
           !atomic_exchange_explicit(&fusion->turn, true, memory_order_acquire);
}

static void unlock_fused(struct wring_bucket_fusion *fusion)
{
    atomic_store_explicit(&fusion->turn, false, memory_order_release);
}

/** The fused bucket's, while it is not another thread's to see to. */
static bool fused_is_left(struct wring_bucket_fusion *fusion)
{
    if (!lock_fused(fusion))
        return wring_bucket_under_way(fusion->fused);
    bool left = fusion->fused->ops->is_left(fusion->fused);
    unlock_fused(fusion);
    return left;
}

static enum wring_status test_fused(struct wring_bucket_fusion *fusion)
{
    if (!lock_fused(fusion))
        return WRING_ERR_AGAIN;
    enum wring_status status = wring_bucket_test_inside(fusion->fused);
    unlock_fused(fusion);
    return status;
}

/** @return whether it has ended */
static bool wait_for_fused(struct wring_bucket_fusion *fusion, uint64_t deadline_ns,
                           enum wring_status *status)
{
    const struct timespec pause = {0, wring_wait_policy.pause_ns};

    while (!lock_fused(fusion)) {
        if (wring_now_ns() >= deadline_ns) {
            *status = WRING_ERR_TIMEOUT;
            return false;
        }
        nanosleep(&pause, NULL);
    }
    uint64_t now_ns = wring_now_ns();
    uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    *status = wring_bucket_wait_inside(fusion->fused,
                                       deadline_ns == WRING_NEVER ? WRING_FOREVER : left_ns);
    unlock_fused(fusion);
    return !wring_bucket_under_way(fusion->fused);
}

static bool is_member_step_left(struct wring_bucket *bucket)
{
    if (member_status(bucket) != WRING_ERR_AGAIN)
        return false;
    return is_fused_posted(bucket) ? fused_is_left(bucket->fusion)
                                   : check_unsent(bucket) == WRING_OK;
}

static bool lacks_fellow_posts(const struct wring_bucket *bucket)
{
    return member_status(bucket) == WRING_ERR_AGAIN && !are_all_posted(bucket);
}

/** The fused bucket is done. */
static void copy_from_fused(struct wring_bucket *bucket)
{
    const struct wring_bucket_fusion *fusion = bucket->fusion;
    enum wring_status status =
        (enum wring_status)atomic_load_explicit(&fusion->refused, memory_order_relaxed);
    if (status == WRING_OK)
        status = member_status(bucket->posted_as);
    if (status == WRING_OK && !fusion->in_place && bucket->elems > 0)
        memcpy(bucket->data, data_in_fused(bucket), wring_bucket_bytes(bucket));
    set_member_status(bucket, status);
}

/** Take its part of a fused bucket that is done; one that was never sent has failed with the
 * session. The thread that calls back may do so at the same time. */
static enum wring_status end_member_step(struct wring_bucket *bucket)
{
    if (member_status(bucket) == WRING_ERR_AGAIN && !is_fused_posted(bucket))
        return end_if_ceased(bucket);
    while (member_status(bucket) == WRING_ERR_AGAIN) {
        if (atomic_exchange_explicit(&bucket->taking, true, memory_order_acquire)) {
            sched_yield();
            continue;
        }
        if (member_status(bucket) == WRING_ERR_AGAIN)
            copy_from_fused(bucket);
        atomic_store_explicit(&bucket->taking, false, memory_order_release);
    }
    return member_status(bucket);
}

static enum wring_status test_member(struct wring_bucket *bucket)
{
    if (member_status(bucket) != WRING_ERR_AGAIN)
        return member_status(bucket);
    enum wring_status failed =
        is_fused_posted(bucket) ? wring_session_check(bucket->session) : end_if_ceased(bucket);
    if (failed != WRING_OK)
        return failed;
    if (!is_fused_posted(bucket) || test_fused(bucket->fusion) == WRING_ERR_AGAIN)
        return WRING_ERR_AGAIN;
    return end_member_step(bucket);
}

/** One of those that a bucket waits for. */
static const struct wring_bucket *find_unposted_fellow(const struct wring_bucket *bucket)
{
    const struct wring_bucket_fusion *fusion = bucket->fusion;
    uint32_t i = 0;

    while (i + 1 < fusion->n && member_status(fusion->members[i]) == WRING_ERR_AGAIN &&
           !is_fused_posted(fusion->members[i]))
        i++;
    return fusion->members[i];
}

/** Wait while another thread posts the last member; that thread waits for no other. */
static bool await_fused_post(const struct wring_bucket *bucket, uint64_t deadline_ns)
{
    while (!is_fused_posted(bucket)) {
        if (wring_now_ns() >= deadline_ns)
            return false;
        sched_yield();
    }
    return true;
}

static enum wring_status wait_for_member(struct wring_bucket *bucket, uint64_t timeout_ns)
{
    if (member_status(bucket) != WRING_ERR_AGAIN)
        return member_status(bucket);
    enum wring_status failed =
        is_fused_posted(bucket) ? wring_session_check(bucket->session) : end_if_ceased(bucket);
    if (failed != WRING_OK)
        return failed;
    if (lacks_fellow_posts(bucket)) {
        wring_error(&bucket->session->log,
                    "bucket '%s' is waited for, and travels with '%s', which is not posted yet: "
                    "post both before waiting, or plan without merging them",
                    bucket->name, find_unposted_fellow(bucket)->name);
        return WRING_ERR_INVALID;
    }
    uint64_t deadline_ns = wring_deadline_in(timeout_ns);
    if (!await_fused_post(bucket, deadline_ns))
        return WRING_ERR_TIMEOUT;
    enum wring_status status;
    return wait_for_fused(bucket->fusion, deadline_ns, &status) ? end_member_step(bucket) : status;
}

/** Before its callback: bring its part of the fused bucket to where it belongs. */
static void settle_member(struct wring_completion *completion)
{
    struct wring_bucket *bucket = wring_bucket_of(completion);
    while (bucket->fusion != NULL && member_status(bucket) == WRING_ERR_AGAIN) {
        if (is_fused_posted(bucket))
            end_member_step(bucket);
        else
            sched_yield(); /* the last post has ended and returns just now */
    }
}

void wring_bucket_fusion_end_unsent(struct wring_session *session)
{
    for (struct wring_bucket *at = session->fused; at != NULL; at = at->next)
        if (lacks_fellow_posts(at)) {
            set_member_status(at, WRING_ERR_CLOSED);
            wring_bucket_end(at, WRING_ERR_CLOSED);
        }
}

const struct wring_bucket_ops wring_bucket_fusion_ops = {
    .post = post_member,
    .test = test_member,
    .wait = wait_for_member,
    .is_left = is_member_step_left,
    .is_unsent = lacks_fellow_posts,
    .take = end_member_step,
};
