/* SPDX-License-Identifier: Apache-2.0 */
/* Residuals saved, loaded, moved to a job of another size, and rolled back after a failure. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "runtime/commit/commit.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define RANKS_MAX 4
#define ELEMS 9000
#define BUCKETS 3

static const char *const codecs[BUCKETS] = {"onebit:block=128+ef",
                                            "topk:ratio=0.05:block=1024+ef:residual=bf16",
                                            "int8:block=64+ef:residual=int8"};
static const enum wring_scheme schemes[BUCKETS] = {WRING_SCHEME_DIVISIBLE, WRING_SCHEME_INDIVISIBLE,
                                                   WRING_SCHEME_DIVISIBLE};

struct blob {
    uint8_t *data;
    size_t bytes;
};

/** What a job is to do, and what its ranks leave behind. */
struct story {
    uint64_t first, end;     /* steps [first, end) */
    uint32_t per_node;       /* ranks of a node, between which all goes hierarchically; 0: flat */
    const struct blob *load; /* [loads], every one of them on every rank; NULL: none */
    uint32_t loads;
    struct blob saved[RANKS_MAX]; /* after the last step */
    float results[RANKS_MAX][BUCKETS][ELEMS];
};

struct buckets {
    struct wring_bucket *buckets[BUCKETS];
    float *data[BUCKETS];
};

/** As long as a name may be, and different at its end only. @param name out, [WRING_NAME_MAX] */
static void name_bucket(int b, char *name)
{
    snprintf(name, WRING_NAME_MAX, "%0*d", WRING_NAME_MAX - 1, b);
}

static bool make_buckets(struct wring_session *session, bool hierarchical, struct buckets *out)
{
    for (int b = 0; b < BUCKETS; b++) {
        char name[WRING_NAME_MAX];
        name_bucket(b, name);
        struct wring_bucket_params params = {
            .name = name, .elems = ELEMS, .codec = codecs[b], .scheme = schemes[b]};
        if (hierarchical)
            params.scheme += WRING_SCHEME_HIERARCHICAL;
        if (wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&out->data[b]) != WRING_OK)
            return false;
        params.data = out->data[b];
        if (wring_bucket_register(session, &params, &out->buckets[b]) != WRING_OK)
            return false;
    }
    return wring_session_commit(session) == WRING_OK;
}

static void fill(float *data, uint32_t rank, int bucket, uint64_t step)
{
    uint32_t state = 1 + rank + 16 * (uint32_t)bucket + 64 * (uint32_t)step;
    for (int i = 0; i < ELEMS; i++)
        data[i] = wring_test_random_float(&state);
}

static enum wring_status run_step(struct buckets *buckets, uint32_t rank, uint64_t step)
{
    enum wring_status status = WRING_OK;
    for (int b = 0; b < BUCKETS && status == WRING_OK; b++) {
        fill(buckets->data[b], rank, b, step);
        status = wring_bucket_post(buckets->buckets[b]);
    }
    for (int b = 0; b < BUCKETS && status == WRING_OK; b++)
        status = wring_bucket_wait(buckets->buckets[b], WAIT_NS, NULL);
    return status;
}

static struct blob save(struct wring_session *session)
{
    struct blob blob = {0};
    size_t little = 10;
    CHECK(wring_session_save_state(session, NULL, &blob.bytes) == WRING_OK, "size");
    blob.data = malloc(blob.bytes);
    CHECK(wring_session_save_state(session, blob.data, &little) == WRING_ERR_INVALID, "no room");
    CHECK(little == blob.bytes, "%zu bytes needed", little);
    CHECK(wring_session_save_state(session, blob.data, &blob.bytes) == WRING_OK, "save");
    return blob;
}

static void tell(struct wring_session *session, uint32_t rank, void *arg)
{
    struct story *story = arg;
    struct buckets buckets;
    size_t bytes;
    CHECK(wring_session_save_state(session, NULL, &bytes) == WRING_OK, "nothing to save");
    REQUIRE(make_buckets(session, story->per_node > 0, &buckets), "buckets");
    for (uint32_t i = 0; i < story->loads; i++)
        CHECK(wring_session_load_state(session, story->load[i].data, story->load[i].bytes) ==
                  WRING_OK,
              "state of rank %u", i);
    for (uint64_t step = story->first; step < story->end; step++)
        CHECK(run_step(&buckets, rank, step) == WRING_OK, "step");
    for (int b = 0; b < BUCKETS; b++)
        memcpy(story->results[rank][b], buckets.data[b], sizeof(story->results[rank][b]));
    story->saved[rank] = save(session);
}

