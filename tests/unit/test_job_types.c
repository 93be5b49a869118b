/* SPDX-License-Identifier: Apache-2.0 */
/** wring_job_run(): every type, not-a-numbers, and whatever mode the caller's thread is in. */
#include <math.h>
#include <string.h>

#include "tests/lib/elements.h"
#include "tests/lib/odd_mode.h"
#include "tests/lib/test.h"
#include "tests/unit/made_reduction.h"

/** Runs of any bits, of which `bytes` are to be taken. */
static void fill_sources(enum wring_dtype dtype, uint64_t in[SOURCES][2 * N], uint32_t seed,
                         size_t bytes, struct wring_source sources[SOURCES],
                         const void *src[SOURCES])
{
    for (uint32_t s = 0; s < SOURCES; s++) {
        wring_test_fill(dtype, in[s], N, WRING_TEST_BITS, seed + s);
        sources[s] = (struct wring_source){in[s], bytes, NULL, {0}};
        src[s] = in[s];
    }
}

/** A reduction of any type, and a copy. */
static void check_type(enum wring_dtype dtype, enum wring_op op)
{
    static uint64_t in[SOURCES][2 * N], want[2 * N], got[2 * N];
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
    made_reduction_run(&reduce);
    CHECK(reduce.result.status == WRING_OK && memcmp(want, got, bytes) == 0, "%s %s: %s",
          wring_dtype_name(dtype), wring_op_name(op), wring_status_text(reduce.result.status));

    struct wring_job copy = {.kind = WRING_JOB_COPY,
                             .dtype = dtype,
                             .elems = bytes,
                             .sources = &sources[2],
                             .n_sources = 1,
                             .dst = got};
    made_reduction_run(&copy);
    CHECK(copy.result.status == WRING_OK && memcmp(in[2], got, bytes) == 0, "%s: copy differs",
          wring_dtype_name(dtype));
    sources[2].bytes--;
    made_reduction_run(&copy);
    made_reduction_run(&reduce);
    CHECK(copy.result.status == WRING_ERR_FRAME && reduce.result.status == WRING_ERR_FRAME &&
              reduce.result.bad_source == 2,
          "%s: a short source is taken", wring_dtype_name(dtype));
}

/** The result goes to the sources themselves, and to memory that is none of them. */
static void check_copies(enum wring_dtype dtype, enum wring_op op, uint64_t elems)
{
    static uint64_t in[SOURCES][2 * N], want[2 * N], more[2 * N];
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
    made_reduction_run(&reduce);
    CHECK(reduce.result.status == WRING_OK && memcmp(in[2], want, bytes) == 0, "%s %s of %llu",
          wring_dtype_name(dtype), wring_op_name(op), (unsigned long long)elems);
    for (uint32_t c = 0; c < reduce.n_copies; c++)
        CHECK(memcmp(copies[c], want, bytes) == 0, "%s %s of %llu: copy %u",
              wring_dtype_name(dtype), wring_op_name(op), (unsigned long long)elems, c);
    CHECK(((uint8_t *)more)[bytes] == 0xA5, "more than all of it was copied");
}

static void every_type(void)
{
    for (int dtype = 0; dtype < WRING_DTYPES; dtype++)
        for (int op = 0; op < WRING_PREMUL_SUM; op++) {
            if (!wring_op_takes((enum wring_op)op, (enum wring_dtype)dtype))
                continue;
            check_type((enum wring_dtype)dtype, (enum wring_op)op);
            for (uint64_t elems = N - 3; elems > 0; elems /= 5)
                check_copies((enum wring_dtype)dtype, (enum wring_op)op, elems);
        }
}

static void nan_is_canonical(void)
{
    static const char *const specs[SOURCES] = {NULL, NULL, NULL, NULL};
    struct made_reduction *r = made_reduction_set_up(specs, NULL);
    const uint32_t odd_nan = 0xFFC12345, infinity = 0x7F800000, nan = 0x7FC00000;

    memcpy(&r->raw[1][5], &odd_nan, 4);
    memcpy(&r->raw[0][6], &infinity, 4);
    r->raw[2][6] = -INFINITY;
    r->raw[3][7] = INFINITY;
    made_reduction_run(&r->job);
    CHECK(memcmp(&r->dst[5], &nan, 4) == 0 && memcmp(&r->dst[6], &nan, 4) == 0, "other NaN");
    CHECK(memcmp(&r->dst[7], &infinity, 4) == 0, "infinity is lost in a raw sum");
    made_reduction_tear_down(r);
}

/** A sum of fp16 that leaves its range saturates on its way back; what came in as infinity stays.
 */
static void half_overflow(void)
{
    static const char *const specs[SOURCES] = {"fp16", NULL, "fp16", NULL};
    struct made_reduction *r = made_reduction_set_up(specs, "fp16");
    r->raw[1][0] = r->raw[3][0] = 40000;
    r->raw[1][1] = r->raw[3][1] = -40000;
    r->raw[1][2] = 1e6f;
    ((uint16_t *)r->codes[0])[3] = 0x7C00;
    ((uint16_t *)r->codes[0])[4] = 0xFC00;
    r->raw[1][5] = INFINITY;
    r->job.context.phase = 1;
    made_reduction_run(&r->job);
    CHECK(r->dst[0] == 65504 && r->dst[1] == -65504 && r->dst[2] == 65504, "%g, %g and %g",
          r->dst[0], r->dst[1], r->dst[2]);
    CHECK(isnan(r->dst[3]) && isnan(r->dst[4]) && isnan(r->dst[5]), "an overflow is hidden: %g",
          r->dst[3]);
    r->job.divisor = 4; /* an average is divided first */
    r->raw[3][1] = -39999;
    made_reduction_run(&r->job);
    CHECK(fabsf(r->dst[1] + 20000) < 32, "the average is %g", r->dst[1]);
    made_reduction_tear_down(r);
}

/** Scale everything near the denormals, where flushing would show. */
static void shrink(struct made_reduction *r)
{
    for (int s = 0; s < SOURCES; s++)
        for (int i = 0; i < N; i++)
            r->raw[s][i] *= 0x1p-128f;
}

/** Of a sum; codec_conform() says the same of codecs. */
static void callers_mode(void)
{
    static const char *const specs[SOURCES] = {NULL, NULL, NULL, NULL};
    struct made_reduction *plain = made_reduction_set_up(specs, NULL),
                          *flushed = made_reduction_set_up(specs, NULL);

    plain->job.divisor = flushed->job.divisor = 3;
    shrink(plain);
    shrink(flushed);
    made_reduction_run(&plain->job);
    uint64_t mode = wring_fp_enter();
    wring_test_odd_mode();
    made_reduction_run(&flushed->job);
    bool kept = wring_test_mode() == WRING_TEST_ODD_MODE;
    wring_fp_enter();
    wring_fp_leave(mode);
    CHECK(kept, "the caller's mode is lost");
    CHECK(memcmp(plain->dst, flushed->dst, sizeof(plain->dst)) == 0,
          "the caller's mode changes bits");
    made_reduction_tear_down(plain);
    made_reduction_tear_down(flushed);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_type", every_type},
        {"nan_is_canonical", nan_is_canonical},
        {"half_overflow", half_overflow},
        {"callers_mode", callers_mode},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
