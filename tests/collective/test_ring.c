/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw sums around a ring: their bits by the order of hosts and sites, how few messages and
 * neighbours they take, and what is refused. test_matrix has types, sizes and providers.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "runtime/session/session.h"
#include "tests/lib/elements.h"
#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (120ull * 1000000000)
#define RANKS_MAX 12
#define ELEMS 20011
#define STEPS 3

/** A bucket around a ring, and who stands on it. */
struct ring {
    uint32_t ranks;
    enum wring_dtype dtype;
    enum wring_op op;
    bool out_of_place, given; /* given: by WRING_SCHEME */
    uint32_t n;               /* members of its group; 0: all ranks */
    uint32_t members[RANKS_MAX], around[RANKS_MAX];
    uint64_t puts[RANKS_MAX];
    uint32_t connections[RANKS_MAX];
    void *inputs[RANKS_MAX], *results[RANKS_MAX];
};

static pthread_barrier_t together; /* not by messages: these are counted */

static uint32_t count_connections(struct wring_session *session)
{
    uint32_t n = 0;
    wring_progress_lock(session->progress);
    for (uint32_t i = 0; i < session->size; i++)
        n += i != session->rank && session->fabric->peers[i].state != WRING_PEER_NONE;
    wring_progress_unlock(session->progress);
    return n;
}

static struct wring_bucket *make_bucket(struct wring_session *session, const struct ring *ring,
                                        struct wring_group *group, void *in, void *out)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *bucket = NULL;

    params.name = "around";
    params.data = in;
    params.out = ring->out_of_place ? out : NULL;
    params.elems = ELEMS;
    params.dtype = ring->dtype;
    params.op = ring->op;
    params.scheme = ring->given ? WRING_SCHEME_AUTO : WRING_SCHEME_RING;
    params.group = group;
    CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    return bucket;
}

static void check_stats(struct wring_bucket *bucket)
{
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;

    CHECK(wring_bucket_stats(bucket, &stats) == WRING_OK && strcmp(stats.scheme, "ring") == 0 &&
              strcmp(stats.order, "ring") == 0 && strncmp(stats.algorithm, "ring", 4) == 0,
          "%s in order %s", stats.algorithm, stats.order);
}

static void run_ring(struct wring_session *session, uint32_t rank, void *arg)
{
    struct ring *ring = arg;
    size_t bytes = ELEMS * wring_dtype_bytes(ring->dtype);
    struct wring_group *group = NULL;
    struct wring_bucket *bucket = NULL;
    void *in = NULL, *out = NULL;
    bool member = ring->n == 0;

    for (uint32_t i = 0; i < ring->n; i++)
        member |= ring->members[i] == rank;
    REQUIRE(wring_buffer_alloc(session, bytes, &in) == WRING_OK &&
                wring_buffer_alloc(session, bytes, &out) == WRING_OK,
            "memory");
    if (ring->n > 0 && member)
        REQUIRE(wring_group_create(wring_session_world(session), ring->members, ring->n, 0, WAIT_NS,
                                   &group) == WRING_OK,
                "group");
    if (member)
        bucket = make_bucket(session, ring, group, in, out);
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    ring->connections[rank] = count_connections(session);
    pthread_barrier_wait(&together);
    uint64_t before = atomic_load(&session->fabric->puts_sent);
    for (int step = 0; step < STEPS && member; step++) {
        memcpy(in, ring->inputs[rank], bytes);
        REQUIRE(wring_bucket_post(bucket) == WRING_OK, "post");
        CHECK(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK, "rank %u, step %d", rank, step);
    }
    ring->puts[rank] = (atomic_load(&session->fabric->puts_sent) - before) / STEPS;
    memcpy(ring->results[rank], ring->out_of_place ? out : in, bytes);
    if (member)
        check_stats(bucket);
    CHECK(!ring->out_of_place || !member || memcmp(in, ring->inputs[rank], bytes) == 0,
          "rank %u: what it contributes was written to", rank);
}

