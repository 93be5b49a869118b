/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exchange by PMI, with a process manager played here that answers as Hydra 4, Hydra 5 or Slurm
 * do, or badly. Ranks are processes, as the client belongs to one.
 */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"
#include "transport/bootstrap/launcher.h"

#define RANKS 3
#define TURNS 2

enum manner {
    HYDRA_4,
    HYDRA_5, /* fields in another order, further ones at the end */
    SLURM,   /* PMI-2 */
    REFUSES, /* init */
    GARBAGE,
    LONG_LINE, /* longer than any answer may be */
    LONG_TEXT, /* and no end of it */
    CLOSES,
    NEVER_ANSWERS, /* the barrier */
};

/* in which ranks come to the barrier if the machine is quiet, and in any case */
#define SHORT_NS (WRING_NS_PER_S / 2)
#define LONG_NS (20 * WRING_NS_PER_S)

struct manager {
    enum manner manner;
    int fds[RANKS];
    unsigned waiting;     /* in the barrier */
    unsigned finalized;   /* ranks that ended as they should */
    unsigned puts;        /* of rank 0, which alone has something to tell */
    char keys[TURNS][64]; /* in the order of puts */
    char values[TURNS][WRING_LAUNCHER_TEXT];
};

/** A rank whose patience is short may be gone, if the machine is busy. */
static void answer(const struct manager *manager, int fd, bool framed, const char *text)
{
    char message[2048];
    int n = framed ? snprintf(message, sizeof(message), "%6zu%s", strlen(text), text)
                   : snprintf(message, sizeof(message), "%s\n", text);
    /* in two parts, as a stream may */
    bool sent = send(fd, message, 3, MSG_NOSIGNAL) == 3 &&
                send(fd, message + 3, (size_t)n - 3, MSG_NOSIGNAL) == n - 3;
    CHECK(sent || manager->manner == NEVER_ANSWERS, "a rank is gone");
}

/** In one piece, so that one read has all of it. */
static void answer_long(int fd, bool ends)
{
    char text[3500];
    memset(text, 'x', sizeof(text));
    memcpy(text, "cmd=response_to_init rc=0 ", 26);
    text[sizeof(text) - 1] = ends ? '\n' : 'x';
    send(fd, text, sizeof(text), MSG_NOSIGNAL);
}

/** The value of key= in a request, up to an end of it. */
static void value_of(const char *request, const char *key, char *out, size_t bytes)
{
    const char *at = strstr(request, key);
    size_t n = at != NULL ? strcspn(at + strlen(key), " ;\n") : 0;
    snprintf(out, bytes, "%.*s", (int)n, at != NULL ? at + strlen(key) : "");
}

static void answer_get(struct manager *manager, int fd, bool framed, const char *request)
{
    char key[64], text[1024];
    value_of(request, "key=", key, sizeof(key));
    for (unsigned i = 0; i < manager->puts; i++) {
        if (strcmp(manager->keys[i], key) != 0)
            continue;
        snprintf(text, sizeof(text),
                 framed                       ? "cmd=kvs-get-response;flag=TRUE;value=%s;rc=0;"
                 : manager->manner == HYDRA_4 ? "cmd=get_result rc=0 msg=success value=%s"
                                              : "cmd=get_result value=%s rc=0",
                 manager->values[i]);
        answer(manager, fd, framed, text);
        return;
    }
    answer(manager, fd, framed,
           framed ? "cmd=kvs-get-response;rc=1;" : "cmd=get_result rc=-1 msg=no value=unknown");
}

static void release_barrier(struct manager *manager, bool framed)
{
    manager->waiting = 0;
    for (unsigned i = 0; i < RANKS; i++)
        answer(manager, manager->fds[i], framed,
               framed                       ? "cmd=kvs-fence-response;rc=0;"
               : manager->manner == HYDRA_4 ? "cmd=barrier_out"
                                            : "cmd=barrier_out tag=0 rc=0");
}

