/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#define MODEL_BYTES 96

/** The value of a line "model name\t: Xeon"; false for other lines. Cut to fit, in ASCII. */
static bool parse_model(const char *line, char *model, size_t bytes)
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
        found = parse_model(line, model, bytes);
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

/* ---- and back ---- */

struct machine {
    char version[64], model[MODEL_BYTES];
    uint32_t cores;
};

/** Where the last ", " of text[n] begins; n where there is none. */
static size_t last_comma(const char *text, size_t n)
{
    for (size_t at = n; at-- > 0;)
        if (at + 1 < n && text[at] == ',' && text[at + 1] == ' ')
            return at;
    return n;
}

/** The model may have commas of its own, so that what follows it is looked for from the end. */
static bool parse_machine(const char *text, struct machine *out)
{
    static const char begin[] = "wring ";
    size_t ranks = last_comma(text, strlen(text)), cores = last_comma(text, ranks);
    int used = 0;
    const char *version = text + sizeof(begin) - 1, *model = strstr(text, ", ");

    if (strncmp(text, begin, sizeof(begin) - 1) != 0 || model == NULL || model >= text + cores ||
        (size_t)(model - version) >= sizeof(out->version) ||
        (size_t)(text + cores - model - 2) >= sizeof(out->model))
        return false;
    snprintf(out->version, sizeof(out->version), "%.*s", (int)(model - version), version);
    snprintf(out->model, sizeof(out->model), "%.*s", (int)(text + cores - model - 2), model + 2);
    return sscanf(text + cores, ", %u cores,%n", &out->cores, &used) == 1 &&
           cores + (size_t)used == ranks + 1;
}

/** One difference more. */
static void add_difference(char *why, size_t bytes, const char *what, const char *there,
                           const char *here)
{
    size_t used = strlen(why);

    if (strcmp(there, here) != 0)
        snprintf(why + used, bytes - used, "%s%s %s and not %s", used > 0 ? ", " : "", what, there,
                 here);
}

bool wring_machine_differs(const char *machine, const struct wring_machine_params *here, char *why,
                           size_t bytes)
{
    struct machine there;
    char model[MODEL_BYTES], cores[2][16];

    why[0] = '\0';
    if (machine[0] == '\0')
        return false;
    find_model(model, sizeof(model));
    if (!parse_machine(machine, &there)) {
        snprintf(why, bytes, "\"%s\", and this is wring %s on %s with %u cores", machine,
                 here->version, model, here->cores);
        return true;
    }
    snprintf(cores[0], sizeof(cores[0]), "%u", there.cores);
    snprintf(cores[1], sizeof(cores[1]), "%u", here->cores);
    add_difference(why, bytes, "wring", there.version, here->version);
    add_difference(why, bytes, "processor", there.model, model);
    add_difference(why, bytes, "cores", cores[0], cores[1]);
    return why[0] != '\0';
}
