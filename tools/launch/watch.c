/* SPDX-License-Identifier: Apache-2.0 */
/** From the start of the ranks to the end of the last one. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"

int wring_lines_init(struct wring_lines *lines, int from, int to, uint32_t rank,
                     struct wring_outputs *outputs)
{
    *lines = (struct wring_lines){.from = from, .to = to, .rank = rank, .outputs = outputs};
    lines->text = malloc(WRING_LINE_MAX);
    return lines->text != NULL ? 0 : -1;
}

void wring_lines_finish(struct wring_lines *lines)
{
    if (lines->from >= 0)
        close(lines->from);
    free(lines->text);
    *lines = (struct wring_lines){.from = -1};
}

static const char *name_of(int to)
{
    return to == STDOUT_FILENO ? "standard output" : "standard error";
}

/** An output that is gone is not the ranks' affair: what they write is dropped from here on. */
static void drop_output(struct wring_outputs *outputs, int to, int why)
{
    struct wring_output_end *end = &outputs->ends[to - STDOUT_FILENO];

    end->gone = true;
    end->failed = why != EPIPE; /* a reader who has had enough is no failure */
    if (why == EPIPE)
        wring_fail(outputs->name, "%s has no reader any more: what ranks write to it is dropped",
                   name_of(to));
    else
        wring_fail(outputs->name, "%s cannot be written: %s: what ranks write to it is dropped",
                   name_of(to), strerror(why));
}

/** Others may have made it one that does not block. */
static void await_room(int to)
{
    struct pollfd room = {.fd = to, .events = POLLOUT};
    poll(&room, 1, -1);
}

/** Write all parts. */
static void write_parts(struct wring_outputs *outputs, int to, struct iovec *parts, int n)
{
    while (n > 0 && !outputs->ends[to - STDOUT_FILENO].gone) {
        ssize_t written = writev(to, parts, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN) {
            await_room(to);
            continue;
        }
        if (written < 0) {
            drop_output(outputs, to, errno);
            return;
        }
        while (n > 0 && (size_t)written >= parts->iov_len) {
            written -= (ssize_t)parts->iov_len;
            parts++;
            n--;
        }
        if (n > 0) {
            parts->iov_base = (char *)parts->iov_base + written;
            parts->iov_len -= (size_t)written;
        }
    }
}

/** One line of `bytes` bytes, its line break not included. */
static void pass_line(const struct wring_lines *lines, const char *text, size_t bytes)
{
    char mark[16];
    int mark_bytes = snprintf(mark, sizeof(mark), "[%u] ", lines->rank);
    struct iovec parts[] = {
        {mark, (size_t)mark_bytes},
        {(void *)(uintptr_t)text, bytes},
        {(void *)(uintptr_t) "\n", 1},
    };
    write_parts(lines->outputs, lines->to, parts, 3);
}

static void pass_on_whole_lines(struct wring_lines *lines)
{
    char *begin = lines->text, *end = lines->text + lines->bytes, *line_break;

    while ((line_break = memchr(begin, '\n', (size_t)(end - begin))) != NULL) {
        pass_line(lines, begin, (size_t)(line_break - begin));
        begin = line_break + 1;
    }
    lines->bytes = (size_t)(end - begin);
    memmove(lines->text, begin, lines->bytes);
}

static void pass_on_rest(struct wring_lines *lines)
{
    if (lines->bytes > 0)
        pass_line(lines, lines->text, lines->bytes);
    lines->bytes = 0;
}

/** Read once from `from`, and pass on its whole lines. Closes `from` at the stream's end, after the
 *  last piece. */
static void lines_pump(struct wring_lines *lines)
{
    ssize_t got = read(lines->from, lines->text + lines->bytes, WRING_LINE_MAX - lines->bytes);

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got <= 0) {
        pass_on_rest(lines);
        close(lines->from);
        lines->from = -1;
        return;
    }
    lines->bytes += (size_t)got;
    pass_on_whole_lines(lines);
    if (lines->bytes == WRING_LINE_MAX)
        pass_on_rest(lines);
}

