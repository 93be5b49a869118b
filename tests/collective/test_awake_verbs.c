/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who polls does not enter the kernel over verbs, neither the thread that posts and waits nor the
 * session's own: held against devices that are not there, which need no driver. All ranks are
 * threads here, so that every call of each is counted.
 */
#include <stdatomic.h>

#include "base/clock.h"
#include "runtime/session/session.h"
#include "tests/collective/kernel_calls.h"
#include "tests/collective/steady.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"
#include "tests/provider/mock/mock.h"
#include "transport/control_tree.h"

#define RANKS 2
#define SMALL_STEPS 1000 /* of the one bucket that is a message, each */
#define STEPS 100        /* of all buckets */
#define AWAKE_PART 4     /* one of so many steps, in some turn of them; */
#define AWAKE_MIN 5      /* where a busy machine has no such turn, so many in all */
#define WAKES_MAX 2      /* calls that end a sleep: who has slept may tell the next one */
#define COMPUTE_NS (200 * WRING_NS_PER_US)
/* Of silence, after which a provider looks at its peers' streams: any, and where they owe
 * something. */
#define LOOK_NS (100 * WRING_NS_PER_MS)
#define OWED_NS (2 * WRING_NS_PER_MS)
#define BEATS "WRING_HEARTBEAT=900s" /* each a call of its own */

/** What the steps took, all ranks together; rank 0 writes it. */
struct ledger {
    unsigned steps, awake; /* of a turn: in which nobody slept, or was kept waiting for long */
    unsigned awake_in_all; /* turns */
    unsigned late;         /* of these, that only woke somebody: the end of an earlier sleep */
    unsigned broken;       /* and those with any other call into the kernel */
    struct kernel_calls first;
    unsigned long looks; /* at control trees, in all turns ... */
    unsigned turns;
    uint64_t took_ns; /* ... which took so long, with what is between their steps: a look that
                       * falls due there comes in the next step */
};

static struct {
    _Atomic(struct wring_session *) sessions[RANKS];
    struct ledger small, all;
    bool disturbed; /* the step before was, or may have been */
    bool slow;      /* and took so long that a provider may have looked, or be about to */
    uint64_t end_ns;
    uint64_t slept; /* how often anybody did, before the first turn and between turns as well */
} the;

/** Of ranks, and of devices, which here are locked by whoever uses them. */
struct sleeps {
    uint64_t ranks, begun, ended;
};

static struct sleeps sleeps_now(void)
{
    struct mock_counts counts;
    mock_get_counts(&counts);
    struct sleeps now = {.begun = counts.lock_sleeps, .ended = counts.lock_ends};
    for (int r = 0; r < RANKS; r++)
        now.ranks += wring_progress_sleeps(atomic_load(&the.sessions[r])->progress);
    return now;
}

/** Nobody between two looks, nor from before to after them. */
static bool nobody_slept(const struct sleeps *from, const struct sleeps *to)
{
    return from->ranks == to->ranks && from->begun == to->begun && from->ended == to->ended &&
           to->begun == to->ended;
}

static uint64_t sleeps_of_all(void)
{
    struct sleeps now = sleeps_now();
    return now.ranks + now.begun;
}

static enum wring_status run_small(struct wring_bucket **buckets)
{
    enum wring_status status = wring_bucket_post(buckets[0]);
    return status == WRING_OK ? wring_bucket_wait(buckets[0], WRING_FOREVER, NULL) : status;
}

static enum wring_status run_step(struct wring_bucket **buckets, bool small, int step)
{
    if (small)
        return run_small(buckets);
    return steady_run(buckets, 1, step % 2 == 0 ? 0 : COMPUTE_NS);
}

/** One step, with the calls of all threads. One after a sleep may hold the end of it, and in a long
 *  time before it threads fall asleep. */
static enum wring_status watch_step(struct wring_bucket **buckets, bool small, int step)
{
    struct ledger *ledger = small ? &the.small : &the.all;
    struct sleeps before = sleeps_now();
    kernel_calls_start();
    enum wring_status status = run_step(buckets, small, step);
    struct kernel_calls calls = kernel_calls_stop();
    uint64_t now_ns = wring_now_ns(), took_ns = now_ns - the.end_ns;
    struct sleeps after = sleeps_now();

    /* a core is given away where nothing moved for a quarter of WRING_SPIN: sleep is near */
    bool quiet = nobody_slept(&before, &after) && calls.yields == 0 && took_ns < LOOK_NS / 2;
    bool awake = quiet && !the.disturbed;
    the.disturbed = !quiet;
    ledger->steps++;
    ledger->awake += awake;
    ledger->awake_in_all += awake;
    ledger->took_ns += took_ns;
    the.end_ns = now_ns;
    ledger->looks += awake ? calls.reads : 0;
    unsigned long sum = kernel_calls_sum(&calls) - calls.reads;
    /* who gives a contended lock back, and loses its processor before it has told the next one,
     * does so any number of steps later */
    bool late = sum > 0 && sum == calls.futex_wakes;
    ledger->late += awake && late;
    bool may_look = the.slow || took_ns >= OWED_NS;
    the.slow = took_ns >= OWED_NS;
    if (awake && sum > 0 && !late && !may_look && ledger->broken++ == 0)
        ledger->first = calls;
    return status;
}

