/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States in the layout before the present one, "wringst1" of runtime/state.h. The build of commit
 * ed705f71 wrote tests/data/wringst1-rank* after the steps below.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define RANKS 2
#define BUCKETS 2
#define ELEMS 300
#define STEPS 3 /* that the saved job had made */
#define WAIT_NS (60ull * 1000000000)
#define BLOB_MAX 8192
#define DIGEST_BYTES 32

static const char *const names[BUCKETS] = {"weight", "bias"};
static const char *const specs[BUCKETS] = {"int8:block=64+ef", "onebit:block=64+ef"};
static const enum wring_scheme schemes[BUCKETS] = {WRING_SCHEME_DIVISIBLE,
                                                   WRING_SCHEME_INDIVISIBLE};

struct blob {
    uint8_t data[BLOB_MAX];
    size_t bytes;
};

/** Saved by each rank of the job above. */
static void read_frozen(struct blob old[RANKS])
{
    for (int rank = 0; rank < RANKS; rank++) {
        char path[500];
        snprintf(path, sizeof(path), WRING_TEST_DATA "/wringst1-rank%d", rank);
        FILE *file = fopen(path, "rb");
        REQUIRE(file != NULL, "%s", path);
        old[rank].bytes = fread(old[rank].data, 1, BLOB_MAX, file);
        fclose(file);
        REQUIRE(old[rank].bytes > 8 && memcmp(old[rank].data, "wringst1", 8) == 0, "%s: no state",
                path);
    }
}

struct buckets {
    struct wring_bucket *buckets[BUCKETS];
    float *data[BUCKETS];
};

static void make_buckets(struct wring_session *session, struct buckets *out)
{
    for (int b = 0; b < BUCKETS; b++) {
        REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(float), (void **)&out->data[b]) ==
                    WRING_OK,
                "memory");
        struct wring_bucket_params params = {.name = names[b],
                                             .data = out->data[b],
                                             .elems = ELEMS,
                                             .codec = specs[b],
                                             .scheme = schemes[b]};
        REQUIRE(wring_bucket_register(session, &params, &out->buckets[b]) == WRING_OK, "bucket");
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
}

static void run_steps(struct buckets *buckets, uint32_t rank, uint32_t first, uint32_t end)
{
    for (uint32_t step = first; step < end; step++)
        for (uint32_t b = 0; b < BUCKETS; b++) {
            uint32_t random = 1 + rank + 16 * b + 64 * step;
            for (int i = 0; i < ELEMS; i++)
                buckets->data[b][i] = wring_test_random_float(&random);
            REQUIRE(wring_bucket_post(buckets->buckets[b]) == WRING_OK &&
                        wring_bucket_wait(buckets->buckets[b], WAIT_NS, NULL) == WRING_OK,
                    "step %u", step);
        }
}

static void save(struct wring_session *session, struct blob *out)
{
    out->bytes = BLOB_MAX;
    REQUIRE(wring_session_save_state(session, out->data, &out->bytes) == WRING_OK, "save");
}

static bool equals(const struct blob *a, const struct blob *b)
{
    return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

/** What a job leaves behind. */
struct ends {
    const struct blob *load; /* [RANKS]; NULL: the job makes the first steps itself */
    struct blob begun[RANKS], ended[RANKS];
    float sums[RANKS][BUCKETS][ELEMS];
};

static void run_to_the_end(struct wring_session *session, uint32_t rank, void *arg)
{
    struct ends *ends = arg;
    struct buckets buckets;

    make_buckets(session, &buckets);
    if (ends->load == NULL)
        run_steps(&buckets, rank, 0, STEPS);
    else
        for (int i = 0; i < RANKS; i++)
            REQUIRE(wring_session_load_state(session, ends->load[i].data, ends->load[i].bytes) ==
                        WRING_OK,
                    "state of rank %d", i);
    save(session, &ends->begun[rank]);
    run_steps(&buckets, rank, STEPS, STEPS + 1);
    for (int b = 0; b < BUCKETS; b++)
        memcpy(ends->sums[rank][b], buckets.data[b], sizeof(ends->sums[rank][b]));
    save(session, &ends->ended[rank]);
}

static void run(void (*part)(struct wring_session *, uint32_t, void *), void *arg, wring_log_fn log)
{
    static const char *const settings[] = {"WRING_BYPASS=never", NULL};
    struct wring_test_job job = {
        .ranks = RANKS, .settings = settings, .run = part, .arg = arg, .log = log};

    wring_test_run_ranks(&job);
}

/** The same residuals, steps and next sums as without a break. */
static void a_job_goes_on_from_it(void)
{
    static struct blob old[RANKS];
    static struct ends whole, resumed = {.load = old};

    read_frozen(old);
    run(run_to_the_end, &whole, NULL);
    run(run_to_the_end, &resumed, NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        CHECK(equals(&whole.begun[rank], &resumed.begun[rank]), "rank %d: other residuals", rank);
        CHECK(equals(&whole.ended[rank], &resumed.ended[rank]), "rank %d: another end", rank);
    }
    CHECK(memcmp(whole.sums, resumed.sums, sizeof(whole.sums)) == 0, "other sums");
}

/** After a change: with a digest that is right. */
static void seal(struct blob *blob)
{
    size_t body = blob->bytes - DIGEST_BYTES;

    REQUIRE(EVP_Digest(blob->data, body, blob->data + body, NULL, EVP_sha256(), NULL) == 1,
            "no digest");
}

static void swallow(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static enum wring_status load(struct wring_session *session, const struct blob *blob)
{
    return wring_session_load_state(session, blob->data, blob->bytes);
}

static void refuse(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct blob *old = (const struct blob *)arg + rank;
    struct blob before, after, bad = *old;
    struct buckets buckets;

    make_buckets(session, &buckets);
    save(session, &before);
    bad.data[old->bytes / 2] ^= 1;
    CHECK(load(session, &bad) == WRING_ERR_FRAME, "a changed byte");
    bad = *old;
    bad.data[7] = '2'; /* then the first bucket's end has a count of arrays */
    seal(&bad);
    CHECK(load(session, &bad) == WRING_ERR_FRAME, "by another name");
    bad.data[7] = '0';
    seal(&bad);
    CHECK(load(session, &bad) == WRING_ERR_FRAME, "of no known layout");
    for (size_t cut = 1; cut < old->bytes - DIGEST_BYTES - 8; cut += 61) {
        bad = *old;
        bad.bytes -= cut;
        seal(&bad);
        CHECK(load(session, &bad) == WRING_ERR_FRAME, "%zu bytes short", cut);
    }
    save(session, &after);
    CHECK(equals(&before, &after), "part of a bad state was taken over");
    CHECK(load(session, old) == WRING_OK, "the good one");
    save(session, &after);
    CHECK(!equals(&before, &after), "nothing was taken over");
}

static void bad_ones_are_refused(void)
{
    static struct blob old[RANKS];

    read_frozen(old);
    run(refuse, old, swallow);
}

static const struct wring_test_case cases[] = {
    {"a_job_goes_on_from_it", a_job_goes_on_from_it},
    {"bad_ones_are_refused", bad_ones_are_refused},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
