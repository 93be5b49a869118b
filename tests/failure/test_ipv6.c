/* SPDX-License-Identifier: Apache-2.0 */
/* A job on ::1: rendezvous and tcp connections, all of them over IPv6. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

static int listen_fd = -1;
static char root[32];

/** A socket on ::1 that the ranks inherit. @return 0 or errno */
static int listen_on_loopback(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    socklen_t bytes = sizeof(address);
    listen_fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&address, bytes) != 0 ||
        listen(listen_fd, 128) != 0 ||
        getsockname(listen_fd, (struct sockaddr *)&address, &bytes) != 0)
        return errno;
    snprintf(root, sizeof(root), "[::1]:%u", ntohs(address.sin6_port));
    return 0;
}

/** Point a rank at it instead of where the job would have met. */
static void meet_on_ipv6(struct procs_rank *rank)
{
    if (rank->params.root_fd > 0)
        close(rank->params.root_fd);
    rank->params.root_fd = rank->index == 0 ? listen_fd : 0;
    rank->params.root = root;
    if (rank->index != 0)
        close(listen_fd);
}

/** Connections of this process by family. */
static void count_families(unsigned *v4, unsigned *v6)
{
    *v4 = *v6 = 0;
    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_storage peer;
        socklen_t bytes = sizeof(peer);
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) != 0)
            continue;
        *v4 += peer.ss_family == AF_INET;
        *v6 += peer.ss_family == AF_INET6;
    }
}

static void say_families(struct procs_rank *rank, unsigned step)
{
    unsigned v4, v6;
    if (step != 10)
        return;
    count_families(&v4, &v6);
    procs_say(rank, "%u of IPv4, %u of IPv6", v4, v6);
}

static int run_on_ipv6(struct procs_rank *rank, void *arg)
{
    (void)arg;
    meet_on_ipv6(rank);
    return run_sums(rank, 20, say_families);
}

static void all_goes_over_ipv6(void)
{
    int error = listen_on_loopback();
    REQUIRE(error == 0, "%s", strerror(error));
    start(3, tcp, run_on_ipv6);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    /* two ranks, each by rendezvous, the control tree and tcp */
    SAID(0, 0, "0 of IPv4, 6 of IPv6", "closed");
    for (uint32_t i = 1; i < 3; i++)
        SAID(i, 0, "0 of IPv4, 4 of IPv6", "closed");
    close(listen_fd);
}

static int run_wrong_size(struct procs_rank *rank, void *arg)
{
    (void)arg;
    meet_on_ipv6(rank);
    if (rank->index == 1)
        rank->params.size = 3;
    return run_sums(rank, 20, NULL);
}

static void messages_name_ipv6_addresses(void)
{
    int error = listen_on_loopback();
    REQUIRE(error == 0, "%s", strerror(error));
    start(2, tcp, run_wrong_size);
    CHECK(procs_run(&job, DEADLINE_S / 2), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        SAID(i, 2, "rank 1 (::1) says that the job has 3 ranks, rank 0 says 2");
    close(listen_fd);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"all_goes_over_ipv6", all_goes_over_ipv6},
        {"messages_name_ipv6_addresses", messages_name_ipv6_addresses},
        {NULL, NULL},
    };
    int error = listen_on_loopback();
    if (error != 0)
        wring_test_skip("nobody can listen on ::1 here: %s", strerror(error));
    close(listen_fd);
    return wring_test_main(argc, argv, cases);
}
