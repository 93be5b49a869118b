/* SPDX-License-Identifier: Apache-2.0 */
/** wring info: what this build and this machine can do, and how wring is set. */
#include "tools/info/info.h"

#include <argp.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "runtime/scale.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands.h"
#include "tools/output.h"
#include "tools/values.h"
#include <wring/codec.h>
#include <wring/provider.h>

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static long long number_of(json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

static bool is_true(json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static void info_show_providers(FILE *file, json_t *providers)
{
    static const struct wring_table_column columns[] = {
        {"provider", WRING_ALIGN_LEFT},
        {"usable", WRING_ALIGN_LEFT},
        {"what it is, or what it lacks", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 3);
    json_t *provider;
    size_t i;

    fprintf(file, "Providers, best first (WRING_PROVIDER):\n");
    json_array_foreach(providers, i, provider)
    {
        bool available = is_true(provider, "available");
        wring_table_cell(table, "%s", text_of(provider, "name"));
        wring_table_cell(table, "%s", available ? "yes" : "no");
        wring_table_cell(table, "%s", text_of(provider, available ? "doc" : "reason"));
    }
    wring_table_finish(table, file);
    fputc('\n', file);
}

static void show_param(FILE *file, json_t *param)
{
    json_t *usual = json_object_get(param, "default");

    if (json_is_string(usual))
        fprintf(file, "; %s=%s out of %s", text_of(param, "name"), json_string_value(usual),
                text_of(param, "words"));
    else
        fprintf(file, "; %s=%g", text_of(param, "name"), json_number_value(usual));
}

/** What it does, and its parameters with their defaults. */
static void add_description(struct wring_table *table, json_t *codec)
{
    char text[320] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");
    json_t *param;
    size_t i;

    if (file != NULL) {
        fprintf(file, "%s", text_of(codec, "doc"));
        json_array_foreach(json_object_get(codec, "params"), i, param) show_param(file, param);
        fclose(file);
    }
    wring_table_cell(table, "%s", text);
}

static void info_show_codecs(FILE *file, json_t *codecs)
{
    static const struct wring_table_column columns[] = {
        {"codec", WRING_ALIGN_LEFT},      {"kernels", WRING_ALIGN_LEFT},
        {"sums codes", WRING_ALIGN_LEFT}, {"unbiased", WRING_ALIGN_LEFT},
        {"exact", WRING_ALIGN_LEFT},      {"what it keeps; parameters", WRING_ALIGN_LEFT},
    };
    struct wring_table *table = wring_table_create(columns, sizeof(columns) / sizeof(columns[0]));
    json_t *codec;
    size_t i;

    fprintf(file, "Codecs (name:parameter=value, and +ef for error feedback):\n");
    json_array_foreach(codecs, i, codec)
    {
        wring_table_cell(table, "%s", text_of(codec, "name"));
        wring_table_cell(table, "%s", text_of(codec, "tier"));
        wring_table_cell(table, "%s", is_true(codec, "summable") ? "yes" : "no");
        wring_table_cell(table, "%s", is_true(codec, "unbiased") ? "yes" : "no");
        wring_table_cell(table, "%s", is_true(codec, "exact") ? "yes" : "no");
        add_description(table, codec);
    }
    wring_table_finish(table, file);
    fputc('\n', file);
}

static void show_cores(FILE *file, json_t *cores)
{
    static const struct wring_table_column columns[] = {
        {"core", WRING_ALIGN_RIGHT}, {"NUMA node", WRING_ALIGN_RIGHT}, {"why", WRING_ALIGN_LEFT}};
    struct wring_table *table = wring_table_create(columns, 3);
    json_t *core;
    size_t i;

    json_array_foreach(cores, i, core)
    {
        wring_table_cell(table, "%lld", number_of(core, "core"));
        if (json_is_integer(json_object_get(core, "numa")))
            wring_table_cell(table, "%lld", number_of(core, "numa"));
        else
            wring_table_cell(table, "any");
        wring_table_cell(table, "%s", text_of(core, "why"));
    }
    wring_table_finish(table, file);
}

static void info_show_executor(FILE *file, json_t *executor)
{
    const char *asked = text_of(executor, "asked"), *reason = text_of(executor, "reason");

    fprintf(file, "Cores: this process may use %lld, and runs on core %lld\n",
            number_of(executor, "usable_cores"), number_of(executor, "application_core"));
    if (reason[0] != '\0')
        fprintf(file, "  WRING_EXECUTOR=%s: codecs cannot run: %s\n", asked, reason);
    else if (is_true(executor, "pool"))
        fprintf(file, "  WRING_EXECUTOR=%s: codecs run on a pool of threads pinned to\n", asked);
    else
        fprintf(file, "  WRING_EXECUTOR=inline: codecs run on the thread that makes progress, "
                      "which is not pinned;\n  a pool of one thread would be pinned to\n");
    if (reason[0] == '\0')
        show_cores(file, json_object_get(executor, "cores"));
    fputc('\n', file);
}

static void info_show_kernels(FILE *file, json_t *kernels)
{
    const char *asked = text_of(kernels, "asked"), *best = text_of(kernels, "best");
    const char *chosen = text_of(kernels, "chosen");

    if (chosen[0] == '\0')
        fprintf(file, "Kernels: WRING_CPU=%s, which this processor cannot run; it can run", asked);
    else if (strcmp(asked, "best") == 0)
        fprintf(file, "Kernels: %s, the best of", chosen);
    else
        fprintf(file, "Kernels: %s, because WRING_CPU says so; the best here is %s of", chosen,
                best);
    json_t *tier;
    size_t i;
    json_array_foreach(json_object_get(kernels, "runnable"), i, tier)
        fprintf(file, " %s", json_string_value(tier));
    fprintf(file, "\n\n");
}

static void show_nics(FILE *file, json_t *nics)
{
    static const struct wring_table_column columns[] = {{"nic", WRING_ALIGN_LEFT},
                                                        {"kind", WRING_ALIGN_LEFT},
                                                        {"Gbit/s", WRING_ALIGN_RIGHT},
                                                        {"NUMA node", WRING_ALIGN_RIGHT}};
    struct wring_table *table = wring_table_create(columns, 4);
    json_t *nic;
    size_t i;

    json_array_foreach(nics, i, nic)
    {
        json_t *gbit = json_object_get(nic, "gbit"), *numa = json_object_get(nic, "numa");
        wring_table_cell(table, "%s", text_of(nic, "name"));
        wring_table_cell(table, "%s", text_of(nic, "kind"));
        if (json_is_number(gbit))
            wring_table_cell(table, "%g", json_number_value(gbit));
        else
            wring_table_cell(table, "unknown");
        if (json_is_integer(numa))
            wring_table_cell(table, "%lld", (long long)json_integer_value(numa));
        else
            wring_table_cell(table, "any");
    }
    wring_table_finish(table, file);
}

static void info_show_topology(FILE *file, json_t *topology)
{
    json_t *gpus = json_object_get(topology, "gpus"), *gpu;
    size_t i;

    fprintf(file, "Machine: %s\n", text_of(topology, "cpu"));
    fprintf(file, "  %lld package(s), %lld NUMA node(s), %lld core(s), %lld thread(s)\n",
            number_of(topology, "packages"), number_of(topology, "numa"),
            number_of(topology, "cores"), number_of(topology, "threads"));
    if (json_array_size(json_object_get(topology, "nics")) > 0)
        show_nics(file, json_object_get(topology, "nics"));
    json_array_foreach(gpus, i, gpu)
        fprintf(file, "  GPU %s at %s\n", text_of(gpu, "name"), text_of(gpu, "pci"));
    fputc('\n', file);
}

static void info_show_launcher(FILE *file, json_t *launcher)
{
    const char *name = text_of(launcher, "name"), *exchange = text_of(launcher, "exchange");

    if (!is_true(launcher, "usable")) {
        fprintf(file, "Launcher: cannot be used: %s\n\n", text_of(launcher, "reason"));
        return;
    }
    if (name[0] == '\0') {
        fprintf(file, "Launcher: none; a session is a job of one rank\n\n");
        return;
    }
    fprintf(file, "Launcher: %s: rank %lld of %lld", name, number_of(launcher, "rank"),
            number_of(launcher, "size"));
    if (json_is_integer(json_object_get(launcher, "local_rank")))
        fprintf(file, ", on this host rank %lld", number_of(launcher, "local_rank"));
    if (json_is_integer(json_object_get(launcher, "local_size")))
        fprintf(file, " of %lld", number_of(launcher, "local_size"));
    fprintf(file, "\n  address of rank 0: %s\n  key: %s%s%s\n\n",
            text_of(launcher, "root")[0] != '\0' ? text_of(launcher, "root") : "not needed",
            text_of(launcher, "key"),
            strcmp(text_of(launcher, "key"), "launcher") == 0 ? ", by " : "",
            strcmp(text_of(launcher, "key"), "launcher") == 0 ? exchange : "");
}

static void info_show_config(FILE *file, json_t *config)
{
    static const struct wring_table_column columns[] = {
        {"variable", WRING_ALIGN_LEFT},
        {"default", WRING_ALIGN_LEFT},
        {"now", WRING_ALIGN_LEFT},
        {"meaning", WRING_ALIGN_LEFT},
    };
    struct wring_table *table = wring_table_create(columns, 4);
    json_t *var;
    size_t i;

    fprintf(file, "Settings (environment; bytes take k m g, seconds take us ms s):\n");
    json_array_foreach(config, i, var)
    {
        wring_table_cell(table, "%s", text_of(var, "name"));
        wring_table_cell(table, "%s", text_of(var, "default"));
        wring_table_cell(table, "%s", is_true(var, "changed") ? text_of(var, "value") : "");
        wring_table_cell(table, "%s", text_of(var, "doc"));
    }
    wring_table_finish(table, file);
    fputc('\n', file);
}

/* ---- info ---- */

enum part {
    PART_TOPOLOGY = 1 << 0,
    PART_PROVIDERS = 1 << 1,
    PART_CODECS = 1 << 2,
    PART_CONFIG = 1 << 3,
    PART_RDMA = 1 << 4,
    PART_LAUNCHER = 1 << 5,
    PART_NETWORK = 1 << 6,
    PART_ALL = (1 << 7) - 1,
};

#define SCALE_MAX 1000000u

enum {
    OPTION_PROFILE = 0x100,
    OPTION_SVG,
    OPTION_SCALE,
    OPTION_PROVIDER,
    OPTION_BYTES,
};

static const struct argp_option options[] = {
    {"json", 'j', NULL, 0, "print one JSON object", 0},
    {"topology", 't', NULL, 0, "only the machine, and the cores chosen", 1},
    {"providers", 'p', NULL, 0, "only the transport providers", 1},
    {"rdma", 'r', NULL, 0, "only the RDMA ports, and which of them would be used", 1},
    {"launcher", 'l', NULL, 0, "only who started this process, and as which rank", 1},
    {"network", 'n', NULL, 0, "only where a rank would listen, and which rule says so", 1},
    {"codecs", 'c', NULL, 0, "only the codecs and their kernels", 1},
    {"config", 'C', NULL, 0, "only the WRING_ variables", 1},
    {"profile", OPTION_PROFILE, "P", 0,
     "a wring-profile file, or the name of one that is built in, instead", 2},
    {"svg", OPTION_SVG, "FILE", 0, "draw its curves, too", 2},
    {"scale", OPTION_SCALE, "N", 0,
     "what a rank of a job of N ranks would take: memory, descriptors, connections, messages", 3},
    {"provider", OPTION_PROVIDER, "NAME", 0, "of that job (default: WRING_PROVIDER)", 3},
    {"bytes", OPTION_BYTES, "B", 0, "of the sums that it makes (default: 4k)", 3},
    {0},
};

struct info {
    bool json;
    unsigned parts;
    const char *profile, *svg;
    struct wring_scale_job scale; /* ranks: 0, it was not asked for */
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    struct info *info = state->input;

    switch (key) {
    case 'j':
        info->json = true;
        return 0;
    case 't':
        info->parts |= PART_TOPOLOGY;
        return 0;
    case 'p':
        info->parts |= PART_PROVIDERS;
        return 0;
    case 'r':
        info->parts |= PART_RDMA;
        return 0;
    case 'l':
        info->parts |= PART_LAUNCHER;
        return 0;
    case 'n':
        info->parts |= PART_NETWORK;
        return 0;
    case 'c':
        info->parts |= PART_CODECS;
        return 0;
    case 'C':
        info->parts |= PART_CONFIG;
        return 0;
    case OPTION_PROFILE:
        info->profile = arg;
        return 0;
    case OPTION_SVG:
        info->svg = arg;
        return 0;
    case OPTION_SCALE:
        if (!wring_value_count(arg, 2, SCALE_MAX, &info->scale.ranks))
            argp_error(state, "--scale %s: needs a number of ranks, 2 to %u", arg, SCALE_MAX);
        return 0;
    case OPTION_PROVIDER:
        info->scale.provider = arg;
        return 0;
    case OPTION_BYTES:
        if (!wring_value_bytes(arg, &info->scale.bytes) || info->scale.bytes == 0)
            argp_error(state, "--bytes %s: needs bytes, as 4k or 1m", arg);
        return 0;
    case ARGP_KEY_END:
        if (info->scale.ranks == 0 && (info->scale.provider != NULL || info->scale.bytes > 0))
            argp_error(state, "--provider and --bytes say more of a job: --scale is needed");
        if (info->svg != NULL && info->profile == NULL)
            argp_error(state, "--svg draws a profile: --profile is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp info_argp = {
    .options = options,
    .parser = parse_option,
    .doc = "Show what this build and this machine can do, and how wring is set.",
};

/* ---- what this build brings ---- */

static json_t *describe_provider(const struct wring_provider_ops *ops)
{
    char reason[256] = "";
    bool available = ops->probe(reason, sizeof(reason)) == WRING_OK;

    return json_pack("{s:s, s:b, s:s, s:s}", "name", ops->name, "available", available, "reason",
                     available ? "" : reason, "doc", ops->doc);
}

/** Each returns a new reference; NULL without memory, or with the reason logged. */
static json_t *list_providers(void)
{
    json_t *providers = json_array();

    for (const struct wring_provider_ops *const *ops = wring_provider_list(); *ops != NULL; ops++)
        json_array_append_new(providers, describe_provider(*ops));
    return providers;
}

/** A word for a choice, else a number. */
static json_t *param_value(const struct wring_codec_param *param, double value)
{
    const char *word = param->words;

    if (word == NULL)
        return json_real(value);
    for (int skip = (int)value; skip > 0 && word != NULL; skip--) {
        word = strchr(word, '|');
        word = word != NULL ? word + 1 : NULL;
    }
    return word != NULL ? json_stringn(word, strcspn(word, "|")) : json_null();
}

static json_t *describe_param(const struct wring_codec_param *param)
{
    json_t *json = json_pack("{s:s, s:o, s:s}", "name", param->name, "default",
                             param_value(param, param->fallback), "doc", param->doc);

    if (json == NULL)
        return NULL;
    if (param->words != NULL) {
        json_object_set_new(json, "words", json_string(param->words));
    } else {
        json_object_set_new(json, "min", json_real(param->min));
        json_object_set_new(json, "max", json_real(param->max));
    }
    return json;
}

static json_t *describe_codec(const struct wring_codec_ops *ops, const char *tier)
{
    struct wring_codec *codec;
    json_t *params = json_array();

    if (wring_codec_create(ops->name, tier, NULL, NULL, 0, &codec) != WRING_OK) {
        json_decref(params);
        return NULL;
    }
    const struct wring_codec_info *info = wring_codec_info(codec);
    for (size_t i = 0; i < ops->n_params; i++)
        json_array_append_new(params, describe_param(&ops->params[i]));
    json_t *json =
        json_pack("{s:s, s:s, s:b, s:b, s:b, s:i, s:I, s:s, s:o}", "name", ops->name, "tier",
                  info->tier, "summable", (info->flags & WRING_CODEC_SUMMABLE) != 0, "unbiased",
                  (info->flags & WRING_CODEC_UNBIASED) != 0, "exact",
                  (info->flags & WRING_CODEC_EXACT) != 0, "rounds", (int)info->rounds, "unit",
                  (json_int_t)info->unit, "doc", ops->doc, "params", params);
    wring_codec_destroy(codec);
    return json;
}

static json_t *list_codecs(const struct wring_config *config)
{
    json_t *codecs = json_array();

    for (const struct wring_codec_ops *const *ops = wring_codec_list(); *ops != NULL; ops++)
        json_array_append_new(codecs, describe_codec(*ops, config->cpu));
    return codecs;
}

static json_t *list_kernels(const struct wring_config *config)
{
    json_t *tiers = json_array();
    enum wring_cpu_tier asked;

    for (int tier = 0; tier < WRING_CPU_TIERS; tier++)
        if (wring_cpu_has((enum wring_cpu_tier)tier))
            json_array_append_new(tiers,
                                  json_string(wring_cpu_tier_name((enum wring_cpu_tier)tier)));
    bool usable = wring_cpu_tier_parse(config->cpu, &asked) && wring_cpu_has(asked);
    return json_pack("{s:s, s:s, s:s?, s:o}", "asked", config->cpu, "best",
                     wring_cpu_tier_name(wring_cpu_best()), "chosen",
                     usable ? wring_cpu_tier_name(asked) : NULL, "runnable", tiers);
}

/** All variables at their defaults. */
static void set_defaults(struct wring_config *config)
{
    size_t n;
    const struct wring_config_var *vars = wring_config_vars(&n);

    memset(config, 0, sizeof(*config));
    for (size_t i = 0; i < n; i++)
        wring_config_set(config, NULL, vars[i].name, vars[i].fallback);
}

static json_t *list_config(const struct wring_config *config)
{
    json_t *list = json_array();
    size_t n;
    const struct wring_config_var *vars = wring_config_vars(&n);
    struct wring_config defaults;

    set_defaults(&defaults);
    for (size_t i = 0; i < n; i++) {
        char value[WRING_CONFIG_ROOT], usual[WRING_CONFIG_ROOT];
        wring_config_show(config, &vars[i], value, sizeof(value));
        wring_config_show(&defaults, &vars[i], usual, sizeof(usual));
        json_array_append_new(list,
                              json_pack("{s:s, s:o, s:s, s:s, s:b, s:s}", "name", vars[i].name,
                                        "value", wring_json_text(value), "default",
                                        vars[i].fallback, "unit", vars[i].unit, "changed",
                                        strcmp(value, usual) != 0, "doc", vars[i].meaning));
    }
    return list;
}

/* ---- what a job of so many ranks would take ---- */

static json_t *describe_rank(uint32_t rank, const struct wring_scale_rank *of)
{
    const struct wring_scale_memory *memory = &of->memory;
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "rank", (json_int_t)rank,
                     "connections", (json_int_t)of->connections, "descriptors",
                     (json_int_t)of->descriptors, "messages", (json_int_t)of->messages,
                     "memory_bytes", (json_int_t)wring_scale_bytes(memory), "table_bytes",
                     (json_int_t)memory->table, "state_bytes", (json_int_t)memory->state,
                     "connection_bytes", (json_int_t)memory->connections, "slot_bytes",
                     (json_int_t)memory->slots, "fixed_bytes", (json_int_t)memory->fixed);
}

static void show_rank(const char *name, const struct wring_scale_rank *of)
{
    const struct wring_scale_memory *memory = &of->memory;
    printf("  %-13s %11" PRIu64 " %11" PRIu64 " %8" PRIu64
           " %10.2f %6.2f %6.2f %11.2f %6.2f %6.2f\n",
           name, of->connections, of->descriptors, of->messages,
           (double)wring_scale_bytes(memory) / (1 << 20), (double)memory->table / (1 << 20),
           (double)memory->state / (1 << 20), (double)memory->connections / (1 << 20),
           (double)memory->slots / (1 << 20), (double)memory->fixed / (1 << 20));
}

static int print_json(const struct wring_scale_job *job, const struct wring_scale *scale)
{
    json_t *all = json_pack(
        "{s:{s:I, s:s, s:I, s:s, s:I, s:o, s:o}}", "scale", "ranks", (json_int_t)job->ranks,
        "provider", scale->provider, "bytes", (json_int_t)job->bytes, "algorithm", scale->algorithm,
        "table_bytes_per_rank", (json_int_t)scale->table_bytes_per_rank, "root",
        describe_rank(0, &scale->root), "most", describe_rank(scale->most_rank, &scale->most));
    return wring_json_print(stdout, all) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
}

/** Print what a job would take. @return exit status */
static int show_scale(const struct wring_config *config, const struct wring_scale_job *job,
                      bool json)
{
    struct wring_log log = {.level = WRING_LOG_WARN};
    struct wring_scale scale;
    char text[32], most[32];

    if (wring_scale_predict(config, &log, job, &scale) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    if (json)
        return print_json(job, &scale);
    printf("a job of %" PRIu32 " ranks over %s that sums %s of float32 (%s)\n", job->ranks,
           scale.provider, wring_value_show_bytes(job->bytes, text, sizeof(text)), scale.algorithm);
    printf("  %-13s %11s %11s %8s %10s %6s %6s %11s %6s %6s\n", "", "connections", "descriptors",
           "messages", "memory MiB", "table", "state", "connections", "slots", "fixed");
    snprintf(most, sizeof(most), "rank %" PRIu32 ", most", scale.most_rank);
    show_rank("rank 0", &scale.root);
    show_rank(most, &scale.most);
    printf("  Memory and descriptors are at most those, beside what the program takes itself. The "
           "addresses of\n  all ranks take each rank %" PRIu64 " bytes a rank.\n",
           scale.table_bytes_per_rank);
    return WRING_EXIT_OK;
}

/* ---- all of it ---- */

/** @return a new reference; NULL where a part could not be gathered */
static json_t *gather_parts(const struct wring_config *config, unsigned parts)
{
    json_t *all = json_object();
    int failed = 0;

    if (parts & PART_TOPOLOGY)
        failed |= json_object_set_new(all, "topology", wring_info_topology());
    if (parts & PART_LAUNCHER)
        failed |= json_object_set_new(all, "launcher", wring_info_launcher(config));
    if (parts & PART_RDMA)
        failed |= json_object_set_new(all, "rdma", wring_info_rdma(config));
    if (parts & PART_NETWORK)
        failed |= json_object_set_new(all, "network", wring_info_network(config));
    if (parts & PART_PROVIDERS)
        failed |= json_object_set_new(all, "providers", list_providers());
    if (parts & PART_CODECS) {
        failed |= json_object_set_new(all, "kernels", list_kernels(config));
        failed |= json_object_set_new(all, "codecs", list_codecs(config));
    }
    if (parts & (PART_TOPOLOGY | PART_CODECS))
        failed |= json_object_set_new(all, "executor", wring_info_executor(config));
    if (parts & PART_CONFIG)
        failed |= json_object_set_new(all, "config", list_config(config));
    if (failed == 0)
        return all;
    json_decref(all);
    return NULL;
}

static void show_parts(FILE *file, json_t *all)
{
    static const struct {
        const char *key;
        void (*show)(FILE *file, json_t *part);
    } parts[] = {
        {"topology", info_show_topology},     {"launcher", info_show_launcher},
        {"network", wring_info_show_network}, {"rdma", wring_info_show_rdma},
        {"executor", info_show_executor},     {"kernels", info_show_kernels},
        {"providers", info_show_providers},   {"codecs", info_show_codecs},
        {"config", info_show_config},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        json_t *part = json_object_get(all, parts[i].key);
        if (part != NULL)
            parts[i].show(file, part);
    }
}

int wring_cmd_info(int argc, char **argv)
{
    struct info info = {0};
    struct wring_config config;
    struct wring_log log = {.level = WRING_LOG_WARN};

    argp_parse(&info_argp, argc, argv, 0, NULL, &info);
    if (info.profile != NULL)
        return wring_profile_info(argv[0], info.profile, info.svg, info.json);
    if (wring_config_load(&config, &log) != WRING_OK)
        return WRING_EXIT_FAILURE; /* the log line said why */
    if (info.scale.ranks > 0) {
        info.scale.bytes = info.scale.bytes > 0 ? info.scale.bytes : 4096;
        if (info.scale.provider == NULL)
            info.scale.provider = config.provider;
        return show_scale(&config, &info.scale, info.json);
    }
    json_t *all = gather_parts(&config, info.parts != 0 ? info.parts : PART_ALL);
    if (all == NULL)
        return wring_fail(argv[0], "this machine cannot be described: out of memory, or hwloc "
                                   "does not understand it");
    if (info.json)
        return wring_json_print(stdout, all) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
    show_parts(stdout, all);
    json_decref(all);
    return WRING_EXIT_OK;
}