static struct story *run_on_nodes(uint32_t ranks, uint32_t per_node, uint64_t first, uint64_t end,
                                  const struct blob *load, uint32_t loads)
{
    static const char *const settings[] = {"WRING_PROVIDER=auto", NULL};
    struct story *story = calloc(1, sizeof(*story));
    *story = (struct story){
        .first = first, .end = end, .per_node = per_node, .load = load, .loads = loads};
    struct wring_test_job job = {.ranks = ranks,
                                 .ranks_per_node = per_node,
                                 .settings = settings,
                                 .run = tell,
                                 .arg = story};
    wring_test_run_ranks(&job);
    return story;
}

static struct story *run_story(uint32_t ranks, uint64_t first, uint64_t end,
                               const struct blob *load, uint32_t loads)
{
    return run_on_nodes(ranks, 0, first, end, load, loads);
}

static void free_story(struct story *story)
{
    for (int i = 0; i < RANKS_MAX; i++)
        free(story->saved[i].data);
    free(story);
}

static void check_goes_on(uint32_t ranks, uint32_t per_node)
{
    struct story *whole = run_on_nodes(ranks, per_node, 0, 6, NULL, 0);
    struct story *begun = run_on_nodes(ranks, per_node, 0, 4, NULL, 0);
    struct story *rest = run_on_nodes(ranks, per_node, 4, 6, begun->saved, ranks);
    struct story *without = run_on_nodes(ranks, per_node, 4, 6, NULL, 0);
    CHECK(memcmp(whole->results, rest->results, sizeof(whole->results)) == 0, "other bits");
    CHECK(memcmp(whole->results, without->results, sizeof(whole->results)) != 0,
          "the state makes no difference");
    for (uint32_t i = 0; i < ranks; i++)
        CHECK(whole->saved[i].bytes == rest->saved[i].bytes &&
                  memcmp(whole->saved[i].data, rest->saved[i].data, rest->saved[i].bytes) == 0,
              "rank %u ends in another state", i);
    free_story(whole);
    free_story(begun);
    free_story(rest);
    free_story(without);
}

static void a_job_goes_on_where_it_was(void)
{
    check_goes_on(3, 0);
    check_goes_on(4, 2);
}

/** What a state's first bucket holds: where its owner's part lies, and all of its values. */
static void read_first(const struct blob *blob, uint64_t own[2], float *values)
{
    struct wring_reader reader = {blob->data, blob->bytes, false};
    char text[WRING_NAME_MAX];
    wring_read(&reader, 8 + 3 * 4);
    wring_read_text(&reader, text, sizeof(text));
    wring_read_u64(&reader);
    wring_read_text(&reader, text, sizeof(text));
    wring_read_u64(&reader);
    for (uint32_t n = wring_read_u32(&reader); n > 0; n--) {
        uint32_t part = wring_read_u32(&reader);
        uint64_t begin = wring_read_u64(&reader), end = wring_read_u64(&reader);
        const void *data = wring_read(&reader, (end - begin) * sizeof(float));
        REQUIRE(data != NULL, "a range is cut off");
        memcpy(values + begin, data, (end - begin) * sizeof(float));
        if (part == 1) {
            own[0] = begin;
            own[1] = end;
        }
    }
}

