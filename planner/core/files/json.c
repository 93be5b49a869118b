/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parse.h"

#define WRING_MODULE "planner"
#define DEPTH 12

struct level {
    bool list;
    size_t index;    /* of a list */
    const char *key; /* of an object: as written, without its quotes; NULL: none yet */
    int key_bytes;
    bool wants_key; /* the next string is one */
};

struct walk {
    struct level levels[DEPTH];
    unsigned depth; /* may be more than DEPTH */
};

static struct level *innermost_level(struct walk *walk)
{
    return walk->depth > 0 && walk->depth <= DEPTH ? &walk->levels[walk->depth - 1] : NULL;
}

static void open_level(struct walk *walk, bool list)
{
    walk->depth++;
    if (innermost_level(walk) != NULL)
        *innermost_level(walk) = (struct level){.list = list, .wants_key = !list};
}

static void next_element(struct level *level)
{
    if (level == NULL)
        return;
    level->index++;
    level->key = NULL;
    level->wants_key = !level->list;
}

/** @return the byte after the string's closing quote, or position */
static size_t skip_string(struct walk *walk, const char *text, size_t at, size_t position)
{
    size_t begin = ++at;
    struct level *level = innermost_level(walk);

    while (at < position && text[at] != '"')
        at += text[at] == '\\' ? 2 : 1;
    if (at > position)
        at = position;
    if (level != NULL && level->wants_key) {
        level->key = text + begin;
        level->key_bytes = (int)(at - begin < 100 ? at - begin : 100);
        level->wants_key = false;
    }
    return at < position ? at + 1 : position;
}

static void write_path(const struct walk *walk, char *path, size_t bytes)
{
    size_t used = 0;

    path[0] = '\0';
    for (unsigned i = 0; i < walk->depth && i < DEPTH && used < bytes; i++) {
        const struct level *level = &walk->levels[i];
        if (level->list)
            used += (size_t)snprintf(path + used, bytes - used, "[%zu]", level->index);
        else if (level->key != NULL)
            used += (size_t)snprintf(path + used, bytes - used, "%s%.*s", used > 0 ? "." : "",
                                     level->key_bytes, level->key);
    }
}

/**
 * The field in which byte `position` of a text lies, as in "tensors[3].ready_us"; "" outside of
 * any. The text before it must be JSON; objects and lists deeper than 12 are left out.
 *
 * @param text  in, of position bytes or more
 * @param path  out, [bytes], cut to fit
 */
static void json_path_at(const char *text, size_t position, char *path, size_t bytes)
{
    struct walk walk = {.depth = 0};

    for (size_t at = 0; at < position;) {
        char c = text[at];
        if (c == '"') {
            at = skip_string(&walk, text, at, position);
            continue;
        }
        if (c == '{' || c == '[')
            open_level(&walk, c == '[');
        else if ((c == '}' || c == ']') && walk.depth > 0)
            walk.depth--;
        else if (c == ',')
            next_element(innermost_level(&walk));
        at++;
    }
    write_path(&walk, path, bytes);
}

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
static void append_to_path(struct wring_reading *reading, const char *text)
{
    size_t used = strlen(reading->path);

    assert(reading->depth < WRING_READING_DEPTH);
    reading->marks[reading->depth++] = used;
    snprintf(reading->path + used, sizeof(reading->path) - used, "%s%s",
             used > 0 && text[0] != '[' ? "." : "", text);
}

void wring_reading_enter(struct wring_reading *reading, const char *name)
{
    append_to_path(reading, name);
}

void wring_reading_enter_index(struct wring_reading *reading, size_t index)
{
    char text[32];

    snprintf(text, sizeof(text), "[%zu]", index);
    append_to_path(reading, text);
}

void wring_reading_leave(struct wring_reading *reading)
{
    reading->path[reading->marks[--reading->depth]] = '\0';
}

/** A value in words for such a line. @param text out, [bytes] @return text */
static const char *reading_describe(const json_t *value, char *text, size_t bytes)
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
                        reading_describe(value, is, sizeof(is)));
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

