/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are turned away, and others that let nobody in. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"
#include "transport/bootstrap/rendezvous_private.h"

#define ACCEPT_MS 20000
#define JOBS 5 /* until all come while the root is there: for three seconds more once it knows */

static bool any_came_too_late(void)
{
    bool late = false;
    for (uint32_t i = 0; i < job.ranks; i++)
        late |= strstr(job.texts[i], "could not reach rank 0 at") != NULL;
    return late;
}

static int run_wrong_key(struct procs_rank *rank, void *arg)
{
    (void)arg;
    if (rank->rank == 1)
        rank->params.key = "another key";
    return run_sums(rank, 20, NULL);
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

static int accept_one(int listen_fd)
{
    struct pollfd pollfd = {listen_fd, POLLIN, 0};
    return poll(&pollfd, 1, ACCEPT_MS) > 0 ? accept(listen_fd, NULL, NULL) : -1;
}

static int run_false_root(struct procs_rank *rank, void *arg)
{
    const struct false_root *root = arg;
    uint8_t first[FIRST_BYTES];
    if (rank->index != 0)
        return run_sums(rank, 20, NULL);
    int fd = accept_one(rank->params.root_fd);
    if (fd < 0 || recv(fd, first, sizeof(first), MSG_WAITALL) <= 0 ||
        send(fd, root->says, root->bytes, MSG_NOSIGNAL) < 0)
        return 9;
    shutdown(fd, SHUT_WR);
    while (recv(fd, first, sizeof(first), 0) > 0)
        ;
    close(fd);
    return 0;
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
    return run_sums(rank, 20, NULL);
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
    return run_sums(rank, 20, NULL);
}

static void wrong_size_is_named(void)
{
    bool late = true;
    for (int i = 0; i < JOBS && late; i++) {
        start(4, impatient, run_wrong_size);
        CHECK(procs_run(&job, DEADLINE_S / 2), "hangs");
        late = any_came_too_late();
    }
    for (uint32_t i = 0; i < 4; i++)
        SAID(i, 2, "says that the job has 3 ranks, rank 0 says 4", "rank 1 (127.0.0.1)",
             "WRING_SIZE", "open ranks disagree");
}

static int run_no_key(struct procs_rank *rank, void *arg)
{
    (void)arg;
    rank->params.key = NULL;
    rank->params.root = "192.0.2.1:5555"; /* documentation's; nobody is asked */
    if (rank->params.root_fd > 0)
        close(rank->params.root_fd);
    rank->params.root_fd = 0;
    return run_sums(rank, 1, NULL);
}

static void no_key_means_loopback_only(void)
{
    start(2, impatient, run_no_key);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t i = 0; i < 2; i++)
        CHECK(strstr(job.texts[i], "WRING_KEY") != NULL && job.codes[i] == 2, "rank %u said:\n%s",
              i, job.texts[i]);
}

/** A rank that knows the key and then does not keep to the protocol. */
struct insider {
    const void *sends;
    size_t bytes;
    const char *others_see, *status;
};

/** Through the handshake, with the right key and a rank that is missed. */
static bool get_in(int fd, uint32_t rank, uint32_t size)
{
    static const char key[] = "a key for tests";
    struct wring_patience patience = {wring_now_ns() + 5 * WRING_NS_PER_S, NULL};
    uint8_t secret[WRING_SECRET_BYTES], hello[WRING_RENDEZVOUS_HELLO_BYTES];
    uint8_t head[WRING_RENDEZVOUS_FRAME_BYTES];
    struct wring_rendezvous_frame frame;
    struct wring_auth auth;

    wring_put_u32(hello, rank);
    wring_put_u32(hello + 4, size);
    wring_secret_derive(key, strlen(key), "wring rendezvous", NULL, 0, secret);
    wring_auth_init(&auth, true, WRING_AUTH_RENDEZVOUS, secret, hello, sizeof(hello));
    while (wring_auth_status(&auth) == WRING_ERR_AGAIN) {
        struct pollfd pollfd = {fd, POLLIN, 0};
        if (!wring_stream_auth(fd, &auth))
            return false;
        if (wring_auth_status(&auth) == WRING_ERR_AGAIN &&
            wring_stream_poll(&pollfd, 1, &patience) != WRING_OK)
            return false;
    }
    return wring_stream_read(fd, head, sizeof(head), &patience) == WRING_OK &&
           wring_rendezvous_parse(head, &frame) && frame.kind == WRING_RENDEZVOUS_ADMITTED;
}

static int run_insider(struct procs_rank *rank, void *arg)
{
    const struct insider *insider = arg;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char rest[256];

    if (rank->rank != 1)
        return run_sums(rank, 20, NULL);
    address.sin_port = htons((uint16_t)atoi(strchr(rank->params.root, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        !get_in(fd, 1, rank->size) || send(fd, insider->sends, insider->bytes, MSG_NOSIGNAL) < 0)
        return 9;
    while (recv(fd, rest, sizeof(rest), 0) > 0) /* stays until the root has had enough */
        ;
    return 0;
}

static void insider_who_breaks_the_rules_is_named(void)
{
    static const uint8_t noise[40] = {0xEE};
    /* blobs of the first exchange: of another number, of 2^60 bytes, and only half */
    static const uint8_t other[WRING_RENDEZVOUS_FRAME_BYTES] = {0x57, 0x52, 0x5a, 0x56, 1,
                                                                0,    0,    0,    9};
    static const uint8_t huge[WRING_RENDEZVOUS_FRAME_BYTES] = {0x57, 0x52,    0x5a,       0x56,
                                                               1,    [8] = 1, [27] = 0x10};
    static const uint8_t half[WRING_RENDEZVOUS_FRAME_BYTES + 4] = {0x57, 0x52,    0x5a,     0x56,
                                                                   1,    [8] = 1, [20] = 16};
    static const char malformed[] = "rank 1 sent malformed bytes to the rendezvous";
    static const char late[] = "rank 1 did not take part in opening, committing or making a group "
                               "in time (WRING_JOIN_TIMEOUT)";
    static struct insider insiders[] = {
        {noise, sizeof(noise), malformed, "open malformed bytes received"},
        {other, sizeof(other), malformed, "open malformed bytes received"},
        {huge, sizeof(huge), malformed, "open malformed bytes received"},
        {half, sizeof(half), late, "open peer lost"},
        {"", 0, late, "open peer lost"},
    };
    for (size_t i = 0; i < sizeof(insiders) / sizeof(insiders[0]); i++) {
        start(3, impatient, run_insider);
        job.arg = &insiders[i];
        CHECK(procs_run(&job, DEADLINE_S / 2), "insider %zu: hangs", i);
        CHECK(job.codes[1] == 0, "the insider does not get in: %d", job.codes[1]);
        for (uint32_t r = 0; r < 3; r += 2)
            SAID(r, 2, insiders[i].others_see, insiders[i].status);
    }
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"wrong_key_is_refused", wrong_key_is_refused},
        {"other_version_is_refused", other_version_is_refused},
        {"root_of_another_kind_is_recognised", root_of_another_kind_is_recognised},
        {"rank_given_twice_is_named", rank_given_twice_is_named},
        {"wrong_size_is_named", wrong_size_is_named},
        {"insider_who_breaks_the_rules_is_named", insider_who_breaks_the_rules_is_named},
        {"no_key_means_loopback_only", no_key_means_loopback_only},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
