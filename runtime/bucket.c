/* SPDX-License-Identifier: Apache-2.0 */
/* A bucket's steps: posted, tested and waited for. */
#include "runtime/bucket.h"
#include "compress/reduce.h"
#include "runtime/residual.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/codec_states.h"
#include "runtime/plan/bucket_fusion.h"
#include "runtime/session/session.h"
#include "runtime/versioned_struct.h"
#include "transport/wait_policy.h"

#define WRING_MODULE "bucket"
#define CEASE_NS (50 * WRING_NS_PER_MS)

struct wring_bucket *wring_bucket_find(const struct wring_session *session, const char *name)
{
    const struct wring_bucket *const lists[] = {session->fused, session->buckets};
    for (size_t i = 0; i < 2; i++)
        for (const struct wring_bucket *at = lists[i]; at != NULL; at = at->next)
            if (!at->dropped && at->fuses == NULL && at->whole == NULL &&
                strcmp(at->name, name) == 0)
                return (struct wring_bucket *)at;
    return NULL;
}

/** Is its own step under way, once what is here already has been seen to? */
static bool is_step_left(struct wring_bucket *bucket)
{
    return wring_bucket_under_way(bucket) &&
           (bucket->collective.shm_flags == NULL || !wring_shm_flags_end(&bucket->collective));
}

void wring_bucket_set_committed(struct wring_bucket *bucket)
{
    bool plain = bucket->session->callers.may_mark && bucket->posted_as == bucket &&
                 bucket->watch == NULL && !wring_bucket_keeps(bucket) &&
                 bucket->kept_input == NULL && !bucket->idle && !bucket->collective.watched &&
                 bucket->source == NULL;
    bucket->committed = true;
    bucket->sent = false;
    atomic_store_explicit(&bucket->mark.plain, plain, memory_order_relaxed);
}

void wring_bucket_uncommit(struct wring_bucket *bucket)
{
    bucket->committed = false;
    atomic_store_explicit(&bucket->mark.plain, false, memory_order_relaxed);
}

/** As callers are told of it. */
static struct wring_result make_step_result(const struct wring_bucket *bucket,
                                            enum wring_status status)
{
    struct wring_result result =
        wring_result_make(bucket->session, status, wring_bucket_bytes(bucket));
    unsigned aborted_by = atomic_load(&bucket->group->aborted_by);
    if (status == WRING_ERR_CANCELLED && aborted_by > 0)
        result.rank = (int32_t)(aborted_by - 1);
    return result;
}

void wring_bucket_tell(const struct wring_bucket *bucket, enum wring_status status,
                       struct wring_result *result)
{
    struct wring_result ours = make_step_result(bucket, status);
    if (status != WRING_ERR_AGAIN && status != WRING_ERR_TIMEOUT)
        wring_result_give(&ours, result);
}

void wring_bucket_end(struct wring_bucket *bucket, enum wring_status status)
{
    struct wring_completions *all = &bucket->session->completions;
    if (bucket->completion.done == NULL) {
        wring_completions_ring(all);
        return;
    }
    struct wring_result result = make_step_result(bucket, status);
    wring_completion_end(all, &bucket->completion, &result, NULL);
}

void wring_bucket_finished(struct wring_collective *collective, enum wring_status status)
{
    struct wring_bucket *bucket = collective->owner;
    const struct wring_bucket_fusion *fusion = bucket->fuses;

    if (fusion == NULL)
        wring_bucket_end(bucket, status);
    for (uint32_t i = 0; fusion != NULL && i < fusion->n; i++)
        wring_bucket_end(fusion->members[i], status);
}

/** Functions like this one are kept apart so that the fast path past them does not carry their
 *  weight. */
__attribute__((noinline)) static enum wring_status post_to_engine(struct wring_bucket *bucket)
{
    wring_progress_post(bucket->session->progress, &bucket->collective);
    return WRING_OK;
}

/** Begin a step with the bucket's current data. */
static enum wring_status begin_step(struct wring_bucket *bucket)
{
    enum wring_status failed = wring_session_check(bucket->session);

    if (failed != WRING_OK)
        return failed;
    if (atomic_load_explicit(&bucket->collective.cease->status, memory_order_relaxed) != WRING_OK)
        return WRING_ERR_CANCELLED;
    if (wring_bucket_under_way(bucket) && is_step_left(bucket))
        return WRING_ERR_BUSY;
    if (bucket->collective.shm_flags == NULL)
        return post_to_engine(bucket);
    wring_shm_flags_begin(&bucket->collective);
    wring_progress_attend(bucket->session->progress, &bucket->collective);
    return WRING_OK;
}

