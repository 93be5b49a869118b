/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets name their executors, and memory that these cannot reach is refused. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bucket.h"
#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 3
#define BUCKETS 3
#define ELEMS 50000
#define STEPS 3
#define MOST 16 /* executors of a session */
#define WAIT_NS (60ull * 1000000000)

static const char *const executors[BUCKETS] = {NULL, "inline", "pool:1"};
static const char *const shown[BUCKETS] = {"inline", "inline", "pool:1"};

static uint64_t cpu_ns(struct wring_session *session)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;
    CHECK(wring_session_stats(session, &stats) == WRING_OK, "stats");
    return stats.executor_cpu_ns;
}

static enum wring_status add(struct wring_session *session, const char *name, const char *executor,
                             void *data, struct wring_bucket **out)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;

    params.name = name;
    params.data = data;
    params.elems = ELEMS;
    params.codec = "onebit:block=128+ef";
    params.executor = executor;
    return wring_bucket_register(session, &params, out);
}

static void run_step(struct wring_bucket *const *buckets, uint32_t n, uint32_t rank, int step)
{
    for (uint32_t b = 0; b < n; b++)
        for (uint32_t i = 0; i < ELEMS; i++)
            ((float *)buckets[b]->data)[i] = (float)((i * 7 + rank * 31 + (uint32_t)step) % 255);
    for (uint32_t b = 0; b < n; b++)
        CHECK(wring_bucket_post(buckets[b]) == WRING_OK, "post");
    for (uint32_t b = 0; b < n; b++)
        CHECK(wring_bucket_wait(buckets[b], WAIT_NS, NULL) == WRING_OK, "wait");
}

/** All have the same bits, and who named a pool used one. */
static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const names[BUCKETS] = {"session's", "inline", "pool"};
    struct wring_bucket *buckets[BUCKETS] = {NULL};
    float *data[BUCKETS];
    (void)arg;

    for (int b = 0; b < BUCKETS; b++) {
        data[b] = malloc(ELEMS * sizeof(float));
        REQUIRE(data[b] != NULL &&
                    add(session, names[b], executors[b], data[b], &buckets[b]) == WRING_OK,
                "register %s", names[b]);
    }
    for (int commit = 0; commit < 2; commit++) {
        REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
        uint64_t before_ns = cpu_ns(session);
        run_step(buckets, BUCKETS - 1, rank, 0);
        CHECK(cpu_ns(session) == before_ns, "a pool ran what it was not given");
        run_step(buckets + BUCKETS - 1, 1, rank, 0);
        for (int step = 1; step < STEPS; step++)
            run_step(buckets, BUCKETS, rank, step);
        CHECK(cpu_ns(session) > before_ns, "the pool did nothing");
        for (int b = 0; b < BUCKETS; b++) {
            struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
            CHECK(wring_bucket_stats(buckets[b], &stats) == WRING_OK &&
                      strcmp(stats.executor, shown[b]) == 0,
                  "%s runs on %s", names[b], stats.executor);
            CHECK(memcmp(data[b], data[0], ELEMS * sizeof(float)) == 0, "%s: other bits", names[b]);
        }
    }
    for (int b = 0; b < BUCKETS; b++)
        CHECK(wring_bucket_drop(buckets[b]) == WRING_OK, "drop");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    for (int b = 0; b < BUCKETS; b++)
        free(data[b]);
}

static void buckets_choose_their_executor(void)
{
    static const char *const providers[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};

    for (int i = 0; i < 2; i++) {
        const char *const settings[] = {providers[i], "WRING_BYPASS=never", NULL};
        wring_test_run_ranks(
            &(struct wring_test_job){.ranks = RANKS, .settings = settings, .run = run_rank});
    }
}

/** Trials of a codec are on the executor that it is to run on. */
static void run_trials(struct wring_session *session, uint32_t rank, void *arg)
{
    float *data = calloc(ELEMS, sizeof(*data));
    struct wring_bucket *bucket;
    (void)arg;

    REQUIRE(add(session, "b", "pool:1", data, &bucket) == WRING_OK &&
                wring_session_commit(session) == WRING_OK,
            "commit");
    CHECK(cpu_ns(session) > 0, "the trials ran elsewhere");
    run_step(&bucket, 1, rank, 0);
    CHECK(wring_bucket_drop(bucket) == WRING_OK && wring_session_commit(session) == WRING_OK,
          "drop");
    free(data);
}

