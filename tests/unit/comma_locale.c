/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/comma_locale.h"

#include <locale.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIELDS 6
#define NUMERIC_MAGIC (0x20031115u ^ LC_NUMERIC) /* of glibc's locale files, per category */

/** glibc's compiled LC_NUMERIC: magic, number of fields, where each begins, the fields. */
struct numeric_file {
    uint32_t magic, fields, offsets[FIELDS];
    uint32_t point_wide, separator_wide;
    char point[4], separator[4], grouping[4], codeset[8];
};

static bool is_comma(void)
{
    return strcmp(localeconv()->decimal_point, ",") == 0;
}

static bool enter_installed(void)
{
    static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "ru_RU.UTF-8", "pt_BR.UTF-8",
                                        "it_IT.UTF-8", "de_DE",       "fr_FR",       "pl_PL.UTF-8"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (setlocale(LC_NUMERIC, names[i]) != NULL && is_comma())
            return true;
    return false;
}

static bool write_numeric(const char *path)
{
    const struct numeric_file file = {
        .magic = NUMERIC_MAGIC,
        .fields = FIELDS,
        .offsets = {offsetof(struct numeric_file, point), offsetof(struct numeric_file, separator),
                    offsetof(struct numeric_file, grouping),
                    offsetof(struct numeric_file, point_wide),
                    offsetof(struct numeric_file, separator_wide),
                    offsetof(struct numeric_file, codeset)},
        .point_wide = ',',
        .separator_wide = '.',
        .point = ",",
        .separator = ".",
        .grouping = "\3\3",
        .codeset = "UTF-8",
    };
    FILE *out = fopen(path, "wbe");
    if (out == NULL)
        return false;
    bool written = fwrite(&file, sizeof(file), 1, out) == 1;
    return fclose(out) == 0 && written;
}

bool comma_locale_enter(void)
{
    char folder[] = "/tmp/wring-locale-XXXXXX", inner[64], path[96];
    if (enter_installed())
        return true;
    if (mkdtemp(folder) == NULL)
        return false;
    snprintf(inner, sizeof(inner), "%s/comma", folder);
    snprintf(path, sizeof(path), "%s/LC_NUMERIC", inner);
    if (mkdir(inner, 0700) == 0 && write_numeric(path)) {
        setenv("LOCPATH", folder, 1);
        setlocale(LC_NUMERIC, "comma");
        unsetenv("LOCPATH");
    }
    unlink(path); /* the C library has mapped or read it */
    rmdir(inner);
    rmdir(folder);
    return is_comma();
}

void comma_locale_leave(void)
{
    setlocale(LC_NUMERIC, "C");
}
