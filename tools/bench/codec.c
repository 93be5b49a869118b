/* SPDX-License-Identifier: Apache-2.0 */
/** wring bench codec: the command line, the cores, and what is printed. */
#include "tools/bench/codec.h"

#include <argp.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/cpu.h"
#include "compress/codec.h"
#include "offload/cores.h"
#include "tools/bench/bench.h"
#include "tools/bench/twin.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/values.h"

static const char *name_stores(bool stream)
{
    return stream ? "streaming" : "plain";
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/** What is printed of a codec. */
struct row {
    const char *spec; /* as it was asked for */
    const char *tier;
    uint32_t phase;
    uint64_t elems, bytes; /* of the numbers */
    double nmse_sum;       /* NAN: nothing was summed */
};

/** One of the results; a new reference, NULL without memory. */
static json_t *codec_speed_json(const struct row *row, const struct wring_codec_speed *speed)
{
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:o, s:o, s:s, "
        "s:s, s:i}",
        "codec", row->spec, "way", row->phase == 0 ? "in" : "back", "tier", row->tier, "elements",
        (json_int_t)row->elems, "encode_gb_per_s", speed->encode, "decode_gb_per_s", speed->decode,
        "decode_add_gb_per_s", speed->decode_add, "encode_limit_gb_per_s", speed->encode_limit,
        "decode_add_limit_gb_per_s", speed->decode_add_limit, "memcpy_gb_per_s", speed->copy,
        "encoded_bytes", (json_int_t)speed->encoded_bytes, "round_bytes",
        (json_int_t)speed->round_bytes, "ratio",
        (double)(speed->encoded_bytes + speed->round_bytes) / (double)row->bytes, "nmse",
        number_or_null(speed->nmse), "nmse_sum", number_or_null(row->nmse_sum),
        "encode_limit_stores", name_stores(speed->encode_streams), "decode_add_limit_stores",
        name_stores(speed->decode_add_streams), "rounds", (int)speed->turns);
}

static double get_number(json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static void add_error(struct wring_table *table, json_t *result, const char *key)
{
    if (json_is_number(json_object_get(result, key)))
        wring_table_cell(table, "%.3g", get_number(result, key));
    else
        wring_table_cell(table, "-");
}

static void add_share(struct wring_table *table, double speed, double limit)
{
    wring_table_cell(table, "%.0f%%", limit > 0 ? 100 * speed / limit : 0);
}

/** "in>out" is measured both ways. */
static bool has_two_ways(const char *spec)
{
    return strchr(spec, '>') != NULL;
}

static void add_codec(struct wring_table *table, json_t *result)
{
    const char *spec = json_string_value(json_object_get(result, "codec"));
    const char *way = json_string_value(json_object_get(result, "way"));

    if (has_two_ways(spec))
        wring_table_cell(table, "%s, %s", spec, way);
    else
        wring_table_cell(table, "%s", spec);
}

/** All of them as a table. */
static void codec_speed_show(FILE *file, json_t *results)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},     {"kernels", WRING_ALIGN_LEFT},
        {"encode", WRING_ALIGN_RIGHT},   {"of limit", WRING_ALIGN_RIGHT},
        {"decode", WRING_ALIGN_RIGHT},   {"add", WRING_ALIGN_RIGHT},
        {"of limit", WRING_ALIGN_RIGHT}, {"memcpy", WRING_ALIGN_RIGHT},
        {"ratio", WRING_ALIGN_RIGHT},    {"nmse", WRING_ALIGN_RIGHT},
        {"nmse_sum", WRING_ALIGN_RIGHT},
    };
    struct wring_table *table = wring_table_create(columns, 11);
    json_t *result;
    size_t i;

    json_array_foreach(results, i, result)
    {
        double encode = get_number(result, "encode_gb_per_s");
        double add = get_number(result, "decode_add_gb_per_s");
        add_codec(table, result);
        wring_table_cell(table, "%s", json_string_value(json_object_get(result, "tier")));
        wring_table_cell(table, "%.2f", encode);
        add_share(table, encode, get_number(result, "encode_limit_gb_per_s"));
        wring_table_cell(table, "%.2f", get_number(result, "decode_gb_per_s"));
        wring_table_cell(table, "%.2f", add);
        add_share(table, add, get_number(result, "decode_add_limit_gb_per_s"));
        wring_table_cell(table, "%.2f", get_number(result, "memcpy_gb_per_s"));
        wring_table_cell(table, "%.4f", get_number(result, "ratio"));
        add_error(table, result, "nmse");
        add_error(table, result, "nmse_sum");
    }
    wring_table_finish(table, file);
}

/* ---- codec ---- */

