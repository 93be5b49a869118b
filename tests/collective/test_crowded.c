/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More ranks than cores. Each bound to one: who shares a core and who runs beside is known, a step
 * on much mapped data is slept through, and what comes out is right. Ranks that are not bound
 * spread over the cores.
 */
#include <sched.h>

#include "base/clock.h"
#include "runtime/session/session.h"
#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define RANKS 4
#define STEPS 5
#define DEADLINE_S 120
#define STEPS_UNEVEN 10000           /* a scheduler alone takes several times as many */
#define BUSY_NS (3 * WRING_NS_PER_S) /* for them: other programs want the cores, too */
#define BUSY_CODE 3
#define TRIES 5
#define LARGE ((8ul << 20) / sizeof(float))

static const uint64_t sizes[] = {2, 1000, 16384, LARGE}; /* of one hop, of two, slept through */
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/** The core of a rank: one of the first that we may use, or -1. */
static int core_of(uint32_t rank, uint32_t cores)
{
    cpu_set_t usable;
    sched_getaffinity(0, sizeof(usable), &usable);
    int left = (int)(rank % cores);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &usable) && left-- == 0)
            return core;
    return -1;
}

static bool bind_to(int core)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    return sched_setaffinity(0, sizeof(one), &one) == 0;
}

static void check_neighbours(const struct wring_session *session, uint32_t rank, uint32_t cores)
{
    CHECK(session->fabric->crowded, "%u ranks on %u cores are not too many", RANKS, cores);
    for (uint32_t i = 0; i < RANKS; i++)
        if (i != rank)
            CHECK(session->fabric->peers[i].beside == (i % cores != rank % cores), "rank %u", i);
}

static enum wring_status reduce_once(struct wring_bucket *bucket, float *data, uint64_t n,
                                     uint32_t rank, uint64_t step)
{
    for (uint64_t i = 0; i < n; i++)
        data[i] = (float)((i + step) % 1000 + rank);
    enum wring_status status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < n && status == WRING_OK; i++)
        wrong += data[i] != (float)((i + step) % 1000 * RANKS + RANKS * (RANKS - 1) / 2);
    CHECK(wrong == 0, "%llu elements of %llu are wrong", (unsigned long long)wrong,
          (unsigned long long)n);
    return status;
}

/** Who sleeps where is up to the scheduler; that nobody does cannot be. */
static enum wring_status check_naps(struct wring_session *session, uint64_t naps)
{
    int64_t all = (int64_t)naps;
    enum wring_status status = wring_allreduce(wring_session_world(session), &all, &all, 1,
                                               WRING_I64, WRING_SUM, NULL, NULL);
    CHECK(all > 0, "nobody slept through a large step");
    return status;
}

static enum wring_status run_steps(struct wring_session *session, uint32_t rank)
{
    struct wring_bucket *buckets[SIZES];
    float *data[SIZES];
    enum wring_status status = WRING_OK;

    for (size_t b = 0; b < SIZES && status == WRING_OK; b++) {
        char name[16];
        snprintf(name, sizeof(name), "b%zu", b);
        status = wring_buffer_alloc(session, sizes[b] * sizeof(float), (void **)&data[b]);
        struct wring_bucket_params params = {.name = name, .data = data[b], .elems = sizes[b]};
        if (status == WRING_OK)
            status = wring_bucket_register(session, &params, &buckets[b]);
    }
    if (status == WRING_OK)
        status = wring_session_commit(session);
    uint64_t naps = 0;
    for (uint64_t i = 0; i < STEPS * SIZES && status == WRING_OK; i++) {
        uint64_t slept = wring_progress_sleeps(session->progress);
        size_t b = i % SIZES;
        status = reduce_once(buckets[b], data[b], sizes[b], rank, i);
        naps += sizes[b] == LARGE ? wring_progress_sleeps(session->progress) - slept : 0;
    }
    return status == WRING_OK ? check_naps(session, naps) : status;
}

static int run_rank(struct procs_rank *rank, void *arg)
{
    uint32_t cores = *(const uint32_t *)arg;
    struct wring_session *session = NULL;
    if (!bind_to(core_of(rank->rank, cores)))
        return 2;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK) {
        check_neighbours(session, rank->rank, cores);
        status = run_steps(session, rank->rank);
    }
    procs_say(rank, "%s", wring_status_text(status));
    wring_session_close(session);
    return status == WRING_OK && wring_test_failures() == 0 ? 0 : 1;
}

