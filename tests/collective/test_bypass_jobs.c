/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commits decide by trials which codecs run. Over a slow link the answer is the same on any
 * machine, also a busy one: a codec that sends a sixtieth gains a lot. Over memory that both ranks
 * map it follows from what was measured, which the bucket tells.
 */
#include <stdatomic.h>
#include <string.h>

#include "runtime/commit/codec_bypass.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS_MAX 3
#define ELEMS ((uint64_t)1 << 16) /* 256 KiB: at 10 Mbit/s a quarter of a second a step */

/** What a job is to find. */
struct story {
    uint32_t ranks;
    const char
        *runs; /* the codec of bucket "one" that runs; NULL: what is predicted to be faster */
    bool predicted;
    atomic_uint said; /* log lines that tell the choice */
};

static void listen_for_choices(void *arg, enum wring_log_level level, const char *module,
                               const char *text)
{
    struct story *story = arg;
    if (level <= WRING_LOG_WARN)
        fprintf(stderr, "%s: %s\n", module, text);
    if (level == WRING_LOG_INFO && strstr(text, "bucket 'one', 262144 bytes: codec topk+ef"))
        atomic_fetch_add(&story->said, 1);
}

static struct wring_bucket *add(struct wring_session *session, const char *name, const char *codec,
                                uint64_t elems, struct wring_group *group)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;
    params.name = name;
    params.codec = codec;
    params.elems = elems;
    params.group = group;
    enum wring_status status = wring_buffer_alloc(session, elems * sizeof(float), &params.data);
    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, &bucket);
    CHECK(status == WRING_OK, "%s: %s", name, wring_status_text(status));
    if (status == WRING_OK)
        for (uint64_t i = 0; i < elems; i++)
            ((float *)params.data)[i] = 1;
    return bucket;
}

static void step(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
    CHECK(status == WRING_OK, "step: %s", wring_status_text(status));
}

static struct wring_bucket_stats ask(struct wring_bucket *bucket)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    enum wring_status status = wring_bucket_stats(bucket, &stats);
    CHECK(status == WRING_OK, "stats: %s", wring_status_text(status));
    return stats;
}

/** By the rule for commits, from what was measured. */
static const char *predicted_codec(const struct wring_bucket_stats *stats)
{
    struct wring_curve with = {.n = 1, .points = {{1, stats->with_codec_ns}}};
    struct wring_curve without = {.n = 1, .points = {{1, stats->without_codec_ns}}};
    return wring_codec_bypass_rule(&with, &without, 1).bypass ? "none" : "topk+ef";
}

/** One bucket, a step, and what is told of it. */
static void one_bucket(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct story *story = arg;
    struct wring_bucket *bucket = add(session, "one", "topk+ef", ELEMS, NULL);
    REQUIRE(bucket != NULL, "no bucket");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    step(bucket);
    struct wring_bucket_stats stats = ask(bucket);
    CHECK(strcmp(stats.codec_asked, "topk+ef") == 0, "asked for %s", stats.codec_asked);
    const char *runs = story->runs != NULL ? story->runs : predicted_codec(&stats);
    CHECK(strcmp(stats.codec, runs) == 0, "rank %u: %s runs; with it %.0f us, without %.0f", rank,
          stats.codec, (double)stats.with_codec_ns / 1e3, (double)stats.without_codec_ns / 1e3);
    CHECK((stats.with_codec_ns > 0 && stats.without_codec_ns > 0) == story->predicted,
          "predicted %.0f us with it, %.0f without", (double)stats.with_codec_ns / 1e3,
          (double)stats.without_codec_ns / 1e3);
    CHECK(stats.steps == 1, "%llu steps", (unsigned long long)stats.steps);
    uint64_t raw = 2 * (story->ranks - 1) * ELEMS * sizeof(float) / story->ranks;
    bool few = stats.wire_bytes_sent < raw / 10;
    CHECK(few == (strcmp(runs, "none") != 0), "%llu bytes sent",
          (unsigned long long)stats.wire_bytes_sent);
}

static void run(struct story story, const char *provider, const char *fault, const char *bypass)
{
    const char *const settings[] = {provider, fault, bypass, "WRING_LOG=info", NULL};
    struct wring_test_job job = {.ranks = story.ranks,
                                 .settings = settings,
                                 .run = one_bucket,
                                 .arg = &story,
                                 .log = listen_for_choices,
                                 .log_arg = &story};
    wring_test_run_ranks(&job);
    unsigned lines = story.predicted ? story.ranks : 0;
    CHECK(atomic_load(&story.said) == lines, "%u lines", atomic_load(&story.said));
}

