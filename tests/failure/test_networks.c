/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that are told which interface and which ports to use, rightly and wrongly. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/procs.h"
#include "tests/lib/test.h"

#define DEADLINE_S 60

static struct procs_job job; /* too large for a stack frame that is read easily */

/** Exit codes: 0 a barrier was passed, 2 no session, 3 no barrier. */
static int run_barrier(struct procs_rank *rank, void *arg)
{
    struct wring_session *session;
    const bool *no_key = arg;
    if (no_key != NULL && *no_key)
        rank->params.key = NULL;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status != WRING_OK) {
        procs_say(rank, "open %s", wring_status_text(status));
        return 2;
    }
    float one = 1;
    status = wring_allreduce(wring_session_world(session), &one, &one, 1, WRING_F32, WRING_SUM,
                             NULL, NULL);
    wring_session_close(session);
    return status == WRING_OK && one == (float)rank->size ? 0 : 3;
}

static void run(const char *const *settings, bool no_key, int code, const char *line)
{
    memset(&job, 0, sizeof(job));
    job.ranks = 3;
    job.settings = settings;
    job.run = run_barrier;
    job.arg = &no_key;
    CHECK(procs_run(&job, DEADLINE_S), "%s: hangs", settings[0]);
    for (uint32_t i = 0; i < job.ranks; i++)
        CHECK(job.codes[i] == code && strstr(job.texts[i], line) != NULL,
              "%s: rank %u (code %d) said:\n%s", settings[0], i, job.codes[i], job.texts[i]);
}

#define TCP "WRING_PROVIDER=tcp", "WRING_LOG=info", "WRING_JOIN_TIMEOUT=20s"

static void named_networks_are_used(void)
{
    static const char *const prefix[] = {"WRING_IFACE=nosuch,lo", TCP, NULL};
    static const char *const exact[] = {"WRING_IFACE==lo", TCP, NULL};
    run(prefix, false, 0, "WRING_IFACE=nosuch,lo: lo, 127.0.0.1");
    run(exact, true, 0, "listening on 127.0.0.1:");
}

static void ports_are_shared_out(void)
{
    static const char *const range[] = {"WRING_PORTS=23000-23999", TCP, NULL};
    unsigned ports[3] = {0};
    run(range, false, 0, "listening on 127.0.0.1:23");
    for (int i = 0; i < 3; i++) {
        const char *at = strstr(job.texts[i], "listening on 127.0.0.1:");
        CHECK(at != NULL && sscanf(at, "listening on 127.0.0.1:%u", &ports[i]) == 1 &&
                  ports[i] >= 23000 && ports[i] <= 23999,
              "rank %d said:\n%s", i, job.texts[i]);
    }
    CHECK(ports[0] != ports[1] && ports[1] != ports[2] && ports[0] != ports[2], "%u %u %u",
          ports[0], ports[1], ports[2]);
}

/** A port that nobody has at the moment; with the next one, two at most. */
static unsigned find_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && bind(fd, (struct sockaddr *)&at, bytes) == 0 &&
                 getsockname(fd, (struct sockaddr *)&at, &bytes) == 0;
    close(fd);
    return found && ntohs(at.sin_port) < UINT16_MAX ? ntohs(at.sin_port) : 23000;
}

/** Whoever gets no port says what helps, and the others do not wait for it. */
static void too_few_ports_are_told(void)
{
    char ports[32], line[128];
    const char *const settings[] = {ports, TCP, NULL};
    unsigned first = find_port(), without = 0;

    snprintf(ports, sizeof(ports), "WRING_PORTS=%u-%u", first, first + 1);
    snprintf(line, sizeof(line),
             "all ports from %u to %u are in use: widen WRING_PORTS, every rank of a host takes "
             "two or more",
             first, first + 1);
    run(settings, false, 2, "address cannot be used");
    for (uint32_t i = 0; i < job.ranks; i++)
        without += strstr(job.texts[i], line) != NULL;
    CHECK(without >= 1, "nobody lacks a port:\n%s\n%s\n%s", job.texts[0], job.texts[1],
          job.texts[2]);
}

static void mistakes_are_named(void)
{
    static const char *const nosuch[] = {"WRING_IFACE==nosuch7", TCP, NULL};
    static const char *const both[] = {"WRING_IFACE=lo", "WRING_BIND=127.0.0.1", TCP, NULL};
    static const char *const backwards[] = {"WRING_PORTS=9-1", TCP, NULL};
    run(nosuch, false, 2, "WRING_IFACE==nosuch7: no such interface is up");
    run(both, false, 2, "WRING_BIND=127.0.0.1 and WRING_IFACE=lo: set one of them");
    run(backwards, false, 2, "WRING_PORTS=9-1: needs first-last");
}

static void no_key_means_loopback_only(void)
{
    static const char *const others[] = {"WRING_IFACE=^lo", TCP, NULL};
    run(others, true, 2, "WRING_IFACE=^lo: "); /* a host may have no other network at all */
    const char *text = job.texts[0];
    CHECK(strstr(text, "without a key") != NULL || strstr(text, "no such interface") != NULL,
          "rank 0 said:\n%s", text);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"named_networks_are_used", named_networks_are_used},
        {"ports_are_shared_out", ports_are_shared_out},
        {"too_few_ports_are_told", too_few_ports_are_told},
        {"mistakes_are_named", mistakes_are_named},
        {"no_key_means_loopback_only", no_key_means_loopback_only},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
