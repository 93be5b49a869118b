/* SPDX-License-Identifier: Apache-2.0 */
/* A session is aborted while threads of all ranks wait in it, in every way in which one can. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 2
#define WAITERS 8
#define SMALL 16u
#define LARGE 300000u
#define WAIT_NS (60 * WRING_NS_PER_S)

/** Of all ranks, which come and go in step. */
struct story {
    pthread_barrier_t ready;
    atomic_ullong aborted_ns;
    atomic_ullong last_ns; /* the last waiter of the rank that aborts was out */
    atomic_ullong far_ns;  /* of the other one */
};

struct rank;

struct waiter {
    struct rank *rank;
    unsigned index;
    enum wring_status (*wait)(struct waiter *waiter);
    enum wring_status status;
    pthread_t thread;
    float data[16];
};

struct rank {
    struct wring_session *session;
    struct wring_bucket *buckets[3];
    struct wring_request *request;
    struct wring_group *lonely; /* calls of one that is not answered */
    float data[LARGE];
    atomic_uint begun;
    struct waiter waiters[WAITERS];
};

static enum wring_status wait_for_bucket(struct waiter *waiter)
{
    return wring_bucket_wait(waiter->rank->buckets[waiter->index], WRING_FOREVER, NULL);
}

static enum wring_status test_bucket(struct waiter *waiter)
{
    enum wring_status status;
    while ((status = wring_bucket_test(waiter->rank->buckets[2], NULL)) == WRING_ERR_AGAIN)
        sched_yield();
    return status;
}

static enum wring_status wait_for_request(struct waiter *waiter)
{
    return wring_request_wait(waiter->rank->request, WRING_FOREVER, NULL);
}

static enum wring_status wait_in_call(struct waiter *waiter)
{
    return wring_allreduce(waiter->rank->lonely, waiter->data, waiter->data, 16, WRING_F32,
                           WRING_SUM, NULL, NULL);
}

static enum wring_status wait_for_any(struct waiter *waiter)
{
    struct wring_waitable any = {.bucket = NULL};
    struct wring_result result = WRING_RESULT_INIT;
    size_t index;
    enum wring_status status = wring_barrier(waiter->rank->lonely, NULL, &any.request);
    if (status == WRING_OK)
        status = wring_wait_any(&any, 1, WRING_FOREVER, &index, &result);
    return status;
}

static enum wring_status make_group(struct waiter *waiter)
{
    uint32_t both[] = {0, 1};
    struct wring_group *group;
    return wring_group_create(wring_session_world(waiter->rank->session), both, 2, 0, WRING_FOREVER,
                              &group);
}

static void *waiter_main(void *arg)
{
    struct waiter *waiter = arg;
    atomic_fetch_add(&waiter->rank->begun, 1);
    waiter->status = waiter->wait(waiter);
    return NULL;
}

static struct wring_bucket *add(struct wring_session *session, const char *name, uint64_t elems)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;
    params.name = name;
    params.elems = elems;
    CHECK(wring_buffer_alloc(session, elems * sizeof(float), &params.data) == WRING_OK, "alloc");
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    return bucket;
}

/** All threads wait for what the other rank does not begin. */
static void start_waiters(struct rank *rank)
{
    static enum wring_status (*const variants[WAITERS])(struct waiter *) = {
        wait_for_bucket, wait_for_bucket, test_bucket,  wait_for_request,
        wait_in_call,    wait_in_call,    wait_for_any, wait_for_any};

    for (unsigned i = 0; i < WAITERS; i++) {
        struct waiter *waiter = &rank->waiters[i];
        *waiter = (struct waiter){.rank = rank, .index = i, .wait = variants[i]};
        pthread_create(&waiter->thread, NULL, waiter_main, waiter);
    }
    while (atomic_load(&rank->begun) < WAITERS)
        sched_yield();
    /* most of them are inside by now; those that are not are answered as they come */
    nanosleep(&(struct timespec){0, 20 * (long)WRING_NS_PER_MS}, NULL);
}

static void join_waiters(struct rank *rank)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        pthread_join(rank->waiters[i].thread, NULL);
        CHECK(rank->waiters[i].status == WRING_ERR_CANCELLED, "waiter %u: %s", i,
              wring_status_text(rank->waiters[i].status));
    }
}

static struct rank ranks[RANKS];