static void trials_take_the_same(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_BYPASS=auto", NULL};
    wring_test_run_ranks(
        &(struct wring_test_job){.ranks = 2, .settings = settings, .run = run_trials});
}

static void name_another(struct wring_session *session, uint32_t rank, void *arg)
{
    float *data = calloc(ELEMS, sizeof(*data));
    struct wring_bucket *bucket;
    (void)arg;

    REQUIRE(add(session, "b", rank == 0 ? "pool:1" : "inline", data, &bucket) == WRING_OK,
            "register");
    CHECK(wring_session_commit(session) == WRING_ERR_MISMATCH, "commit");
    CHECK(wring_bucket_drop(bucket) == WRING_OK, "drop");
    free(data);
}

static void ranks_agree_on_it(void)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;

    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = 2, .run = name_another, .log = wring_test_lines_take, .log_arg = &lines});
    CHECK(strstr(lines.text, "bucket 'b': executor is ") != NULL &&
              strstr(lines.text, "; register it alike on all ranks") != NULL,
          "%s", lines.text);
}

static void name_wrongly(struct wring_session *session, uint32_t rank, void *arg)
{
    float *data = calloc(ELEMS, sizeof(*data));
    struct wring_bucket *buckets[MOST];
    char name[32], executor[100];
    int made = 0;
    (void)rank;
    (void)arg;

    CHECK(add(session, "b", "tpu", data, &buckets[0]) == WRING_ERR_INVALID, "tpu");
    CHECK(add(session, "b", "pool:cores=99999", data, &buckets[0]) == WRING_ERR_INVALID, "cores");
    memset(executor, '0', sizeof(executor));
    memcpy(executor, "pool:", 5);
    executor[sizeof(executor) - 1] = '\0';
    CHECK(add(session, "b", executor, data, &buckets[0]) == WRING_ERR_INVALID, "long");
    for (; made < MOST; made++) { /* one and the same pool, in so many words */
        snprintf(name, sizeof(name), "b%d", made);
        snprintf(executor, sizeof(executor), "pool:%0*d", made + 1, 1);
        if (add(session, name, executor, data, &buckets[made]) != WRING_OK)
            break;
    }
    CHECK(made == MOST - 1, "%d executors beside the session's", made);
    CHECK(add(session, "again", "pool:1", data, &buckets[made]) == WRING_OK, "one that is there");
    CHECK(session->engine->n_queues == MOST, "%u queues", session->engine->n_queues);
    while (made >= 0)
        CHECK(wring_bucket_drop(buckets[made--]) == WRING_OK, "drop");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    free(data);
}

static void wrong_ones_are_refused(void)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;

    wring_test_run_ranks(&(struct wring_test_job){
        .ranks = 1, .run = name_wrongly, .log = wring_test_lines_take, .log_arg = &lines});
    CHECK(strstr(lines.text, "bucket 'b': executor=tpu: needs inline, pool, ") != NULL &&
              strstr(lines.text, ": its name is too long") != NULL &&
              strstr(lines.text, "a session has at most 16 executors: let buckets share some"),
          "%s", lines.text);
}

