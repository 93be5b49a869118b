/* SPDX-License-Identifier: Apache-2.0 */
/** wring_job_run(): what a job computes, whatever mode the caller's thread is in. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "tests/lib/elements.h"
#include "tests/lib/sealed.h"
#include "tests/lib/test.h"
#include <wring/executor.h>

#define N 9001 /* more than two of the tiles that a job works in */
#define SOURCES 4

/** One reduction with all it points to. */
struct reduction {
    float raw[SOURCES][N];
    struct wring_codec *codecs[SOURCES]; /* NULL: raw */
    void *codes[SOURCES];
    struct wring_source sources[SOURCES];
    float dst[N], residual[N];
    unsigned char code[N * sizeof(float) + 1024];
    struct wring_job job;
};

static struct wring_codec *make(const char *spec)
{
    struct wring_codec *codec = NULL;
    char why[200] = "";
    if (spec != NULL && wring_codec_create(spec, NULL, why, sizeof(why), &codec) != WRING_OK)
        CHECK(false, "%s: %s", spec, why);
    return codec;
}

static void run(struct wring_job *job)
{
    void *scratch = aligned_alloc(64, wring_job_scratch_bytes(job->elems));
    wring_job_run(job, scratch);
    free(scratch);
}

/** Fill sources with codes of the given specs (NULL: raw). */
static struct reduction *set_up(const char *const specs[SOURCES], const char *spec_out)
{
    struct reduction *r = calloc(1, sizeof(*r));
    uint32_t random = 41;

    for (int s = 0; s < SOURCES; s++) {
        for (int i = 0; i < N; i++)
            r->raw[s][i] = wring_test_random_float(&random);
        r->sources[s] = (struct wring_source){r->raw[s], sizeof(r->raw[s]), NULL};
        if (specs[s] == NULL)
            continue;
        struct wring_codec *codec = r->codecs[s] = make(specs[s]);
        void *code = r->codes[s] = malloc(wring_codec_bound(codec, N));
        struct wring_job encode = {.kind = WRING_JOB_ENCODE,
                                   .elems = N,
                                   .src = r->raw[s],
                                   .codec_out = codec,
                                   .code = code};
        run(&encode);
        CHECK(encode.status == WRING_OK, "encode: %s", wring_status_text(encode.status));
        r->sources[s] = (struct wring_source){code, encode.code_bytes, codec};
    }
    r->job = (struct wring_job){.kind = WRING_JOB_REDUCE,
                                .elems = N,
                                .sources = r->sources,
                                .n_sources = SOURCES,
                                .divisor = 1,
                                .dst = r->dst,
                                .codec_out = make(spec_out),
                                .code = r->code};
    return r;
}

static void tear_down(struct reduction *r)
{
    for (int s = 0; s < SOURCES; s++) {
        wring_codec_destroy(r->codecs[s]);
        free(r->codes[s]);
    }
    wring_codec_destroy((struct wring_codec *)r->job.codec_out);
    free(r);
}

/** The same sum by the plainest means: decode all, then add in order. */
static void expect(const struct reduction *r, float *want)
{
    static float decoded[N];
    for (uint32_t s = 0; s < r->job.n_sources; s++) {
        struct wring_job decode = {.kind = WRING_JOB_DECODE,
                                   .elems = N,
                                   .dst = decoded,
                                   .sources = &r->sources[s],
                                   .n_sources = 1};
        run(&decode);
        for (int i = 0; i < N; i++)
            want[i] = s == 0 ? decoded[i] : want[i] + decoded[i];
    }
    for (int i = 0; i < N; i++)
        want[i] = want[i] / r->job.divisor;
}

