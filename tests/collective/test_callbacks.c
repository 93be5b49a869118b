/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told of an end without asking: callbacks of buckets and requests, and waits for any. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "tests/collective/planned_tensors.h"
#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 2
#define WAIT_NS (60 * WRING_NS_PER_S)
#define SMALL 16u     /* elements: past the engine over shm */
#define LARGE 100000u /* in pieces */

/** What a callback has seen. */
struct seen {
    struct wring_session *session;
    struct wring_bucket *bucket; /* NULL: a request's */
    struct wring_request *request;
    const float *data; /* NULL: not looked at */
    atomic_uint calls;
    atomic_bool inside;
    enum wring_status status;
    uint64_t bytes;
    unsigned again; /* steps that it posts itself */
    bool meddles;   /* it does what it may not */
};

/** Nobody else is in a callback of this session. */
static void enter(struct seen *seen, const struct wring_result *result)
{
    CHECK(!atomic_exchange(&seen->inside, true), "two callbacks at a time");
    seen->status = result->status;
    seen->bytes = result->bytes;
    CHECK(result->struct_bytes == sizeof(*result), "%zu", result->struct_bytes);
}

static void meddle(const struct seen *seen)
{
    struct wring_group *group;
    uint32_t alone = 0;
    CHECK(wring_bucket_wait(seen->bucket, 0, NULL) == WRING_ERR_INVALID, "waited");
    const struct wring_waitable any = {.bucket = seen->bucket};
    size_t index;
    CHECK(wring_wait_any(&any, 1, 0, &index, NULL) == WRING_ERR_INVALID, "waited for any");
    CHECK(wring_session_commit(seen->session) == WRING_ERR_INVALID, "committed");
    CHECK(wring_group_create(wring_session_world(seen->session), &alone, 1, 0, 0, &group) ==
              WRING_ERR_INVALID,
          "made one");
    CHECK(wring_barrier(wring_session_world(seen->session), NULL, NULL) == WRING_ERR_INVALID,
          "waited in a call");
    wring_session_close(seen->session);
}

static void on_step(void *arg, const struct wring_result *result)
{
    struct seen *seen = arg;
    enter(seen, result);
    if (result->status == WRING_OK)
        CHECK(wring_bucket_test(seen->bucket, NULL) == WRING_OK, "called before it was seen");
    if (seen->meddles)
        meddle(seen);
    bool again = seen->again > 0;
    seen->again -= again;
    atomic_store(&seen->inside, false);
    atomic_fetch_add(&seen->calls, 1);
    if (again)
        CHECK(wring_bucket_post(seen->bucket) == WRING_OK, "post from inside");
}

static void on_request(void *arg, const struct wring_result *result)
{
    struct seen *seen = arg;
    enter(seen, result);
    atomic_store(&seen->inside, false);
    atomic_fetch_add(&seen->calls, 1);
}

/** Callbacks come in some thread, or while this one tests a bucket; NULL: in the session's thread.
 */
static void await_calls(struct wring_bucket *bucket, struct seen *seen, unsigned calls)
{
    uint64_t until_ns = wring_deadline_in(WAIT_NS);
    while (atomic_load(&seen->calls) < calls && wring_now_ns() < until_ns)
        if (bucket != NULL)
            wring_bucket_test(bucket, NULL);
        else
            sched_yield();
    CHECK(atomic_load(&seen->calls) == calls, "%u calls, not %u", atomic_load(&seen->calls), calls);
}

static struct wring_bucket *add(struct wring_session *session, const char *name, uint64_t elems,
                                struct seen *seen, float **data)
{
    struct wring_bucket_params params = {.struct_bytes = sizeof(params),
                                         .name = name,
                                         .elems = elems,
                                         .done = seen != NULL ? on_step : NULL,
                                         .done_arg = seen};
    struct wring_bucket *bucket = NULL;
    void *memory = NULL;
    CHECK(wring_buffer_alloc(session, elems * sizeof(float), &memory) == WRING_OK, "alloc");
    params.data = memory;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    if (seen != NULL) {
        seen->session = session;
        seen->bucket = bucket;
    }
    if (data != NULL)
        *data = memory;
    return bucket;
}