void wring_lines_drain(struct wring_lines *lines)
{
    struct pollfd pollfd = {.fd = lines->from, .events = POLLIN};

    while (lines->from >= 0 && poll(&pollfd, 1, 0) > 0)
        lines_pump(lines);
    if (lines->from >= 0)
        pass_on_rest(lines);
}

/* ---- watch ---- */

#define TERM_GRACE_NS (2 * WRING_NS_PER_S) /* between SIGTERM and SIGKILL */
#define DRAIN_NS WRING_NS_PER_S            /* for output that is still in the pipes */
#define NOBODY UINT32_MAX

enum stage {
    STAGE_RUNNING,
    STAGE_GRACE,      /* a rank failed, or a signal was passed on */
    STAGE_TERMINATED, /* SIGTERM was sent */
    STAGE_KILLED,     /* SIGKILL was sent */
};

struct watch {
    struct wring_local_job *job;
    enum stage stage;
    uint64_t deadline_ns;
    uint32_t first_failed; /* rank, or NOBODY */
    int passed_on;         /* signal that this process got; 0 */
    struct pollfd *fds;    /* [1 + 2 * ranks] */
};

void wring_local_job_signal(struct wring_local_job *job, int number)
{
    for (uint32_t rank = 0; rank < job->params->ranks; rank++)
        if (job->ranks[rank].pid > 0)
            kill(-job->ranks[rank].pid, number);
}

static void enter_stage(struct watch *watch, enum stage stage, uint64_t grace_ns)
{
    watch->stage = stage;
    watch->deadline_ns = wring_deadline_in(grace_ns);
}

static double to_seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void describe_end(const struct wring_rank_process *process, char *text, size_t bytes)
{
    if (process->signal != 0)
        snprintf(text, bytes, "was killed by signal %d (%s)", process->signal,
                 strsignal(process->signal));
    else
        snprintf(text, bytes, "ended with exit status %d", process->code);
}

static void report_failure(struct watch *watch, uint32_t rank)
{
    const struct wring_local_job *job = watch->job;
    char end[96];

    watch->first_failed = rank;
    describe_end(&job->ranks[rank], end, sizeof(end));
    if (job->running == 0)
        wring_fail(job->params->name, "rank %u %s", rank, end);
    else
        wring_fail(job->params->name, "rank %u %s; %u other%s %g s to end", rank, end, job->running,
                   job->running == 1 ? " has" : "s have", to_seconds(job->params->grace_ns));
    if (watch->stage == STAGE_RUNNING)
        enter_stage(watch, STAGE_GRACE, job->params->grace_ns);
}

