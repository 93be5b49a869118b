/* SPDX-License-Identifier: Apache-2.0 */
/** wring_job_run(): sums of raw data and codes, and what it refuses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/sealed.h"
#include "tests/lib/test.h"
#include "tests/unit/made_reduction.h"

static void check_sum(const char *const specs[SOURCES], float divisor)
{
    static float want[N];
    for (int alias = -1; alias < SOURCES; alias++) {
        struct made_reduction *r = made_reduction_set_up(specs, NULL);
        r->job.divisor = divisor;
        made_reduction_expect(r, want);
        if (alias >= 0)
            r->job.dst = r->raw[alias];
        made_reduction_run(&r->job);
        CHECK(r->job.result.status == WRING_OK, "%s", wring_status_text(r->job.result.status));
        CHECK(memcmp(r->job.dst, want, sizeof(want)) == 0, "sum into %d differs, divisor %g", alias,
              divisor);
        made_reduction_tear_down(r);
    }
}

static void sums(void)
{
    static const char *const mixes[][SOURCES] = {
        {NULL, NULL, NULL, NULL},
        {"none", "none", "none", "none"},
        {"bf16", NULL, "bf16", NULL},
        {"fp16", "fp16", NULL, "bf16"},
        {NULL, "int8", "onebit", "topk"},
        {"lossless", NULL, "lossless:block=32", "bf16"},
        {"onebit", "onebit", "onebit", "onebit"},
        {"topk:block=256:ratio=0.1", "topk", "int8", NULL},
    };
    for (size_t i = 0; i < sizeof(mixes) / sizeof(mixes[0]); i++)
        for (float divisor = 1; divisor < 5; divisor++)
            check_sum(mixes[i], divisor);
}

/** Every tier, also one that is not here or has no such name, gives the same sum. */
static void every_tier(void)
{
    static const char *const tiers[] = {"scalar", "avx2", "avx512", "vbmi2",
                                        "neon",   "best", "?",      NULL};
    static const char *const specs[SOURCES] = {NULL, NULL, NULL, NULL};
    static float want[N];
    for (size_t t = 0; t < sizeof(tiers) / sizeof(tiers[0]); t++) {
        struct made_reduction *r = made_reduction_set_up(specs, NULL);
        r->job.tier = tiers[t];
        r->job.divisor = 3;
        made_reduction_expect(r, want);
        made_reduction_run(&r->job);
        CHECK(memcmp(r->job.dst, want, sizeof(want)) == 0, "tier %s",
              tiers[t] != NULL ? tiers[t] : "not said");
        r->job.op = WRING_MAX;
        made_reduction_run(&r->job);
        CHECK(r->job.result.status == WRING_OK, "%s", wring_status_text(r->job.result.status));
        for (int i = 0; i < N; i++)
            want[i] = fmaxf(fmaxf(r->raw[0][i], r->raw[1][i]), fmaxf(r->raw[2][i], r->raw[3][i]));
        CHECK(memcmp(r->job.dst, want, sizeof(want)) == 0, "maximum by tier %s",
              tiers[t] != NULL ? tiers[t] : "not said");
        made_reduction_tear_down(r);
    }
}

/** The owner must go on with the very bits that its peers decode, and keep what the code lost. */
static void check_reencode(const char *spec)
{
    static const char *const specs[SOURCES] = {"int8", NULL, "int8", "int8"};
    static float want[N], residual[N];
    struct made_reduction *r = made_reduction_set_up(specs, spec);
    r->job.divisor = SOURCES;
    r->job.residual = r->residual;
    for (int i = 0; i < N; i++)
        residual[i] = r->residual[i] = (float)(i % 17) * 0x1p-10f;

    made_reduction_expect(r, want);
    made_reduction_run(&r->job);
    struct wring_source source = {r->code, r->job.result.code_bytes, r->job.codec_out, {0}};
    static float decoded[N];
    struct wring_job decode = {
        .kind = WRING_JOB_DECODE, .elems = N, .dst = decoded, .sources = &source, .n_sources = 1};
    made_reduction_run(&decode);
    CHECK(decode.result.status == WRING_OK && memcmp(decoded, r->dst, sizeof(decoded)) == 0,
          "%s: the owner has other bits than its code", spec);
    for (int i = 0; i < N; i++) {
        float left = want[i] + residual[i] - decoded[i];
        REQUIRE(memcmp(&left, &r->residual[i], sizeof(left)) == 0, "%s i=%d: %a stays, not %a",
                spec, i, r->residual[i], left);
    }
    made_reduction_tear_down(r);
}

static void reencode(void)
{
    check_reencode("bf16");
    check_reencode("fp16");
    check_reencode("int8");
    check_reencode("onebit");
    check_reencode("onebit:means=2");
    check_reencode("topk:ratio=0.2");
    check_reencode("randk:ratio=0.2");
    check_reencode("union");
    check_reencode("hashed:ratio=0.2");
    check_reencode("qsgd");
    check_reencode("natural");
    check_reencode("bf16:round=random");
    check_reencode("bounded:error=0.01");
    check_reencode("int4:range=minmax");
    check_reencode("int2");
    check_reencode("qsgd:bits=8:partition=natural");
    check_reencode("fp8");
    check_reencode("mxfp8:round=random");
    check_reencode("mxfp4");
    check_reencode("nvfp4");
}

