/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/json_reader.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "planner/files/json_place.h"

#define WRING_MODULE "planner"

/* ---- faults, and where they are ---- */

void wring_reading_fault(struct wring_reading *reading, enum wring_status status,
                         const char *format, ...)
{
    char reason[512];
    va_list args;

    if (reading->status != WRING_OK)
        return;
    reading->status = status;
    va_start(args, format);
    wring_number_vprint(reason, sizeof(reason), format, args);
    va_end(args);
    wring_error(reading->log, "%s: %s%s%s", reading->file, reading->path,
                reading->path[0] != '\0' ? ": " : "", reason);
}

/** Names come from files: what does not fit is cut, which the line shows well enough. */
static void append(struct wring_reading *reading, const char *text)
{
    size_t used = strlen(reading->path);

    assert(reading->depth < WRING_READING_DEPTH);
    reading->marks[reading->depth++] = used;
    snprintf(reading->path + used, sizeof(reading->path) - used, "%s%s",
             used > 0 && text[0] != '[' ? "." : "", text);
}

void wring_reading_enter(struct wring_reading *reading, const char *name)
{
    append(reading, name);
}

void wring_reading_enter_index(struct wring_reading *reading, size_t index)
{
    char text[32];

    snprintf(text, sizeof(text), "[%zu]", index);
    append(reading, text);
}

void wring_reading_leave(struct wring_reading *reading)
{
    reading->path[reading->marks[--reading->depth]] = '\0';
}

const char *wring_reading_describe(const json_t *value, char *text, size_t bytes)
{
    if (value == NULL)
        snprintf(text, bytes, "is missing");
    else if (json_is_string(value))
        snprintf(text, bytes, "is \"%.60s\"", json_string_value(value));
    else if (json_is_number(value))
        wring_number_print(text, bytes, "is %.15g", json_number_value(value));
    else
        snprintf(text, bytes, "is %s",
                 json_is_object(value)  ? "an object"
                 : json_is_array(value) ? "a list"
                 : json_is_true(value)  ? "true"
                 : json_is_false(value) ? "false"
                                        : "null");
    return text;
}

void wring_reading_needs(struct wring_reading *reading, const json_t *value, const char *needs)
{
    char is[100];

    wring_reading_fault(reading, WRING_ERR_INVALID, "needs %s, %s", needs,
                        wring_reading_describe(value, is, sizeof(is)));
}

void wring_reading_expect_object(struct wring_reading *reading, const json_t *value)
{
    if (!json_is_object(value))
        wring_reading_needs(reading, value, "an object");
}

/* ---- the file ---- */

/** The whole file, NUL after it; NULL after a fault. */
static char *read_all(struct wring_reading *reading, FILE *file, size_t *bytes)
{
    char *text = NULL;

    *bytes = 0;
    for (size_t room = 1 << 16;; room *= 2) {
        char *larger = realloc(text, room);
        if (larger == NULL) {
            wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
            break;
        }
        text = larger;
        *bytes += fread(text + *bytes, 1, room - 1 - *bytes, file);
        text[*bytes] = '\0';
        if (*bytes > WRING_READING_BYTES_MAX) {
            wring_reading_fault(reading, WRING_ERR_INVALID, "is longer than %u MiB",
                                WRING_READING_BYTES_MAX >> 20);
            break;
        }
        if (*bytes < room - 1)
            break;
    }
    if (ferror(file))
        wring_reading_fault(reading, WRING_ERR_SYSTEM, "cannot be read: %s", strerror(errno));
    return text;
}

static json_t *parse(struct wring_reading *reading, const char *text, size_t bytes)
{
    json_error_t error;
    /* as reals, 2^63 and beyond are numbers too, which the check of their field refuses by name */
    json_t *value =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);

    if (value == NULL) {
        wring_json_place(text, error.position < 0 ? 0 : (size_t)error.position, reading->path,
                         sizeof(reading->path));
        wring_reading_fault(reading,
                            json_error_code(&error) == json_error_out_of_memory
                                ? WRING_ERR_NO_MEMORY
                                : WRING_ERR_INVALID,
                            "line %d: %s", error.line, error.text);
    }
    return value;
}

static json_t *read_file(struct wring_reading *reading)
{
    size_t bytes;
    FILE *file = fopen(reading->file, "rbe");

    if (file == NULL) {
        wring_reading_fault(reading, WRING_ERR_SYSTEM, "cannot be read: %s", strerror(errno));
        return NULL;
    }
    char *text = read_all(reading, file, &bytes);
    fclose(file);
    json_t *value = reading->status == WRING_OK ? parse(reading, text, bytes) : NULL;
    free(text);
    return value;
}

static json_t *read_object(struct wring_reading *reading)
{
    json_t *value =
        reading->text != NULL ? parse(reading, reading->text, reading->bytes) : read_file(reading);

    if (value != NULL && !json_is_object(value))
        wring_reading_needs(reading, value, "a JSON object");
    return value;
}

void wring_reading_open(struct wring_reading *reading, const char *format, unsigned version,
                        json_t **out)
{
    json_t *object = read_object(reading);
    const char *is = wring_reading_text(reading, object, "format", 0, 64);

    wring_reading_enter(reading, "format");
    if (reading->status == WRING_OK && strcmp(is, format) != 0)
        wring_reading_fault(reading, WRING_ERR_INVALID, "needs \"%s\", is \"%s\"", format, is);
    wring_reading_leave(reading);

    uint64_t is_version = wring_reading_count(reading, object, "version", 1, UINT32_MAX);
    wring_reading_enter(reading, "version");
    if (is_version != version)
        wring_reading_fault(reading, WRING_ERR_VERSION,
                            "is %" PRIu64 "; this wring reads version %u", is_version, version);
    wring_reading_leave(reading);
    if (reading->status != WRING_OK) {
        json_decref(object);
        object = NULL;
    }
    *out = object;
}
