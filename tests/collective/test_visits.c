/* SPDX-License-Identifier: Apache-2.0 */
/* A caller that tests again and again, and never waits: messages move by that alone, and where it
 * comes no more the session's thread sees to them. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/request.h"
#include "tests/lib/ranks.h"
#include "tests/lib/test.h"

#define DEADLINE_NS (60 * WRING_NS_PER_S)
#define MESSAGES 200
#define VISITS 5000
#define VISITORS 3
#define HOLDS 300

/* no sign of life wakes who sleeps in vain */
#define SILENT "WRING_HEARTBEAT=600", "WRING_PEER_TIMEOUT=3000"
static const char *const tcp[] = {"WRING_PROVIDER=tcp", SILENT, NULL};
static const char *const shm[] = {"WRING_PROVIDER=shm", SILENT, NULL};
static const char *const caller[] = {"WRING_PROVIDER=tcp", "WRING_PROGRESS=caller", SILENT, NULL};

static void run_all(void (*run)(struct wring_session *, uint32_t, void *), void *arg,
                    const char *const *const *variants, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned before = wring_test_failures();
        struct wring_test_job job = {.ranks = 2, .settings = variants[i], .run = run, .arg = arg};
        wring_test_run_ranks(&job);
        CHECK(wring_test_failures() == before, "... %s %s", variants[i][0], variants[i][1]);
    }
}

static enum wring_status begin(struct wring_session *session, bool sends, uint64_t *word,
                               uint64_t tag, struct wring_request **request)
{
    struct wring_group *world = wring_session_world(session);
    uint32_t other = 1 - wring_session_rank(session);

    return sends ? wring_send(world, word, sizeof(*word), other, tag, NULL, request)
                 : wring_recv(world, word, sizeof(*word), other, tag, NULL, request);
}

/** @param visits  test it again and again, which is what drives; else only look
 *  @return whether it has ended well in time */
static bool await(struct wring_request *request, bool visits)
{
    uint64_t until_ns = wring_deadline_in(DEADLINE_NS);

    enum wring_status status = WRING_ERR_AGAIN;

    while (status == WRING_ERR_AGAIN && wring_now_ns() < until_ns) {
        if (visits || wring_request_is_over(request))
            status = wring_request_test(request, NULL);
        sched_yield();
    }
    return status == WRING_OK;
}

/** @param arg  not NULL: with pauses, in which nobody tests */
static void sum_both(struct wring_session *session, uint32_t rank, void *arg)
{
    const struct timespec pause = {0, arg != NULL ? 500000 : 0};

    for (uint64_t i = 0; i < MESSAGES; i++) {
        if (arg != NULL)
            nanosleep(&pause, NULL);
        bool sends = i % 2 == rank;
        uint64_t word = sends ? i : 0;
        struct wring_request *request;
        enum wring_status status = begin(session, sends, &word, i, &request);
        bool ended = status == WRING_OK && await(request, true);
        CHECK(ended, "message %d: %s", (int)i, wring_status_text(status));
        if (!ended)
            return;
        CHECK(word == i, "message %d brings %d", (int)i, (int)word);
    }
}

static void messages_move_by_visits(void)
{
    static const char *const *const variants[] = {tcp, shm, caller};
    run_all(sum_both, NULL, variants, 3);
}

/** Rank 0 comes often, and then never again: the message is on its way only after that. */
static void stop_coming(struct wring_session *session, uint32_t rank, void *arg)
{
    atomic_bool *stopped = arg;
    struct wring_request *request = NULL;
    enum wring_status status = WRING_OK;
    uint64_t word = rank;

    if (rank == 0)
        status = begin(session, false, &word, 7, &request);
    for (int i = 0; rank == 0 && i < VISITS; i++)
        wring_progress_visit(session->progress);
    if (rank == 0)
        atomic_store(stopped, true);
    while (!atomic_load(stopped))
        sched_yield();
    if (rank == 1)
        status = begin(session, true, &word, 7, &request);
    CHECK(status == WRING_OK, "rank %u: %s", rank, wring_status_text(status));
    CHECK(request != NULL && await(request, false), "nobody sees to the message of rank %u", rank);
    CHECK(word == 1, "the message brings %d", (int)word);
}

