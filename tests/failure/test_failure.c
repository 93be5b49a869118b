/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that die, hang, never come, leave, disagree or are not what they say. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define ELEMS 200000
#define DEADLINE_S 60

static const char *const tcp[] = {"WRING_PROVIDER=tcp", NULL};
static const char *const shm[] = {"WRING_PROVIDER=shm", NULL};
static const char *const tcp_watchful[] = {"WRING_PROVIDER=tcp", "WRING_HEARTBEAT=100ms",
                                           "WRING_PEER_TIMEOUT=2s", NULL};
static const char *const shm_watchful[] = {"WRING_PROVIDER=shm", "WRING_HEARTBEAT=100ms",
                                           "WRING_PEER_TIMEOUT=2s", NULL};
static const char *const impatient[] = {"WRING_PROVIDER=tcp", "WRING_JOIN_TIMEOUT=2s", NULL};

static struct procs_job job; /* too large for a stack frame that is read easily */

static void start(uint32_t ranks, const char *const *settings,
                  int (*run)(struct procs_rank *, void *))
{
    memset(&job, 0, sizeof(job));
    job.ranks = ranks;
    job.settings = settings;
    job.run = run;
}

/** What a rank does that exchanges until something ends it. @return 0 when steps were all done */
static int exchange(struct procs_rank *rank, unsigned steps,
                    void (*each)(struct procs_rank *, unsigned))
{
    struct wring_session *session;
    struct wring_bucket *bucket;
    void *data;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status != WRING_OK) {
        procs_say(rank, "open %s", wring_status_text(status));
        return 2;
    }
    wring_buffer_alloc(session, ELEMS * sizeof(float), &data);
    struct wring_bucket_params params = {
        .name = "b", .data = data, .elems = ELEMS, .codec = "int8+ef"};
    wring_bucket_register(session, &params, &bucket);
    status = wring_session_commit(session);
    for (unsigned step = 0; step < steps && status == WRING_OK; step++) {
        if (each != NULL)
            each(rank, step);
        status = wring_bucket_post(bucket);
        if (status == WRING_OK)
            status = wring_bucket_wait(bucket, WRING_FOREVER);
    }
    if (status != WRING_OK) {
        procs_say_end(rank, session, status);
        uint64_t began = wring_now_ns();
        enum wring_status again = wring_bucket_post(bucket);
        procs_say(rank, "again %s after %s", wring_status_text(again),
                  wring_now_ns() - began < WRING_NS_PER_S ? "no time" : "a while");
    }
    wring_session_close(session);
    procs_say(rank, "closed");
    return status == WRING_OK ? 0 : 3;
}

/** Every rank but one ended with an error that names that one. */
static void check_named(const char *case_name, uint32_t culprit)
{
    char want[64];
    snprintf(want, sizeof(want), ", rank %u,", culprit);
    for (uint32_t i = 0; i < job.ranks; i++) {
        if (i == culprit)
            continue;
        CHECK(strstr(job.texts[i], want) != NULL && strstr(job.texts[i], "closed") != NULL &&
                  strstr(job.texts[i], "after no time") != NULL && job.codes[i] == 3,
              "%s: rank %u (code %d) said:\n%s", case_name, i, job.codes[i], job.texts[i]);
    }
}

static void die_in_step_3(struct procs_rank *rank, unsigned step)
{
    if (rank->rank == 1 && step == 3)
        kill(getpid(), SIGKILL);
}

static int run_killed(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return exchange(rank, 1000000, die_in_step_3);
}

/** Entries of a folder in which a careless library would leave things. */
static int count_entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL)
        n++;
    if (dir != NULL)
        closedir(dir);
    return n;
}

static void killed_rank_is_named(void)
{
    const char *const *both[] = {tcp, shm};
    int before = count_entries("/dev/shm");
    for (int i = 0; i < 2; i++) {
        start(4, both[i], run_killed);
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", both[i][0]);
        CHECK(job.codes[1] == -SIGKILL, "code %d", job.codes[1]);
        check_named(both[i][0], 1);
    }
    CHECK(count_entries("/dev/shm") <= before, "something was left in /dev/shm");
}

