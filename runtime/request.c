/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/request.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "runtime/bucket.h"
#include "runtime/plan/recorder.h"
#include "runtime/versioned_struct.h"

#define WRING_MODULE "group"

static void on_finished(struct wring_collective *collective, enum wring_status status);

/** It is the one that the group's collective runs next. Under the group's mutex. The group has no
 *  board if its first call was never begun; then the session ends, and so does this one, unbegun.
 */
static void set_running_request(struct wring_group *group, struct wring_request *request)
{
    group->running = request;
    group->collective.finished = on_finished;
    group->collective.work = request->work;
    group->collective.priority = request->work.priority;
    if (request->work.in_runs != NULL)
        wring_collective_lay_out(&group->collective);
    if (wring_collective_uses_shm_flags(&group->collective) && group->collective.shm_flags != NULL)
        wring_shm_flags_prepare(&group->collective);
}

void wring_request_end(struct wring_request *request, const struct wring_result *result)
{
    struct wring_session *session = request->group->session;
    request->ended = atomic_load_explicit(&session->engine->finished, memory_order_relaxed);
    wring_completion_end(&session->completions, &request->completion, result, &request->status);
}

/** A call has ended: whose fault that is, if it is one's of its group alone, too. */
static void end_request(struct wring_request *request, enum wring_status status)
{
    struct wring_group *group = request->group;
    struct wring_result result =
        wring_result_make(group->session, status, request->work.result_bytes);
    unsigned aborted_by = atomic_load(&group->aborted_by);
    if (status == WRING_ERR_CANCELLED && aborted_by > 0)
        result.rank = (int32_t)(aborted_by - 1);
    wring_request_end(request, &result);
}

/** The engine is done with one: start the next, then tell whoever waits. */
static void on_finished(struct wring_collective *collective, enum wring_status status)
{
    struct wring_group *group = collective->owner;
    pthread_mutex_lock(&group->mutex);
    struct wring_request *done = group->running;
    struct wring_request *next = group->waiting;
    group->running = NULL;
    if (next != NULL) {
        group->waiting = next->next;
        set_running_request(group, next);
        wring_engine_post(group->session->engine, &group->collective);
    }
    pthread_mutex_unlock(&group->mutex);
    end_request(done, status);
}

void wring_requests_cease(struct wring_group *group)
{
    pthread_mutex_lock(&group->mutex);
    struct wring_request *waiting = group->waiting;
    group->waiting = NULL;
    pthread_mutex_unlock(&group->mutex);
    while (waiting != NULL) {
        struct wring_request *next = waiting->next;
        end_request(waiting, WRING_ERR_CANCELLED);
        waiting = next;
    }
}

/** Under the group's mutex. */
static void list_held(struct wring_request *request)
{
    struct wring_group *group = request->group;

    request->older = group->held;
    if (group->held != NULL)
        group->held->newer = request;
    group->held = request;
}

void wring_request_hold(struct wring_request *request)
{
    pthread_mutex_lock(&request->group->mutex);
    request->held = true;
    list_held(request);
    pthread_mutex_unlock(&request->group->mutex);
}

/** What it had of its own besides. */
static void finish_request(struct wring_request *request)
{
    wring_coding_destroy(request->work.coding);
    free(request->work.memory);
}

static void free_completed_request(struct wring_completion *completion)
{
    struct wring_request *request =
        (void *)((char *)completion - offsetof(struct wring_request, completion));
    finish_request(request);
    free(request);
}

/** The caller has heard how it ended. */
static void release_request(struct wring_request *request)
{
    struct wring_group *group = request->group;
    struct wring_session *session = group->session;

    pthread_mutex_lock(&group->mutex);
    if (request->newer != NULL)
        request->newer->older = request->older;
    else
        group->held = request->older;
    if (request->older != NULL)
        request->older->newer = request->newer;
    pthread_mutex_unlock(&group->mutex);
    wring_completion_release(&session->completions, &request->completion, free_completed_request);
}

