/* SPDX-License-Identifier: Apache-2.0 */
/* Where ranks were when a job fails, and when somebody asks. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/failure/failing_job.h"
#include "tests/lib/lines.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define CALLS 3
#define N 1000
#define LATE 1 /* the rank that is behind, unless a case says otherwise */
#define JOBS 5 /* until all ranks say in time where they are */

static const char *const tcp_hasty[] = {"WRING_PROVIDER=tcp", "WRING_TIMEOUT=6s", NULL};
static const char *const shm_hasty[] = {"WRING_PROVIDER=shm", "WRING_TIMEOUT=6s", NULL};
static const char *const watchful[] = {"WRING_PROVIDER=tcp", "WRING_HEARTBEAT=100ms",
                                       "WRING_PEER_TIMEOUT=5s", NULL};

static float data[N];

static void nap(void)
{
    nanosleep(&(struct timespec){0, 50000000}, NULL);
}

static enum wring_status sum(struct wring_group *group, uint64_t elems)
{
    return wring_allreduce(group, data, data, elems, WRING_F32, WRING_SUM, NULL, NULL);
}

/** Tell a rank that we have called what is to be called. */
static enum wring_status tell(struct wring_session *session, uint32_t rank)
{
    return wring_send(wring_session_world(session), NULL, 0, rank, 7, NULL, NULL);
}

/** So many have told us so; and the library has begun what they called. */
static enum wring_status hear(struct wring_session *session, uint32_t n)
{
    enum wring_status status = WRING_OK;
    for (uint32_t i = 0; i < n && status == WRING_OK; i++)
        status = wring_recv(wring_session_world(session), NULL, 0, WRING_ANY_SOURCE, 7, NULL, NULL);
    for (int i = 0; i < 10; i++)
        nap();
    return status;
}

/** Wait until others have given up. */
static void sleep_over(struct wring_session *session)
{
    uint64_t until_ns = wring_deadline_in(DEADLINE_S * WRING_NS_PER_S);
    while (wring_session_error(session, NULL) == WRING_OK && wring_now_ns() < until_ns)
        nap();
}

static void die(struct wring_session *session)
{
    (void)session;
    kill(getpid(), SIGKILL);
}

static void stop(struct wring_session *session)
{
    (void)session;
    kill(getpid(), SIGSTOP);
}

/** One rank is different: what it does while the others wait in the fourth call. */
struct story {
    uint32_t rank;
    void (*meanwhile)(struct wring_session *session);
};

static int run_calls(struct procs_rank *rank, void *arg)
{
    const struct story *story = arg;
    struct wring_session *session;
    struct wring_request *request;

    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    struct wring_group *world = wring_session_world(session);
    enum wring_status status = WRING_OK;
    for (int i = 0; i < CALLS && status == WRING_OK; i++)
        status = sum(world, N);
    if (status == WRING_OK && rank->rank == story->rank) {
        status = hear(session, rank->size - 1);
        story->meanwhile(session);
        status = sum(world, N);
    } else if (status == WRING_OK) {
        status = wring_allreduce(world, data, data, N, WRING_F32, WRING_SUM, NULL, &request);
        if (status == WRING_OK)
            status = tell(session, story->rank);
        if (status == WRING_OK)
            status = wring_request_wait(request, WRING_FOREVER, NULL);
    }
    procs_say_end(rank, session, status);
    wring_session_close(session);
    return status == WRING_OK ? 0 : 3;
}

/** How often a rank said that. */
static unsigned count(uint32_t rank, const char *what)
{
    unsigned n = 0;
    for (const char *at = job.texts[rank]; (at = strstr(at, what)) != NULL; at += strlen(what))
        n++;
    return n;
}

/** One rank has logged the table, and it alone. */
static void check_table(uint32_t reporter, uint32_t gone)
{
    for (uint32_t i = 0; i < job.ranks; i++)
        if (i != gone)
            CHECK((count(i, "log where: ") > 0) == (i == reporter), "rank %u said:\n%s", i,
                  job.texts[i]);
}

