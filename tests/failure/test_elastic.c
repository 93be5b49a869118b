/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks die in a call, and the others go on. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/failure/elastic_job.h"
#include "tests/lib/test.h"

static const char *const tcp_back[] = {"WRING_PROVIDER=tcp", "WRING_ROLLBACK=on", NULL};
static const char *const shm_back[] = {"WRING_PROVIDER=shm", "WRING_ROLLBACK=on", NULL};
static const char *const *const both[] = {tcp_back, shm_back};
static unsigned stopped, goes_on; /* a bit for each rank */
static bool in_time;              /* all that was waited for came */

static void print_times(const struct elastic_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < PROCS_MAX; i++)
        if (atomic_load(&plan->summed_ns[i]) != 0)
            printf("%s: rank %u: error %.1f ms, session %.1f ms, sum %.1f ms after the death\n",
                   name, i, (double)atomic_load(&plan->error_ns[i]) / 1e6,
                   (double)atomic_load(&plan->shrunk_ns[i]) / 1e6,
                   (double)atomic_load(&plan->summed_ns[i]) / 1e6);
}

static void any_rank_may_be_lost(void)
{
    for (int provider = 0; provider < 2; provider++)
        for (uint32_t who = 0; who < 4; who++) {
            struct elastic_plan *plan = elastic_plan_new();
            char name[40];
            plan->deaths[who] = (struct elastic_death){.step = 5, .after_us = 100 * who};
            snprintf(name, sizeof(name), "%s, rank %u", provider == 0 ? "tcp" : "shm", who);
            elastic_check(name, 4, both[provider], plan);
            print_times(plan, name);
        }
}

static void codecs_and_inputs(void)
{
    static const char *const codecs[] = {NULL, "int8+ef", "onebit+ef", "topk+ef"};

    for (uint32_t i = 0; i < 12; i++) {
        struct elastic_plan *plan = elastic_plan_new();
        char name[80];
        plan->codec = codecs[i % 4];
        plan->input = (enum elastic_input)(i / 4);
        plan->out_of_place = i % 2 == 1;
        plan->deaths[(i + i / 4) % 4] = (struct elastic_death){.step = 4, .after_us = 50 * i};
        snprintf(name, sizeof(name), "%s, input %u, %s",
                 codecs[i % 4] != NULL ? codecs[i % 4] : "none", i / 4, i % 8 < 4 ? "tcp" : "shm");
        elastic_check(name, 4, both[i % 8 / 4], plan);
    }
}

static void around_a_ring(void)
{
    static const char *const providers[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};

    for (uint32_t i = 0; i < 2; i++) {
        const char *settings[] = {providers[i], "WRING_ROLLBACK=on", "WRING_SCHEME=ring", NULL};
        struct elastic_plan *plan = elastic_plan_new();
        char name[40];
        plan->out_of_place = i == 1;
        plan->deaths[2 - i] = (struct elastic_death){.step = 4, .after_us = 70 * i};
        snprintf(name, sizeof(name), "around a ring, rank %u", 2 - i);
        elastic_check(name, 4, settings, plan);
    }
}

static void two_at_once(void)
{
    for (uint32_t pair = 0; pair < 6; pair++) {
        static const uint32_t first[] = {0, 0, 0, 1, 1, 2}, second[] = {1, 2, 3, 2, 3, 3};
        struct elastic_plan *plan = elastic_plan_new();
        char name[40];
        plan->codec = "int8+ef";
        plan->deaths[first[pair]] = plan->deaths[second[pair]] =
            (struct elastic_death){.step = 3, .after_us = 40};
        snprintf(name, sizeof(name), "ranks %u and %u", first[pair], second[pair]);
        elastic_check(name, 4, both[pair % 2], plan);
    }
}