static enum wring_status run_turn(struct wring_bucket **buckets, uint32_t rank)
{
    enum wring_status status = WRING_OK;
    if (rank == 0) {
        the.small.steps = the.small.awake = the.all.steps = the.all.awake = 0;
        the.small.turns++;
        the.all.turns++;
        the.end_ns = wring_now_ns();
        the.disturbed = true; /* by whatever kept this rank before its first step */
    }
    for (int s = 0; s < SMALL_STEPS + STEPS && status == WRING_OK; s++)
        status = rank == 0 ? watch_step(buckets, s < SMALL_STEPS, s)
                           : run_step(buckets, s < SMALL_STEPS, s);
    return status == WRING_OK ? run_small(buckets) : status; /* what follows is not counted */
}

static bool is_awake(const struct ledger *ledger)
{
    return ledger->awake >= ledger->steps / AWAKE_PART;
}

static void run_rank(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *buckets[STEADY_BUCKETS];
    uint64_t limit = wring_deadline_in(STEADY_TRY_NS);
    (void)arg;
    atomic_store(&the.sessions[rank], session);
    enum wring_status status = steady_make(session, buckets);
    uint64_t slept = rank == 0 && status == WRING_OK ? sleeps_of_all() : 0;
    if (status == WRING_OK)
        status = steady_run(buckets, STEADY_WARM_STEPS, COMPUTE_NS);
    for (bool again = true; again && status == WRING_OK;) {
        status = run_turn(buckets, rank);
        bool wanted =
            rank == 0 && wring_now_ns() < limit && !(is_awake(&the.small) && is_awake(&the.all));
        if (status == WRING_OK)
            status = steady_ask(session, buckets, wanted, &again);
    }
    if (rank == 0 && status == WRING_OK)
        the.slept = sleeps_of_all() - slept;
    CHECK(status == WRING_OK, "rank %u: %s", rank, wring_status_text(status));
    CHECK(wring_barrier(wring_session_world(session), NULL, NULL) == WRING_OK, "barrier");
}

static void expect_none(const char *what, const struct ledger *ledger)
{
    const struct kernel_calls *first = &ledger->first;
    printf("%s: %u steps, %u awake, %u with a kernel call\n", what, ledger->steps, ledger->awake,
           ledger->broken);
    CHECK(ledger->late <= WAKES_MAX * the.slept, "%s: %u of %u steps woke somebody, %llu sleeps",
          what, ledger->late, ledger->awake_in_all, (unsigned long long)the.slept);
    CHECK(is_awake(ledger) || ledger->awake_in_all >= AWAKE_MIN, "%s: only %u steps awake", what,
          ledger->awake_in_all);
    CHECK(ledger->broken == 0,
          "%s: %u steps called the kernel; the first: %lu sleeps, %lu futex waits, %lu wakes, "
          "%lu writes, %lu sends, %lu reads, %lu yields, %lu others (%ld)",
          what, ledger->broken, first->sleeps, first->futex_waits, first->futex_wakes,
          first->writes, first->sends, first->reads, first->yields, first->others, first->other);
    /* one more at either end of a turn: who looks may have read the clock long before */
    CHECK(ledger->looks <=
              RANKS * (ledger->took_ns / WRING_CONTROL_TREE_LOOK_NS + 2 * ledger->turns),
          "%s: %lu looks at control trees in %.3f s, %u turns", what, ledger->looks,
          (double)ledger->took_ns / 1e9, ledger->turns);
}

static void nobody_sleeps(const char *progress)
{
    const char *const settings[] = {"WRING_PROVIDER=verbs",
                                    "WRING_SPIN=1s",
                                    "WRING_CHUNK_BYTES=16k",
                                    progress,
                                    BEATS,
                                    "WRING_PEER_TIMEOUT=1000s",
                                    NULL};
    struct wring_test_job job = {.ranks = RANKS, .settings = settings, .run = run_rank};
    the.small = the.all = (struct ledger){0};
    the.slept = 0;
    the.disturbed = the.slow = false;
    wring_test_run_ranks(&job);
    expect_none("small", &the.small);
    expect_none("all", &the.all);
}

static void callers_stay_out_of_the_kernel(void)
{
    nobody_sleeps("WRING_PROGRESS=caller");
}

static void so_does_the_thread(void)
{
    nobody_sleeps("WRING_PROGRESS=thread");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"callers_stay_out_of_the_kernel", callers_stay_out_of_the_kernel},
        {"so_does_the_thread", so_does_the_thread},
        {NULL, NULL},
    };
    const char *why;
    if (!kernel_calls_init(&why))
        wring_test_skip("%s", why);
    return wring_test_main(argc, argv, cases);
}
