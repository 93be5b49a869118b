/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steady state, once all memory has been touched: a posted bucket allocates nothing, and over
 * shared memory a rank that need not sleep does not enter the kernel either. test_awake.c looks
 * closer at that. Memory of the collectives is there from the first step on.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "tests/collective/counted.h"
#include "tests/collective/steady.h"
#include "tests/lib/procs.h"
#include "tests/lib/test.h"
#include "transport/control_tree.h"

#define STEPS 300
#define QUICK_MIN (STEPS / 10) /* of all turns */
#define FAULTS_MAX 20          /* of 20 steps */
#define DEADLINE_S 240

#define BEATS "WRING_HEARTBEAT=900s", "WRING_PEER_TIMEOUT=1000s" /* each a call of its own */

/** What must not happen. */
struct forbidden {
    bool kernel_calls; /* but looks at the control tree */
};

/**
 * What the steps of a turn add up to. A step in which the other rank lost its processor for long
 * is left out of the kernel calls: whoever waits so long looks whether it is still there.
 */
static enum wring_status count_steps(struct wring_bucket **buckets, struct counted *out,
                                     unsigned *quick)
{
    enum wring_status status = WRING_OK;
    uint64_t first_ns = wring_now_ns();
    for (int s = 0; s < STEPS && status == WRING_OK; s++) {
        uint64_t began_ns = wring_now_ns();
        counted_start();
        status = steady_run(buckets, 1, 0);
        struct counted step = counted_stop();
        bool slow = wring_now_ns() - began_ns > STEADY_LONG_NS;
        *quick += !slow;
        step.kernel_calls = slow ? 0 : step.kernel_calls;
        out->allocations += step.allocations;
        out->kernel_calls += step.kernel_calls;
        out->last = step.allocations + step.kernel_calls > 0 ? step.last : out->last;
        if (step.allocations > 0) {
            out->n_callers = step.n_callers;
            memcpy(out->callers, step.callers, sizeof(out->callers));
        }
    }
    uint64_t looks = (wring_now_ns() - first_ns) / WRING_CONTROL_TREE_LOOK_NS + 2;
    out->kernel_calls -= looks < out->kernel_calls ? looks : out->kernel_calls;
    return status;
}

/** Where kernel calls are looked for: as many turns as it takes until enough steps were quick. */
static enum wring_status count_turns(struct wring_session *session, struct wring_bucket **buckets,
                                     const struct forbidden *forbidden, struct counted *out,
                                     unsigned *quick)
{
    uint64_t limit = wring_deadline_in(STEADY_TRY_NS);
    enum wring_status status = WRING_OK;
    for (bool again = true; again && status == WRING_OK;) {
        status = count_steps(buckets, out, quick);
        bool wanted = forbidden->kernel_calls && *quick <= QUICK_MIN && wring_now_ns() < limit;
        if (status == WRING_OK)
            status = steady_ask(session, buckets, wanted, &again);
    }
    return status;
}

static int run_rank(struct procs_rank *rank, void *arg)
{
    const struct forbidden *forbidden = arg;
    struct counted counted = {.last = "none"};
    unsigned quick = 0;
    struct wring_bucket *buckets[STEADY_BUCKETS];
    struct wring_session *session;
    char callers[256];

    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK)
        status = steady_make(session, buckets);
    if (status == WRING_OK)
        status = steady_run(buckets, STEADY_WARM_STEPS, 0);
    if (status == WRING_OK)
        status = count_turns(session, buckets, forbidden, &counted, &quick);
    procs_say(rank, "%s; %lu allocations%s, %lu kernel calls, the last by %s; %u quick steps",
              wring_status_text(status), counted.allocations,
              counted_callers(&counted, callers, sizeof(callers)), counted.kernel_calls,
              counted.last, quick);
    if (status == WRING_OK && wring_barrier(wring_session_world(session), NULL, NULL) != WRING_OK)
        return 3;
    wring_session_close(session);
    bool clean = counted.allocations == 0 &&
                 (!forbidden->kernel_calls || (counted.kernel_calls == 0 && quick > QUICK_MIN));
    return status == WRING_OK && clean ? 0 : 1;
}