static void take(struct manager *manager, unsigned rank, const char *request)
{
    int fd = manager->fds[rank];
    bool framed = strchr(request, ';') != NULL;

    if (strstr(request, "cmd=init ") != NULL) {
        if (manager->manner == REFUSES)
            answer(manager, fd, false, "cmd=response_to_init rc=-1");
        else if (manager->manner == GARBAGE)
            answer(manager, fd, false, "HTTP/1.1 400 Bad Request");
        else if (manager->manner == LONG_LINE || manager->manner == LONG_TEXT)
            answer_long(fd, manager->manner == LONG_LINE);
        else if (manager->manner == CLOSES)
            shutdown(fd, SHUT_RDWR);
        else
            answer(manager, fd, false,
                   strstr(request, "pmi_version=2") != NULL
                       ? "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0"
                       : "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2");
    } else if (strstr(request, "cmd=fullinit;") != NULL) {
        CHECK(strstr(request, "pmijobid=;") == NULL, "Hydra 5 ends at %s", request);
        answer(manager, fd, true, "cmd=fullinit-response;rank=0;size=3;rc=0;");
    } else if (strstr(request, "cmd=get_my_kvsname") != NULL) {
        answer(manager, fd, false, "cmd=my_kvsname kvsname=kvs_7_0");
    } else if (strstr(request, "put") != NULL && manager->puts < TURNS) {
        CHECK(rank == 0, "rank %u tells something", rank);
        CHECK(framed || strstr(request, "kvsname=kvs_7_0 ") != NULL, "%s", request);
        value_of(request, "key=", manager->keys[manager->puts], sizeof(manager->keys[0]));
        value_of(request, "value=", manager->values[manager->puts], sizeof(manager->values[0]));
        manager->puts++;
        answer(manager, fd, framed,
               framed ? "cmd=kvs-put-response;rc=0;" : "cmd=put_result rc=0 msg=success");
    } else if (strstr(request, "fence") != NULL || strstr(request, "barrier_in") != NULL) {
        if (++manager->waiting == RANKS && manager->manner != NEVER_ANSWERS)
            release_barrier(manager, framed);
    } else if (strstr(request, "get") != NULL) {
        answer_get(manager, fd, framed, request);
    } else if (strstr(request, "finalize") != NULL) {
        manager->finalized++;
        answer(manager, fd, framed, framed ? "cmd=finalize-response;rc=0;" : "cmd=finalize_ack");
    } else {
        CHECK(false, "an unknown request: %s", request);
    }
}

/** Until all ranks have ended. Requests come one at a time from each. */
static void manage(struct manager *manager)
{
    for (unsigned open = RANKS; open > 0;) {
        struct pollfd fds[RANKS];
        for (unsigned i = 0; i < RANKS; i++)
            fds[i] = (struct pollfd){manager->fds[i], POLLIN, 0};
        REQUIRE(poll(fds, RANKS, 30000) > 0, "ranks hang");
        for (unsigned i = 0; i < RANKS; i++) {
            char request[2048];
            if (fds[i].revents == 0)
                continue;
            ssize_t n = recv(manager->fds[i], request, sizeof(request) - 1, 0);
            if (n > 0) {
                request[n] = '\0';
                take(manager, i, request);
                continue;
            }
            close(manager->fds[i]);
            manager->fds[i] = -1;
            open--;
        }
    }
}

/** A child of a rank that exits by itself must not end the exchange of its parent. */
static bool child_leaves_it_alone(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        exit(0);
    return waitpid(child, &status, 0) == child && status == 0;
}

/** In the rank's process. @return its exit code */
static int be_rank(const struct wring_launcher_exchange *exchange, unsigned rank,
                   uint64_t patience_ns, enum wring_status want)
{
    struct wring_log log = {.level = WRING_LOG_DEBUG};
    char why[256];

    if (!exchange->usable(why, sizeof(why)))
        return 2;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        char text[WRING_LAUNCHER_TEXT] = "", told[WRING_LAUNCHER_TEXT];
        snprintf(told, sizeof(told), "wring1|10.0.0.1:4000,[fe80::1%%eth0]:4000|%u", turn);
        if (rank == 0)
            strcpy(text, told);
        enum wring_status status =
            exchange->broadcast(&log, rank == 0, wring_deadline_in(patience_ns), text);
        if (status != want)
            return 3;
        if (want != WRING_OK) /* and there is no second try: answers may still come */
            return exchange->broadcast(&log, rank == 0, wring_deadline_in(patience_ns), text) ==
                           WRING_ERR_SYSTEM
                       ? 0
                       : 5;
        if (strcmp(text, told) != 0 || !child_leaves_it_alone())
            return 4;
    }
    return 0;
}

/** @param in_time  out: all ranks came to the barrier before what they wanted to wait for was over
 */
