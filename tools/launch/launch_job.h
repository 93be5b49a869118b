/* SPDX-License-Identifier: Apache-2.0 */
/** What the files of the launcher share. */
#ifndef WRING_TOOLS_LAUNCH_JOB_H
#define WRING_TOOLS_LAUNCH_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hwloc.h>

#include "tools/launch/launch.h"

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
    int guard_fd; /* closed when this process ends; -1: there is no guard */
    pid_t guard;
    hwloc_topology_t topology; /* to share out among the ranks; NULL: they run unbound */
    char root[64], key[65];
};

/** Have what the ranks started end with this process, whatever ends it. All ranks are started.
 *  clear-away ends the guard, too. @return 0, or the status to exit with; said */
int wring_guard_start(struct wring_local_job *job);

/** Start all ranks. @return 0, or the status to exit with; said on standard error */
int wring_local_job_start(struct wring_local_job *job);

/** See the started ranks through to their end. @return the status to exit with */
int wring_local_job_watch(struct wring_local_job *job);

/** Send a signal to all that a rank started. */
void wring_local_job_signal(struct wring_local_job *job, int number);

/** The cores to share out; NULL where ranks are to run unbound. The caller destroys it. */
hwloc_topology_t wring_binding_load(const struct wring_launch_params *params);

/** In the rank's process: run on its share from here on. A failure is said on standard error. */
void wring_binding_apply(const struct wring_launch_params *params, hwloc_topology_t topology,
                         uint32_t rank);

int wring_lines_init(struct wring_lines *lines, int from, int to, uint32_t rank,
                     struct wring_outputs *outputs);
void wring_lines_finish(struct wring_lines *lines);

/** Pass on what can be read now; closes `from` at the stream's end, after the last piece. */
void wring_lines_pump(struct wring_lines *lines);

#endif
