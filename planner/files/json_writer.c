/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/files/json_writer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

#define LINE 96       /* bytes of what stands on one line, about */
#define FLAT_LINE 600 /* of an object without anything inside that has parts: a row of a table */

struct writer {
    FILE *file;
    bool failed;
};

static void put(struct writer *writer, const char *text)
{
    writer->failed |= fputs(text, writer->file) == EOF;
}

static void put_break(struct writer *writer, int depth)
{
    put(writer, "\n");
    while (depth-- > 0)
        put(writer, " ");
}

/** The locale may want another decimal point than JSON has. */
static void put_real(struct writer *writer, double number)
{
    char text[40];
    double again = 0;
    const char *end;

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, number);
        for (char *c = text; *c != '\0'; c++)
            if (strchr("0123456789+-e", *c) == NULL)
                *c = '.';
        if (wring_number_parse(text, &again, &end) && again == number)
            break;
    }
    put(writer, text);
}

static void put_scalar(struct writer *writer, const json_t *value)
{
    if (json_is_real(value)) {
        put_real(writer, json_real_value(value));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    put(writer, text != NULL ? text : "null");
    writer->failed |= text == NULL;
    free(text);
}

static bool is_container(const json_t *value)
{
    return json_is_array(value) || json_is_object(value);
}

/** Without line breaks, about how long is it? Stops counting beyond the longest line. */
static size_t length(const json_t *value)
{
    size_t sum = 2, index;
    const char *key;
    json_t *inner;

    if (json_is_string(value))
        return 2 + json_string_length(value);
    if (!is_container(value))
        return 8;
    json_array_foreach(value, index, inner)
    {
        sum += length(inner) + 2;
        if (sum > FLAT_LINE)
            break;
    }
    json_object_foreach((json_t *)value, key, inner)
    {
        sum += strlen(key) + 4 + length(inner) + 2;
        if (sum > FLAT_LINE)
            break;
    }
    return sum;
}

static bool fits_a_line(const json_t *value)
{
    const char *key;
    json_t *inner;

    if (length(value) <= LINE)
        return true;
    json_object_foreach((json_t *)value, key, inner)
    {
        if (is_container(inner))
            return false;
    }
    return json_is_object(value) && length(value) <= FLAT_LINE;
}

static void put_key(struct writer *writer, const char *key)
{
    json_t *text = json_string(key);

    put_scalar(writer, text);
    put(writer, ": ");
    json_decref(text);
}

static void put_value(struct writer *writer, const json_t *value, int depth);

/** One element of a list or an object, with what stands before it. */
static void put_element(struct writer *writer, const char *key, const json_t *value, bool first,
                        int depth)
{
    if (!first)
        put(writer, depth < 0 ? ", " : ",");
    if (depth >= 0)
        put_break(writer, depth);
    if (key != NULL)
        put_key(writer, key);
    put_value(writer, value, depth);
}

/** @param depth  -1: on one line, with all inside */
static void put_value(struct writer *writer, const json_t *value, int depth)
{
    bool first = true;
    size_t index;
    const char *key;
    json_t *inner;

    if (!is_container(value)) {
        put_scalar(writer, value);
        return;
    }
    int below = depth < 0 || (depth > 0 && fits_a_line(value)) ? -1 : depth + 1;
    put(writer, json_is_array(value) ? "[" : "{");
    json_array_foreach(value, index, inner)
    {
        put_element(writer, NULL, inner, first, below);
        first = false;
    }
    json_object_foreach((json_t *)value, key, inner)
    {
        put_element(writer, key, inner, first, below);
        first = false;
    }
    if (below >= 0 && !first)
        put_break(writer, depth);
    put(writer, json_is_array(value) ? "]" : "}");
}

enum wring_status wring_json_write(FILE *file, json_t *value)
{
    struct writer writer = {.file = file};

    if (value == NULL)
        return WRING_ERR_NO_MEMORY;
    put_value(&writer, value, 0);
    put(&writer, "\n");
    writer.failed |= fflush(file) != 0;
    json_decref(value);
    return writer.failed ? WRING_ERR_SYSTEM : WRING_OK;
}

json_t *wring_json_number(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

json_t *wring_json_hash(uint64_t hash)
{
    char text[17];

    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    return json_string(text);
}