/** Each element of the sum has one owner; what that held back must arrive at its new owner. */
static void sums_move_to_their_new_owners(void)
{
    struct story *four = run_story(4, 0, 3, NULL, 0);
    struct story *two = run_story(2, 3, 3, four->saved, 4);
    float before[ELEMS], after[ELEMS], values[ELEMS];
    uint64_t covered = 0, own[2];
    for (int i = 0; i < 4; i++) {
        read_first(&four->saved[i], own, values);
        memcpy(before + own[0], values + own[0], (own[1] - own[0]) * sizeof(float));
        covered += own[1] - own[0];
    }
    CHECK(covered == ELEMS, "%llu elements owned", (unsigned long long)covered);
    for (int i = 0; i < 2; i++) {
        read_first(&two->saved[i], own, values);
        memcpy(after + own[0], values + own[0], (own[1] - own[0]) * sizeof(float));
        covered -= own[1] - own[0];
    }
    CHECK(covered == 0, "%llu elements left over", (unsigned long long)covered);
    CHECK(memcmp(before, after, sizeof(before)) == 0, "residuals of sums were lost");
    free_story(four);
    free_story(two);
}

/**
 * What a state's loading takes of the first bucket, all ranks together: residuals of sums, and
 * those of each rank's contributions but to the sums that it owns afterwards.
 * @param total  [ELEMS]
 */
static void add_taken(const struct blob *saved, const struct blob *afterwards, double *total)
{
    float values[ELEMS], unused[ELEMS];
    uint64_t before[2], after[2];

    read_first(saved, before, values);
    read_first(afterwards, after, unused);
    for (uint64_t i = 0; i < ELEMS; i++) {
        bool sum = i >= before[0] && i < before[1], owned = i >= after[0] && i < after[1];
        if (sum || !owned)
            total[i] += (double)values[i];
    }
}

/** Hierarchically a rank encodes its node's sum of its shard alone: what it held back of the rest
 *  goes out at once. So a step more makes no more of it, and no less. */
static void flat_residuals_go_out_between_nodes(void)
{
    static double before[ELEMS], after[ELEMS];
    struct story *flat = run_story(4, 0, 3, NULL, 0);
    struct story *nodes = run_on_nodes(4, 2, 3, 4, flat->saved, 4);
    float values[ELEMS];
    uint64_t own[2];

    for (uint32_t rank = 0; rank < 4; rank++) {
        add_taken(&flat->saved[rank], &nodes->saved[rank], before);
        fill(values, rank, 0, 3);
        for (int i = 0; i < ELEMS; i++)
            before[i] += (double)values[i];
        read_first(&nodes->saved[rank], own, values);
        for (int i = 0; i < ELEMS; i++)
            after[i] += (double)values[i];
    }
    for (int i = 0; i < ELEMS; i++) {
        double got = (double)nodes->results[0][0][i] + after[i];
        REQUIRE(fabs(got - before[i]) < 1e-4, "element %d: %g sent or held back, not %g", i, got,
                before[i]);
    }
    free_story(flat);
    free_story(nodes);
}

static void refuse(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct story *story = arg;
    const struct blob *good = &story->saved[rank];
    struct wring_bucket *bucket;
    struct buckets buckets;
    struct blob bad = {malloc(good->bytes), good->bytes};

    CHECK(wring_session_load_state(session, "", 0) == WRING_ERR_FRAME, "empty");
    for (size_t at = 0; at < good->bytes; at += good->bytes / 97) {
        memcpy(bad.data, good->data, good->bytes);
        bad.data[at] ^= 1;
        CHECK(wring_session_load_state(session, bad.data, bad.bytes) == WRING_ERR_FRAME,
              "byte %zu was changed", at);
        CHECK(wring_session_load_state(session, good->data, at) == WRING_ERR_FRAME,
              "cut off after %zu", at);
    }
    free(bad.data);
    char name[WRING_NAME_MAX];
    name_bucket(0, name);
    struct wring_bucket_params params = {
        .name = name, .data = good->data, .elems = 10, .codec = "bf16+ef"};
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    CHECK(wring_session_load_state(session, good->data, good->bytes) == WRING_ERR_INVALID,
          "not committed");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    CHECK(wring_session_load_state(session, good->data, good->bytes) == WRING_ERR_MISMATCH,
          "another bucket");
    CHECK(wring_bucket_drop(bucket) == WRING_OK, "drop");
    CHECK(make_buckets(session, false, &buckets), "buckets");
    CHECK(wring_session_load_state(session, good->data, good->bytes) == WRING_OK, "good");
}

