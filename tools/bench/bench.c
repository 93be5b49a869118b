/* SPDX-License-Identifier: Apache-2.0 */
/** wring bench WHAT: measurements of this machine, each with a check of its results. */
#include "tools/bench/bench.h"

#include <argp.h>

#include "tools/commands.h"

static const struct wring_command benches[] = {
    {"codec", "speed of encoding and decoding, against the memory's", wring_bench_codec},
    {"p2p", "latency and bandwidth of a provider between two ranks", wring_bench_p2p},
    {"sendrecv", "latency and bandwidth of messages between two ranks", wring_bench_sendrecv},
    {"allreduce", "time of an allreduce, by size and codec", wring_bench_allreduce},
    {"scale", "the library itself, for thousands of ranks over a simulated network",
     wring_bench_scale},
    {NULL, NULL, NULL},
};

static error_t parse_argument(int key, char *arg, struct argp_state *state)
{
    int *first = state->input;
    (void)arg;

    switch (key) {
    case ARGP_KEY_ARG:
        *first = state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "what is to be measured? %s --help lists it", state->name);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static char *help_text(int key, const char *text, void *input)
{
    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    return wring_command_help(benches, "Measurements:");
}

static const struct argp bench_argp = {
    .parser = parse_argument,
    .args_doc = "WHAT [ARGUMENT...]",
    .doc = "Measure, and check the results.\v",
    .help_filter = help_text,
};

int wring_cmd_bench(int argc, char **argv)
{
    int first = 0;

    argp_parse(&bench_argp, argc, argv, ARGP_IN_ORDER, NULL, &first);
    argv[first - 1] = argv[0];
    return wring_command_dispatch(benches, argc - first + 1, argv + first - 1);
}