static void check_sum(const char *const specs[SOURCES], float divisor)
{
    static float want[N];
    for (int alias = -1; alias < SOURCES; alias++) {
        struct reduction *r = set_up(specs, NULL);
        r->job.divisor = divisor;
        expect(r, want);
        if (alias >= 0)
            r->job.dst = r->raw[alias];
        run(&r->job);
        CHECK(r->job.status == WRING_OK, "%s", wring_status_text(r->job.status));
        CHECK(memcmp(r->job.dst, want, sizeof(want)) == 0, "sum into %d differs, divisor %g", alias,
              divisor);
        tear_down(r);
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
        struct reduction *r = set_up(specs, NULL);
        r->job.tier = tiers[t];
        r->job.divisor = 3;
        expect(r, want);
        run(&r->job);
        CHECK(memcmp(r->job.dst, want, sizeof(want)) == 0, "tier %s",
              tiers[t] != NULL ? tiers[t] : "not said");
        r->job.op = WRING_MAX;
        run(&r->job);
        CHECK(r->job.status == WRING_OK, "%s", wring_status_text(r->job.status));
        for (int i = 0; i < N; i++)
            want[i] = fmaxf(fmaxf(r->raw[0][i], r->raw[1][i]), fmaxf(r->raw[2][i], r->raw[3][i]));
        CHECK(memcmp(r->job.dst, want, sizeof(want)) == 0, "maximum by tier %s",
              tiers[t] != NULL ? tiers[t] : "not said");
        tear_down(r);
    }
}

/** The owner must go on with the very bits that its peers decode, and keep what the code lost. */
static void check_reencode(const char *spec)
{
    static const char *const specs[SOURCES] = {"int8", NULL, "int8", "int8"};
    static float want[N], residual[N];
    struct reduction *r = set_up(specs, spec);
    r->job.divisor = SOURCES;
    r->job.residual = r->residual;
    for (int i = 0; i < N; i++)
        residual[i] = r->residual[i] = (float)(i % 17) * 0x1p-10f;

    expect(r, want);
    run(&r->job);
    struct wring_source source = {r->code, r->job.code_bytes, r->job.codec_out};
    static float decoded[N];
    struct wring_job decode = {
        .kind = WRING_JOB_DECODE, .elems = N, .dst = decoded, .sources = &source, .n_sources = 1};
    run(&decode);
    CHECK(decode.status == WRING_OK && memcmp(decoded, r->dst, sizeof(decoded)) == 0,
          "%s: the owner has other bits than its code", spec);
    for (int i = 0; i < N; i++) {
        float left = want[i] + residual[i] - decoded[i];
        REQUIRE(memcmp(&left, &r->residual[i], sizeof(left)) == 0, "%s i=%d: %a stays, not %a",
                spec, i, r->residual[i], left);
    }
    tear_down(r);
}

static void reencode(void)
{
    check_reencode("bf16");
    check_reencode("fp16");
    check_reencode("int8");
    check_reencode("onebit");
    check_reencode("onebit:means=2");
    check_reencode("topk:ratio=0.2");
}

/** Sources were encoded by their ranks on the way in, the sum is encoded by its owner for the way
 *  back, and each is decoded as it was encoded. */
static void contexts(void)
{
    static const char *const specs[SOURCES] = {"bf16", "bf16", "bf16", "bf16"};
    static float decoded[N];
    struct reduction *r = set_up(specs, "bf16");
    struct wring_codec_context context = {.seed = 5, .bucket = 6, .ranks = SOURCES, .step = 7};
    struct wring_codec *out = (struct wring_codec *)r->job.codec_out;

    wring_test_seal(out);
    for (uint32_t s = 0; s < SOURCES; s++) {
        wring_test_seal(r->codecs[s]);
        r->codes[s] = realloc(r->codes[s], wring_codec_bound(out, N));
        context.rank = s;
        r->sources[s].data = r->codes[s];
        r->sources[s].bytes =
            wring_codec_encode(r->codecs[s], &context, r->raw[s], N, NULL, r->codes[s]);
    }
    r->job.code = malloc(wring_codec_bound(out, N));
    r->job.context = context;
    r->job.context.rank = 2;
    r->job.context.phase = 1;
    run(&r->job);
    CHECK(r->job.status == WRING_OK, "sum: %s, source %u", wring_status_text(r->job.status),
          r->job.bad_source);
    CHECK(wring_codec_decode(out, &r->job.context, r->job.code, r->job.code_bytes, decoded, N,
                             false) == WRING_OK &&
              memcmp(decoded, r->dst, sizeof(decoded)) == 0,
          "the sum is not encoded as its owner's on the way back");
    context.rank = 2;
    CHECK(wring_codec_decode(out, &context, r->job.code, r->job.code_bytes, decoded, N, false) ==
              WRING_ERR_FRAME,
          "the seal does not hold");
    free(r->job.code);
    tear_down(r);
}