static void swallow(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void what_does_not_fit_is_refused(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", NULL};
    struct story *story = run_story(2, 0, 1, NULL, 0);
    struct wring_test_job job = {
        .ranks = 2, .settings = settings, .run = refuse, .arg = story, .log = swallow};
    wring_test_run_ranks(&job);
    free_story(story);
}

/** A job of two ranks that fails. */
struct failing {
    bool kept;                     /* residuals are, of the step before */
    const struct blob *load;       /* [2] what it goes on from; NULL: nothing */
    pthread_barrier_t *first_done; /* the first bucket is, on both: who leaves sooner may fail it */
};

/** A bucket that holds nothing back, and is in no state. */
static struct wring_bucket *make_raw(struct wring_session *session)
{
    struct wring_bucket_params params = {.name = "raw", .elems = ELEMS, .codec = "none"};
    struct wring_bucket *bucket = NULL;

    if (wring_buffer_alloc(session, ELEMS * sizeof(float), &params.data) != WRING_OK ||
        wring_bucket_register(session, &params, &bucket) != WRING_OK)
        return NULL;
    return bucket;
}

static enum wring_status post_and_wait(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post(bucket);

    return status == WRING_OK ? wring_bucket_wait(bucket, WAIT_NS, NULL) : status;
}

/** After a failed step: the state is that of before it, where it has been kept. */
static void check_saved(struct wring_session *session, bool kept, const struct blob *before)
{
    struct blob after;
    enum wring_status status = wring_session_save_state(session, NULL, &after.bytes);

    CHECK(status == (kept ? WRING_OK : WRING_ERR_PEER), "%s", wring_status_text(status));
    if (!kept)
        return;
    after = save(session);
    CHECK(after.bytes == before->bytes && memcmp(after.data, before->data, after.bytes) == 0,
          "not the state before the step");
    free(after.data);
}

/** Rank 1 leaves in the middle of the third step. */
static void fail(struct wring_session *session, uint32_t rank, void *arg)
{
    struct failing *failing = arg;
    struct wring_bucket *raw = make_raw(session);
    struct buckets buckets;
    struct blob before;

    REQUIRE(raw != NULL && make_buckets(session, false, &buckets), "buckets");
    for (int i = 0; i < 2 && failing->load != NULL; i++)
        REQUIRE(wring_session_load_state(session, failing->load[i].data, failing->load[i].bytes) ==
                    WRING_OK,
                "state of rank %d", i);
    for (uint64_t step = 0; step < 2; step++)
        REQUIRE(run_step(&buckets, rank, step) == WRING_OK && post_and_wait(raw) == WRING_OK,
                "step");
    before = save(session);
    CHECK(post_and_wait(raw) == WRING_OK, "raw bucket");
    for (int b = 0; b < (rank == 0 ? BUCKETS : 1); b++) { /* the first one is still exchanged */
        fill(buckets.data[b], rank, b, 2);
        CHECK(wring_bucket_post(buckets.buckets[b]) == WRING_OK, "post");
    }
    CHECK(wring_bucket_wait(buckets.buckets[0], WAIT_NS, NULL) == WRING_OK, "first bucket");
    pthread_barrier_wait(failing->first_done);
    if (rank == 0) {
        CHECK(wring_bucket_wait(buckets.buckets[1], WAIT_NS, NULL) == WRING_ERR_PEER,
              "second bucket");
        check_saved(session, failing->kept, &before);
    }
    free(before.data);
}

/** Rank 1 leaves before the first step without the codec, with which the residual goes out. */
static void fail_without_codec(struct wring_session *session, uint32_t rank, void *arg)
{
    struct failing *failing = arg;
    struct wring_bucket *bucket;
    struct wring_bucket_params params = {.name = "b", .elems = ELEMS, .codec = codecs[0]};
    struct blob before;

    REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(float), &params.data) == WRING_OK &&
                wring_bucket_register(session, &params, &bucket) == WRING_OK &&
                wring_session_commit(session) == WRING_OK,
            "bucket");
    for (uint64_t step = 0; step < 2; step++) {
        fill(params.data, rank, 0, step);
        REQUIRE(post_and_wait(bucket) == WRING_OK, "step");
    }
    before = save(session);
    REQUIRE(wring_commit_take_back(session) == WRING_OK, "something is under way");
    snprintf(session->config.bypass, sizeof(session->config.bypass), "always");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (rank == 0)
        CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    pthread_barrier_wait(failing->first_done);
    if (rank == 0) {
        CHECK(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_ERR_PEER, "the step goes on");
        check_saved(session, failing->kept, &before);
    }
    free(before.data);
}