static void follow_stream(struct wring_session *session, uint32_t rank, void *arg)
{
    static const struct wring_stream stream = {sizeof(stream), WRING_MEMORY_DEVICE, 0, NULL};
    static const struct wring_stream unsized = {0, WRING_MEMORY_DEVICE, 0, NULL};
    float *data = calloc(ELEMS, sizeof(*data));
    struct wring_bucket *bucket;
    (void)arg;

    REQUIRE(add(session, "b", "pool:1", data, &bucket) == WRING_OK &&
                wring_session_commit(session) == WRING_OK,
            "commit");
    CHECK(wring_bucket_post_on(bucket, &stream) == WRING_ERR_UNSUPPORTED, "post");
    CHECK(wring_bucket_post_on(bucket, NULL) == WRING_ERR_INVALID, "no stream");
    CHECK(wring_bucket_post_on(bucket, &unsized) == WRING_ERR_INVALID, "no size");
    run_step(&bucket, 1, rank, 0); /* nothing was posted */
    CHECK(wring_bucket_wait_on(bucket, &stream) == WRING_ERR_UNSUPPORTED, "wait");
    CHECK(wring_bucket_drop(bucket) == WRING_OK && wring_session_commit(session) == WRING_OK,
          "drop");
    free(data);
}

static void streams_need_a_device(void)
{
    static const char *const settings[] = {"WRING_BYPASS=never", NULL};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;

    wring_test_run_ranks(&(struct wring_test_job){.ranks = 2,
                                                  .settings = settings,
                                                  .run = follow_stream,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(strstr(lines.text,
                 "wring_bucket_post_on: executor pool of bucket 'b' works on no device, so it "
                 "cannot follow a stream: synchronize the stream, and call wring_bucket_post") !=
              NULL,
          "%s", lines.text);
}

static void give_device_memory(struct wring_session *session, uint32_t rank, void *arg)
{
    void *(*memory)(int managed) = NULL;
    static float host[ELEMS];
    struct wring_bucket *bucket;
    void *driver = arg;
    (void)rank;

    *(void **)(uintptr_t)&memory = dlsym(driver, "fake_memory");
    REQUIRE(memory != NULL && memory(0) != NULL && memory(1) != NULL, "no memory");
    uint8_t *device = memory(0), *managed = memory(1);
    CHECK(wring_buffer_register(session, device + 4096, 8192) == WRING_ERR_UNSUPPORTED, "device");
    CHECK(wring_buffer_register(session, managed, 8192) == WRING_OK, "managed");
    CHECK(wring_buffer_register(session, host, sizeof(host)) == WRING_OK, "of the host");
    CHECK(add(session, "b", NULL, device, &bucket) == WRING_ERR_UNSUPPORTED, "bucket");
    CHECK(add(session, "b", "pool:1", device, &bucket) == WRING_ERR_UNSUPPORTED, "bucket");
    CHECK(add(session, "m", NULL, managed, &bucket) == WRING_OK &&
              bucket->place.kind == WRING_MEMORY_HOST,
          "managed bucket");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    CHECK(bucket->block == NULL || bucket->block->regions[0] == NULL ||
              bucket->block->regions[0]->place.kind == WRING_MEMORY_HOST,
          "its region");
    run_step(&bucket, 1, rank, 0);
    CHECK(wring_bucket_drop(bucket) == WRING_OK && wring_session_commit(session) == WRING_OK,
          "drop");
    wring_buffer_free(session, managed);
    wring_buffer_free(session, host);
}

static void device_memory_is_known_and_refused(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_BYPASS=never", NULL};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    void *driver = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);

    REQUIRE(driver != NULL, "%s", dlerror());
    wring_test_run_ranks(&(struct wring_test_job){.ranks = 1,
                                                  .settings = settings,
                                                  .run = give_device_memory,
                                                  .arg = driver,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(strstr(lines.text, "8192 bytes at ") != NULL &&
              strstr(lines.text, " are memory of device 3, and provider tcp registers memory of "
                                 "the host alone: register host memory, and copy to it") != NULL,
          "%s", lines.text);
    CHECK(strstr(lines.text,
                 "bucket 'b': its data is memory of device 3, which executor pool cannot reach: "
                 "give it memory of the host, and copy to that") != NULL,
          "%s", lines.text);
    dlclose(driver);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"buckets_choose_their_executor", buckets_choose_their_executor},
        {"trials_take_the_same", trials_take_the_same},
        {"ranks_agree_on_it", ranks_agree_on_it},
        {"wrong_ones_are_refused", wrong_ones_are_refused},
        {"streams_need_a_device", streams_need_a_device},
        {"device_memory_is_known_and_refused", device_memory_is_known_and_refused},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
