/* SPDX-License-Identifier: Apache-2.0 */
/* A session gets another executor and pieces of another size between two commits. */
#include <string.h>

#include "runtime/commit/commit.h"
#include "runtime/session/executor.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define ELEMS 100000
#define WAIT_NS (60ull * 1000000000)
#define CODEC "onebit:block=128"

/** What a rank has. */
struct rank {
    float data[ELEMS], before[ELEMS];
    struct wring_bucket *bucket;
};

static struct rank ranks[2];

static void fill(float *data, uint32_t rank)
{
    for (uint32_t i = 0; i < ELEMS; i++)
        data[i] = (float)((i * 7 + rank * 31) % 255) - 127;
}

static void run_step(struct wring_session *session, struct rank *own)
{
    fill(own->data, wring_session_rank(session));
    CHECK(wring_bucket_post(own->bucket) == WRING_OK, "post");
    CHECK(wring_bucket_wait(own->bucket, WAIT_NS, NULL) == WRING_OK, "wait");
}

/** By the group's own channels, which were made before. */
static void run_immediate(struct wring_session *session, struct rank *own)
{
    fill(own->data, wring_session_rank(session));
    CHECK(wring_allreduce(wring_session_world(session), own->data, own->data, ELEMS, WRING_F32,
                          WRING_SUM, &(struct wring_call){.codec = CODEC}, NULL) == WRING_OK,
          "allreduce");
}

static uint64_t cpu_ns(struct wring_session *session)
{
    struct wring_session_stats stats = WRING_SESSION_STATS_INIT;

    CHECK(wring_session_stats(session, &stats) == WRING_OK, "stats");
    return stats.executor_cpu_ns;
}

/** @return the processor time that executors' threads have used by the end of it */
static uint64_t run_with(struct wring_session *session, struct rank *own, const char *executor,
                         uint64_t chunk_bytes)
{
    CHECK(wring_commit_take_back(session) == WRING_OK, "something is under way");
    CHECK(wring_session_settle(session, executor, chunk_bytes) == WRING_OK, "%s", executor);
    CHECK(strncmp(session->executor->ops->name, executor, 4) == 0, "%s instead of %s",
          session->executor->ops->name, executor);
    CHECK(session->config.chunk_bytes == chunk_bytes, "pieces");
    CHECK(session->fabric->peers[1 - wring_session_rank(session)].window.limit >= 2 * chunk_bytes,
          "the window is too small for two of them");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    run_step(session, own);
    CHECK(memcmp(own->data, own->before, sizeof(own->data)) == 0, "other sums with %s", executor);
    run_immediate(session, own);
    CHECK(memcmp(own->data, own->before, sizeof(own->data)) == 0, "other sums of a call with %s",
          executor);
    return cpu_ns(session);
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct rank *own = &ranks[rank];
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    (void)arg;

    params.name = "bucket";
    params.data = own->data;
    params.elems = ELEMS;
    params.codec = CODEC;
    REQUIRE(wring_bucket_register(session, &params, &own->bucket) == WRING_OK, "register");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    run_step(session, own);
    memcpy(own->before, own->data, sizeof(own->before));
    CHECK(cpu_ns(session) == 0, "inline has threads");
    uint64_t first_ns = run_with(session, own, "pool:1", 1 << 20);
    CHECK(first_ns > 0, "its threads did nothing");
    CHECK(run_with(session, own, "inline", 4096) == first_ns, "what was used is forgotten");
    CHECK(run_with(session, own, "pool:1", 65536) > first_ns, "its threads did nothing");

    REQUIRE(wring_commit_take_back(session) == WRING_OK, "something is under way");
    CHECK(wring_session_settle(session, "pool:cores=9999", 4096) == WRING_ERR_INVALID, "core 9999");
    CHECK(strcmp(session->config.executor, "pool:1") == 0 && session->config.chunk_bytes == 65536,
          "it is %s, with pieces of %zu", session->config.executor,
          (size_t)session->config.chunk_bytes);
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    run_step(session, own);
}

static void ignore_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg;
    (void)level;
    (void)module;
    (void)text;
}

static void settings_change_between_commits(void)
{
    static const char *const providers[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};

    for (int i = 0; i < 2; i++) {
        const char *const settings[] = {providers[i], NULL};
        wring_test_run_ranks(&(struct wring_test_job){
            .ranks = 2, .settings = settings, .run = run_rank, .log = ignore_line});
    }
}

static void executors_are_counted_by_name(void)
{
    static const struct {
        const char *text;
        bool told;
        uint32_t cores;
    } cases[] = {{"inline", true, 0},          {"pool", true, 1},
                 {"pool:", true, 1},           {"pool:3", true, 3},
                 {"pool:cores=0,2", false, 0}, {"pool:3x", false, 0},
                 {"nothing", false, 0}};
    uint32_t cores;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool told = wring_executor_count_cores(cases[i].text, &cores);
        CHECK(told == cases[i].told, "%s", cases[i].text);
        CHECK(!told || cores == cases[i].cores, "%s: %u", cases[i].text, cores);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"settings_change_between_commits", settings_change_between_commits},
        {"executors_are_counted_by_name", executors_are_counted_by_name},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