void wring_requests_free(struct wring_group *group)
{
    while (group->held != NULL) {
        struct wring_request *request = group->held;
        group->held = request->older;
        finish_request(request);
        free(request);
    }
}

/** The first call that may use boards sends a piece to all instead, which tells all members where
 *  the others have theirs. Which one that is goes by the order of the queue. Under the group's
 * mutex.
 */
static void use_eager_until_paired(struct wring_request *request)
{
    struct wring_group *group = request->group;
    struct wring_work *work = &request->work;

    if (group->paired || !wring_algorithm_has_board(work->algorithm))
        return;
    wring_work_set_algorithm(work, WRING_ALLREDUCE_EAGER);
    group->paired = work->partition.elems > 0 || work->sync;
}

static void submit_request(struct wring_request *request)
{
    struct wring_group *group = request->group;

    pthread_mutex_lock(&group->mutex);
    use_eager_until_paired(request);
    if (request->held)
        list_held(request);
    bool first = group->running == NULL;
    if (first) {
        set_running_request(group, request);
    } else {
        struct wring_request **at = &group->waiting;
        while (*at != NULL)
            at = &(*at)->next;
        *at = request;
    }
    pthread_mutex_unlock(&group->mutex);
    if (first) /* it may finish at once, which takes the mutex */
        wring_progress_post(group->session->progress, &group->collective);
}

/** Errors: WRING_ERR_NO_MEMORY. */
static enum wring_status init_request(struct wring_request *request, struct wring_group *group,
                                      const struct wring_work *work)
{
    request->group = group;
    request->completion = (struct wring_completion){0};
    request->next = NULL;
    request->work = *work;
    request->held = false;
    request->older = request->newer = NULL;
    atomic_init(&request->status, WRING_ERR_AGAIN);
    if (work->codec == NULL)
        return WRING_OK;
    return wring_coding_create(&group->collective, work, &request->work.coding);
}

/** Make it the one that the group runs, if there is none. */
static bool try_set_running(struct wring_request *request)
{
    struct wring_group *group = request->group;
    pthread_mutex_lock(&group->mutex);
    bool first = group->running == NULL;
    if (first) {
        use_eager_until_paired(request);
        set_running_request(group, request);
    }
    pthread_mutex_unlock(&group->mutex);
    return first;
}

/** Run it here and now, or at least queue it. @return whether it has ended */
static bool run_over_shm_flags(struct wring_request *request)
{
    struct wring_group *group = request->group;
    struct wring_progress *progress = group->session->progress;

    if (!wring_progress_hold(progress)) {
        submit_request(request);
        return false;
    }
    bool first = try_set_running(request);
    bool board = first && wring_collective_uses_shm_flags(&group->collective);
    bool ended = board && wring_progress_run_held(progress, &group->collective);
    if (first && !board)
        wring_engine_post(group->session->engine, &group->collective);
    if (ended)
        on_finished(&group->collective, (enum wring_status)atomic_load(&group->collective.status));
    wring_progress_release(progress);
    if (!first)
        submit_request(request);
    return ended;
}

enum wring_status wring_request_await(struct wring_session *session, const atomic_int *status,
                                      uint64_t deadline_ns)
{
    enum wring_status ended = wring_progress_wait(session->progress, status, deadline_ns);

    while (ended == WRING_ERR_CLOSED &&
           atomic_load_explicit(status, memory_order_acquire) == WRING_ERR_AGAIN) {
        sched_yield();
        wring_progress_drop(session->progress);
    }
    return ended;
}

static enum wring_status wait_for_end(struct wring_request *request, uint64_t deadline_ns)
{
    return wring_request_await(request->group->session, &request->status, deadline_ns);
}

/** There is no request that would free its memory. */
static enum wring_status free_work_memory(const struct wring_work *work, enum wring_status status)
{
    free(work->memory);
    return status;
}

