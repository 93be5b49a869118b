/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bucket's error is what the plain computation says: each rank encodes its pattern by itself
 * here, and compares what that decodes to.
 */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/bucket.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define ELEMS 30000
#define STEPS 12
#define WAIT_NS (60ull * 1000000000)

/** Sums of squares. */
struct loss {
    double lost, whole;
};

/** One bucket's way through the test. */
struct want {
    const char *codec;
    enum wring_scheme scheme;
    uint64_t elems;
    struct loss in, back;
};

static void fill(float *data, uint64_t n, uint32_t rank)
{
    uint32_t random = 77 + rank;
    for (uint64_t i = 0; i < n; i++)
        data[i] = wring_test_random_float(&random) * (1 + (float)(i % 911));
}

static void add_loss(struct loss *loss, const float *x, const float *decoded,
                     struct wring_span span)
{
    for (uint64_t i = span.begin; i < span.end; i++) {
        double lost = (double)x[i] - (double)decoded[i];
        loss->lost += lost * lost;
        loss->whole += (double)x[i] * (double)x[i];
    }
}

/** What a run decodes to; with a residual what is encoded is x + residual, which x becomes. */
static void code(const struct wring_codec *codec, struct wring_codec_context context, float *x,
                 uint64_t n, float *residual, float *decoded)
{
    void *bytes = malloc(wring_codec_bound(codec, n) + 1);
    const float *was = x;
    float *sum = malloc(n * sizeof(*sum));
    for (uint64_t i = 0; i < n; i++)
        sum[i] = was[i] + (residual != NULL ? residual[i] : 0);
    size_t length = wring_codec_encode(codec, &context, x, n, residual, bytes);
    CHECK(wring_codec_decode(codec, &context, bytes, length, decoded, n, false) == WRING_OK,
          "decode");
    memcpy(x, sum, n * sizeof(*sum));
    free(sum);
    free(bytes);
}

static struct wring_codec_context context_of(const struct wring_bucket *bucket, uint32_t rank,
                                             uint32_t phase, uint64_t step, uint64_t element)
{
    const struct wring_collective *collective = &bucket->collective;
    return (struct wring_codec_context){
        .seed = collective->seed,
        .bucket = collective->bucket,
        .rank = rank,
        .ranks = collective->members.n,
        .phase = phase,
        .step = step,
        .element = element,
    };
}

/** The contributions of one rank, piece by piece, but for what it owns. */
static void plain_in(const struct wring_bucket *bucket, uint64_t step, float *residual,
                     struct want *want)
{
    const struct wring_collective *collective = &bucket->collective;
    const struct wring_partition *partition = &collective->work.partition;
    const struct wring_codec *codec = wring_codec_way(bucket->codec, 0);
    bool sharded = collective->scatter != NULL;
    float *x = malloc(want->elems * sizeof(*x)), *decoded = malloc(want->elems * sizeof(*decoded));
    uint32_t me = collective->members.me;

    fill(x, want->elems, me);
    for (uint32_t shard = 0; shard < (sharded ? collective->members.n : 1); shard++) {
        struct wring_span span =
            sharded ? wring_partition_shard(partition, shard) : (struct wring_span){0, want->elems};
        for (uint64_t c = 0; c < wring_partition_chunks(partition, span); c++) {
            if (sharded && shard == me)
                continue;
            struct wring_span piece = wring_partition_chunk(partition, span, c);
            code(codec, context_of(bucket, me, 0, step, piece.begin), x + piece.begin,
                 piece.end - piece.begin, residual != NULL ? residual + piece.begin : NULL,
                 decoded + piece.begin);
            add_loss(&want->in, x, decoded, piece);
        }
    }
    free(decoded);
    free(x);
}

/** The sum of a shard of one piece, as its owner of two ranks makes and encodes it; no residuals.
 */
static void plain_back(const struct wring_bucket *bucket, uint64_t step, struct want *want)
{
    const struct wring_collective *collective = &bucket->collective;
    uint32_t me = collective->members.me, other = 1 - me;
    struct wring_span span = wring_partition_shard(&collective->work.partition, me);
    float *x = malloc(want->elems * sizeof(*x)), *theirs = malloc(want->elems * sizeof(*x));
    float *decoded = malloc(want->elems * sizeof(*x));
    uint64_t n = span.end - span.begin;

    fill(x, want->elems, me);
    fill(theirs, want->elems, other);
    code(wring_codec_way(bucket->codec, 0), context_of(bucket, other, 0, step, span.begin),
         theirs + span.begin, n, NULL, decoded + span.begin);
    for (uint64_t i = span.begin; i < span.end; i++)
        x[i] += decoded[i];
    code(wring_codec_way(bucket->codec, 1), context_of(bucket, me, 1, step, span.begin),
         x + span.begin, n, NULL, decoded + span.begin);
    add_loss(&want->back, x, decoded, span);
    free(decoded);
    free(theirs);
    free(x);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-6 * fabs(b);
}