static void one_more_meanwhile(void)
{
    for (uint32_t i = 0; i < 8; i++) {
        struct elastic_plan *plan = elastic_plan_new();
        char name[60];
        plan->deaths[i % 4] = (struct elastic_death){.step = 3, .after_us = 10};
        plan->deaths[(i + 1 + i / 4) % 4] =
            (struct elastic_death){.step = 3, .in_shrink = true, .after_us = 3000 * i};
        snprintf(name, sizeof(name), "rank %u, then %u after %u us", i % 4, (i + 1 + i / 4) % 4,
                 3000 * i);
        elastic_check(name, 4, both[i % 2], plan);
    }
}

static void one_of_two_and_all_but_one(void)
{
    for (uint32_t who = 0; who < 2; who++) {
        struct elastic_plan *plan = elastic_plan_new();
        plan->deaths[who].step = 2;
        elastic_check("one of two", 2, both[who], plan);
    }
    struct elastic_plan *plan = elastic_plan_new();
    for (uint32_t i = 0; i < 3; i++)
        plan->deaths[i] = (struct elastic_death){.step = 2, .after_us = 30 * i};
    elastic_check("all but one", 4, tcp_back, plan);
}

#define SMALL 50 /* elements: over shared memory such a step ends in whoever waits for it */

static enum wring_status register_two(struct wring_session *session, float *small, float *coded,
                                      struct wring_bucket **buckets)
{
    struct wring_bucket_params params[] = {
        {.struct_bytes = sizeof(params[0]), .name = "small", .data = small, .elems = SMALL},
        {.struct_bytes = sizeof(params[0]),
         .name = "coded",
         .data = coded,
         .elems = ELEMS,
         .codec = "int8+ef"}};
    enum wring_status status = WRING_OK;

    for (int i = 0; i < 2 && status == WRING_OK; i++)
        status = wring_bucket_register(session, &params[i], &buckets[i]);
    return status == WRING_OK ? wring_session_commit(session) : status;
}

static double held_back(struct wring_bucket *bucket)
{
    struct wring_bucket_stats stats = {.struct_bytes = sizeof(stats)};
    wring_bucket_stats(bucket, &stats);
    return stats.residual_rms;
}

static void fill_two(float *small, float *coded, uint32_t rank)
{
    for (uint64_t i = 0; i < SMALL; i++)
        small[i] = (float)(rank + i);
    for (uint64_t i = 0; i < ELEMS; i++)
        coded[i] = (float)(rank + 1) * (float)(i % 101);
}

/** Of two steps under way a program waits for one, which fails, and forgets the other. */
static int wait_for_one_of_two(struct procs_rank *rank, void *arg)
{
    static float small[SMALL], coded[ELEMS];
    struct elastic_plan *plan = arg;
    struct wring_session *session;
    struct wring_bucket *buckets[2];
    enum wring_status status = wring_session_open(&rank->params, &session);

    if (status == WRING_OK)
        status = register_two(session, small, coded, buckets);
    for (int i = 0; i < 6 && status == WRING_OK; i++) {
        fill_two(small, coded, rank->rank);
        status = wring_bucket_post(buckets[i % 2]);
        if (status == WRING_OK)
            status = wring_bucket_wait(buckets[i % 2], WRING_FOREVER, NULL);
    }
    if (status != WRING_OK)
        return 2;
    double before = held_back(buckets[1]);
    fill_two(small, coded, rank->rank);
    if (rank->rank == 2) {
        for (int i = 0; i < 2000 && atomic_load(&plan->begun) < 2; i++)
            nanosleep(&(struct timespec){0, 10000000}, NULL);
        kill(getpid(), SIGKILL);
    }
    for (int i = 0; i < 2 && status == WRING_OK; i++)
        status = wring_bucket_post(buckets[i]);
    atomic_fetch_add(&plan->begun, 1);
    if (status != WRING_OK || wring_bucket_wait(buckets[1], WRING_FOREVER, NULL) != WRING_ERR_PEER)
        return 3;
    status = wring_session_shrink(session, 0, &session);
    procs_say(rank, "%s, %" PRIu64 " and %" PRIu64 " steps, small[1] %g, coded[1] %g",
              wring_status_text(status), wring_bucket_steps(buckets[0]),
              wring_bucket_steps(buckets[1]), (double)small[1], (double)coded[1]);
    procs_say(rank, "held back %g before and %g after: %s", before, held_back(buckets[1]),
              before > 0 && held_back(buckets[1]) == before ? "kept" : "lost");
    wring_session_close(session);
    return 0;
}

