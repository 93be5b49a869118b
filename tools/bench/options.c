/* SPDX-License-Identifier: Apache-2.0 */
/* What the measurements' command lines have in common: options, lists, and ranks that run them. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/bench.h"
#include "tools/commands.h"
#include "tools/launch/launch.h"
#include "tools/values.h"
#include <wring/provider.h>

/* ---- start ---- */

int wring_start_ranks(const char *name, const char *const *words, uint32_t ranks, int argc,
                      char **argv)
{
    char **line = calloc((size_t)argc + 4, sizeof(*line));
    char program[] = "/proc/self/exe";
    int n = 0;

    if (line == NULL)
        return wring_fail(name, "out of memory");
    line[n++] = program;
    for (int i = 0; i < 2 && words[i] != NULL; i++)
        line[n++] = (char *)(uintptr_t)words[i];
    for (int i = 1; i < argc; i++)
        line[n++] = argv[i];
    struct wring_launch_params launch = {
        .name = name,
        .ranks = ranks,
        .grace_ns = WRING_LAUNCH_GRACE_NS,
        .argv = line,
    };
    int code = wring_launch(&launch);
    free(line);
    return code;
}

char **wring_arguments_copy(int argc, char **argv)
{
    char **copy = calloc((size_t)argc + 1, sizeof(*copy));

    for (int i = 0; i < argc && copy != NULL; i++)
        copy[i] = strdup(argv[i]);
    return copy;
}

void wring_arguments_free(int argc, char **argv)
{
    for (int i = 0; i < argc && argv != NULL; i++)
        free(argv[i]);
    free(argv);
}

/* ---- options ---- */

#define SECONDS_MAX 3600

enum {
    OPTION_JSON = 0x200, /* commands begin at 0x100 */
    OPTION_SECONDS
};

static const struct argp_option options[] = {
    {"seconds", OPTION_SECONDS, "S", 0, "time spent on each, about (default 1)", 0},
    {"json", OPTION_JSON, NULL, 0, "print one JSON object", 0},
    {0},
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    const struct wring_bench_options *out = state->input;

    switch (key) {
    case OPTION_SECONDS:
        if (!wring_value_real(arg, 0, SECONDS_MAX, out->seconds))
            argp_error(state, "--seconds needs a number from 0 to %d", SECONDS_MAX);
        return 0;
    case OPTION_JSON:
        *out->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

const struct argp wring_bench_argp = {.options = options, .parser = parse_option};

size_t wring_bench_parse_list(const char *option, const char *what, char *arg, char **items,
                              size_t max, const struct argp_state *state)
{
    char name[32];
    snprintf(name, sizeof(name), "--%s", option);
    size_t n = wring_value_option_list(name, arg, items, max, state);

    if (n == 0 || n > max)
        argp_error(state, "--%s needs 1 to %zu %s", option, max, what);
    return n;
}

size_t wring_bench_parse_sizes(const struct wring_bench_sizes *allowed, char *arg, uint64_t *sizes,
                               const struct argp_state *state)
{
    char *items[WRING_BENCH_LIST_MAX];
    size_t n = wring_bench_parse_list("bytes", "sizes", arg, items, WRING_BENCH_LIST_MAX, state);

    for (size_t i = 0; i < n; i++)
        if (!wring_value_bytes(items[i], &sizes[i]) || sizes[i] < allowed->min ||
            sizes[i] > allowed->max || sizes[i] % allowed->multiple_of != 0)
            argp_error(state, "--bytes: %s is not %s", items[i], allowed->what);
    return n;
}

bool wring_bench_knows_provider(const char *command, const char *provider)
{
    if (provider == NULL || strcmp(provider, "auto") == 0 || wring_provider_find(provider) != NULL)
        return true;
    wring_fail(command, "no provider '%s'; wring info --providers lists them", provider);
    return false;
}
