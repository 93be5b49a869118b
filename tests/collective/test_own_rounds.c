/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Codecs of the program's own with a round before their codes, and with codes that add up, against
 * sums by the plainest means: in buckets and calls, of 2 to 9 ranks, over tcp and shm, whole and in
 * chunks, with codecs run inline and by a pool.
 */
#include <math.h>
#include <string.h>

#include "tests/lib/ranks.h"
#include "tests/lib/shared_scale.h"
#include "tests/lib/test.h"

#define RANKS_MAX 9
#define ELEMS 5003 /* the last unit is short */
#define STEPS 2
#define LARGEST 127 /* that is in each unit: so that steps of shared8 are whole numbers */

struct plan {
    const char *const *settings;
    uint32_t ranks, ranks_per_node;
    enum wring_scheme scheme;
};

/** Whole numbers, and on rank (unit % ranks) the largest one, first in the unit. */
static float value(const struct plan *plan, uint32_t rank, uint64_t i, int step)
{
    if (i % SHARED_UNIT == 0 && i / SHARED_UNIT % plan->ranks == rank)
        return -LARGEST;
    uint64_t hash = (i * 2654435761u + rank * 40503u + (uint64_t)step * 977) >> 7;
    return (float)(hash % (2 * LARGEST)) - LARGEST + 1;
}

static void fill(const struct plan *plan, float *data, uint32_t rank, int step)
{
    for (uint64_t i = 0; i < ELEMS; i++)
        data[i] = value(plan, rank, i, step);
}

/** A sum of whole numbers, which is exact in any order. */
static float sum(const struct plan *plan, uint64_t i, int step)
{
    float total = 0;
    for (uint32_t r = 0; r < plan->ranks; r++)
        total += value(plan, r, i, step);
    return total;
}

/** Of shared16: the sum of steps, however they came together. */
static float sum_of_steps(const struct plan *plan, uint64_t i, int step)
{
    float scale = shared16_scale(LARGEST, plan->ranks), total = 0;
    for (uint32_t r = 0; r < plan->ranks; r++)
        total += nearbyintf(value(plan, r, i, step) / scale);
    return total * scale;
}

static void check_exact(const struct plan *plan, const float *data, int step)
{
    for (uint64_t i = 0; i < ELEMS; i++)
        REQUIRE(data[i] == sum(plan, i, step), "%u ranks, step %d, %d: %g, not %g", plan->ranks,
                step, (int)i, (double)data[i], (double)sum(plan, i, step));
}

/** What is lost once, in encoding the sum. */
static void check_near(const struct plan *plan, const float *data, int step)
{
    float most = (float)plan->ranks * 0.501f;
    for (uint64_t i = 0; i < ELEMS; i++)
        REQUIRE(fabsf(data[i] - sum(plan, i, step)) <= most, "%u ranks, step %d, %d: %g, not %g",
                plan->ranks, step, (int)i, (double)data[i], (double)sum(plan, i, step));
}

static void check_steps(const struct plan *plan, const float *data, int step, float divisor)
{
    for (uint64_t i = 0; i < ELEMS; i++) {
        float want = sum_of_steps(plan, i, step) / divisor;
        REQUIRE(data[i] == want, "%u ranks, step %d, %d: %a, not %a", plan->ranks, step, (int)i,
                (double)data[i], (double)want);
    }
}

enum {
    EXACT,
    NEAR,
    SUM,
    AVERAGE,
    BUCKETS
};

static _Thread_local float data[BUCKETS][ELEMS];

static void check_all(const struct plan *plan, int step)
{
    check_exact(plan, data[EXACT], step);
    check_near(plan, data[NEAR], step);
    check_steps(plan, data[SUM], step, 1);
    check_steps(plan, data[AVERAGE], step, (float)plan->ranks);
}

static const char *spec_of(const struct plan *plan, int bucket)
{
    bool back = plan->scheme != WRING_SCHEME_INDIVISIBLE;
    if (bucket == EXACT)
        return back ? "shared8>none" : "shared8";
    return bucket == NEAR ? "shared8" : "shared16";
}