static struct wring_bucket *add(struct wring_session *session, const struct want *want)
{
    char name[WRING_NAME_MAX];
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;

    snprintf(name, sizeof(name), "%s/%d", want->codec, (int)want->scheme);
    params.name = name;
    params.elems = want->elems;
    params.codec = want->codec;
    params.scheme = want->scheme;
    if (wring_buffer_alloc(session, want->elems * sizeof(float), &params.data) != WRING_OK ||
        wring_bucket_register(session, &params, &bucket) != WRING_OK ||
        wring_session_commit(session) != WRING_OK)
        return NULL;
    return bucket;
}

static enum wring_status step(struct wring_bucket *bucket, uint32_t rank)
{
    fill(bucket->data, bucket->elems, rank);
    enum wring_status status = wring_bucket_post(bucket);
    return status == WRING_OK ? wring_bucket_wait(bucket, WAIT_NS, NULL) : status;
}

/** In as many steps as there are pieces, each has been a sample once: the whole contribution. */
static void every_piece(struct wring_session *session, uint32_t rank, struct want *want)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket = add(session, want);
    REQUIRE(bucket != NULL, "%s", want->codec);
    uint64_t pieces = 0;
    for (uint64_t done = 0; done == 0 || done < pieces; done++) {
        REQUIRE(step(bucket, rank) == WRING_OK, "%s", want->codec);
        pieces = bucket->collective.error_stats.ways[0].count;
    }
    REQUIRE(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
    plain_in(bucket, 0, NULL, want);
    CHECK(pieces > 2 && stats.error_pieces == pieces, "%s: %llu pieces of %llu", want->codec,
          (unsigned long long)stats.error_pieces, (unsigned long long)pieces);
    CHECK(near(stats.error, want->in.lost / want->in.whole), "%s/%d: %.9g, not %.9g", want->codec,
          (int)want->scheme, stats.error, want->in.lost / want->in.whole);
    CHECK(want->in.lost > 0, "%s loses nothing", want->codec);
}

/** One piece each way, which changes with the residual. */
static void each_step(struct wring_session *session, uint32_t rank, struct want *want)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket = add(session, want);
    REQUIRE(bucket != NULL, "%s", want->codec);
    float *residual = calloc(want->elems, sizeof(*residual));
    bool kept = wring_codec_info(wring_codec_way(bucket->codec, 0))->flags & WRING_CODEC_FEEDBACK;
    bool sharded = bucket->collective.scatter != NULL;

    for (int s = 0; s < STEPS; s++) {
        REQUIRE(step(bucket, rank) == WRING_OK, "%s", want->codec);
        struct loss before = want->in;
        plain_in(bucket, (uint64_t)s, kept ? residual : NULL, want);
        if (sharded && !kept)
            plain_back(bucket, (uint64_t)s, want);
        REQUIRE(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
        double last = (want->in.lost - before.lost) / (want->in.whole - before.whole);
        CHECK(fabs(stats.error_last - last) <= 1e-5 * last, "%s, step %d: %.9g, not %.9g",
              want->codec, s, stats.error_last, last);
    }
    CHECK(stats.error_pieces == STEPS, "%s: %llu pieces", want->codec,
          (unsigned long long)stats.error_pieces);
    double in = want->in.lost / want->in.whole;
    CHECK(fabs(stats.error - in) <= 1e-5 * in, "%s: %.9g, not %.9g", want->codec, stats.error, in);
    if (!sharded)
        CHECK(stats.error_back == 0, "%s has no way back: %g", want->codec, stats.error_back);
    else if (!kept)
        CHECK(near(stats.error_back, want->back.lost / want->back.whole), "%s back: %.9g, not %.9g",
              want->codec, stats.error_back, want->back.lost / want->back.whole);
    free(residual);
}

