/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs under each fault: right results where only time is lost, else an end on every rank. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/procs.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define ELEMS 60000
#define DEADLINE_S 90
#define STEP_NS (60 * WRING_NS_PER_S)

struct task {
    unsigned steps;
    const char *codec;
    bool check; /* every sum must be exact */
};

static struct procs_job job; /* too large for a stack frame that is read easily */

static const char *const names[] = {"tcp", "shm"};

static float input(uint32_t rank, unsigned step, unsigned i)
{
    return (float)((i * 7 + step * 13 + rank * 101) % 1000); /* sums of such are exact */
}

static void fill(float *data, uint32_t rank, unsigned step)
{
    for (unsigned i = 0; i < ELEMS; i++)
        data[i] = input(rank, step, i);
}

static unsigned count_wrong(const float *data, uint32_t size, unsigned step)
{
    unsigned wrong = 0;
    for (unsigned i = 0; i < ELEMS; i++) {
        float want = 0;
        for (uint32_t rank = 0; rank < size; rank++)
            want += input(rank, step, i);
        wrong += data[i] != want;
    }
    return wrong;
}

static enum wring_status run_steps(struct procs_rank *rank, struct wring_session *session,
                                   const struct task *task, unsigned *wrong)
{
    struct wring_bucket *bucket;
    void *data;
    enum wring_status status = wring_buffer_alloc(session, ELEMS * sizeof(float), &data);
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = ELEMS, .op = WRING_SUM, .codec = task->codec};
    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    for (unsigned step = 0; step < task->steps && status == WRING_OK; step++) {
        fill(data, rank->rank, step);
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, STEP_NS, NULL);
        if (status == WRING_OK && task->check)
            *wrong += count_wrong(data, rank->size, step);
    }
    return status;
}

/** Exit codes: 0 all done and right, 2 no session, 3 ended with an error, 4 wrong sums. */
static int run_rank(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;
    unsigned wrong = 0;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status != WRING_OK) {
        procs_say(rank, "open %s", wring_status_text(status));
        return 2;
    }
    status = run_steps(rank, session, arg, &wrong);
    if (status != WRING_OK)
        procs_say_end(rank, session, status);
    wring_session_close(session);
    procs_say(rank, "closed, %u wrong", wrong);
    if (wrong > 0)
        return 4;
    return status == WRING_OK ? 0 : 3;
}

/** @return false when a rank had to be killed */
static bool run(uint32_t ranks, const char *provider, const char *fault, const char *more,
                const struct task *task)
{
    char settings[2][128];
    const char *list[] = {
        settings[0], settings[1], "WRING_HEARTBEAT=100ms", "WRING_PEER_TIMEOUT=10s", more, NULL};
    memset(&job, 0, sizeof(job));
    snprintf(settings[0], sizeof(settings[0]), "WRING_PROVIDER=%s", provider);
    snprintf(settings[1], sizeof(settings[1]), "WRING_FAULT=%s", fault);
    job.ranks = ranks;
    job.settings = list;
    job.run = run_rank;
    job.arg = (void *)(uintptr_t)task;
    bool ended = procs_run(&job, DEADLINE_S);
    CHECK(ended, "%s, %s: hangs", provider, fault);
    return ended;
}

static void check_codes(const char *what, int code, const char *line)
{
    for (uint32_t i = 0; i < job.ranks; i++)
        CHECK(job.codes[i] == code && strstr(job.texts[i], line) != NULL,
              "%s: rank %u (code %d) said:\n%s", what, i, job.codes[i], job.texts[i]);
}

static void slow_and_late_is_right(void)
{
    static const struct task task = {.steps = 12, .codec = "none", .check = true};
    static const char *const faults[] = {"delay=3ms,jitter=4ms,seed=1", "delay=20ms,rank=1",
                                         "rate=400mbit,delay=1ms,jitter=500us"};
    for (int p = 0; p < 2; p++)
        for (int f = 0; f < 3; f++) {
            run(3, names[p], faults[f], NULL, &task);
            check_codes(faults[f], 0, "closed, 0 wrong");
        }
}

static void disconnect_is_named_on_all_ranks(void)
{
    static const struct task task = {.steps = 100000, .codec = "int8+ef"};
    static const char *const faults[] = {"disconnect=after:40,rank=1",
                                         "disconnect=after:3mb,rank=0", "disconnect=0.01,seed=3"};
    for (int p = 0; p < 2; p++)
        for (int f = 0; f < 3; f++) {
            run(4, names[p], faults[f], NULL, &task);
            check_codes(faults[f], 3, "end peer lost, rank ");
            check_codes(faults[f], 3, "is lost");
        }
    const char *cause = NULL; /* unless rank 0's word of it is there first */
    for (int i = 0; i < 10 && cause == NULL; i++) {
        run(2, "tcp", "disconnect=after:5,rank=1", NULL, &task);
        cause = strstr(job.texts[1], "cut after 5 puts");
    }
    CHECK(cause != NULL, "rank 1 said:\n%s", job.texts[1]);
}

/** Some rank says what is wrong, and does not just leave. */
static void check_named(const char *what)
{
    bool named = false;
    for (uint32_t i = 0; i < job.ranks; i++)
        named |= strstr(job.texts[i], "damaged on the way") != NULL ||
                 strstr(job.texts[i], "malformed frame") != NULL ||
                 strstr(job.texts[i], "without a checksum") != NULL;
    for (uint32_t i = 0; i < job.ranks; i++)
        CHECK(named, "%s: nobody says why; rank %u said:\n%s", what, i, job.texts[i]);
}

