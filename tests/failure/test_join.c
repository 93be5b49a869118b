/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that never come, or are not what they say. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

static void missing_rank_is_named(void)
{
    start(4, impatient, run_plain);
    job.processes = 3;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 3; i++)
        SAID(i, 2, "rank 3 did not join in time", "3 of 4 are here", "open peer lost");
}

static void missing_ranks_are_all_named(void)
{
    start(5, impatient, run_plain);
    job.processes = 2;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        SAID(i, 2, "ranks 2, 3, 4 did not join in time", "2 of 5 are here");
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
    SAID(1, 2, "does not have this job's key", "WRING_KEY", "open wrong or missing job key");
    CHECK(strstr(job.texts[1], "of 3") == NULL, "a stranger was told of the job:\n%s",
          job.texts[1]);
    SAID(0, 2,
         "refused someone from 127.0.0.1 who wanted to join: the peer does not have this job's key",
         " yet to come");
    for (uint32_t i = 0; i < 3; i += 2)
        SAID(i, 2, "rank 1 did not join in time",
             "someone from 127.0.0.1 was refused for a wrong WRING_KEY", "open peer lost");
}

#define FIRST_BYTES 76 /* of the handshake's first message; WIRE.md */

/** Say hello as another version would. @return false unless the answer names version 1 and 0xA001
 */
static bool join_as_version_2(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const uint8_t want[] = {'W', 'R', 'N', 'G', 1, 0, 0x01, 0xA0};
    uint8_t first[FIRST_BYTES] = {'W', 'R', 'N', 'G', 2, 0, 1, 0}, answer[16];
    size_t got = 0;
    ssize_t n = 0;

    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool sent = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
                send(fd, first, sizeof(first), MSG_NOSIGNAL) == (ssize_t)sizeof(first);
    while (sent && got < sizeof(answer) &&
           (n = recv(fd, answer + got, sizeof(answer) - got, 0)) > 0)
        got += (size_t)n;
    close(fd);
    return n == 0 && got == sizeof(want) && memcmp(answer, want, sizeof(want)) == 0;
}

static void send_version_2(const struct procs_job *running)
{
    CHECK(join_as_version_2(running->port), "version 2 is not told why it is refused");
}

static void other_version_is_refused(void)
{
    start(3, impatient, run_plain);
    job.processes = 2;
    job.meddle = send_version_2;
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    SAID(0, 2,
         "refused someone from 127.0.0.1 who wanted to join: the peer speaks wire version 2, "
         "this side version 1");
    for (uint32_t i = 0; i < 2; i++)
        SAID(i, 2, "rank 2 did not join in time",
             "someone from 127.0.0.1 for another version of wring", "open peer lost");
}

/** What a root of another kind says to whoever connects, then the end. */
struct false_root {
    const void *says;
    size_t bytes;
};

static int run_false_root(struct procs_rank *rank, void *arg)
{
    const struct false_root *root = arg;
    uint8_t first[FIRST_BYTES];
    if (rank->index != 0)
        return exchange(rank, 20, NULL);
    for (;;) { /* until the job's end */
        struct pollfd pollfd = {rank->params.root_fd, POLLIN, 0};
        if (poll(&pollfd, 1, 5000) <= 0)
            return 0;
        int fd = accept(rank->params.root_fd, NULL, NULL);
        if (recv(fd, first, sizeof(first), MSG_WAITALL) > 0 &&
            send(fd, root->says, root->bytes, MSG_NOSIGNAL) < 0)
            return 9;
        shutdown(fd, SHUT_WR);
        while (recv(fd, first, sizeof(first), 0) > 0)
            ;
        close(fd);
    }
}

static void root_of_another_kind_is_recognised(void)
{
    static const uint8_t version_2[] = {'W', 'R', 'N', 'G', 2, 0, 0x01, 0xA0};
    static const char http[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    static const struct {
        struct false_root root;
        const char *want, *status;
    } kinds[] = {
        {{version_2, sizeof(version_2)},
         "rank 1 was not let in by the root: the peer speaks wire version 2, this side version 1",
         "open incompatible version"},
        {{http, sizeof(http) - 1},
         "rank 1 was not let in by the root: what is on the other end does not speak this protocol",
         "open malformed"},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct false_root root = kinds[i].root;
        start(2, tcp, run_false_root); /* WRING_JOIN_TIMEOUT is a minute */
        job.arg = &root;
        CHECK(procs_run(&job, DEADLINE_S / 2), "hangs");
        SAID(1, 2, kinds[i].want, kinds[i].status);
    }
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
    start(3, tcp, run_same_rank);
    CHECK(procs_run(&job, DEADLINE_S / 2), "hangs");
    for (uint32_t i = 0; i < 3; i++)
        SAID(i, 2,
             "two processes joined as rank 1, from 127.0.0.1 and from 127.0.0.1: give each its own "
             "WRING_RANK",
             "open ranks disagree");
}

static int run_wrong_size(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->index == 1)
        rank->params.size = 3;
    return exchange(rank, 20, NULL);
}