#define ELEMS_MAX (1ull << 34) /* twins count their lines in 32 bits */
#define RANKS_USUAL 4

static const struct argp_option options[] = {
    {"codec", 'c', "LIST", 0, "codec specs, such as none,int8+ef (default none,bf16,int8)", 0},
    {"elements", 'e', "N", 0, "numbers per call and thread, such as 64k (default 4m)", 0},
    {"type", 'y', "TYPE", 0, "of the numbers: f32 (default), f16 or bf16", 0},
    {"data", 'd', "WHAT", 0,
     "numbers to code: bell (default), normal, laplace, recorded (gradients that come with wring), "
     "or a FILE of gradients that wring demo --record-gradients wrote",
     0},
    {"ranks", 'n', "N", 0,
     "ranks whose sum has the error nmse_sum, at most those that were recorded (default 4); 1: "
     "nothing is summed",
     0},
    {"threads", 't', "T", 0, "threads, each on a core of its own (default 1)", 0},
    {"tier", 'k', "TIER", 0, "highest kernels: scalar|avx2|avx512|vbmi2|neon (default: WRING_CPU)",
     0},
    {0},
};

struct command {
    struct wring_codec_bench bench;
    char *specs[WRING_BENCH_LIST_MAX];
    size_t n_specs;
    const char *tier; /* NULL: as configured */
    const char *data_name;
    struct wring_bench_data data;
    struct wring_codec_sums sums;
    bool json;
    struct wring_bench_options options;
    unsigned cores[WRING_BENCH_THREADS_MAX];
    json_t *results;
};

static void parse_specs(struct command *command, char *arg, struct argp_state *state)
{
    command->n_specs =
        wring_bench_parse_list("codec", "specs", arg, command->specs, WRING_BENCH_LIST_MAX, state);
}

static void parse_type(struct command *command, const char *arg, struct argp_state *state)
{
    static const enum wring_dtype coded[] = {WRING_F32, WRING_F16, WRING_BF16};
    size_t i = 0, n = sizeof(coded) / sizeof(coded[0]);

    while (i < n && strcmp(arg, wring_dtype_name(coded[i])) != 0)
        i++;
    if (i == n)
        argp_error(state, "--type needs one of f32|f16|bf16");
    else
        command->bench.dtype = coded[i];
}

static void parse_tier(struct command *command, const char *arg, struct argp_state *state)
{
    enum wring_cpu_tier tier;

    if (!wring_cpu_tier_parse(arg, &tier))
        argp_error(state, "--tier needs one of scalar|avx2|avx512|vbmi2|neon");
    command->tier = arg;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct command *command = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &command->options;
        return 0;
    case 'c':
        parse_specs(command, arg, state);
        return 0;
    case 'e':
        if (!wring_value_bytes(arg, &command->bench.elems) || command->bench.elems == 0 ||
            command->bench.elems > ELEMS_MAX)
            argp_error(state, "--elements needs a number from 1 to 16g, such as 64k");
        return 0;
    case 'y':
        parse_type(command, arg, state);
        return 0;
    case 't':
        if (!wring_value_count(arg, 1, WRING_BENCH_THREADS_MAX, &command->bench.threads))
            argp_error(state, "--threads needs a number from 1 to %d", WRING_BENCH_THREADS_MAX);
        return 0;
    case 'd':
        command->data_name = arg;
        return 0;
    case 'n':
        if (!wring_value_count(arg, 1, WRING_CODEC_SUM_RANKS_MAX, &command->bench.ranks))
            argp_error(state, "--ranks needs a number from 1 to %d", WRING_CODEC_SUM_RANKS_MAX);
        return 0;
    case 'k':
        parse_tier(command, arg, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&wring_bench_argp, 0, NULL, 0}, {0}};

static const struct argp codec_argp = {
    .options = options,
    .parser = parse_option,
    .children = children,
    .doc = "Measure codecs on cores of this machine, next to what their memory traffic costs."
           "\v"
           "Speeds count the bytes of a call's numbers, in 1e9 bytes per second, all threads "
           "together; each is the median of turns, in each of which all calls run once. A limit is "
           "the "
           "speed of a twin that reads and writes as many bytes in the same buffers and computes "
           "nothing, with plain or streaming stores, whichever is faster: an encoder's twin reads "
           "the input and writes the code (with +ef the residual is read and written, too); one "
           "of decode-and-add reads the code, and reads and writes those lines of the destination "
           "that the code has anything for. 'of limit' is the speed's share of that. ratio is "
           "bytes of the code and of a codec's rounds / input bytes; a codec for each way, as "
           "onebit+ef>int8, has a line for each: on the way back it codes the same numbers as if "
           "they were sums. With --type f16 or bf16 a call widens the numbers to float32 and "
           "rounds what it decodes to them, as a bucket of that type does; 'add' adds a code to "
           "numbers and rounds the sums. nmse is the error's share in "
           "the input's power, in the "
           "first call; nmse_sum that of a sum of --ranks in the power of the exact sum, as their "
           "first step gives it, of up to 1m numbers of each. WRING_SCHEME is the scheme of sums.",
};