static void lossy(struct wring_session *session, uint32_t rank, void *arg)
{
    static const char *const codecs[] = {"bf16", "fp16", "int8:block=64", "onebit:block=128",
                                         "int8:block=64>bf16"};
    (void)arg;
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        struct want want = {codecs[i], WRING_SCHEME_DIVISIBLE, ELEMS, {0, 0}, {0, 0}};
        every_piece(session, rank, &want);
        if (strchr(codecs[i], '>') != NULL)
            continue;
        want = (struct want){codecs[i], WRING_SCHEME_INDIVISIBLE, ELEMS, {0, 0}, {0, 0}};
        every_piece(session, rank, &want);
    }
}

static void with_feedback(struct wring_session *session, uint32_t rank, void *arg)
{
    static const struct want wants[] = {
        {"onebit:block=128+ef", WRING_SCHEME_INDIVISIBLE, 2000, {0, 0}, {0, 0}},
        {"topk:ratio=0.01+ef", WRING_SCHEME_INDIVISIBLE, 3000, {0, 0}, {0, 0}},
        {"int8:block=64+ef", WRING_SCHEME_DIVISIBLE, 1024, {0, 0}, {0, 0}},
        {"int8:block=64", WRING_SCHEME_DIVISIBLE, 1024, {0, 0}, {0, 0}},
        {"fp16>bf16", WRING_SCHEME_DIVISIBLE, 1024, {0, 0}, {0, 0}},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
        struct want want = wants[i];
        each_step(session, rank, &want);
    }
}

/** Sums that are cut off are counted by the rank that makes them. */
static void cut_sums(struct wring_session *session, uint32_t rank, void *arg)
{
    static const struct want wants[] = {
        {"thc:clip=2:sums=saturate", WRING_SCHEME_DIVISIBLE, ELEMS, {0, 0}, {0, 0}},
        {"thc:width=4:clip=2:sums=saturate", WRING_SCHEME_INDIVISIBLE, ELEMS, {0, 0}, {0, 0}},
        {"thc:width=4:clip=2", WRING_SCHEME_DIVISIBLE, ELEMS, {0, 0}, {0, 0}},
    };
    (void)arg;
    for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
        struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
        struct wring_bucket *bucket = add(session, &wants[i]);
        bool cuts = strstr(wants[i].codec, "saturate") != NULL;
        REQUIRE(bucket != NULL && step(bucket, rank) == WRING_OK, "%s", wants[i].codec);
        REQUIRE(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
        CHECK((stats.sums_cut > 0) == cuts && stats.sums_cut < ELEMS, "%s: %llu cut off",
              wants[i].codec, (unsigned long long)stats.sums_cut);
    }
}

/** A piece that holds NaN is no sample, and one of zeros loses nothing. */
static void odd_input(struct wring_session *session, uint32_t rank, void *arg)
{
    struct want want = {"int8:block=64", WRING_SCHEME_INDIVISIBLE, 1000, {0, 0}, {0, 0}};
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket = add(session, &want);
    (void)rank, (void)arg;
    REQUIRE(bucket != NULL, "register");
    float *data = bucket->data;
    data[5] = NAN;
    CHECK(wring_bucket_post(bucket) == WRING_OK &&
              wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
          "step");
    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK && isnan(stats.error) &&
              isnan(stats.error_last) && stats.error_pieces == 0,
          "NaN gave %g", stats.error);
    memset(data, 0, want.elems * sizeof(*data));
    CHECK(wring_bucket_post(bucket) == WRING_OK &&
              wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK,
          "step");
    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK && stats.error == 0 &&
              stats.error_pieces == 1,
          "zeros gave %g", stats.error);
}

