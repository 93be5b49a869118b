/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Which cores each rank of a job on this host may run on.
 *
 * hwloc numbers cores by locality, so neighbouring ranks get neighbouring cores. Where several
 * share one, neighbours do not: they exchange with each other first, and so at the same time.
 * Shares cover all the cores that this process may use: jobs side by side burden them alike.
 */
#include "tools/launch/launch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "offload/cores.h"
#include "tools/commands.h"

int wring_command_launched(const struct wring_config *config, struct wring_launched *out)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    return wring_launcher_find(config, &log, out) == WRING_OK ? WRING_EXIT_OK : WRING_EXIT_FAILURE;
}

/* ---- launch ---- */

/** Where some cores had more ranks than others, the system's scheduler does better. */
static bool shares_out_evenly(uint32_t cores, uint32_t ranks)
{
    return cores > 1 && (ranks <= cores || ranks % cores == 0);
}

/** The cores to share out; NULL where ranks are to run unbound. The caller destroys it. */
static hwloc_topology_t binding_load(const struct wring_launch_params *params)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    hwloc_topology_t topology;

    if (params->unbound || wring_cores_load(&log, &topology) != WRING_OK)
        return NULL;
    if (shares_out_evenly(wring_cores_count(topology), params->ranks))
        return topology;
    hwloc_topology_destroy(topology);
    return NULL;
}

/** Cores [first, end) of a rank. */
static void share_of(uint64_t cores, uint64_t ranks, uint64_t rank, uint64_t *first, uint64_t *end)
{
    *first = ranks > cores ? rank % cores : rank * cores / ranks;
    *end = ranks > cores ? *first + 1 : (rank + 1) * cores / ranks;
}

/** In the rank's process: run on its share from here on. A failure is said on standard error. */
static void binding_apply(const struct wring_launch_params *params, hwloc_topology_t topology,
                          uint32_t rank)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    uint64_t first, end;

    share_of(wring_cores_count(topology), params->ranks, rank, &first, &end);
    for (uint64_t core = first; set != NULL && core < end; core++)
        hwloc_bitmap_or(set, set, wring_cores_get(topology, (uint32_t)core)->cpuset);
    if (set == NULL || hwloc_set_cpubind(topology, set, HWLOC_CPUBIND_PROCESS) != 0)
        wring_fail(params->name, "rank %u is bound to no cores: %s", rank, strerror(errno));
    hwloc_bitmap_free(set);
}

/* ---- guard ---- */

/*
 * A process beside the launcher that outlives it: where the launcher is killed (kill -9, a host
 * that is out of memory), ranks die by themselves, and the guard ends what they had started.
 */

/** In the guard: hold nothing of the launcher's, so that nobody waits for us to let go. */
static void release_descriptors(int launcher)
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
    release_descriptors(launcher);
    while (read(launcher, &byte, 1) < 0)
        if (errno != EINTR)
            _exit(1);
    wring_local_job_signal(job, SIGKILL);
    _exit(0);
}

/** Have what the ranks started end with this process, whatever ends it. All ranks are started.
 *  clear-away ends the guard, too. @return 0, or the status to exit with; said */
static int guard_start(struct wring_local_job *job)
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

/* ---- launch ---- */

#define KEY_BYTES 32
#define EXIT_CANNOT_RUN 126
#define EXIT_NOT_FOUND 127

/** @param text  out, [bytes] where it listens @param fd  out, -1 where that fails */
static int listen_on_loopback(const struct wring_local_job *job, char *text, size_t text_bytes,
                              int *fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&address, bytes) != 0 ||
        listen(*fd, SOMAXCONN) != 0 || getsockname(*fd, (struct sockaddr *)&address, &bytes) != 0)
        return wring_fail(job->params->name, "cannot listen on 127.0.0.1: %s", strerror(errno));
    snprintf(text, text_bytes, "127.0.0.1:%u", ntohs(address.sin_port));
    return 0;
}

/** Sockets for the rendezvous and for newcomers; ranks inherit them, so no port is ever guessed. */
static int make_root(struct wring_local_job *job)
{
    int code = listen_on_loopback(job, job->root, sizeof(job->root), &job->listen_fd);
    if (code == 0 && job->params->least > 0)
        code = listen_on_loopback(job, job->door, sizeof(job->door), &job->door_fd);
    return code;
}

static int make_key(struct wring_local_job *job)
{
    uint8_t secret[KEY_BYTES];

    if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
        return wring_fail(job->params->name, "no random numbers: %s", strerror(errno));
    for (size_t i = 0; i < KEY_BYTES; i++)
        snprintf(job->key + 2 * i, 3, "%02x", secret[i]);
    return 0;
}