static void stop_in_step_3(struct procs_rank *rank, unsigned step)
{
    if (rank->rank == 2 && step == 3)
        kill(getpid(), SIGSTOP);
}

static int run_stopped(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return exchange(rank, 1000000, stop_in_step_3);
}

static void wake_later(const struct procs_job *running)
{
    sleep(5); /* more than WRING_PEER_TIMEOUT */
    kill(running->pids[2], SIGCONT);
}

static void stopped_rank_is_named(void)
{
    const char *const *both[] = {tcp_watchful, shm_watchful};
    for (int i = 0; i < 2; i++) {
        start(3, both[i], run_stopped);
        job.meddle = wake_later;
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", both[i][0]);
        check_named(both[i][0], 2);
        CHECK(strstr(job.texts[2], "end ") != NULL && job.codes[2] == 3,
              "the stopped rank (code %d) said:\n%s", job.codes[2], job.texts[2]);
    }
}

static int run_plain(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return exchange(rank, 20, NULL);
}

static void missing_rank_is_named(void)
{
    start(4, impatient, run_plain);
    job.processes = 3;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 3; i++)
        CHECK(strstr(job.texts[i], "rank 3 did not join") != NULL && job.codes[i] == 2,
              "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
}

static int run_wrong_key(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 1)
        rank->params.key = "another key";
    return exchange(rank, 20, NULL);
}

static void wrong_key_is_refused(void)
{
    start(3, impatient, run_wrong_key);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(strstr(job.texts[1], "WRING_KEY") != NULL && job.codes[1] == 2, "rank 1 said:\n%s",
          job.texts[1]);
    for (uint32_t i = 0; i < 3; i += 2)
        CHECK(strstr(job.texts[i], "rank 1 did not join") != NULL && job.codes[i] == 2,
              "rank %u said:\n%s", i, job.texts[i]);
}

static int run_same_rank(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->index == 2)
        rank->params.rank = 1;
    return exchange(rank, 20, NULL);
}

static void rank_given_twice_is_named(void)
{
    start(3, impatient, run_same_rank);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(strstr(job.texts[0], "two processes joined as rank 1") != NULL, "rank 0 said:\n%s",
          job.texts[0]);
}

static int run_wrong_size(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 1)
        rank->params.size = 5;
    return exchange(rank, 20, NULL);
}

static void wrong_size_is_named(void)
{
    start(3, impatient, run_wrong_size);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(strstr(job.texts[0], "says that the job has 5 ranks") != NULL, "rank 0 said:\n%s",
          job.texts[0]);
}

/** How ranks may disagree on a bucket, and what the line must hold. */
static const struct {
    const char *what, *line;
} disagreements[] = {
    {"elems", "bucket 'b' is ["},   {"codec", "codec int8"},       {"op", ", avg,"},
    {"scheme", "scheme divisible"}, {"missing", "has bucket 'b'"}, {"dtype", " x i32, "},
};

static int run_disagreeing(struct procs_rank *rank, void *arg)
{
    int which = *(const int *)arg;
    bool odd = rank->rank == 1;
    struct wring_session *session;
    struct wring_bucket *bucket;
    void *data;
    if (wring_session_open(&rank->params, &session) != WRING_OK)
        return 2;
    wring_buffer_alloc(session, ELEMS * sizeof(float), &data);
    struct wring_bucket_params params = {
        .name = odd && which == 4 ? "c" : "b",
        .data = data,
        .elems = odd && which == 0 ? ELEMS - 1 : ELEMS,
        .dtype = odd && which == 5 ? WRING_I32 : WRING_F32,
        .codec = which == 5          ? "none"
                 : odd && which == 1 ? "int8"
                                     : "bf16",
        .op = odd && which == 2 ? WRING_AVG : WRING_SUM,
        .scheme = odd && which == 3 ? WRING_SCHEME_DIVISIBLE : WRING_SCHEME_AUTO,
    };
    wring_bucket_register(session, &params, &bucket);
    enum wring_status status = wring_session_commit(session);
    procs_say(rank, "commit %s", wring_status_text(status));
    procs_say(rank, "post %s", wring_status_text(wring_bucket_post(bucket)));
    wring_session_close(session);
    return status == WRING_ERR_MISMATCH ? 3 : 4;
}