/** Sources were encoded by their ranks on the way in, the sum is encoded by its owner for the way
 *  back, and each is decoded as it was encoded. */
static void contexts(void)
{
    static const char *const specs[SOURCES] = {"sealed", "sealed", "sealed", "sealed"};
    static float decoded[N];
    struct made_reduction *r = made_reduction_set_up(specs, "sealed");
    struct wring_codec_context context = {.seed = 5, .bucket = 6, .ranks = SOURCES, .step = 7};
    const struct wring_codec *out = r->job.codec_out;

    for (uint32_t s = 0; s < SOURCES; s++) {
        context.rank = s;
        r->sources[s].bytes =
            wring_codec_encode(r->codecs[s], &context, r->raw[s], N, NULL, r->codes[s]);
    }
    r->job.code = malloc(wring_codec_bound(out, N));
    r->job.context = context;
    r->job.context.rank = 2;
    r->job.context.phase = 1;
    made_reduction_run(&r->job);
    CHECK(r->job.result.status == WRING_OK, "sum: %s, source %u",
          wring_status_text(r->job.result.status), r->job.result.bad_source);
    CHECK(wring_codec_decode(out, &r->job.context, r->job.code, r->job.result.code_bytes, decoded,
                             N, false) == WRING_OK &&
              memcmp(decoded, r->dst, sizeof(decoded)) == 0,
          "the sum is not encoded as its owner's on the way back");
    context.rank = 2;
    CHECK(wring_codec_decode(out, &context, r->job.code, r->job.result.code_bytes, decoded, N,
                             false) == WRING_ERR_FRAME,
          "the seal does not hold");
    free(r->job.code);
    made_reduction_tear_down(r);
}

static void malformed_source(void)
{
    static const char *const specs[SOURCES] = {NULL, "int8", NULL, "onebit"};
    for (uint32_t bad = 0; bad < SOURCES; bad++) {
        struct made_reduction *r = made_reduction_set_up(specs, NULL);
        r->sources[bad].bytes--;
        made_reduction_run(&r->job);
        CHECK(r->job.result.status == WRING_ERR_FRAME && r->job.result.bad_source == bad,
              "source %u cut short: %s, source %u", bad, wring_status_text(r->job.result.status),
              r->job.result.bad_source);
        made_reduction_tear_down(r);
    }
}

static void bad_calls(void)
{
    float x[4] = {0};
    struct wring_job no_codec = {.kind = WRING_JOB_ENCODE, .elems = 4, .src = x};
    struct wring_job no_source = {.kind = WRING_JOB_REDUCE, .elems = 4, .dst = x, .divisor = 1};
    struct wring_job other_type = {.kind = WRING_JOB_REDUCE,
                                   .dtype = (enum wring_dtype)WRING_DTYPES};

    made_reduction_run(&no_codec);
    made_reduction_run(&no_source);
    made_reduction_run(&other_type);
    CHECK(no_codec.result.status == WRING_ERR_INVALID, "encode without a codec");
    CHECK(no_source.result.status == WRING_ERR_INVALID, "sum of nothing");
    CHECK(other_type.result.status == WRING_ERR_UNSUPPORTED, "unknown type");
}

/** Sums of codes go on to their places, too. */
static void copies_of_decoded_sums(void)
{
    static const char *const specs[SOURCES] = {NULL, "int8", "none", "bf16"};
    static float want[N], more[2][N];
    void *const copies[] = {more[0], more[1]};
    struct made_reduction *r = made_reduction_set_up(specs, NULL);

    r->job.copies = copies;
    r->job.n_copies = 2;
    made_reduction_expect(r, want);
    made_reduction_run(&r->job);
    CHECK(memcmp(more[0], want, sizeof(want)) == 0 && memcmp(more[1], want, sizeof(want)) == 0,
          "a copy differs");
    made_reduction_tear_down(r);
}

static void codecs_sum_float32_alone(void)
{
    static const char *const specs[SOURCES] = {NULL, "int8", NULL, NULL};
    struct made_reduction *r = made_reduction_set_up(specs, NULL);
    r->job.op = WRING_MAX;
    made_reduction_run(&r->job);
    CHECK(r->job.result.status == WRING_ERR_UNSUPPORTED, "max of codes");
    r->job.op = WRING_SUM;
    r->job.dtype = WRING_I32;
    made_reduction_run(&r->job);
    CHECK(r->job.result.status == WRING_ERR_UNSUPPORTED, "integers in a codec");
    made_reduction_tear_down(r);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"sums", sums},
        {"every tier", every_tier},
        {"reencode", reencode},
        {"contexts", contexts},
        {"malformed_source", malformed_source},
        {"bad_calls", bad_calls},
        {"copies_of_decoded_sums", copies_of_decoded_sums},
        {"codecs_sum_float32_alone", codecs_sum_float32_alone},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