/** Each member ends with the sum in the order in which they stand. */
static void check_sums(const struct ring *ring, const uint32_t *around, uint32_t n)
{
    size_t bytes = ELEMS * wring_dtype_bytes(ring->dtype);
    const void *sources[RANKS_MAX];
    void *want = malloc(bytes);
    uint64_t saved = wring_fp_enter();

    for (uint32_t i = 0; i < n; i++)
        sources[i] = ring->inputs[around[i]];
    wring_test_reduce_ring(ring->dtype, ring->op, sources, n, ELEMS, want);
    wring_fp_leave(saved);
    for (uint32_t i = 0; i < n; i++)
        CHECK(memcmp(ring->results[around[i]], want, bytes) == 0, "rank %u has another sum",
              around[i]);
    free(want);
}

static void run_job(struct ring *ring, const struct wring_test_job *how)
{
    size_t bytes = ELEMS * wring_dtype_bytes(ring->dtype);
    struct wring_test_job job = *how;

    for (uint32_t i = 0; i < ring->ranks; i++) {
        ring->inputs[i] = malloc(bytes);
        ring->results[i] = malloc(bytes);
        wring_test_fill(ring->dtype, ring->inputs[i], ELEMS, WRING_TEST_PLAIN, 77 + i);
    }
    job.ranks = ring->ranks;
    job.arg = ring;
    job.run = run_ring;
    pthread_barrier_init(&together, NULL, ring->ranks);
    wring_test_run_ranks(&job);
    pthread_barrier_destroy(&together);
    check_sums(ring, ring->around, ring->n > 0 ? ring->n : ring->ranks);
    for (uint32_t i = 0; i < ring->ranks; i++) {
        free(ring->inputs[i]);
        free(ring->results[i]);
    }
}

static const char *const over_tcp[] = {"WRING_PROVIDER=tcp", NULL};
static const char *const over_shm[] = {"WRING_PROVIDER=shm", NULL};
static const char *const as_default[] = {"WRING_PROVIDER=auto", "WRING_SCHEME=ring", NULL};

/** A block of 1668 elements goes in one piece, in each of 22 turns. */
static void members_know_two_neighbours(void)
{
    struct ring ring = {.ranks = 12, .around = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};

    run_job(&ring, &(struct wring_test_job){.settings = over_tcp});
    for (uint32_t i = 0; i < ring.ranks; i++)
        CHECK(ring.puts[i] == 22 && ring.connections[i] == 2,
              "rank %u sends %llu messages, and has %u connections", i,
              (unsigned long long)ring.puts[i], ring.connections[i]);
}

/** Those of one host, and hosts of one site, are neighbours, wherever the group has them. */
static void neighbours_are_near(void)
{
    struct ring hosts = {.ranks = 6,
                         .n = 6,
                         .given = true,
                         .members = {4, 0, 3, 2, 5, 1},
                         .around = {4, 3, 5, 0, 2, 1}};
    struct ring sites = {.ranks = 6,
                         .n = 5,
                         .given = true,
                         .op = WRING_AVG,
                         .members = {0, 5, 2, 3, 1},
                         .around = {0, 2, 1, 5, 3}};

    run_job(&hosts, &(struct wring_test_job){.settings = as_default, .ranks_per_node = 3});
    run_job(&sites, &(struct wring_test_job){
                        .settings = as_default, .ranks_per_node = 1, .ranks_per_site = 3});
}

static void results_have_a_place_of_their_own(void)
{
    static const enum wring_dtype dtypes[] = {WRING_F32, WRING_BF16, WRING_I64};

    for (size_t i = 0; i < 6; i++) {
        struct ring ring = {.ranks = 2 + (uint32_t)i / 2,
                            .dtype = dtypes[i % 3],
                            .op = i % 2 ? WRING_AVG : WRING_SUM,
                            .out_of_place = true,
                            .around = {0, 1, 2, 3}};
        run_job(&ring, &(struct wring_test_job){.settings = i / 3 ? over_shm : over_tcp});
    }
}

/* ---- what does not go around ---- */

