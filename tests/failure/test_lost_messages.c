/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to and from ranks that die or leave, and more of them than their receiver keeps. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define WAIT_NS (60ull * 1000000000)
#define MESSAGE 4096
#define RSS_MOST (32u << 20)

static const char *const shm[] = {"WRING_PROVIDER=shm", NULL};
static const char *const tcp[] = {"WRING_PROVIDER=tcp", NULL};
static const char *const *const variants[] = {shm, tcp};

static void run_job(uint32_t ranks, int (*run)(struct procs_rank *, void *), void *arg,
                    unsigned deadline_s, void (*check)(const struct procs_job *))
{
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        struct procs_job job = {.ranks = ranks, .settings = variants[i], .run = run, .arg = arg};
        CHECK(procs_run(&job, deadline_s), "%s: a rank is still there", variants[i][0]);
        check(&job);
    }
}

/* ---- ranks that die ---- */

static const char *const departures[] = {"dies", "leaves"};

/** Rank 1 dies, or leaves, while rank 0 waits for it in every way. */
static int wait_for_the_dead(struct procs_rank *rank, void *arg)
{
    static uint8_t large[1 << 20], small[3][8];
    struct wring_session *session;
    struct wring_request *requests[4];
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 1;
    struct wring_group *world = wring_session_world(session);

    if (rank->rank == 0) { /* rank 2 is there, and says nothing */
        wring_recv(world, small[0], 8, 1, 5, NULL, &requests[0]);
        wring_recv(world, small[1], 8, WRING_ANY_SOURCE, 6, NULL, &requests[1]);
        wring_send(world, large, sizeof(large), 1, 7, NULL, &requests[2]);
        wring_send(world, large, sizeof(large), 0, 8, NULL, &requests[3]); /* to itself */
    }
    enum wring_status met = wring_barrier(world, NULL, NULL);
    if (rank->rank == 1 && met != WRING_OK) /* the others may hear of the death first */
        return 2;
    if (rank->rank == 1 && arg == departures[0])
        raise(SIGKILL);
    for (int i = 0; rank->rank == 0 && i < 4; i++) {
        struct wring_result result = WRING_RESULT_INIT;
        enum wring_status status = wring_request_wait(requests[i], WAIT_NS, &result);
        procs_say(rank, "request %d: %s, rank %d", i, wring_status_text(status), result.rank);
    }
    if (rank->rank == 2)
        wring_recv(world, large, 8, 0, 9, NULL, NULL);
    wring_session_close(session);
    return 0;
}

static void check_dead(const struct procs_job *job)
{
    for (int i = 0; i < 4; i++) {
        char want[64];
        snprintf(want, sizeof(want), "request %d: peer lost, rank 1", i);
        CHECK(strstr(job->texts[0], want) != NULL, "%s, rank 1 %s: no '%s' in\n%s",
              job->settings[0], (const char *)job->arg, want, job->texts[0]);
    }
}

static void dead(void)
{
    run_job(3, wait_for_the_dead, (void *)(uintptr_t)departures[0], 90, check_dead);
}

static void departed(void)
{
    run_job(3, wait_for_the_dead, (void *)(uintptr_t)departures[1], 90, check_dead);
}

/* ---- ranks that leave one alone ---- */

/** Rank 0 waits for a message of anybody, and all others leave. */
static int wait_for_anybody(struct procs_rank *rank, void *arg)
{
    uint8_t byte;
    struct wring_session *session;
    struct wring_request *request;
    struct wring_result result = WRING_RESULT_INIT;
    (void)arg;

    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 1;
    struct wring_group *world = wring_session_world(session);
    if (rank->rank == 0)
        wring_recv(world, &byte, 1, WRING_ANY_SOURCE, 5, NULL, &request);
    if (rank->rank > 0 && wring_send(world, &byte, 1, 0, 4, NULL, NULL) != WRING_OK)
        return 2;
    for (uint32_t i = 1; rank->rank == 0 && i < rank->size; i++)
        if (wring_recv(world, &byte, 1, i, 4, NULL, NULL) != WRING_OK)
            return 3; /* it has left, after all of its messages */
    if (rank->rank == 0) {
        enum wring_status status = wring_request_wait(request, WAIT_NS, &result);
        procs_say(rank, "%s, %s", wring_status_text(status),
                  result.rank > 0 ? "whose rank it names" : "of nobody");
    }
    wring_session_close(session);
    return 0;
}

