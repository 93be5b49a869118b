/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

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

enum wring_status wring_json_print(FILE *file, json_t *value)
{
    int failed =
        json_dumpf(value, file, JSON_INDENT(2) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12));
    failed |= fputc('\n', file) == EOF;
    failed |= fflush(file) != 0;
    json_decref(value);
    return failed ? WRING_ERR_SYSTEM : WRING_OK;
}