static void malformed_source(void)
{
    static const char *const specs[SOURCES] = {NULL, "int8", NULL, "onebit"};
    for (uint32_t bad = 0; bad < SOURCES; bad++) {
        struct reduction *r = set_up(specs, NULL);
        r->sources[bad].bytes--;
        run(&r->job);
        CHECK(r->job.status == WRING_ERR_FRAME && r->job.bad_source == bad,
              "source %u cut short: %s, source %u", bad, wring_status_text(r->job.status),
              r->job.bad_source);
        tear_down(r);
    }
}

static void bad_calls(void)
{
    float x[4] = {0};
    struct wring_job no_codec = {.kind = WRING_JOB_ENCODE, .elems = 4, .src = x};
    struct wring_job no_source = {.kind = WRING_JOB_REDUCE, .elems = 4, .dst = x, .divisor = 1};
    struct wring_job other_type = {.kind = WRING_JOB_REDUCE, .dtype = (enum wring_dtype)9};

    run(&no_codec);
    run(&no_source);
    run(&other_type);
    CHECK(no_codec.status == WRING_ERR_INVALID, "encode without a codec");
    CHECK(no_source.status == WRING_ERR_INVALID, "sum of nothing");
    CHECK(other_type.status == WRING_ERR_UNSUPPORTED, "unknown type");
}

/** Runs of any bits, of which `bytes` are to be taken. */
static void fill_sources(enum wring_dtype dtype, uint64_t in[SOURCES][N], uint32_t seed,
                         size_t bytes, struct wring_source sources[SOURCES],
                         const void *src[SOURCES])
{
    for (uint32_t s = 0; s < SOURCES; s++) {
        wring_test_fill(dtype, in[s], N, WRING_TEST_BITS, seed + s);
        sources[s] = (struct wring_source){in[s], bytes, NULL};
        src[s] = in[s];
    }
}

/** A reduction of any type, and a copy. */
static void check_type(enum wring_dtype dtype, enum wring_op op)
{
    static uint64_t in[SOURCES][N], want[N], got[N];
    struct wring_source sources[SOURCES];
    const void *src[SOURCES];
    size_t bytes = N * wring_dtype_bytes(dtype);

    fill_sources(dtype, in, 5, bytes, sources, src);
    struct wring_job reduce = {.kind = WRING_JOB_REDUCE,
                               .dtype = dtype,
                               .op = op,
                               .elems = N,
                               .sources = sources,
                               .n_sources = SOURCES,
                               .divisor = op == WRING_AVG ? SOURCES : 1,
                               .dst = got};
    uint64_t mode = wring_fp_enter();
    wring_test_reduce(dtype, op, src, SOURCES, N, want);
    wring_fp_leave(mode);
    run(&reduce);
    CHECK(reduce.status == WRING_OK && memcmp(want, got, bytes) == 0, "%s %s: %s",
          wring_dtype_name(dtype), wring_op_name(op), wring_status_text(reduce.status));

    struct wring_job copy = {.kind = WRING_JOB_COPY,
                             .dtype = dtype,
                             .elems = bytes,
                             .sources = &sources[2],
                             .n_sources = 1,
                             .dst = got};
    run(&copy);
    CHECK(copy.status == WRING_OK && memcmp(in[2], got, bytes) == 0, "%s: copy differs",
          wring_dtype_name(dtype));
    sources[2].bytes--;
    run(&copy);
    run(&reduce);
    CHECK(copy.status == WRING_ERR_FRAME && reduce.status == WRING_ERR_FRAME &&
              reduce.bad_source == 2,
          "%s: a short source is taken", wring_dtype_name(dtype));
}