/** Without a request that the caller would hold, and so without memory for it. */
static enum wring_status run_to_end(struct wring_group *group, const struct wring_work *work)
{
    struct wring_request request;
    enum wring_status status = init_request(&request, group, work);
    if (status != WRING_OK)
        return free_work_memory(work, status);
    if (!wring_algorithm_has_board(work->algorithm))
        submit_request(&request);
    else if (run_over_shm_flags(&request))
        return free_work_memory(
            work, (enum wring_status)atomic_load_explicit(&request.status, memory_order_relaxed));
    status = wait_for_end(&request, WRING_NEVER);
    finish_request(&request);
    return status;
}

/** @param out  NULL: nobody asks for it but the call itself */
static enum wring_status start_request(struct wring_group *group, const struct wring_work *work,
                                       const struct wring_call *how, struct wring_request **out)
{
    struct wring_request *request = malloc(sizeof(*request));
    if (request == NULL)
        return free_work_memory(work, WRING_ERR_NO_MEMORY);
    enum wring_status status = init_request(request, group, work);
    if (status != WRING_OK) {
        free(request);
        return free_work_memory(work, status);
    }
    request->completion.done = how->done;
    request->completion.done_arg = how->done_arg;
    request->held = true;
    *out = request;
    submit_request(request);
    return WRING_OK;
}

/** With a callback, whose request may have to outlast the call. */
static enum wring_status run_with_callback(struct wring_group *group, const struct wring_work *work,
                                           const struct wring_call *how)
{
    struct wring_request *request;
    enum wring_status status = start_request(group, work, how, &request);
    if (status != WRING_OK)
        return status;
    wait_for_end(request, WRING_NEVER);
    return wring_request_take(request, NULL);
}

/** Can calls be made in it? Errors: WRING_ERR_MISMATCH, WRING_ERR_TIMEOUT (a member gave up making
 * it); logged. */
static enum wring_status check_group(const struct wring_group *group)
{
    const struct wring_log *log = &group->session->log;
    unsigned given_up = atomic_load_explicit(&group->pairs.given_up, memory_order_relaxed);

    if (group->unfit[0] != '\0') {
        wring_error(log, "%s", group->unfit);
        return WRING_ERR_MISMATCH;
    }
    if (atomic_load_explicit(&group->aborted_by, memory_order_relaxed) != 0)
        return WRING_ERR_CANCELLED;
    if (given_up == 0)
        return WRING_OK;
    wring_error(log,
                "rank %u gave up making this group just before all had made it: destroy it, "
                "and make it again with more time",
                given_up - 1);
    return WRING_ERR_TIMEOUT;
}

static enum wring_status make_send_slots(struct wring_group *group)
{
    size_t bytes = wring_collective_slot_memory(&group->collective);
    enum wring_status status =
        wring_block_alloc_source(group->session->fabric, bytes, &group->sources);
    if (status == WRING_OK)
        status = wring_block_populate(&group->sources);
    if (status == WRING_OK)
        wring_collective_give_slots(&group->collective, group->sources.memory.base);
    return status;
}

/** Pieces are sent from slots, be they codes, copies, or the sums that a root is to have. */
static bool uses_send_slots(const struct wring_group *group, const struct wring_work *work)
{
    bool copies = work->scratch != NULL && !wring_block_sendable(group->session->fabric, NULL);
    return copies || work->codec != NULL || work->in_staged || work->out_staged ||
           work->algorithm == WRING_REDUCE_TWO_SHOT;
}

/** There are send slots, if that work needs any: made with the first that does. Errors:
 *  WRING_ERR_NO_MEMORY, those of the provider. */
static enum wring_status ensure_send_slots(struct wring_group *group, const struct wring_work *work)
{
    struct wring_progress *progress = group->session->progress;
    enum wring_status status = WRING_OK;

