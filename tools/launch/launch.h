/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Start the ranks of a job on this host and see them through to the end: `wring run`, and every
 * command that needs several ranks. One thread, which must be the process's only one.
 */
#ifndef WRING_TOOLS_LAUNCH_LAUNCH_H
#define WRING_TOOLS_LAUNCH_LAUNCH_H

#include <hwloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "transport/bootstrap/launcher.h"

#define WRING_LAUNCH_RANKS_MAX 4096
#define WRING_LAUNCH_RESTARTS 32 /* of each rank */
#define WRING_LAUNCH_GRACE_NS 5000000000ull

struct wring_launch_params {
    const char *name; /* of the command, before each message: "wring run" */
    uint32_t ranks;   /* 1..WRING_LAUNCH_RANKS_MAX */
    bool tag;         /* prefix each line of output with its rank */
    bool unbound;     /* let every rank run on every core */
    uint32_t least; /* elastic: the job goes on with so many ranks, and those that fail are started
                       again; 0: it ends with the first that fails */
    uint64_t grace_ns; /* how long the others may go on after one failed */
    char **argv;       /* program and arguments, NULL-terminated; looked up in PATH */
};

/**
 * Run the job: WRING_ROOT (a loopback socket made here, which rank 0 inherits as WRING_ROOT_FD),
 * a fresh WRING_KEY, WRING_RANK, WRING_SIZE and WRING_LOCAL_SIZE are set for each rank.
 *
 * Each rank is bound to its share of the cores that this process may use, where they share out
 * evenly: as many cores as ranks or more, or the same number of ranks on each core.
 *
 * Of an elastic job, ranks inherit a socket where newcomers knock (WRING_DOOR_FD). A rank that
 * fails is named and started again as a newcomer (WRING_JOIN), WRING_LAUNCH_RESTARTS times at most,
 * unless some rank has ended well: the job ends then. With fewer than `least` ranks it has failed.
 *
 * When a rank of another job fails, it is named on standard error; the others get the grace time to
 * end by themselves, then SIGTERM, then SIGKILL. SIGINT, SIGTERM and SIGHUP are passed on to all
 * ranks, but for those that this process ignores. Tagged output whose reader has gone is dropped.
 * When this returns nothing that the ranks started is left; when this process is killed, the
 * ranks die with it, and so does what they started in their process groups.
 *
 * @return the status to exit with: 0; that of the rank that failed first, or that SIGKILL ended
 * before the others' grace was over; 128 + n for signal n;
 * 126 or 127 where the program cannot be started; 1 where the system refused something
 */
int wring_launch(const struct wring_launch_params *params);

/**
 * Is this process one rank of a job, or is the command to start the ranks itself?
 * @param out  out->name is NULL in the latter case
 * @return WRING_EXIT_OK; WRING_EXIT_FAILURE, after a log line: a launcher that cannot be used
 */
int wring_command_launched(const struct wring_config *config, struct wring_launched *out);

/* What the files of the launcher share. */

#define WRING_LINE_MAX 65536 /* longer lines are passed on in pieces */

/** Where the lines of all ranks go. */
struct wring_outputs {
    const char *name; /* of the command */
    struct wring_output_end {
        bool gone;   /* nothing is written to it any more */
        bool failed; /* as it could not be, which its reader knows nothing of */
    } ends[2];       /* standard output, standard error */
};

/** One output stream of one rank, passed on in whole lines. */
struct wring_lines {
    int from; /* pipe's read end; -1: at its end */
    int to;   /* 1 or 2 */
    uint32_t rank;
    struct wring_outputs *outputs; /* borrowed */
    size_t bytes;                  /* held back: the beginning of a line */
    char *text;                    /* [WRING_LINE_MAX] */
};

struct wring_rank_process {
    pid_t pid;  /* leader of a process group of its own; 0: not started */
    bool ended; /* seen, not reaped: its number stays reserved until the job is over */
    int code;   /* exit status, or 128 + signal */
    int signal; /* that killed it; 0 */
    uint32_t restarts;
    struct wring_lines lines[2]; /* standard output, standard error */
};

struct wring_local_job {
    const struct wring_launch_params *params;
    struct wring_rank_process *ranks; /* [params->ranks] */
    struct wring_outputs outputs;
    uint32_t running;
    sigset_t blocked, before; /* signals taken by signal_fd, and the mask as it was */
    int signal_fd;
    int listen_fd;
    int door_fd;  /* of an elastic job; else -1 */
    bool begun;   /* all ranks were started: those that are from now on are newcomers */
    int guard_fd; /* closed when this process ends; -1: there is no guard */
    pid_t guard;
    hwloc_topology_t topology; /* to share out among the ranks; NULL: they run unbound */
    char root[64], key[65], door[64];
};

/** See the started ranks through to their end. @return the status to exit with */
int wring_local_job_watch(struct wring_local_job *job);

/** Start a rank again that has ended. @return 0; else it was said why that cannot be */
int wring_local_job_restart(struct wring_local_job *job, uint32_t rank);

/** Send a signal to all that a rank started. */
void wring_local_job_signal(struct wring_local_job *job, int number);

int wring_lines_init(struct wring_lines *lines, int from, int to, uint32_t rank,
                     struct wring_outputs *outputs);
void wring_lines_finish(struct wring_lines *lines);

/** Pass on all that has come, without waiting. */
void wring_lines_drain(struct wring_lines *lines);

#endif
