/* SPDX-License-Identifier: Apache-2.0 */
/* Immediate calls, groups that overlap, many buckets in any order, commits again and again. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/group/group.h"
#include "runtime/session/session.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)

static void immediate(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint64_t counts[] = {0, 1, 7, 2048, 2049, 70000, 300000};
    struct wring_group *world = wring_session_world(session);
    uint32_t n = wring_session_size(session);
    (void)arg;
    for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
        float *data = malloc((counts[c] + 1) * sizeof(float));
        for (uint64_t i = 0; i < counts[c]; i++)
            data[i] = (float)(rank + i % 13);
        enum wring_status status =
            wring_allreduce(world, data, data, counts[c], WRING_F32, WRING_SUM, NULL, NULL);
        CHECK(status == WRING_OK, "allreduce of %llu: %s", (unsigned long long)counts[c],
              wring_status_text(status));
        for (uint64_t i = 0; i < counts[c]; i++) {
            float want = (float)(n * (i % 13) + n * (n - 1) / 2);
            if (data[i] != want) {
                CHECK(false, "count %llu element %llu: %g, not %g", (unsigned long long)counts[c],
                      (unsigned long long)i, data[i], want);
                break;
            }
        }
        uint32_t root = (uint32_t)c % n;
        memset(data, rank == root ? 0x5A : 0, counts[c] * sizeof(float));
        status = wring_broadcast(world, data, counts[c] * sizeof(float), root, NULL, NULL);
        CHECK(status == WRING_OK, "broadcast: %s", wring_status_text(status));
        for (uint64_t i = 0; i < counts[c] * sizeof(float); i++)
            if (((uint8_t *)data)[i] != 0x5A) {
                CHECK(false, "broadcast byte %llu", (unsigned long long)i);
                break;
            }
        CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "barrier");
        free(data);
    }
}

static void several_at_once(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    struct wring_request *requests[6];
    static _Thread_local float data[6][5000];
    (void)arg;
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 5000; k++)
            data[i][k] = (float)(rank * 6 + (uint32_t)i);
        const char *codec = i % 2 ? "bf16" : NULL;
        CHECK(wring_allreduce(world, data[i], data[i], 5000, WRING_F32, WRING_AVG,
                              &(struct wring_call){.codec = codec}, &requests[i]) == WRING_OK,
              "post %d", i);
    }
    float mean = (float)(wring_session_size(session) - 1) * 3;
    for (int i = 5; i >= 0; i--) {
        CHECK(wring_request_wait(requests[i], WAIT_NS, NULL) == WRING_OK, "wait %d", i);
        CHECK(data[i][4999] == mean + (float)i, "%d: %g", i, data[i][4999]);
    }
}

static void overlapping_groups(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t low[] = {0, 1, 2}, high[] = {2, 3}, odd[] = {1, 3};
    struct wring_group *world = wring_session_world(session), *a = NULL, *b = NULL, *c = NULL;
    float x = (float)(1 << rank);
    (void)arg;
    if (rank <= 2)
        REQUIRE(wring_group_create(world, low, 3, 0, WAIT_NS, &a) == WRING_OK, "low");
    if (rank >= 2)
        REQUIRE(wring_group_create(world, high, 2, 0, WAIT_NS, &b) == WRING_OK, "high");
    if (rank % 2)
        REQUIRE(wring_group_create(world, odd, 2, 0, WAIT_NS, &c) == WRING_OK, "odd");
    if (a != NULL) {
        float y = x;
        CHECK(wring_allreduce(a, &y, &y, 1, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK, "a");
        CHECK(y == 7, "%g", y);
    }
    if (b != NULL) {
        float y = x;
        CHECK(wring_allreduce(b, &y, &y, 1, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK, "b");
        CHECK(y == 12, "%g", y);
    }
    if (c != NULL)
        CHECK(wring_barrier(c, NULL, NULL) == WRING_OK, "c");
    CHECK(wring_barrier(world, NULL, NULL) == WRING_OK, "world");
    wring_group_destroy(a);
    wring_group_destroy(b);
    wring_group_destroy(c);
}

#define GROUPS 5
#define IN_FLIGHT 4
#define RUN 3000

/** One group's share of the test, on one rank. */
struct share {
    struct wring_group *group; /* NULL: not in it */
    uint32_t n, me;
    struct wring_request *requests[IN_FLIGHT];
    int32_t in[IN_FLIGHT][RUN * 5], out[IN_FLIGHT][RUN * 5];
};