static void disagreement_names_both_sides(void)
{
    for (int i = 0; i < (int)(sizeof(disagreements) / sizeof(disagreements[0])); i++) {
        start(3, tcp, run_disagreeing);
        job.arg = &i;
        CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", disagreements[i].what);
        for (uint32_t r = 0; r < 3; r++)
            CHECK(job.codes[r] == 3 && strstr(job.texts[r], disagreements[i].line) != NULL &&
                      strstr(job.texts[r], "rank 1") != NULL,
                  "%s: rank %u (code %d) said:\n%s", disagreements[i].what, r, job.codes[r],
                  job.texts[r]);
    }
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

#define NUISANCES 40

/** Silent connections, random bytes, requests of another protocol. */
static void pester(uint16_t port, int *fds)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    uint32_t state = port | 1u;
    for (int i = 0; i < NUISANCES; i++) {
        uint8_t noise[300];
        for (size_t k = 0; k < sizeof(noise); k++)
            noise[k] = (uint8_t)wring_test_random(&state);
        fds[i] = connect_to(port);
        ssize_t ignored = 0;
        if (fds[i] >= 0 && i % 3 == 1)
            ignored = send(fds[i], noise, (size_t)i * 7 % sizeof(noise), MSG_NOSIGNAL);
        if (fds[i] >= 0 && i % 3 == 2)
            ignored = send(fds[i], http, sizeof(http) - 1, MSG_NOSIGNAL);
        (void)ignored;
    }
}

static void pester_rendezvous(const struct procs_job *running)
{
    int fds[NUISANCES];
    pester(running->port, fds);
    usleep(300000);
    for (int i = 0; i < NUISANCES; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void wait_a_little_in_rank_1(struct procs_rank *rank, unsigned step)
{
    if (step == 0 && rank->rank == 1)
        usleep(100000);
}

static int run_late(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 2)
        usleep(400000); /* so that the port is open while others knock */
    return exchange(rank, 50, wait_a_little_in_rank_1);
}

static void garbage_at_the_rendezvous_does_no_harm(void)
{
    start(3, tcp, run_late);
    job.meddle = pester_rendezvous;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 3; i++)
        CHECK(job.codes[i] == 0, "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
}

/** Loopback ports of 127.0.0.1 that are listened on now. */
static int listening_ports(uint16_t *ports, int max)
{
    char line[512];
    int n = 0;
    FILE *file = fopen("/proc/net/tcp", "re");
    while (file != NULL && n < max && fgets(line, sizeof(line), file) != NULL) {
        unsigned address, port, state;
        if (sscanf(line, " %*d: %x:%x %*x:%*x %x", &address, &port, &state) == 3 && state == 0x0A &&
            address == htonl(INADDR_LOOPBACK))
            ports[n++] = (uint16_t)port;
    }
    if (file != NULL)
        fclose(file);
    return n;
}

static bool is_ours(uint16_t port)
{
    /* only what this job's processes opened may be pestered: connections to others are refused */
    char path[64], link[64], line[512];
    unsigned long inode = 0;
    FILE *file = fopen("/proc/net/tcp", "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        unsigned at, state;
        unsigned long found;
        if (sscanf(line, " %*d: %*x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &at, &state,
                   &found) == 3 &&
            state == 0x0A && at == port)
            inode = found;
    }
    if (file != NULL)
        fclose(file);
    for (uint32_t i = 0; i < job.ranks; i++)
        for (int fd = 0; fd < 64; fd++) {
            snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)job.pids[i], fd);
            ssize_t length = readlink(path, link, sizeof(link) - 1);
            unsigned long number;
            if (length <= 0)
                continue;
            link[length] = '\0';
            if (sscanf(link, "socket:[%lu]", &number) == 1 && number == inode && inode != 0)
                return true;
        }
    return false;
}