static void a_slow_link_runs_the_codec(void)
{
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++)
        run((struct story){.ranks = ranks, .runs = "topk+ef", .predicted = true},
            "WRING_PROVIDER=tcp", "WRING_FAULT=rate=10mbit", "WRING_BYPASS=auto");
}

static void shared_memory_runs_what_is_faster(void)
{
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++)
        run((struct story){.ranks = ranks, .predicted = true}, "WRING_PROVIDER=shm",
            "WRING_FAULT=", "WRING_BYPASS=auto");
}

static void the_setting_is_obeyed(void)
{
    run((struct story){.ranks = 2, .runs = "topk+ef"}, "WRING_PROVIDER=shm",
        "WRING_FAULT=", "WRING_BYPASS=never");
    run((struct story){.ranks = 2, .runs = "none"}, "WRING_PROVIDER=tcp", "WRING_FAULT=rate=1gbit",
        "WRING_BYPASS=always");
}

/**
 * Groups that overlap, ranks without a codec or without any bucket, orders that differ, and later
 * commits: none stands still, and what has been measured is not measured again.
 */
static void groups(struct wring_session *session, uint32_t rank, void *arg)
{
    const uint32_t low[] = {0, 1}, high[] = {1, 2};
    struct wring_group *world = wring_session_world(session), *first = NULL, *second = NULL;
    struct wring_bucket *buckets[3] = {NULL, NULL, NULL};
    struct wring_session_stats before = WRING_SESSION_STATS_INIT, after = before;
    (void)arg;

    if (rank <= 1)
        REQUIRE(wring_group_create(world, low, 2, 0, WRING_FOREVER, &first) == WRING_OK, "group");
    if (rank >= 1)
        REQUIRE(wring_group_create(world, high, 2, 0, WRING_FOREVER, &second) == WRING_OK, "group");
    if (rank >= 1) /* rank 1 registers in another order than the others meet */
        buckets[1] = add(session, "high", "bf16", 3000, second);
    if (rank <= 1)
        buckets[0] = add(session, "low", "int8+ef", 70000, first);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (rank <= 1)
        buckets[2] = add(session, "more", "int8+ef", 60000, first);
    wring_session_stats(session, &before);
    REQUIRE(wring_session_commit(session) == WRING_OK, "second commit");
    wring_session_stats(session, &after);
    CHECK(before.steps == after.steps, "measured again");
    for (int i = 0; i < 3; i++)
        if (buckets[i] != NULL)
            step(buckets[i]);
    struct wring_bucket *largest = rank <= 1 ? add(session, "big", "int8+ef", 400000, first) : NULL;
    wring_session_stats(session, &before);
    REQUIRE(wring_session_commit(session) == WRING_OK, "third commit");
    wring_session_stats(session, &after);
    CHECK((after.steps > before.steps) == (rank <= 1), "rank %u: %llu trial steps", rank,
          (unsigned long long)(after.steps - before.steps));
    if (largest != NULL)
        step(largest);
}

static void overlapping_groups_meet_once(void)
{
    static const char *const settings[] = {"WRING_BYPASS=auto", "WRING_PROVIDER=shm", NULL};
    struct wring_test_job job = {.ranks = 3, .settings = settings, .run = groups};
    wring_test_run_ranks(&job);
}

static void swallow(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void commit_in_vain(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    (void)arg;
    REQUIRE(add(session, "one", "int8+ef", ELEMS, NULL) != NULL, "no bucket");
    enum wring_status status = wring_session_commit(session);
    CHECK(status == WRING_ERR_PEER, "rank %u: %s", rank, wring_status_text(status));
    CHECK(wring_session_error(session, &detail) == WRING_ERR_PEER, "%s", detail.text);
    status = wring_session_commit(session);
    CHECK(status == WRING_ERR_PEER, "rank %u, again: %s", rank, wring_status_text(status));
}

/** So early that it is in the middle of the trials, and a little later. */
static void a_link_that_breaks_ends_the_commit(void)
{
    static const char *const faults[] = {"WRING_FAULT=disconnect=after:30,rank=1",
                                         "WRING_FAULT=disconnect=after:60,rank=1"};
    for (int i = 0; i < 2; i++) {
        const char *const settings[] = {"WRING_BYPASS=auto", "WRING_PROVIDER=tcp", faults[i], NULL};
        struct wring_test_job job = {
            .ranks = 3, .settings = settings, .run = commit_in_vain, .log = swallow};
        wring_test_run_ranks(&job);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_slow_link_runs_the_codec", a_slow_link_runs_the_codec},
        {"shared_memory_runs_what_is_faster", shared_memory_runs_what_is_faster},
        {"the_setting_is_obeyed", the_setting_is_obeyed},
        {"overlapping_groups_meet_once", overlapping_groups_meet_once},
        {"a_link_that_breaks_ends_the_commit", a_link_that_breaks_ends_the_commit},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
