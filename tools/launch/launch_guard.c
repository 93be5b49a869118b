/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A process beside the launcher that outlives it: where the launcher is killed (kill -9, a host
 * that is out of memory), ranks die by themselves, and the guard ends what they had started.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tools/commands.h"
#include "tools/launch/launch_job.h"

/** In the guard: hold nothing of the launcher's, so that nobody waits for us to let go. */
static void let_go(int launcher)
{
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; none >= 0 && fd <= STDERR_FILENO; fd++)
        dup2(none, fd);
    if (launcher > STDERR_FILENO + 1)
        close_range(STDERR_FILENO + 1, (unsigned)launcher - 1, 0);
    close_range((unsigned)launcher + 1, ~0u, 0);
}

/** In the guard. The launcher never writes: its end closes when it dies. */
__attribute__((noreturn)) static void stand_guard(struct wring_local_job *job, int launcher)
{
    sigset_t all;
    char byte;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "wring-guard");
    let_go(launcher);
    while (read(launcher, &byte, 1) < 0)
        if (errno != EINTR)
            _exit(1);
    wring_local_job_signal(job, SIGKILL);
    _exit(0);
}

int wring_guard_start(struct wring_local_job *job)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return wring_fail(job->params->name, "no pipe for its guard: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        stand_guard(job, fcntl(ends[0], F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    int why = errno;
    close(ends[0]);
    job->guard_fd = ends[1];
    job->guard = pid;
    if (pid < 0)
        return wring_fail(job->params->name, "cannot start its guard: %s", strerror(why));
    return 0;
}