/** A rank that has no processor for 400 ms does not say where it is before the table is made. If it
 *  is the one that makes it, the others have left by then. */
static bool is_silence(const char *text)
{
    return strstr(text, " not say where ") != NULL || strstr(text, " are lost; ") != NULL ||
           strstr(text, " has closed its session; ") != NULL ||
           strstr(text, " have closed their sessions; ") != NULL;
}

static bool any_is_silent(void)
{
    bool silent = false;
    for (uint32_t i = 0; i < job.ranks; i++)
        silent |= is_silence(job.texts[i]);
    return silent;
}

/** A job, and another one where a rank had no processor to say where it is. */
static void run_job(uint32_t ranks, const char *const *settings,
                    int (*run)(struct procs_rank *, void *), const struct story *story,
                    void (*meddle)(const struct procs_job *running))
{
    bool ended = true, silent = true;
    for (int i = 0; i < JOBS && ended && silent; i++) {
        start(ranks, settings, run);
        job.arg = (void *)story;
        job.meddle = meddle;
        ended = procs_run(&job, DEADLINE_S);
        silent = any_is_silent();
    }
    CHECK(ended, "hangs: %s", settings[0]);
}

static void start_calls(uint32_t ranks, const char *const *settings, const struct story *story)
{
    run_job(ranks, settings, run_calls, story, NULL);
}

static void a_rank_that_is_late_is_behind(void)
{
    const char *const *both[] = {tcp_hasty, shm_hasty};
    const struct story story = {LATE, sleep_over};

    for (int i = 0; i < 2; i++) {
        start_calls(4, both[i], &story);
        check_table(0, UINT32_MAX);
        SAID(0, 3,
             "log where: rank 1 is behind; 3 are in call 4 of all 4 ranks, allreduce of 1000 f32, "
             "sum (4000 bytes)\n",
             "log where: rank 1 has posted nothing after call 3 of all 4 ranks, allreduce of 1000 "
             "f32, sum (4000 bytes), which has ended\n",
             "log where: rank 0 waits in call 4 of all 4 ranks, allreduce of 1000 f32, sum (4000 "
             "bytes)",
             "log where: rank 2 waits in call 4 ", "log where: rank 3 waits in call 4 ");
        CHECK(count(0, "log where: ") == 5, "%s", job.texts[0]);
    }
}

/** Rank 13, two levels below rank 0, comes late: it and those beside it speak by way of rank 1. */
static void run_level(struct wring_session *session, uint32_t rank, void *arg)
{
    static float each[20][N];
    struct wring_group *world = wring_session_world(session);
    enum wring_status status = WRING_OK;

    (void)arg;
    for (int i = 0; i < 2 && status == WRING_OK; i++) {
        if (i == 1 && rank == 13)
            sleep_over(session);
        status =
            wring_allreduce(world, each[rank], each[rank], N, WRING_F32, WRING_SUM, NULL, NULL);
    }
    CHECK(status == WRING_ERR_PEER, "rank %u: %s", rank, wring_status_text(status));
}

static void what_is_below_is_passed_on(void)
{
    struct wring_test_lines lines;
    struct wring_test_job many = {.ranks = 20,
                                  .settings = tcp_hasty,
                                  .run = run_level,
                                  .log = wring_test_lines_take,
                                  .log_arg = &lines};
    bool silent = true;

    for (int i = 0; i < JOBS && silent; i++) {
        lines = WRING_TEST_LINES_INIT;
        lines.module = "where";
        wring_test_run_ranks(&many);
        silent = is_silence(lines.text);
    }
    CHECK(wring_test_lines_count(&lines, "rank 13 is behind; 19 are in call 2 of all 20 ranks, ") ==
              1,
          "%s", lines.text);
    CHECK(wring_test_lines_count(&lines, " waits in call 2 of all 20 ranks, ") == 15, "%s",
          lines.text);
    CHECK(wring_test_lines_count(&lines, "and 4 more; of all 20 are 1 behind, 0 lost, ") == 1, "%s",
          lines.text);
}