/** The result goes to the sources themselves, and to memory that is none of them. */
static void check_copies(enum wring_dtype dtype, enum wring_op op, uint64_t elems)
{
    static uint64_t in[SOURCES][N], want[N], more[N];
    void *const copies[] = {in[0], more, in[3]};
    struct wring_source sources[SOURCES];
    const void *src[SOURCES];
    size_t bytes = elems * wring_dtype_bytes(dtype);

    fill_sources(dtype, in, 7, bytes, sources, src);
    memset(more, 0xA5, sizeof(more));
    struct wring_job reduce = {.kind = WRING_JOB_REDUCE,
                               .dtype = dtype,
                               .op = op,
                               .elems = elems,
                               .sources = sources,
                               .n_sources = SOURCES,
                               .divisor = op == WRING_AVG ? SOURCES : 1,
                               .dst = in[2],
                               .copies = copies,
                               .n_copies = 3};
    uint64_t mode = wring_fp_enter();
    wring_test_reduce(dtype, op, src, SOURCES, elems, want);
    wring_fp_leave(mode);
    run(&reduce);
    CHECK(reduce.status == WRING_OK && memcmp(in[2], want, bytes) == 0, "%s %s of %llu",
          wring_dtype_name(dtype), wring_op_name(op), (unsigned long long)elems);
    for (uint32_t c = 0; c < reduce.n_copies; c++)
        CHECK(memcmp(copies[c], want, bytes) == 0, "%s %s of %llu: copy %u",
              wring_dtype_name(dtype), wring_op_name(op), (unsigned long long)elems, c);
    CHECK(((uint8_t *)more)[bytes] == 0xA5, "more than all of it was copied");
}

static void every_type(void)
{
    for (int dtype = 0; dtype < WRING_DTYPES; dtype++)
        for (int op = 0; op < WRING_OPS; op++) {
            check_type((enum wring_dtype)dtype, (enum wring_op)op);
            for (uint64_t elems = N - 3; elems > 0; elems /= 5)
                check_copies((enum wring_dtype)dtype, (enum wring_op)op, elems);
        }
}

/** Sums of codes go on to their places, too. */
static void copies_of_decoded_sums(void)
{
    static const char *const specs[SOURCES] = {NULL, "int8", "none", "bf16"};
    static float want[N], more[2][N];
    void *const copies[] = {more[0], more[1]};
    struct reduction *r = set_up(specs, NULL);

    r->job.copies = copies;
    r->job.n_copies = 2;
    expect(r, want);
    run(&r->job);
    CHECK(memcmp(more[0], want, sizeof(want)) == 0 && memcmp(more[1], want, sizeof(want)) == 0,
          "a copy differs");
    tear_down(r);
}

static void codecs_sum_float32_alone(void)
{
    static const char *const specs[SOURCES] = {NULL, "int8", NULL, NULL};
    struct reduction *r = set_up(specs, NULL);
    r->job.op = WRING_MAX;
    run(&r->job);
    CHECK(r->job.status == WRING_ERR_UNSUPPORTED, "max of codes");
    r->job.op = WRING_SUM;
    r->job.dtype = WRING_I32;
    run(&r->job);
    CHECK(r->job.status == WRING_ERR_UNSUPPORTED, "integers in a codec");
    tear_down(r);
}

static void nan_is_canonical(void)
{
    static const char *const specs[SOURCES] = {NULL, NULL, NULL, NULL};
    struct reduction *r = set_up(specs, NULL);
    const uint32_t odd_nan = 0xFFC12345, infinity = 0x7F800000, nan = 0x7FC00000;

    memcpy(&r->raw[1][5], &odd_nan, 4);
    memcpy(&r->raw[0][6], &infinity, 4);
    r->raw[2][6] = -INFINITY;
    r->raw[3][7] = INFINITY;
    run(&r->job);
    CHECK(memcmp(&r->dst[5], &nan, 4) == 0 && memcmp(&r->dst[6], &nan, 4) == 0, "other NaN");
    CHECK(memcmp(&r->dst[7], &infinity, 4) == 0, "infinity is lost in a raw sum");
    tear_down(r);
}

/** A sum of fp16 that leaves its range saturates on its way back; what came in as infinity stays.
 */
