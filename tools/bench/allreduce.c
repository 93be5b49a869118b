/* SPDX-License-Identifier: Apache-2.0 */
/** wring bench allreduce: the command line, the ranks, and what is printed. */
#include "tools/bench/allreduce.h"

#include <argp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "tools/bench/bench.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/output.h"
#include "tools/values.h"
#include <wring/codec.h>

static double algbw_gb_per_s(const struct wring_allreduce_result *result)
{
    return (double)result->bytes / result->time_us.median / 1e3;
}

static double busbw_gb_per_s(const struct wring_allreduce_result *result, uint32_t ranks)
{
    return algbw_gb_per_s(result) * 2 * (ranks - 1) / ranks;
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/** What the buckets' stats add. */
static void add_stats(json_t *object, uint32_t ranks, const struct wring_allreduce_result *result)
{
    json_t *cores = json_array();
    for (uint32_t rank = 0; rank < ranks; rank++)
        json_array_append_new(cores, json_string(result->cores[rank]));
    json_object_set_new(object, "scheme", json_string(result->scheme));
    json_object_set_new(object, "ran", json_string(result->ran));
    if (result->with_us > 0)
        json_object_set_new(
            object, "predicted_us",
            json_pack("{s:f, s:f}", "with", result->with_us, "without", result->without_us));
    json_object_set_new(object, "error", number_or_null(result->error));
    json_object_set_new(object, "error_back", number_or_null(result->error_back));
    json_object_set_new(object, "cores", cores);
}

static void add_turns(json_t *object, const struct wring_allreduce_result *result)
{
    json_t *turns = json_array();
    for (uint32_t turn = 0; turn < result->turns; turn++)
        json_array_append_new(turns, json_real(result->turn_us[turn]));
    json_object_set_new(object, "turns_us", turns);
}

/** A result as an object. @return the caller's reference */
static json_t *allreduce_json(const char *provider, uint32_t ranks,
                              const struct wring_allreduce_result *result)
{
    json_t *object =
        json_pack("{s:I, s:s, s:s, s:I, s:{s:f, s:f, s:f}, s:f, s:f, s:f, s:I, s:o, s:I}", "ranks",
                  (json_int_t)ranks, "provider", provider, "codec", result->codec, "bytes",
                  (json_int_t)result->bytes, "time_us", "min", result->time_us.min, "median",
                  result->time_us.median, "p99", result->time_us.p99, "algbw_gb_per_s",
                  algbw_gb_per_s(result), "busbw_gb_per_s", busbw_gb_per_s(result, ranks),
                  "wire_bytes", result->wire_bytes, "wrong", (json_int_t)result->wrong, "nmse",
                  number_or_null(result->nmse), "iterations", (json_int_t)result->iterations);
    if (result->turns > 1)
        add_turns(object, result);
    if (result->has_stats)
        add_stats(object, ranks, result);
    return object;
}

static double get_number(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/** "int8", or "int8 -> none" where another than the one asked for ran. */
static void show_codec(struct wring_table *table, json_t *result)
{
    const char *codec = json_string_value(json_object_get(result, "codec"));
    const char *ran = json_string_value(json_object_get(result, "ran"));

    if (ran != NULL && strcmp(ran, "none") == 0 && strcmp(codec, "none") != 0)
        wring_table_cell(table, "%s -> none", codec);
    else
        wring_table_cell(table, "%s", codec);
}

/** A table of such objects, on standard output. */
static void allreduce_show(json_t *results)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},       {"bytes", WRING_ALIGN_RIGHT},
        {"min us", WRING_ALIGN_RIGHT},     {"median us", WRING_ALIGN_RIGHT},
        {"p99 us", WRING_ALIGN_RIGHT},     {"algbw GB/s", WRING_ALIGN_RIGHT},
        {"busbw GB/s", WRING_ALIGN_RIGHT}, {"wire bytes", WRING_ALIGN_RIGHT},
        {"wrong", WRING_ALIGN_RIGHT},      {"nmse", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 10);
    json_t *result;
    size_t i;

    json_array_foreach(results, i, result)
    {
        json_t *time = json_object_get(result, "time_us");
        char bytes[32];
        wring_value_show_bytes((uint64_t)get_number(result, "bytes"), bytes, sizeof(bytes));
        show_codec(table, result);
        wring_table_cell(table, "%s", bytes);
        wring_table_cell(table, "%.1f", get_number(time, "min"));
        wring_table_cell(table, "%.1f", get_number(time, "median"));
        wring_table_cell(table, "%.1f", get_number(time, "p99"));
        wring_table_cell(table, "%.2f", get_number(result, "algbw_gb_per_s"));
        wring_table_cell(table, "%.2f", get_number(result, "busbw_gb_per_s"));
        wring_table_cell(table, "%.0f", get_number(result, "wire_bytes"));
        wring_table_cell(table, "%.0f", get_number(result, "wrong"));
        if (json_is_real(json_object_get(result, "nmse")))
            wring_table_cell(table, "%.3g", get_number(result, "nmse"));
        else
            wring_table_cell(table, "nan");
    }
    wring_table_finish(table, stdout);
}

