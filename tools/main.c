/* SPDX-License-Identifier: Apache-2.0 */
/** wring COMMAND ...: finds the command and hands the rest of the line to it. */
#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/descriptor.h"

#include "tools/commands.h"
#include "tools/output.h"

/* in the order of help */
static const struct wring_command commands[] = {
    {"info", "what this build and this machine can do", wring_cmd_info},
    {"bench", "measure codecs, providers and collectives, and check results", wring_cmd_bench},
    {"calibrate", "measure what links, codecs and collectives take here, for plan",
     wring_cmd_calibrate},
    {"plan", "choose what to compress, where and how, and say what it gains", wring_cmd_plan},
    {"simulate", "plan for many clusters, and say how a model scales", wring_cmd_simulate},
    {"replay", "run the schedule of a plan for real, and compare with what it expects",
     wring_cmd_replay},
    {"run", "start the ranks of a job on this host", wring_cmd_run},
    {"demo", "train a model over an emulated slow link, with and without codecs", wring_cmd_demo},
    {NULL, NULL, NULL},
};

struct command_line {
    int first; /* index of the command's name; 0: none was given */
};

static error_t parse_argument(int key, char *arg, struct argp_state *state)
{
    struct command_line *line = state->input;
    (void)arg;

    switch (key) {
    case ARGP_KEY_ARG: /* the command: what follows is its own affair */
        line->first = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static char *help_text(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)text;
    return wring_command_help(commands, "Commands:");
}

static const struct argp main_argp = {
    .parser = parse_argument,
    .args_doc = "COMMAND [ARGUMENT...]\nhelp COMMAND",
    .doc = "Move gradient buckets between ranks, and squeeze them on the way.\v",
    .help_filter = help_text,
};

static void print_version(FILE *stream, struct argp_state *state)
{
    (void)state;
    fprintf(stream, "wring %s\n", WRING_VERSION);
}

/** `wring help bench allreduce` is `wring bench allreduce --help`; `wring help` is `wring --help`.
 */
static int run_help(int argc, char **argv)
{
    char *line[8] = {argv[0]};
    int n = 1;

    for (int i = 2; i < argc && n < 6; i++)
        line[n++] = argv[i];
    line[n++] = (char *)"--help";
    if (n == 2)
        return argp_parse(&main_argp, n, line, ARGP_IN_ORDER, NULL, &(struct command_line){0});
    return wring_command_dispatch(commands, n, line);
}

static void ignore_signal(int number)
{
    (void)number;
}

/** What is too large for a file (ulimit -f) is an error of the call that writes; ranks that are
 *  started from here have the system's way again. */
static void live_with_limits(void)
{
    struct sigaction action = {.sa_handler = ignore_signal, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGXFSZ, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
        sigaction(SIGXFSZ, &action, NULL);
}

int main(int argc, char **argv)
{
    struct command_line line = {0};
    char name[] = "wring";
    struct wring_stdio stdio;

    wring_stdio_fill(&stdio); /* else a file that is written gets what is printed, too */
    wring_output_init();
    live_with_limits();
    argp_err_exit_status = WRING_EXIT_USAGE;
    argp_program_version_hook = print_version;
    if (argc > 0)
        argv[0] = name;
    error_t error = argp_parse(&main_argp, argc, argv, ARGP_IN_ORDER, NULL, &line);
    if (error != 0)
        return wring_fail(name, "%s", strerror(error));

    argv[line.first - 1] = name;
    argc -= line.first - 1;
    argv += line.first - 1;
    if (strcmp(argv[1], "help") == 0)
        return run_help(argc, argv);
    return wring_command_dispatch(commands, argc, argv);
}
