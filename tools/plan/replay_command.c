/* SPDX-License-Identifier: Apache-2.0 */
/** wring replay: the schedule of a plan, run for real over the links at hand. */
#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "planner/files/plan.h"
#include "tools/bench/bench_start.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/plan/planning.h"
#include "tools/plan/replay.h"
#include "tools/values.h"

enum {
    OPTION_JSON = 0x100,
    OPTION_PLAN,
    OPTION_SCALE,
    OPTION_COMPUTE,
    OPTION_ITERATIONS,
    OPTION_BESIDE,
};

static const struct argp_option options[] = {
    {"trace", 't', "T", 0, "the model: a wring-trace file, or the name of one that is shipped", 0},
    {"plan", OPTION_PLAN, "FILE", 0,
     "the plan to run, or auto: let the job plan for itself, as WRING_PLAN=auto does (default: "
     "each "
     "tensor by itself)",
     0},
    {"codec", 'c', "SPEC", 0,
     "without a plan: of every tensor (default none); with auto: those that may be taken, as "
     "bf16,onebit+ef",
     0},
    {"ranks", 'n', "N", 0, "ranks, started on this host unless a launcher did (default 2)", 0},
    {"provider", 'p', "NAME", 0, "transport provider; see wring info", 0},
    {"scale", OPTION_SCALE, "X", 0,
     "tensors and times are so much smaller, as in wring plan --scale (default 1)", 0},
    {"compute", OPTION_COMPUTE, "HOW", 0,
     "sleep, as where a device computes (default), or spin, as where the processor does", 0},
    {"iterations", OPTION_ITERATIONS, "R", 0, "that are timed, after two (default 9)", 0},
    {"beside", OPTION_BESIDE, "LIST", 0,
     "each tensor by itself in these codecs, too, as none,bf16: iterations take turns, and are "
     "compared",
     0},
    {"json", OPTION_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

struct command {
    struct wring_replay_params params;
    struct wring_planning planning; /* for its trace */
    bool json;
};

static void parse_compute(struct command *command, const char *arg, struct argp_state *state)
{
    command->params.compute = strcmp(arg, "spin") == 0 ? WRING_REPLAY_SPIN : WRING_REPLAY_SLEEP;
    if (strcmp(arg, "spin") != 0 && strcmp(arg, "sleep") != 0)
        argp_error(state, "--compute needs sleep or spin");
}

static void parse_beside(struct command *command, char *arg, struct argp_state *state)
{
    size_t n = wring_value_option_list("--beside", arg, command->params.beside,
                                       WRING_REPLAY_BESIDE_MAX, state);

    if (n == 0 || n > WRING_REPLAY_BESIDE_MAX)
        argp_error(state, "--beside needs 1 to %d codecs, such as none,bf16",
                   WRING_REPLAY_BESIDE_MAX);
    command->params.n_beside = (uint32_t)n;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;

    switch (key) {
    case 't':
        command->planning.trace_path = arg;
        return 0;
    case OPTION_PLAN:
        command->params.plan = arg;
        command->params.automatic = strcmp(arg, WRING_REPLAY_AUTO) == 0;
        return 0;
    case 'c':
        command->params.codec = arg;
        return 0;
    case 'n':
        if (!wring_value_count(arg, 1, WRING_PATTERN_RANKS_MAX, &command->params.ranks))
            argp_error(state, "--ranks needs a number from 1 to %d", WRING_PATTERN_RANKS_MAX);
        return 0;
    case 'p':
        command->params.provider = arg;
        return 0;
    case OPTION_SCALE:
        if (!wring_value_real(arg, 1e-6, 1, &command->planning.scale))
            argp_error(state, "--scale needs a number from 0.000001 to 1, such as 0.125");
        return 0;
    case OPTION_COMPUTE:
        parse_compute(command, arg, state);
        return 0;
    case OPTION_ITERATIONS:
        if (!wring_value_count(arg, 1, 10000, &command->params.iterations))
            argp_error(state, "--iterations needs a number from 1 to 10000");
        return 0;
    case OPTION_BESIDE:
        parse_beside(command, arg, state);
        return 0;
    case OPTION_JSON:
        command->json = true;
        return 0;
    case ARGP_KEY_END:
        if (command->planning.trace_path == NULL)
            argp_error(state, "--trace is needed: a wring-trace file, or a name such as vgg16");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp replay_argp = {
    .options = options,
    .parser = parse,
    .doc =
        "Run a model's iterations: its computing is slept or spun away, and its gradients are "
        "exchanged for real, as the plan says."
        "\v"
        "An iteration begins with backward and ends when every gradient has come, on the slowest "
        "rank; the median counts. 'error' is (predicted - measured) / measured; 'spread' is how "
        "far the 90th percentile is from the 10th, over the median. Afterwards raw sums are "
        "compared with the exact ones, and coded ones between the ranks. With --beside each turn "
        "has one iteration of everything, and the median of the turns' ratios counts.",
};

/** In one rank. @param predicted_us  NaN where there is no plan */
static int run(struct command *command, double predicted_us)
{
    struct wring_replay_result result;
    int code = wring_replay_rank(&command->params, &result);

    if (code != WRING_EXIT_OK || result.rank != 0)
        return code;
    if (command->json)
        code = wring_replay_print_json(&command->params, &result, predicted_us);
    else
        wring_replay_print(&command->params, &result, predicted_us);
    if (code == WRING_EXIT_OK && result.wrong > 0)
        return wring_fail(command->params.name, "%" PRIu64 " tensors are wrong", result.wrong);
    return code;
}

/**
 * What the plan expects; it is read, and compared with the trace, before any rank starts.
 * @param ranks  0: sessions will know how many there are
 */
static enum wring_status read_plan(const struct command *command, uint32_t ranks,
                                   double *predicted_us)
{
    struct wring_plan *plan;

    if (command->params.plan == NULL || command->params.automatic)
        return WRING_OK;
    enum wring_status status = wring_plan_load(command->params.plan, &command->planning.log, &plan);
    if (status != WRING_OK)
        return status;
    status = wring_plan_check(plan, command->params.trace, NULL, &command->planning.log);
    if (status == WRING_OK && ranks > 0)
        status = wring_plan_check_ranks(plan, command->params.plan, ranks, &command->planning.log);
    *predicted_us = plan->iteration_us;
    wring_plan_destroy(plan);
    return status;
}

/** As one rank of a job, or as the one who starts the ranks. */
static int replay(struct command *command, int argc, char **argv)
{
    static const char *const words[] = {"replay", NULL};
    uint32_t ranks = command->params.ranks > 0 ? command->params.ranks : 2;
    double predicted_us = NAN;
    struct wring_config config;
    struct wring_launched launched;

    if (wring_config_load(&config, &command->planning.log) != WRING_OK ||
        wring_planning_load_trace(&command->planning) != WRING_OK)
        return WRING_EXIT_FAILURE; /* which was said */
    command->params.trace = command->planning.trace;
    command->params.scale = command->planning.scale;
    if (wring_command_launched(&config, &launched) != WRING_EXIT_OK ||
        read_plan(command, launched.name != NULL ? 0 : ranks, &predicted_us) != WRING_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name == NULL)
        return wring_start_ranks(command->params.name, words, ranks, argc, argv);
    return run(command, predicted_us);
}

int wring_cmd_replay(int argc, char **argv)
{
    struct command command = {.params = {.name = argv[0], .codec = "none", .iterations = 9},
                              .planning = WRING_PLANNING_INIT};
    char **given = wring_arguments_copy(argc, argv);

    if (given == NULL)
        return wring_fail(argv[0], "out of memory");
    command.planning.log = wring_planning_log(argv[0]);
    error_t error = argp_parse(&replay_argp, argc, argv, 0, NULL, &command);
    int code =
        error == 0 ? replay(&command, argc, given) : wring_fail(argv[0], "%s", strerror(error));
    wring_planning_finish(&command.planning);
    wring_arguments_free(argc, given);
    return code;
}
