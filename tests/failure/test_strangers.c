/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers at the ports of a job. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

/** What a job's processes and we see. */
static struct shared {
    atomic_bool strangers_came;
} * shared;

/** Ranks come behind them. */
static void await_strangers(void)
{
    uint64_t limit = wring_deadline_in(DEADLINE_S / 2 * WRING_NS_PER_S);
    while (!atomic_load(&shared->strangers_came) && wring_now_ns() < limit)
        usleep(1000);
}

/** Does not wait where the port's queue is full. @return -1 on failure */
static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
        errno != EINPROGRESS) {
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
    return run_sums(rank, 50, wait_a_little_in_rank_1);
}

static void garbage_at_the_rendezvous_does_no_harm(void)
{
    start(3, tcp, run_late);
    job.meddle = pester_rendezvous;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 3; i++)
        CHECK(job.codes[i] == 0, "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
}

#define IDLERS 300 /* many times the places that the root has for strangers */

static int idlers[IDLERS];

static void crowd_the_rendezvous(const struct procs_job *running)
{
    for (int i = 0; i < IDLERS; i++)
        idlers[i] = connect_to(running->port);
    CHECK(idlers[IDLERS - 1] >= 0, "%s", strerror(errno));
    atomic_store(&shared->strangers_came, true);
}

static int run_latest(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank > 0)
        await_strangers();
    return run_sums(rank, 20, NULL);
}

/** They are there before the ranks and stay to the end. */
static void idle_connections_do_not_keep_ranks_out(void)
{
    atomic_store(&shared->strangers_came, false);
    start(3, tcp, run_latest);
    job.meddle = crowd_the_rendezvous;
    CHECK(procs_run(&job, DEADLINE_S / 2), "ranks do not get in");
    for (uint32_t i = 0; i < 3; i++)
        CHECK(job.codes[i] == 0, "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
    for (int i = 0; i < IDLERS; i++)
        if (idlers[i] >= 0)
            close(idlers[i]);
}

#define CROWD 2100 /* more than the root would wait for one after the other */

static int crowd[CROWD];

/** @return how many of them there could be */
static unsigned crowd_in(uint16_t port)
{
    struct rlimit limit;
    unsigned n = 0;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = connect_to(port);
        n += crowd[i] >= 0;
    }
    return n;
}

static void bring_a_crowd(const struct procs_job *running)
{
    unsigned n = crowd_in(running->port);
    CHECK(n == CROWD, "only %u strangers: %s", n, strerror(errno));
    atomic_store(&shared->strangers_came, true);
}

static void send_the_crowd_away(void)
{
    for (int i = 0; i < CROWD; i++)
        if (crowd[i] >= 0)
            close(crowd[i]);
}

static int run_after_crowd(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank > 0)
        await_strangers();
    return run_sums(rank, 20, NULL);
}

/** From the address from which the ranks come, as behind a translator of addresses. */
static void crowds_that_say_nothing_make_room(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_JOIN_TIMEOUT=30s", NULL};
    atomic_store(&shared->strangers_came, false);
    start(3, settings, run_after_crowd);
    job.meddle = bring_a_crowd;
    CHECK(procs_run(&job, DEADLINE_S), "ranks do not get in");
    for (uint32_t i = 0; i < 3; i++)
        CHECK(job.codes[i] == 0, "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
    SAID(0, 0, "closed a connection from 127.0.0.1 that said nothing", "ranks 1, 2 yet to come");
    send_the_crowd_away();
}

static void those_who_said_nothing_are_counted(void)
{
    static const char want[] = "did not join in time (WRING_JOIN_TIMEOUT): 1 of 2 are here; ";
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_JOIN_TIMEOUT=8s", NULL};
    unsigned n = 0;
    start(2, settings, run_plain);
    job.processes = 1;
    job.meddle = bring_a_crowd;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    const char *at = strstr(job.texts[0], want);
    CHECK(at != NULL && sscanf(at + strlen(want), "%u connections said nothing", &n) == 1 &&
              n >= 300 && n <= CROWD && strstr(at, "the last from 127.0.0.1") != NULL,
          "%u; rank 0 said:\n%s", n, job.texts[0]);
    send_the_crowd_away();
}

/** As many descriptors as are open, and a few more. */
static void leave_descriptors(rlim_t more)
{
    struct rlimit limit;
    int lowest = dup(0);
    close(lowest);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)lowest + more;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static int run_short_of_descriptors(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 0)
        leave_descriptors(3);
    double cpu = cpu_seconds();
    uint64_t began = wring_now_ns();
    int code = run_sums(rank, 20, NULL);
    cpu = cpu_seconds() - cpu;
    double wall = (double)(wring_now_ns() - began) / 1e9;
    procs_say(rank, "computed for %s of the time", cpu < wall / 4 ? "little" : "much");
    return code;
}