/** Was this process told to ignore a signal (nohup; a script's background job)? */
static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/**
 * From here on signals are read from signal_fd, in the order of the watch loop. Those that this
 * process ignores it goes on to ignore, and so do the ranks; but not the end of a child, whose
 * status would be lost.
 */
static int take_signals(struct wring_local_job *job)
{
    static const int passed_on[] = {SIGINT, SIGTERM, SIGHUP};

    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&job->blocked);
    sigaddset(&job->blocked, SIGCHLD);
    for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
        if (!is_ignored(passed_on[i]))
            sigaddset(&job->blocked, passed_on[i]);
    sigprocmask(SIG_BLOCK, &job->blocked, &job->before);
    job->signal_fd = signalfd(-1, &job->blocked, SFD_CLOEXEC | SFD_NONBLOCK);
    if (job->signal_fd < 0)
        return wring_fail(job->params->name, "no signal descriptor: %s", strerror(errno));
    return 0;
}

static void set_number(const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", value);
    setenv(name, text, 1);
}

/** In the child. */
static void set_environment(const struct wring_local_job *job, uint32_t rank)
{
    bool newcomer = job->begun;

    if (job->door_fd >= 0) {
        set_number("WRING_DOOR_FD", (uint32_t)job->door_fd);
        setenv("WRING_ROLLBACK", "on", 0);
    }
    if (newcomer) {
        setenv("WRING_JOIN", job->door, 1);
        setenv("WRING_KEY", job->key, 1);
        unsetenv("WRING_KEY_FILE");
        unsetenv("WRING_ROOT_FD");
        return;
    }
    set_number("WRING_RANK", rank);
    set_number("WRING_SIZE", job->params->ranks);
    set_number("WRING_LOCAL_SIZE", job->params->ranks);
    setenv("WRING_ROOT", job->root, 1);
    setenv("WRING_KEY", job->key, 1);
    unsetenv("WRING_KEY_FILE");
    unsetenv("WRING_ROOT_FD");
    if (rank == 0)
        set_number("WRING_ROOT_FD", (uint32_t)job->listen_fd);
}

/**
 * In the child. Only rank 0 reads standard input, and not from a terminal: ranks are background
 * process groups, which a terminal stops when they read.
 */
static void set_descriptors(const struct wring_local_job *job, uint32_t rank, const int out[2])
{
    if (rank != 0 || isatty(STDIN_FILENO)) {
        int none = open("/dev/null", O_RDONLY);
        if (none > STDIN_FILENO) {
            dup2(none, STDIN_FILENO);
            close(none);
        }
    }
    if (rank == 0 && !job->begun)
        fcntl(job->listen_fd, F_SETFD, 0);
    if (job->door_fd >= 0)
        fcntl(job->door_fd, F_SETFD, 0);
    for (int i = 0; i < 2; i++)
        if (out[i] >= 0)
            dup2(out[i], STDOUT_FILENO + i);
}

/** In the child: as this process got them. That the tool does without SIGPIPE is its own affair. */
static void set_signals(const struct wring_local_job *job)
{
    sigset_t mask = job->before;
    sigdelset(&mask, SIGPIPE);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

/** In the child: become the rank's program, or send errno up the pipe. */
__attribute__((noreturn)) static void become_rank(const struct wring_local_job *job, uint32_t rank,
                                                  pid_t parent, const int out[2], int failure)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_CANNOT_RUN);
    setpgid(0, 0);
    set_environment(job, rank);
    set_descriptors(job, rank, out);
    if (job->topology != NULL)
        binding_apply(job->params, job->topology, rank);
    set_signals(job);
    execvp(job->params->argv[0], job->params->argv);

    int error = errno;
    ssize_t written = write(failure, &error, sizeof(error));
    _exit(written == sizeof(error) ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
    pair[0] = pair[1] = -1;
}

/** Pipes for the rank's two output streams. @param out the write ends, -1 where inherited */
static int make_pipes(struct wring_local_job *job, uint32_t rank, int out[2])
{
    for (int i = 0; i < 2 && job->params->tag; i++) {
        int pair[2];
        if (pipe2(pair, O_CLOEXEC) != 0)
            return -1;
        out[i] = pair[1];
        if (wring_lines_init(&job->ranks[rank].lines[i], pair[0], STDOUT_FILENO + i, rank,
                             &job->outputs) != 0) {
            close(pair[0]);
            return -1;
        }
    }
    return 0;
}

