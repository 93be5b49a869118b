/* SPDX-License-Identifier: Apache-2.0 */
/* A codec that loses nothing changes no bit: of a sum in any scheme, nor of what is only passed on.
 */
#include <stdlib.h>
#include <string.h>

#include "compress/kernels/reduce.h"
#include "tests/lib/elements.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define N 20011
#define RANKS_MAX 4
#define WAIT_NS (60ull * 1000000000)

/** One rank's: numbers like gradients with runs of zeros among them, or any bits at all. */
static void fill(float *data, uint32_t rank, bool any_bits)
{
    uint32_t seed = rank + 1;

    wring_test_fill(WRING_F32, data, N, any_bits ? WRING_TEST_BITS : WRING_TEST_DENORMAL, rank);
    for (int i = 0; i < N && !any_bits; i++)
        data[i] = i % 4000 < 700 ? 0 : i % 61 == 0 ? data[i] : wring_test_random_float(&seed);
}

/** One bucket, and what it held after a step. */
struct subject {
    struct wring_bucket *bucket;
    float *data;
};

static struct subject add(struct wring_session *session, const char *codec,
                          enum wring_scheme scheme, enum wring_op op)
{
    struct subject subject = {NULL, NULL};
    void *data = NULL;

    CHECK(wring_buffer_alloc(session, N * sizeof(float), &data) == WRING_OK, "alloc");
    struct wring_bucket_params params = {
        .name = codec, .data = data, .elems = N, .op = op, .codec = codec, .scheme = scheme};
    CHECK(wring_bucket_register(session, &params, &subject.bucket) == WRING_OK, "%s", codec);
    subject.data = data;
    return subject;
}

/** @return bytes that this rank sent */
static uint64_t sum_both(const struct subject *subject, const char *codec, uint32_t rank,
                         bool any_bits)
{
    struct wring_bucket_stats before = WRING_BUCKET_STATS_INIT, after = WRING_BUCKET_STATS_INIT;

    fill(subject->data, rank, any_bits);
    CHECK(wring_bucket_stats(subject->bucket, &before) == WRING_OK, "stats");
    CHECK(wring_bucket_post(subject->bucket) == WRING_OK &&
              wring_bucket_wait(subject->bucket, WAIT_NS, NULL) == WRING_OK,
          "%s: step", codec);
    CHECK(wring_bucket_stats(subject->bucket, &after) == WRING_OK, "stats");
    CHECK(strcmp(after.codec, codec) == 0, "%s runs, not %s", after.codec, codec);
    return after.wire_bytes_sent - before.wire_bytes_sent;
}

static void compare(struct wring_session *session, uint32_t rank, enum wring_scheme scheme,
                    enum wring_op op)
{
    struct subject none = add(session, "none", scheme, op);
    struct subject lossless = add(session, "lossless:block=128", scheme, op);

    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int any_bits = 0; any_bits < 2; any_bits++) {
        uint64_t sent = sum_both(&none, "none", rank, any_bits);
        uint64_t coded = sum_both(&lossless, "lossless:block=128", rank, any_bits);
        CHECK(memcmp(none.data, lossless.data, N * sizeof(float)) == 0,
              "scheme %d, op %d, any bits %d: another sum than without a codec", (int)scheme,
              (int)op, any_bits);
        CHECK(any_bits || scheme == WRING_SCHEME_AUTO || coded < sent * 9 / 10,
              "scheme %d: %llu bytes were sent, %llu without a codec", (int)scheme,
              (unsigned long long)coded, (unsigned long long)sent);
    }
    CHECK(wring_bucket_drop(none.bucket) == WRING_OK &&
              wring_bucket_drop(lossless.bucket) == WRING_OK,
          "drop");
}

/** As sum_both() of buckets of 16 bits: the same sums in fewer bytes. */
static void compare_16(struct wring_session *session, uint32_t rank, enum wring_dtype dtype,
                       enum wring_scheme scheme)
{
    static const char *const codecs[] = {"none", "lossless:block=128"};
    static uint16_t data[RANKS_MAX][2][N];
    struct wring_bucket *bucket[2];
    struct wring_bucket_stats stats[2] = {WRING_BUCKET_STATS_INIT, WRING_BUCKET_STATS_INIT};
    float *wide = malloc(N * sizeof(*wide));