static void short_of_descriptors_is_said_and_slept_through(void)
{
    start(8, impatient, run_short_of_descriptors);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    SAID(0, 2, "rendezvous: cannot accept a connection now: Too many open files: all ",
         " that this process may have are in use (ulimit -n); at least ", "did not join in time",
         "rank 0 cannot take more: Too many open files: all ", "open peer lost",
         "computed for little of the time");
    const char *first = strstr(job.texts[0], "cannot accept a connection now");
    CHECK(first == NULL || strstr(first + 1, "cannot accept a connection now") == NULL,
          "it is said again and again:\n%s", job.texts[0]);
}

/** Somebody raises the limit while ranks wait: once rank 0 has lowered it. */
static void give_descriptors(const struct procs_job *running)
{
    struct rlimit limit, rank_0 = {0};
    uint64_t until_ns = wring_deadline_in(DEADLINE_S / 4 * WRING_NS_PER_S);
    getrlimit(RLIMIT_NOFILE, &limit);
    do
        usleep(1000);
    while (prlimit(running->pids[0], RLIMIT_NOFILE, NULL, &rank_0) == 0 &&
           rank_0.rlim_cur == limit.rlim_cur && wring_now_ns() < until_ns);
    usleep(500000);
    CHECK(prlimit(running->pids[0], RLIMIT_NOFILE, &limit, NULL) == 0, "%s", strerror(errno));
}

static const char *const tcp_alone[] = {"WRING_PROVIDER=tcp", "WRING_JOIN_TIMEOUT=30s", NULL};

static void ranks_join_when_descriptors_come_free(void)
{
    start(8, tcp_alone, run_short_of_descriptors);
    job.meddle = give_descriptors;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 8; i++)
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

/** @return how many connections there were to ports of the ranks' providers */
static unsigned pester_all(void)
{
    uint16_t ports[256];
    int fds[NUISANCES];
    unsigned connected = 0;
    int n = listening_ports(ports, 256);
    for (int i = 0; i < n; i++) {
        if (ports[i] == job.port || !is_ours(ports[i]))
            continue;
        pester(ports[i], fds);
        for (int k = 0; k < NUISANCES; k++)
            if (fds[k] >= 0) {
                connected++;
                close(fds[k]);
            }
    }
    return connected;
}

/** Ten times, from when there is somebody to pester; less where the job is over before. */
static void pester_providers(const struct procs_job *running)
{
    uint64_t limit = wring_deadline_in(DEADLINE_S / 2 * WRING_NS_PER_S);
    int turns = 0;
    pestered = 0;
    while (turns < 10 && !procs_await_end(running, 0, 0) && wring_now_ns() < limit) {
        usleep(100000);
        unsigned connected = pester_all();
        pestered += connected;
        turns += connected > 0;
    }
}

static void rest_now_and_then(struct procs_rank *rank, unsigned step)
{
    (void)rank;
    if (step % 2 == 0)
        usleep(100000);
}

static int run_resting(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return run_sums(rank, 40, rest_now_and_then);
}

/** On a machine that is busy the ranks may be done before their ports were found. */
static void garbage_at_the_provider_does_no_harm(void)
{
    pestered = 0;
    for (int job_number = 0; job_number < 10 && pestered == 0; job_number++) {
        start(3, tcp, run_resting);
        job.meddle = pester_providers;
        CHECK(procs_run(&job, DEADLINE_S), "hangs");
        for (uint32_t i = 0; i < 3; i++)
            CHECK(job.codes[i] == 0, "rank %u (code %d) said:\n%s", i, job.codes[i], job.texts[i]);
    }
    CHECK(pestered > 0, "no port was found to send garbage to");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"garbage_at_the_rendezvous_does_no_harm", garbage_at_the_rendezvous_does_no_harm},
        {"idle_connections_do_not_keep_ranks_out", idle_connections_do_not_keep_ranks_out},
        {"crowds_that_say_nothing_make_room", crowds_that_say_nothing_make_room},
        {"those_who_said_nothing_are_counted", those_who_said_nothing_are_counted},
        {"short_of_descriptors_is_said_and_slept_through",
         short_of_descriptors_is_said_and_slept_through},
        {"ranks_join_when_descriptors_come_free", ranks_join_when_descriptors_come_free},
        {"garbage_at_the_provider_does_no_harm", garbage_at_the_provider_does_no_harm},
        {NULL, NULL},
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : wring_test_main(argc, argv, cases);
}