static void checksums_end_the_job_before_a_sum_is_wrong(void)
{
    static const struct task task = {.steps = 100000, .codec = "none", .check = true};
    for (int seed = 20; seed < 26; seed++) { /* that let the session open */
        char fault[64];
        snprintf(fault, sizeof(fault), "corrupt=0.0005,seed=%d", seed);
        run(3, "tcp", fault, "WRING_TCP_CHECKSUM=on", &task);
        check_codes(fault, 3, "closed, 0 wrong");
        check_codes(fault, 3, "end peer lost, rank ");
        check_named(fault);
    }
}

/** Damage to the first word on a connection, at whichever end it comes. */
static void damage_as_ranks_connect_is_named(void)
{
    static const struct task task = {.steps = 3, .codec = "none", .check = true};
    static const char *const faults[] = {"corrupt=1,rank=0", "corrupt=1,rank=1"};
    for (int i = 0; i < 10; i++) {
        run(2, "tcp", faults[i % 2], "WRING_TCP_CHECKSUM=on", &task);
        for (uint32_t rank = 0; rank < job.ranks; rank++) /* 2: as it made the group of all */
            CHECK(job.codes[rank] == 2 || job.codes[rank] == 3, "%s: rank %u (code %d) said:\n%s",
                  faults[i % 2], rank, job.codes[rank], job.texts[rank]);
        check_named(faults[i % 2]);
    }
}

/** Nothing protects the bytes: sums may be wrong, but every rank ends, and none crashes. */
static void corruption_without_checksums_only_ends(void)
{
    static const struct task tasks[] = {
        {.steps = 150, .codec = "int8+ef"},
        {.steps = 150, .codec = "topk:ratio=0.1:block=256+ef"},
        {.steps = 150, .codec = "none"},
    };
    unsigned ended_early = 0;
    for (int p = 0; p < 2; p++)
        for (int t = 0; t < 3; t++) {
            char fault[64];
            snprintf(fault, sizeof(fault), "corrupt=0.02,seed=%d", p * 3 + t);
            run(3, names[p], fault, NULL, &tasks[t]);
            for (uint32_t i = 0; i < job.ranks; i++) {
                /* 2: the session did not open, as its ranks make their group over the link */
                CHECK(job.codes[i] == 0 || job.codes[i] == 2 || job.codes[i] == 3,
                      "%s: rank %u (code %d) said:\n%s", fault, i, job.codes[i], job.texts[i]);
                ended_early += job.codes[i] == 3;
            }
        }
    CHECK(ended_early > 0, "of all those bytes none did any harm");
}

static void bad_schedules_are_refused(void)
{
    static const struct task task = {.steps = 1, .codec = "none"};
    run(2, "tcp", "delay=5", NULL, &task);
    check_codes("delay=5", 2, "delay=5: needs a time up to 10s");
    run(2, "shm", "rank=2", NULL, &task);
    check_codes("rank=2", 2, "the job has only the ranks 0 to 1");
}

static void drop_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)arg, (void)level, (void)module, (void)text;
}

static void run_until_lost(struct wring_session *session, uint32_t rank, void *arg)
{
    struct wring_bucket *bucket;
    struct wring_error_detail detail = {.rank = -1};
    void *data;
    (void)arg;
    REQUIRE(wring_buffer_alloc(session, ELEMS * sizeof(float), &data) == WRING_OK, "alloc");
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = ELEMS, .codec = "int8+ef"};
    enum wring_status status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    for (unsigned step = 0; step < 100000 && status == WRING_OK; step++) {
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, STEP_NS, NULL);
    }
    wring_session_error(session, &detail);
    CHECK(status == WRING_ERR_PEER && detail.rank >= 0, "rank %u: %s, rank %d, %s", rank,
          wring_status_text(status), detail.rank, detail.text);
}

/** Sessions that share a process share nothing else: each sees the end, none disturbs another. */
static void threads_of_one_process_end_alike(void)
{
    static const char *const faults[] = {"WRING_FAULT=disconnect=after:60,rank=2,delay=1ms",
                                         "WRING_FAULT=disconnect=0.005,jitter=300us,seed=8"};
    static const char *const providers[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};
    for (int p = 0; p < 2; p++)
        for (int f = 0; f < 2; f++) {
            const char *settings[] = {providers[p], faults[f], NULL};
            const struct wring_test_job threads = {
                .ranks = 4, .settings = settings, .run = run_until_lost, .log = drop_line};
            wring_test_run_ranks(&threads);
        }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"slow_and_late_is_right", slow_and_late_is_right},
        {"disconnect_is_named_on_all_ranks", disconnect_is_named_on_all_ranks},
        {"checksums_end_the_job_before_a_sum_is_wrong",
         checksums_end_the_job_before_a_sum_is_wrong},
        {"damage_as_ranks_connect_is_named", damage_as_ranks_connect_is_named},
        {"corruption_without_checksums_only_ends", corruption_without_checksums_only_ends},
        {"threads_of_one_process_end_alike", threads_of_one_process_end_alike},
        {"bad_schedules_are_refused", bad_schedules_are_refused},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