    if (!uses_send_slots(group, work) || group->members.n == 1 ||
        atomic_load_explicit(&group->has_sources, memory_order_acquire))
        return WRING_OK;
    wring_progress_lock(progress);
    if (!atomic_load_explicit(&group->has_sources, memory_order_relaxed))
        status = make_send_slots(group);
    atomic_store_explicit(&group->has_sources, status == WRING_OK, memory_order_release);
    wring_progress_unlock(progress);
    return status;
}

static enum wring_status start_unrecorded(struct wring_group *group, const struct wring_work *work,
                                          const struct wring_call *how, struct wring_request **out)
{
    enum wring_status failed = wring_session_check(group->session);
    if (failed != WRING_OK)
        return free_work_memory(work, failed);
    failed = check_group(group);
    if (failed == WRING_OK)
        failed = ensure_send_slots(group, work);
    if (failed != WRING_OK)
        return free_work_memory(work, failed);
    if (out != NULL)
        return start_request(group, work, how, out);
    if (wring_session_refuses_to_wait(group->session, "A call without a request"))
        return free_work_memory(work, WRING_ERR_INVALID);
    return how->done != NULL ? run_with_callback(group, work, how) : run_to_end(group, work);
}

/** Kept apart, as for all but few sessions there is nothing to record. */
__attribute__((noinline)) static enum wring_status start_recorded(struct wring_group *group,
                                                                  const struct wring_work *work,
                                                                  const struct wring_call *how,
                                                                  struct wring_request **out)
{
    struct wring_recorder *recorder = group->session->recorder;
    bool inside = wring_recorder_call(recorder, group, work);
    enum wring_status status = start_unrecorded(group, work, how, out);
    if (inside)
        wring_recorder_leave(recorder);
    return status;
}

enum wring_status wring_request_start(struct wring_group *group, const struct wring_work *work,
                                      const struct wring_call *how, struct wring_request **out)
{
    return group->session->recorder == NULL ? start_unrecorded(group, work, how, out)
                                            : start_recorded(group, work, how, out);
}

enum wring_status wring_request_take(struct wring_request *request, struct wring_result *result)
{
    enum wring_status status =
        (enum wring_status)atomic_load_explicit(&request->status, memory_order_acquire);
    wring_result_give(&request->completion.result, result);
    release_request(request);
    return status;
}

static enum wring_status test_and_take_request(struct wring_request *request,
                                               struct wring_result *result)
{
    struct wring_session *session = request->group->session;
    if (wring_result_check(session, result) != WRING_OK)
        return WRING_ERR_INVALID;
    if (!wring_request_is_over(request))
        wring_progress_visit(session->progress);
    wring_session_call_back(session);
    return wring_request_is_over(request) ? wring_request_take(request, result) : WRING_ERR_AGAIN;
}

enum wring_status wring_request_test(struct wring_request *request, struct wring_result *result)
{
    struct wring_session *session = request->group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, test_and_take_request(request, result));
}

static enum wring_status wait_and_take_request(struct wring_request *request, uint64_t timeout_ns,
                                               struct wring_result *result)
{
    struct wring_session *session = request->group->session;
    if (wring_session_refuses_to_wait(session, "wring_request_wait") ||
        wring_result_check(session, result) != WRING_OK)
        return WRING_ERR_INVALID;
    struct wring_recorder *recorder = session->recorder;
    bool inside = recorder != NULL && request->work.ops != NULL &&
                  wring_recorder_wait(recorder, request->group);
    enum wring_status status = wait_for_end(request, wring_deadline_in(timeout_ns));
    if (inside)
        wring_recorder_leave(recorder);
    return status == WRING_ERR_AGAIN ? WRING_ERR_TIMEOUT : wring_request_take(request, result);
}

enum wring_status wring_request_wait(struct wring_request *request, uint64_t timeout_ns,
                                     struct wring_result *result)
{
    struct wring_session *session = request->group->session;
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, wait_and_take_request(request, timeout_ns, result));
}

