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
                                      .steps = 2,
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

/** Buckets of each kind of memory, a job each; then in one job allreduces on each kind, and the
 * other calls on one kind each: what memory is made known how is no matter of the call. */
static void collectives(void)
{
    struct wring_matrix_case cases[WRING_MATRIX_WHATS * WRING_MATRIX_MEMORIES];
    size_t n = 0;
    for (int what = 0; what < WRING_MATRIX_WHATS; what++)
        for (int memory = 0; memory < WRING_MATRIX_MEMORIES; memory++) {
            struct wring_matrix_case c = plain_case();
            if (what > WRING_MATRIX_ALLREDUCE && what % WRING_MATRIX_MEMORIES != memory)
                continue;
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
    }
    run_cases(cases, LENGTHS);
    cases[LENGTHS - 1].what = WRING_MATRIX_BUCKET;
    run_cases(&cases[LENGTHS - 1], 1);
}

#define SIZES 2

/** Exchanged two by two: all of them, or halves. */
static const struct {
    const char *name;
    uint64_t elems;
    const char *algorithm;
} sums[SIZES] = {{"small", 1501, "doubling"}, {"large", 20011, "halving-placed"}};

/** The names of the algorithms by which buckets of so many floats run. */
static void check_algorithms(void)
{
    struct wring_session *session = open_session("16k");
    struct wring_bucket *buckets[SIZES];
    float *data[SIZES];

    REQUIRE(session != NULL, "no session");
    for (size_t i = 0; i < SIZES; i++) {
        struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
        params.name = sums[i].name;
        params.data = data[i] = calloc(sums[i].elems, sizeof(float));
        params.elems = sums[i].elems;
        CHECK(wring_bucket_register(session, &params, &buckets[i]) == WRING_OK, "no bucket");
    }
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    for (size_t i = 0; i < SIZES; i++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        CHECK(wring_bucket_stats(buckets[i], &stats) == WRING_OK && stats.algorithm != NULL &&
                  strcmp(stats.algorithm, sums[i].algorithm) == 0,
              "%llu elements: %s", (unsigned long long)sums[i].elems, stats.algorithm);
    }
    wring_session_close(session);
    for (size_t i = 0; i < SIZES; i++)
        free(data[i]);
}

/** More than eight ranks: a job for each bucket, and one for all calls. */
static void partners(void)
{
    struct wring_matrix_case buckets[SIZES], calls[SIZES];

    for (size_t i = 0; i < SIZES; i++) {
        calls[i] = buckets[i] = plain_case();
        buckets[i].what = WRING_MATRIX_BUCKET;
        calls[i].what = WRING_MATRIX_ALLREDUCE;
        calls[i].elems = buckets[i].elems = sums[i].elems;
        run_cases(&buckets[i], 1);
    }
    run_cases(calls, SIZES);
    check_algorithms();
}

static bool is_spec(const char *spec)
{
    struct wring_codec *codec;
    bool is = wring_codec_create(spec, NULL, NULL, NULL, 0, &codec) == WRING_OK;
    if (is)
        wring_codec_destroy(codec);
    return is;
}

/** With error feedback where it loses something, else as it is: a job each, as their random numbers
 *  hang on the bucket's. Devices carry codes alike whether a residual is kept of them or not. */
static void codecs(void)
{
    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++) {
        char spec[64];
        struct wring_matrix_case c = plain_case();
        snprintf(spec, sizeof(spec), "%s+ef", (*ops)->name);
        if (!is_spec(spec)) /* it has no use for a residual */
            snprintf(spec, sizeof(spec), "%s", (*ops)->name);
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