static void a_step_that_nobody_waited_for(void)
{
    const char *const settings[] = {"WRING_PROVIDER=shm", "WRING_ROLLBACK=on", "WRING_BYPASS=never",
                                    NULL};

    start(3, settings, wait_for_one_of_two);
    job.arg = elastic_plan_new();
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    SAID(0, 0, "3 and 3 steps, small[1] 1, coded[1] 1\n", "after: kept");
    SAID(1, 0, "3 and 3 steps, small[1] 2, coded[1] 2\n", "after: kept");
}

/** The last of three ranks dies, once the others have ended the step that all made last. */
static void die_behind_others(const struct procs_rank *rank, struct elastic_plan *plan)
{
    if (rank->rank < 2) {
        atomic_fetch_add(&plan->begun, 1);
        return;
    }
    for (int i = 0; i < 2000 && atomic_load(&plan->begun) < 2; i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    kill(getpid(), SIGKILL);
}

#define SELDOM 3 /* of two buckets one is posted each third time */
#define ROUNDS (2 * SELDOM + 2)

static enum wring_status post_and_wait(struct wring_bucket *bucket)
{
    enum wring_status status = wring_bucket_post(bucket);

    return status == WRING_OK ? wring_bucket_wait(bucket, WRING_FOREVER, NULL) : status;
}

/** A rank dies before a step of the bucket that is posted more often. */
static int lose_one_of_two_rhythms(struct procs_rank *rank, void *arg)
{
    static float small[SMALL], coded[ELEMS];
    struct wring_session *session;
    struct wring_bucket *buckets[2];
    enum wring_status status = wring_session_open(&rank->params, &session);

    if (status == WRING_OK)
        status = register_two(session, small, coded, buckets);
    for (int i = 0; i < ROUNDS && status == WRING_OK; i++) {
        fill_two(small, coded, rank->rank);
        status = i % SELDOM == 0 ? post_and_wait(buckets[0]) : WRING_OK;
        if (status == WRING_OK)
            status = post_and_wait(buckets[1]);
    }
    if (status != WRING_OK)
        return 2;
    double before = held_back(buckets[1]);
    die_behind_others(rank, arg);
    fill_two(small, coded, rank->rank);
    if (post_and_wait(buckets[1]) != WRING_ERR_PEER ||
        wring_session_shrink(session, 0, &session) != WRING_OK)
        return 3;
    procs_say(rank, "%" PRIu64 " and %" PRIu64 " steps", wring_bucket_steps(buckets[0]),
              wring_bucket_steps(buckets[1]));
    procs_say(rank, "held back %g before and %g after: %s", before, held_back(buckets[1]),
              before > 0 && held_back(buckets[1]) == before ? "kept" : "lost");
    wring_session_close(session);
    return 0;
}

/** The one that is posted seldom does not take the other back to its own number of steps. */
static void buckets_of_two_rhythms(void)
{
    for (int provider = 0; provider < 2; provider++) {
        start(3, both[provider], lose_one_of_two_rhythms);
        job.arg = elastic_plan_new();
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        for (uint32_t i = 0; i < 2; i++)
            SAID(i, 0, "3 and 8 steps\n", "after: kept\n");
    }
}

#define STILL 40 /* steps in which nothing changes */

/** What a step of constant inputs comes to, less the sum of these. @return the largest, or -1: the
 *  step failed */
static float step_of_constants(struct wring_bucket *bucket, float *x, uint32_t rank,
                               uint32_t n_ranks)
{
    float most = 0;

    for (uint64_t i = 0; i < ELEMS; i++)
        x[i] = (float)(rank + 1) * (float)(i % 101);
    if (wring_bucket_post(bucket) != WRING_OK ||
        wring_bucket_wait(bucket, WRING_FOREVER, NULL) != WRING_OK)
        return -1;
    for (uint64_t i = 0; i < ELEMS; i++) {
        float want = (float)(n_ranks * (n_ranks + 1) / 2) * (float)(i % 101);
        float off = x[i] < want ? want - x[i] : x[i] - want;
        most = off > most ? off : most;
    }
    return most;
}

/** The last rank dies, once all have sent all that they differ by. */
static int lose_a_share(struct procs_rank *rank, void *arg)
{
    static float x[ELEMS];
    struct wring_session *session;
    struct wring_bucket *bucket;
    struct wring_bucket_params params = {.struct_bytes = sizeof(params),
                                         .name = "differences",
                                         .data = x,
                                         .elems = ELEMS,
                                         .codec = "topk:ratio=0.1:block=256+ef21"};
    float off = 0;

    (void)arg;
    if (wring_session_open(&rank->params, &session) != WRING_OK ||
        wring_bucket_register(session, &params, &bucket) != WRING_OK ||
        wring_session_commit(session) != WRING_OK)
        return 2;
    for (int i = 0; i < STILL && off >= 0; i++)
        off = step_of_constants(bucket, x, rank->rank, 3);
    procs_say(rank, "three ranks are off by %g", (double)off);
    off = step_of_constants(bucket, x, rank->rank, 3); /* so all have ended the one before */
    if (rank->rank == 2)
        kill(getpid(), SIGKILL);
    if ((off >= 0 && step_of_constants(bucket, x, rank->rank, 3) >= 0) ||
        wring_session_shrink(session, 0, &session) != WRING_OK)
        return 3;
    off = step_of_constants(bucket, x, rank->rank, 2);
    procs_say(rank, "two begin %s", off > 0 ? "anew" : "where three were");
    for (int i = 1; i < STILL && off >= 0; i++)
        off = step_of_constants(bucket, x, rank->rank, 2);
    procs_say(rank, "two are off by %g", (double)off);
    wring_session_close(session);
    return 0;
}

/** Else a lost rank's share would stay in all sums. */
static void differences_begin_anew(void)
{
    for (int provider = 0; provider < 2; provider++) {
        start(3, both[provider], lose_a_share);
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        for (uint32_t i = 0; i < 2; i++)
            SAID(i, 0, "three ranks are off by 0\n", "two begin anew\n", "two are off by 0\n");
    }
}

#define HELD_STEPS 10
#define OUT_STEPS 100 /* without input, in which all goes out that is held back */

/** An element's input in a step, of a rank of those two that go on. */
static float of_step(uint64_t i, uint32_t rank, int step)
{
    return step < HELD_STEPS && rank < 2 ? (float)((i * 37 + rank * 11 + step * 29) % 101) / 64 : 0;
}

/** A step, and what its sum lacks. @param missing  in and out, [ELEMS] */
static enum wring_status step_of_two(struct wring_bucket *bucket, float *x, float *missing,
                                     uint32_t rank, int step)
{
    for (uint64_t i = 0; i < ELEMS; i++)
        x[i] = of_step(i, rank, step);
    enum wring_status status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
    for (uint64_t i = 0; i < ELEMS && status == WRING_OK; i++)
        missing[i] += of_step(i, 0, step) + of_step(i, 1, step) - x[i];
    return status;
}

/** Of the elements whose sums the first two ranks own. */
static float most_missing(const float *missing)
{
    float most = 0;

    for (uint64_t i = 0; i < ELEMS / 2; i++)
        most = missing[i] > most ? missing[i] : -missing[i] > most ? -missing[i] : most;
    return most;
}

/** Steps of a bucket whose sums have a residual of their own, as they have with momentum.
 *  @param x  its data, [ELEMS] @param missing  out, [ELEMS] */
static enum wring_status hold_back(struct procs_rank *rank, float *x, float *missing,
                                   struct wring_session **session, struct wring_bucket **bucket)
{
    struct wring_bucket_params params = {.struct_bytes = sizeof(params),
                                         .name = "owed",
                                         .data = x,
                                         .elems = ELEMS,
                                         .codec = "topk:ratio=0.1:block=256+momentum:beta=0+ef"};
    enum wring_status status = wring_session_open(&rank->params, session);

    if (status == WRING_OK)
        status = wring_bucket_register(*session, &params, bucket);
    if (status == WRING_OK)
        status = wring_session_commit(*session);
    for (int step = 0; step < HELD_STEPS && status == WRING_OK; step++)
        status = step_of_two(*bucket, x, missing, rank->rank, step);
    return status;
}

/** The last rank, which gives nothing, dies. */
static int lose_an_owner(struct procs_rank *rank, void *arg)
{
    static float x[ELEMS], missing[ELEMS];
    struct wring_session *session;
    struct wring_bucket *bucket;
    enum wring_status status = hold_back(rank, x, missing, &session, &bucket);

    if (status != WRING_OK)
        return 2;
    die_behind_others(rank, arg);
    procs_say(rank, "%s is held back", most_missing(missing) > 1 ? "much" : "little");
    if (step_of_two(bucket, x, missing, rank->rank, HELD_STEPS) == WRING_OK ||
        wring_session_shrink(session, 0, &session) != WRING_OK)
        return 3;
    for (int step = 0; step < OUT_STEPS && status == WRING_OK; step++)
        status = step_of_two(bucket, x, missing, rank->rank, HELD_STEPS + step);
    procs_say(rank, "%s", most_missing(missing) < 1e-3F ? "all came through" : "some is lost");
    wring_session_close(session);
    return status == WRING_OK ? 0 : 4;
}

static void what_owners_hold_back_goes_out(void)
{
    for (int provider = 0; provider < 2; provider++) {
        start(3, both[provider], lose_an_owner);
        job.arg = elastic_plan_new();
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        for (uint32_t i = 0; i < 2; i++)
            SAID(i, 0, "much is held back\n", "all came through\n");
    }
}

/** Nothing is kept of the step before, and the last rank dies. */
static int lose_what_is_held_back(struct procs_rank *rank, void *arg)
{
    static float x[ELEMS], missing[ELEMS];
    struct wring_session *session;
    struct wring_bucket *bucket;
    enum wring_status status = hold_back(rank, x, missing, &session, &bucket);
    uint64_t any = 0;

    if (status != WRING_OK)
        return 2;
    die_behind_others(rank, arg);
    if (step_of_two(bucket, x, missing, rank->rank, HELD_STEPS) == WRING_OK ||
        wring_session_shrink(session, 0, &session) != WRING_OK)
        return 3;
    status = step_of_two(bucket, x, missing, rank->rank, HELD_STEPS);
    for (uint64_t i = 0; i < ELEMS; i++)
        any += x[i] != 0;
    procs_say(rank, "%s comes out of nothing", any > 0 ? "something" : "nothing");
    wring_session_close(session);
    return status == WRING_OK ? 0 : 4;
}

/** A rank that hears of the loss before it begins the step keeps what it has, as it may. */
static bool has_changed_residual(uint32_t process)
{
    return strstr(job.texts[process], "has changed its residual") != NULL;
}

#define JOBS 5 /* until both begin the step that fails */

/** Without WRING_ROLLBACK both residuals begin anew, that of sums, too. */
static void residuals_begin_anew(void)
{
    static const char *const plain[] = {"WRING_PROVIDER=tcp", "WRING_ROLLBACK=off", NULL};

    bool ended = true, begun = false;

    for (int i = 0; i < JOBS && ended && !begun; i++) {
        start(3, plain, lose_what_is_held_back);
        job.arg = elastic_plan_new();
        ended = procs_run(&job, DEADLINE_S);
        begun = has_changed_residual(0) && has_changed_residual(1);
    }
    CHECK(ended, "hangs");
    for (uint32_t i = 0; i < 2; i++)
        SAID(i, 0, "has changed its residual", "nothing comes out of nothing\n");
}

#define PARTED_S 60 /* for what takes twice WRING_PEER_TIMEOUT and WRING_JOIN_TIMEOUT */
#define PARTED_DEADLINE_S (4 * PARTED_S)
#define PARTED_TRIES 3 /* until none is silent but those that are stopped */

/** Those that run are through: some have ended, the others have the session of those that go on. */
static void await_outcome(const struct procs_job *running)
{
    struct elastic_plan *plan = running->arg;
    uint64_t limit_ns = wring_deadline_in(PARTED_S * WRING_NS_PER_S);
    unsigned going_on = 0;

    for (uint32_t i = 0; i < running->ranks; i++)
        if (!(stopped >> i & 1) && !(goes_on >> i & 1))
            in_time &= procs_await_end(running, i, PARTED_S);
        else
            going_on += !(stopped >> i & 1);
    while (atomic_load(&plan->settled) < going_on && wring_now_ns() < limit_ns)
        nanosleep(&(struct timespec){0, 20000000}, NULL);
    in_time &= atomic_load(&plan->settled) == going_on;
}

/** Stopped for longer than others wait for signs of life, as if the network had parted. */
static void stop_and_wake(const struct procs_job *running)
{
    struct elastic_plan *plan = running->arg;
    const struct timespec pause = {0, 20000000};

    for (int i = 0; i < 1000 && atomic_load(&plan->begun) < running->ranks; i++)
        nanosleep(&pause, NULL);
    for (uint32_t i = 0; i < running->ranks; i++)
        if (stopped >> i & 1)
            kill(running->pids[i], SIGSTOP);
    await_outcome(running);
    for (uint32_t i = 0; i < running->ranks; i++)
        kill(running->pids[i], SIGCONT);
    for (uint32_t i = 0; i < running->ranks; i++)
        if (!(goes_on >> i & 1))
            in_time &= procs_await_end(running, i, PARTED_S);
    for (uint32_t i = 0; i < running->ranks && !in_time; i++)
        kill(running->pids[i], SIGKILL); /* what it waits for does not come */
    atomic_store(&plan->released, true);
}

/** One that was not stopped had no processor for as long, and others say so. */
static bool was_another_silent(void)
{
    bool any = false;

    for (uint32_t i = 0; i < job.ranks; i++) {
        char line[64];
        snprintf(line, sizeof(line), "rank %u gave no sign of life", i);
        for (uint32_t k = 0; k < job.ranks && !(stopped >> i & 1); k++)
            any |= strstr(job.texts[k], line) != NULL;
    }
    return any;
}

/** @return each goes on, or ends, as it has to */
static bool run_parted(uint32_t n)
{
    static const char *const watchful[] = {"WRING_PROVIDER=tcp",    "WRING_ROLLBACK=on",
                                           "WRING_HEARTBEAT=100ms", "WRING_PEER_TIMEOUT=8s",
                                           "WRING_JOIN_TIMEOUT=8s", NULL};
    struct elastic_plan *plan = elastic_plan_new();

    plan->elems = 1000;
    plan->ends_with = n;
    start(4, watchful, elastic_run);
    job.arg = plan;
    job.meddle = stop_and_wake;
    in_time = true;
    in_time &= procs_run(&job, PARTED_DEADLINE_S);
    bool right = in_time;
    for (uint32_t k = 0; k < 4; k++)
        right &= job.codes[k] == (goes_on >> k & 1 ? 0 : 4);
    return right;
}

/** Ranks that are stopped live: one side goes on at most, and it is the right one. */
static void one_side_of_two_goes_on(void)
{
    static const struct {
        unsigned stopped, go_on;
        uint32_t n;
    } cases[] = {{1u << 2, 0xb, 3}, {1u << 1 | 1u << 3, 0x5, 2}, {1u << 0 | 1u << 1, 0x3, 2}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        stopped = cases[i].stopped;
        goes_on = cases[i].go_on;
        bool right = run_parted(cases[i].n);
        for (int again = 1; again < PARTED_TRIES && !right && was_another_silent(); again++)
            right = run_parted(cases[i].n);
        CHECK(in_time, "stopped %x: hangs", stopped);
        for (uint32_t k = 0; k < 4 && !right; k++)
            CHECK(job.codes[k] == (goes_on >> k & 1 ? 0 : 4),
                  "stopped %x: rank %u (code %d) said:\n%s", stopped, k, job.codes[k],
                  job.texts[k]);
    }
}

static int make_door(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, bytes) == 0 && listen(fd, 16) == 0 &&
              getsockname(fd, (struct sockaddr *)&address, &bytes) == 0,
          "no socket");
    *port = ntohs(address.sin_port);
    return fd;
}