/** A codec with its kernels, or NULL after saying why not. */
static struct wring_codec *create_codec(const struct command *command, const char *spec)
{
    struct wring_codec *codec;
    char why[256];

    if (wring_codec_create(spec, command->tier, NULL, why, sizeof(why), &codec) != WRING_OK) {
        wring_fail(command->bench.name, "%s", why);
        return NULL;
    }
    return codec;
}

/** What the results need more memory for than the machine has; said. */
static bool check_memory(const struct command *command, const struct wring_codec *codec)
{
    const struct wring_codec_bench *bench = &command->bench;
    uint64_t needed = 0;
    for (uint32_t phase = 0; phase < 2; phase++) {
        const struct wring_codec_subject subject = {codec, bench->elems, bench->dtype, phase};
        uint64_t bytes = bench->threads * wring_codec_measure_bytes(&subject);
        needed = bytes > needed ? bytes : needed;
    }
    needed += 2 * bench->ranks * wring_codec_sums_elems(bench) * sizeof(float);
    uint64_t machine = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    if (needed < machine)
        return true;
    wring_fail(bench->name,
               "%s needs %" PRIu64 " MiB for its buffers and this machine has %" PRIu64
               "; take fewer --elements or --threads",
               wring_codec_info(codec)->spec, needed >> 20, machine >> 20);
    return false;
}

/** Whether codes of so many ranks can be added, where a codec's are; said. */
static bool check_ranks(const struct command *command, const struct wring_codec *codec)
{
    const struct wring_codec *in = wring_codec_way(codec, 0);
    uint32_t most = in->ops->most_ranks != NULL ? in->ops->most_ranks(in) : UINT32_MAX;

    if (command->bench.ranks <= most)
        return true;
    wring_fail(command->bench.name,
               "%s adds codes of at most %" PRIu32 " ranks; take fewer --ranks",
               wring_codec_info(codec)->spec, most);
    return false;
}

/** Before anything is measured. @return an exit status */
static int check_codecs(const struct command *command)
{
    for (size_t i = 0; i < command->n_specs; i++) {
        struct wring_codec *codec = create_codec(command, command->specs[i]);
        if (codec == NULL)
            return WRING_EXIT_USAGE;
        bool fits = check_memory(command, codec) && check_ranks(command, codec);
        wring_codec_destroy(codec);
        if (!fits)
            return WRING_EXIT_FAILURE;
    }
    return WRING_EXIT_OK;
}

/** The kernels asked for must run here: nothing else is measured in their place. */
static int check_tier(struct command *command, const struct wring_config *config)
{
    enum wring_cpu_tier tier;

    if (command->tier == NULL)
        command->tier = config->cpu;
    if (!wring_cpu_tier_parse(command->tier, &tier) || !wring_cpu_has(tier))
        return wring_fail(command->bench.name,
                          "this processor cannot run %s kernels; wring info --codecs lists those "
                          "it can",
                          command->tier);
    return WRING_EXIT_OK;
}

/** A core for each thread; that of this one last of all. */
static int choose_cores(struct command *command)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    uint32_t threads = command->bench.threads;
    hwloc_topology_t topology;
    char text[16];
    size_t n = 0;

    if (wring_cores_load(&log, &topology) != WRING_OK)
        return wring_fail(command->bench.name, "the machine's cores cannot be listed");
    uint32_t usable = wring_cores_count(topology);
    snprintf(text, sizeof(text), "%" PRIu32, threads);
    enum wring_status status = WRING_ERR_INVALID;
    if (threads <= usable)
        status = wring_cores_choose(topology, text, sched_getcpu(), &log, command->cores,
                                    WRING_BENCH_THREADS_MAX, &n);
    hwloc_topology_destroy(topology);
    if (threads > usable)
        return wring_fail(command->bench.name,
                          "%" PRIu32 " threads need a core each, and this process may use %" PRIu32
                          "; take fewer --threads",
                          threads, usable);
    command->bench.cores = command->cores;
    return status == WRING_OK ? WRING_EXIT_OK : WRING_EXIT_FAILURE; /* logged */
}