/** @return 0 once the program runs, or the status to exit with */
static int await_exec(const struct wring_local_job *job, int failure)
{
    int error = 0;
    ssize_t got;

    do
        got = read(failure, &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    if (got != sizeof(error))
        return 0;
    wring_fail(job->params->name, "cannot start %s: %s", job->params->argv[0], strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static int start_rank(struct wring_local_job *job, uint32_t rank)
{
    int out[2] = {-1, -1}, failure[2] = {-1, -1};
    pid_t parent = getpid(), pid = -1;
    int code;

    if (make_pipes(job, rank, out) == 0 && pipe2(failure, O_CLOEXEC) == 0)
        pid = fork();
    if (pid == 0)
        become_rank(job, rank, parent, out, failure[1]);
    if (pid < 0) {
        code = wring_fail(job->params->name, "cannot start rank %u: %s", rank, strerror(errno));
    } else {
        setpgid(pid, pid); /* the child does so too: whoever comes first */
        job->ranks[rank].pid = pid;
        job->running++;
        close(failure[1]);
        failure[1] = -1;
        code = await_exec(job, failure[0]);
    }
    close_pair(out);
    close_pair(failure);
    return code;
}

/** Start all ranks. @return 0, or the status to exit with; said on standard error */
static int local_job_start(struct wring_local_job *job)
{
    int code = make_root(job);
    if (code == 0)
        code = make_key(job);
    if (code == 0)
        code = take_signals(job);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    job->topology = binding_load(job->params);
    for (uint32_t rank = 0; rank < job->params->ranks && code == 0; rank++)
        code = start_rank(job, rank);
    if (code == 0)
        code = guard_start(job);
    if (job->listen_fd >= 0)
        close(job->listen_fd);
    job->listen_fd = -1;
    job->begun = true;
    return code;
}

/** The one that stands there does not know of ranks that were started after it. */
static int replace_guard(struct wring_local_job *job)
{
    if (job->guard > 0) {
        kill(job->guard, SIGKILL);
        waitpid(job->guard, NULL, 0);
    }
    if (job->guard_fd >= 0)
        close(job->guard_fd);
    job->guard = 0;
    job->guard_fd = -1;
    return guard_start(job);
}

int wring_local_job_restart(struct wring_local_job *job, uint32_t rank)
{
    struct wring_rank_process *process = &job->ranks[rank];
    uint32_t restarts = process->restarts + 1;

    kill(-process->pid, SIGKILL); /* what it has started */
    waitpid(process->pid, NULL, 0);
    for (int i = 0; i < 2; i++) {
        wring_lines_drain(&process->lines[i]);
        wring_lines_finish(&process->lines[i]);
    }
    *process = (struct wring_rank_process){.restarts = restarts};
    process->lines[0].from = process->lines[1].from = -1;
    int code = start_rank(job, rank);
    return code == 0 ? replace_guard(job) : code;
}

/** Kill what the ranks left behind and has become a child of this process. */
static void kill_orphans(void)
{
    char path[64];
    long pid;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    if (children == NULL)
        return;
    while (fscanf(children, "%ld", &pid) == 1)
        kill((pid_t)pid, SIGKILL);
    fclose(children);
}

/** All that is left dies and is reaped, ranks and what they started. */
static void kill_all_left(struct wring_local_job *job)
{
    if (job->guard > 0)
        kill(job->guard, SIGKILL); /* before numbers of ranks are given to others */
    wring_local_job_signal(job, SIGKILL);
    for (int attempt = 0; attempt < 200; attempt++) {
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
            ;
        if (pid < 0)
            return; /* no children any more */
        kill_orphans();
        usleep(10000);
    }
    wring_fail(job->params->name, "some processes of the job cannot be killed");
}

static void finish_job(struct wring_local_job *job)
{
    for (uint32_t rank = 0; rank < job->params->ranks; rank++)
        for (int i = 0; i < 2; i++)
            wring_lines_finish(&job->ranks[rank].lines[i]);
    free(job->ranks);
    if (job->topology != NULL)
        hwloc_topology_destroy(job->topology);
    if (job->door_fd >= 0)
        close(job->door_fd);
    if (job->signal_fd >= 0)
        close(job->signal_fd);
    if (job->guard_fd >= 0)
        close(job->guard_fd);
    sigprocmask(SIG_SETMASK, &job->before, NULL);
}

int wring_launch(const struct wring_launch_params *params)
{
    struct wring_local_job job = {.params = params,
                                  .signal_fd = -1,
                                  .listen_fd = -1,
                                  .door_fd = -1,
                                  .guard_fd = -1,
                                  .outputs.name = params->name};

    sigprocmask(SIG_SETMASK, NULL, &job.before);
    job.ranks = calloc(params->ranks, sizeof(*job.ranks));
    if (job.ranks == NULL)
        return wring_fail(params->name, "no memory for %u ranks", params->ranks);
    for (uint32_t rank = 0; rank < params->ranks; rank++)
        job.ranks[rank].lines[0].from = job.ranks[rank].lines[1].from = -1;

    int code = local_job_start(&job);
    if (code == 0)
        code = wring_local_job_watch(&job);
    kill_all_left(&job);
    finish_job(&job);
    return code;
}