static void newcomers_come_in(void)
{
    static const char *const codecs[] = {NULL, "int8+ef", "onebit+ef"};

    for (uint32_t i = 0; i < 6; i++) {
        struct elastic_plan *plan = elastic_plan_new();
        char name[60], door_fd[32];
        int fd = make_door(&plan->door_port);
        const char *settings[] = {both[i % 2][0], "WRING_ROLLBACK=on", door_fd, NULL};

        snprintf(door_fd, sizeof(door_fd), "WRING_DOOR_FD=%d", fd);
        plan->codec = codecs[i % 3];
        plan->grows = true;
        plan->newcomers = 1 + i % 2;
        uint32_t ranks = 1 + i % 4;
        if (ranks > 1) /* in a step: one that dies while others come in turns these away */
            plan->deaths[i % ranks] = (struct elastic_death){.step = 4, .awaited = true};
        snprintf(name, sizeof(name), "%u ranks, %u newcomers", ranks, plan->newcomers);
        elastic_check(name, ranks, settings, plan);
        close(fd);
    }
}

/** Opens a session where ranks let newcomers in. */
static enum wring_status knock(struct procs_rank *rank, uint16_t port,
                               struct wring_session **session)
{
    static char door[64];
    uint32_t n = 0;

    snprintf(door, sizeof(door), "WRING_JOIN=127.0.0.1:%u", port);
    while (rank->settings[n] != NULL)
        n++;
    rank->settings[n] = door;
    rank->params.size = 0;
    rank->params.root = NULL;
    return wring_session_open(&rank->params, session);
}