static unsigned pestered;

static void pester_providers(const struct procs_job *running)
{
    uint16_t ports[256];
    int fds[NUISANCES];
    (void)running;
    pestered = 0;
    for (int round = 0; round < 10; round++) {
        usleep(100000);
        int n = listening_ports(ports, 256);
        for (int i = 0; i < n; i++) {
            if (!is_ours(ports[i]))
                continue;
            pester(ports[i], fds);
            for (int k = 0; k < NUISANCES; k++)
                if (fds[k] >= 0) {
                    pestered++;
                    close(fds[k]);
                }
        }
    }
}

static void rest_now_and_then(struct procs_rank *rank, unsigned step)
{
    (void)rank;
    if (step % 10 == 0)
        usleep(100000);
}

static int run_resting(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return exchange(rank, 200, rest_now_and_then);
}

static void garbage_at_the_provider_does_no_harm(void)
{
    start(3, tcp, run_resting);
    job.meddle = pester_providers;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    CHECK(pestered > 0, "no port was found to send garbage to");
    for (uint32_t i = 0; i < 3; i++)
        CHECK(job.codes[i] == 0, "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
}

static int run_leaving(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return exchange(rank, rank->rank == 1 ? 5 : 1000000, NULL);
}

static void rank_that_leaves_early_is_named(void)
{
    const char *const *both[] = {tcp, shm};
    for (int i = 0; i < 2; i++) {
        start(3, both[i], run_leaving);
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", both[i][0]);
        CHECK(job.codes[1] == 0, "the leaving rank said:\n%s", job.texts[1]);
        check_named(both[i][0], 1);
    }
}

static const char *const slow_link[] = {"WRING_PROVIDER=tcp", "WRING_FAULT=rate=20mbit", NULL};

/** Each rank closes right after its last wait, while others still receive over slow links. */
static int run_short(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return exchange(rank, 2, NULL);
}

static void closing_after_the_last_wait_harms_nobody(void)
{
    for (int i = 0; i < 5; i++) {
        start(4, slow_link, run_short);
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        for (uint32_t r = 0; r < 4; r++)
            CHECK(job.codes[r] == 0, "rank %u (code %d) said:\n%s", r, job.codes[r], job.texts[r]);
    }
}

static int run_no_key(struct procs_rank *rank, void *arg)
{
    (void)arg;
    rank->params.key = NULL;
    rank->params.root = "192.0.2.1:5555"; /* documentation's; nobody is asked */
    if (rank->params.root_fd > 0)
        close(rank->params.root_fd);
    rank->params.root_fd = 0;
    return exchange(rank, 1, NULL);
}

static void no_key_means_loopback_only(void)
{
    start(2, impatient, run_no_key);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        CHECK(strstr(job.texts[i], "WRING_KEY") != NULL && job.codes[i] == 2, "rank %u said:\n%s",
              i, job.texts[i]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"killed_rank_is_named", killed_rank_is_named},
        {"stopped_rank_is_named", stopped_rank_is_named},
        {"missing_rank_is_named", missing_rank_is_named},
        {"wrong_key_is_refused", wrong_key_is_refused},
        {"rank_given_twice_is_named", rank_given_twice_is_named},
        {"wrong_size_is_named", wrong_size_is_named},
        {"disagreement_names_both_sides", disagreement_names_both_sides},
        {"garbage_at_the_rendezvous_does_no_harm", garbage_at_the_rendezvous_does_no_harm},
        {"garbage_at_the_provider_does_no_harm", garbage_at_the_provider_does_no_harm},
        {"rank_that_leaves_early_is_named", rank_that_leaves_early_is_named},
        {"closing_after_the_last_wait_harms_nobody", closing_after_the_last_wait_harms_nobody},
        {"no_key_means_loopback_only", no_key_means_loopback_only},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