static void in_buckets(struct wring_session *session, uint32_t rank, const struct plan *plan)
{
    static const char *const names[BUCKETS] = {"exact", "near", "sum", "average"};
    struct wring_bucket *buckets[BUCKETS];

    for (int b = 0; b < BUCKETS; b++) {
        struct wring_bucket_params params = {.name = names[b],
                                             .data = data[b],
                                             .elems = ELEMS,
                                             .codec = spec_of(plan, b),
                                             .scheme = plan->scheme,
                                             .op = b == AVERAGE ? WRING_AVG : WRING_SUM};
        REQUIRE(wring_bucket_register(session, &params, &buckets[b]) == WRING_OK, "register");
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int step = 0; step < STEPS; step++) {
        for (int b = 0; b < BUCKETS; b++) {
            fill(plan, data[b], rank, step);
            CHECK(wring_bucket_post(buckets[b]) == WRING_OK, "post");
        }
        for (int b = 0; b < BUCKETS; b++) {
            enum wring_status status = wring_bucket_wait(buckets[b], WRING_FOREVER, NULL);
            CHECK(status == WRING_OK, "%s: %s", names[b], wring_status_text(status));
        }
        check_all(plan, step);
    }
}

static void in_calls(struct wring_session *session, uint32_t rank, const struct plan *plan)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_request *requests[BUCKETS];
    static _Thread_local float own[ELEMS];

    fill(plan, own, rank, 5);
    for (int b = 0; b < BUCKETS; b++) {
        const struct wring_call how = {.codec = b == EXACT ? "shared8>none" : spec_of(plan, b)};
        CHECK(wring_allreduce(world, own, data[b], ELEMS, WRING_F32,
                              b == AVERAGE ? WRING_AVG : WRING_SUM, &how, &requests[b]) == WRING_OK,
              "call");
    }
    for (int b = 0; b < BUCKETS; b++) {
        enum wring_status status = wring_request_wait(requests[b], WRING_FOREVER, NULL);
        CHECK(status == WRING_OK, "%d: %s", b, wring_status_text(status));
    }
    check_all(plan, 5);
}

static void run(struct wring_session *session, uint32_t rank, void *arg)
{
    in_buckets(session, rank, arg);
    in_calls(session, rank, arg);
}

static void run_plan(struct plan plan)
{
    struct wring_test_job job = {.ranks = plan.ranks,
                                 .ranks_per_node = plan.ranks_per_node,
                                 .settings = plan.settings,
                                 .run = run,
                                 .arg = &plan,
                                 .codecs = shared_codecs};
    wring_test_run_ranks(&job);
}

static const char *const chunked_pool[] = {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=4k",
                                           "WRING_EXECUTOR=pool", NULL};
static const char *const chunked_inline[] = {"WRING_PROVIDER=shm", "WRING_CHUNK_BYTES=4k",
                                             "WRING_EXECUTOR=inline", NULL};
static const char *const whole_pool[] = {"WRING_PROVIDER=shm", "WRING_EXECUTOR=pool", NULL};
static const char *const whole_inline[] = {"WRING_PROVIDER=tcp", "WRING_EXECUTOR=inline", NULL};

static void every_rank(void)
{
    static const char *const *const settings[] = {chunked_pool, chunked_inline, whole_pool,
                                                  whole_inline};
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++)
        run_plan((struct plan){settings[ranks % 4], ranks, 0, WRING_SCHEME_AUTO});
}

static void every_scheme(void)
{
    run_plan((struct plan){whole_inline, 3, 0, WRING_SCHEME_INDIVISIBLE});
    run_plan((struct plan){chunked_inline, 2, 0, WRING_SCHEME_DIVISIBLE});
}

static void no_elements(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket_params params = {.name = "empty", .codec = "shared16"};
    const struct wring_call how = {.codec = "shared8"};
    struct wring_bucket *bucket;
    (void)rank, (void)arg;
    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    CHECK(wring_bucket_wait(bucket, WRING_FOREVER, NULL) == WRING_OK, "wait");
    CHECK(wring_allreduce(wring_session_world(session), NULL, NULL, 0, WRING_F32, WRING_SUM, &how,
                          NULL) == WRING_OK,
          "call");
}

static void empty(void)
{
    struct wring_test_job job = {.ranks = 3, .run = no_elements, .codecs = shared_codecs};
    wring_test_run_ranks(&job);
}

/** One rank alone keeps what it has. */
static void alone(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct plan *plan = arg;
    const struct wring_call how = {.codec = "shared16"};

    fill(plan, data[0], rank, 0);
    CHECK(wring_allreduce(wring_session_world(session), data[0], data[0], ELEMS, WRING_F32,
                          WRING_SUM, &how, NULL) == WRING_OK,
          "call");
    check_exact(plan, data[0], 0);
}

static void one_rank(void)
{
    struct plan plan = {.ranks = 1};
    struct wring_test_job job = {.ranks = 1, .run = alone, .arg = &plan, .codecs = shared_codecs};
    wring_test_run_ranks(&job);
}

