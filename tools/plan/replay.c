/* SPDX-License-Identifier: Apache-2.0 */
/** What wring replay says of a run. */
#include "tools/plan/replay.h"

#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "planner/core/files/plan.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/output.h"
#include "tools/plan/planning.h"
#include "tools/values.h"

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static double spread_of(const struct wring_replay_result *result)
{
    return (result->p90_us - result->p10_us) / result->time_us.median;
}

static void add_choice(json_t *object, const struct wring_autotune_report *report)
{
    json_object_set_new(object, "settled", json_boolean(report->settled));
    json_object_set_new(object, "chosen", wring_json_text(report->name));
    json_object_set_new(object, "chosen_groups", json_integer(report->groups));
    json_object_set_new(object, "end_to_end_us",
                        json_pack("{s:o, s:o, s:o}", "with", number_or_null(report->with_us),
                                  "without", number_or_null(report->without_us), "predicted",
                                  number_or_null(report->predicted_us)));
}

static json_t *list_beside(const struct wring_replay_params *params,
                           const struct wring_replay_result *result)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < params->n_beside; i++) {
        const struct wring_replay_beside *one = &result->beside[i];
        json_array_append_new(list, json_pack("{s:o, s:f, s:f, s:f, s:f, s:f}", "codec",
                                              wring_json_text(params->beside[i]), "measured_us",
                                              one->median_us, "ratio", one->ratio, "low",
                                              one->where.low, "high", one->where.high, "confidence",
                                              one->where.confidence));
    }
    return list;
}

static const char *name_check(enum wring_replay_check check)
{
    switch (check) {
    case WRING_REPLAY_EXACT:
        return "exact";
    case WRING_REPLAY_ROUNDED:
        return "rounded";
    case WRING_REPLAY_ALIKE:
        return "alike";
    }
    return NULL;
}

static json_t *list_tensors(const struct wring_tensor_trace *trace,
                            const struct wring_replay_result *result)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < trace->n; i++) {
        const char *dtype = wring_tensor_trace_type_name(wring_tensor_trace_dtype(trace, i));
        json_array_append_new(list, json_pack("{s:o, s:I, s:s, s:s}", "name",
                                              wring_json_text(trace->tensors[i].name), "elements",
                                              (json_int_t)trace->tensors[i].elems, "dtype", dtype,
                                              "checked", name_check(result->checks[i])));
    }
    return list;
}

static int replay_print_json(const struct wring_replay_params *params,
                             const struct wring_replay_result *result, double predicted_us)
{
    double measured_us = result->time_us.median;
    json_t *object = json_pack(
        "{s:o, s:i, s:i, s:f, s:s, s:f, s:{s:f, s:f, s:f}, s:f, s:o, s:o, s:f, s:f, s:I, s:o}",
        "model", wring_json_text(params->trace->model), "ranks", (int)result->ranks, "iterations",
        (int)params->iterations, "scale", params->scale, "compute",
        params->compute == WRING_REPLAY_SPIN ? "spin" : "sleep", "measured_us", measured_us,
        "time_us", "min", result->time_us.min, "median", measured_us, "p90", result->p90_us,
        "spread", spread_of(result), "predicted_us", number_or_null(predicted_us), "error",
        number_or_null(predicted_us / measured_us - 1), "wire_bytes", result->wire_bytes, "cpu_us",
        result->cpu_us, "wrong", (json_int_t)result->wrong, "tensors",
        list_tensors(params->trace, result));

    if (params->automatic)
        add_choice(object, &result->automatic);
    if (params->n_beside > 0)
        json_object_set_new(object, "beside", list_beside(params, result));
    return wring_json_print(stdout, object) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
}

/** What the job chose for itself, by iterations as it sees them: from end to end. */
static void print_choice(const struct wring_autotune_report *report)
{
    if (!report->settled) {
        printf("  chosen     nothing: there were too few iterations\n");
        return;
    }
    printf("  chosen     %s; from end to end %.3f ms with it, %.3f ms without", report->name,
           report->with_us / 1e3, report->without_us / 1e3);
    if (isfinite(report->predicted_us))
        printf(", %.3f ms predicted", report->predicted_us / 1e3);
    printf("\n");
}