static void half_overflow(void)
{
    static const char *const specs[SOURCES] = {"fp16", NULL, "fp16", NULL};
    struct reduction *r = set_up(specs, "fp16");
    r->raw[1][0] = r->raw[3][0] = 40000;
    r->raw[1][1] = r->raw[3][1] = -40000;
    r->raw[1][2] = 1e6f;
    ((uint16_t *)r->codes[0])[3] = 0x7C00;
    ((uint16_t *)r->codes[0])[4] = 0xFC00;
    r->raw[1][5] = INFINITY;
    r->job.context.phase = 1;
    run(&r->job);
    CHECK(r->dst[0] == 65504 && r->dst[1] == -65504 && r->dst[2] == 65504, "%g, %g and %g",
          r->dst[0], r->dst[1], r->dst[2]);
    CHECK(isnan(r->dst[3]) && isnan(r->dst[4]) && isnan(r->dst[5]), "an overflow is hidden: %g",
          r->dst[3]);
    r->job.divisor = 4; /* an average is divided first */
    r->raw[3][1] = -39999;
    run(&r->job);
    CHECK(fabsf(r->dst[1] + 20000) < 32, "the average is %g", r->dst[1]);
    tear_down(r);
}

#if defined(__x86_64__)
#define FLUSH_AND_ROUND_UP (WRING_MXCSR_DEFAULT | 0x8040u | 0x4000u)
static void set_mode(void)
{
    _mm_setcsr(FLUSH_AND_ROUND_UP);
}
static bool mode_is_kept(void)
{
    return (_mm_getcsr() & ~0x3Fu) == FLUSH_AND_ROUND_UP;
}
#else
static void set_mode(void)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)(1u << 24 | 1u << 22)));
}
static bool mode_is_kept(void)
{
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode == (1u << 24 | 1u << 22);
}
#endif

/** Scale everything near the denormals, where flushing would show. */
static void shrink(struct reduction *r)
{
    for (int s = 0; s < SOURCES; s++)
        for (int i = 0; i < N; i++)
            r->raw[s][i] *= 0x1p-128f;
}

static void callers_mode(void)
{
    static const char *const specs[SOURCES] = {NULL, NULL, NULL, NULL};
    static const char *const outs[] = {NULL,   "lossless", "bf16",          "fp16",
                                       "int8", "onebit",   "topk:ratio=0.1"};
    for (size_t o = 0; o < sizeof(outs) / sizeof(outs[0]); o++) {
        struct reduction *plain = set_up(specs, outs[o]), *flushed = set_up(specs, outs[o]);
        plain->job.divisor = flushed->job.divisor = 3;
        plain->job.residual = plain->residual;
        flushed->job.residual = flushed->residual;
        shrink(plain);
        shrink(flushed);
        run(&plain->job);
        uint64_t mode = wring_fp_enter();
        set_mode();
        run(&flushed->job);
        bool kept = mode_is_kept();
        wring_fp_leave(mode);
        CHECK(kept, "the caller's mode is lost");
        CHECK(memcmp(plain->dst, flushed->dst, sizeof(plain->dst)) == 0 &&
                  memcmp(plain->residual, flushed->residual, sizeof(plain->residual)) == 0 &&
                  plain->job.code_bytes == flushed->job.code_bytes &&
                  memcmp(plain->code, flushed->code, plain->job.code_bytes) == 0,
              "%s: the caller's mode changes bits", outs[o] != NULL ? outs[o] : "sum");
        tear_down(plain);
        tear_down(flushed);
    }
}

static const struct wring_test_case cases[] = {
    {"sums", sums},
    {"every tier", every_tier},
    {"reencode", reencode},
    {"contexts", contexts},
    {"malformed_source", malformed_source},
    {"bad_calls", bad_calls},
    {"copies_of_decoded_sums", copies_of_decoded_sums},
    {"every_type", every_type},
    {"codecs_sum_float32_alone", codecs_sum_float32_alone},
    {"nan_is_canonical", nan_is_canonical},
    {"half_overflow", half_overflow},
    {"callers_mode", callers_mode},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