static void run_failing(struct failing failing,
                        void (*run)(struct wring_session *session, uint32_t rank, void *arg))
{
    static const char *const settings[2][4] = {
        {"WRING_PROVIDER=shm", "WRING_BYPASS=never", NULL},
        {"WRING_PROVIDER=shm", "WRING_BYPASS=never", "WRING_ROLLBACK=on", NULL}};
    struct wring_test_job job = {.ranks = 2,
                                 .settings = settings[failing.kept],
                                 .run = run,
                                 .arg = &failing,
                                 .log = swallow};
    pthread_barrier_t first_done;

    pthread_barrier_init(&first_done, NULL, 2);
    failing.first_done = &first_done;
    wring_test_run_ranks(&job);
    pthread_barrier_destroy(&first_done);
}

static void a_failed_step_is_rolled_back(void)
{
    struct story *before = run_story(2, 0, 3, NULL, 0);

    run_failing((struct failing){.kept = false}, fail);
    run_failing((struct failing){.kept = true}, fail);
    run_failing((struct failing){.kept = true, .load = before->saved}, fail);
    free_story(before);
}

static void a_residual_that_went_out_comes_back(void)
{
    run_failing((struct failing){.kept = false}, fail_without_codec);
    run_failing((struct failing){.kept = true}, fail_without_codec);
}

/** What a job with a warm-up leaves to the next. */
struct warm {
    bool load;
    struct blob saved;
};

#define WARM_STEPS 5

static void warm_up(struct wring_session *session, uint32_t rank, void *arg)
{
    static float data[2][2][ELEMS];
    struct warm *warm = arg;
    struct wring_bucket *buckets[2];

    for (int b = 0; b < 2; b++) {
        struct wring_bucket_params params = {.name = b == 0 ? "warm" : "raw",
                                             .data = data[rank][b],
                                             .elems = ELEMS,
                                             .codec = b == 0 ? "randk:ratio=0.001+warmup:steps=8"
                                                             : "none"};
        REQUIRE(wring_bucket_register(session, &params, &buckets[b]) == WRING_OK, "bucket");
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    if (warm->load)
        REQUIRE(wring_session_load_state(session, warm->saved.data, warm->saved.bytes) == WRING_OK,
                "load");
    for (int b = 0; b < 2 && warm->load; b++)
        CHECK(wring_bucket_steps(buckets[b]) == WARM_STEPS, "%d: step %d", b,
              (int)wring_bucket_steps(buckets[b]));
    for (int step = 0; step < WARM_STEPS && !warm->load; step++)
        CHECK(post_and_wait(buckets[0]) == WRING_OK && post_and_wait(buckets[1]) == WRING_OK,
              "step");
    if (rank == 0 && !warm->load)
        warm->saved = save(session);
}

/** Though the codec keeps nothing else: it would begin anew with a quarter of the elements. */
static void a_warm_up_goes_on_where_it_was(void)
{
    struct warm warm = {.load = false};
    struct wring_test_job job = {.ranks = 2, .run = warm_up, .arg = &warm};

    wring_test_run_ranks(&job);
    warm.load = true;
    wring_test_run_ranks(&job);
    free(warm.saved.data);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_job_goes_on_where_it_was", a_job_goes_on_where_it_was},
        {"sums_move_to_their_new_owners", sums_move_to_their_new_owners},
        {"flat_residuals_go_out_between_nodes", flat_residuals_go_out_between_nodes},
        {"what_does_not_fit_is_refused", what_does_not_fit_is_refused},
        {"a_failed_step_is_rolled_back", a_failed_step_is_rolled_back},
        {"a_residual_that_went_out_comes_back", a_residual_that_went_out_comes_back},
        {"a_warm_up_goes_on_where_it_was", a_warm_up_goes_on_where_it_was},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