static void print_beside(const struct wring_replay_params *params,
                         const struct wring_replay_result *result)
{
    for (uint32_t i = 0; i < params->n_beside; i++) {
        const struct wring_replay_beside *one = &result->beside[i];
        printf("  %-10s %10.3f ms   this takes %.3f of it; from %.3f to %.3f with %.0f %% "
               "confidence\n",
               params->beside[i], one->median_us / 1e3, one->ratio, one->where.low, one->where.high,
               one->where.confidence * 100);
    }
}

/** What came out, as text or as one JSON object. @param predicted_us  by the plan; NaN: nothing
 * was.
 *  @return an exit status; said */
static void replay_print(const struct wring_replay_params *params,
                         const struct wring_replay_result *result, double predicted_us)
{
    const struct wring_tensor_trace *trace = params->trace;
    double measured_us = result->time_us.median;

    printf("%s, %" PRIu32 " tensors of %s, %" PRIu32 " ranks, %" PRIu32 " iterations\n",
           trace->model, trace->n, wring_tensor_trace_types(trace), result->ranks,
           params->iterations);
    printf("  measured   %10.3f ms   %.3f ms of it exposed; spread %.1f %%\n", measured_us / 1e3,
           fmax(measured_us - wring_tensor_trace_alone_us(trace), 0) / 1e3,
           spread_of(result) * 100);
    if (isfinite(predicted_us))
        printf("  predicted  %10.3f ms   off by %+.1f %%\n", predicted_us / 1e3,
               (predicted_us / measured_us - 1) * 100);
    printf("  sent       %10.3f MB   a rank and iteration\n", result->wire_bytes / 1e6);
    printf("  processor  %10.3f ms   likewise\n", result->cpu_us / 1e3);
    if (params->automatic)
        print_choice(&result->automatic);
    print_beside(params, result);
}

/* ---- replay command ---- */

/* wring replay: the schedule of a plan, run for real over the links at hand. */

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

static error_t parse_option(int key, char *arg, struct argp_state *state)
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
    .parser = parse_option,
    .doc =
        "Run a model's iterations: its computing is slept or spun away, and its gradients are "
        "exchanged for real, as the plan says."
        "\v"
        "An iteration begins with backward and ends when every gradient has come, on the slowest "
        "rank; the median counts. 'error' is (predicted - measured) / measured; 'spread' is how "
        "far the 90th percentile is from the 10th, over the median. Afterwards raw sums are "
        "compared with the exact ones, rounded to the tensor's type, and coded ones between the "
        "ranks. With --beside each turn "
        "has one iteration of everything, and the median of the turns' ratios counts.",
};

/** By rank 0, for all. @return an exit status; said */
static int print_result(const struct command *command, const struct wring_replay_result *result,
                        double predicted_us)
{
    int code = WRING_EXIT_OK;

    if (command->json)
        code = replay_print_json(&command->params, result, predicted_us);
    else
        replay_print(&command->params, result, predicted_us);
    if (code == WRING_EXIT_OK && result->wrong > 0)
        return wring_fail(command->params.name, "%" PRIu64 " tensors are wrong", result->wrong);
    return code;
}

/** In one rank. @param predicted_us  NaN where there is no plan */
static int replay_as_rank(struct command *command, double predicted_us)
{
    struct wring_replay_result result;
    int code = wring_replay_rank(&command->params, &result);

    if (code == WRING_EXIT_OK && result.rank == 0)
        code = print_result(command, &result, predicted_us);
    free(result.checks);
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
static int run_ranks(struct command *command, int argc, char **argv)
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
    return replay_as_rank(command, predicted_us);
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
        error == 0 ? run_ranks(&command, argc, given) : wring_fail(argv[0], "%s", strerror(error));
    wring_planning_finish(&command.planning);
    wring_arguments_free(argc, given);
    return code;
}