static void steps(struct wring_bucket *bucket, struct seen *seen, uint64_t elems)
{
    for (unsigned step = 0; step < 20; step++) {
        struct wring_result result = WRING_RESULT_INIT;
        REQUIRE(wring_bucket_post(bucket) == WRING_OK, "post");
        if (step % 2 == 0) {
            CHECK(wring_bucket_wait(bucket, WAIT_NS, &result) == WRING_OK, "wait");
            CHECK(result.status == WRING_OK && result.rank == -1 && result.tag == 0 &&
                      result.bytes == elems * sizeof(float),
                  "rank %d, %lu bytes", result.rank, (unsigned long)result.bytes);
        }
        await_calls(bucket, seen, step + 1);
        CHECK(seen->status == WRING_OK && seen->bytes == elems * sizeof(float), "%lu bytes",
              (unsigned long)seen->bytes);
    }
}

static void buckets(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint64_t elems[] = {SMALL, LARGE};
    struct seen seen[2] = {{.bytes = 0}, {.bytes = 0}};
    struct wring_bucket *both[2];
    float *data;
    const bool *threaded = arg;

    both[0] = add(session, "small", SMALL, &seen[0], &data);
    both[1] = add(session, "large", LARGE, &seen[1], NULL);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int i = 0; i < 2; i++)
        steps(both[i], &seen[i], elems[i]);
    data[0] = 1;
    for (int i = 0; i < 2 && *threaded; i++) { /* from now on a callback posts it */
        seen[i].again = 10;
        REQUIRE(wring_bucket_post(both[i]) == WRING_OK, "post");
        await_calls(NULL, &seen[i], 31);
        CHECK(wring_bucket_wait(both[i], WAIT_NS, NULL) == WRING_OK, "the last of a chain");
    }
    CHECK(!*threaded || data[0] == 2048.0f, "rank %u: %g after 11 steps", rank, (double)data[0]);
}

static void refused(struct wring_session *session, uint32_t rank, void *arg)
{
    struct seen seen = {.meddles = true};
    struct wring_bucket *bucket = add(session, "curious", LARGE, &seen, NULL);
    (void)arg;
    (void)rank;

    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    REQUIRE(wring_bucket_post(bucket) == WRING_OK, "post");
    await_calls(bucket, &seen, 1);
    CHECK(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK, "wait");
}

static void calls(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_bucket *idle = add(session, "idle", 1, NULL, NULL);
    struct seen seen[8] = {{.bytes = 0}};
    float data[8][64] = {{0}};
    (void)arg;
    (void)rank;

    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int i = 0; i < 8; i++) {
        struct wring_call how = {.struct_bytes = sizeof(how), .done = on_request};
        how.done_arg = &seen[i];
        REQUIRE(wring_allreduce(world, data[i], data[i], 64, WRING_F32, WRING_SUM, &how,
                                i == 7 ? NULL : &seen[i].request) == WRING_OK,
                "call %d", i);
    }
    for (int i = 0; i < 7; i++) {
        struct wring_result result = WRING_RESULT_INIT;
        if (i % 2 == 0) /* freed before or after it is called */
            CHECK(wring_request_wait(seen[i].request, WAIT_NS, &result) == WRING_OK &&
                      result.bytes == sizeof(data[i]),
                  "wait");
    }
    for (int i = 0; i < 8; i++) {
        await_calls(idle, &seen[i], 1);
        CHECK(seen[i].status == WRING_OK && seen[i].bytes == sizeof(data[i]), "%lu bytes",
              (unsigned long)seen[i].bytes);
    }
    for (int i = 1; i < 7; i += 2)
        CHECK(wring_request_test(seen[i].request, NULL) == WRING_OK, "called, and not done");
}