static void run_job(const char *const *settings, int (*run)(struct procs_rank *rank, void *arg),
                    uint32_t ranks, struct forbidden *forbidden)
{
    static struct procs_job job;
    memset(&job, 0, sizeof(job));
    job.ranks = ranks;
    job.settings = settings;
    job.run = run;
    job.arg = forbidden;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t r = 0; r < ranks; r++)
        CHECK(job.codes[r] == 0, "%s: rank %u (code %d) said %s", settings[0], r, job.codes[r],
              job.texts[r]);
}

static void nothing_is_allocated(void)
{
    static const char *const settings[][4] = {
        {"WRING_PROVIDER=shm", NULL},
        {"WRING_PROVIDER=tcp", NULL},
        {"WRING_PROVIDER=shm", "WRING_EXECUTOR=pool:1", NULL},
        {"WRING_PROVIDER=tcp", "WRING_CHUNK_BYTES=16k", NULL},
    };
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        run_job(settings[i], run_rank, 3, &(struct forbidden){false});
}

static int run_in_node(struct procs_rank *rank, void *arg)
{
    setenv("WRING_NODE", rank->rank < 2 ? "a" : "b", 1);
    return run_rank(rank, arg);
}

static void nothing_is_allocated_between_nodes(void)
{
    static const char *const settings[] = {"WRING_SCHEME=hierarchical", NULL};
    run_job(settings, run_in_node, 4, &(struct forbidden){false});
}

static void shm_stays_out_of_the_kernel(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller",
                                           "WRING_SPIN=1s", BEATS, NULL};
    run_job(settings, run_rank, 2, &(struct forbidden){true});
}

/** The stand-ins do count: over tcp nothing works without the kernel. */
static void tcp_does_not(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller",
                                           "WRING_SPIN=1s", BEATS, NULL};
    static struct procs_job job;
    struct forbidden forbidden = {true};
    memset(&job, 0, sizeof(job));
    job.ranks = 2;
    job.settings = settings;
    job.run = run_rank;
    job.arg = &forbidden;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(job.codes[0] == 1, "rank 0 said %s", job.texts[0]);
}

static long page_faults(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_minflt : -1;
}

/** A bucket whose pieces go through the slots of a ring some at a time, so that it takes steps. */
static enum wring_status make_large(struct wring_session *session, struct wring_bucket **out)
{
    struct wring_bucket_params params = {.name = "large", .elems = 1 << 20, .codec = "onebit"};
    enum wring_status status =
        wring_buffer_alloc(session, params.elems * sizeof(float), &params.data);

    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, out);
    return status == WRING_OK ? wring_session_commit(session) : status;
}

static enum wring_status step(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post(bucket);
    return status == WRING_OK ? wring_bucket_wait(bucket, 60 * WRING_NS_PER_S, NULL) : status;
}

static int run_from_the_start(struct procs_rank *rank, void *arg)
{
    (void)arg;
    struct wring_bucket *bucket;
    struct wring_session *session;
    long faults = 0;

    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK)
        status = make_large(session, &bucket);
    if (status == WRING_OK)
        status = step(bucket); /* the data, the code, the stack */
    long before = page_faults();
    for (int s = 0; s < STEADY_WARM_STEPS && status == WRING_OK; s++)
        status = step(bucket);
    faults = page_faults() - before;
    procs_say(rank, "%s; %ld page faults", wring_status_text(status), faults);
    if (status == WRING_OK && wring_barrier(wring_session_world(session), NULL, NULL) != WRING_OK)
        return 3;
    wring_session_close(session);
    return status == WRING_OK && faults <= FAULTS_MAX ? 0 : 1;
}

static void slots_have_their_pages(void)
{
    static const char *const settings[][3] = {{"WRING_PROVIDER=shm", "WRING_BYPASS=never", NULL},
                                              {"WRING_PROVIDER=tcp", "WRING_BYPASS=never", NULL}};
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        run_job(settings[i], run_from_the_start, 3, NULL);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"nothing_is_allocated", nothing_is_allocated},
        {"nothing_is_allocated_between_nodes", nothing_is_allocated_between_nodes},
        {"slots_have_their_pages", slots_have_their_pages},
        {"shm_stays_out_of_the_kernel", shm_stays_out_of_the_kernel},
        {"tcp_does_not", tcp_does_not},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
