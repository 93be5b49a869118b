/* SPDX-License-Identifier: Apache-2.0 */
/**
 * lossless of bf16 and f16 gives back every bit, takes few bytes, and sums as raw elements do. With
 * --bench [FILE]: bytes, and speeds beside memcpy. FILE holds float32 numbers, to be rounded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "compress/kernels/reduce.h"
#include "tests/unit/beside.h"
#include "tests/unit/codec_check.h"
#include <wring/executor.h>

static const enum wring_dtype types[] = {WRING_BF16, WRING_F16};

static void run(struct wring_job *job)
{
    size_t bytes = wring_job_scratch_bytes(wring_job_scratch_elems(job));
    void *scratch = aligned_alloc(64, (bytes + 63) / 64 * 64);

    REQUIRE(scratch != NULL, "memory");
    wring_job_run(job, scratch);
    free(scratch);
    REQUIRE(job->result.status == WRING_OK, "a job of kind %d ends with %s", (int)job->kind,
            wring_status_text(job->result.status));
}

/** @param bytes  out, of the code; which is guarded memory */
static unsigned char *encode(const struct wring_codec *codec, enum wring_dtype dtype,
                             const uint16_t *x, uint64_t n, size_t *bytes)
{
    unsigned char *code = wring_test_guarded(wring_codec_bound(codec, n));
    struct wring_job job = {.kind = WRING_JOB_ENCODE,
                            .dtype = dtype,
                            .elems = n,
                            .src = x,
                            .codec_out = codec,
                            .code = code,
                            .measure = true};

    run(&job);
    CHECK(!(job.result.lost > 0), "%g is lost", job.result.lost); /* NaN: of infinities */
    *bytes = job.result.code_bytes;
    unsigned char *tight = wring_test_guarded(*bytes);
    memcpy(tight, code, *bytes);
    return tight;
}

static uint16_t *narrowed(const float *x, enum wring_dtype dtype, uint64_t n)
{
    uint16_t *narrow = wring_test_guarded(n * sizeof(*narrow));
    wring_reduce_tiers[0].kernels->narrow[dtype](narrow, x, n, 1);
    return narrow;
}

/** Gradients, zeros, the same number again and again, and any bits. */
static uint16_t *fill_any(enum wring_dtype dtype, uint64_t n)
{
    uint16_t *x = narrowed(wring_test_gradient(n, 7), dtype, n);
    uint32_t random = 5;

    for (uint64_t i = 0; i < n; i++) {
        uint64_t run = i / 300 % 4;
        if (run > 0)
            x[i] = (uint16_t)(run == 1 ? 0 : run == 2 ? 0x8001 : wring_test_random(&random));
    }
    return x;
}

static void check_exact(const struct wring_codec *codec, uint64_t n)
{
    if (!codec_is_named(codec, "lossless"))
        return;
    for (size_t t = 0; t < 2; t++) {
        uint16_t *x = fill_any(types[t], n), *y = wring_test_guarded(n * sizeof(*y));
        size_t bytes;
        unsigned char *code = encode(codec, types[t], x, n, &bytes);
        const struct wring_source source = {code, bytes, codec, {0}};
        struct wring_job job = {.kind = WRING_JOB_DECODE,
                                .dtype = types[t],
                                .elems = n,
                                .sources = &source,
                                .n_sources = 1,
                                .dst = y};
        run(&job);
        CHECK(memcmp(x, y, n * sizeof(*x)) == 0, "%s by %s, n=%zu: other bits of %s",
              wring_codec_info(codec)->spec, wring_codec_info(codec)->tier, (size_t)n,
              wring_dtype_name(types[t]));
    }
}

static void exact(void)
{
    codec_for_each(check_exact, true);
}