    fill(wide, rank, false);
    for (int i = 0; i < 2; i++) {
        struct wring_bucket_params params = {.name = codecs[i],
                                             .data = data[rank][i],
                                             .elems = N,
                                             .dtype = dtype,
                                             .op = WRING_AVG,
                                             .codec = codecs[i],
                                             .scheme = scheme};
        wring_reduce_tiers[0].kernels->narrow[dtype](data[rank][i], wide, N, 1);
        REQUIRE(wring_bucket_register(session, &params, &bucket[i]) == WRING_OK, "%s", codecs[i]);
    }
    free(wide);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int i = 0; i < 2; i++)
        CHECK(wring_bucket_post(bucket[i]) == WRING_OK &&
                  wring_bucket_wait(bucket[i], WAIT_NS, NULL) == WRING_OK &&
                  wring_bucket_stats(bucket[i], &stats[i]) == WRING_OK,
              "%s: step", codecs[i]);
    CHECK(memcmp(data[rank][0], data[rank][1], sizeof(data[rank][0])) == 0,
          "scheme %d: another average of %s than without a codec", (int)scheme,
          wring_dtype_name(dtype));
    CHECK(stats[1].wire_bytes_sent < stats[0].wire_bytes_sent * 19 / 20,
          "scheme %d: %llu bytes of %s were sent, %llu without a codec", (int)scheme,
          (unsigned long long)stats[1].wire_bytes_sent, wring_dtype_name(dtype),
          (unsigned long long)stats[0].wire_bytes_sent);
    CHECK(wring_bucket_drop(bucket[0]) == WRING_OK && wring_bucket_drop(bucket[1]) == WRING_OK,
          "drop");
}

static void gather_16(struct wring_session *session, uint32_t rank, enum wring_dtype dtype)
{
    static uint16_t in[RANKS_MAX][N], out[RANKS_MAX][RANKS_MAX * N];
    uint32_t ranks = wring_session_size(session), seed = 9 * rank + 1;

    for (int i = 0; i < N; i++)
        in[rank][i] = (uint16_t)(i % 1000 < 500 ? wring_test_random(&seed) : rank);
    CHECK(wring_allgather(wring_session_world(session), in[rank], out[rank], N, dtype,
                          &(struct wring_call){.codec = "lossless:block=128"}, NULL) == WRING_OK,
          "gather");
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    for (uint32_t r = 0; r < ranks; r++)
        CHECK(memcmp(out[rank] + r * N, in[r], sizeof(in[r])) == 0, "%u: other bits of %s", r,
              wring_dtype_name(dtype));
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
}

/** Not even a NaN's bits change where nothing is added up. */
static void gather(struct wring_session *session, uint32_t rank)
{
    static const char *const codecs[] = {"none", "lossless:block=128"};
    static float in[RANKS_MAX][N], out[RANKS_MAX][2][RANKS_MAX * N];
    uint32_t ranks = wring_session_size(session);

    fill(in[rank], rank, true);
    for (int i = 0; i < 2; i++)
        CHECK(wring_allgather(wring_session_world(session), in[rank], out[rank][i], N, WRING_F32,
                              &(struct wring_call){.codec = codecs[i]}, NULL) == WRING_OK,
              "%s", codecs[i]);
    CHECK(memcmp(out[rank][0], out[rank][1], ranks * sizeof(in[0])) == 0, "%u ranks gather others",
          ranks);
}

static void run(struct wring_session *session, uint32_t rank, void *arg)
{
    static const enum wring_scheme schemes[] = {WRING_SCHEME_AUTO, WRING_SCHEME_INDIVISIBLE,
                                                WRING_SCHEME_DIVISIBLE};
    (void)arg;
    for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
        for (int op = WRING_SUM; op <= WRING_AVG; op++)
            compare(session, rank, schemes[i], (enum wring_op)op);
    gather(session, rank);
    for (int i = 1; i < 3; i++) {
        compare_16(session, rank, WRING_BF16, schemes[i]);
        compare_16(session, rank, WRING_F16, schemes[i]);
    }
    gather_16(session, rank, WRING_BF16);
    gather_16(session, rank, WRING_F16);
}

static void same_bits(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_BYPASS=never",
                                           "WRING_CHUNK_BYTES=16k", NULL};
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
        struct wring_test_job job = {.ranks = ranks, .settings = settings, .run = run};
        wring_test_run_ranks(&job);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {{"same_bits", same_bits}, {0}};
    return wring_test_main(argc, argv, cases);
}