static uint32_t index_in(const uint32_t *ranks, uint32_t n, uint32_t rank)
{
    uint32_t i = 0;
    while (i < n && ranks[i] != rank)
        i++;
    return i;
}

/** Request k of a group: every collective in turn. */
static enum wring_status begin(struct share *share, int k, uint32_t rank)
{
    for (uint32_t i = 0; i < RUN * share->n; i++)
        share->in[k][i] = (int32_t)(rank * 1000 + i % 7 + (uint32_t)k);
    switch (k % 4) {
    case 0:
        return wring_allreduce(share->group, share->in[k], share->in[k], RUN, WRING_I32, WRING_MAX,
                               NULL, &share->requests[k]);
    case 1:
        return wring_reduce_scatter(share->group, share->in[k], share->out[k], RUN, WRING_I32,
                                    WRING_MIN, NULL, &share->requests[k]);
    case 2:
        return wring_allgather(share->group, share->in[k], share->out[k], RUN, WRING_I32, NULL,
                               &share->requests[k]);
    default:
        return wring_alltoall(share->group, share->in[k], share->out[k], RUN, WRING_I32, NULL,
                              &share->requests[k]);
    }
}

/** What element i of request k should be. */
static int32_t expected(const struct share *share, const uint32_t *ranks, int k, uint32_t i)
{
    uint32_t from = k % 4 == 0 ? share->n - 1 : k % 4 == 1 ? 0 : i / RUN;
    uint32_t element = k % 4 == 0 ? i : k % 4 == 2 ? i % RUN : share->me * RUN + i % RUN;
    return (int32_t)(ranks[from] * 1000 + element % 7 + (uint32_t)k);
}

static void check_share(const struct share *share, const uint32_t *ranks, int k)
{
    const int32_t *got = k % 4 == 0 ? share->in[k] : share->out[k];
    uint32_t n = k % 4 < 2 ? RUN : RUN * share->n;
    for (uint32_t i = 0; i < n; i++)
        REQUIRE(got[i] == expected(share, ranks, k, i), "group of %u, request %d, element %u: %d",
                share->n, k, i, got[i]);
}

/** Ranks are in up to four groups; each has requests under way in all of them, begun in an order
 *  of the rank's own, and a bucket of a group's besides. */
static void all_groups_at_once(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t lists[GROUPS][5] = {
        {0, 1, 2, 3, 4}, {0, 1, 2}, {2, 3, 4}, {1, 3}, {0, 2, 4}};
    static const uint32_t lengths[GROUPS] = {5, 3, 3, 2, 3};
    struct share *shares = calloc(GROUPS, sizeof(*shares));
    struct wring_bucket *bucket = NULL;
    float *grad = NULL;
    (void)arg;

    for (uint32_t g = 0; g < GROUPS; g++) {
        struct share *share = &shares[g];
        share->n = lengths[g];
        share->me = index_in(lists[g], share->n, rank);
        if (share->me < share->n)
            REQUIRE(wring_group_create(wring_session_world(session), lists[g], share->n, g, WAIT_NS,
                                       &share->group) == WRING_OK,
                    "group %u", g);
    }
    if (shares[4].group != NULL) { /* a bucket of some ranks only */
        REQUIRE(wring_buffer_alloc(session, RUN * sizeof(float), (void **)&grad) == WRING_OK,
                "alloc");
        struct wring_bucket_params params = {
            .name = "even", .data = grad, .elems = RUN, .codec = "bf16", .group = shares[4].group};
        CHECK(wring_bucket_register(session, &params, &bucket) == WRING_OK, "register");
    }
    CHECK(wring_session_commit(session) == WRING_OK, "commit");
    for (int turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; grad != NULL && i < RUN; i++)
            grad[i] = (float)rank;
        for (uint32_t step = 0; step < GROUPS * IN_FLIGHT; step++) {
            struct share *share = &shares[(step + rank) % GROUPS];
            if (share->group != NULL)
                CHECK(begin(share, (int)(step / GROUPS), rank) == WRING_OK, "begin %u", step);
            if (bucket != NULL && step == rank)
                CHECK(wring_bucket_post(bucket) == WRING_OK, "post");
        }
        for (uint32_t step = 0; step < GROUPS * IN_FLIGHT; step++) {
            uint32_t g = (step * 3 + 2 * rank) % GROUPS;
            int k = IN_FLIGHT - 1 - (int)(step / GROUPS);
            if (shares[g].group == NULL)
                continue;
            CHECK(wring_request_wait(shares[g].requests[k], WAIT_NS, NULL) == WRING_OK, "wait");
            check_share(&shares[g], lists[g], k);
        }
        if (bucket != NULL) {
            CHECK(wring_bucket_wait(bucket, WAIT_NS, NULL) == WRING_OK, "bucket");
            CHECK(grad[0] == 6 && grad[RUN - 1] == 6, "bucket: %g", grad[0]);
        }
    }
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
    for (uint32_t g = 0; g < 4; g++) /* the last one has the bucket */
        wring_group_destroy(shares[g].group);
    free(shares);
}