static void run_others(struct wring_session *session, uint32_t rank, void *arg)
{
    static const struct {
        const char *name, *codec;
        uint64_t elems;
        enum wring_op op;
        const char *scheme;
    } others[] = {{"coded", "lossless", ELEMS, WRING_SUM, "divisible"},
                  {"small", NULL, 3 * 1024 - 1, WRING_SUM, "direct"},
                  {"large", "none", 3 * 1024, WRING_MAX, "ring"}};
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_bucket *buckets[3], *refused;
    struct wring_bucket_stats stats = WRING_BUCKET_STATS_INIT;
    float *data = calloc(3 * ELEMS, sizeof(*data));
    (void)arg, (void)rank;

    for (int i = 0; i < 3; i++) {
        params.name = others[i].name;
        params.codec = others[i].codec;
        params.data = data + (size_t)i * ELEMS;
        params.elems = others[i].elems;
        params.op = others[i].op;
        REQUIRE(wring_bucket_register(session, &params, &buckets[i]) == WRING_OK, "register");
    }
    params.name = "both";
    params.codec = "bf16";
    params.scheme = WRING_SCHEME_RING;
    params.op = WRING_SUM;
    CHECK(wring_bucket_register(session, &params, &refused) == WRING_ERR_INVALID, "both");
    REQUIRE(wring_session_commit(session) == WRING_OK, "commit");
    for (int i = 0; i < 3; i++) {
        CHECK(wring_bucket_stats(buckets[i], &stats) == WRING_OK &&
                  strcmp(stats.scheme, others[i].scheme) == 0,
              "%s goes %s", others[i].name, stats.scheme);
        CHECK(wring_bucket_drop(buckets[i]) == WRING_OK, "drop");
    }
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    free(data);
}

static void codes_and_small_sums_go_as_without(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_SCHEME=ring",
                                           "WRING_BYPASS=never", NULL};
    struct wring_test_lines lines = WRING_TEST_LINES_INIT;

    wring_test_run_ranks(&(struct wring_test_job){.ranks = 3,
                                                  .settings = settings,
                                                  .run = run_others,
                                                  .log = wring_test_lines_take,
                                                  .log_arg = &lines});
    CHECK(wring_test_lines_count(&lines,
                                 "bucket 'both': a ring passes on partial sums, which codec bf16 "
                                 "does not encode: leave the scheme or the codec out\n") == 3,
          "it says: %s", lines.text);
}

/* ---- somebody leaves ---- */

#define LEAVES 3

static void run_until_left(struct wring_session *session, uint32_t rank, void *arg)
{
    struct ring *ring = arg;
    struct wring_error_detail detail = WRING_ERROR_DETAIL_INIT;
    struct wring_bucket *bucket = make_bucket(session, ring, NULL, ring->inputs[rank], NULL);
    enum wring_status status = wring_session_commit(session);

    for (int step = 0; step < STEPS + (rank != LEAVES) && status == WRING_OK; step++) {
        if (step == STEPS)
            pthread_barrier_wait(&together); /* a fourth that fails ends a third */
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, WAIT_NS, NULL);
    }
    if (rank == LEAVES) {
        CHECK(status == WRING_OK, "before: %s", wring_status_text(status));
        pthread_barrier_wait(&together);
        return;
    }
    wring_session_error(session, &detail);
    CHECK(status == WRING_ERR_PEER && detail.rank == LEAVES, "rank %u: %s, by rank %d: %s", rank,
          wring_status_text(status), detail.rank, detail.text);
}

static void log_nothing(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void who_leaves_is_named(void)
{
    static const char *const *const providers[] = {over_tcp, over_shm};

    for (size_t p = 0; p < 2; p++) {
        struct ring ring = {.ranks = 7};
        for (uint32_t i = 0; i < ring.ranks; i++)
            ring.inputs[i] = calloc(ELEMS, sizeof(float));
        pthread_barrier_init(&together, NULL, ring.ranks);
        wring_test_run_ranks(&(struct wring_test_job){.ranks = ring.ranks,
                                                      .settings = providers[p],
                                                      .arg = &ring,
                                                      .run = run_until_left,
                                                      .log = log_nothing});
        pthread_barrier_destroy(&together);
        for (uint32_t i = 0; i < ring.ranks; i++)
            free(ring.inputs[i]);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"members_know_two_neighbours", members_know_two_neighbours},
        {"neighbours_are_near", neighbours_are_near},
        {"results_have_a_place_of_their_own", results_have_a_place_of_their_own},
        {"codes_and_small_sums_go_as_without", codes_and_small_sums_go_as_without},
        {"who_leaves_is_named", who_leaves_is_named},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
