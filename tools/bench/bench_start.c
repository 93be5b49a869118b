/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/bench/bench_start.h"

#include <stdlib.h>
#include <string.h>

#include "tools/commands.h"
#include "tools/launch/launch.h"

int wring_bench_start(const char *name, const char *what, uint32_t ranks, int argc, char **argv)
{
    char **line = calloc((size_t)argc + 3, sizeof(*line));
    char program[] = "/proc/self/exe", bench[] = "bench";

    if (line == NULL)
        return wring_fail(name, "out of memory");
    line[0] = program;
    line[1] = bench;
    line[2] = (char *)(uintptr_t)what;
    for (int i = 1; i < argc; i++)
        line[2 + i] = argv[i];
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
