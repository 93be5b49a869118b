/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/commands.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define NAME_MAX_BYTES 32

const struct wring_command *wring_command_find(const struct wring_command *table, const char *name)
{
    for (; table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/** How many letters must be added, dropped or changed to turn a into b (Levenshtein). */
static size_t count_edits(const char *a, const char *b)
{
    size_t row[NAME_MAX_BYTES + 1];
    size_t columns = least(strlen(b), NAME_MAX_BYTES);

    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t above = row[j];
            size_t changed = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = least(changed, least(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[columns];
}

const struct wring_command *wring_command_nearest(const struct wring_command *table,
                                                  const char *name)
{
    const struct wring_command *nearest = NULL;
    size_t fewest = 3; /* more than two slips are another word */

    for (; table->name != NULL; table++) {
        size_t count =
            strstr(table->name, name) == table->name ? 1 : count_edits(name, table->name);
        if (count < fewest) {
            fewest = count;
            nearest = table;
        }
    }
    return nearest;
}

static int complain_unknown(const struct wring_command *table, const char *before, const char *name)
{
    const struct wring_command *nearest = wring_command_nearest(table, name);

    if (nearest != NULL)
        wring_fail(before, "no command '%s'; did you mean '%s'?", name, nearest->name);
    else
        wring_fail(before, "no command '%s'; %s --help lists them", name, before);
    return WRING_EXIT_USAGE;
}

int wring_command_dispatch(const struct wring_command *table, int argc, char **argv)
{
    char full_name[2 * NAME_MAX_BYTES];
    const struct wring_command *command = wring_command_find(table, argv[1]);

    if (command == NULL)
        return complain_unknown(table, argv[0], argv[1]);
    snprintf(full_name, sizeof(full_name), "%s %s", argv[0], command->name);
    argv[1] = full_name;
    return command->run(argc - 1, argv + 1);
}

int wring_fail(const char *command, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    wring_text_clean(text);                     /* names of files and specs may hold anything */
    fprintf(stderr, "%s: %s\n", command, text); /* at once: other ranks write there too */
    return WRING_EXIT_FAILURE;
}

char *wring_command_help(const struct wring_command *table, const char *heading)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);

    if (file == NULL)
        return NULL;
    fprintf(file, "%s\n", heading);
    for (; table->name != NULL; table++)
        fprintf(file, "  %-10s %s\n", table->name, table->doc);
    return fclose(file) == 0 ? text : NULL;
}
