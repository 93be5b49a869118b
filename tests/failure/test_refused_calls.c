/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank says when its system refuses a call: which one, why and what helps, at the level that
 * shows by default. By real limits, and where these cannot be aimed, by calls of this program that
 * stand in the place of the C library's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

#define SOME_UID 54321 /* of nobody, who runs nothing else */
#define DESCRIPTORS_MAX 4096
#define TURNS_MAX 12 /* of one call, that are each tried */

/* ---- calls that are refused ---- */

/** Which call fails from its n-th time on, until the session has ended. */
static struct refusal {
    const char *call; /* NULL: none */
    unsigned from, seen;
    int error;
} refusal;

static bool is_refused(const char *call)
{
    if (refusal.call == NULL || strcmp(refusal.call, call) != 0 || ++refusal.seen < refusal.from)
        return false;
    errno = refusal.error;
    return true;
}

/** The C library's function, once it is known. */
#define REAL(name)                 \
    static __typeof__(&name) real; \
    if (real == NULL)              \
        *(void **)(uintptr_t)&real = dlsym(RTLD_NEXT, #name);

int socket(int domain, int type, int protocol)
{
    REAL(socket)
    return is_refused("socket") ? -1 : real(domain, type, protocol);
}

int accept4(int fd, __SOCKADDR_ARG from, socklen_t *bytes, int flags)
{
    REAL(accept4)
    return is_refused("accept4") ? -1 : real(fd, from, bytes, flags);
}

int epoll_create1(int flags)
{
    REAL(epoll_create1)
    return is_refused("epoll_create1") ? -1 : real(flags);
}

int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
    REAL(epoll_ctl)
    return op == EPOLL_CTL_ADD && is_refused("epoll_ctl") ? -1 : real(epoll, op, fd, event);
}

int eventfd(unsigned count, int flags)
{
    REAL(eventfd)
    return is_refused("eventfd") ? -1 : real(count, flags);
}

int timerfd_create(clockid_t clock, int flags)
{
    REAL(timerfd_create)
    return is_refused("timerfd_create") ? -1 : real(clock, flags);
}

int memfd_create(const char *name, unsigned flags)
{
    REAL(memfd_create)
    return is_refused("memfd_create") ? -1 : real(name, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    REAL(pthread_create)
    return is_refused("pthread_create") ? errno : real(thread, attr, run, arg);
}

/* ---- what a rank does ---- */

static const char *const providers[] = {"WRING_PROVIDER=tcp", "WRING_PROVIDER=shm"};

/** How long ranks wait for each other: for one that has failed, so not long. The second is for a
 *  job that a busy machine kept from its processors for longer than the first. */
static const char *const patience[][2] = {{"WRING_JOIN_TIMEOUT=5s", "WRING_PEER_TIMEOUT=10s"},
                                          {"WRING_JOIN_TIMEOUT=20s", "WRING_PEER_TIMEOUT=25s"}};

/** Open, exchange in memory of the library's, close. */
static int use(struct procs_rank *rank)
{
    struct wring_bucket_params params = WRING_BUCKET_PARAMS_INIT;
    struct wring_session *session;
    struct wring_bucket *bucket;
    void *data = NULL;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status != WRING_OK) {
        procs_say(rank, "open %s", wring_status_text(status));
        return 2;
    }
    status = wring_buffer_alloc(session, ELEMS * sizeof(float), &data);
    params.name = "b";
    params.data = data;
    params.elems = ELEMS;
    if (status == WRING_OK)
        status = wring_bucket_register(session, &params, &bucket);
    if (status == WRING_OK)
        status = wring_session_commit(session);
    if (status == WRING_OK)
        status = wring_bucket_post(bucket);
    if (status == WRING_OK)
        status = wring_bucket_wait(bucket, WRING_FOREVER, NULL);
    procs_say(rank, "end %s", wring_status_text(status));
    wring_session_close(session);
    return status == WRING_OK ? 0 : 3;
}

/** Nobody failed, or the rank that was refused said so with these words, and the other ended. */
static bool said_or_went_on(uint32_t refused, const char *call, const char *why)
{
    const char *text = job.texts[refused];
    if (job.codes[0] == 0 && job.codes[1] == 0)
        return true;
    return job.codes[0] >= 0 && job.codes[1] >= 0 && strstr(text, call) != NULL &&
           strstr(text, why) != NULL;
}

/** Run a job of two, of which one is refused something. @return does it end as said_or_went_on()
 *  wants? What the last try of it said is in the job. */
static bool ends_well(const char *provider, int (*run)(struct procs_rank *, void *), void *arg,
                      uint32_t refused, const char *call, const char *why)
{
    static const char *settings[6] = {[3] = "WRING_EXECUTOR=pool:1", "WRING_FAULT=delay=1us"};
    for (size_t i = 0; i < sizeof(patience) / sizeof(patience[0]); i++) {
        settings[0] = provider;
        settings[1] = patience[i][0];
        settings[2] = patience[i][1];
        start(2, settings, run);
        job.arg = arg;
        if (!procs_run(&job, DEADLINE_S))
            return false; /* one that hangs has no second try */
        if (said_or_went_on(refused, call, why))
            return true;
    }
    return false;
}

