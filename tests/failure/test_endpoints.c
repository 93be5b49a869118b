/* SPDX-License-Identifier: Apache-2.0 */
/* A root with several addresses, of which one works: strangers, silence and nothing at the others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

#define LITTLE_NS (20 * WRING_NS_PER_S)

/** A socket with a port on loopback, which the ranks do not inherit. Nobody else gets the port
 *  before it is closed; it refuses whoever comes. @return -1 with errno */
static int bind_here(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return -1;
    *port = ntohs(address.sin_port);
    return fd;
}

/** The same, which listens. */
static int listen_here(int backlog, uint16_t *port)
{
    int fd = bind_here(port);
    return fd >= 0 && listen(fd, backlog) == 0 ? fd : -1;
}

static int connect_here(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        connect(fd, (struct sockaddr *)&address, sizeof(address));
    return fd;
}

/** Ports at which a root is not: closed, full (packets are swallowed), silent, another program. */
static struct {
    uint16_t closed, full, silent, babbling;
    int closed_fd, full_fd, silent_fd, babbling_fd, fillers[8];
} others;

static void make_others(void)
{
    others.closed_fd = bind_here(&others.closed);
    others.full_fd = listen_here(0, &others.full);
    others.silent_fd = listen_here(64, &others.silent);
    others.babbling_fd = listen_here(64, &others.babbling);
    REQUIRE(others.closed_fd >= 0 && others.full_fd >= 0 && others.silent_fd >= 0 &&
                others.babbling_fd >= 0,
            "%s", strerror(errno));
    for (int i = 0; i < 8; i++)
        others.fillers[i] = connect_here(others.full);
}

static void close_others(void)
{
    for (int i = 0; i < 8; i++)
        close(others.fillers[i]);
    close(others.full_fd);
    close(others.silent_fd);
    close(others.babbling_fd);
    close(others.closed_fd);
}

/** Greet whoever comes, as mail servers do, until the job is over. */
static void babble(const struct procs_job *running)
{
    static const char greeting[] = "220 mail.example ESMTP ready, say something\r\n";
    uint64_t limit = wring_deadline_in(DEADLINE_S * WRING_NS_PER_S);
    int fds[256];
    unsigned n = 0;
    while (!procs_await_end(running, 0, 0) && wring_now_ns() < limit) {
        struct pollfd pollfd = {others.babbling_fd, POLLIN, 0};
        if (poll(&pollfd, 1, 20) <= 0 || n == 256)
            continue;
        int fd = accept(others.babbling_fd, NULL, NULL);
        if (fd < 0)
            continue;
        ssize_t ignored = send(fd, greeting, sizeof(greeting) - 1, MSG_NOSIGNAL);
        (void)ignored;
        fds[n++] = fd;
    }
    while (n > 0)
        close(fds[--n]);
}

static char root[1024];

static void list_endpoints(const uint16_t *ports, unsigned n)
{
    size_t at = 0;
    for (unsigned i = 0; i < n; i++)
        at += (size_t)snprintf(root + at, sizeof(root) - at, "%s127.0.0.1:%u", i > 0 ? "," : "",
                               ports[i]);
}

/** @param arg  whether the root is at the list's end */
static int run_listed(struct procs_rank *rank, void *arg)
{
    char full[1100];
    const bool *with_root = arg;
    uint64_t began = wring_now_ns();
    if (*with_root)
        snprintf(full, sizeof(full), "%s,%s", root, rank->params.root);
    else
        snprintf(full, sizeof(full), "%s", root);
    rank->params.root = rank->index == 0 ? rank->params.root : full;
    int code = run_sums(rank, 3, NULL);
    procs_say(rank, "took %s", wring_now_ns() - began < LITTLE_NS ? "little" : "long");
    return code;
}

static bool yes = true, no = false;

static void strangers_and_silence_are_passed_over(void)
{
    make_others();
    /* full six times: each would cost 5 s if they were tried one after the other */
    const uint16_t ports[] = {others.full, others.silent, others.full, others.babbling,
                              others.full, others.closed, others.full, others.silent,
                              others.full, others.full};
    list_endpoints(ports, sizeof(ports) / sizeof(ports[0]));
    start(3, tcp, run_listed);
    job.arg = &yes;
    job.meddle = babble;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 3; i++)
        SAID(i, 0, "closed", "took little");
    close_others();
}

/** What a job's processes share. */
static struct shared {
    atomic_bool refused; /* the neighbour has refused rank 1 */
} * shared;

static void log_refusal(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level;
    procs_say(arg, "log %s: %s", module, text);
    if (strstr(text, "refused someone from 127.0.0.1") != NULL)
        atomic_store(&shared->refused, true);
}