/* ---- allreduce ---- */

enum {
    OPTION_OP = 0x100,
    OPTION_SCHEME,
    OPTION_FOREIGN,
    OPTION_BYPASS,
    OPTION_TURNS
};

static const struct argp_option options[] = {
    {"ranks", 'n', "N", 0, "ranks, started on this host unless a launcher did (default 2)", 0},
    {"provider", 'p', "NAME", 0, "transport provider (default: WRING_PROVIDER)", 0},
    {"bytes", 'b', "LIST", 0, "sizes, such as 4k,64k,1m (default 4k,64k,1m,16m)", 0},
    {"codec", 'c', "LIST", 0, "codec specs, such as none,int8+ef (default none)", 0},
    {"op", OPTION_OP, "OP", 0, "sum or avg (default sum)", 0},
    {"scheme", OPTION_SCHEME, "S", 0,
     "auto, divisible, indivisible, hierarchical, hierarchical-divisible, "
     "hierarchical-indivisible or ring (default: WRING_SCHEME)",
     0},
    {"foreign", OPTION_FOREIGN, NULL, 0,
     "malloc'ed memory through the immediate call, not registered buckets", 0},
    {"bypass", OPTION_BYPASS, "WHEN", 0,
     "leave codecs out: never, always, or auto, where commit measures no gain (default never)", 0},
    {"iterations", 'i', "N", 0, "timed calls for each codec and size (default: by --seconds)", 0},
    {"turns", OPTION_TURNS, "N", 0,
     "the codecs of a size take N turns, so that what disturbs one disturbs all (default 1)", 0},
    {0},
};

struct command {
    struct wring_allreduce_params params;
    struct wring_bench_options options;
    json_t *results;
};

static const struct wring_bench_sizes sizes = {0, UINT64_MAX, sizeof(float),
                                               "a size in whole float32 elements"};

/** The index of a word in "a|b|c"; ends in a usage error where it is none of them. */
static unsigned parse_word(const char *option, const char *words, const char *arg,
                           struct argp_state *state)
{
    size_t length = strlen(arg);
    unsigned i = 0;

    for (const char *word = words; word != NULL; i++) {
        size_t word_length = strcspn(word, "|");
        if (word_length == length && memcmp(word, arg, length) == 0)
            return i;
        word = word[word_length] == '|' ? word + word_length + 1 : NULL;
    }
    argp_error(state, "--%s needs one of %s", option, words);
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;
    struct wring_allreduce_params *params = &command->params;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &command->options;
        return 0;
    case 'n':
        if (!wring_value_count(arg, 1, WRING_PATTERN_RANKS_MAX, &params->ranks))
            argp_error(state, "--ranks needs a number from 1 to %d", WRING_PATTERN_RANKS_MAX);
        return 0;
    case 'p':
        params->provider = arg;
        return 0;
    case 'b':
        params->n_bytes = wring_bench_parse_sizes(&sizes, arg, params->bytes, state);
        return 0;
    case 'c':
        params->n_codecs = wring_bench_parse_list("codec", "specs", arg, params->codecs,
                                                  WRING_BENCH_LIST_MAX, state);
        return 0;
    case 'i':
        if (!wring_value_count(arg, 1, 1000000, &params->iterations))
            argp_error(state, "--iterations needs a number from 1 to 1000000");
        return 0;
    case OPTION_TURNS:
        if (!wring_value_count(arg, 1, WRING_BENCH_TURNS_MAX, &params->turns))
            argp_error(state, "--turns needs a number from 1 to %d", WRING_BENCH_TURNS_MAX);
        return 0;
    case OPTION_OP:
        params->op = parse_word("op", "sum|avg", arg, state);
        return 0;
    case OPTION_SCHEME:
        params->scheme = wring_scheme_find(arg);
        if (params->scheme == WRING_SCHEMES)
            argp_error(state, "--scheme needs one of auto, divisible, indivisible, hierarchical, "
                              "hierarchical-divisible, hierarchical-indivisible and ring");
        return 0;
    case OPTION_BYPASS:
        parse_word("bypass", "auto|never|always", arg, state);
        params->bypass = arg;
        return 0;
    case OPTION_FOREIGN:
        params->foreign = true;
        return 0;
    case ARGP_KEY_END:
        if (params->foreign && params->scheme != WRING_SCHEME_AUTO)
            argp_error(state, "the immediate call chooses its scheme: --foreign or --scheme");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&wring_bench_argp, 0, NULL, 0}, {0}};