/** Until a third one has come. */
static enum wring_status let_one_in(struct wring_session **session)
{
    enum wring_status status = WRING_OK;

    while (status == WRING_OK && wring_session_size(*session) < 3) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        status = wring_session_grow(*session, 0, session);
    }
    return status;
}

/** One bucket is posted more often than the other. */
static int grow_with_two_buckets(struct procs_rank *rank, void *arg)
{
    static float small[SMALL], coded[ELEMS];
    const struct elastic_plan *plan = arg;
    bool comes = rank->rank >= rank->size;
    struct wring_session *session;
    struct wring_bucket *buckets[2];
    enum wring_status status = comes ? knock(rank, plan->door_port, &session)
                                     : wring_session_open(&rank->params, &session);

    if (status == WRING_OK)
        status = register_two(session, small, coded, buckets);
    for (int i = 0; i < 6 && status == WRING_OK && !comes; i++) {
        fill_two(small, coded, rank->rank);
        status = wring_bucket_post(buckets[i > 0]);
        if (status == WRING_OK)
            status = wring_bucket_wait(buckets[i > 0], WRING_FOREVER, NULL);
    }
    if (status != WRING_OK)
        return 2;
    double before = held_back(buckets[1]);
    if (!comes)
        status = let_one_in(&session);
    if (status != WRING_OK)
        return 3;
    procs_say(rank, "held back %g before and %g after: %s", before, held_back(buckets[1]),
              before > 0 && held_back(buckets[1]) == before ? "kept" : "lost");
    status = wring_session_share(session, NULL, 0);
    procs_say(rank, "%s, %" PRIu64 " and %" PRIu64 " steps", wring_status_text(status),
              wring_bucket_steps(buckets[0]), wring_bucket_steps(buckets[1]));
    wring_session_close(session);
    return 0;
}

