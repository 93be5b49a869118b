/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The commands of the wring tool. Each gets its own argument vector, argv[0] being "wring run" or
 * the like, and answers with the tool's exit status: 0 success, 1 failure said in one line on
 * standard error, 2 bad usage (argp ends the process with that by itself).
 */
#ifndef WRING_TOOLS_COMMANDS_H
#define WRING_TOOLS_COMMANDS_H

#include <stddef.h>

enum wring_exit {
    WRING_EXIT_OK = 0,
    WRING_EXIT_FAILURE = 1,
    WRING_EXIT_USAGE = 2,
};

struct wring_command {
    const char *name;
    const char *doc; /* one line, for `wring --help` */
    int (*run)(int argc, char **argv);
};

int wring_cmd_info(int argc, char **argv);
int wring_cmd_bench(int argc, char **argv);
int wring_cmd_calibrate(int argc, char **argv); /* tools/calibrate/ */
int wring_cmd_plan(int argc, char **argv);      /* tools/plan/ */
int wring_cmd_simulate(int argc, char **argv);  /* tools/plan/ */
int wring_cmd_replay(int argc, char **argv);    /* tools/plan/ */
int wring_cmd_run(int argc, char **argv);
int wring_cmd_demo(int argc, char **argv); /* tools/demo/, or demo_absent.c */

/** The command of that name in a table, which ends with {NULL}; or NULL. */
const struct wring_command *wring_command_find(const struct wring_command *table, const char *name);

/** The command whose name is spelled most like `name`; NULL where none comes near. */
const struct wring_command *wring_command_nearest(const struct wring_command *table,
                                                  const char *name);

/**
 * Run one of a table's commands: argv[1] names it, argv[0] is what stands before it ("wring").
 * An unknown name is bad usage, answered with the nearest one.
 */
int wring_command_dispatch(const struct wring_command *table, int argc, char **argv);

/** Say in one line on standard error why a command failed, control characters as '?'.
 *  @return WRING_EXIT_FAILURE */
__attribute__((format(printf, 2, 3))) int wring_fail(const char *command, const char *format, ...);

/** The table as text for an argp help filter, one indented line each. The caller frees it. */
char *wring_command_help(const struct wring_command *table, const char *heading);

#endif
