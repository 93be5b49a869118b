/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who need not sleep does not enter the kernel over shared memory, but to look at the control tree
 * now and then: neither the thread that posts and waits nor the session's own. Who did sleep is
 * woken by one call.
 */
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "runtime/session/session.h"
#include "tests/collective/kernel_calls.h"
#include "tests/collective/steady.h"
#include "tests/lib/procs.h"
#include "tests/lib/test.h"
#include "transport/control_tree.h"

#define RANKS 2
#define STEPS 100
#define STEPS_MIN 5 /* awake in all turns */
#define DEADLINE_S 240
#define COMPUTE_NS (200 * WRING_NS_PER_US)
#define BURSTS 50
#define BEATS "WRING_HEARTBEAT=900s" /* each a call of its own */
#define EDGE 8 /* sleeps that began before calls were counted, and ended after */

/** What the steps of a rank took, for the parent to see. */
struct ledger {
    struct kernel_calls calls; /* of all steps */
    uint64_t sleeps;           /* that the session knows of, from the first step to the last */
    unsigned awake;            /* steps in which nobody slept, or was kept waiting for long */
    unsigned broken;           /* of these, steps with a call into the kernel */
    bool asleep;               /* somebody began to sleep, and has not been woken since */
    unsigned long looks;       /* at the control tree, in all turns ... */
    unsigned turns;
    uint64_t took_ns;  /* ... which took so long, with what is between their steps: a look that
                        * falls due there comes in the next step */
    uint64_t end_ns;   /* of the step before */
    uint64_t began_ns; /* that step, or what was before a turn */
    struct kernel_calls first; /* in the first of these */
    unsigned woken;            /* bursts of posts that woke the thread */
    unsigned too_often;        /* and those that did so more often than it slept */
};

/** What a job's ranks are to do, and where they write what they saw. */
struct task {
    bool awake; /* until each has been awake for some steps */
    struct ledger *ledgers;
};

static void add_calls(struct kernel_calls *sum, const struct kernel_calls *step)
{
    sum->sleeps += step->sleeps;
    sum->futex_waits += step->futex_waits;
    sum->futex_wakes += step->futex_wakes;
    sum->writes += step->writes;
    sum->sends += step->sends;
    sum->reads += step->reads;
    sum->yields += step->yields;
    sum->fences += step->fences;
    sum->others += step->others;
    sum->other = step->others > 0 ? step->other : sum->other;
}

/** A burst of posts while the session's thread sleeps. */
static enum wring_status watch_posts(struct wring_session *session, struct wring_bucket **buckets,
                                     struct ledger *ledger)
{
    const struct timespec until_it_sleeps = {0, 3 * WRING_NS_PER_MS};
    enum wring_status status = WRING_OK;

    nanosleep(&until_it_sleeps, NULL);
    uint64_t slept = wring_progress_sleeps(session->progress);
    kernel_calls_start();
    for (int b = 0; b < STEADY_BUCKETS && status == WRING_OK; b++)
        status = wring_bucket_post(buckets[b]);
    struct kernel_calls burst = kernel_calls_stop();
    slept = wring_progress_sleeps(session->progress) - slept;
    ledger->woken += burst.writes > 0;
    ledger->too_often += burst.writes > slept + 1;
    for (int b = 0; b < STEADY_BUCKETS && status == WRING_OK; b++)
        status = wring_bucket_wait(buckets[b], WRING_FOREVER, NULL);
    return status;
}

/** Did a step call the kernel for more than to end a sleep that began before it? */
static bool calls_kernel(const struct kernel_calls *step, bool asleep)
{
    unsigned long own = asleep && step->futex_wakes > 0 ? 1 : 0;
    return kernel_calls_sum(step) > step->reads + own;
}

/** One step, with the calls of all threads. */
static enum wring_status watch_step(struct wring_session *session, struct wring_bucket **buckets,
                                    uint64_t compute_ns, struct ledger *ledger)
{
    uint64_t slept = wring_progress_sleeps(session->progress);
    uint64_t began_ns = wring_now_ns();
    kernel_calls_start();
    enum wring_status status = steady_run(buckets, 1, compute_ns);
    struct kernel_calls step = kernel_calls_stop();

    slept = wring_progress_sleeps(session->progress) - slept;
    add_calls(&ledger->calls, &step);
    /* a core is given away where nothing moved for a quarter of WRING_SPIN: sleep is near */
    uint64_t now_ns = wring_now_ns();
    ledger->took_ns += now_ns - ledger->end_ns;
    ledger->end_ns = now_ns;
    bool late = now_ns - ledger->began_ns > STEADY_LONG_NS; /* so that a peer sleeps, maybe */
    ledger->began_ns = began_ns;
    bool asleep = ledger->asleep;
    ledger->asleep = slept > 0 || (asleep && step.futex_wakes == 0);
    if (slept > 0 || step.yields > 0 || late)
        return status;
    ledger->awake++;
    ledger->looks += step.reads;
    if (calls_kernel(&step, asleep) && ledger->broken++ == 0)
        ledger->first = step;
    return status;
}

