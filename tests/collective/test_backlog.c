/* SPDX-License-Identifier: Apache-2.0 */
/** More buckets at once than a provider's queues hold, while one rank looks away. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define BUCKETS 600
#define ELEMS 4096
#define STEPS 3
#define WAIT_NS (60 * WRING_NS_PER_S)

static bool register_all(struct wring_session *session, float *data, struct wring_bucket **buckets)
{
    char name[32];
    for (unsigned i = 0; i < BUCKETS; i++) {
        snprintf(name, sizeof(name), "bucket %u", i);
        const struct wring_bucket_params params = {
            .name = name, .data = data + (size_t)i * ELEMS, .elems = ELEMS, .op = WRING_SUM};
        if (wring_bucket_register(session, &params, &buckets[i]) != WRING_OK)
            return false;
    }
    return wring_session_commit(session) == WRING_OK;
}

/** Rank 1 hands its own pieces over and computes; rank 0 meanwhile finds no room for all of its. */
static void take_a_step(uint32_t rank, unsigned step, float *data, struct wring_bucket **buckets)
{
    for (size_t i = 0; i < (size_t)BUCKETS * ELEMS; i++)
        data[i] = (float)(rank + 1 + step);
    for (unsigned i = 0; i < BUCKETS; i++)
        CHECK(wring_bucket_post(buckets[i]) == WRING_OK, "post %u", i);
    if (rank == 1) {
        for (unsigned i = 0; i < 50; i++)
            wring_bucket_test(buckets[i], NULL);
        usleep(100000);
    }
    for (unsigned i = 0; i < BUCKETS; i++) {
        enum wring_status status = wring_bucket_wait(buckets[i], WAIT_NS, NULL);
        REQUIRE(status == WRING_OK, "rank %u, step %u, bucket %u: %s", rank, step, i,
                wring_status_text(status));
    }
    for (size_t i = 0; i < (size_t)BUCKETS * ELEMS; i++)
        REQUIRE(data[i] == (float)(3 + 2 * step), "rank %u, step %u, %zu", rank, step, i);
}

static void be_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *buckets[BUCKETS];
    void *data;
    (void)arg;
    REQUIRE(wring_buffer_alloc(session, (size_t)BUCKETS * ELEMS * sizeof(float), &data) == WRING_OK,
            "buffer");
    REQUIRE(register_all(session, data, buckets), "register");
    for (unsigned step = 0; step < STEPS && wring_test_failures() == 0; step++)
        take_a_step(rank, step, data, buckets);
}

static void run_on(const char *provider)
{
    const char *const settings[] = {provider, "WRING_PROGRESS=caller", "WRING_WINDOW=2", NULL};
    const struct wring_test_job job = {.ranks = 2, .settings = settings, .run = be_rank};
    wring_test_run_ranks(&job);
}

static void full_queues_empty_themselves_shm(void)
{
    run_on("WRING_PROVIDER=shm");
}

static void full_queues_empty_themselves_tcp(void)
{
    run_on("WRING_PROVIDER=tcp");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"full_queues_empty_themselves_shm", full_queues_empty_themselves_shm},
        {"full_queues_empty_themselves_tcp", full_queues_empty_themselves_tcp},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