/** Nodes add first; between them scale and codes are those of the nodes' sums. */
static void nodes(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct plan *plan = arg;
    struct wring_bucket_params params = {.name = "b",
                                         .data = data[0],
                                         .elems = ELEMS,
                                         .codec = "shared16",
                                         .scheme = WRING_SCHEME_HIERARCHICAL};
    struct wring_bucket *bucket;

    REQUIRE(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    fill(plan, data[0], rank, 0);
    CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
    CHECK(wring_bucket_wait(bucket, WRING_FOREVER, NULL) == WRING_OK, "wait");
    for (uint64_t i = 0; i < ELEMS; i++)
        REQUIRE(fabsf(data[0][i] - sum(plan, i, 0)) <= 0.1f, "%d: %g, not %g", (int)i,
                (double)data[0][i], (double)sum(plan, i, 0));
}

static void two_nodes(void)
{
    struct plan plan = {chunked_pool, 4, 2, WRING_SCHEME_HIERARCHICAL};
    struct wring_test_job job = {.ranks = 4,
                                 .ranks_per_node = 2,
                                 .settings = chunked_pool,
                                 .run = nodes,
                                 .arg = &plan,
                                 .codecs = shared_codecs};
    wring_test_run_ranks(&job);
}

static void without_sums(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    const struct wring_call how = {.codec = "shared8"};
    static _Thread_local float all[2 * ELEMS];
    (void)arg;
    CHECK(wring_allgather(world, data[0], all, ELEMS, WRING_F32, &how, NULL) ==
              WRING_ERR_UNSUPPORTED,
          "rank %u: allgather with a round", rank);
    CHECK(wring_reduce_scatter(world, all, data[0], ELEMS, WRING_F32, WRING_SUM, &how, NULL) ==
              WRING_ERR_UNSUPPORTED,
          "rank %u: reduce-scatter with a round", rank);
}

static void only_allreduce(void)
{
    struct wring_test_job job = {.ranks = 2, .run = without_sums, .codecs = shared_codecs};
    wring_test_run_ranks(&job);
}

/** What is not finite on one rank is NaN on all, in its unit alone. */
static void not_finite(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct plan *plan = arg;
    const struct wring_call how = {.codec = "shared16"};

    fill(plan, data[0], rank, 0);
    if (rank == 1)
        data[0][3 * SHARED_UNIT + 5] = INFINITY;
    CHECK(wring_allreduce(wring_session_world(session), data[0], data[0], ELEMS, WRING_F32,
                          WRING_SUM, &how, NULL) == WRING_OK,
          "call");
    for (uint64_t i = 0; i < ELEMS; i++)
        REQUIRE(i / SHARED_UNIT == 3 ? isnan(data[0][i]) : data[0][i] == sum_of_steps(plan, i, 0),
                "rank %u, %d: %g", rank, (int)i, (double)data[0][i]);
}

static void infinity(void)
{
    struct plan plan = {.ranks = 3};
    struct wring_test_job job = {
        .ranks = 3, .run = not_finite, .arg = &plan, .codecs = shared_codecs};
    wring_test_run_ranks(&job);
}

static uint32_t two(const struct wring_codec *codec)
{
    (void)codec;
    return 2;
}

static void of_three(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct wring_bucket_params params = {
        .name = "b", .data = data[0], .elems = ELEMS, .codec = "shared16"};
    const struct wring_call how = {.codec = "shared16"};
    struct wring_bucket *bucket = NULL;
    uint32_t ranks = *(const uint32_t *)arg;
    enum wring_status want = ranks > 2 ? WRING_ERR_UNSUPPORTED : WRING_OK;

    (void)rank;
    memset(data[0], 0, sizeof(data[0]));
    CHECK(wring_bucket_register(session, &params, &bucket) == want,
          "a bucket of %u ranks with codes of 2", ranks);
    CHECK(wring_allreduce(wring_session_world(session), data[0], data[0], ELEMS, WRING_F32,
                          WRING_SUM, &how, NULL) == want,
          "a call of %u ranks with codes of 2", ranks);
}

/** Codes that cannot hold the sums of all ranks are refused. */
static void too_many_ranks(void)
{
    static struct wring_codec_ops ops;
    static const struct wring_codec_ops *const codecs[] = {&ops, NULL};

    ops = shared16;
    ops.most_ranks = two;
    for (uint32_t ranks = 2; ranks <= 3; ranks++) {
        struct wring_test_job job = {
            .ranks = ranks, .run = of_three, .arg = &ranks, .codecs = codecs};
        wring_test_run_ranks(&job);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"every_rank", every_rank},
        {"every_scheme", every_scheme},
        {"empty", empty},
        {"one_rank", one_rank},
        {"two_nodes", two_nodes},
        {"only_allreduce", only_allreduce},
        {"infinity", infinity},
        {"too_many_ranks", too_many_ranks},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
