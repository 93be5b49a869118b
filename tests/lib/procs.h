/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Jobs whose ranks are real processes, which may be killed, stopped or never come. Each rank
 * tells what happened to it; nothing outlives its job, and a job that hangs is a failed check.
 */
#ifndef WRING_TESTS_PROCS_H
#define WRING_TESTS_PROCS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <wring/wring.h>

#define PROCS_MAX 9
#define PROCS_TEXT 8192

struct procs_rank {
    uint32_t rank, size;
    uint32_t index; /* of the process; differs from rank where a test wants so */
    struct wring_session_params params;
    const char *settings[12]; /* what params.settings points to; tests may add */
    int report;               /* pipe */
};

struct procs_job {
    uint32_t ranks;              /* that the job should have */
    uint32_t processes;          /* started; 0: as many as ranks */
    const char *const *settings; /* for all; NULL-terminated */
    void *arg;
    /** In the child: open a session with rank->params and do something. Returns the exit code. */
    int (*run)(struct procs_rank *rank, void *arg);
    /** In the parent: once all are started. */
    void (*meddle)(const struct procs_job *job);
    uint16_t port; /* of the rendezvous, for meddle */
    pid_t pids[PROCS_MAX];
    char texts[PROCS_MAX][PROCS_TEXT]; /* what each rank said and logged */
    int codes[PROCS_MAX];              /* exit code, or -signal */
};

/** Run it; every rank must be gone within the deadline. @return false when one was not */
bool procs_run(struct procs_job *job, unsigned deadline_s);

/** In the parent, for meddle: wait until the process has ended, by itself. @return false when it
 *  is still there after so many seconds */
bool procs_await_end(const struct procs_job *job, uint32_t process, unsigned seconds);

/** In the child: add a line to the rank's text. */
__attribute__((format(printf, 2, 3))) void procs_say(struct procs_rank *rank, const char *format,
                                                     ...);

/** In the child: say how a call ended and what the session makes of it. */
void procs_say_end(struct procs_rank *rank, struct wring_session *session,
                   enum wring_status status);

#endif
