/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs of the program's own that keep state beside the residual: against plain sums, over steps,
 * saved and loaded by a job of as many and of fewer ranks, and taken back after a failed step.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/lib/lines.h"
#include "tests/lib/momentum.h"
#include "tests/lib/odd_mode.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS_MAX 9
#define ELEMS 3001
#define WAIT_NS (60ull * 1000000000)

enum {
    PRIVATE,
    OWNER,
    SHARED,
    BUCKETS
};
static const char *const names[BUCKETS] = {"private", "owner", "shared"};
static const char *const specs[BUCKETS] = {"mom", "ownmom", "warm"};

struct blob {
    void *data;
    size_t bytes;
};

/** What a job does: steps [first, end), after it has loaded all blobs. */
struct story {
    const char *const *settings;
    uint32_t ranks;
    int first, end;
    const struct blob *load;
    uint32_t loads;
    uint32_t shared_from; /* how many steps the table has counted before */
    struct blob saved[RANKS_MAX];
};

/** Whole numbers, of which sums and their halves are exact for a few steps. */
static float value(uint32_t rank, uint64_t i, int step)
{
    return (float)((i * 31 + rank * 7 + (uint64_t)step * 13) % 64) - 32;
}

static float sum(uint32_t ranks, uint64_t i, int step)
{
    float total = 0;
    for (uint32_t r = 0; r < ranks; r++)
        total += value(r, i, step);
    return total;
}

/** The momentum after a step of what each step from `from` on has. @param ranks  whose sum */
static float momentum(uint32_t ranks, uint64_t i, int from, int step)
{
    float m = 0;
    for (int s = from; s <= step; s++)
        m = 0.5f * m + sum(ranks, i, s);
    return m;
}

static _Thread_local float data[BUCKETS][ELEMS];

static void check(const struct story *story, int b, int step, float want, uint64_t i)
{
    REQUIRE(data[b][i] == want, "%u ranks, %s, step %d, %d: %g, not %g", story->ranks, names[b],
            step, (int)i, (double)data[b][i], (double)want);
}

static void check_step(const struct story *story, int step, const float *before)
{
    for (uint64_t i = 0; i < ELEMS; i++) {
        check(story, PRIVATE, step, momentum(story->ranks, i, 0, step), i);
        float owner = before != NULL ? before[i] : 0;
        for (int s = story->first; s <= step; s++)
            owner = 0.5f * owner + sum(story->ranks, i, s);
        check(story, OWNER, step, owner, i);
        float left = 10 - (float)(step - story->first + 1) - (float)story->shared_from;
        check(story, SHARED, step, left * sum(story->ranks, i, step), i);
    }
}

