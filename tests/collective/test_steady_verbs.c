/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The steady state over verbs, held against devices that are not there: a posted bucket allocates
 * and registers nothing. test_awake_verbs.c is about the kernel, test_copies.c about copies.
 */
#include "base/clock.h"
#include "tests/collective/counted.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tests/provider/mock/mock.h"

#define RANKS 2
#define WARM_STEPS 20
#define STEPS 100
#define BUCKETS 3
#define WAIT_NS (60 * WRING_NS_PER_S)

static const char *const codecs[BUCKETS] = {"none", "none", "onebit:block=128+ef"};
static const uint64_t elems[BUCKETS] = {100, 300000, 40000};

/* what rank 0 found */
static struct {
    struct counted calls; /* of all ranks */
    struct mock_counts before, after;
} found;

static enum wring_status run_step(struct wring_bucket **buckets)
{
    enum wring_status status = WRING_OK;
    for (int b = 0; b < BUCKETS && status == WRING_OK; b++)
        status = wring_bucket_post(buckets[b]);
    for (int b = 0; b < BUCKETS && status == WRING_OK; b++)
        status = wring_bucket_wait(buckets[b], WAIT_NS, NULL);
    return status;
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *buckets[BUCKETS];
    enum wring_status status = WRING_OK;
    char name[16];
    (void)arg;
    for (int b = 0; b < BUCKETS && status == WRING_OK; b++) {
        snprintf(name, sizeof(name), "bucket%d", b);
        struct wring_bucket_params params = {.name = name, .elems = elems[b], .codec = codecs[b]};
        status = wring_buffer_alloc(session, elems[b] * sizeof(float), &params.data);
        if (status == WRING_OK)
            status = wring_bucket_register(session, &params, &buckets[b]);
    }
    if (status == WRING_OK)
        status = wring_session_commit(session);
    for (int s = 0; s < WARM_STEPS && status == WRING_OK; s++)
        status = run_step(buckets);
    if (rank == 0) {
        mock_get_counts(&found.before);
        counted_start();
    }
    for (int s = 0; s < STEPS && status == WRING_OK; s++)
        status = run_step(buckets);
    if (rank == 0) {
        found.calls = counted_stop();
        mock_get_counts(&found.after);
    }
    if (status == WRING_OK)
        status = run_step(buckets); /* what the others do next is not counted */
    CHECK(status == WRING_OK, "rank %u: %s", rank, wring_status_text(status));
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
}

static void nothing_is_allocated_or_registered(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=verbs", "WRING_PROGRESS=caller",
                                           "WRING_SPIN=1s", "WRING_CHUNK_BYTES=16k", NULL};
    struct wring_test_job job = {.ranks = RANKS, .settings = settings, .run = run_rank};
    wring_test_run_ranks(&job);
    CHECK(found.calls.allocations == 0, "%lu allocations, the last by %s", found.calls.allocations,
          found.calls.last);
    CHECK(found.after.registrations == found.before.registrations, "%llu registrations",
          (unsigned long long)(found.after.registrations - found.before.registrations));
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"nothing_is_allocated_or_registered", nothing_is_allocated_or_registered},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