static void a_rank_that_died_is_lost(void)
{
    const char *const *both[] = {tcp, shm};
    const struct story story = {LATE, die};

    for (int i = 0; i < 2; i++) {
        start_calls(4, both[i], &story);
        check_table(0, LATE);
        SAID(0, 3, "log where: rank 1 is lost; 3 are in call 4 of all 4 ranks, ",
             "log where: rank 1 is lost\n", "log where: rank 3 waits in call 4 ");
    }
}

static void another_rank_reports_where_rank_0_is_lost(void)
{
    const struct story story = {0, die};

    start_calls(4, tcp, &story);
    check_table(1, 0);
    SAID(1, 3, "log where: rank 0 is lost; 3 are in call 4 of all 4 ranks, ");
}

/** Rank 3 waits in no call, and closes as soon as the session has failed. */
static int run_and_leave(struct procs_rank *rank, void *arg)
{
    const struct story *story = arg;
    struct wring_session *session;

    if (rank->rank != 3)
        return run_calls(rank, arg);
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    enum wring_status status = WRING_OK;
    for (int i = 0; i < CALLS && status == WRING_OK; i++)
        status = sum(wring_session_world(session), N);
    if (status == WRING_OK)
        status = tell(session, story->rank);
    uint64_t until_ns = wring_deadline_in(DEADLINE_S * WRING_NS_PER_S);
    while (status == WRING_OK && wring_now_ns() < until_ns)
        status = wring_session_error(session, NULL);
    wring_session_close(session);
    return status == WRING_ERR_PEER ? 3 : 4;
}

/** Whoever draws up the table hears of it late: by then the tree has another root. */
static void a_rank_that_leaves_at_once_is_not_lost(void)
{
    const struct story story = {0, die};

    run_job(4, tcp, run_and_leave, &story, NULL);
    CHECK(job.codes[3] == 3, "rank 3: code %d", job.codes[3]);
    check_table(1, 0);
    SAID(1, 3, "log where: rank 3 is behind; rank 0 is lost; 2 are in call 4 of all 4 ranks, ");
}

static void wake_later(const struct procs_job *running)
{
    CHECK(procs_await_end(running, 0, 40), "rank 0 waits for the stopped one");
    kill(running->pids[LATE], SIGCONT);
}

static void a_rank_that_is_stopped_is_lost(void)
{
    static const struct story story = {LATE, stop};

    run_job(3, watchful, run_calls, &story, wake_later);
    SAID(0, 3, "log where: rank 1 is lost; 2 are in call 4 of all 3 ranks, ");
}

/* ---- calls that differ ---- */

static int run_other(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;

    (void)arg;
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    struct wring_group *world = wring_session_world(session);
    enum wring_status status = sum(world, N);
    if (status == WRING_OK)
        status =
            rank->rank == LATE ? wring_broadcast(world, data, 64, 0, NULL, NULL) : sum(world, N);
    if (status == WRING_OK)
        status = wring_barrier(world, NULL, NULL);
    procs_say_end(rank, session, status);
    wring_session_close(session);
    return status == WRING_ERR_MISMATCH ? 3 : 4;
}

/** Two ranks may find out that they differ before the third one has made its call. */
static bool any_is_behind(void)
{
    return strstr(job.texts[0], " behind; ") != NULL &&
           strstr(job.texts[0], "no rank is behind; ") == NULL;
}

static void calls_that_differ_are_in_the_table(void)
{
    bool behind = true;

    for (int i = 0; i < JOBS && behind; i++) {
        run_job(3, tcp, run_other, NULL, NULL);
        behind = any_is_behind();
    }
    check_table(0, UINT32_MAX);
    SAID(0, 3, "log where: no rank is behind; 3 are in call 2 of all 3 ranks, ",
         "log where: rank 1 waits in call 2 of all 3 ranks, broadcast of 64 bytes from member 0",
         "log where: rank 2 waits in call 2 of all 3 ranks, allreduce of 1000 f32, sum");
}

