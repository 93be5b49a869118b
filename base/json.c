/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#define WRING_MODULE "json"

enum wring_status wring_json_load(const char *path, const struct wring_log *log, json_t **out)
{
    json_error_t error;
    json_t *value = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (value == NULL) {
        wring_error(log, "%s: line %d: %s", path, error.line, error.text);
        return WRING_ERR_FRAME;
    }
    if (!json_is_object(value)) {
        wring_error(log, "%s: needs a JSON object", path);
        json_decref(value);
        return WRING_ERR_FRAME;
    }
    *out = value;
    return WRING_OK;
}

json_t *wring_json_text(const char *text)
{
    json_t *value = json_string(text);
    char *copy = value == NULL ? strdup(text) : NULL;
    if (copy == NULL)
        return value;
    for (char *at = copy; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    value = json_string(copy);
    free(copy);
    return value;
}

enum wring_status wring_json_print(FILE *file, json_t *value)
{
    int failed =
        json_dumpf(value, file, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    failed |= fputc('\n', file) == EOF;
    failed |= fflush(file) != 0;
    json_decref(value);
    return failed ? WRING_ERR_SYSTEM : WRING_OK;
}
