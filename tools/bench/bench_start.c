/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_start.h"

#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/launch/launch.h"

int wring_start_ranks(const char *name, const char *const *words, uint32_t ranks, int argc,
                      char **argv)
{
    char **line = calloc((size_t)argc + 4, sizeof(*line));
    char program[] = "/proc/self/exe";
    int n = 0;

    if (line == NULL)
        return wring_fail(name, "out of memory");
    line[n++] = program;
    for (int i = 0; words[i] != NULL && i < 2; i++)
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