/** Both are done again and again: each of them has its turn. */
static void in_turn(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_waitable entries[4] = {{.bucket = NULL}};
    unsigned turns[4] = {0};
    float data[4] = {0};
    size_t index;
    (void)arg;
    (void)rank;

    entries[0].bucket = add(session, "first", SMALL, NULL, NULL);
    entries[2].bucket = add(session, "second", LARGE, NULL, NULL);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int i = 0; i < 4; i += 2)
        REQUIRE(wring_bucket_post(entries[i].bucket) == WRING_OK, "post");
    REQUIRE(wring_allreduce(world, data, data, 4, WRING_F32, WRING_SUM, NULL,
                            &entries[1].request) == WRING_OK,
            "call");
    for (int left = 3; left > 0; left--) {
        struct wring_result result = WRING_RESULT_INIT;
        CHECK(wring_wait_any(entries, 4, WAIT_NS, &index, &result) == WRING_OK, "wait");
        REQUIRE(index < 3, "%zu", index);
        CHECK(result.bytes == (index == 0   ? SMALL * sizeof(float)
                               : index == 1 ? sizeof(data)
                                            : LARGE * sizeof(float)),
              "entry %zu has %lu bytes", index, (unsigned long)result.bytes);
        turns[index]++;
        entries[index] = (struct wring_waitable){.bucket = NULL};
    }
    CHECK(turns[0] == 1 && turns[1] == 1 && turns[2] == 1, "one twice");
    CHECK(wring_wait_any(entries, 4, WAIT_NS, &index, NULL) == WRING_OK && index == 4, "none left");

    struct wring_group *alone;
    uint32_t me = wring_session_rank(session);
    REQUIRE(wring_group_create(wring_session_world(session), &me, 1, 0, WAIT_NS, &alone) ==
                WRING_OK,
            "group");
    memset(turns, 0, sizeof(turns));
    for (int i = 0; i < 400; i++) { /* of one rank: done at once */
        for (int at = 0; at < 4; at++)
            if (entries[at].request == NULL)
                REQUIRE(wring_barrier(alone, NULL, &entries[at].request) == WRING_OK, "barrier");
        CHECK(wring_wait_any(entries, 4, WAIT_NS, &index, NULL) == WRING_OK, "wait");
        REQUIRE(index < 4, "%zu", index);
        entries[index].request = NULL;
        turns[index]++;
    }
    for (int at = 0; at < 4; at++) {
        CHECK(turns[at] > 50, "entry %d had %u turns of 400", at, turns[at]);
        if (entries[at].request != NULL)
            CHECK(wring_request_wait(entries[at].request, WAIT_NS, NULL) == WRING_OK, "wait");
    }
    wring_group_destroy(alone);
}

static void run(void (*body)(struct wring_session *, uint32_t, void *), wring_log_fn log,
                void *log_arg)
{
    static const char *const settings[][4] = {
        {"WRING_PROVIDER=shm", "WRING_PROGRESS=thread", NULL},
        {"WRING_PROVIDER=tcp", "WRING_PROGRESS=thread", NULL},
        {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL},
        {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller", NULL},
    };
    for (int i = 0; i < 4; i++) {
        bool threaded = i < 2;
        struct wring_test_job job = {.ranks = RANKS,
                                     .settings = settings[i],
                                     .arg = &threaded,
                                     .run = body,
                                     .log = log,
                                     .log_arg = log_arg};
        wring_test_run_ranks(&job);
    }
}

static void each_step_once(void)
{
    run(buckets, NULL, NULL);
}

static void inside_nobody_waits(void)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    run(refused, wring_test_lines_take, &lines);
    CHECK(wring_test_lines_count(&lines, "inside a completion callback") == 6 * RANKS * 4, "%s",
          lines.text);
}

static void each_request_once(void)
{
    run(calls, NULL, NULL);
}

static void any_has_its_turn(void)
{
    run(in_turn, NULL, NULL);
}

/* ---- buckets that travel as one ---- */

static const struct part all_in_one[] = {{TENSORS, "none", "auto"}, {0}};

static void on_merged(void *arg, const struct wring_result *result)
{
    struct seen *seen = arg;
    enter(seen, result);
    CHECK(seen->data[0] == 2.0f * (float)(seen->calls + 1), "not there yet: %g",
          (double)seen->data[0]);
    atomic_store(&seen->inside, false);
    atomic_fetch_add(&seen->calls, 1);
}