static const struct argp allreduce_argp = {
    .options = options,
    .parser = parse_option,
    .children = children,
    .doc =
        "Measure allreduces of float32, and check every result."
        "\v"
        "Every rank writes its input anew before each timed call. The time of a call is that "
        "of its slowest rank. algbw is bytes / median time; busbw is that times 2(n-1)/n. "
        "wire counts the payload that a rank sends in a call. wrong counts elements that differ "
        "from the exact sum (codec none), or between ranks (lossy codecs); then nmse is the "
        "error's share in the power of the exact sum, in the first call. The codec asked for runs; "
        "with --bypass auto a bucket's is left out where that is faster, which the table says.",
};

static void add_result(void *arg, uint32_t ranks, const struct wring_allreduce_result *result)
{
    struct command *command = arg;
    json_array_append_new(command->results,
                          allreduce_json(command->params.provider, ranks, result));
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%-40.40s %10.1f us\033[K", result->codec, result->time_us.median);
}

static int print_results(struct command *command)
{
    json_t *results = command->results, *result;
    double wrong = 0;
    size_t i;

    if (json_array_size(results) == 0)
        return WRING_EXIT_OK; /* not rank 0 */
    json_array_foreach(results, i, result)
    {
        wrong += json_number_value(json_object_get(result, "wrong"));
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
    if (command->params.json) {
        const char *op = command->params.op == WRING_AVG ? "avg" : "sum";
        wring_json_print(stdout, json_pack("{s:s, s:s, s:O}", "op", op, "memory",
                                           command->params.foreign ? "foreign" : "registered",
                                           "results", results));
    } else {
        json_t *first = json_array_get(results, 0);
        printf("allreduce, %.0f ranks, provider %s\n",
               json_number_value(json_object_get(first, "ranks")), command->params.provider);
        allreduce_show(results);
    }
    if (wrong > 0)
        return wring_fail(command->params.name, "%.0f elements are wrong", wrong);
    return WRING_EXIT_OK;
}

/** What can be said to be wrong before any rank starts. */
static bool is_sensible(const struct wring_allreduce_params *params)
{
    char why[256];

    if (!wring_bench_knows_provider(params->name, params->provider))
        return false;
    for (size_t i = 0; i < params->n_codecs; i++) {
        struct wring_codec *codec;
        if (wring_codec_create(params->codecs[i], NULL, NULL, why, sizeof(why), &codec) !=
            WRING_OK) {
            wring_fail(params->name, "%s", why);
            return false;
        }
        wring_codec_destroy(codec);
    }
    return true;
}

/** As one rank of a job, or as the one who starts the ranks. */
static int run_ranks(struct command *command, int argc, char **argv)
{
    struct wring_allreduce_params *params = &command->params;
    static const char *const words[] = {"bench", "allreduce", NULL};
    struct wring_config config;
    struct wring_launched launched;
    struct wring_log log = {.level = WRING_LOG_WARN};

    if (!is_sensible(params))
        return WRING_EXIT_USAGE;
    if (wring_config_load(&config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    if (wring_command_launched(&config, &launched) != WRING_EXIT_OK)
        return WRING_EXIT_FAILURE;
    if (launched.name == NULL)
        return wring_start_ranks(params->name, words, params->ranks > 0 ? params->ranks : 2, argc,
                                 argv);
    if (params->provider == NULL)
        params->provider = config.provider;
    int code = wring_allreduce_rank(params, add_result, command);
    return code == WRING_EXIT_OK ? print_results(command) : code;
}

int wring_bench_allreduce(int argc, char **argv)
{
    char usual[] = "4k,64k,1m,16m", none[] = "none";
    struct command command = {
        .params = {.name = argv[0], .bypass = "never", .seconds = 1, .turns = 1, .n_codecs = 1},
        .options = {&command.params.seconds, &command.params.json}};
    char **given = wring_arguments_copy(argc, argv);
    int code;

    command.params.n_bytes = wring_bench_parse_sizes(&sizes, usual, command.params.bytes, NULL);
    command.params.codecs[0] = none;
    argp_parse(&allreduce_argp, argc, argv, 0, NULL, &command);
    command.results = json_array();
    if (given == NULL || command.results == NULL)
        code = wring_fail(argv[0], "out of memory");
    else
        code = run_ranks(&command, argc, given);
    json_decref(command.results);
    wring_arguments_free(argc, given);
    return code;
}