/** The examples of FORMAT.md: 1, -1.5, 0.25, -0, 1/3, then ones. */
static void worked_bytes(void)
{
    enum {
        N = 32
    };
    static const struct {
        enum wring_dtype dtype;
        uint16_t x[5], one;
        unsigned char head[9], tail[25]; /* before and after 27 bytes of ones */
        size_t tail_bytes;
    } cases[] = {
        {WRING_BF16,
         {0x3F80, 0xBFC0, 0x3E80, 0x8000, 0x3EAB},
         0x3F80,
         {3, 0x7F, 1, 0, 0, 0x81, 0, 1, 0x56},
         {8, 0, 0, 0, 0x1C, 0, 0, 0, 8, 0, 0, 0, 0},
         13},
        {WRING_F16,
         {0x3C00, 0xBE00, 0x3400, 0x8000, 0x3555},
         0x3C00,
         {3, 15, 1, 0, 0, 1, 0, 1, 0xAA},
         {0, 0, 0, 0, 0x10, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0, 0x1C, 0, 0, 0, 8, 0, 0, 0, 0},
         25},
    };
    struct wring_codec *codec = codec_make("lossless:block=32", NULL, NULL);

    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint16_t *x = wring_test_guarded(N * sizeof(*x));
        unsigned char want[9 + 27 + 25] = {0};
        size_t bytes;

        for (int i = 0; i < N; i++)
            x[i] = i < 5 ? cases[c].x[i] : cases[c].one;
        memcpy(want, cases[c].head, 9);
        memcpy(want + 36, cases[c].tail, cases[c].tail_bytes);
        unsigned char *code = encode(codec, cases[c].dtype, x, N, &bytes);
        CHECK(bytes == 36 + cases[c].tail_bytes && memcmp(code, want, bytes) == 0,
              "%s: other bytes than FORMAT.md says", wring_dtype_name(cases[c].dtype));
    }
    wring_codec_destroy(codec);
}

static void sizes(void)
{
    const uint64_t n = 65536;
    struct wring_codec *codec = codec_make("lossless", NULL, NULL);
    float *gradient = wring_test_gradient(n, 3);
    size_t bytes;

    encode(codec, WRING_BF16, narrowed(gradient, WRING_BF16, n), n, &bytes);
    CHECK(bytes * 13 < n * 2 * 10, "%zu bytes of %zu bf16", bytes, (size_t)n);
    encode(codec, WRING_F16, narrowed(gradient, WRING_F16, n), n, &bytes);
    CHECK(bytes < n * 2, "%zu bytes of %zu f16", bytes, (size_t)n);
    uint16_t *x = wring_test_guarded(n * sizeof(*x));
    uint32_t random = 1;
    for (uint64_t i = 0; i < n; i++)
        x[i] = (uint16_t)wring_test_random(&random);
    for (size_t t = 0; t < 2; t++) {
        encode(codec, types[t], x, n, &bytes);
        CHECK(bytes * 1000 <= n * 2 * 1001, "%zu bytes where nothing can be saved", bytes);
    }
    memset(x, 0, n * sizeof(*x));
    encode(codec, WRING_BF16, x, n, &bytes);
    CHECK(bytes == n / 512, "%zu bytes of zeros", bytes);
    wring_codec_destroy(codec);
}

/** A reduction of codes and its code are those of the elements as they are. */
static void check_sum(const struct wring_codec *codec, enum wring_dtype dtype, uint32_t members,
                      float divisor)
{
    enum {
        N = 3005
    };
    struct wring_source raw[12], coded[12];
    uint16_t *want = wring_test_guarded(N * 2), *got = wring_test_guarded(N * 2);

    for (uint32_t m = 0; m < members; m++) {
        uint16_t *x = narrowed(wring_test_gradient(N, 20 + m), dtype, N);
        size_t bytes;
        x[m] = 0x7FFF;
        unsigned char *code = encode(codec, dtype, x, N, &bytes);
        raw[m] = (struct wring_source){x, N * 2, NULL, {0}};
        coded[m] = m == 1 ? raw[m] : (struct wring_source){code, bytes, codec, {0}};
    }
    struct wring_job job = {.kind = WRING_JOB_REDUCE,
                            .dtype = dtype,
                            .op = divisor == 1 ? WRING_SUM : WRING_AVG,
                            .elems = N,
                            .sources = raw,
                            .n_sources = members,
                            .divisor = divisor,
                            .dst = want};
    run(&job);
    job.sources = coded;
    job.codec_out = codec;
    job.context.phase = 1;
    job.code = wring_test_guarded(wring_codec_bound(codec, N));
    job.dst = got;
    job.measure = true;
    run(&job);
    CHECK(memcmp(want, got, N * 2) == 0, "%u of %s: another sum", members, wring_dtype_name(dtype));
    size_t bytes;
    unsigned char *code = encode(codec, dtype, want, N, &bytes);
    CHECK(bytes == job.result.code_bytes && memcmp(code, job.code, bytes) == 0,
          "%u of %s: another code of the sum", members, wring_dtype_name(dtype));
}

static void sums(void)
{
    static const uint32_t members[] = {1, 2, 3, 9, 12};

    for (int tier = 0; tier < WRING_CPU_TIERS; tier++) {
        if (!wring_cpu_has((enum wring_cpu_tier)tier))
            continue;
        struct wring_codec *codec =
            codec_make("lossless:block=64", wring_cpu_tier_name((enum wring_cpu_tier)tier), NULL);
        for (size_t m = 0; m < sizeof(members) / sizeof(members[0]); m++)
            for (size_t t = 0; t < 2; t++) {
                check_sum(codec, types[t], members[m], 1);
                check_sum(codec, types[t], members[m], (float)members[m]);
            }
        wring_codec_destroy(codec);
    }
}