static void run_within(uint64_t patience_ns, enum manner manner,
                       const struct wring_launcher_exchange *exchange, enum wring_status want,
                       bool *in_time)
{
    struct manager manager = {.manner = manner};
    pid_t pids[RANKS];

    for (unsigned rank = 0; rank < RANKS; rank++) {
        int pair[2];
        REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "no sockets");
        fflush(NULL);
        pids[rank] = fork();
        if (pids[rank] == 0) {
            char text[16];
            for (unsigned i = 0; i < rank; i++)
                close(manager.fds[i]);
            close(pair[0]);
            snprintf(text, sizeof(text), "%d", pair[1]);
            setenv("PMI_FD", text, 1);
            snprintf(text, sizeof(text), "%u", rank);
            setenv("PMI_RANK", text, 1);
            exit(be_rank(exchange, rank, patience_ns, want));
        }
        close(pair[1]);
        manager.fds[rank] = pair[0];
    }
    manage(&manager);
    *in_time = manner != NEVER_ANSWERS || manager.waiting == RANKS;
    for (unsigned rank = 0; rank < RANKS; rank++) {
        int status = -1;
        waitpid(pids[rank], &status, 0);
        CHECK(!*in_time || (WIFEXITED(status) && WEXITSTATUS(status) == 0), "rank %u: %d", rank,
              status);
    }
    CHECK(manager.finalized == (want == WRING_OK ? RANKS : 0), "%u finalized", manager.finalized);
}

static void run(enum manner manner, const struct wring_launcher_exchange *exchange,
                enum wring_status want)
{
    uint64_t patience_ns = manner == NEVER_ANSWERS ? SHORT_NS : LONG_NS;
    bool in_time = false;

    for (; !in_time && patience_ns <= LONG_NS; patience_ns *= 2)
        run_within(patience_ns, manner, exchange, want, &in_time);
    CHECK(in_time, "not all ranks come to the barrier");
}

static void all_ranks_hear_what_rank_0_tells(void)
{
    run(HYDRA_4, &wring_exchange_pmi1, WRING_OK);
    run(HYDRA_5, &wring_exchange_pmi1, WRING_OK);
    run(SLURM, &wring_exchange_pmi2, WRING_OK);
}

static void managers_that_do_not_do_their_part_are_errors(void)
{
    run(REFUSES, &wring_exchange_pmi1, WRING_ERR_SYSTEM);
    run(GARBAGE, &wring_exchange_pmi1, WRING_ERR_SYSTEM);
    run(GARBAGE, &wring_exchange_pmi2, WRING_ERR_SYSTEM);
    run(LONG_LINE, &wring_exchange_pmi1, WRING_ERR_SYSTEM);
    run(LONG_TEXT, &wring_exchange_pmi2, WRING_ERR_SYSTEM);
    run(CLOSES, &wring_exchange_pmi2, WRING_ERR_SYSTEM);
    run(NEVER_ANSWERS, &wring_exchange_pmi1, WRING_ERR_PEER);
    run(NEVER_ANSWERS, &wring_exchange_pmi2, WRING_ERR_PEER);
}

/** While a thread of this process waits for the manager. @param arg  the manager's end */
static void *wait_for_manager(void *arg)
{
    char text[WRING_LAUNCHER_TEXT] = "";
    (void)arg;
    wring_exchange_pmi1.broadcast(NULL, false, wring_deadline_in(20 * WRING_NS_PER_S), text);
    return NULL;
}

/** It neither hangs in a lock that nobody will release nor speaks to the manager. */
static void a_child_of_a_waiting_process_is_refused(void)
{
    int pair[2], status = -1;
    char text[WRING_LAUNCHER_TEXT] = "", request[64];
    pthread_t thread;

    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "no sockets");
    snprintf(text, sizeof(text), "%d", pair[1]);
    setenv("PMI_FD", text, 1);
    setenv("PMI_RANK", "1", 1);
    REQUIRE(pthread_create(&thread, NULL, wait_for_manager, NULL) == 0, "no thread");
    CHECK(recv(pair[0], request, sizeof(request), 0) > 0, "it asks nothing");
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(wring_exchange_pmi1.broadcast(NULL, false, wring_deadline_in(WRING_NS_PER_S), text) ==
                      WRING_ERR_UNSUPPORTED
                  ? 0
                  : 1);
    }
    waitpid(child, &status, 0);
    CHECK(status == 0, "the child ended with %d", status);
    close(pair[0]);
    pthread_join(thread, NULL);
    close(pair[1]);
}

static const struct wring_test_case cases[] = {
    {"all ranks hear what rank 0 tells", all_ranks_hear_what_rank_0_tells},
    {"managers that do not do their part are errors",
     managers_that_do_not_do_their_part_are_errors},
    {"a child of a waiting process is refused", a_child_of_a_waiting_process_is_refused},
    {0},
};

int main(int argc, char **argv)
{
    return wring_test_main(argc, argv, cases);
}