/** In half of the steps the session's thread is on its own for a while. */
static enum wring_status watch_turn(struct wring_session *session, struct wring_bucket **buckets,
                                    struct ledger *ledger)
{
    enum wring_status status = WRING_OK;
    ledger->turns++;
    ledger->end_ns = wring_now_ns();
    for (int s = 0; s < STEPS && status == WRING_OK; s++)
        status = watch_step(session, buckets, s % 2 == 0 ? 0 : COMPUTE_NS, ledger);
    return status;
}

/** As many turns as it takes until each rank has had some steps awake. Sleeps count from the step
 *  before them on: a rank that is in it yet may be woken by one that is in the first. */
static enum wring_status watch_turns(struct wring_session *session, struct wring_bucket **buckets,
                                     const struct task *task, struct ledger *ledger)
{
    uint64_t slept = wring_progress_sleeps(session->progress);
    uint64_t limit = wring_deadline_in(STEADY_TRY_NS);
    ledger->began_ns = wring_now_ns();
    enum wring_status status = steady_run(buckets, 1, COMPUTE_NS);
    for (bool again = true; again && status == WRING_OK;) {
        status = watch_turn(session, buckets, ledger);
        bool wanted = task->awake && ledger->awake <= STEPS_MIN && wring_now_ns() < limit;
        ledger->began_ns = wring_now_ns();
        if (status == WRING_OK)
            status = steady_ask(session, buckets, wanted, &again);
    }
    ledger->sleeps = wring_progress_sleeps(session->progress) - slept;
    return status;
}

static enum wring_status watch_steps(struct wring_session *session, const struct task *task,
                                     struct ledger *ledger)
{
    struct wring_bucket *buckets[STEADY_BUCKETS];
    enum wring_status status = steady_make(session, buckets);
    if (status == WRING_OK)
        status = steady_run(buckets, STEADY_WARM_STEPS, COMPUTE_NS);
    if (status == WRING_OK)
        status = watch_turns(session, buckets, task, ledger);
    for (int s = 0; s < BURSTS && status == WRING_OK; s++)
        status = watch_posts(session, buckets, ledger);
    return status == WRING_OK ? wring_barrier(wring_session_world(session), NULL, NULL) : status;
}

static int run_rank(struct procs_rank *rank, void *arg)
{
    const struct task *task = arg;
    struct wring_session *session;
    const char *why;

    if (!kernel_calls_init(&why))
        return 2;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK)
        status = watch_steps(session, task, &task->ledgers[rank->rank]);
    procs_say(rank, "%s", wring_status_text(status));
    wring_session_close(session);
    return status == WRING_OK ? 0 : 1;
}

static void run_job(const char *const *settings, bool awake, struct ledger *ledgers)
{
    static struct procs_job job;
    struct task task = {awake, ledgers};
    memset(&job, 0, sizeof(job));
    memset(ledgers, 0, RANKS * sizeof(*ledgers));
    job.ranks = RANKS;
    job.settings = settings;
    job.run = run_rank;
    job.arg = &task;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct kernel_calls *calls = &ledgers[r].calls;
        CHECK(job.codes[r] == 0, "%s: rank %u (code %d) said %s", settings[1], r, job.codes[r],
              job.texts[r]);
        printf("%s %s rank %u: %llu sleeps, %u steps awake; %lu sleeping, %lu futex waits, "
               "%lu wakes, %lu writes, %lu sends, %lu reads, %lu yields, %lu fences, %lu others "
               "(%ld)\n",
               settings[1], settings[2], r, (unsigned long long)ledgers[r].sleeps, ledgers[r].awake,
               calls->sleeps, calls->futex_waits, calls->futex_wakes, calls->writes, calls->sends,
               calls->reads, calls->yields, calls->fences, calls->others, calls->other);
    }
}