/* ---- buckets ---- */

static int run_buckets(struct procs_rank *rank, void *arg)
{
    static const uint64_t sizes[] = {50, N * 100};
    struct wring_session *session;
    struct wring_bucket *buckets[2];

    (void)arg;
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    for (int b = 0; b < 2; b++) {
        struct wring_bucket_params params = {.name = b == 0 ? "small" : "large", .elems = sizes[b]};
        if (wring_buffer_alloc(session, sizes[b] * sizeof(float), &params.data) != WRING_OK ||
            wring_bucket_register(session, &params, &buckets[b]) != WRING_OK)
            return 2;
    }
    enum wring_status status = wring_session_commit(session);
    for (int step = 0; step < 3 && status == WRING_OK; step++)
        for (int b = 0; b < 2 && status == WRING_OK; b++) {
            if (step == 2 && b == 1 && rank->rank == LATE)
                sleep_over(session);
            status = wring_bucket_post(buckets[b]);
            if (status == WRING_OK)
                status = wring_bucket_wait(buckets[b], WRING_FOREVER, NULL);
        }
    procs_say_end(rank, session, status);
    wring_session_close(session);
    return status == WRING_OK ? 0 : 3;
}

static void steps_of_buckets_count(void)
{
    const char *const *both[] = {tcp_hasty, shm_hasty};

    for (int i = 0; i < 2; i++) {
        run_job(3, both[i], run_buckets, NULL, NULL);
        check_table(0, UINT32_MAX);
        SAID(
            0, 3,
            "log where: rank 1 is behind; 2 are in step 3 of bucket 'large' of all 3 ranks (400000 "
            "bytes)\n",
            "log where: rank 1 has posted nothing after step ");
    }
}

/* ---- when somebody asks ---- */

enum turn {
    AT_ONCE,  /* both ask while their call waits */
    GIVES_UP, /* and asks after that, */
    AFTER,    /* and the other one once it has */
};

/** Two ranks call what a third one does not, and ask. */
static enum wring_status call_and_ask(struct procs_rank *rank, struct wring_session *session,
                                      struct wring_group *group, uint32_t other, uint32_t late,
                                      enum turn turn)
{
    struct wring_request *request;
    char text[WRING_WHERE_TEXT] = "";
    enum wring_status status =
        wring_allreduce(group, data, data, N, WRING_F32, WRING_SUM, NULL, &request);

    if (status == WRING_OK)
        status = tell(session, other);
    if (status == WRING_OK)
        status = hear(session, turn == AFTER ? 2 : 1);
    if (status != WRING_OK)
        return status;
    if (turn == GIVES_UP)
        wring_request_cancel(request);
    enum wring_status asked =
        wring_group_where(group, DEADLINE_S * WRING_NS_PER_S, text, sizeof(text));
    procs_say(rank, "where %s: %s", wring_status_text(asked), text);
    if (turn == GIVES_UP)
        status = tell(session, other);
    if (status == WRING_OK)
        status = tell(session, late);
    enum wring_status ended = wring_request_wait(request, WRING_FOREVER, NULL);
    return status == WRING_OK ? ended : status;
}

/** Ranks 1 to 3 have a group, of which rank 3 is late; rank 0 asks all, though it is in none. */
static int run_asking(struct procs_rank *rank, void *arg)
{
    static const uint32_t ranks[] = {1, 2, 3};
    struct wring_session *session;
    struct wring_group *group = NULL;

    (void)arg;
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    struct wring_group *world = wring_session_world(session);
    if (rank->rank > 0 && wring_group_create(world, ranks, 3, 0, WRING_FOREVER, &group) != WRING_OK)
        return 2;
    enum wring_status status = sum(world, 10);
    if (group != NULL && status == WRING_OK)
        status = sum(group, N);
    if (group != NULL && status == WRING_OK)
        status = sum(group, 1);
    if (group != NULL && status == WRING_OK && rank->rank < 3)
        status = call_and_ask(rank, session, group, 3 - rank->rank, 3, AT_ONCE);
    if (rank->rank == 3 && status == WRING_OK) {
        status = hear(session, 2);
        if (status == WRING_OK)
            status = sum(group, N);
    }
    if (status == WRING_OK)
        status = wring_barrier(world, NULL, NULL);
    wring_session_close(session);
    return status == WRING_OK ? 0 : 3;
}

