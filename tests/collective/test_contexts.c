/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every code is decoded under the context under which it was encoded, in all collectives: a codec
 * of the program's own would not decode it otherwise. It loses nothing, so results are those
 * without a codec.
 */
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/sealed.h"
#include "tests/lib/test.h"

#define RANKS 3
#define ELEMS 5003 /* of a run: several chunks, the last unit short */
#define ALL (RANKS * ELEMS)
#define SPEC "sealed"

static float value(uint32_t rank, uint64_t i)
{
    return (float)(rank * 1000) + (float)(i % 251);
}

static void fill(float *data, uint32_t rank, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        data[i] = value(rank, i);
}

/** The sum of everyone's element, which is exact. */
static float sum(uint64_t i)
{
    float total = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        total += value(r, i);
    return total;
}

static void sum_both(struct wring_group *world, uint32_t rank, float *in, float *out)
{
    fill(in, rank, ELEMS);
    CHECK(wring_allgather(world, in, out, ELEMS, WRING_F32, &(struct wring_call){.codec = SPEC},
                          NULL) == WRING_OK,
          "allgather");
    for (uint64_t i = 0; i < ALL; i++)
        REQUIRE(out[i] == value((uint32_t)(i / ELEMS), i % ELEMS), "gathered %d", (int)i);

    fill(in, rank, ALL);
    CHECK(wring_alltoall(world, in, out, ELEMS, WRING_F32, &(struct wring_call){.codec = SPEC},
                         NULL) == WRING_OK,
          "alltoall");
    for (uint64_t i = 0; i < ALL; i++)
        REQUIRE(out[i] == value((uint32_t)(i / ELEMS), rank * (uint64_t)ELEMS + i % ELEMS),
                "alltoall %d", (int)i);

    for (uint32_t root = 0; root < RANKS; root++) {
        fill(in, rank, ALL);
        CHECK(wring_broadcast(world, in, ALL * sizeof(*in), root,
                              &(struct wring_call){.codec = SPEC}, NULL) == WRING_OK,
              "broadcast");
        for (uint64_t i = 0; i < ALL; i++)
            REQUIRE(in[i] == value(root, i), "broadcast %d", (int)i);
    }
}

static void reduce(struct wring_group *world, uint32_t rank, float *in, float *out)
{
    fill(in, rank, ALL);
    CHECK(wring_reduce_scatter(world, in, out, ELEMS, WRING_F32, WRING_SUM,
                               &(struct wring_call){.codec = SPEC}, NULL) == WRING_OK,
          "reduce-scatter");
    for (uint64_t i = 0; i < ELEMS; i++)
        REQUIRE(out[i] == sum(rank * (uint64_t)ELEMS + i), "scattered %d", (int)i);
    CHECK(wring_allreduce(world, in, in, ALL, WRING_F32, WRING_SUM,
                          &(struct wring_call){.codec = SPEC}, NULL) == WRING_OK,
          "allreduce");
    for (uint64_t i = 0; i < ALL; i++)
        REQUIRE(in[i] == sum(i), "sum %d", (int)i);
}

static void calls(struct wring_session *session, uint32_t rank, void *arg)
{
    static _Thread_local float in[ALL], out[ALL];
    struct wring_group *world = wring_session_world(session);
    (void)arg;
    for (int turn = 0; turn < 2; turn++) { /* another step */
        sum_both(world, rank, in, out);
        reduce(world, rank, in, out);
    }
}

static void bucket(struct wring_session *session, uint32_t rank, void *arg)
{
    const enum wring_scheme *scheme = arg;
    static _Thread_local float data[ALL];
    struct wring_bucket_params params = {.name = "b",
                                         .data = data,
                                         .elems = ALL,
                                         .codec = SPEC,
                                         .scheme = *scheme,
                                         .shape = {3, ELEMS}};
    struct wring_bucket *bucket = NULL;

    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    for (int step = 0; step < 2; step++) {
        fill(data, rank, ALL);
        CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
        enum wring_status status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
        CHECK(status == WRING_OK, "scheme %d: %s", (int)*scheme, wring_status_text(status));
        for (uint64_t i = 0; i < ALL; i++)
            REQUIRE(data[i] == sum(i), "sum %d", (int)i);
    }
}

static void in_calls(void)
{
    static const char *const settings[] = {"WRING_CHUNK_BYTES=4k", NULL};
    struct wring_test_job job = {
        .ranks = RANKS, .settings = settings, .run = calls, .codecs = wring_test_sealed};
    wring_test_run_ranks(&job);
}

static void in_buckets(void)
{
    static const char *const settings[] = {"WRING_CHUNK_BYTES=4k", NULL};
    enum wring_scheme scheme = WRING_SCHEME_DIVISIBLE;
    struct wring_test_job job = {.ranks = RANKS,
                                 .settings = settings,
                                 .run = bucket,
                                 .arg = &scheme,
                                 .codecs = wring_test_sealed};
    wring_test_run_ranks(&job);
    scheme = WRING_SCHEME_INDIVISIBLE;
    wring_test_run_ranks(&job);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"in_calls", in_calls},
        {"in_buckets", in_buckets},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