static json_t *parse_text(struct wring_reading *reading, const char *text, size_t bytes)
{
    json_error_t error;
    /* as reals, 2^63 and beyond are numbers too, which the check of their field refuses by name */
    json_t *value =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);

    if (value == NULL) {
        json_path_at(text, error.position < 0 ? 0 : (size_t)error.position, reading->path,
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
    json_t *value = reading->status == WRING_OK ? parse_text(reading, text, bytes) : NULL;
    free(text);
    return value;
}

static json_t *read_object(struct wring_reading *reading)
{
    json_t *value = reading->text != NULL ? parse_text(reading, reading->text, reading->bytes)
                                          : read_file(reading);

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

/* ---- fields ---- */

/* Values of JSON, and the fields that have them: each is what it has to be, or a fault. */

/* ---- values ---- */

double wring_reading_value_number(struct wring_reading *reading, const json_t *value, double min,
                                  double max)
{
    char needs[80];
    double number = json_number_value(value);

    if (reading->status != WRING_OK)
        return 0;
    if (json_is_number(value) && number >= min && number <= max)
        return number;
    wring_number_print(needs, sizeof(needs), "a number from %.15g to %.15g", min, max);
    wring_reading_needs(reading, value, needs);
    return 0;
}

uint64_t wring_reading_value_count(struct wring_reading *reading, const json_t *value, uint64_t min,
                                   uint64_t max)
{
    char needs[80];
    double number = json_number_value(value);

    if (reading->status != WRING_OK)
        return 0;
    if (json_is_number(value) && number >= (double)min && number <= (double)max &&
        number == floor(number))
        return (uint64_t)number;
    snprintf(needs, sizeof(needs), "a whole number from %" PRIu64 " to %" PRIu64, min, max);
    wring_reading_needs(reading, value, needs);
    return 0;
}

/** Has it characters that move a terminal's cursor: below U+0020, or from U+007F to U+009F? */
static bool has_control(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
        if (*at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0))
            return true;
    return false;
}

const char *wring_reading_value_text(struct wring_reading *reading, const json_t *value, size_t min,
                                     size_t max)
{
    char needs[80];

    if (reading->status != WRING_OK)
        return "";
    size_t bytes = json_string_length(value);
    bool fits = json_is_string(value) && bytes >= min && bytes <= max;
    if (fits && !has_control(json_string_value(value)))
        return json_string_value(value);
    snprintf(needs, sizeof(needs), "a text of %zu to %zu bytes%s", min, max,
             fits ? " without control characters" : "");
    wring_reading_needs(reading, value, needs);
    return "";
}

static uint64_t value_hash(struct wring_reading *reading, const json_t *value)
{
    const char *text = json_is_string(value) ? json_string_value(value) : "";

    if (reading->status != WRING_OK)
        return 0;
    if (strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16)
        return strtoull(text, NULL, 16);
    wring_reading_needs(reading, value, "16 hexadecimal digits");
    return 0;
}

/* ---- fields ---- */

bool wring_reading_has(const struct wring_reading *reading, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return reading->status == WRING_OK && value != NULL && !json_is_null(value);
}

double wring_reading_number(struct wring_reading *reading, const json_t *object, const char *name,
                            double min, double max)
{
    wring_reading_enter(reading, name);
    double number = wring_reading_value_number(reading, json_object_get(object, name), min, max);
    wring_reading_leave(reading);
    return number;
}

uint64_t wring_reading_count(struct wring_reading *reading, const json_t *object, const char *name,
                             uint64_t min, uint64_t max)
{
    wring_reading_enter(reading, name);
    uint64_t count = wring_reading_value_count(reading, json_object_get(object, name), min, max);
    wring_reading_leave(reading);
    return count;
}

const char *wring_reading_text(struct wring_reading *reading, const json_t *object,
                               const char *name, size_t min, size_t max)
{
    wring_reading_enter(reading, name);
    const char *text = wring_reading_value_text(reading, json_object_get(object, name), min, max);
    wring_reading_leave(reading);
    return text;
}

uint64_t wring_reading_hash(struct wring_reading *reading, const json_t *object, const char *name)
{
    wring_reading_enter(reading, name);
    uint64_t hash = value_hash(reading, json_object_get(object, name));
    wring_reading_leave(reading);
    return hash;
}

const json_t *wring_reading_object(struct wring_reading *reading, const json_t *object,
                                   const char *name)
{
    const json_t *value = json_object_get(object, name);

    wring_reading_enter(reading, name);
    if (!json_is_object(value))
        wring_reading_needs(reading, value, "an object");
    wring_reading_leave(reading);
    return reading->status == WRING_OK ? value : NULL;
}

const json_t *wring_reading_array(struct wring_reading *reading, const json_t *object,
                                  const char *name, size_t min, size_t max)
{
    const json_t *value = json_object_get(object, name);
    size_t n = json_array_size(value);

    wring_reading_enter(reading, name);
    if (!json_is_array(value))
        wring_reading_needs(reading, value, "a list");
    else if (n < min || n > max)
        wring_reading_fault(reading, WRING_ERR_INVALID, "needs %zu to %zu elements, has %zu", min,
                            max, n);
    wring_reading_leave(reading);
    return reading->status == WRING_OK ? value : NULL;
}

/* ---- writer ---- */

#define LINE 96       /* longest value on one line, in bytes, about */
#define FLAT_LINE 600 /* the same for an object without lists or objects inside: a table's row */

struct writer {
    FILE *file;
    bool failed;
};

static void put_text(struct writer *writer, const char *text)
{
    writer->failed |= fputs(text, writer->file) == EOF;
}

static void put_break(struct writer *writer, int depth)
{
    put_text(writer, "\n");
    while (depth-- > 0)
        put_text(writer, " ");
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
    put_text(writer, text);
}

static void put_scalar(struct writer *writer, const json_t *value)
{
    if (json_is_real(value)) {
        put_real(writer, json_real_value(value));
        return;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    put_text(writer, text != NULL ? text : "null");
    writer->failed |= text == NULL;
    free(text);
}

static bool is_container(const json_t *value)
{
    return json_is_array(value) || json_is_object(value);
}

/** Without line breaks, about how long is it? Stops counting beyond the longest line. */
static size_t estimate_flat_length(const json_t *value)
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
        sum += estimate_flat_length(inner) + 2;
        if (sum > FLAT_LINE)
            break;
    }
    json_object_foreach((json_t *)value, key, inner)
    {
        sum += strlen(key) + 4 + estimate_flat_length(inner) + 2;
        if (sum > FLAT_LINE)
            break;
    }
    return sum;
}

static bool fits_a_line(const json_t *value)
{
    const char *key;
    json_t *inner;

    if (estimate_flat_length(value) <= LINE)
        return true;
    json_object_foreach((json_t *)value, key, inner)
    {
        if (is_container(inner))
            return false;
    }
    return json_is_object(value) && estimate_flat_length(value) <= FLAT_LINE;
}

static void put_key(struct writer *writer, const char *key)
{
    json_t *text = json_string(key);

    put_scalar(writer, text);
    put_text(writer, ": ");
    json_decref(text);
}

static void put_value(struct writer *writer, const json_t *value, int depth);

/** One element of a list or an object, after its comma, line break and key. */
static void put_element(struct writer *writer, const char *key, const json_t *value, bool first,
                        int depth)
{
    if (!first)
        put_text(writer, depth < 0 ? ", " : ",");
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
    put_text(writer, json_is_array(value) ? "[" : "{");
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
    put_text(writer, json_is_array(value) ? "]" : "}");
}

enum wring_status wring_json_write(FILE *file, json_t *value)
{
    struct writer writer = {.file = file};

    if (value == NULL)
        return WRING_ERR_NO_MEMORY;
    put_value(&writer, value, 0);
    put_text(&writer, "\n");
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