/** Samples come every few steps, none where they are off, and raw buckets lose nothing. */
static void how_often(struct wring_session *session, uint32_t rank, void *arg)
{
    const int *every = arg;
    struct want want = {"bf16", WRING_SCHEME_INDIVISIBLE, 500, {0, 0}, {0, 0}};
    struct want raw = {"none", WRING_SCHEME_AUTO, 500, {0, 0}, {0, 0}};
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket = add(session, &want), *plain = add(session, &raw);
    REQUIRE(bucket != NULL && plain != NULL, "register");

    for (int s = 0; s < STEPS; s++)
        CHECK(step(bucket, rank) == WRING_OK && step(plain, rank) == WRING_OK, "step");
    REQUIRE(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
    uint64_t samples = *every == 0 ? 0 : (STEPS + (uint64_t)*every - 1) / (uint64_t)*every;
    CHECK(stats.error_pieces == samples && isnan(stats.error) == (samples == 0),
          "every %d: %llu samples, %g", *every, (unsigned long long)stats.error_pieces,
          stats.error);
    REQUIRE(wring_bucket_stats(plain, &stats) == WRING_OK, "stats");
    CHECK(stats.error == 0 && stats.error_last == 0 && stats.error_back == 0, "none loses %g",
          stats.error);
}

/** A pool's jobs run on its cores and nowhere else; arg is the one. */
static void where(struct wring_session *session, uint32_t rank, void *arg)
{
    struct want want = {"int8:block=64", WRING_SCHEME_DIVISIBLE, ELEMS, {0, 0}, {0, 0}};
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    struct wring_bucket *bucket = add(session, &want);
    REQUIRE(bucket != NULL, "register");
    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK && stats.n_cores == 0 &&
              stats.cores[0] == '\0',
          "before the first step: '%s'", stats.cores);
    for (int s = 0; s < STEPS; s++)
        CHECK(step(bucket, rank) == WRING_OK, "step");
    REQUIRE(wring_bucket_stats(bucket, &stats) == WRING_OK, "stats");
    if (arg != NULL)
        CHECK(strcmp(stats.cores, arg) == 0 && stats.n_cores == 1, "'%s', not '%s'", stats.cores,
              (const char *)arg);
    else
        CHECK(stats.n_cores >= 1 && stats.cores[0] != '\0', "%u inline: '%s'", stats.n_cores,
              stats.cores);
}

static void run(void (*body)(struct wring_session *, uint32_t, void *), uint32_t ranks,
                const char *setting, const char *more, void *arg)
{
    const char *const settings[] = {"WRING_PROVIDER=shm", setting, more, NULL};
    struct wring_test_job job = {.ranks = ranks, .settings = settings, .run = body, .arg = arg};
    wring_test_run_ranks(&job);
}

static void contributions(void)
{
    run(lossy, 3, "WRING_STATS_EVERY=1", "WRING_CHUNK_BYTES=4k", NULL);
    run(lossy, 2, "WRING_STATS_EVERY=1", "WRING_CHUNK_BYTES=4k", NULL);
}

static void residuals_and_sums(void)
{
    run(with_feedback, 2, "WRING_STATS_EVERY=1", NULL, NULL);
}

static void nan_and_zeros(void)
{
    run(odd_input, 2, "WRING_STATS_EVERY=1", NULL, NULL);
}

static void saturation(void)
{
    run(cut_sums, 2, "WRING_EXECUTOR=inline", NULL, NULL);
}

static void samples(void)
{
    int every[] = {0, 1, 5, 64};
    char setting[64];
    for (size_t i = 0; i < sizeof(every) / sizeof(every[0]); i++) {
        snprintf(setting, sizeof(setting), "WRING_STATS_EVERY=%d", every[i]);
        run(how_often, 2, setting, NULL, &every[i]);
    }
}

/** The text of a set of cores, at any length. */
static void lists_of_cores(void)
{
    static struct wring_codec_error_stats error_stats;
    static const unsigned cores[] = {0, 2, 3, 4, 63, 64, 127, 4095};
    char text[64];
    CHECK(wring_codec_error_stats_cores(&error_stats, text, sizeof(text)) == 0 && text[0] == '\0',
          "%s", text);
    for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++)
        wring_codec_error_stats_take(&error_stats,
                                     &(struct wring_job){.result.core = (int)cores[i]});
    wring_codec_error_stats_take(&error_stats, &(struct wring_job){.result.core = -1});
    wring_codec_error_stats_take(&error_stats, &(struct wring_job){.result.core = WRING_CORES_MAX});
    CHECK(wring_codec_error_stats_cores(&error_stats, text, sizeof(text)) == 8 &&
              strcmp(text, "0,2-4,63-64,127,4095") == 0,
          "%s", text);
    CHECK(wring_codec_error_stats_cores(&error_stats, text, 12) == 8 &&
              strcmp(text, "0,2-4,...") == 0,
          "%s", text);
}

static void cores(void)
{
    char setting[64], core[16];
    snprintf(core, sizeof(core), "%d", sched_getcpu()); /* one that we may use */
    snprintf(setting, sizeof(setting), "WRING_EXECUTOR=pool:cores=%s", core);
    run(where, 2, setting, NULL, core);
    run(where, 2, "WRING_EXECUTOR=inline", NULL, NULL);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"contributions", contributions},
        {"residuals_and_sums", residuals_and_sums},
        {"nan_and_zeros", nan_and_zeros},
        {"saturation", saturation},
        {"samples", samples},
        {"lists_of_cores", lists_of_cores},
        {"cores", cores},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