/** Until then nobody answers at the root's endpoint, where ranks may knock already. */
static void await_refusal(void)
{
    uint64_t limit = wring_deadline_in(DEADLINE_S / 2 * WRING_NS_PER_S);
    while (!atomic_load(&shared->refused) && wring_now_ns() < limit)
        usleep(1000);
}

/** Rank 0 of a job with another key, in a process of this test's. @param arg  its socket */
static int run_with_neighbour(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;
    if (rank->index == 0)
        await_refusal();
    if (rank->index < 2)
        return run_listed(rank, &yes);
    /* another job's root, which nobody joins */
    rank->params = (struct wring_session_params){.root = root,
                                                 .root_fd = *(const int *)arg,
                                                 .rank = 0,
                                                 .size = 2,
                                                 .key = "a key of others",
                                                 .log = log_refusal,
                                                 .log_arg = rank,
                                                 .settings = rank->settings};
    rank->settings[1] = "WRING_JOIN_TIMEOUT=8s";
    enum wring_status status = wring_session_open(&rank->params, &session);
    procs_say(rank, "neighbour %s", wring_status_text(status));
    return 0;
}

static void another_job_is_passed_over(void)
{
    uint16_t port;
    int fd = listen_here(64, &port);
    REQUIRE(fd >= 0, "%s", strerror(errno));
    list_endpoints(&port, 1);
    atomic_store(&shared->refused, false);
    start(2, tcp, run_with_neighbour);
    job.processes = 3;
    job.arg = &fd;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        SAID(i, 0, "closed");
    SAID(2, 0, "refused someone from 127.0.0.1", "neighbour peer lost");
    close(fd);
}

static const char *const patient[] = {"WRING_PROVIDER=tcp", "WRING_JOIN_TIMEOUT=600s", NULL};

/** Where all have answered as strangers there is nothing to wait for. */
static int run_wrong_key(struct procs_rank *rank, void *arg)
{
    char twice[64];
    (void)arg;
    if (rank->index == 0)
        rank->settings[2] = "WRING_JOIN_TIMEOUT=8s";
    snprintf(twice, sizeof(twice), "%s,%s", rank->params.root, rank->params.root);
    rank->params.root = twice;
    if (rank->index == 1)
        rank->params.key = "wrong";
    return run_sums(rank, 1, NULL);
}

static void strangers_alone_end_it(void)
{
    start(2, patient, run_wrong_key);
    CHECK(procs_run(&job, DEADLINE_S), "waits for its deadline");
    SAID(1, 2, "at any of its addresses; all ranks need the same WRING_KEY: 127.0.0.1:",
         "the peer does not have this job's key", "open wrong or missing job key");
}

static void endpoints_are_listed_at_the_deadline(void)
{
    make_others();
    const uint16_t ports[] = {others.closed, others.silent, others.full};
    list_endpoints(ports, 3);
    start(2, impatient, run_listed);
    job.arg = &no;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    SAID(1, 2, "rank 1 could not reach rank 0 at any of its addresses: 127.0.0.1:",
         ": Connection refused; 127.0.0.1:", ": who is there does not answer; 127.0.0.1:",
         ": Connection timed out", "open peer lost");
    SAID(0, 2, "rank 1 did not join in time");
    close_others();
}

/** Rank 0 may be told the list too. */
static int run_all_listed(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->params.root_fd > 0)
        close(rank->params.root_fd);
    rank->params.root_fd = 0;
    rank->params.root = root;
    return run_sums(rank, 3, NULL);
}

static void rank_0_listens_for_several(void)
{
    unsigned port = find_ports(2);
    REQUIRE(port != 0, "no free ports");
    snprintf(root, sizeof(root), "192.0.2.77:%u,127.0.0.1:%u,nosuch.invalid:%u", port, port, port);
    start(2, tcp, run_all_listed);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        SAID(i, 0, "closed");
    snprintf(root, sizeof(root), "127.0.0.1:%u,127.0.0.1:%u", port, port + 1);
    start(2, impatient, run_all_listed);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    SAID(0, 2, "rank 0 listens on one port");
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"strangers_and_silence_are_passed_over", strangers_and_silence_are_passed_over},
        {"another_job_is_passed_over", another_job_is_passed_over},
        {"strangers_alone_end_it", strangers_alone_end_it},
        {"endpoints_are_listed_at_the_deadline", endpoints_are_listed_at_the_deadline},
        {"rank_0_listens_for_several", rank_0_listens_for_several},
        {NULL, NULL},
    };
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : wring_test_main(argc, argv, cases);
}