/** True if the rank has ended just now. It stays a zombie, so that its number is not reused. */
static bool check_for_end(struct wring_rank_process *process)
{
    siginfo_t info = {0};

    if (process->ended ||
        waitid(P_PID, (id_t)process->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid == 0)
        return false;
    process->ended = true;
    process->signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
    process->code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    return true;
}

/**
 * Is this the failure to report? The first is. A killed rank's sockets close before its end can be
 * seen, so a peer may give up and end first: a rank that was killed then explains that one. It was
 * not this launcher that killed it, which sends no signal before the grace is over.
 */
static bool explains_failure(const struct watch *watch, uint32_t rank)
{
    const struct wring_rank_process *ranks = watch->job->ranks;

    if (watch->passed_on != 0)
        return false;
    if (watch->first_failed == NOBODY)
        return true;
    return watch->stage == STAGE_GRACE && ranks[rank].signal == SIGKILL &&
           ranks[watch->first_failed].signal == 0;
}

/** Has any rank done all its work? Then nobody lets newcomers in any more. */
static bool is_job_ending(const struct wring_local_job *job)
{
    for (uint32_t rank = 0; rank < job->params->ranks; rank++)
        if (job->ranks[rank].ended && job->ranks[rank].code == 0)
            return true;
    return false;
}

/** A rank of an elastic job has failed, and the others go on. */
static void replace_rank(struct watch *watch, uint32_t rank)
{
    struct wring_local_job *job = watch->job;
    struct wring_rank_process *process = &job->ranks[rank];
    bool again = !is_job_ending(job) && process->restarts < WRING_LAUNCH_RESTARTS;
    uint32_t running = job->running;
    char end[96];

    describe_end(process, end, sizeof(end));
    wring_fail(job->params->name, "rank %u %s; %u go%s on%s", rank, end, running,
               running == 1 ? "es" : "", again ? ", and it is started again as a newcomer" : "");
    if (again)
        wring_local_job_restart(job, rank);
}

/** Do the others go on without a rank that has failed? Those that have done their work count. */
static bool goes_on(const struct watch *watch)
{
    const struct wring_local_job *job = watch->job;
    uint32_t n = job->running;

    for (uint32_t rank = 0; rank < job->params->ranks; rank++)
        n += job->ranks[rank].ended && job->ranks[rank].code == 0;
    return watch->stage == STAGE_RUNNING && job->params->least > 0 && n >= job->params->least;
}

/** Note the ranks of an elastic job that have ended. */
static void note_elastic_ends(struct watch *watch)
{
    struct wring_local_job *job = watch->job;
    uint32_t failed = NOBODY;

    for (uint32_t rank = 0; rank < job->params->ranks; rank++) {
        if (!check_for_end(&job->ranks[rank]))
            continue;
        job->running--;
        if (job->ranks[rank].code == 0)
            continue;
        if (goes_on(watch))
            replace_rank(watch, rank);
        else
            failed = rank;
    }
    if (failed != NOBODY && explains_failure(watch, failed))
        report_failure(watch, failed);
}

/** Note the ranks that have ended. If several ended at the same time, a killed one explains those
 * that gave up. */
static void note_ends(struct watch *watch)
{
    struct wring_local_job *job = watch->job;
    uint32_t failed = NOBODY;

    for (uint32_t rank = 0; rank < job->params->ranks; rank++) {
        struct wring_rank_process *process = &job->ranks[rank];
        if (!check_for_end(process))
            continue;
        job->running--;
        if (process->code != 0 &&
            (failed == NOBODY || (process->signal != 0 && job->ranks[failed].signal == 0)))
            failed = rank;
    }
    if (failed != NOBODY && explains_failure(watch, failed))
        report_failure(watch, failed);
}

static void pass_signal_on(struct watch *watch, int number)
{
    bool again = watch->passed_on != 0;

    watch->passed_on = number;
    wring_local_job_signal(watch->job, again ? SIGKILL : number);
    wring_local_job_signal(watch->job, SIGCONT); /* a stopped rank takes no other */
    if (again)
        enter_stage(watch, STAGE_KILLED, WRING_NEVER);
    else if (watch->stage == STAGE_RUNNING)
        enter_stage(watch, STAGE_GRACE, watch->job->params->grace_ns);
}

static void read_signals(struct watch *watch)
{
    struct signalfd_siginfo info;

    while (read(watch->job->signal_fd, &info, sizeof(info)) == sizeof(info))
        if (info.ssi_signo != SIGCHLD)
            pass_signal_on(watch, (int)info.ssi_signo);
}

static void say_who_is_left(struct watch *watch, const char *what)
{
    const struct wring_local_job *job = watch->job;
    char list[128] = "";
    size_t used = 0;

    for (uint32_t rank = 0; rank < job->params->ranks; rank++) {
        if (job->ranks[rank].ended)
            continue;
        if (used > sizeof(list) - 20) {
            snprintf(list + used, sizeof(list) - used, ", ...");
            break;
        }
        used +=
            (size_t)snprintf(list + used, sizeof(list) - used, "%s%u", used > 0 ? ", " : "", rank);
    }
    wring_fail(job->params->name, "%s to rank%s %s", what, job->running == 1 ? "" : "s", list);
}

/** The others had their time: ask, then insist. */
static void advance_stage(struct watch *watch)
{
    if (watch->job->running == 0 || wring_now_ns() < watch->deadline_ns)
        return;
    switch (watch->stage) {
    case STAGE_GRACE:
        say_who_is_left(watch, "SIGTERM");
        wring_local_job_signal(watch->job, SIGTERM);
        wring_local_job_signal(watch->job, SIGCONT);
        enter_stage(watch, STAGE_TERMINATED, TERM_GRACE_NS);
        return;
    case STAGE_TERMINATED:
        say_who_is_left(watch, "SIGKILL");
        wring_local_job_signal(watch->job, SIGKILL);
        enter_stage(watch, STAGE_KILLED, WRING_NEVER);
        return;
    case STAGE_RUNNING:
    case STAGE_KILLED:
        return;
    }
}

/** The n-th output stream of the job. */
static struct wring_lines *output_stream(struct watch *watch, size_t n)
{
    return &watch->job->ranks[n / 2].lines[n % 2];
}

static bool is_any_open(struct watch *watch)
{
    for (size_t i = 0; i < 2 * (size_t)watch->job->params->ranks; i++)
        if (output_stream(watch, i)->from >= 0)
            return true;
    return false;
}

/** Sleep until a signal, output of a rank, or the deadline. Passes the ranks' output on. */
static void pump_outputs(struct watch *watch, uint64_t deadline_ns)
{
    size_t streams = 2 * (size_t)watch->job->params->ranks;
    struct timespec timeout, *limit = NULL;

    watch->fds[0] = (struct pollfd){.fd = watch->job->signal_fd, .events = POLLIN};
    for (size_t i = 0; i < streams; i++)
        watch->fds[1 + i] = (struct pollfd){.fd = output_stream(watch, i)->from, .events = POLLIN};
    if (deadline_ns != WRING_NEVER) {
        uint64_t now = wring_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
        timeout.tv_sec = (time_t)(left / WRING_NS_PER_S);
        timeout.tv_nsec = (long)(left % WRING_NS_PER_S);
        limit = &timeout;
    }
    if (ppoll(watch->fds, 1 + streams, limit, NULL) <= 0)
        return;
    for (size_t i = 0; i < streams; i++)
        if (watch->fds[1 + i].revents != 0)
            lines_pump(output_stream(watch, i));
}

/** What the dead wrote last; a process of theirs that keeps a pipe open does not hold us up. */
static void drain_outputs(struct watch *watch)
{
    uint64_t deadline_ns = wring_deadline_in(DRAIN_NS);

    wring_local_job_signal(watch->job, SIGKILL);
    while (is_any_open(watch) && wring_now_ns() < deadline_ns) {
        read_signals(watch);
        pump_outputs(watch, deadline_ns);
    }
}

static int decide_exit_status(const struct watch *watch)
{
    const struct wring_local_job *job = watch->job;

    if (watch->first_failed != NOBODY)
        return job->ranks[watch->first_failed].code;
    for (uint32_t rank = 0; rank < job->params->ranks; rank++)
        if (job->ranks[rank].code != 0 && (job->params->least == 0 || watch->passed_on != 0))
            return 128 + watch->passed_on;
    return job->outputs.ends[0].failed || job->outputs.ends[1].failed ? WRING_EXIT_FAILURE : 0;
}

int wring_local_job_watch(struct wring_local_job *job)
{
    struct watch watch = {.job = job, .deadline_ns = WRING_NEVER, .first_failed = NOBODY};

    watch.fds = calloc(1 + 2 * (size_t)job->params->ranks, sizeof(*watch.fds));
    if (watch.fds == NULL)
        return wring_fail(job->params->name, "no memory for %u ranks", job->params->ranks);
    while (job->running > 0) {
        pump_outputs(&watch, watch.deadline_ns);
        read_signals(&watch);
        if (job->params->least > 0)
            note_elastic_ends(&watch);
        else
            note_ends(&watch);
        advance_stage(&watch);
    }
    drain_outputs(&watch);
    free(watch.fds);
    return decide_exit_status(&watch);
}