/** What a parent and its ranks both see. */
static struct ledger *ledgers_new(void)
{
    struct ledger *ledgers = mmap(NULL, RANKS * sizeof(*ledgers), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return ledgers != MAP_FAILED ? ledgers : NULL;
}

static void nobody_sleeps(const char *progress)
{
    const char *const settings[] = {"WRING_PROVIDER=shm",       progress, "WRING_SPIN=1s",
                                    "WRING_PEER_TIMEOUT=1000s", BEATS,    NULL};
    struct ledger *ledgers = ledgers_new();
    REQUIRE(ledgers != NULL, "no shared memory");
    run_job(settings, true, ledgers);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct kernel_calls *first = &ledgers[r].first;
        CHECK(ledgers[r].awake > STEPS_MIN, "%s, rank %u: only %u steps awake", progress, r,
              ledgers[r].awake);
        CHECK(ledgers[r].broken == 0,
              "%s, rank %u: %u steps called the kernel; the first: %lu sleeps, %lu futex waits, "
              "%lu wakes, %lu writes, %lu sends, %lu reads, %lu yields, call %ld",
              progress, r, ledgers[r].broken, first->sleeps, first->futex_waits, first->futex_wakes,
              first->writes, first->sends, first->reads, first->yields, first->other);
        /* one more at either end of a turn: who looks may have read the clock long before */
        CHECK(ledgers[r].looks <=
                  ledgers[r].took_ns / WRING_CONTROL_TREE_LOOK_NS + 2 * ledgers[r].turns,
              "%s, rank %u: %lu looks at the control tree in %.3f s, %u turns", progress, r,
              ledgers[r].looks, (double)ledgers[r].took_ns / 1e9, ledgers[r].turns);
    }
    munmap(ledgers, RANKS * sizeof(*ledgers));
}

static void callers_stay_out_of_the_kernel(void)
{
    nobody_sleeps("WRING_PROGRESS=caller");
}

static void so_does_the_thread(void)
{
    nobody_sleeps("WRING_PROGRESS=thread");
}

/** Nobody spins, so everyone sleeps all the time. */
static void a_sleep_is_ended_by_one_call(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm",
                                           "WRING_PROGRESS=thread",
                                           "WRING_SPIN=0",
                                           BEATS,
                                           "WRING_PEER_TIMEOUT=1000s",
                                           NULL};
    struct ledger *ledgers = ledgers_new();
    REQUIRE(ledgers != NULL, "no shared memory");
    run_job(settings, false, ledgers);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct kernel_calls *calls = &ledgers[r].calls;
        uint64_t own = ledgers[r].sleeps, peers = ledgers[1 - r].sleeps;
        CHECK(own > STEPS / 10, "rank %u slept only %llu times", r, (unsigned long long)own);
        CHECK(ledgers[r].woken > 0, "rank %u: no burst of posts found its thread asleep", r);
        CHECK(ledgers[r].too_often == 0, "rank %u: %u bursts of posts woke one sleeper twice", r,
              ledgers[r].too_often);
        CHECK(calls->writes <= own + EDGE, "rank %u: %lu writes, %llu sleeps", r, calls->writes,
              (unsigned long long)own);
        CHECK(calls->futex_wakes <= own + calls->futex_waits + EDGE,
              "rank %u: %lu wakes, %llu sleeps, %lu waits", r, calls->futex_wakes,
              (unsigned long long)own, calls->futex_waits);
        CHECK(calls->sends <= peers + EDGE, "rank %u: %lu sends, %llu sleeps of its peer", r,
              calls->sends, (unsigned long long)peers);
        CHECK(calls->fences <= own + EDGE, "rank %u: %lu fences, %llu sleeps", r, calls->fences,
              (unsigned long long)own);
        CHECK(calls->others == 0, "rank %u: %lu other calls, the last number %ld", r, calls->others,
              calls->other);
    }
    munmap(ledgers, RANKS * sizeof(*ledgers));
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"callers_stay_out_of_the_kernel", callers_stay_out_of_the_kernel},
        {"so_does_the_thread", so_does_the_thread},
        {"a_sleep_is_ended_by_one_call", a_sleep_is_ended_by_one_call},
        {NULL, NULL},
    };
    const char *why;
    if (!kernel_calls_init(&why))
        wring_test_skip("%s", why);
    return wring_test_main(argc, argv, cases);
}
