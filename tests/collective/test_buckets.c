/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets beyond post and wait: whichever is done first, taken back, and what they say of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define ELEMS 5000

static struct wring_bucket *add(struct wring_session *session, const char *name, uint64_t elems,
                                const char *codec, float **data)
{
    struct wring_bucket *bucket = NULL;
    CHECK(wring_buffer_alloc(session, elems * sizeof(float), (void **)data) == WRING_OK, "alloc");
    struct wring_bucket_params params = {
        .name = name, .data = *data, .elems = elems, .codec = codec};
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register %s", name);
    return bucket;
}

static void step(struct wring_bucket *bucket, float *data, uint64_t elems, uint32_t ranks)
{
    for (uint64_t i = 0; i < elems; i++)
        data[i] = 1;
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    CHECK(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK, "wait");
    CHECK(data[0] == (float)ranks && data[elems - 1] == (float)ranks, "%g", (double)data[0]);
}

/** Rank 0 has both under way; the others bring one first, and the other when that is done. */
static void first_done(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_waitable both[3] = {{.bucket = NULL}};
    float *data[2];
    size_t index = 99;
    (void)arg;

    both[0].bucket = add(session, "late", ELEMS, "none", &data[0]);
    both[2].bucket = add(session, "early", ELEMS, "none", &data[1]);
    CHECK(wring_wait_any(both, 3, 0, &index, NULL) == WRING_ERR_INVALID, "before the commit");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    REQUIRE(wring_bucket_post(both[2].bucket) == WRING_OK, "post early");
    if (rank == 0) {
        REQUIRE(wring_bucket_post(both[0].bucket) == WRING_OK, "post late");
        CHECK(wring_wait_any(both, 3, WAIT_NS, &index, NULL) == WRING_OK && index == 2, "%zu",
              index);
        both[2].bucket = NULL;
        CHECK(wring_wait_any(both, 3, 1000000, &index, NULL) == WRING_ERR_TIMEOUT && index == 3,
              "%zu", index);
    } else {
        CHECK(wring_bucket_wait(both[2].bucket, WAIT_NS, NULL) == WRING_OK, "early");
    }
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
    if (rank != 0)
        REQUIRE(wring_bucket_post(both[0].bucket) == WRING_OK, "post late");
    both[2].bucket = NULL;
    CHECK(wring_wait_any(both, 3, WAIT_NS, &index, NULL) == WRING_OK && index == 0, "%zu", index);
    both[0].bucket = NULL;
    CHECK(wring_wait_any(both, 3, WAIT_NS, &index, NULL) == WRING_OK && index == 3, "none left");
}

/** What a framework does that has found better buckets after its first step. */
static void dropped(struct wring_session *session, uint32_t rank, void *arg)
{
    uint32_t ranks = wring_session_size(session);
    float *first, *second, *other;
    (void)arg;
    (void)rank;

    struct wring_bucket *a = add(session, "a", ELEMS, "none", &first);
    struct wring_bucket *b = add(session, "b", 70, "bf16+ef", &other);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    step(a, first, ELEMS, ranks);
    step(b, other, 70, ranks);

    CHECK(wring_bucket_drop(a) == WRING_OK, "drop");
    a = add(session, "a", 2 * ELEMS, "bf16", &second);
    CHECK(wring_bucket_post(a) == WRING_ERR_INVALID, "posted before its commit");
    REQUIRE(wring_session_commit(session) == WRING_OK, "second commit");
    wring_buffer_free(session, first);
    for (int i = 0; i < 3; i++) {
        step(a, second, 2 * ELEMS, ranks);
        step(b, other, 70, ranks);
    }
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    CHECK(wring_bucket_stats(b, &stats) == WRING_OK && stats.steps == 4,
          "steps of one that stayed");
    CHECK(wring_bucket_stats(a, &stats) == WRING_OK && stats.steps == 3, "steps of the new one");
}

/** All ranks but the last still have the bucket. */
static void dropped_by_one(struct wring_session *session, uint32_t rank, void *arg)
{
    float *data;
    (void)arg;
    struct wring_bucket *a = add(session, "a", ELEMS, "none", &data);
    add(session, "b", ELEMS, "none", &data);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (rank + 1 == wring_session_size(session))
        CHECK(wring_bucket_drop(a) == WRING_OK, "drop");
    CHECK(wring_session_commit(session) == WRING_ERR_MISMATCH, "rank %u agrees", rank);
}

/** Of all ranks: which of them sums in a step is left to them. */
static uint64_t sum_of(struct wring_session *session, uint64_t value)
{
    double sum = (double)value;
    CHECK(wring_allreduce(wring_session_world(session), &sum, &sum, 1, WRING_F64, WRING_SUM, NULL,
                          NULL) == WRING_OK,
          "allreduce");
    return (uint64_t)sum;
}