static void register_all(struct wring_session *session, struct wring_bucket **buckets)
{
    for (int b = 0; b < BUCKETS; b++) {
        struct wring_bucket_params params = {.name = names[b],
                                             .data = data[b],
                                             .elems = ELEMS,
                                             .codec = specs[b],
                                             .scheme = b == OWNER ? WRING_SCHEME_DIVISIBLE
                                                                  : WRING_SCHEME_AUTO};
        REQUIRE(wring_bucket_register(session, &params, &buckets[b]) == WRING_OK, "register");
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
}

/** What was posted is over afterwards, however it ends. */
static enum wring_status run_step(struct wring_bucket **buckets, uint32_t rank, int step)
{
    enum wring_status status = WRING_OK;
    int posted = 0;
    for (int b = 0; b < BUCKETS && status == WRING_OK; b++) {
        for (uint64_t i = 0; i < ELEMS; i++)
            data[b][i] = value(rank, i, step);
        status = wring_bucket_post(buckets[b]);
        posted += status == WRING_OK;
    }
    for (int b = 0; b < posted; b++) {
        enum wring_status ended = wring_bucket_wait(buckets[b], WAIT_NS, NULL);
        status = status == WRING_OK ? ended : status;
    }
    return status;
}

static struct blob save(struct wring_session *session)
{
    struct blob blob = {0};
    CHECK(wring_session_save_state(session, NULL, &blob.bytes) == WRING_OK, "size");
    blob.data = malloc(blob.bytes);
    CHECK(wring_session_save_state(session, blob.data, &blob.bytes) == WRING_OK, "save");
    return blob;
}

static void check_stats(struct wring_bucket **buckets)
{
    static const uint64_t want[BUCKETS] = {ELEMS * sizeof(float), ELEMS * sizeof(float),
                                           sizeof(int64_t)};
    for (int b = 0; b < BUCKETS; b++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        CHECK(wring_bucket_stats(buckets[b], &stats) == WRING_OK, "stats");
        CHECK(stats.state_bytes == want[b], "%s: %d bytes of state", names[b],
              (int)stats.state_bytes);
    }
}

static void tell(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    struct wring_bucket *buckets[BUCKETS];
    static _Thread_local float before[ELEMS];

    register_all(session, buckets);
    for (uint32_t i = 0; i < story->loads; i++)
        CHECK(wring_session_load_state(session, story->load[i].data, story->load[i].bytes) ==
                  WRING_OK,
              "state of rank %u", i);
    for (uint64_t i = 0; i < ELEMS; i++)
        before[i] = story->loads > 0 ? momentum(story->loads, i, 0, story->first - 1) : 0;
    for (int step = story->first; step < story->end; step++) {
        CHECK(run_step(buckets, rank, step) == WRING_OK, "step");
        check_step(story, step, before);
    }
    check_stats(buckets);
    story->saved[rank] = save(session);
}

static void run(struct story *story)
{
    struct wring_test_job job = {.ranks = story->ranks,
                                 .settings = story->settings,
                                 .run = tell,
                                 .arg = story,
                                 .codecs = momentum_codecs};
    wring_test_run_ranks(&job);
}

static void finish(struct story *story)
{
    for (uint32_t r = 0; r < RANKS_MAX; r++)
        free(story->saved[r].data);
}

static const char *const chunked_pool[] = {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=4k",
                                           "WRING_EXECUTOR=pool", NULL};
static const char *const chunked_inline[] = {"WRING_PROVIDER=shm", "WRING_CHUNK_BYTES=4k",
                                             "WRING_EXECUTOR=inline", NULL};
static const char *const whole_pool[] = {"WRING_PROVIDER=shm", "WRING_EXECUTOR=pool", NULL};
static const char *const whole_inline[] = {"WRING_PROVIDER=tcp", "WRING_EXECUTOR=inline", NULL};

static void every_rank(void)
{
    static const char *const *const settings[] = {chunked_pool, chunked_inline, whole_pool,
                                                  whole_inline};
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
        struct story story = {.settings = settings[ranks % 4], .ranks = ranks, .end = 3};
        run(&story);
        finish(&story);
    }
}

/** A job that goes on where another one ended is as if that had not. */
static void continued(void)
{
    struct story first = {.ranks = 3, .end = 2};
    run(&first);
    struct story second = {
        .ranks = 3, .first = 2, .end = 4, .load = first.saved, .loads = 3, .shared_from = 2};
    run(&second);
    finish(&second);
    finish(&first);
}

/** Of fewer ranks: what was of sums, and what was everybody's, is there; each rank that is left has
 *  its own, and what the rank had that is gone is lost. */
static void fewer_ranks(void)
{
    struct story first = {.ranks = 3, .end = 2};
    run(&first);
    struct story second = {
        .ranks = 2, .first = 2, .end = 3, .load = first.saved, .loads = 3, .shared_from = 2};
    run(&second);
    finish(&second);
    finish(&first);
}

/* ---- a step that fails ---- */

#define DYING 1

static void die(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    struct wring_bucket *buckets[BUCKETS];

    register_all(session, buckets);
    for (int step = 0; step < 2; step++)
        CHECK(run_step(buckets, rank, step) == WRING_OK, "step");
    if (rank == DYING)
        return; /* and closes: the others' third step fails */
    CHECK(run_step(buckets, rank, 2) != WRING_OK, "a step without rank %d", DYING);
    story->saved[rank] = save(session);
}