#define TEXTS "rank 0 (code %d) said:\n%srank 1 (code %d) said:\n%s"
#define TEXTS_OF_JOB job.codes[0], job.texts[0], job.codes[1], job.texts[1]

/** One call of one rank, from which turn on. */
struct aim {
    uint32_t rank;
    const char *call;
    int error;
    unsigned from;
};

static int run_refused(struct procs_rank *rank, void *arg)
{
    const struct aim *aim = arg;
    if (rank->rank == aim->rank)
        refusal = (struct refusal){aim->call, aim->from, 0, aim->error};
    int code = use(rank);
    refusal.call = NULL;
    if (rank->rank == aim->rank && refusal.seen < aim->from)
        procs_say(rank, "no such turn");
    return code;
}

/** Each turn of a call, until there are no more. */
static void try_turns(const char *provider, struct aim aim)
{
    for (aim.from = 1; aim.from <= TURNS_MAX; aim.from++) {
        CHECK(
            ends_well(provider, run_refused, &aim, aim.rank, aim.call, strerrordesc_np(aim.error)),
            "%s, %s %u of rank %u: " TEXTS, provider, aim.call, aim.from, aim.rank, TEXTS_OF_JOB);
        if (strstr(job.texts[aim.rank], "no such turn") != NULL)
            return;
    }
}

/** Where nobody watches memory, each call by each provider on one of the ranks. */
static void refused_calls_are_named(void)
{
    static const struct aim aims[] = {
        {.call = "socket", .error = EMFILE},         {.call = "epoll_create1", .error = EMFILE},
        {.call = "epoll_ctl", .error = ENOSPC},      {.call = "eventfd", .error = ENFILE},
        {.call = "timerfd_create", .error = EMFILE}, {.call = "memfd_create", .error = EMFILE},
        {.call = "pthread_create", .error = EAGAIN},
    };
    for (size_t i = 0; i < sizeof(aims) / sizeof(aims[0]); i++)
        for (size_t provider = 0; provider < 2; provider++)
            for (uint32_t rank = 0; rank < 2; rank++) {
                struct aim aim = aims[i];
                if (WRING_TEST_STRIDE == 1 && (i + provider + rank) % 2 != 0)
                    continue;
                aim.rank = rank;
                try_turns(providers[provider], aim);
            }
}

/* ---- real limits ---- */

/** Take all numbers below the highest that is open. @return how many are open then */
static int fill_holes(void)
{
    int highest = 2;
    for (int fd = 3; fd < DESCRIPTORS_MAX; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            highest = fd;
    while (fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0) < highest)
        ;
    return highest + 2;
}

/** @param arg  how many descriptors more than now the rank may have */
static int run_with_few_descriptors(struct procs_rank *rank, void *arg)
{
    if (rank->rank == 1) {
        rlim_t most = (rlim_t)(fill_holes() + *(int *)arg);
        struct rlimit limit = {most, most};
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            return 9;
    }
    return use(rank);
}

/** From none at all to as many as it needs. */
static void too_few_descriptors_are_said(void)
{
    for (size_t provider = 0; provider < 2; provider++) {
        int more = 0;
        for (; more < 64; more++) {
            CHECK(ends_well(providers[provider], run_with_few_descriptors, &more, 1, "ulimit -n",
                            "Too many open files"),
                  "%s, %d more: " TEXTS, providers[provider], more, TEXTS_OF_JOB);
            if (job.codes[0] == 0 && job.codes[1] == 0)
                break;
        }
        CHECK(more > 3 && more < 64, "%s needs %d descriptors", providers[provider], more);
    }
}

static int run_without_threads(struct procs_rank *rank, void *arg)
{
    struct rlimit limit = {1, 1};
    (void)arg;
    if (rank->rank == 1 && (setgroups(0, NULL) != 0 || setgid(SOME_UID) != 0 ||
                            setrlimit(RLIMIT_NPROC, &limit) != 0 || setuid(SOME_UID) != 0))
        return 9;
    return use(rank);
}

static bool said_too_few_threads(void)
{
    return job.codes[1] == 2 && strstr(job.texts[1], "pthread_create: ") != NULL &&
           strstr(job.texts[1], "ulimit -u") != NULL;
}

static void too_few_threads_are_said(void)
{
    bool ended = true, said = false;
    if (geteuid() != 0) {
        printf("only root can become somebody who runs nothing else: not tried\n");
        return;
    }
    for (size_t i = 0; i < sizeof(patience) / sizeof(patience[0]) && ended && !said; i++) {
        const char *const settings[] = {providers[0], patience[i][0], NULL};
        start(2, settings, run_without_threads);
        ended = procs_run(&job, DEADLINE_S);
        said = ended && said_too_few_threads();
    }
    CHECK(said, TEXTS, TEXTS_OF_JOB);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"refused_calls_are_named", refused_calls_are_named},
        {"too_few_descriptors_are_said", too_few_descriptors_are_said},
        {"too_few_threads_are_said", too_few_threads_are_said},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