void wring_bucket_bring(const struct wring_bucket *bucket, void *to)
{
    const void *from = bucket->source != NULL ? bucket->source : bucket->data;

    if (bucket->elems == 0)
        return;
    if (bucket->multiplies)
        wring_scale(bucket->dtype, to, from, bucket->elems, bucket->factor,
                    bucket->session->config.cpu);
    else if (to != from)
        memcpy(to, from, wring_bucket_bytes(bucket));
}

/** A residual that is to go out with the step needs data that it may be added to. What is read
 * where it lies needs no registration. */
static void set_step_input(struct wring_bucket *bucket)
{
    bool reads = bucket->reads_source && !bucket->idle;

    bucket->collective.work.in = reads ? bucket->source : bucket->data;
    bucket->collective.work.in_block = reads ? NULL : bucket->block;
    if (!reads)
        wring_bucket_bring(bucket, bucket->data);
}

/** Begin a step with a residual: keep a copy of it in case the step fails, or send it out. */
static enum wring_status begin_with_residual(struct wring_bucket *bucket)
{
    if (is_step_left(bucket))
        return WRING_ERR_BUSY;
    if (bucket->source != NULL)
        set_step_input(bucket);
    if (bucket->kept_input != NULL) {
        memcpy(bucket->kept_input, bucket->data, wring_bucket_bytes(bucket));
        bucket->kept_step = bucket->collective.step;
    }
    bucket->sent = bucket->idle;
    if (wring_bucket_keeps(bucket) && (!bucket->choice.bypass || bucket->sent)) {
        if (bucket->kept != NULL)
            memcpy(bucket->kept, bucket->residual, wring_residual_bytes(bucket));
        if (bucket->states != NULL)
            wring_codec_states_keep(bucket->states);
        bucket->kept_step = bucket->collective.step;
    }
    if (bucket->idle)
        wring_residual_flush(bucket);
    return begin_step(bucket);
}

enum wring_status wring_bucket_post_inside(struct wring_bucket *bucket)
{
    enum wring_status failed = wring_session_check(bucket->session);
    if (failed != WRING_OK)
        return failed;
    if (!bucket->committed) {
        wring_error(&bucket->session->log, "bucket '%s' is posted before wring_session_commit()",
                    bucket->name);
        return WRING_ERR_INVALID;
    }
    return bucket->ops->post(bucket);
}

static enum wring_status post_planned_step(struct wring_bucket *bucket)
{
    enum wring_status status = bucket->watch->arrive(bucket);
    uint64_t at_ns = wring_now_ns();
    if (status == WRING_OK)
        status = wring_bucket_post_inside(bucket);
    if (status == WRING_OK)
        bucket->watch->posted(bucket, at_ns);
    return status;
}

__attribute__((noinline)) static enum wring_status post_by_slow_path(struct wring_bucket *bucket)
{
    struct wring_session *session = bucket->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    bool planned = bucket->watch != NULL && bucket->committed;
    bool inside = wring_bucket_enter(bucket);
    enum wring_status status = WRING_ERR_CANCELLED;
    if (inside)
        status = planned ? post_planned_step(bucket) : wring_bucket_post_inside(bucket);
    wring_bucket_leave(bucket, inside);
    return wring_session_leave(session, status);
}

/** A step of a plain bucket enters by its mark; all else, a forked child too, by the count. */
static inline bool enter_plain(struct wring_bucket *bucket)
{
    return !wring_session_is_inherited(bucket->session) && wring_caller_mark(&bucket->mark);
}

enum wring_status wring_bucket_post(struct wring_bucket *bucket)
{
    if (!enter_plain(bucket))
        return post_by_slow_path(bucket);
    enum wring_status status = begin_step(bucket);
    wring_caller_unmark(&bucket->mark);
    return status;
}

/** Test a step of a bucket that travels by itself. */
static enum wring_status test_step(struct wring_bucket *bucket)
{
    struct wring_progress *progress = bucket->session->progress;
    struct wring_collective *collective = &bucket->collective;

    if (is_step_left(bucket)) {
        if (collective->shm_flags != NULL &&
            wring_shm_flags_give(collective, wring_wait_policy.tests_alone))
            wring_progress_hand_in(progress, collective);
        wring_progress_nudge(progress);
    }
    return (enum wring_status)atomic_load_explicit(&collective->status, memory_order_acquire);
}

enum wring_status wring_bucket_test_inside(struct wring_bucket *bucket)
{
    if (!bucket->committed)
        return WRING_ERR_INVALID;
    return bucket->ops->test(bucket);
}

static enum wring_status test_planned_step(struct wring_bucket *bucket)
{
    enum wring_status status;
    if (bucket->watch->is_over(bucket, &status))
        return status;
    status = wring_bucket_test_inside(bucket);
    if (status != WRING_ERR_AGAIN)
        bucket->watch->waited(bucket, 0, true);
    return status;
}