static void taken_back(void)
{
    static const char *const settings[] = {"WRING_ROLLBACK=on", "WRING_PROVIDER=tcp", NULL};
    struct story failed = {.ranks = 3}, whole = {.ranks = 3, .end = 2};
    struct wring_test_job job = {
        .ranks = 3, .settings = settings, .run = die, .arg = &failed, .codecs = momentum_codecs};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;

    job.log = wring_test_lines_take;
    job.log_arg = &lines;
    wring_test_run_ranks(&job);
    run(&whole);
    for (uint32_t r = 0; r < 3; r++)
        if (r != DYING)
            CHECK(failed.saved[r].bytes == whole.saved[r].bytes &&
                      memcmp(failed.saved[r].data, whole.saved[r].data, whole.saved[r].bytes) == 0,
                  "rank %u has another state than before the step that failed", r);
    finish(&failed);
    finish(&whole);
}

/* ---- whatever mode the application's threads are in ---- */

/** As the table of "warm" in the mode of jobs, else zeros. */
static void fill_tiny(const struct wring_codec *codec, const struct wring_codec_context *context,
                      void *state, uint64_t count)
{
    volatile float least = 0x1p-126f;

    (void)codec, (void)context;
    for (uint64_t i = 0; i < count; i++)
        ((int64_t *)state)[i] = least / 2 > 0 ? 10 : 0;
}

static void register_in_odd_mode(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket_params params = {
        .name = "b", .data = data[0], .elems = ELEMS, .codec = "warm"};
    struct wring_bucket *bucket;
    (void)arg;

    uint64_t mode = wring_fp_enter();
    wring_test_odd_mode();
    enum wring_status status = wring_bucket_register(session, &params, &bucket);
    wring_fp_enter();
    wring_fp_leave(mode);
    REQUIRE(status == WRING_OK && wring_session_commit(session) == WRING_OK, "commit");
    for (uint64_t i = 0; i < ELEMS; i++)
        data[0][i] = value(rank, i, 0);
    CHECK(wring_bucket_post(bucket) == WRING_OK &&
              wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
          "step");
    for (uint64_t i = 0; i < ELEMS; i++)
        REQUIRE(data[0][i] == 9 * sum(2, i, 0), "%d: %g, not %g", (int)i, (double)data[0][i],
                (double)(9 * sum(2, i, 0)));
}

static void odd_mode(void)
{
    struct wring_codec_ops warm = *momentum_codecs[2];
    struct wring_codec_state state = warm.states[0];
    const struct wring_codec_ops *const own[] = {&warm, NULL};
    struct wring_test_job job = {.ranks = 2, .run = register_in_odd_mode, .codecs = own};

    state.init = fill_tiny;
    warm.states = &state;
    wring_test_run_ranks(&job);
}

/* ---- what cannot be ---- */

static void refuse(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct wring_call how = {.codec = "mom"};
    (void)rank, (void)arg;
    CHECK(wring_allreduce(wring_session_world(session), data[0], data[0], ELEMS, WRING_F32,
                          WRING_SUM, &how, NULL) == WRING_ERR_UNSUPPORTED,
          "a call keeps no state");
}

static void in_calls(void)
{
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;
    struct wring_test_job job = {.ranks = 2,
                                 .run = refuse,
                                 .codecs = momentum_codecs,
                                 .log = wring_test_lines_take,
                                 .log_arg = &lines};
    wring_test_run_ranks(&job);
    CHECK(wring_test_lines_count(&lines,
                                 "codec mom keeps state between steps: register a bucket") == 2,
          "no line");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_rank", every_rank},
        {"continued", continued},
        {"fewer_ranks", fewer_ranks},
        {"taken_back", taken_back},
        {"in_calls", in_calls},
        {"odd_mode", odd_mode},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