static void whoever_asks_is_told(void)
{
    const char *const *both[] = {tcp, shm};

    for (int i = 0; i < 2; i++) {
        run_job(4, both[i], run_asking, NULL, NULL);
        for (uint32_t rank = 1; rank < 3; rank++)
            SAID(rank, 0,
                 "where success: rank 3 is behind; 2 are in call 3 of the group of ranks 1, 2, 3, "
                 "allreduce of 1000 f32, sum (4000 bytes)\n");
        SAID(0, 0, "log where: rank 3 is behind; 2 are in call 3 of the group of ranks 1, 2, 3, ",
             "log where: rank 3 has posted nothing after call 2 of the group of ranks 1, 2, 3, "
             "allreduce of 1 f32, sum (4 bytes), which has ended\n");
        CHECK(count(0, "log where: ") == 4, "who asks later has another table:\n%s", job.texts[0]);
        SAID(3, 0, "");
        check_table(0, UINT32_MAX);
    }
}

/** A call is given up, as after a timeout, and what was known of it stays known. */
static int run_given_up(struct procs_rank *rank, void *arg)
{
    static const uint32_t ranks[] = {0, 1, 2};
    struct wring_session *session;
    struct wring_group *group;

    (void)arg;
    if (wring_session_open(&rank->params, &session) != WRING_OK ||
        wring_group_create(wring_session_world(session), ranks, 3, 0, WRING_FOREVER, &group) !=
            WRING_OK)
        return 2;
    enum wring_status status;
    if (rank->rank == LATE) {
        status = hear(session, 2);
        if (status == WRING_OK)
            status = sum(group, N);
    } else {
        status = call_and_ask(rank, session, group, 2 - rank->rank, LATE,
                              rank->rank == 0 ? GIVES_UP : AFTER);
    }
    wring_barrier(wring_session_world(session), NULL,
                  NULL); /* nobody leaves before all have asked */
    wring_session_close(session);
    return status == WRING_ERR_CANCELLED ? 3 : 4;
}

static void a_group_that_was_aborted_is_known(void)
{
    run_job(3, tcp, run_given_up, NULL, NULL);
    for (uint32_t rank = 0; rank < 3; rank += 2)
        SAID(rank, 3,
             "where success: rank 1 is behind; 2 are in call 1 of the group of ranks 0, 1, 2, "
             "allreduce "
             "of 1000 f32, sum (4000 bytes)\n");
    SAID(0, 3, "log where: rank 1 has posted nothing\n",
         "log where: rank 0 was in call 1 of the group of ranks 0, 1, 2, ");
    SAID(1, 3, "");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"a_rank_that_is_late_is_behind", a_rank_that_is_late_is_behind},
        {"what_is_below_is_passed_on", what_is_below_is_passed_on},
        {"a_rank_that_died_is_lost", a_rank_that_died_is_lost},
        {"another_rank_reports_where_rank_0_is_lost", another_rank_reports_where_rank_0_is_lost},
        {"a_rank_that_leaves_at_once_is_not_lost", a_rank_that_leaves_at_once_is_not_lost},
        {"a_rank_that_is_stopped_is_lost", a_rank_that_is_stopped_is_lost},
        {"calls_that_differ_are_in_the_table", calls_that_differ_are_in_the_table},
        {"steps_of_buckets_count", steps_of_buckets_count},
        {"whoever_asks_is_told", whoever_asks_is_told},
        {"a_group_that_was_aborted_is_known", a_group_that_was_aborted_is_known},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