/** A test that counts the caller as inside the session: also for a caller that wants a result. */
__attribute__((noinline)) static enum wring_status test_by_slow_path(struct wring_bucket *bucket,
                                                                     struct wring_result *result)
{
    struct wring_session *session = bucket->session;
    enum wring_status status = wring_session_enter(session);
    if (status != WRING_OK)
        return status;
    status = wring_result_check(session, result);
    if (status == WRING_OK) {
        bool inside = wring_bucket_enter(bucket);
        status =
            bucket->watch != NULL ? test_planned_step(bucket) : wring_bucket_test_inside(bucket);
        wring_bucket_leave(bucket, inside);
        wring_bucket_tell(bucket, status, result);
    }
    wring_session_call_back(session);
    return wring_session_leave(session, status);
}

enum wring_status wring_bucket_test(struct wring_bucket *bucket, struct wring_result *result)
{
    if (result != NULL || !enter_plain(bucket))
        return test_by_slow_path(bucket, result);
    enum wring_status status = test_step(bucket);
    wring_caller_unmark(&bucket->mark);
    return status;
}

__attribute__((noinline)) static enum wring_status wait_with_engine(struct wring_bucket *bucket,
                                                                    uint64_t timeout_ns)
{
    uint64_t began_ns = bucket->session->trace != NULL ? wring_now_ns() : 0;
    enum wring_status status = wring_progress_wait(
        bucket->session->progress, &bucket->collective.status, wring_deadline_in(timeout_ns));
    wring_collective_trace_wait(&bucket->collective, began_ns);
    return status == WRING_ERR_AGAIN ? WRING_ERR_TIMEOUT : status;
}

/** Until the step that was begun has ended. */
static enum wring_status wait_for_step(struct wring_bucket *bucket, uint64_t timeout_ns)
{
    struct wring_collective *collective = &bucket->collective;

    if (collective->shm_flags == NULL ||
        !wring_progress_wait_alone(bucket->session->progress, collective))
        return wait_with_engine(bucket, timeout_ns);
    return (enum wring_status)atomic_load_explicit(&collective->status, memory_order_acquire);
}

enum wring_status wring_bucket_wait_inside(struct wring_bucket *bucket, uint64_t timeout_ns)
{
    if (!bucket->committed)
        return WRING_ERR_INVALID;
    return bucket->ops->wait(bucket, timeout_ns);
}

static enum wring_status wait_for_planned_step(struct wring_bucket *bucket, uint64_t timeout_ns)
{
    enum wring_status status;
    if (bucket->watch->is_over(bucket, &status))
        return status;
    uint64_t began_ns = wring_now_ns();
    status = wring_bucket_wait_inside(bucket, timeout_ns);
    bucket->watch->waited(bucket, began_ns, status != WRING_ERR_TIMEOUT);
    return status;
}

static enum wring_status wait_for_result(struct wring_bucket *bucket, uint64_t timeout_ns,
                                         struct wring_result *result)
{
    if (wring_session_refuses_to_wait(bucket->session, "wring_bucket_wait") ||
        wring_result_check(bucket->session, result) != WRING_OK)
        return WRING_ERR_INVALID;
    bool inside = wring_bucket_enter(bucket);
    enum wring_status status = bucket->watch != NULL ? wait_for_planned_step(bucket, timeout_ns)
                                                     : wring_bucket_wait_inside(bucket, timeout_ns);
    wring_bucket_leave(bucket, inside);
    wring_bucket_tell(bucket, status, result);
    wring_session_call_back(bucket->session);
    return status;
}

__attribute__((noinline)) static enum wring_status wait_by_slow_path(struct wring_bucket *bucket,
                                                                     uint64_t timeout_ns,
                                                                     struct wring_result *result)
{
    struct wring_session *session = bucket->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, wait_for_result(bucket, timeout_ns, result));
}

enum wring_status wring_bucket_wait(struct wring_bucket *bucket, uint64_t timeout_ns,
                                    struct wring_result *result)
{
    if (result != NULL || wring_completions_inside(&bucket->session->completions) ||
        !enter_plain(bucket))
        return wait_by_slow_path(bucket, timeout_ns, result);
    enum wring_status status = wait_for_step(bucket, timeout_ns);
    wring_caller_unmark(&bucket->mark);
    return status;
}

uint64_t wring_bucket_steps(const struct wring_bucket *bucket)
{
    const struct wring_collective *collective = &bucket->posted_as->collective;
    int status = atomic_load_explicit(&collective->status, memory_order_acquire);
    return status == WRING_OK || collective->step == 0 ? collective->step : collective->step - 1;
}

void wring_bucket_give(struct wring_bucket *bucket)
{
    if (bucket->collective.shm_flags != NULL)
        wring_shm_flags_wait(&bucket->collective, 0);
}