static void make_rank(struct rank *rank, struct wring_session *session, uint32_t index)
{
    uint32_t both[] = {0, 1};

    memset(rank, 0, sizeof(*rank));
    rank->session = session;
    rank->buckets[0] = add(session, "small", SMALL);
    rank->buckets[1] = add(session, "large", LARGE);
    rank->buckets[2] = add(session, "tested", LARGE);
    CHECK(wring_group_create(wring_session_world(session), both, 2, 0, WRING_FOREVER,
                             &rank->lonely) == WRING_OK,
          "group");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    if (index != 0)
        return;
    for (int i = 0; i < 3; i++)
        CHECK(wring_bucket_post(rank->buckets[i]) == WRING_OK, "post");
    CHECK(wring_allreduce(wring_session_world(session), rank->data, rank->data, LARGE, WRING_F32,
                          WRING_SUM, NULL, &rank->request) == WRING_OK,
          "call");
}

/** What is known of it afterwards. */
static void check_end(struct wring_session *session, uint32_t who)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    CHECK(wring_session_error(session, &detail) == WRING_ERR_CANCELLED, "%s", detail.text);
    CHECK(detail.rank == (int32_t)who && strstr(detail.text, "aborted") != NULL, "rank %d: %s",
          detail.rank, detail.text);
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_ERR_CANCELLED, "call");
    CHECK(wring_session_abort(session) == WRING_OK, "again");
}

/** Rank 0 waits in eight threads; rank 0 or rank 1 aborts. */
static void run_rank(struct wring_session *session, uint32_t index, void *arg)
{
    struct story *story = arg;
    struct rank *rank = &ranks[index];
    static atomic_uint turn;
    uint32_t who = (atomic_fetch_add(&turn, 1) / RANKS) % RANKS;

    make_rank(rank, session, index);
    if (index == 0)
        start_waiters(rank);
    pthread_barrier_wait(&story->ready);
    if (index == who) {
        atomic_store(&story->aborted_ns, wring_now_ns());
        CHECK(wring_session_abort(session) == WRING_OK, "abort");
    }
    if (index == 0) {
        join_waiters(rank);
        uint64_t took_ns = wring_now_ns() - atomic_load(&story->aborted_ns);
        CHECK(took_ns < 10 * WRING_NS_PER_S, "%lu ms", (unsigned long)(took_ns / WRING_NS_PER_MS));
        atomic_store(&story->last_ns, took_ns);
    } else { /* it waits for ranks that have gone on to other things */
        struct waiter alone = {.rank = rank};
        enum wring_status status = make_group(&alone);
        CHECK(status == WRING_ERR_CANCELLED, "group: %s", wring_status_text(status));
    }
    check_end(session, who);
    pthread_barrier_wait(&story->ready);
}