/* ---- bench ---- */

#define BENCH_ELEMS ((uint64_t)16 << 20)

struct subject {
    struct wring_job encode, decode;
    struct wring_source code;
    void *scratch;
};

static void run_encode(void *arg)
{
    struct subject *s = arg;
    wring_job_run(&s->encode, s->scratch);
    s->code.bytes = s->encode.result.code_bytes;
}

static void run_decode(void *arg)
{
    struct subject *s = arg;
    wring_job_run(&s->decode, s->scratch);
}

static void run_copy(void *arg)
{
    struct subject *s = arg;
    memcpy(s->decode.dst, s->encode.src, s->encode.elems * sizeof(uint16_t));
}

/** Pages that have been touched. */
static void *room(size_t bytes)
{
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

    if (memory == NULL) {
        puts("no memory");
        exit(1);
    }
    return memset(memory, 1, bytes);
}

/** The file's numbers, again and again; without one, numbers like gradients. */
static void fill_bench(float *wide, const char *path)
{
    uint64_t n = 0;
    FILE *file = path != NULL ? fopen(path, "rb") : NULL;

    REQUIRE(path == NULL || file != NULL, "%s cannot be read: name a file of float32", path);
    if (file != NULL) {
        n = fread(wide, sizeof(*wide), BENCH_ELEMS, file);
        fclose(file);
        REQUIRE(n > 0, "%s has no number", path);
    }
    for (uint64_t begin = 0; n == 0 && begin < BENCH_ELEMS; begin += 1 << 16) {
        memcpy(wide + begin, wring_test_gradient(1 << 16, (uint32_t)(begin >> 16)), 4 << 16);
        wring_test_free_guarded();
    }
    for (uint64_t i = n; n > 0 && i < BENCH_ELEMS; i++)
        wide[i] = wide[i - n];
}

static void bench_type(const struct wring_codec *codec, enum wring_dtype dtype, const float *wide)
{
    struct subject s = {.encode = {.kind = WRING_JOB_ENCODE,
                                   .dtype = dtype,
                                   .elems = BENCH_ELEMS,
                                   .src = room(BENCH_ELEMS * 2),
                                   .codec_out = codec,
                                   .code = room(wring_codec_bound(codec, BENCH_ELEMS))}};
    void (*const calls[2][2])(void *) = {{run_encode, run_copy}, {run_decode, run_copy}};

    wring_reduce_tiers[0].kernels->narrow[dtype]((void *)s.encode.src, wide, BENCH_ELEMS, 1);
    s.code = (struct wring_source){s.encode.code, 0, codec, {0}};
    s.decode = (struct wring_job){.kind = WRING_JOB_DECODE,
                                  .dtype = dtype,
                                  .elems = BENCH_ELEMS,
                                  .sources = &s.code,
                                  .n_sources = 1,
                                  .dst = room(BENCH_ELEMS * 2)};
    s.scratch = room(wring_job_scratch_bytes(wring_job_scratch_elems(&s.encode)));
    for (int i = 0; i < 2; i++) {
        double ns[2];
        beside_time(calls[i], &s, ns);
        printf("%s of %s: %.1f GB/s, %.2f of memcpy; ratio %.3f\n", i == 0 ? "encode" : "decode",
               wring_dtype_name(dtype), 2.0 * (double)BENCH_ELEMS / ns[0], ns[1] / ns[0],
               2.0 * (double)BENCH_ELEMS / (double)s.code.bytes);
    }
    free((void *)s.encode.src);
    free(s.encode.code);
    free(s.decode.dst);
    free(s.scratch);
}

static int bench(const char *path)
{
    struct wring_codec *codec = codec_make("lossless", NULL, NULL);
    float *wide = room(BENCH_ELEMS * sizeof(*wide));

    fill_bench(wide, path);
    for (size_t t = 0; t < 2; t++)
        bench_type(codec, types[t], wide);
    free(wide);
    wring_codec_destroy(codec);
    return 0;
}

static const struct wring_test_case cases[] = {
    {"exact", exact}, {"worked_bytes", worked_bytes}, {"sizes", sizes}, {"sums", sums}, {0},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench(argc > 2 ? argv[2] : NULL);
    return codec_test_main(argc, argv, cases);
}
