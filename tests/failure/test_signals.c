/* SPDX-License-Identifier: Apache-2.0 */
/* Signals are the application's: a rank that blocks them and reads them from a descriptor, as a
 * checkpoint before preemption does, is never killed by one that a thread of ours took. */
#include <dirent.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tests/failure/failing_job.h"
#include "tests/lib/test.h"

#define TURNS 50
#define SIGNAL_MS 20000

static const char *const threads[] = {"WRING_PROVIDER=tcp", "WRING_EXECUTOR=pool:1", NULL};
static const char *const mapped[] = {"WRING_PROVIDER=shm", "WRING_EXECUTOR=pool:1", NULL};

static int watch_signals(void)
{
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGUSR1);
    sigaddset(&watched, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &watched, NULL);
    return signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

/** Send one to the process, and read it back. @return the number that came; 0: none */
static int take_signal(int fd, int number)
{
    struct signalfd_siginfo info = {0};
    struct pollfd pollfd = {fd, POLLIN, 0};
    kill(getpid(), number);
    if (poll(&pollfd, 1, SIGNAL_MS) <= 0 || read(fd, &info, sizeof(info)) != sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}

static bool blocks(uint64_t mask, int number)
{
    return (mask >> (number - 1) & 1) != 0;
}

/** What one thread of this process blocks. */
static bool read_thread(const char *task, char *name, uint64_t *blocked)
{
    char path[300], line[128];
    bool found = false;
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        sscanf(line, "Name: %31s", name);
        found |= sscanf(line, "SigBlk: %" SCNx64, blocked) == 1;
    }
    if (file != NULL)
        fclose(file);
    return found;
}

/** @return how many threads beside this one would take a signal of the process's */
static unsigned count_takers(struct procs_rank *rank, unsigned *others)
{
    static const int foreign[] = {SIGUSR1, SIGUSR2, SIGTERM, SIGINT,
                                  SIGHUP,  SIGCHLD, SIGALRM, SIGPROF};
    unsigned takers = 0;
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *at;
    *others = 0;
    while (dir != NULL && (at = readdir(dir)) != NULL) {
        uint64_t blocked = 0;
        char name[32] = "";
        if (at->d_name[0] == '.' || atoi(at->d_name) == (int)gettid() ||
            !read_thread(at->d_name, name, &blocked))
            continue;
        ++*others;
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
            if (!blocks(blocked, foreign[i])) {
                procs_say(rank, "thread %s takes signal %d", name, foreign[i]);
                takers++;
            }
        if (strcmp(name, "wring-progress") == 0 && blocks(blocked, SIGSEGV)) {
            procs_say(rank, "thread %s keeps its own faults from a handler", name);
            takers++;
        }
    }
    if (dir != NULL)
        closedir(dir);
    return takers;
}

/** @param arg  not NULL: it blocks signals only after it has opened the session */
static int run_with_signals(struct procs_rank *rank, void *arg)
{
    static float data[ELEMS];
    struct wring_session *session;
    unsigned others;
    int fd = arg == NULL ? watch_signals() : -1;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status != WRING_OK)
        return 2;
    if (arg != NULL)
        fd = watch_signals();
    unsigned takers = count_takers(rank, &others);
    if (takers > 0 || others < 2) {
        procs_say(rank, "%u threads beside the first", others);
        return 4;
    }
    for (unsigned i = 0; i < TURNS && status == WRING_OK; i++) {
        struct wring_request *request;
        int number = i % 2 == 0 ? SIGUSR1 : SIGTERM;
        status = wring_allreduce(wring_session_world(session), data, data, ELEMS, WRING_F32,
                                 WRING_SUM, &(struct wring_call){.codec = "bf16"}, &request);
        int came = take_signal(fd, number);
        if (status == WRING_OK)
            status = wring_request_wait(request, WRING_FOREVER, NULL);
        if (came != number) {
            procs_say(rank, "signal %d of turn %u: %d came", number, i, came);
            return 5;
        }
    }
    procs_say(rank, "end %s", wring_status_text(status));
    wring_session_close(session);
    return status == WRING_OK ? 0 : 3;
}

static void signals_are_the_applications(void)
{
    const char *const *const variants[] = {threads, mapped};
    for (int i = 0; i < 4; i++) {
        start(2, variants[i % 2], run_with_signals);
        job.arg = i < 2 ? NULL : &job;
        CHECK(procs_run(&job, DEADLINE_S), "hangs: %s", variants[i % 2][0]);
        for (uint32_t r = 0; r < 2; r++)
            CHECK(job.codes[r] == 0, "%s: rank %u (code %d) said:\n%s", variants[i % 2][0], r,
                  job.codes[r], job.texts[r]);
    }
}

/* ---- a reader of standard error that is gone ---- */

/** Lines go to standard error, a pipe that nobody reads, and SIGPIPE is as it is by default. */
static int run_unheard(struct procs_rank *rank, void *arg)
{
    static float data[ELEMS];
    struct wring_session *session;
    int ends[2];
    (void)arg;
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0)
        return 9;
    close(ends[0]);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
    rank->params.log = NULL;
    enum wring_status status = wring_session_open(&rank->params, &session);
    if (status == WRING_OK)
        status = wring_allreduce(wring_session_world(session), data, data, ELEMS, WRING_F32,
                                 WRING_SUM, NULL, NULL);
    procs_say(rank, "end %s", wring_status_text(status));
    if (status == WRING_OK)
        wring_session_close(session);
    return status == WRING_OK ? 0 : 3;
}

static void lines_that_nobody_reads_end_no_rank(void)
{
    static const char *const settings[] = {"WRING_PROVIDER=tcp", "WRING_LOG=debug", NULL};
    start(2, settings, run_unheard);
    CHECK(procs_run(&job, DEADLINE_S), "hangs");
    for (uint32_t r = 0; r < 2; r++)
        CHECK(job.codes[r] == 0, "rank %u (code %d) said:\n%s", r, job.codes[r], job.texts[r]);
}

int main(int argc, char **argv)
{
    static const struct wring_test_case cases[] = {
        {"signals_are_the_applications", signals_are_the_applications},
        {"lines_that_nobody_reads_end_no_rank", lines_that_nobody_reads_end_no_rank},
        {NULL, NULL},
    };
    return wring_test_main(argc, argv, cases);
}