/** Keep a codec for later calls, or take the one of the same spec that is there. */
static enum wring_status keep_codec(struct wring_group *group, struct wring_codec *codec,
                                    const struct wring_codec **out)
{
    size_t slots = sizeof(group->codecs) / sizeof(group->codecs[0]);
    const char *spec = wring_codec_info(codec)->spec;

    for (size_t i = 0; i < slots; i++) {
        if (group->codecs[i] == NULL) {
            *out = group->codecs[i] = codec;
            return WRING_OK;
        }
        if (strcmp(wring_codec_info(group->codecs[i])->spec, spec) == 0) {
            wring_codec_destroy(codec);
            *out = group->codecs[i];
            return WRING_OK;
        }
    }
    wring_error(&group->session->log, "more than %zu codecs in immediate calls of one group",
                slots);
    wring_codec_destroy(codec);
    return WRING_ERR_UNSUPPORTED;
}

static enum wring_status check_codec(struct wring_group *group, const struct wring_codec *codec,
                                     enum wring_dtype dtype, enum wring_op op)
{
    struct wring_session *session = group->session;
    const struct wring_codec_info *info = wring_codec_info(codec);
    if (info->flags & WRING_CODEC_FEEDBACK || info->states > 0) {
        wring_error(&session->log, "codec %s keeps %s between steps: register a bucket", info->spec,
                    info->states > 0 ? "state" : "a residual");
        return WRING_ERR_UNSUPPORTED;
    }
    return wring_bucket_check_codec(session, "immediate call", codec, group->members.n, dtype, op);
}

enum wring_status wring_group_codec(struct wring_group *group, const char *spec,
                                    enum wring_dtype dtype, enum wring_op op,
                                    const struct wring_codec **out)
{
    struct wring_session *session = group->session;
    struct wring_codec *codec;
    char why[WRING_TEXT_MAX];

    *out = NULL;
    if (spec == NULL || strcmp(spec, "none") == 0)
        return WRING_OK;
    enum wring_status status =
        wring_codec_create(spec, session->config.cpu, session->codecs, why, sizeof(why), &codec);
    if (status != WRING_OK) {
        wring_error(&session->log, "%s", why);
        return status;
    }
    status = check_codec(group, codec, dtype, op);
    if (status != WRING_OK || wring_codec_info(codec)->flags & WRING_CODEC_RAW) {
        wring_codec_destroy(codec);
        return status;
    }
    pthread_mutex_lock(&group->mutex);
    status = keep_codec(group, codec, out);
    pthread_mutex_unlock(&group->mutex);
    return status;
}

/* ---- wait any ---- */

/* Several buckets and requests of which one is waited for. */

struct any {
    const struct wring_waitable *entries;
    size_t n;
    size_t first; /* of several that ended at once, this one or those after it: another in each call
                   */
};

static bool is_entry_empty(const struct wring_waitable *entry)
{
    return entry->bucket == NULL && entry->request == NULL;
}

static bool is_entry_over(const struct wring_waitable *entry)
{
    if (entry->bucket != NULL)
        return !entry->bucket->ops->is_left(entry->bucket);
    return entry->request != NULL && wring_request_is_over(entry->request);
}

/** Is one done? */
static bool is_any_over(const struct any *any)
{
    size_t i = 0;
    while (i < any->n && !is_entry_over(&any->entries[i]))
        i++;
    return i < any->n;
}

/** Where among all ends that of one that is done stands. What ended past the engine did so now, as
 *  far as it is known. */
static uint64_t note_end_order(const struct wring_waitable *entry)
{
    if (entry->request != NULL)
        return entry->request->ended;
    struct wring_collective *collective = &entry->bucket->posted_as->collective;
    if (collective->ended == 0)
        collective->ended =
            atomic_load_explicit(&collective->engine->finished, memory_order_relaxed);
    return collective->ended;
}

/** The one that ended first; n: none is done. Whoever waits longest has its turn, so none waits for
 *  ever. */
