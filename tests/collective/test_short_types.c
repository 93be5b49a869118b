/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs on elements of 16 bits: what comes out is, bit for bit, what float32 of the same numbers
 * come to, rounded once at the end. By every kind of codec, in buckets and calls.
 */
#include <stdio.h>
#include <string.h>

#include "compress/kernels/reduce.h"
#include "tests/lib/ranks.h"
#include "tests/lib/shared_scale.h"
#include "tests/lib/test.h"

#define ELEMS 3005 /* no whole unit at the end */
#define STEPS 2

static const char *const specs[] = {"bf16",
                                    "fp16+ef",
                                    "int8:block=64",
                                    "onebit:block=64+ef",
                                    "topk:block=256:ratio=0.1+ef",
                                    "topk:block=256:ratio=0.3",
                                    "lossless:block=64",
                                    "int8:block=64+ef>bf16",
                                    "shared8",
                                    "shared16+ef",
                                    "shared16"};
#define SPECS (sizeof(specs) / sizeof(specs[0]))

struct plan {
    const char *const *settings;
    uint32_t ranks;
    enum wring_dtype dtype;
    enum wring_op op;
};

static _Thread_local float wide[SPECS][ELEMS];
static _Thread_local uint16_t narrow[SPECS][ELEMS];

/** The same numbers of both types. */
static void fill(const struct plan *plan, size_t s, uint32_t rank, int step)
{
    const struct wring_reduce_kernels *kernels = wring_reduce_tiers[0].kernels;
    uint32_t random = 1 + rank + 100 * (uint32_t)step + 1000 * (uint32_t)s;

    for (uint64_t i = 0; i < ELEMS; i++)
        wide[s][i] = wring_test_random_float(&random);
    kernels->narrow[plan->dtype](narrow[s], wide[s], ELEMS, 1);
    kernels->widen[plan->dtype](wide[s], narrow[s], ELEMS);
}

static void check(const struct plan *plan, size_t s, const char *what)
{
    static _Thread_local uint16_t want[ELEMS];

    wring_reduce_tiers[0].kernels->narrow[plan->dtype](want, wide[s], ELEMS, 1);
    for (uint64_t i = 0; i < ELEMS; i++)
        REQUIRE(narrow[s][i] == want[i], "%s of %s by %s, %u ranks: %d is %04x, not %04x", what,
                wring_dtype_name(plan->dtype), specs[s], plan->ranks, (int)i, narrow[s][i],
                want[i]);
}

/** @param bucket  out, of float32 and of 16 bits */
static void add_buckets(struct wring_session *session, const struct plan *plan, size_t s,
                        struct wring_bucket **bucket)
{
    char name[64];
    struct wring_bucket_params params = {
        .name = name, .data = wide[s], .elems = ELEMS, .op = plan->op, .codec = specs[s]};

    snprintf(name, sizeof(name), "wide %zu", s);
    REQUIRE(wring_bucket_register(session, &params, &bucket[0]) == WRING_OK, "%s", specs[s]);
    snprintf(name, sizeof(name), "narrow %zu", s);
    params.data = narrow[s];
    params.dtype = plan->dtype;
    REQUIRE(wring_bucket_register(session, &params, &bucket[1]) == WRING_OK, "%s", specs[s]);
}

static void in_buckets(struct wring_session *session, uint32_t rank, const struct plan *plan)
{
    struct wring_bucket *buckets[SPECS][2];

    for (size_t s = 0; s < SPECS; s++)
        add_buckets(session, plan, s, buckets[s]);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int step = 0; step < STEPS; step++) {
        for (size_t s = 0; s < SPECS; s++) {
            fill(plan, s, rank, step);
            for (int b = 0; b < 2; b++)
                CHECK(wring_bucket_post(buckets[s][b]) == WRING_OK, "post");
        }
        for (size_t s = 0; s < SPECS; s++) {
            for (int b = 0; b < 2; b++)
                CHECK(wring_bucket_wait(buckets[s][b], WRING_FOREVER, NULL) == WRING_OK, "wait");
            check(plan, s, "a bucket");
        }
    }
    for (size_t s = 0; s < SPECS; s++) { /* what was lost is the same, too */
        struct wring_bucket_stats stats[2] = {WRING_BUCKET_STATS_INIT, WRING_BUCKET_STATS_INIT};
        for (int b = 0; b < 2; b++)
            CHECK(wring_bucket_stats(buckets[s][b], &stats[b]) == WRING_OK, "stats");
        CHECK(memcmp(&stats[0].residual_rms, &stats[1].residual_rms, sizeof(double)) == 0,
              "%s holds back %g, and %g of f32", specs[s], stats[1].residual_rms,
              stats[0].residual_rms);
    }
}

static void in_calls(struct wring_session *session, uint32_t rank, const struct plan *plan)
{
    struct wring_group *world = wring_session_world(session);

    for (size_t s = 0; s < SPECS; s++) {
        const struct wring_call how = {.codec = specs[s]};
        if (strstr(specs[s], "+ef") != NULL)
            continue;
        fill(plan, s, rank, 7);
        CHECK(wring_allreduce(world, wide[s], wide[s], ELEMS, WRING_F32, plan->op, &how, NULL) ==
                  WRING_OK,
              "call");
        CHECK(wring_allreduce(world, narrow[s], narrow[s], ELEMS, plan->dtype, plan->op, &how,
                              NULL) == WRING_OK,
              "call");
        check(plan, s, "a call");
    }
}

static void run(struct wring_session *session, uint32_t rank, void *arg)
{
    in_buckets(session, rank, arg);
    in_calls(session, rank, arg);
}

static void run_plan(struct plan plan)
{
    struct wring_test_job job = {.ranks = plan.ranks,
                                 .settings = plan.settings,
                                 .run = run,
                                 .arg = &plan,
                                 .codecs = shared_codecs};
    wring_test_run_ranks(&job);
}

static const char *const measured[] = {"WRING_STATS_EVERY=1", "WRING_PROVIDER=tcp",
                                       "WRING_CHUNK_BYTES=4k", "WRING_EXECUTOR=pool", NULL};
static const char *const whole[] = {"WRING_PROVIDER=shm", "WRING_EXECUTOR=inline", NULL};
static const char *const chunked[] = {"WRING_PROVIDER=shm", "WRING_CHUNK_BYTES=4k",
                                      "WRING_EXECUTOR=inline", NULL};

static void halves(void)
{
    run_plan((struct plan){chunked, 3, WRING_F16, WRING_SUM});
    run_plan((struct plan){whole, 2, WRING_F16, WRING_AVG});
    run_plan((struct plan){measured, 2, WRING_F16, WRING_SUM});
}

static void upper_halves(void)
{
    run_plan((struct plan){measured, 3, WRING_BF16, WRING_AVG});
    run_plan((struct plan){chunked, 9, WRING_BF16, WRING_SUM});
    run_plan((struct plan){whole, 4, WRING_BF16, WRING_AVG});
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"halves", halves},
        {"upper_halves", upper_halves},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
