/* SPDX-License-Identifier: Apache-2.0 */
/**
 * One rank of whole jobs, whose others are elsewhere: each case is a job or some, which meet as the
 * environment says. Every rank checks each bit of what it ends with against the definition, so
 * that ranks that pass have the same.
 *
 *     WRING_RANK=0 WRING_SIZE=2 WRING_ROOT=... WRING_PROVIDER=verbs test_verbs_job [CASE...]
 */
#include <stdlib.h>
#include <string.h>

#include <wring/codec.h>

#include "tests/collective/matrix.h"
#include "tests/lib/test.h"

#define SEED 1234 /* the oracle's */
#define LONG_ELEMS 70001
#define LENGTHS 6

/* An emulated machine works through all of this slowly: the definition costs more than the job. */
static struct wring_matrix_case plain_case(void)
{
    return (struct wring_matrix_case){.elems = 9011,
                                      .op = WRING_AVG,
                                      .codec = "none",
                                      .steps = 3,
                                      .provider = "verbs",
                                      .chunk = "16k",
                                      .cpu = "best",
                                      .executor = "inline",
                                      .progress = "thread"};
}

/** Memory of the case's kind. @param foreign out, what is to be freed after the session; or NULL */
static void *get_memory(struct wring_session *session, const struct wring_matrix_case *c,
                        uint64_t elems, void **foreign)
{
    size_t bytes = elems * wring_dtype_bytes(c->dtype) + 8;
    void *data = NULL;

    if (c->memory == WRING_MATRIX_ALLOCATED) {
        CHECK(wring_buffer_alloc(session, bytes, &data) == WRING_OK, "alloc %zu bytes", bytes);
        return data;
    }
    data = *foreign = calloc(1, bytes);
    if (data != NULL && c->memory == WRING_MATRIX_REGISTERED)
        CHECK(wring_buffer_register(session, data, bytes) == WRING_OK, "register %zu bytes", bytes);
    return data;
}

static void run_steps(struct wring_session *session, const struct wring_matrix_case *c,
                      void *foreign[2])
{
    bool apart = c->what == WRING_MATRIX_REDUCE_SCATTER || c->what == WRING_MATRIX_ALLGATHER ||
                 c->what == WRING_MATRIX_ALLTOALL;
    void *in = get_memory(session, c, wring_matrix_in_elems(c), &foreign[0]);
    void *out = apart ? get_memory(session, c, wring_matrix_out_elems(c), &foreign[1]) : in;

    REQUIRE(in != NULL && out != NULL, "no memory");
    if (wring_matrix_steps(session, c, in, out) == WRING_OK)
        wring_matrix_check(c, wring_session_rank(session), out);
    if (c->what == WRING_MATRIX_BUCKET)
        return; /* whose memory is in use until the session is closed */
    wring_buffer_free(session, in);
    if (apart)
        wring_buffer_free(session, out);
}

static void free_both(void *foreign[2])
{
    for (int i = 0; i < 2; i++) {
        free(foreign[i]);
        foreign[i] = NULL;
    }
}

static struct wring_session *open_session(const char *chunk)
{
    char text[64];
    const char *settings[] = {text, "WRING_BYPASS=never", NULL};
    struct wring_session_params params = {.seed = SEED, .settings = settings};
    struct wring_session *session = NULL;

    snprintf(text, sizeof(text), "WRING_CHUNK_BYTES=%s", chunk);
    CHECK(wring_session_open(&params, &session) == WRING_OK, "the job did not meet");
    return session;
}

/** A job of these cases, one after the other. Of buckets only one. */
static void run_cases(const struct wring_matrix_case *cases, size_t n)
{
    struct wring_session *session = open_session(cases[0].chunk);
    void *foreign[2] = {NULL, NULL};
    for (size_t i = 0; session != NULL && i < n; i++) {
        struct wring_matrix_case c = cases[i];
        c.ranks = wring_session_size(session);
        run_steps(session, &c, foreign);
        if (c.what != WRING_MATRIX_BUCKET)
            free_both(foreign);
    }
    wring_session_close(session);
    free_both(foreign);
}

