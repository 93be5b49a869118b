/* SPDX-License-Identifier: Apache-2.0 */
/* Values of JSON, and the fields that have them: each is what it has to be, or a fault. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "planner/files/json_reader.h"

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

/** What moves a terminal's cursor or begins a line: below U+0020, and from U+007F to U+009F. */
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

double wring_reading_number_or_null(struct wring_reading *reading, const json_t *object,
                                    const char *name, double min, double max)
{
    if (!wring_reading_has(reading, object, name))
        return NAN;
    return wring_reading_number(reading, object, name, min, max);
}

uint64_t wring_reading_count(struct wring_reading *reading, const json_t *object, const char *name,
                             uint64_t min, uint64_t max)
{
    wring_reading_enter(reading, name);
    uint64_t count = wring_reading_value_count(reading, json_object_get(object, name), min, max);
    wring_reading_leave(reading);
    return count;
}

bool wring_reading_bool(struct wring_reading *reading, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    wring_reading_enter(reading, name);
    if (!json_is_boolean(value))
        wring_reading_needs(reading, value, "true or false");
    wring_reading_leave(reading);
    return json_is_true(value);
}

const char *wring_reading_text(struct wring_reading *reading, const json_t *object,
                               const char *name, size_t min, size_t max)
{
    wring_reading_enter(reading, name);
    const char *text = wring_reading_value_text(reading, json_object_get(object, name), min, max);
    wring_reading_leave(reading);
    return text;
}

void wring_reading_copy(struct wring_reading *reading, const json_t *object, const char *name,
                        size_t min, char *text, size_t bytes)
{
    const char *value = wring_reading_text(reading, object, name, min, bytes - 1);
    memcpy(text, value, strlen(value) + 1);
}

void wring_reading_word(struct wring_reading *reading, const json_t *object, const char *name,
                        const char *const *words, char *text, size_t bytes)
{
    char known[200] = "";

    wring_reading_copy(reading, object, name, 0, text, bytes);
    for (size_t i = 0; words[i] != NULL; i++) {
        if (strcmp(words[i], text) == 0)
            return;
        size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s\"%s\"", used > 0 ? ", " : "", words[i]);
    }
    wring_reading_enter(reading, name);
    wring_reading_fault(reading, WRING_ERR_INVALID, "needs one of %s, is \"%s\"", known, text);
    wring_reading_leave(reading);
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
