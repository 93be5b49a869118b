/* SPDX-License-Identifier: Apache-2.0 */
/** What commands write: standard output, which is to arrive, and files, whole or not at all. */
#ifndef WRING_TOOLS_OUTPUT_H
#define WRING_TOOLS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/**
 * At the start of main(). When the process ends, standard output that could not be written (a full
 * disk) is said in one line, and the exit status is 1. A reader who has had enough (| head) ends
 * nobody, and is no failure: SIGPIPE is blocked, which the launcher undoes for ranks.
 */
void wring_output_init(void);

/** Standard output was not written; the line that says why comes as the process ends. @return the
 *  command's exit status, which is that of success where the reader has gone */
int wring_output_failed(void);

/** Has its reader gone? @param fd  a pipe's or socket's end; others have none */
bool wring_output_is_unread(int fd);

/**
 * Write a file with a function, which says whether all went well. What stood there before is
 * replaced once all of it is written, and else left alone; pipes and devices are written to.
 * @param command  before the line that says what failed
 * @return the command's exit status, said
 */
int wring_output_file(const char *command, const char *path, bool (*write)(FILE *file, void *arg),
                      void *arg);

#endif