static void waiters_of_all_kinds_return(void)
{
    static const char *const settings[][3] = {
        {"WRING_PROVIDER=shm", "WRING_PROGRESS=thread", NULL},
        {"WRING_PROVIDER=tcp", "WRING_PROGRESS=thread", NULL},
        {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL},
        {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller", NULL},
    };
    for (int i = 0; i < 8; i++) {
        struct wring_test_lines lines = WRING_TEST_LINES_INIT;
        struct story story = {.aborted_ns = 0};
        struct wring_test_job job = {.ranks = RANKS,
                                     .settings = settings[i % 4],
                                     .arg = &story,
                                     .run = run_rank,
                                     .log = wring_test_lines_take,
                                     .log_arg = &lines};
        pthread_barrier_init(&story.ready, NULL, RANKS);
        wring_test_run_ranks(&job);
        pthread_barrier_destroy(&story.ready);
        if (wring_test_failures() > 0)
            printf("%s", lines.text);
        printf("%s, %s, rank %d aborts: %u waiters out after %.2f ms\n", settings[i % 4][0] + 15,
               settings[i % 4][1] + 15, i % 2, WAITERS, (double)story.last_ns / 1e6);
    }
}

/* ---- one group, and calls of it ---- */

static const char *const both_variants[][3] = {
    {"WRING_PROVIDER=shm", "WRING_PROGRESS=thread", NULL},
    {"WRING_PROVIDER=tcp", "WRING_PROGRESS=thread", NULL},
};

static struct wring_group *make_pair(struct wring_session *session, uint64_t tag)
{
    uint32_t both[] = {0, 1};
    struct wring_group *group = NULL;
    CHECK(wring_group_create(wring_session_world(session), both, 2, tag, WAIT_NS, &group) ==
              WRING_OK,
          "group");
    return group;
}

/** The rest of the session goes on, with right sums. */
static void check_rest(struct wring_session *session, uint64_t tag)
{
    struct wring_group *groups[] = {wring_session_world(session), make_pair(session, tag)};
    for (int i = 0; i < 2; i++) {
        float sum[LARGE / 100];
        for (size_t e = 0; e < LARGE / 100; e++)
            sum[e] = 3;
        CHECK(wring_allreduce(groups[i], sum, sum, LARGE / 100, WRING_F32, WRING_SUM, NULL, NULL) ==
                  WRING_OK,
              "a call of another group");
        CHECK(sum[0] == 6 && sum[LARGE / 100 - 1] == 6, "%g", (double)sum[0]);
    }
    wring_group_destroy(groups[1]);
}

static enum wring_status cancel_until_ours(struct wring_request *request, struct wring_group *group)
{
    enum wring_status status = wring_request_cancel(request);
    return status == WRING_ERR_BUSY ? wring_test_abort(group, WAIT_NS) : status;
}

static void *lonely_main(void *arg)
{
    struct waiter *waiter = arg;
    atomic_fetch_add(&waiter->rank->begun, 1);
    waiter->status = waiter->index % 2 == 0 ? wait_in_call(waiter) : wait_for_any(waiter);
    return NULL;
}

/** The group was aborted before: it hears of it by itself, before it calls or while it waits. */
static void await_abort(struct wring_session *session, struct wring_group *group, int32_t who)
{
    static float data[RANKS][LARGE];
    float *own = data[wring_session_rank(session)];
    struct wring_result result = WRING_RESULT_INIT;
    struct wring_request *request;

    enum wring_status status =
        wring_allreduce(group, own, own, LARGE, WRING_F32, WRING_SUM, NULL, &request);
    if (status == WRING_OK) {
        status = wring_request_wait(request, WAIT_NS, &result);
        CHECK(result.rank == who, "of rank %d", result.rank);
    }
    CHECK(status == WRING_ERR_CANCELLED, "%s", wring_status_text(status));
    CHECK(wring_barrier(group, NULL, NULL) == WRING_ERR_CANCELLED, "a later call");
}

/** Rank 0 has a call under way, others in the queue, and eight threads that wait; rank 1 has none.
 */
static void abort_group(struct wring_session *session, uint32_t index, void *arg)
{
    struct story *story = arg;
    struct rank *rank = &ranks[index];
    uint32_t who = (uint32_t)atomic_load(&story->far_ns);
    struct wring_request *queued[3];

    memset(rank, 0, sizeof(*rank));
    rank->session = session;
    rank->lonely = make_pair(session, 7);
    check_rest(session, 8);
    if (index == 0) {
        for (int i = 0; i < 3; i++)
            CHECK(wring_allreduce(rank->lonely, rank->data, rank->data, LARGE, WRING_F32, WRING_SUM,
                                  NULL, &queued[i]) == WRING_OK,
                  "call");
        for (unsigned i = 0; i < WAITERS; i++) {
            rank->waiters[i] = (struct waiter){.rank = rank, .index = i};
            pthread_create(&rank->waiters[i].thread, NULL, lonely_main, &rank->waiters[i]);
        }
        while (atomic_load(&rank->begun) < WAITERS)
            sched_yield();
    }
    pthread_barrier_wait(&story->ready);
    uint64_t began_ns = wring_now_ns();
    if (index == who)
        CHECK(wring_test_abort(rank->lonely, WAIT_NS) == WRING_OK, "abort");
    pthread_barrier_wait(&story->ready); /* a call that is met before that is no error */
    if (index == 0) {
        join_waiters(rank);
        atomic_store(&story->last_ns, wring_now_ns() - began_ns);
        CHECK(wring_test_abort(rank->lonely, WAIT_NS) == WRING_OK, "is the memory ours?");
        memset(rank->data, 0x5a, sizeof(rank->data));
        for (int i = 0; i < 3; i++)
            CHECK(wring_request_wait(queued[i], WAIT_NS, NULL) == WRING_ERR_CANCELLED, "queued");
    }
    await_abort(session, rank->lonely, (int32_t)who);
    check_rest(session, 9);
    wring_group_destroy(rank->lonely);
    check_rest(session, 10);
    for (size_t i = 0; i < sizeof(rank->data) && index == 0; i++)
        CHECK(((unsigned char *)rank->data)[i] == 0x5a, "byte %zu has changed", i);
}

static void run_story(void (*body)(struct wring_session *, uint32_t, void *), bool print)
{
    for (int i = 0; i < 4; i++) {
        struct wring_test_lines lines = WRING_TEST_LINES_INIT;
        struct story story = {.far_ns = (unsigned)i / 2};
        struct wring_test_job job = {.ranks = RANKS,
                                     .settings = both_variants[i % 2],
                                     .arg = &story,
                                     .run = body,
                                     .log = wring_test_lines_take,
                                     .log_arg = &lines};
        pthread_barrier_init(&story.ready, NULL, RANKS);
        wring_test_run_ranks(&job);
        pthread_barrier_destroy(&story.ready);
        if (print)
            printf("%s, rank %d aborts a group: %u waiters out after %.2f ms\n",
                   both_variants[i % 2][0] + 15, i / 2, WAITERS, (double)story.last_ns / 1e6);
    }
}

static void a_group_ends_alone(void)
{
    run_story(abort_group, true);
}

static void on_cancelled(void *arg, const struct wring_result *result)
{
    CHECK(result->status == WRING_ERR_CANCELLED && result->bytes == 0, "%s",
          wring_status_text(result->status));
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static void on_ended(void *arg, const struct wring_result *result)
{
    CHECK(result->status == WRING_OK, "%s", wring_status_text(result->status));
    atomic_fetch_add((atomic_uint *)arg, 1);
}

static void await_count(const atomic_uint *calls, unsigned n)
{
    uint64_t until_ns = wring_deadline_in(WAIT_NS);
    while (atomic_load(calls) < n && wring_now_ns() < until_ns)
        sched_yield();
    CHECK(atomic_load(calls) == n, "%u callbacks, not %u", atomic_load(calls), n);
}

/** A call whose peer never comes, one behind it, and one that has ended. */
static void cancel(struct wring_session *session, uint32_t index, void *arg)
{
    struct story *story = arg;
    struct wring_group *group = make_pair(session, 3);
    struct wring_request *requests[3];
    struct rank *rank = &ranks[index];
    atomic_uint calls = 0;
    struct wring_call how = {.struct_bytes = sizeof(how), .done = on_cancelled, .done_arg = &calls};

    how.done = on_ended;
    REQUIRE(wring_barrier(group, &how, &requests[0]) == WRING_OK, "barrier");
    await_count(&calls, 1);
    CHECK(wring_request_cancel(requests[0]) == WRING_OK, "cancelled when it has ended");
    CHECK(wring_request_wait(requests[0], WAIT_NS, NULL) == WRING_OK, "it has ended");
    pthread_barrier_wait(&story->ready);
    atomic_store(&calls, 0);
    how.done = on_cancelled;
    if (index == 0) {
        size_t which = atomic_load(&story->far_ns) == 0 ? 1 : 2;
        for (int i = 1; i < 3; i++)
            REQUIRE(wring_allreduce(group, rank->data, rank->data, LARGE, WRING_F32, WRING_SUM,
                                    &how, &requests[i]) == WRING_OK,
                    "call");
        uint64_t began_ns = wring_now_ns();
        CHECK(cancel_until_ours(requests[which], group) == WRING_OK, "cancel");
        uint64_t took_ns = wring_now_ns() - began_ns;
        CHECK(took_ns < 10 * WRING_NS_PER_S, "%lu ms", (unsigned long)(took_ns / WRING_NS_PER_MS));
        memset(rank->data, 0x5a, sizeof(rank->data));
        CHECK(wring_request_cancel(requests[which]) == WRING_OK, "again");
        for (int i = 1; i < 3; i++)
            CHECK(wring_request_wait(requests[i], WAIT_NS, NULL) == WRING_ERR_CANCELLED, "%d", i);
        printf("a call whose peer never comes is cancelled in %.2f ms\n", (double)took_ns / 1e6);
    }
    pthread_barrier_wait(&story->ready);
    await_abort(session, group, 0);
    check_rest(session, 4);
    await_count(&calls, index == 0 ? 2 : 0);
    for (size_t i = 0; i < sizeof(rank->data) && index == 0; i++)
        CHECK(((unsigned char *)rank->data)[i] == 0x5a, "byte %zu has changed", i);
    wring_group_destroy(group);
}

static void calls_are_given_up(void)
{
    run_story(cancel, false);
}

static const struct wring_test_case cases[] = {
    {"waiters_of_all_kinds_return", waiters_of_all_kinds_return},
    {"a_group_ends_alone", a_group_ends_alone},
    {"calls_are_given_up", calls_are_given_up},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