/** New groups take the places of old ones, whose last credits may still be on the way. */
static void come_and_go(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t lists[2][2] = {{0, 1}, {1, 2}};
    (void)arg;
    for (uint32_t turn = 0; turn < 20; turn++) {
        const uint32_t *list = lists[turn % 2];
        struct wring_group *group;
        static _Thread_local int64_t data[20000];
        if (rank != list[0] && rank != list[1])
            continue;
        REQUIRE(wring_group_create(wring_session_world(session), list, 2, 0, WAIT_NS, &group) ==
                    WRING_OK,
                "create");
        if (rank == list[turn / 2 % 2])
            memset(data, (int)turn, sizeof(data));
        CHECK(wring_broadcast(group, data, sizeof(data), turn / 2 % 2, NULL, NULL) == WRING_OK,
              "broadcast");
        CHECK(data[0] == data[19999] && (data[0] & 0xFF) == turn, "turn %u: %llx", turn,
              (unsigned long long)data[0]);
        wring_group_destroy(group);
    }
}

#define BUCKETS 20

static void any_order(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *buckets[BUCKETS];
    float *data[BUCKETS];
    char name[16];
    uint32_t n = wring_session_size(session), state = 77 + rank;
    (void)arg;
    for (uint32_t i = 0; i < BUCKETS; i++) {
        uint64_t elems = 100 + i * 3001;
        REQUIRE(wring_buffer_alloc(session, elems * sizeof(float), (void **)&data[i]) == WRING_OK,
                "alloc");
        snprintf(name, sizeof(name), "bucket%u", i);
        struct wring_bucket_params params = {.name = name,
                                             .data = data[i],
                                             .elems = elems,
                                             .codec = i % 3 ? "none" : "bf16",
                                             .priority = (int32_t)(BUCKETS - i)};
        REQUIRE(wring_bucket_register(session, &params, &buckets[i]) == WRING_OK, "register");
        if (i % 7 == 6) /* buckets may be added and committed again */
            REQUIRE(wring_session_commit(session) == WRING_OK, "commit %u", i);
    }
    REQUIRE(wring_session_commit(session) == WRING_OK, "last commit");
    for (int step = 0; step < 10; step++) {
        uint32_t first = wring_test_random(&state) % BUCKETS;
        for (uint32_t k = 0; k < BUCKETS; k++) { /* each rank in its own order */
            uint32_t i = rank % 2 ? (first + k) % BUCKETS : (first + BUCKETS - k) % BUCKETS;
            uint64_t elems = 100 + i * 3001;
            for (uint64_t e = 0; e < elems; e++)
                data[i][e] = (float)((rank + i + (uint32_t)step) % 8);
            CHECK(wring_bucket_post(buckets[i]) == WRING_OK, "post %u", i);
        }
        for (uint32_t i = 0; i < BUCKETS; i++) {
            float want = 0;
            for (uint32_t r = 0; r < n; r++)
                want += (float)((r + i + (uint32_t)step) % 8);
            CHECK(wring_bucket_wait(buckets[i], WAIT_NS, NULL) == WRING_OK, "wait %u", i);
            CHECK(data[i][0] == want && data[i][99 + i * 3001] == want,
                  "bucket %u step %d: %g not %g", i, step, data[i][0], want);
        }
    }
}

