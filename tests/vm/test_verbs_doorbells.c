/* SPDX-License-Identifier: Apache-2.0 */
/*
 * On soft-RoCE a post enters the kernel, which is what rings its doorbell. Nothing else does while
 * two ranks exchange and poll: one call per posted batch at most, and none besides. Where a peer is
 * silent for as long as a provider waits before it looks at the streams, it looks, and no oftener.
 */
#include "base/clock.h"
#include "runtime/session/session.h"
#include "tests/collective/kernel_calls.h"
#include "tests/collective/steady.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "transport/providers/providers.h"
#include "transport/providers/verbs/devices.h"

#define RANKS 2
#define STEPS 60
#define SILENCE_NS (2 * WRING_NS_PER_MS) /* before somebody looks, where something is owed */

static struct {
    struct kernel_calls calls; /* of all ranks */
    uint64_t took_ns;
    uint64_t doorbells[RANKS], sleeps[RANKS];
} the;

static uint64_t count_doorbells(const struct wring_session *session)
{
    uint64_t doorbells = 0;
    for (uint32_t i = 0; i < session->fabric->n_devices; i++) {
        struct wring_verbs_counters counters;
        if (wring_verbs_counters_of(session->fabric->devices[i].provider, &counters))
            doorbells += counters.doorbells;
    }
    return doorbells;
}

/** Between two barriers; what they ring is among the doorbells. */
static enum wring_status watch_steps(struct wring_group *world, struct wring_bucket **buckets,
                                     bool watches)
{
    enum wring_status status = wring_barrier(world, NULL, NULL);
    uint64_t began_ns = wring_now_ns();
    if (watches)
        kernel_calls_start();
    if (status == WRING_OK)
        status = steady_run(buckets, STEPS, 0);
    if (watches)
        the.calls = kernel_calls_stop();
    the.took_ns = watches ? wring_now_ns() - began_ns : the.took_ns;
    return status == WRING_OK ? wring_barrier(world, NULL, NULL) : status;
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *buckets[STEADY_BUCKETS];
    (void)arg;
    enum wring_status status = steady_make(session, buckets);
    if (status == WRING_OK)
        status = steady_run(buckets, STEADY_WARM_STEPS, 0);
    uint64_t rung = count_doorbells(session);
    uint64_t slept = wring_progress_sleeps(session->progress);
    if (status == WRING_OK)
        status = watch_steps(wring_session_world(session), buckets, rank == 0);
    the.doorbells[rank] = count_doorbells(session) - rung;
    the.sleeps[rank] = wring_progress_sleeps(session->progress) - slept;
    CHECK(status == WRING_OK, "rank %u: %s", rank, wring_status_text(status));
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
}

static void a_batch_is_one_call(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=verbs",
                                           "WRING_PROGRESS=caller",
                                           "WRING_SPIN=1s",
                                           "WRING_CHUNK_BYTES=16k",
                                           "WRING_HEARTBEAT=900s", /* longer than all of it */
                                           "WRING_PEER_TIMEOUT=1000s",
                                           NULL};
    struct wring_test_job job = {.ranks = RANKS, .settings = settings, .run = run_rank};
    wring_test_run_ranks(&job);
    const struct kernel_calls *calls = &the.calls;
    uint64_t doorbells = the.doorbells[0] + the.doorbells[1];
    printf("%llu doorbells; %lu writes, %lu reads, %lu others (%ld) in %llu us\n",
           (unsigned long long)doorbells, calls->writes, calls->reads, calls->others, calls->other,
           (unsigned long long)the.took_ns / 1000);
    CHECK(the.sleeps[0] + the.sleeps[1] == 0, "a rank slept");
    CHECK(calls->writes > 0, "no doorbell is seen");
    CHECK(calls->writes + calls->others <= doorbells, "%lu writes and %lu calls, the last %ld",
          calls->writes, calls->others, calls->other);
    /* one more at either end: who looks may have read the clock long before */
    CHECK(calls->reads <= RANKS * (the.took_ns / SILENCE_NS + 2), "%lu looks", calls->reads);
    CHECK(calls->sleeps + calls->sends + calls->futex_waits + calls->futex_wakes == 0,
          "%lu sleeps, %lu sends, %lu futex waits, %lu wakes", calls->sleeps, calls->sends,
          calls->futex_waits, calls->futex_wakes);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_batch_is_one_call", a_batch_is_one_call},
        {NULL, NULL},
    };
    char reason[256];
    const char *why;
    if (wring_provider_verbs.probe(reason, sizeof(reason)) != WRING_OK)
        wring_test_skip("verbs: %s", reason);
    if (!kernel_calls_init(&why))
        wring_test_skip("%s", why);
    return wring_test_main(argc, argv, cases);
}