static void run_on(uint32_t cores)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller",
                                           "WRING_SPIN=1s", NULL};
    static struct procs_job job;
    job = (struct procs_job){.ranks = RANKS, .settings = settings, .run = run_rank, .arg = &cores};
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t r = 0; r < RANKS; r++)
        CHECK(job.codes[r] == 0, "%u cores, rank %u (code %d) said %s", cores, r, job.codes[r],
              job.texts[r]);
}

static void all_share_one_core(void)
{
    run_on(1);
}

static void two_share_each(void)
{
    if (core_of(1, 2) >= 0)
        run_on(2);
    else
        printf("there is but one core\n");
}

/** Be on that core, but not bound to it. */
static bool go_to(int core)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof(usable), &usable) == 0 && bind_to(core) &&
           sched_setaffinity(0, sizeof(usable), &usable) == 0;
}

/** Small steps, until two ranks run on each of two cores. @param steps out, that it took
 *  @param busy  out: they do not, and others have kept them from it, maybe */
static enum wring_status step_until_even(struct wring_session *session, struct wring_bucket *bucket,
                                         float *data, uint32_t rank, uint64_t *steps, bool *busy)
{
    int64_t cores[RANKS] = {0}, mine;
    enum wring_status status = WRING_OK;
    uint64_t began_ns = wring_now_ns();
    bool even = false;

    for (*steps = 0; *steps < STEPS_UNEVEN && !even && status == WRING_OK; ++*steps) {
        status = reduce_once(bucket, data, sizes[0], rank, *steps);
        if (*steps % 100 != 0 || status != WRING_OK)
            continue;
        mine = sched_getcpu();
        status =
            wring_allgather(wring_session_world(session), &mine, cores, 1, WRING_I64, NULL, NULL);
        int as_first = 0;
        for (int i = 0; i < RANKS; i++)
            as_first += cores[i] == cores[0];
        even = as_first == RANKS / 2;
    }
    *busy = !even && wring_now_ns() - began_ns > BUSY_NS;
    CHECK(even || *busy, "ranks run on cores %d %d %d %d", (int)cores[0], (int)cores[1],
          (int)cores[2], (int)cores[3]);
    return status;
}

static int run_uneven(struct procs_rank *rank, void *arg)
{
    struct wring_session *session = NULL;
    struct wring_bucket *bucket = NULL;
    float *data = NULL;
    uint64_t steps = 0;
    bool busy = false;
    (void)arg;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK)
        status = wring_buffer_alloc(session, sizes[0] * sizeof(float), (void **)&data);
    struct wring_bucket_params params = {.name = "b", .data = data, .elems = sizes[0]};
    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    if (!go_to(core_of(rank->rank == RANKS - 1, 2)))
        return 2;
    if (status == WRING_OK)
        status = step_until_even(session, bucket, data, rank->rank, &steps, &busy);
    procs_say(rank, "%s, %u steps", wring_status_text(status), (unsigned)steps);
    wring_session_close(session);
    if (status != WRING_OK || wring_test_failures() > 0)
        return 1;
    return busy ? BUSY_CODE : 0;
}

/** Three ranks on one core and one on the other: that does not last. */
static void ranks_spread(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_PROGRESS=caller", NULL};
    static struct procs_job job;
    cpu_set_t usable;

    if (sched_getaffinity(0, sizeof(usable), &usable) != 0 || CPU_COUNT(&usable) != 2) {
        printf("not two cores\n");
        return;
    }
    bool busy = true;
    for (int tries = 0; busy && tries < TRIES; tries++) {
        job = (struct procs_job){.ranks = RANKS, .settings = settings, .run = run_uneven};
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        busy = false;
        for (uint32_t r = 0; r < RANKS; r++)
            busy |= job.codes[r] == BUSY_CODE;
    }
    for (uint32_t r = 0; r < RANKS; r++)
        CHECK(job.codes[r] == 0, "rank %u (code %d) said %s", r, job.codes[r], job.texts[r]);
    printf("rank 0 said %s\n", job.texts[0]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"all_share_one_core", all_share_one_core},
        {"two_share_each", two_share_each},
        {"ranks_spread", ranks_spread},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