static void run_everywhere(void (*run)(struct wring_session *, uint32_t, void *), uint32_t ranks)
{
    static const char *const settings[][4] = {
        {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=16k", NULL},
        {"WRING_PROVIDER=shm", "WRING_CHUNK_BYTES=16k", NULL},
        {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL},
        {"WRING_PROVIDER=tcp", "WRING_EXECUTOR=pool:1", NULL},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        struct wring_test_job job = {.ranks = ranks, .settings = settings[i], .run = run};
        wring_test_run_ranks(&job);
    }
}

static void immediate_calls(void)
{
    for (uint32_t ranks = 1; ranks <= 5; ranks++)
        run_everywhere(immediate, ranks);
}

static void requests_in_flight(void)
{
    run_everywhere(several_at_once, 3);
}

static void groups_overlap(void)
{
    run_everywhere(overlapping_groups, 4);
}

static void groups_at_once(void)
{
    run_everywhere(all_groups_at_once, 5);
}

static void groups_come_and_go(void)
{
    run_everywhere(come_and_go, 3);
}

struct caller {
    struct wring_group *group;
    pthread_barrier_t *together;
    pthread_t thread;
};

static void *call_first(void *arg)
{
    struct caller *caller = arg;
    float one[4] = {1, 1, 1, 1};

    pthread_barrier_wait(caller->together);
    CHECK(wring_allreduce(caller->group, one, one, 4, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK,
          "call");
    CHECK(one[0] == 2 && one[3] == 2, "%g, %g", (double)one[0], (double)one[3]);
    return NULL;
}

/** The first calls of a group come from several threads, in whatever order. */
static void first_calls(struct wring_session *session, uint32_t rank, void *arg)
{
    const uint32_t both[] = {0, 1};
    struct caller callers[4];
    pthread_barrier_t together;

    (void)rank, (void)arg;
    pthread_barrier_init(&together, NULL, 4);
    for (int turn = 0; turn < 30; turn++) {
        struct wring_group *group = NULL;
        REQUIRE(wring_group_create(wring_session_world(session), both, 2, 0, WRING_FOREVER,
                                   &group) == WRING_OK,
                "group");
        for (int i = 0; i < 4; i++) {
            callers[i] = (struct caller){.group = group, .together = &together};
            pthread_create(&callers[i].thread, NULL, call_first, &callers[i]);
        }
        for (int i = 0; i < 4; i++)
            pthread_join(callers[i].thread, NULL);
        wring_group_destroy(group);
    }
    pthread_barrier_destroy(&together);
}

static void threads_call_first(void)
{
    run_everywhere(first_calls, 2);
}

static void buckets_in_any_order(void)
{
    run_everywhere(any_order, 4);
}

#define MANY 8
#define MANY_BYTES (20u << 10) /* of a board with the settings that are usual */

/** A large group owns no memory but its board, and what is sent in it is none the worse. */
static void many_members(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_group *world = wring_session_world(session);
    static const uint64_t elems = 900000;
    float *data = calloc(elems, sizeof(*data));
    (void)arg;

    for (uint64_t i = 0; i < elems; i++)
        data[i] = (float)(rank + i % 1000);
    CHECK(wring_allreduce(world, data, data, elems, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK,
          "sum");
    if (world->pairs.boards)
        CHECK(world->pairs.board.home->bytes <= MANY_BYTES, "%zu bytes of a group",
              world->pairs.board.home->bytes);
    for (uint64_t i = 0; i < elems; i++)
        REQUIRE(data[i] == (float)(28 + 8 * (i % 1000)), "element %d is %g", (int)i, data[i]);
    free(data);
}

static void many(void)
{
    struct wring_test_job job = {.ranks = MANY, .run = many_members};
    wring_test_run_ranks(&job);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"immediate_calls", immediate_calls},
        {"requests_in_flight", requests_in_flight},
        {"groups_overlap", groups_overlap},
        {"groups_at_once", groups_at_once},
        {"groups_come_and_go", groups_come_and_go},
        {"threads_call_first", threads_call_first},
        {"buckets_in_any_order", buckets_in_any_order},
        {"many", many},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
