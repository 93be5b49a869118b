/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Start the ranks of a job on this host and see them through to the end: `wring run`, and every
 * command that needs several ranks. One thread, which must be the process's only one.
 */
#ifndef WRING_TOOLS_LAUNCH_H
#define WRING_TOOLS_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/bootstrap/launcher.h"

#define WRING_LAUNCH_RANKS_MAX 4096
#define WRING_LAUNCH_GRACE_NS 5000000000ull

struct wring_launch_params {
    const char *name;  /* of the command, before each message: "wring run" */
    uint32_t ranks;    /* 1..WRING_LAUNCH_RANKS_MAX */
    bool tag;          /* prefix each line of output with its rank */
    bool unbound;      /* let every rank run on every core */
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
 * When a rank fails, it is named on standard error; the others get the grace time to end by
 * themselves, then SIGTERM, then SIGKILL. SIGINT, SIGTERM and SIGHUP are passed on to all ranks,
 * but for those that this process ignores. Tagged output whose reader has gone is dropped.
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

#endif
