/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/lines.h"

#include <stdio.h>
#include <string.h>

void wring_test_lines_take(void *arg, enum wring_log_level level, const char *module,
                           const char *text)
{
    struct wring_test_lines *lines = arg;
    (void)level;
    if (lines->module != NULL && strcmp(module, lines->module) != 0)
        return;
    pthread_mutex_lock(&lines->mutex);
    size_t length = strlen(lines->text);
    snprintf(lines->text + length, sizeof(lines->text) - length, "%s\n", text);
    pthread_mutex_unlock(&lines->mutex);
}

unsigned wring_test_lines_count(const struct wring_test_lines *lines, const char *part)
{
    unsigned n = 0;
    for (const char *at = lines->text; (at = strstr(at, part)) != NULL; at++)
        n++;
    return n;
}
