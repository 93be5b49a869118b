/* SPDX-License-Identifier: Apache-2.0 */
/* Immediate calls, groups that overlap, many buckets in any order, commits again and again. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
            wring_allreduce(world, data, counts[c], WRING_F32, WRING_SUM, NULL, NULL);
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
        status = wring_broadcast(world, data, counts[c] * sizeof(float), root, NULL);
        CHECK(status == WRING_OK, "broadcast: %s", wring_status_text(status));
        for (uint64_t i = 0; i < counts[c] * sizeof(float); i++)
            if (((uint8_t *)data)[i] != 0x5A) {
                CHECK(false, "broadcast byte %llu", (unsigned long long)i);
                break;
            }
        CHECK(wring_barrier(world) == WRING_OK, "barrier");
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
        CHECK(wring_allreduce(world, data[i], 5000, WRING_F32, WRING_AVG, codec, &requests[i]) ==
                  WRING_OK,
              "post %d", i);
    }
    float mean = (float)(wring_session_size(session) - 1) * 3;
    for (int i = 5; i >= 0; i--) {
        CHECK(wring_request_wait(requests[i], WAIT_NS) == WRING_OK, "wait %d", i);
        CHECK(data[i][4999] == mean + (float)i, "%d: %g", i, data[i][4999]);
    }
}

static void overlapping_groups(struct wring_session *session, uint32_t rank, void *arg)
{
    static const uint32_t low[] = {0, 1, 2}, high[] = {2, 3}, odd[] = {1, 3};
    struct wring_group *a = NULL, *b = NULL, *c = NULL;
    float x = (float)(1 << rank);
    (void)arg;
    CHECK(wring_group_create(session, low, rank <= 2 ? 3 : 0, &a) == WRING_OK, "low");
    CHECK(wring_group_create(session, high, rank >= 2 ? 2 : 0, &b) == WRING_OK, "high");
    CHECK(wring_group_create(session, odd, rank % 2 ? 2 : 0, &c) == WRING_OK, "odd");
    CHECK((a != NULL) == (rank <= 2) && (b != NULL) == (rank >= 2), "membership of %u", rank);
    if (a != NULL) {
        float y = x;
        CHECK(wring_allreduce(a, &y, 1, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK, "a");
        CHECK(y == 7, "%g", y);
    }
    if (b != NULL) {
        float y = x;
        CHECK(wring_allreduce(b, &y, 1, WRING_F32, WRING_SUM, NULL, NULL) == WRING_OK, "b");
        CHECK(y == 12, "%g", y);
    }
    if (c != NULL)
        CHECK(wring_barrier(c) == WRING_OK, "c");
    CHECK(wring_barrier(wring_session_world(session)) == WRING_OK, "world");
    wring_group_destroy(a);
    wring_group_destroy(b);
    wring_group_destroy(c);
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
            CHECK(wring_bucket_wait(buckets[i], WAIT_NS) == WRING_OK, "wait %u", i);
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

static void buckets_in_any_order(void)
{
    run_everywhere(any_order, 4);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"immediate_calls", immediate_calls},
        {"requests_in_flight", requests_in_flight},
        {"groups_overlap", groups_overlap},
        {"buckets_in_any_order", buckets_in_any_order},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