static void wrong_size_is_named(void)
{
    start(4, tcp, run_wrong_size);
    CHECK(procs_run(&job, DEADLINE_S / 2), "hangs");
    for (uint32_t i = 0; i < 4; i++)
        SAID(i, 2, "says that the job has 3 ranks, rank 0 says 4", "rank 1 (127.0.0.1)",
             "WRING_SIZE", "open ranks disagree");
}

/** Rank 1 joins, contributes to the first exchange and is gone before rank 2 comes. */
static int run_dying(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 1 && fork() == 0) {
        usleep(300000);
        kill(getppid(), SIGKILL);
        _exit(0);
    }
    if (rank->rank == 2)
        usleep(800000); /* late, but it must hear of it as well */
    if (rank->rank == 3)
        pause(); /* never comes */
    return exchange(rank, 20, NULL);
}

static void end_the_sleeper(const struct procs_job *running)
{
    sleep(3);
    kill(running->pids[3], SIGKILL);
}

static void rank_that_dies_while_others_join_is_named(void)
{
    start(4, tcp, run_dying); /* WRING_JOIN_TIMEOUT is a minute */
    job.meddle = end_the_sleeper;
    CHECK(procs_run(&job, DEADLINE_S / 2), "noticed only at the deadline");
    CHECK(job.codes[1] == -SIGKILL, "code %d", job.codes[1]);
    for (uint32_t i = 0; i < 3; i += 2)
        SAID(i, 2, "rank 1 ended while the others were joining", "open peer lost");
}

static int run_for_long(struct procs_rank *rank, void *arg)
{
    (void)arg;
    return exchange(rank, 1000000, NULL);
}

static useconds_t kill_after_us;
static uint32_t victim;

static void kill_the_victim(const struct procs_job *running)
{
    usleep(kill_after_us);
    kill(running->pids[victim], SIGKILL);
}

/** A rank is named, and nobody had to wait for it in vain, unless it had never joined. */
static void check_blamed(uint32_t rank, const char *provider)
{
    char named[16];
    snprintf(named, sizeof(named), "rank %u", victim);
    const char *text = job.texts[rank];
    const char *in_vain = strstr(text, " in time");
    CHECK(job.codes[rank] >= 2 && strstr(text, named) != NULL &&
              (in_vain == NULL || strstr(text, "did not join in time") != NULL),
          "%s, killed rank %u after %u us; rank %u (code %d) said:\n%s", provider, victim,
          kill_after_us, rank, job.codes[rank], text);
    for (uint32_t other = 0; other < 4; other++) {
        char lost[3][48];
        snprintf(lost[0], sizeof(lost[0]), "no connection to rank %u ", other);
        snprintf(lost[1], sizeof(lost[1]), "rank %u is lost", other);
        snprintf(lost[2], sizeof(lost[2]), "rank %u ended", other);
        for (int i = 0; i < 3 && other != victim; i++)
            CHECK(strstr(text, lost[i]) == NULL,
                  "%s, killed rank %u after %u us; rank %u blames another:\n%s", provider, victim,
                  kill_after_us, rank, text);
    }
}

static const char *const tcp_soon[] = {"WRING_PROVIDER=tcp", "WRING_JOIN_TIMEOUT=5s", NULL};
static const char *const shm_soon[] = {"WRING_PROVIDER=shm", "WRING_JOIN_TIMEOUT=5s", NULL};

/** Whatever the job was doing: meeting, connecting, making its group, committing, exchanging. */
static void rank_killed_at_any_moment_is_named(void)
{
    for (unsigned i = 0; i < 40; i++) {
        const char *const *settings = i % 2 == 0 ? tcp_soon : shm_soon;
        start(4, settings, run_for_long);
        victim = 1 + i % 3;
        kill_after_us = (2 + i) * 1000; /* earlier it has not joined, and is waited for */
        job.meddle = kill_the_victim;
        CHECK(procs_run(&job, DEADLINE_S), "%s, killed after %u us: hangs", settings[0],
              kill_after_us);
        for (uint32_t r = 0; r < 4; r++)
            if (r != victim)
                check_blamed(r, settings[0]);
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
        {"missing_rank_is_named", missing_rank_is_named},
        {"missing_ranks_are_all_named", missing_ranks_are_all_named},
        {"rank_that_dies_while_others_join_is_named", rank_that_dies_while_others_join_is_named},
        {"rank_killed_at_any_moment_is_named", rank_killed_at_any_moment_is_named},
        {"wrong_key_is_refused", wrong_key_is_refused},
        {"other_version_is_refused", other_version_is_refused},
        {"root_of_another_kind_is_recognised", root_of_another_kind_is_recognised},
        {"rank_given_twice_is_named", rank_given_twice_is_named},
        {"wrong_size_is_named", wrong_size_is_named},
        {"no_key_means_loopback_only", no_key_means_loopback_only},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