static void the_thread_comes_back(void)
{
    static const char *const *const variants[] = {tcp, shm};
    for (int i = 0; i < 5; i++) {
        atomic_bool stopped = false;
        run_all(stop_coming, &stopped, variants, 1);
        stopped = false;
        run_all(stop_coming, &stopped, variants + 1, 1);
    }
}

struct visitor {
    struct wring_session *session;
    pthread_t thread;
    atomic_bool *stopped;
    bool pauses; /* now and then, for as long as it takes the thread to come back */
};

static void *visit(void *arg)
{
    const struct visitor *visitor = arg;
    const struct timespec pause = {0, 2500000};

    for (unsigned i = 1; !atomic_load(visitor->stopped); i++) {
        wring_progress_visit(visitor->session->progress);
        if (visitor->pauses && i % 200 == 0)
            nanosleep(&pause, NULL);
    }
    return NULL;
}

static void start(struct visitor *visitors, struct wring_session *session, atomic_bool *stopped,
                  bool pauses)
{
    for (int i = 0; i < VISITORS; i++) {
        visitors[i] = (struct visitor){.session = session, .stopped = stopped, .pauses = pauses};
        if (pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]) != 0)
            abort();
    }
}

static void stop(struct visitor *visitors, atomic_bool *stopped)
{
    atomic_store(stopped, true);
    for (int i = 0; i < VISITORS; i++)
        pthread_join(visitors[i].thread, NULL);
}

/** Callers begin and end to come often, at the same time as others and as the thread comes back. */
static void come_and_go(struct wring_session *session, uint32_t rank, void *arg)
{
    struct visitor visitors[VISITORS];
    atomic_bool stopped = false;
    (void)arg;

    start(visitors, session, &stopped, true);
    sum_both(session, rank, visitors);
    stop(visitors, &stopped);
    for (uint64_t i = 0; i < 2; i++) { /* all of them count as gone: the thread alone drives */
        uint64_t word = i;
        struct wring_request *request = NULL;
        enum wring_status status = begin(session, i == rank, &word, MESSAGES + i, &request);
        CHECK(status == WRING_OK && await(request, false), "nobody sees to message %d of rank %u",
              (int)i, rank);
    }
}

static void callers_come_and_go(void)
{
    static const char *const *const variants[] = {shm, tcp};
    run_all(come_and_go, NULL, variants, 2);
}

/** Whoever changes what the engine works on gets it, however often others come. */
static void hold(struct wring_session *session, uint32_t rank, void *arg)
{
    struct visitor visitors[VISITORS];
    atomic_bool stopped = false;
    uint64_t until_ns = wring_deadline_in(DEADLINE_NS);
    int held = 0;
    (void)arg;

    start(visitors, session, &stopped, false);
    for (; held < HOLDS && wring_now_ns() < until_ns; held++) {
        wring_progress_lock(session->progress);
        wring_progress_unlock(session->progress);
    }
    stop(visitors, &stopped);
    CHECK(held == HOLDS, "rank %u held the engine still %d times of %d", rank, held, HOLDS);
}

static void others_hold_the_engine(void)
{
    static const char *const *const variants[] = {shm};
    run_all(hold, NULL, variants, 1);
}

/** The session is closed while callers have come often until just now. */
static void leave(struct wring_session *session, uint32_t rank, void *arg)
{
    (void)rank, (void)arg;
    for (int i = 0; i < VISITS; i++)
        wring_progress_visit(session->progress);
}

static void sessions_close_after_visits(void)
{
    static const char *const *const variants[] = {shm, tcp, caller};
    for (int i = 0; i < 5; i++)
        run_all(leave, NULL, variants, 3);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"messages_move_by_visits", messages_move_by_visits},
        {"the_thread_comes_back", the_thread_comes_back},
        {"callers_come_and_go", callers_come_and_go},
        {"others_hold_the_engine", others_hold_the_engine},
        {"sessions_close_after_visits", sessions_close_after_visits},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
