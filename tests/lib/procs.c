/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/procs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/lib/test.h"

void procs_say(struct procs_rank *rank, const char *format, ...)
{
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    strcat(line, "\n");
    if (write(rank->report, line, strlen(line)) < 0)
        _exit(99);
}

static void log_line(void *arg, enum wring_log_level level, const char *module, const char *text)
{
    (void)level;
    procs_say(arg, "log %s: %s", module, text);
}

void procs_say_end(struct procs_rank *rank, struct wring_session *session, enum wring_status status)
{
    struct wring_error_detail detail = {.rank = -2};
    wring_session_error(session, &detail);
    procs_say(rank, "end %s, rank %d, %s", wring_status_text(status), detail.rank, detail.text);
}

static int listen_on_loopback(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &bytes) != 0)
        return -1;
    *port = ntohs(address.sin_port);
    return fd;
}

__attribute__((noreturn)) static void be_rank(const struct procs_job *job, uint32_t index,
                                              int listen_fd, int report)
{
    struct procs_rank rank = {.rank = index, .size = job->ranks, .index = index, .report = report};
    char root[32];
    uint32_t n = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(root, sizeof(root), "127.0.0.1:%u", job->port);
    rank.settings[n++] = "WRING_BYPASS=never"; /* as in jobs of threads */
    for (const char *const *at = job->settings; at != NULL && *at != NULL; at++)
        rank.settings[n++] = *at;
    rank.params = (struct wring_session_params){
        .root = root,
        .rank = index,
        .size = job->ranks,
        .key = "a key for tests",
        .root_fd = index == 0 ? listen_fd : 0,
        .log = log_line,
        .log_arg = &rank,
        .settings = rank.settings,
    };
    if (index != 0)
        close(listen_fd);
    _exit(job->run(&rank, job->arg));
}

/** Read what the ranks say until all pipes are closed. @return false at the deadline */
static bool listen_to(struct procs_job *job, const int *pipes, uint32_t n, uint64_t deadline_ns)
{
    struct pollfd fds[PROCS_MAX];
    size_t got[PROCS_MAX] = {0};
    uint32_t open = n;
    for (uint32_t i = 0; i < n; i++)
        fds[i] = (struct pollfd){pipes[i], POLLIN, 0};
    while (open > 0) {
        if (wring_now_ns() > deadline_ns)
            return false;
        poll(fds, n, 100);
        for (uint32_t i = 0; i < n; i++) {
            char drop[512];
            size_t room = PROCS_TEXT - 1 - got[i];
            if (fds[i].fd < 0 || (fds[i].revents & (POLLIN | POLLHUP)) == 0)
                continue;
            ssize_t bytes = room > 0 ? read(fds[i].fd, job->texts[i] + got[i], room)
                                     : read(fds[i].fd, drop, sizeof(drop));
            if (bytes <= 0) {
                fds[i].fd = -1;
                open--;
            } else if (room > 0) {
                got[i] += (size_t)bytes;
            }
        }
    }
    return true;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

bool procs_await_end(const struct procs_job *job, uint32_t process, unsigned seconds)
{
    uint64_t limit = wring_deadline_in(seconds * WRING_NS_PER_S);
    while (!has_ended(job->pids[process])) {
        if (wring_now_ns() > limit)
            return false;
        usleep(10000);
    }
    return true;
}

static void reap(struct procs_job *job, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int status = 0;
        waitpid(job->pids[i], &status, 0);
        job->codes[i] = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    }
}

bool procs_run(struct procs_job *job, unsigned deadline_s)
{
    uint32_t n = job->processes > 0 ? job->processes : job->ranks;
    uint64_t deadline_ns = wring_now_ns() + deadline_s * WRING_NS_PER_S;
    int listen_fd = listen_on_loopback(&job->port), pipes[PROCS_MAX] = {0};

    memset(job->texts, 0, sizeof(job->texts));
    fflush(NULL);
    for (uint32_t i = 0; i < n; i++) {
        int pair[2];
        if (pipe2(pair, O_CLOEXEC) != 0)
            abort();
        job->pids[i] = fork();
        if (job->pids[i] == 0)
            be_rank(job, i, listen_fd, pair[1]);
        close(pair[1]);
        pipes[i] = pair[0];
    }
    if (job->meddle != NULL)
        job->meddle(job);
    close(listen_fd);
    bool in_time = listen_to(job, pipes, n, deadline_ns);
    for (uint32_t i = 0; i < n; i++) {
        if (!in_time)
            kill(job->pids[i], SIGKILL);
        close(pipes[i]);
    }
    reap(job, n);
    for (uint32_t i = 0; i < n && !in_time; i++)
        fprintf(stderr, "--- rank process %u, still there at the deadline, said:\n%s", i,
                job->texts[i]);
    return in_time;
}