/** Nothing has failed, so nothing goes back. */
static void no_step_is_undone_for_a_newcomer(void)
{
    for (int provider = 0; provider < 2; provider++) {
        struct elastic_plan *plan = elastic_plan_new();
        char door_fd[32];
        int fd = make_door(&plan->door_port);
        const char *settings[] = {both[provider][0], "WRING_ROLLBACK=on", "WRING_BYPASS=never",
                                  door_fd, NULL};

        snprintf(door_fd, sizeof(door_fd), "WRING_DOOR_FD=%d", fd);
        start(2, settings, grow_with_two_buckets);
        job.arg = plan;
        job.processes = 3;
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        for (uint32_t i = 0; i < 2; i++)
            SAID(i, 0, "after: kept\n", "1 and 5 steps\n");
        SAID(2, 0, "1 and 5 steps\n");
        close(fd);
    }
}

static char said[4096];

static void keep_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module;
    snprintf(said, sizeof(said), "%s", text);
}

static void calls_in_the_wrong_place_are_refused(void)
{
    const char *const nowhere[] = {"WRING_JOIN=127.0.0.1:1", "WRING_JOIN_TIMEOUT=1s", NULL};
    const char *const open_door[] = {"WRING_DOOR=0.0.0.0", NULL};
    struct wring_session_params params = {.struct_bytes = sizeof(params), .log = keep_line};
    struct wring_session *session, *other = NULL;
    float weight = 1;

    REQUIRE(wring_session_open(&params, &session) == WRING_OK, "open: %s", said);
    CHECK(wring_session_shrink(session, 0, &other) == WRING_ERR_INVALID && other == NULL &&
              strstr(said, "has not failed") != NULL,
          "shrink: %s", said);
    CHECK(wring_session_grow(session, 0, &other) == WRING_OK && other == session, "grow: %s", said);
    CHECK(wring_session_share(session, &weight, sizeof(weight)) == WRING_OK && weight == 1,
          "share: %s", said);
    CHECK(wring_session_share(session, NULL, 4) == WRING_ERR_INVALID, "share of NULL");
    wring_session_abort(session);
    CHECK(wring_session_shrink(session, 0, &other) == WRING_ERR_INVALID &&
              strstr(said, "one rank") != NULL,
          "shrink of one: %s", said);
    CHECK(wring_session_grow(session, 0, &other) == WRING_ERR_CANCELLED, "grow after an abort");
    wring_session_close(session);

    params.settings = nowhere;
    CHECK(wring_session_open(&params, &session) == WRING_ERR_PEER &&
              strstr(said, "no rank let this one in") != NULL,
          "join: %s", said);
    params.settings = open_door;
    CHECK(wring_session_open(&params, &session) == WRING_ERR_AUTH &&
              strstr(said, "needs a key") != NULL,
          "door: %s", said);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"any_rank_may_be_lost", any_rank_may_be_lost},
        {"codecs_and_inputs", codecs_and_inputs},
        {"around_a_ring", around_a_ring},
        {"two_at_once", two_at_once},
        {"one_more_meanwhile", one_more_meanwhile},
        {"one_of_two_and_all_but_one", one_of_two_and_all_but_one},
        {"buckets_of_two_rhythms", buckets_of_two_rhythms},
        {"a_step_that_nobody_waited_for", a_step_that_nobody_waited_for},
        {"differences_begin_anew", differences_begin_anew},
        {"what_owners_hold_back_goes_out", what_owners_hold_back_goes_out},
        {"residuals_begin_anew", residuals_begin_anew},
        {"one_side_of_two_goes_on", one_side_of_two_goes_on},
        {"newcomers_come_in", newcomers_come_in},
        {"no_step_is_undone_for_a_newcomer", no_step_is_undone_for_a_newcomer},
        {"calls_in_the_wrong_place_are_refused", calls_in_the_wrong_place_are_refused},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
