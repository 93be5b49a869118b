/* SPDX-License-Identifier: Apache-2.0 */
/** wring bench p2p: the command line, the two ranks, and what is printed. */
#include "tools/bench/p2p.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "tools/bench/bench.h"
#include "tools/bench/latency.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/values.h"

static const struct argp_option options[] = {
    {"provider", 'p', "NAME", 0, "transport provider (default: WRING_PROVIDER, or the best)", 0},
    {"bytes", 'b', "LIST", 0, "sizes, such as 8,4k,1m (default 8,4k,64k,1m)", 0},
    {0},
};

struct command {
    struct wring_p2p_params params;
    struct wring_config config;
    const char *provider; /* as given; NULL: as configured */
    bool json;
    struct wring_bench_options options;
    json_t *results;
};

static const struct wring_bench_sizes sizes = {1, 1u << 30, 1, "a size from 1 to 1g"};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &command->options;
        return 0;
    case 'p':
        command->provider = arg;
        return 0;
    case 'b':
        command->params.n_bytes =
            wring_bench_parse_sizes(&sizes, arg, command->params.bytes, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&wring_bench_argp, 0, NULL, 0}, {0}};

static const struct argp p2p_argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Measure a provider as it is, between two ranks: puts into each other's memory."
           "\v"
           "Latency is half the time of a put each way. Bandwidth is one way, with a window of "
           "puts under way, until the receiver has seen the last one; the median of rounds. The "
           "receiver looks at every payload's last bytes, and at all bytes of the first ones: "
           "wrong data is an error. WRING_FAULT makes the link slower. Without a launcher, two "
           "ranks are started on this host.",
};

/** The provider asked for, or the best that works here; NULL after saying why not. */
static const struct wring_provider_ops *choose(const struct command *command)
{
    const char *name = command->provider != NULL ? command->provider : command->config.provider;
    bool automatic = strcmp(name, "auto") == 0;
    char reason[256] = "";

    for (const struct wring_provider_ops *const *ops = wring_provider_list(); *ops != NULL; ops++) {
        if (!automatic && strcmp((*ops)->name, name) != 0)
            continue;
        if ((*ops)->probe(reason, sizeof(reason)) == WRING_OK)
            return *ops;
        if (!automatic) {
            wring_fail(command->params.name, "provider %s cannot work here: %s", name, reason);
            return NULL;
        }
    }
    wring_fail(command->params.name, "no provider '%s'; wring info --providers lists them", name);
    return NULL;
}

/** What the bandwidth cost the provider, where it tells. */
static json_t *work_of(const struct wring_p2p_result *result)
{
    const struct wring_verbs_counters *work = &result->work;
    double mib = (double)work->put_bytes / 0x1p20, puts = work->puts > 0 ? (double)work->puts : 1;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "puts",
        (json_int_t)work->puts, "requests", (json_int_t)work->requests, "inlined",
        (json_int_t)work->inlined, "signalled", (json_int_t)work->signalled, "doorbells",
        (json_int_t)work->doorbells, "credit_writes", (json_int_t)work->credit_writes,
        "receive_doorbells", (json_int_t)work->receive_doorbells, "completions",
        (json_int_t)work->completions, "control_bytes", (json_int_t)work->control_bytes,
        "copied_bytes", (json_int_t)work->copied_bytes, "registrations",
        (json_int_t)work->registrations, "completions_per_mib",
        mib > 0 ? (double)work->completions / mib : 0.0, "doorbells_per_put",
        (double)work->doorbells / puts);
}

static void add_result(void *arg, const struct wring_p2p_result *result)
{
    struct command *command = arg;
    json_t *row =
        json_pack("{s:s, s:I, s:{s:f, s:f, s:f}, s:f, s:I, s:I, s:i}", "provider",
                  command->params.provider->name, "bytes", (json_int_t)result->bytes, "latency_us",
                  "min", result->latency_us.min, "median", result->latency_us.median, "p99",
                  result->latency_us.p99, "bandwidth_gb_per_s", result->bandwidth_gb_per_s,
                  "round_trips", (json_int_t)result->round_trips, "puts_per_round",
                  (json_int_t)result->puts, "window", (int)result->window);

    if (result->has_work)
        json_object_set_new(row, "verbs", work_of(result));
    json_array_append_new(command->results, row);
    wring_latency_progress(result->bytes, result->latency_us.median, result->bandwidth_gb_per_s);
}

static int print_results(const struct command *command)
{
    const char *fault = command->config.fault;
    char title[2 * WRING_CONFIG_TEXT];

    snprintf(title, sizeof(title), "puts between two ranks, provider %s%s%s",
             command->params.provider->name, fault[0] != '\0' ? ", WRING_FAULT=" : "", fault);
    return wring_latency_print(command->results, command->json, json_pack("{s:s}", "fault", fault),
                               title);
}

/** As one of the two ranks, or as the one who starts them. */
static int measure(struct command *command, int argc, char **argv)
{
    static const char *const words[] = {"bench", "p2p", NULL};
    struct wring_launched launched;
    struct wring_log log = {.level = WRING_LOG_WARN};

    if (!wring_bench_knows_provider(command->params.name, command->provider))
        return WRING_EXIT_USAGE;
    if (wring_config_load(&command->config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    command->params.provider = choose(command);
    if (command->params.provider == NULL)
        return WRING_EXIT_FAILURE;
    if (wring_command_launched(&command->config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name == NULL)
        return wring_start_ranks(command->params.name, words, 2, argc, argv);
    command->params.config = &command->config;
    int code = wring_p2p_rank(&command->params, add_result, command);
    return code == WRING_EXIT_OK ? print_results(command) : code;
}

int wring_bench_p2p(int argc, char **argv)
{
    char usual[] = "8,4k,64k,1m";
    struct command command = {.params = {.name = argv[0], .seconds = 1},
                              .options = {&command.params.seconds, &command.json}};
    char **given = wring_arguments_copy(argc, argv);
    int code;

    command.params.n_bytes = wring_bench_parse_sizes(&sizes, usual, command.params.bytes, NULL);
    argp_parse(&p2p_argp, argc, argv, 0, NULL, &command);
    command.results = json_array();
    if (given == NULL || command.results == NULL)
        code = wring_fail(argv[0], "out of memory");
    else
        code = measure(&command, argc, given);
    json_decref(command.results);
    wring_arguments_free(argc, given);
    return code;
}