static void merged(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *these[TENSORS];
    struct seen seen[TENSORS];
    float *data[TENSORS];
    (void)arg;
    (void)rank;

    memset(seen, 0, sizeof(seen));
    for (int t = 0; t < TENSORS; t++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = names[t];
        params.elems = sizes[t];
        REQUIRE(wring_buffer_alloc(session, sizes[t] * sizeof(float), &params.data) == WRING_OK,
                "alloc");
        data[t] = params.data;
        seen[t].data = params.data;
        params.done = t != 1 ? on_merged : NULL;
        params.done_arg = &seen[t];
        REQUIRE(wring_bucket_register(session, &params, &these[t]) == WRING_OK, "register");
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (unsigned step = 1; step <= 10; step++) {
        for (int t = 0; t < TENSORS; t++) {
            for (uint64_t i = 0; i < sizes[t]; i++)
                data[t][i] = (float)step;
            REQUIRE(wring_bucket_post(these[t]) == WRING_OK, "post");
        }
        for (int t = 0; t < TENSORS; t++)
            CHECK(wring_bucket_wait(these[t], WAIT_NS, NULL) == WRING_OK, "wait");
        for (int t = 0; t < TENSORS; t++)
            await_calls(these[1], &seen[t], t != 1 ? step : 0);
    }
}

static void merged_ones_have_their_own(void)
{
    struct plan_of what = {.parts = all_in_one, .ranks = RANKS, .names = names, .executor = ""};
    char plan[64];

    write_plan(&what, plan, sizeof(plan));
    for (int i = 0; i < 2; i++) {
        const char *settings[] = {i == 0 ? "WRING_PROVIDER=shm" : "WRING_PROVIDER=tcp", plan, NULL};
        struct wring_test_job job = {.ranks = RANKS, .settings = settings, .run = merged};
        wring_test_run_ranks(&job);
    }
    remove_plan(plan);
}

/* ---- what is under way when it is closed ---- */

static struct seen closed[3];

static void leave(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_call how = {.struct_bytes = sizeof(how), .done = on_request};
    static float data[LARGE];
    struct wring_bucket *buckets[2];
    pthread_barrier_t *begun = arg; /* who leaves sooner may have posts refused */

    buckets[0] = add(session, "small", SMALL, rank == 0 ? &closed[0] : NULL, NULL);
    buckets[1] = add(session, "large", LARGE, rank == 0 ? &closed[1] : NULL, NULL);
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    if (rank == 0) {
        for (int i = 0; i < 2; i++)
            CHECK(wring_bucket_post(buckets[i]) == WRING_OK, "post");
        how.done_arg = &closed[2];
        CHECK(wring_allreduce(wring_session_world(session), data, data, LARGE, WRING_F32, WRING_SUM,
                              &how, &closed[2].request) == WRING_OK,
              "call");
    }
    pthread_barrier_wait(begun);
}

static void close_calls_all(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", NULL};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    pthread_barrier_t begun;
    struct wring_test_job job = {.ranks = RANKS,
                                 .settings = settings,
                                 .arg = &begun,
                                 .run = leave,
                                 .log = wring_test_lines_take,
                                 .log_arg = &lines};
    memset(closed, 0, sizeof(closed));
    pthread_barrier_init(&begun, NULL, RANKS);
    wring_test_run_ranks(&job);
    pthread_barrier_destroy(&begun);
    for (int i = 0; i < 3; i++)
        CHECK(closed[i].calls == 1 &&
                  (closed[i].status == WRING_ERR_CLOSED || closed[i].status == WRING_ERR_PEER) &&
                  closed[i].bytes == 0,
              "%u calls, %s", closed[i].calls, wring_status_text(closed[i].status));
}

static const struct wring_test_case cases[] = {
    {"each_step_once", each_step_once},
    {"inside_nobody_waits", inside_nobody_waits},
    {"each_request_once", each_request_once},
    {"any_has_its_turn", any_has_its_turn},
    {"merged_ones_have_their_own", merged_ones_have_their_own},
    {"close_calls_all", close_calls_all},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
