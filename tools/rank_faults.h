/* SPDX-License-Identifier: Apache-2.0 */
/** What a rank of a command says when its job fails: one line, the library's or its own. */
#ifndef WRING_TOOLS_RANK_FAULTS_H
#define WRING_TOOLS_RANK_FAULTS_H

#include <stdatomic.h>

#include <wring/wring.h>

struct wring_rank_faults {
    const char *command;           /* before its lines */
    struct wring_session *session; /* NULL: there is none yet */
    atomic_bool said;              /* the library has logged an error */
};

/** For wring_session_params: as the library logs by itself. @param arg  the faults */
void wring_rank_log(void *arg, enum wring_log_level level, const char *module, const char *text);

/**
 * Open the rank's session, whose lines are logged as above.
 *
 * @param faults  command is set; its session is set here, and stays the caller's to close
 * @param params  of the session, but for its log
 * @param asked   ranks that the command was told to have; 0: any number
 * @return an exit status; said
 */
int wring_rank_open(struct wring_rank_faults *faults, const struct wring_session_params *params,
                    uint32_t asked);

/** Say why it cannot go on, as the library tells it. @return WRING_EXIT_FAILURE */
int wring_rank_say(const struct wring_rank_faults *faults, const char *what,
                   enum wring_status status);

/** The same, unless the library has said something. */
int wring_rank_fail(const struct wring_rank_faults *faults, const char *what,
                    enum wring_status status);

#endif