static void what_ran(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const codecs[] = {"none", "bf16", "onebit:block=128+ef"};
    static const char *const schemes[] = {"direct", "divisible", "divisible"};
    const char *provider = arg;
    struct wring_bucket *buckets[3];
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    float *data[3];

    for (int i = 0; i < 3; i++)
        buckets[i] = add(session, codecs[i], ELEMS, codecs[i], &data[i]);
    CHECK(wring_bucket_stats(buckets[0], &stats) == WRING_ERR_INVALID, "before the commit");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < ELEMS; k++)
            data[i][k] = (float)(k % 17) - 8 + (float)rank;
        CHECK(wring_bucket_post(buckets[i]) == WRING_OK, "post");
        CHECK(wring_bucket_wait(buckets[i], WAIT_NS, NULL) == WRING_OK, "wait");
        REQUIRE(wring_bucket_stats(buckets[i], &stats) == WRING_OK, "stats");
        CHECK(strcmp(stats.codec, codecs[i]) == 0, "%s", stats.codec);
        CHECK(strcmp(stats.scheme, schemes[i]) == 0, "%s is %s", codecs[i], stats.scheme);
        CHECK(strcmp(stats.provider, provider) == 0, "%s", stats.provider);
        CHECK(stats.steps == 1 && stats.wire_bytes_sent > 0 && stats.steps_ns > 0, "%s: cost",
              codecs[i]);
        CHECK(stats.codec_ns < stats.steps_ns * 4 && sum_of(session, stats.codec_ns) > 0,
              "%s: codec", codecs[i]);
        CHECK(stats.piece_elems > 0 && stats.piece_elems <= ELEMS, "%s: piece", codecs[i]);
        CHECK((i == 2) == (stats.residual_rms > 0), "%s: residual %g", codecs[i],
              stats.residual_rms);
    }
}

#define RUSH 3
#define RUSH_ELEMS 1000000

/** Who has ended, as callbacks tell: one at a time. */
struct rush {
    int n, order[RUSH];
};

struct racer {
    struct rush *rush;
    int index;
};

static void note_end(void *arg, const struct wring_result *result)
{
    const struct racer *racer = arg;
    CHECK(result->status == WRING_OK, "%s", wring_status_text(result->status));
    if (racer->rush->n < RUSH)
        racer->rush->order[racer->rush->n++] = racer->index;
}

/** On a slow link, of buckets of one size, the urgent ones end first, whatever came first. */
static void overtaking(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const names[RUSH] = {"later", "soon", "now"};
    struct wring_waitable left[RUSH] = {{.bucket = NULL}};
    struct rush rush = {0, {0}};
    struct racer racers[RUSH];
    (void)arg;

    for (int i = 0; i < RUSH; i++) {
        racers[i] = (struct racer){&rush, i};
        struct wring_bucket_params params = {.name = names[i],
                                             .elems = RUSH_ELEMS,
                                             .priority = RUSH - i,
                                             .done = note_end,
                                             .done_arg = &racers[i]};
        REQUIRE(wring_buffer_alloc(session, RUSH_ELEMS * sizeof(float), &params.data) == WRING_OK,
                "alloc");
        REQUIRE(wring_bucket_register(session, &params, &left[i].bucket) == WRING_OK, "register");
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int i = 0; i < RUSH; i++)
        REQUIRE(wring_bucket_post(left[i].bucket) == WRING_OK, "post %d", i);
    for (int i = 0; i < RUSH; i++)
        CHECK(wring_bucket_wait(left[i].bucket, WAIT_NS, NULL) == WRING_OK, "wait");
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    for (int i = 0; i < RUSH; i++)
        CHECK(rush.n == RUSH && rush.order[i] == RUSH - 1 - i, "rank %u had bucket %d done, not %d",
              rank, rush.order[i], RUSH - 1 - i);
}

static void run(void (*body)(struct wring_session *, uint32_t, void *), uint32_t ranks, bool quiet)
{
    static const char *const settings[][2] = {{"WRING_PROVIDER=tcp", NULL},
                                              {"WRING_PROVIDER=shm", NULL}};
    static char *const names[] = {"tcp", "shm"};
    static const char *const silent[] = {"WRING_PROVIDER=shm", "WRING_LOG=error", NULL};
    for (size_t i = 0; i < 2; i++) {
        struct wring_test_job job = {
            .ranks = ranks, .settings = quiet ? silent : settings[i], .run = body, .arg = names[i]};
        wring_test_run_ranks(&job);
    }
}

static void any_of_several(void)
{
    run(first_done, 3, false);
}

static void dropped_and_made_anew(void)
{
    run(dropped, 3, false);
}

static void dropped_by_one_rank_only(void)
{
    run(dropped_by_one, 3, true);
}

static void what_is_urgent_overtakes(void)
{
    /* no step goes on before its rank waits, and so has posted all of them */
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller",
                                           "WRING_FAULT=rate=100mbit", NULL};
    struct wring_test_job job = {.ranks = 2, .settings = settings, .run = overtaking};
    wring_test_run_ranks(&job);
}

static void stats_say_what_ran(void)
{
    run(what_ran, 3, false);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"any_of_several", any_of_several},
        {"dropped_and_made_anew", dropped_and_made_anew},
        {"dropped_by_one_rank_only", dropped_by_one_rank_only},
        {"what_is_urgent_overtakes", what_is_urgent_overtakes},
        {"stats_say_what_ran", stats_say_what_ran},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
