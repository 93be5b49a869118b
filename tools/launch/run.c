/* SPDX-License-Identifier: Apache-2.0 */
/** wring run -n N -- PROGRAM: the ranks of a job on this host. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/values.h"

#define RANKS 2 /* where nobody says how many */

static const struct argp_option options[] = {
    {"ranks", 'n', "N", 0, "start N ranks (default 2)", 0},
    {"elastic", 'e', "MIN:MAX", 0,
     "go on with MIN ranks or more when some fail, and start these again, up to MAX in all; "
     "starts MAX ranks, or those of --ranks. The program calls wring_session_shrink() and "
     "wring_session_grow()",
     0},
    {"provider", 'p', "NAME", 0, "transport provider; see wring info", 0},
    {"tag", 't', NULL, 0, "begin each line of output with its rank, as [3]", 0},
    {"bind", 'b', "HOW", 0,
     "cores: each rank gets its share of the cores, if they share out evenly (default); none", 0},
    {"grace", 'g', "SECONDS", 0,
     "when one rank fails, how long the others may go on before they are ended (default 5)", 0},
    {0},
};

struct run {
    struct wring_launch_params launch;
    const char *provider;
    uint32_t most; /* elastic; 0: it is not */
};

/** "2:4" @return false: it is no such thing */
static bool parse_elastic(const char *text, struct run *run)
{
    char least[16];
    const char *colon = strchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : sizeof(least);

    if (n >= sizeof(least))
        return false;
    memcpy(least, text, n);
    least[n] = '\0';
    return wring_value_count(least, 1, WRING_LAUNCH_RANKS_MAX, &run->launch.least) &&
           wring_value_count(colon + 1, run->launch.least, WRING_LAUNCH_RANKS_MAX, &run->most);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct run *run = state->input;
    double grace_s;

    switch (key) {
    case 'n':
        if (!wring_value_count(arg, 1, WRING_LAUNCH_RANKS_MAX, &run->launch.ranks))
            argp_error(state, "--ranks needs a number from 1 to %d", WRING_LAUNCH_RANKS_MAX);
        return 0;
    case 'e':
        if (!parse_elastic(arg, run))
            argp_error(state, "--elastic needs MIN:MAX, as 2:4, from 1 to %d",
                       WRING_LAUNCH_RANKS_MAX);
        return 0;
    case 'p':
        run->provider = arg;
        return 0;
    case 'b':
        run->launch.unbound = strcmp(arg, "none") == 0;
        if (!run->launch.unbound && strcmp(arg, "cores") != 0)
            argp_error(state, "--bind needs cores or none");
        return 0;
    case 't':
        run->launch.tag = true;
        return 0;
    case 'g':
        if (!wring_value_real(arg, 0, 86400, &grace_s))
            argp_error(state, "--grace needs seconds from 0 to 86400");
        run->launch.grace_ns = (uint64_t)(grace_s * 1e9);
        return 0;
    case ARGP_KEY_ARG: /* the program: what follows is its own affair */
        run->launch.argv = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no program to run");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp run_argp = {
    .options = options,
    .parser = parse_option,
    .args_doc = "[--] PROGRAM [ARGUMENT...]",
    .doc =
        "Start the ranks of a job on this host, and see them through to their end."
        "\v"
        "Each rank finds WRING_RANK, WRING_SIZE, WRING_LOCAL_SIZE, WRING_ROOT and a fresh "
        "WRING_KEY in its environment. The exit status is that of the rank that failed first, or "
        "of one that SIGKILL ended before the others' time was over; 128 + n if signal n "
        "killed it. With --elastic they also find WRING_DOOR_FD, and WRING_JOIN if they are "
        "started "
        "again. Nothing that the ranks started is left running.",
};

int wring_cmd_run(int argc, char **argv)
{
    struct run run = {
        .launch = {.name = argv[0], .grace_ns = WRING_LAUNCH_GRACE_NS},
    };

    argp_parse(&run_argp, argc, argv, ARGP_IN_ORDER, NULL, &run);
    if (run.launch.ranks == 0)
        run.launch.ranks = run.most > 0 ? run.most : RANKS;
    if (run.most > 0 && (run.launch.ranks < run.launch.least || run.launch.ranks > run.most))
        return wring_fail(argv[0], "--ranks %u is not within --elastic %u:%u", run.launch.ranks,
                          run.launch.least, run.most);
    if (run.provider != NULL)
        setenv("WRING_PROVIDER", run.provider, 1);
    return wring_launch(&run.launch);
}
