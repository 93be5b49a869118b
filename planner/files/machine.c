/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define MODEL_BYTES 96

/** The value of a line "model name\t: Xeon"; false for other lines. Cut to fit, in ASCII. */
static bool take_model(const char *line, char *model, size_t bytes)
{
    const char *colon = strchr(line, ':');
    size_t n = 0;

    if (strncmp(line, "model name", 10) != 0 || colon == NULL)
        return false;
    for (const char *at = colon + 1 + strspn(colon + 1, " \t"); *at >= ' ' && n + 1 < bytes; at++)
        model[n++] = *at < 127 ? *at : '?';
    model[n] = '\0';
    return n > 0;
}

/** As the system names it; the instruction set alone where it does not. */
static void find_model(char *model, size_t bytes)
{
    struct utsname system;
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/cpuinfo", "r");

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL)
        found = take_model(line, model, bytes);
    if (file != NULL)
        fclose(file);
    if (!found)
        snprintf(model, bytes, "%.60s", uname(&system) == 0 ? system.machine : "unknown");
}

void wring_machine_describe(const struct wring_machine_params *params, char *text, size_t bytes)
{
    char model[MODEL_BYTES];

    find_model(model, sizeof(model));
    snprintf(text, bytes, "wring %s, %s, %u cores, %u x %u ranks over %s", params->version, model,
             params->cores, params->nodes, params->ranks_per_node, params->provider);
}