static void show_progress(const char *spec, size_t index, size_t n)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%-40.40s %zu of %zu\033[K", spec, index + 1, n);
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r\033[K");
}

static int measure_way(struct command *command, const struct wring_codec *codec, struct row *row)
{
    struct wring_codec_speed speed;
    int code = wring_codec_measure(&command->bench, codec, row->phase, &speed);

    row->tier = wring_codec_info(wring_codec_way(codec, row->phase))->tier;
    if (code == WRING_EXIT_OK)
        json_array_append_new(command->results, codec_speed_json(row, &speed));
    return code;
}

static int measure_one(struct command *command, size_t index)
{
    const struct wring_codec_bench *bench = &command->bench;
    struct row row = {.spec = command->specs[index], .elems = bench->elems};
    struct wring_codec *codec = create_codec(command, row.spec);
    uint32_t ways = has_two_ways(row.spec) ? 2 : 1;

    if (codec == NULL)
        return WRING_EXIT_FAILURE;
    row.bytes = bench->elems * wring_dtype_bytes(bench->dtype);
    show_progress(row.spec, index, command->n_specs);
    int code = wring_codec_sums_measure(&command->sums, row.spec, command->tier, &row.nmse_sum);
    for (; row.phase < ways && code == WRING_EXIT_OK; row.phase++)
        code = measure_way(command, codec, &row);
    wring_codec_destroy(codec);
    return code;
}

static int print_results(const struct command *command)
{
    json_t *cores = json_array();

    const char *type = wring_dtype_name(command->bench.dtype);

    if (!command->json) {
        type = command->bench.dtype == WRING_F32 ? "float32" : type;
        printf("%" PRIu64 " %s per call, data %s, sums of %" PRIu32 ", %" PRIu32
               " thread%s, limits by %s; GB/s of %s\n",
               command->bench.elems, type, command->data.name, command->bench.ranks,
               command->bench.threads, command->bench.threads == 1 ? "" : "s",
               wring_twin_widest()->name, type);
        codec_speed_show(stdout, command->results);
        json_decref(cores);
        return WRING_EXIT_OK;
    }
    for (uint32_t i = 0; i < command->bench.threads; i++)
        json_array_append_new(cores, json_integer(command->cores[i]));
    json_t *all = json_pack("{s:s, s:s, s:i, s:i, s:o, s:s, s:O}", "type", type, "data",
                            command->data.name, "ranks", (int)command->bench.ranks, "threads",
                            (int)command->bench.threads, "cores", cores, "limit_tier",
                            wring_twin_widest()->name, "results", command->results);
    return wring_json_print(stdout, all) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
}

/** As many ranks as were asked for, or as usual, of which there is data. */
static int choose_ranks(struct command *command)
{
    uint32_t most = wring_bench_data_ranks(&command->data), *ranks = &command->bench.ranks;

    if (*ranks == 0)
        *ranks = most < RANKS_USUAL ? most : RANKS_USUAL;
    if (*ranks <= most)
        return WRING_EXIT_OK;
    return wring_fail(command->bench.name,
                      "%s has gradients of %" PRIu32 " rank%s; take at most as many --ranks",
                      command->data.name, most, most == 1 ? "" : "s");
}

static int measure_codecs(struct command *command)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_config config;

    if (wring_config_load(&config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    int code = check_tier(command, &config);
    if (code == WRING_EXIT_OK)
        code = wring_bench_data_open(&command->data, command->data_name);
    if (code == WRING_EXIT_OK)
        code = choose_ranks(command);
    if (code == WRING_EXIT_OK)
        code = check_codecs(command);
    if (code == WRING_EXIT_OK)
        code = choose_cores(command);
    if (code == WRING_EXIT_OK)
        code = wring_codec_sums_init(&command->sums, &command->bench);
    for (size_t i = 0; i < command->n_specs && code == WRING_EXIT_OK; i++)
        code = measure_one(command, i);
    clear_progress();
    return code == WRING_EXIT_OK ? print_results(command) : code;
}

int wring_bench_codec(int argc, char **argv)
{
    char usual[] = "none,bf16,int8";
    struct command command = {
        .bench = {.name = argv[0], .elems = 4u << 20, .threads = 1, .seconds = 1},
        .data_name = "bell",
        .options = {&command.bench.seconds, &command.json}};

    command.bench.data = &command.data;
    parse_specs(&command, usual, NULL);
    argp_parse(&codec_argp, argc, argv, 0, NULL, &command);
    command.results = json_array();
    if (command.results == NULL)
        return wring_fail(argv[0], "out of memory");
    int code = measure_codecs(&command);
    wring_codec_sums_finish(&command.sums);
    wring_bench_data_close(&command.data);
    json_decref(command.results);
    return code;
}
