/* SPDX-License-Identifier: Apache-2.0 */
/** wring info: what this build and this machine can do, and how wring is set. */
#include "tools/info/info.h"

#include <argp.h>
#include <stdlib.h>

#include "tools/calibrate/profile_show.h"
#include "tools/commands.h"
#include "tools/output.h"

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

enum {
    OPTION_PROFILE = 0x100,
    OPTION_SVG,
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
    {0},
};

struct info {
    bool json;
    unsigned parts;
    const char *profile, *svg;
};

static error_t parse(int key, char *arg, struct argp_state *state)
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
    case ARGP_KEY_END:
        if (info->svg != NULL && info->profile == NULL)
            argp_error(state, "--svg draws a profile: --profile is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp info_argp = {
    .options = options,
    .parser = parse,
    .doc = "Show what this build and this machine can do, and how wring is set.",
};

/** @return a new reference; NULL where a part could not be gathered */
static json_t *gather(const struct wring_config *config, unsigned parts)
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
        failed |= json_object_set_new(all, "providers", wring_info_providers());
    if (parts & PART_CODECS) {
        failed |= json_object_set_new(all, "kernels", wring_info_kernels(config));
        failed |= json_object_set_new(all, "codecs", wring_info_codecs(config));
    }
    if (parts & (PART_TOPOLOGY | PART_CODECS))
        failed |= json_object_set_new(all, "executor", wring_info_executor(config));
    if (parts & PART_CONFIG)
        failed |= json_object_set_new(all, "config", wring_info_config(config));
    if (failed == 0)
        return all;
    json_decref(all);
    return NULL;
}

static void show(FILE *file, json_t *all)
{
    static const struct {
        const char *key;
        void (*show)(FILE *file, json_t *part);
    } parts[] = {
        {"topology", wring_info_show_topology},   {"launcher", wring_info_show_launcher},
        {"network", wring_info_show_network},     {"rdma", wring_info_show_rdma},
        {"executor", wring_info_show_executor},   {"kernels", wring_info_show_kernels},
        {"providers", wring_info_show_providers}, {"codecs", wring_info_show_codecs},
        {"config", wring_info_show_config},
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
    json_t *all = gather(&config, info.parts != 0 ? info.parts : PART_ALL);
    if (all == NULL)
        return wring_fail(argv[0], "this machine cannot be described: out of memory, or hwloc "
                                   "does not understand it");
    if (info.json)
        return wring_json_print(stdout, all) == WRING_OK ? WRING_EXIT_OK : wring_output_failed();
    show(stdout, all);
    json_decref(all);
    return WRING_EXIT_OK;
}