/** Buckets of each kind of memory, a job each; then all calls on all kinds in one job. */
static void collectives(void)
{
    struct wring_matrix_case cases[WRING_MATRIX_WHATS * WRING_MATRIX_MEMORIES];
    size_t n = 0;
    for (int what = 0; what < WRING_MATRIX_WHATS; what++)
        for (int memory = 0; memory < WRING_MATRIX_MEMORIES; memory++) {
            struct wring_matrix_case c = plain_case();
            c.what = (enum wring_matrix_what)what;
            c.memory = (enum wring_matrix_memory)memory;
            c.dtype = memory == 1 ? WRING_BF16 : WRING_F32;
            if (c.what == WRING_MATRIX_BUCKET)
                run_cases(&c, 1);
            else
                cases[n++] = c;
        }
    run_cases(cases, n);
}

static void types(void)
{
    struct wring_matrix_case cases[WRING_DTYPES];
    for (int dtype = 0; dtype < WRING_DTYPES; dtype++) {
        cases[dtype] = plain_case();
        cases[dtype].what = WRING_MATRIX_ALLREDUCE;
        cases[dtype].dtype = (enum wring_dtype)dtype;
        cases[dtype].op = dtype % 2 == 0 ? WRING_SUM : WRING_MAX;
        while (!wring_op_takes(cases[dtype].op, cases[dtype].dtype))
            cases[dtype].op = (enum wring_op)((cases[dtype].op + 1) % WRING_OPS);
        cases[dtype].steps = 2;
    }
    run_cases(cases, WRING_DTYPES);
}

/** No, few and many elements; the last travel in large pieces. */
static void lengths(void)
{
    static const uint64_t elems[] = {0, 1, 2, 65, 2049, LONG_ELEMS};
    struct wring_matrix_case cases[LENGTHS];

    for (size_t i = 0; i < LENGTHS; i++) {
        cases[i] = plain_case();
        cases[i].what = WRING_MATRIX_ALLREDUCE;
        cases[i].elems = elems[i];
        cases[i].chunk = "256k";
        cases[i].steps = 2;
    }
    run_cases(cases, LENGTHS);
    cases[LENGTHS - 1].what = WRING_MATRIX_BUCKET;
    run_cases(&cases[LENGTHS - 1], 1);
}

/** The name of the algorithm by which a bucket of so many floats runs. */
static void check_algorithm(uint64_t elems, const char *algorithm)
{
    struct wring_session *session = open_session("16k");
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket;
    float *data = calloc(elems, sizeof(*data));

    REQUIRE(session != NULL && data != NULL, "no session");
    params.name = "b";
    params.data = data;
    params.elems = elems;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK &&
              wring_session_commit(session) == WRING_OK &&
              wring_bucket_stats(bucket, &stats) == WRING_OK,
          "no bucket");
    CHECK(stats.algorithm != NULL && strcmp(stats.algorithm, algorithm) == 0, "%llu elements: %s",
          (unsigned long long)elems, stats.algorithm);
    wring_session_close(session);
    free(data);
}

/** More than eight ranks exchange partial sums two by two: all of them, or halves. */
static void partners(void)
{
    static const struct {
        uint64_t elems;
        const char *algorithm;
    } all[] = {{1501, "doubling"}, {20011, "halving-placed"}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct wring_matrix_case c[2] = {plain_case(), plain_case()};
        c[0].what = WRING_MATRIX_BUCKET;
        c[1].what = WRING_MATRIX_ALLREDUCE;
        c[0].elems = c[1].elems = all[i].elems;
        c[0].steps = c[1].steps = 2;
        run_cases(&c[0], 1);
        run_cases(&c[1], 1);
        check_algorithm(all[i].elems, all[i].algorithm);
    }
}

static bool is_spec(const char *spec)
{
    struct wring_codec *codec;
    bool is = wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_OK;
    if (is)
        wring_codec_destroy(codec);
    return is;
}

/** Each as it is, and with error feedback where it loses something: a job each, as their random
 *  numbers hang on the bucket's. */
static void codecs(void)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++)
        for (int feedback = 0; feedback < 2; feedback++) {
            char spec[64];
            struct wring_matrix_case c = plain_case();
            snprintf(spec, sizeof(spec), "%s%s", (*ops)->name, feedback ? "+ef" : "");
            if (feedback && !is_spec(spec)) /* it has no use for a residual */
                continue;
            c.codec = spec;
            c.memory = WRING_MATRIX_FOREIGN;
            run_cases(&c, 1);
        }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"collectives", collectives}, {"types", types},       {"lengths", lengths},
        {"codecs", codecs},           {"partners", partners}, {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