static size_t find_first_over(const struct any *any)
{
    size_t best = any->n;
    uint64_t least = 0;

    for (size_t i = 0; i < any->n; i++) {
        size_t at = any->first + i < any->n ? any->first + i : any->first + i - any->n;
        if (!is_entry_over(&any->entries[at]))
            continue;
        uint64_t order = note_end_order(&any->entries[at]);
        if (best == any->n || order < least) {
            best = at;
            least = order;
        }
    }
    return best;
}

/** What nobody has to see to so far is the engine's from now on, unless one is done. Their groups
 *  may be aborted meanwhile. */
static void give_all_to_engine(const struct any *any)
{
    size_t over = 0;
    for (size_t i = 0; i < any->n; i++) {
        struct wring_bucket *bucket = any->entries[i].bucket;
        bool inside = bucket != NULL && wring_bucket_enter(bucket);
        over += is_entry_over(&any->entries[i]);
        wring_bucket_leave(bucket, inside);
    }
    for (size_t i = 0; i < any->n && over == 0; i++) {
        struct wring_bucket *bucket = any->entries[i].bucket;
        if (bucket == NULL)
            continue;
        bool inside = wring_bucket_enter(bucket);
        wring_bucket_give(bucket->posted_as);
        wring_bucket_leave(bucket, inside);
    }
}

static bool is_any_goal_reached(const void *arg)
{
    return is_any_over(arg);
}

static struct wring_session *entry_session(const struct wring_waitable *entry)
{
    return entry->bucket != NULL ? entry->bucket->session : wring_request_session(entry->request);
}

/** All of them belong to this session, and are committed. */
static bool are_entries_valid(const struct any *any, const struct wring_session *session)
{
    for (size_t i = 0; i < any->n; i++) {
        const struct wring_waitable *entry = &any->entries[i];
        if (is_entry_empty(entry))
            continue;
        if ((entry->bucket != NULL && entry->request != NULL) || entry_session(entry) != session ||
            (entry->bucket != NULL && !entry->bucket->committed))
            return false;
    }
    return true;
}

/** One of those whose fellows are not posted, where there are no others; else NULL. */
static struct wring_bucket *find_unsent_bucket(const struct any *any)
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
static enum wring_status take_result(const struct wring_waitable *entry, uint64_t began_ns,
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
static bool begin_recorded_wait(struct wring_session *session, const struct any *any)
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
        wring_result_check(session, result) != WRING_OK || !are_entries_valid(any, session))
        return WRING_ERR_INVALID;
    uint64_t began_ns = session->autotune != NULL || session->recorder != NULL ? wring_now_ns() : 0;
    struct wring_bucket *unsent = find_unsent_bucket(any);
    if (unsent != NULL && wring_session_check(session) == WRING_OK)
        return unsent->ops->wait(unsent, 0); /* which says what is missing */
    any->first = atomic_fetch_add_explicit(&session->any_turn, 1, memory_order_relaxed) % any->n;
    give_all_to_engine(any);
    bool inside = begin_recorded_wait(session, any);
    bool one =
        wring_progress_drive(session->progress, (struct wring_goal){is_any_goal_reached, any},
                             wring_deadline_in(timeout_ns));
    if (inside)
        wring_recorder_leave(session->recorder);
    if (!one)
        return wring_callers_closing(&session->callers) ? WRING_ERR_CLOSED : WRING_ERR_TIMEOUT;
    *index = find_first_over(any);
    return take_result(&any->entries[*index], began_ns, result);
}

enum wring_status wring_wait_any(const struct wring_waitable *entries, size_t n,
                                 uint64_t timeout_ns, size_t *index, struct wring_result *result)
{
    struct any any = {entries, n, 0};
    size_t first = 0;

    *index = n;
    while (first < n && is_entry_empty(&entries[first]))
        first++;
    if (first == n)
        return WRING_OK;
    struct wring_session *session = entry_session(&entries[first]);
    enum wring_status entered = wring_session_enter(session);
    if (entered != WRING_OK)
        return entered;
    return wring_session_leave(session, wait_any(session, &any, timeout_ns, index, result));
}