static bool is_never_unsent(const struct wring_bucket *bucket)
{
    (void)bucket;
    return false;
}

static enum wring_status get_step_status(struct wring_bucket *bucket)
{
    return (enum wring_status)atomic_load_explicit(&bucket->collective.status,
                                                   memory_order_acquire);
}

const struct wring_bucket_ops wring_bucket_alone = {
    .post = begin_with_residual,
    .test = test_step,
    .wait = wait_for_step,
    .is_left = is_step_left,
    .is_unsent = is_never_unsent,
    .take = get_step_status,
};

/* ---- a group that was aborted ---- */

bool wring_bucket_enter(struct wring_bucket *bucket)
{
    atomic_fetch_add(&bucket->posted_as->entered, 1);
    if (!wring_bucket_is_ceased(bucket))
        return true;
    atomic_fetch_sub(&bucket->posted_as->entered, 1);
    wring_bucket_end_ceased(bucket);
    return false;
}

/** Wait until calls that came before they could see the abort have left. They soon give their steps
 *  to the engine, which ends these. @return whether all have */
static bool await_callers_inside(struct wring_bucket *posted_as, uint64_t until_ns)
{
    const struct timespec pause = {0, wring_wait_policy.pause_ns};

    atomic_store(&posted_as->mark.plain, false);
    wring_fence_heavy();
    while (atomic_load(&posted_as->entered) > 0 || atomic_load(&posted_as->mark.inside)) {
        if (wring_now_ns() >= until_ns)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

/** Nobody else looks at its step. */
static void give_step_to_engine(struct wring_bucket *posted_as)
{
    struct wring_collective *collective = &posted_as->collective;
    if (collective->shm_flags != NULL && wring_bucket_under_way(posted_as) &&
        wring_shm_flags_give(collective, 0))
        wring_progress_hand_in(posted_as->session->progress, collective);
}

bool wring_bucket_end_ceased(struct wring_bucket *bucket)
{
    struct wring_bucket *posted_as = bucket->posted_as;
    const struct timespec pause = {0, wring_wait_policy.pause_ns};
    uint64_t until_ns = wring_deadline_in(CEASE_NS);
    bool ours = false;

    while (wring_bucket_under_way(posted_as) && wring_now_ns() < until_ns) {
        ours = ours || !atomic_exchange(&posted_as->ending, true);
        if (ours && await_callers_inside(posted_as, until_ns))
            give_step_to_engine(posted_as);
        wring_progress_nudge(posted_as->session->progress);
        if (wring_bucket_under_way(posted_as))
            nanosleep(&pause, NULL);
    }
    if (ours)
        atomic_store(&posted_as->ending, false);
    return !wring_bucket_under_way(posted_as);
}

/** Streams belong to devices: their executors alone can wait for them. @param what  the call */
static enum wring_status refuse_stream(const struct wring_bucket *bucket, const char *what,
                                       const struct wring_stream *stream)
{
    const struct wring_session *session = bucket->session;
    const struct wring_executor *executor = bucket->queue->executor;
    char name[WRING_TEXT_SHORT];

    if (stream == NULL || stream->struct_bytes < sizeof(*stream)) {
        wring_error(&session->log, "%s: needs a struct wring_stream, its struct_bytes set", what);
        return WRING_ERR_INVALID;
    }
    wring_error(&session->log,
                "%s: executor %s of bucket '%s' works on no device, so it cannot follow a stream: "
                "synchronize the stream, and call %s",
                what, executor->ops->name, wring_text_short(bucket->name, name),
                strcmp(what, "wring_bucket_post_on") == 0 ? "wring_bucket_post"
                                                          : "wring_bucket_wait");
    return WRING_ERR_UNSUPPORTED;
}

enum wring_status wring_bucket_post_on(struct wring_bucket *bucket,
                                       const struct wring_stream *stream)
{
    enum wring_status entered = wring_session_enter(bucket->session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(bucket->session,
                               refuse_stream(bucket, "wring_bucket_post_on", stream));
}

enum wring_status wring_bucket_wait_on(struct wring_bucket *bucket,
                                       const struct wring_stream *stream)
{
    enum wring_status entered = wring_session_enter(bucket->session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(bucket->session,
                               refuse_stream(bucket, "wring_bucket_wait_on", stream));
}

enum wring_status wring_bucket_drop(struct wring_bucket *bucket)
{
    struct wring_session *session = bucket->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    bool inside = wring_bucket_enter(bucket);
    bool left = bucket->ops->is_left(bucket);
    wring_bucket_leave(bucket, inside);
    bucket->dropped |= !left; /* peers may still send it credits: the next commit frees it */
    return wring_session_leave(session, left ? WRING_ERR_BUSY : WRING_OK);
}