static void check_alone(const struct procs_job *job)
{
    for (uint32_t i = 0; i < job->ranks; i++)
        CHECK(job->codes[i] == 0, "%s, rank %u: %d", job->settings[0], i, job->codes[i]);
    CHECK(strstr(job->texts[0], "peer lost, whose rank it names") != NULL, "%s:\n%s",
          job->settings[0], job->texts[0]);
}

static void alone(void)
{
    run_job(3, wait_for_anybody, NULL, 90, check_alone);
}

/* ---- a receiver that sleeps ---- */

static size_t resident(void)
{
    unsigned long pages = 0, all;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu %lu", &all, &pages) != 2)
        pages = 0;
    if (file != NULL)
        fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/** Sleep until nothing more comes. @return how much memory we have by then */
static size_t sleep_until_full(void)
{
    const struct timespec pause = {0, 50000000};
    size_t last = 0, now;
    for (unsigned i = 0, still = 0; i < 100 && still < 10; i++, last = now) {
        nanosleep(&pause, NULL);
        now = resident();
        still = now == last ? still + 1 : 0;
    }
    return last;
}

static int send_all(struct wring_group *world, uint64_t n)
{
    static uint64_t message[MESSAGE / 8];
    for (uint64_t i = 0; i < n; i++) {
        message[0] = i;
        message[MESSAGE / 8 - 1] = ~i;
        if (wring_send(world, message, MESSAGE, 0, i, NULL, NULL) != WRING_OK)
            return 3;
    }
    return 0;
}

static int receive_all(struct procs_rank *rank, struct wring_group *world, uint64_t n)
{
    static uint64_t message[MESSAGE / 8];
    uint64_t next[PROCS_MAX] = {0};
    for (uint64_t i = 0; i < n * (rank->size - 1); i++) {
        struct wring_request *request;
        struct wring_result result = WRING_RESULT_INIT;
        if (wring_recv(world, message, MESSAGE, WRING_ANY_SOURCE, WRING_ANY_TAG, NULL, &request) !=
                WRING_OK ||
            wring_request_wait(request, WAIT_NS, &result) != WRING_OK)
            return 4;
        uint64_t want = next[result.rank]++;
        if (result.tag != want || message[0] != want || message[MESSAGE / 8 - 1] != ~want) {
            procs_say(rank, "message %d of rank %d is another one", (int)want, result.rank);
            return 5;
        }
    }
    return 0;
}

static int sleep_and_receive(struct procs_rank *rank, void *arg)
{
    uint64_t n = *(const uint64_t *)arg / MESSAGE / (rank->size - 1);
    struct wring_session *session;
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 1;
    struct wring_group *world = wring_session_world(session);
    size_t before = resident();
    if (wring_barrier(world, NULL, NULL) != WRING_OK)
        return 2;
    int code = rank->rank > 0 ? send_all(world, n) : 0;
    if (rank->rank == 0) {
        size_t asleep = sleep_until_full();
        code = receive_all(rank, world, n);
        size_t after = resident(), most = after > asleep ? after : asleep;
        procs_say(rank, most < before + RSS_MOST ? "bounded" : "%zu bytes more", most - before);
    }
    if (wring_barrier(world, NULL, NULL) != WRING_OK && code == 0)
        code = 6;
    wring_session_close(session);
    return code;
}

static void check_bounded(const struct procs_job *job)
{
    for (uint32_t i = 0; i < job->ranks; i++)
        CHECK(job->codes[i] == 0, "%s, rank %u: %d\n%s", job->settings[0], i, job->codes[i],
              job->texts[i]);
    CHECK(strstr(job->texts[0], "bounded") != NULL, "%s:\n%s", job->settings[0], job->texts[0]);
}

static void unexpected(void)
{
    uint64_t bytes = 96 << 20;
    run_job(4, sleep_and_receive, &bytes, 120, check_bounded);
}

static void much_unexpected(void)
{
    uint64_t bytes = 1 << 30;
    run_job(9, sleep_and_receive, &bytes, 500, check_bounded);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"dead", dead},
        {"departed", departed},
        {"alone", alone},
        {"unexpected", unexpected},
        {"1_GiB", much_unexpected},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
