/* SPDX-License-Identifier: Apache-2.0 */
/** wring bench sendrecv: the command line, the two ranks, and what is printed. */
#include "tools/bench/bench_sendrecv.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "tools/bench/bench_latency_show.h"
#include "tools/bench/bench_start.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/values.h"

enum {
    OPTION_FOREIGN = 0x100
};

static const struct argp_option options[] = {
    {"provider", 'p', "NAME", 0, "transport provider (default: WRING_PROVIDER)", 0},
    {"bytes", 'b', "LIST", 0, "sizes, such as 0,8,4k,1m (default 8,4k,64k,1m)", 0},
    {"foreign", OPTION_FOREIGN, NULL, 0, "malloc'ed memory, not of wring_buffer_alloc()", 0},
    {0},
};

struct command {
    struct wring_sendrecv_params params;
    struct wring_config config;
    struct wring_bench_options options;
    json_t *results;
};

static const struct wring_bench_sizes sizes = {0, 1u << 30, 1, "a size from 0 to 1g"};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &command->options;
        return 0;
    case 'p':
        command->params.provider = arg;
        return 0;
    case 'b':
        command->params.n_bytes =
            wring_bench_parse_sizes(&sizes, arg, command->params.bytes, state);
        return 0;
    case OPTION_FOREIGN:
        command->params.foreign = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&wring_bench_argp, 0, NULL, 0}, {0}};

static const struct argp sendrecv_argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Measure messages between two ranks, by wring_send() and wring_recv()."
           "\v"
           "Latency is half the time of a message each way. Bandwidth is one way, with a window of "
           "messages under way, until the receiver has the last one; the median of rounds. "
           "wring bench p2p with the same sizes says how much of that the provider takes. The "
           "receiver looks at every message's last bytes, and at all bytes of the first ones: "
           "wrong data is an error. WRING_FAULT makes the link slower. Without a launcher, two "
           "ranks are started on this host.",
};

static double bandwidth(const struct wring_sendrecv_result *result)
{
    return (double)result->bytes / 1e3 / result->message_us;
}

static void add_result(void *arg, const struct wring_sendrecv_result *result)
{
    struct command *command = arg;
    json_t *row = json_pack(
        "{s:s, s:I, s:{s:f, s:f, s:f}, s:f, s:f, s:I, s:I, s:i}", "provider",
        command->params.provider, "bytes", (json_int_t)result->bytes, "latency_us", "min",
        result->latency_us.min, "median", result->latency_us.median, "p99", result->latency_us.p99,
        "bandwidth_gb_per_s", bandwidth(result), "messages_per_s", 1e6 / result->message_us,
        "round_trips", (json_int_t)result->round_trips, "messages_per_round",
        (json_int_t)result->in_a_stream, "window", (int)result->window);

    json_array_append_new(command->results, row);
    wring_latency_progress(result->bytes, result->latency_us.median, bandwidth(result));
}

static int print_results(const struct command *command)
{
    const char *fault = command->config.fault;
    const char *memory = command->params.foreign ? "foreign" : "registered";
    char title[2 * WRING_CONFIG_TEXT];

    snprintf(title, sizeof(title), "messages between two ranks, provider %s, %s memory%s%s",
             command->params.provider, memory, fault[0] != '\0' ? ", WRING_FAULT=" : "", fault);
    return wring_latency_print(command->results, command->params.json,
                               json_pack("{s:s, s:s}", "fault", fault, "memory", memory), title);
}

/** As one of the two ranks, or as the one who starts them. */
static int measure(struct command *command, int argc, char **argv)
{
    static const char *const words[] = {"bench", "sendrecv", NULL};
    struct wring_launched launched;
    struct wring_log log = {.level = WRING_LOG_WARN};

    if (!wring_bench_knows_provider(command->params.name, command->params.provider))
        return WRING_EXIT_USAGE;
    if (wring_config_load(&command->config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    if (wring_command_launched(&command->config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name == NULL)
        return wring_start_ranks(command->params.name, words, 2, argc, argv);
    if (command->params.provider == NULL)
        command->params.provider = command->config.provider;
    int code = wring_sendrecv_rank(&command->params, add_result, command);
    return code == WRING_EXIT_OK ? print_results(command) : code;
}

int wring_bench_sendrecv(int argc, char **argv)
{
    char usual[] = "8,4k,64k,1m";
    struct command command = {.params = {.name = argv[0], .seconds = 1},
                              .options = {&command.params.seconds, &command.params.json}};
    char **given = wring_arguments_copy(argc, argv);
    int code;

    command.params.n_bytes = wring_bench_parse_sizes(&sizes, usual, command.params.bytes, NULL);
    argp_parse(&sendrecv_argp, argc, argv, 0, NULL, &command);
    command.results = json_array();
    if (given == NULL || command.results == NULL)
        code = wring_fail(argv[0], "out of memory");
    else
        code = measure(&command, argc, given);
    json_decref(command.results);
    wring_arguments_free(argc, given);
    return code;
}
