/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/core/files/fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/core/cost.h"
#include "planner/core/files/hash.h"

#define WORD_BYTES 65 /* of one that is not kept */

/* of a cost */
#define X_MAX 0x1p53
#define Y_MAX 1e15
#define SLOPE_MAX 1e9

/* ---- reading ---- */

/** Is one there, which may be missing? */
static bool is_there(const struct wring_reading *reading, const json_t *object,
                     const struct wring_field *field)
{
    const char *inner = field->record != NULL ? field->record->field : NULL;

    return wring_reading_has(reading, object, field->name) &&
           (inner == NULL ||
            wring_reading_has(reading, json_object_get(object, field->name), inner));
}

static bool read_bool(struct wring_reading *reading, const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    wring_reading_enter(reading, name);
    if (!json_is_boolean(value))
        wring_reading_needs(reading, value, "true or false");
    wring_reading_leave(reading);
    return json_is_true(value);
}

/** A text of min bytes or more, into text[bytes], ended by 0. */
static void read_text(struct wring_reading *reading, const json_t *object, const char *name,
                      size_t min, char *text, size_t bytes)
{
    const char *value = wring_reading_text(reading, object, name, min, bytes - 1);
    memcpy(text, value, strlen(value) + 1);
}

/** NaN where the field is null or missing. */
static double read_number_or_null(struct wring_reading *reading, const json_t *object,
                                  const char *name, double min, double max)
{
    if (!wring_reading_has(reading, object, name))
        return NAN;
    return wring_reading_number(reading, object, name, min, max);
}

/** One [x, y], not left of the corner before and not below it. */
static void read_corner(struct wring_reading *reading, const json_t *value, struct wring_cost *out)
{
    uint32_t i = out->n;

    if (json_array_size(value) != 2) {
        if (json_is_array(value))
            wring_reading_fault(reading, WRING_ERR_INVALID,
                                "needs [x, y], is a list of another length");
        else
            wring_reading_needs(reading, value, "[x, y]");
        return;
    }
    double x = wring_reading_value_number(reading, json_array_get(value, 0), 0, X_MAX) + 0.0;
    double y = wring_reading_value_number(reading, json_array_get(value, 1), 0, Y_MAX) + 0.0;
    if (i > 0 && x <= out->corners[i - 1].x)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "x = %.15g does not lie beyond the %.15g of the corner before it", x,
                            out->corners[i - 1].x);
    if (i > 0 && y < out->corners[i - 1].y)
        wring_reading_fault(reading, WRING_ERR_INVALID,
                            "y = %.15g is below the %.15g of the corner before it; costs never "
                            "fall",
                            y, out->corners[i - 1].y);
    out->corners[i].x = x;
    out->corners[i].y = y;
    out->n++;
}

/** {"corners": [[x, y], ...], "slope": s} */
static struct wring_cost read_cost_value(struct wring_reading *reading, const json_t *object,
                                         const char *name)
{
    struct wring_cost cost = {0};
    const json_t *value = wring_reading_object(reading, object, name);

    wring_reading_enter(reading, name);
    const json_t *corners = wring_reading_array(reading, value, "corners", 0, WRING_COST_CORNERS);
    cost.slope = wring_reading_number(reading, value, "slope", 0, SLOPE_MAX) + 0.0;
    wring_reading_enter(reading, "corners");
    for (size_t i = 0; i < json_array_size(corners) && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        read_corner(reading, json_array_get(corners, i), &cost);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
    wring_reading_leave(reading);
    return cost;
}

static void read_cost(struct wring_reading *reading, const json_t *object,
                      const struct wring_field *field, struct wring_cost *out)
{
    *out = read_cost_value(reading, object, field->name);
    if ((double)out->n >= field->min)
        return;
    wring_reading_enter(reading, field->name);
    wring_reading_fault(reading, WRING_ERR_INVALID,
                        "has no corners; what was measured has one at least");
    wring_reading_leave(reading);
}

/** @param known  in: what else is allowed, quoted, or ""; out: with the field's words behind it
 *  @return which of the field's words a text is; max: none */
static unsigned find_word(const struct wring_field *field, const char *text, char *known,
                          size_t bytes)
{
    unsigned n = (unsigned)field->max, found = n;
    size_t used = strlen(known);

    for (unsigned i = 0; i < n; i++) {
        const char *name = field->name_of(i);
        if (name == NULL)
            continue;
        found = strcmp(name, text) == 0 ? i : found;
        snprintf(known + used, bytes - used, "%s\"%s\"", used > 0 ? ", " : "", name);
        used = strlen(known);
    }
    return found;
}

static void say_no_word(struct wring_reading *reading, const struct wring_field *field,
                        const char *known, const char *text)
{
    wring_reading_enter(reading, field->name);
    wring_reading_fault(reading, WRING_ERR_INVALID, "needs one of %s, is \"%s\"", known, text);
    wring_reading_leave(reading);
}

static void read_choice(struct wring_reading *reading, const json_t *object,
                        const struct wring_field *field, uint32_t *out)
{
    const char *text = wring_reading_text(reading, object, field->name, 0, WORD_BYTES - 1);
    char known[200] = "";
    unsigned found = find_word(field, text, known, sizeof(known));

    if (found < (unsigned)field->max)
        *out = found;
    else
        say_no_word(reading, field, known, text);
}

static void read_word(struct wring_reading *reading, const json_t *object,
                      const struct wring_field *field, char *out)
{
    const char *text = wring_reading_text(reading, object, field->name, 0, field->bytes - 1);
    bool may_be_empty = field->min <= 0;
    char known[200] = "";

    if (may_be_empty)
        snprintf(known, sizeof(known), "\"\"");
    if (find_word(field, text, known, sizeof(known)) == (unsigned)field->max &&
        !(may_be_empty && text[0] == '\0'))
        say_no_word(reading, field, known, text);
    memcpy(out, text, strlen(text) + 1);
}

/** A copy; NULL after a fault. */
static char *copy_text(struct wring_reading *reading, const char *text)
{
    char *copy = reading->status == WRING_OK ? strdup(text) : NULL;

    if (copy == NULL)
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    return copy;
}

static char *read_string(struct wring_reading *reading, const json_t *object,
                         const struct wring_field *field)
{
    if (field->need != WRING_FIELD_NEEDED && !is_there(reading, object, field))
        return copy_text(reading, "");
    return copy_text(reading, wring_reading_text(reading, object, field->name, (size_t)field->min,
                                                 (size_t)field->max));
}

static uint32_t *counter_of(const struct wring_field *field, void *owner)
{
    return (uint32_t *)((char *)owner + field->count);
}

static void read_strings(struct wring_reading *reading, const json_t *object,
                         const struct wring_field *field, uint32_t *n, char ***out)
{
    const json_t *list = wring_reading_array(reading, object, field->name, 1, (size_t)field->max);

    if (list == NULL)
        return;
    char **strings = *out = calloc(json_array_size(list), sizeof(*strings));
    if (strings == NULL)
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    wring_reading_enter(reading, field->name);
    for (size_t i = 0; i < json_array_size(list) && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        char *copy = copy_text(
            reading, wring_reading_value_text(reading, json_array_get(list, i), 1, field->bytes));
        if (copy != NULL)
            strings[(*n)++] = copy;
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void read_counts(struct wring_reading *reading, const json_t *object,
                        const struct wring_field *field, uint32_t n, uint64_t **out)
{
    const json_t *list = wring_reading_array(reading, object, field->name, n, n);

    if (list == NULL)
        return;
    uint64_t *counts = *out = calloc((size_t)n + 1, sizeof(*counts));
    if (counts == NULL)
        wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    wring_reading_enter(reading, field->name);
    for (uint32_t i = 0; i < n && reading->status == WRING_OK; i++) {
        wring_reading_enter_index(reading, i);
        counts[i] = wring_reading_value_count(reading, json_array_get(list, i),
                                              (uint64_t)field->min, (uint64_t)field->max);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void read_object(struct wring_reading *reading, const json_t *object, const char *name,
                        const struct wring_record *record, void *out)
{
    const json_t *value = wring_reading_object(reading, object, name);

    wring_reading_enter(reading, name);
    if (record->flagged)
        *(bool *)out = true;
    wring_record_read(reading, value, record, out);
    wring_reading_leave(reading);
}

static void read_named(struct wring_reading *reading, const json_t *object,
                       const struct wring_field *field, char *out)
{
    const json_t *value = wring_reading_object(reading, object, field->name);

    wring_reading_enter(reading, field->name);
    for (unsigned i = 0; i < (unsigned)field->max; i++)
        if (wring_reading_has(reading, value, field->name_of(i)))
            read_object(reading, value, field->name_of(i), field->record, out + i * field->bytes);
    wring_reading_leave(reading);
}

/** An element of a list. */
static void expect_object(struct wring_reading *reading, const json_t *value)
{
    if (!json_is_object(value))
        wring_reading_needs(reading, value, "an object");
}

/** @param out  the array, or the pointer to the list */
static void read_list(struct wring_reading *reading, const json_t *object,
                      const struct wring_field *field, void *owner, void *out)
{
    const json_t *list =
        wring_reading_array(reading, object, field->name, (size_t)field->min, (size_t)field->max);
    uint32_t *n = counter_of(field, owner);
    char *records = out;

    if (list == NULL)
        return;
    if (field->type == WRING_FIELD_LIST) {
        records = *(void **)out = calloc(json_array_size(list) + 1, field->bytes);
        if (records == NULL)
            wring_reading_fault(reading, WRING_ERR_NO_MEMORY, "out of memory");
    }
    wring_reading_enter(reading, field->name);
    for (; *n < json_array_size(list) && reading->status == WRING_OK; (*n)++) {
        const json_t *value = json_array_get(list, *n);
        wring_reading_enter_index(reading, *n);
        expect_object(reading, value);
        wring_record_read(reading, value, field->record, records + *n * field->bytes);
        if (field->check != NULL)
            field->check(reading, owner, *n);
        wring_reading_leave(reading);
    }
    wring_reading_leave(reading);
}

static void read_field(struct wring_reading *reading, const json_t *object,
                       const struct wring_field *field, void *owner)
{
    void *out = (char *)owner + field->offset;
    const char *name = field->name;
    double min = field->min, max = field->max;

    switch (field->type) {
    case WRING_FIELD_TEXT:
        read_text(reading, object, name, (size_t)min, out, field->bytes);
        break;
    case WRING_FIELD_BOOL:
        *(bool *)out = read_bool(reading, object, name);
        break;
    case WRING_FIELD_U32:
        *(uint32_t *)out =
            (uint32_t)wring_reading_count(reading, object, name, (uint64_t)min, (uint64_t)max);
        break;
    case WRING_FIELD_U64:
        *(uint64_t *)out = wring_reading_count(reading, object, name, (uint64_t)min, (uint64_t)max);
        break;
    case WRING_FIELD_NUMBER: /* no -0 */
        *(double *)out = wring_reading_number(reading, object, name, min, max) + 0.0;
        break;
    case WRING_FIELD_NUMBER_OR_NULL:
        *(double *)out = read_number_or_null(reading, object, name, min, max) + 0.0;
        break;
    case WRING_FIELD_COST:
        read_cost(reading, object, field, out);
        break;
    case WRING_FIELD_WORD:
        read_word(reading, object, field, out);
        break;
    case WRING_FIELD_CHOICE:
        read_choice(reading, object, field, out);
        break;
    case WRING_FIELD_STRING:
        *(char **)out = read_string(reading, object, field);
        break;
    case WRING_FIELD_HASH:
        *(uint64_t *)out = wring_reading_hash(reading, object, name);
        break;
    case WRING_FIELD_DERIVED:
        break;
    case WRING_FIELD_STRINGS:
        read_strings(reading, object, field, counter_of(field, owner), out);
        break;
    case WRING_FIELD_COUNTS:
        read_counts(reading, object, field, *counter_of(field, owner), out);
        break;
    case WRING_FIELD_OBJECT:
        read_object(reading, object, name, field->record, out);
        break;
    case WRING_FIELD_NAMED:
        read_named(reading, object, field, out);
        break;
    case WRING_FIELD_ARRAY:
    case WRING_FIELD_LIST:
        read_list(reading, object, field, owner, out);
        break;
    }
}

void wring_record_read(struct wring_reading *reading, const json_t *object,
                       const struct wring_record *record, void *out)
{
    for (size_t i = 0; i < record->n; i++) {
        const struct wring_field *field = &record->fields[i];
        if (field->need == WRING_FIELD_NEEDED || field->type == WRING_FIELD_STRING ||
            is_there(reading, object, field))
            read_field(reading, object, field, out);
    }
    if (record->check != NULL && reading->status == WRING_OK)
        record->check(reading, out);
}

/* ---- writing ---- */

static bool record_is_set(const struct wring_record *record, const void *at)
{
    return record->flagged ? *(const bool *)at : record->is_set(at);
}

static uint32_t count_of(const struct wring_field *field, const void *owner)
{
    return *(const uint32_t *)((const char *)owner + field->count);
}

/** Is a sparse one to be written? */
static bool is_set(const struct wring_field *field, const void *owner)
{
    const void *at = (const char *)owner + field->offset;

    if (field->is_set != NULL)
        return field->is_set(owner);
    switch (field->type) {
    case WRING_FIELD_TEXT:
        return *(const char *)at != '\0';
    case WRING_FIELD_BOOL:
        return *(const bool *)at;
    case WRING_FIELD_U32:
    case WRING_FIELD_CHOICE:
        return *(const uint32_t *)at != 0;
    case WRING_FIELD_U64:
        return *(const uint64_t *)at != 0;
    case WRING_FIELD_NUMBER:
        return *(const double *)at > 0;
    case WRING_FIELD_COST:
        return ((const struct wring_cost *)at)->n > 0;
    case WRING_FIELD_OBJECT:
        return record_is_set(field->record, at);
    case WRING_FIELD_ARRAY:
    case WRING_FIELD_LIST:
        return count_of(field, owner) > 0;
    case WRING_FIELD_STRINGS:
    case WRING_FIELD_COUNTS:
        return *(const void *const *)at != NULL;
    default: /* those are always written */
        return true;
    }
}

/* New references; NULL without memory. */

static json_t *record_json(const struct wring_record *record, const void *from)
{
    json_t *object = json_object();

    if (wring_record_put(object, record, from))
        return object;
    json_decref(object);
    return NULL;
}

static json_t *named_json(const struct wring_field *field, const char *from)
{
    json_t *object = json_object();

    for (unsigned i = 0; i < (unsigned)field->max; i++, from += field->bytes)
        if (record_is_set(field->record, from) &&
            json_object_set_new(object, field->name_of(i), record_json(field->record, from)) != 0) {
            json_decref(object);
            return NULL;
        }
    return object;
}

static json_t *list_json(const struct wring_field *field, uint32_t n, const char *from)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++, from += field->bytes)
        if (json_array_append_new(list, record_json(field->record, from)) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *strings_json(uint32_t n, char *const *strings)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_string(strings[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *counts_json(uint32_t n, const uint64_t *counts)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_integer((json_int_t)counts[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *cost_json(const struct wring_cost *cost)
{
    json_t *corners = json_array();

    for (uint32_t i = 0; i < cost->n; i++)
        if (json_array_append_new(corners,
                                  json_pack("[o, o]", wring_json_number(cost->corners[i].x),
                                            wring_json_number(cost->corners[i].y))) != 0) {
            json_decref(corners);
            return NULL;
        }
    return json_pack("{s:o, s:o}", "corners", corners, "slope", wring_json_number(cost->slope));
}

static json_t *field_json(const struct wring_field *field, const void *owner)
{
    const void *at = (const char *)owner + field->offset;

    switch (field->type) {
    case WRING_FIELD_TEXT:
        return json_string(at);
    case WRING_FIELD_BOOL:
        return json_boolean(*(const bool *)at);
    case WRING_FIELD_U32:
        return json_integer(*(const uint32_t *)at);
    case WRING_FIELD_U64:
        return json_integer((json_int_t) * (const uint64_t *)at);
    case WRING_FIELD_NUMBER:
    case WRING_FIELD_NUMBER_OR_NULL:
        return wring_json_number(*(const double *)at);
    case WRING_FIELD_COST:
        return cost_json(at);
    case WRING_FIELD_WORD:
        return json_string(at);
    case WRING_FIELD_CHOICE:
        return json_string(field->name_of(*(const uint32_t *)at));
    case WRING_FIELD_STRING:
        return json_string(*(char *const *)at);
    case WRING_FIELD_HASH:
        return wring_json_hash(*(const uint64_t *)at);
    case WRING_FIELD_DERIVED:
        return wring_json_number(field->derive(owner));
    case WRING_FIELD_STRINGS:
        return strings_json(count_of(field, owner), *(char *const *const *)at);
    case WRING_FIELD_COUNTS:
        return counts_json(count_of(field, owner), *(const uint64_t *const *)at);
    case WRING_FIELD_OBJECT:
        return record_json(field->record, at);
    case WRING_FIELD_NAMED:
        return named_json(field, at);
    case WRING_FIELD_ARRAY:
        return list_json(field, count_of(field, owner), at);
    case WRING_FIELD_LIST:
        return list_json(field, count_of(field, owner), *(const void *const *)at);
    }
    return NULL;
}

/** Is it more of the field before it, as trust is of a cost? */
static bool extends_field_before(const struct wring_record *record, size_t i)
{
    return i > 0 && strcmp(record->fields[i - 1].name, record->fields[i].name) == 0;
}

bool wring_record_put(json_t *object, const struct wring_record *record, const void *from)
{
    for (size_t i = 0; i < record->n; i++) {
        const struct wring_field *field = &record->fields[i];
        json_t *there =
            extends_field_before(record, i) ? json_object_get(object, field->name) : NULL;
        bool skipped = field->need == WRING_FIELD_SPARSE &&
                       (!is_set(field, from) || (extends_field_before(record, i) && there == NULL));
        if (skipped)
            continue;
        bool put = there != NULL
                       ? wring_record_put(there, field->record, (const char *)from + field->offset)
                       : json_object_set_new(object, field->name, field_json(field, from)) == 0;
        if (!put)
            return false;
    }
    return object != NULL;
}

enum wring_status wring_record_write(FILE *file, const char *format, unsigned version,
                                     const struct wring_record *record, const void *from)
{
    json_t *object = json_pack("{s:s, s:i}", "format", format, "version", (int)version);

    if (!wring_record_put(object, record, from)) {
        json_decref(object);
        object = NULL;
    }
    return wring_json_write(file, object);
}

/* ---- hashing ---- */

static void hash_field(struct wring_writer *writer, const struct wring_field *field,
                       const void *owner)
{
    const void *at = (const char *)owner + field->offset;

    wring_write_sized(writer, field->name, strlen(field->name));
    switch (field->type) {
    case WRING_FIELD_TEXT:
        wring_write_sized(writer, at, strlen(at));
        return;
    case WRING_FIELD_BOOL:
        wring_write_u32(writer, *(const bool *)at);
        return;
    case WRING_FIELD_U32:
        wring_write_u32(writer, *(const uint32_t *)at);
        return;
    case WRING_FIELD_U64:
        wring_write_u64(writer, *(const uint64_t *)at);
        return;
    case WRING_FIELD_NUMBER:
        wring_write_double(writer, *(const double *)at);
        return;
    case WRING_FIELD_COST:
        wring_write_cost(writer, at);
        return;
    case WRING_FIELD_OBJECT:
        wring_record_hash(writer, field->record, at);
        return;
    default: /* no such field is hashed: who adds one finds every hash refused */
        writer->failed = true;
        return;
    }
}

void wring_record_hash(struct wring_writer *writer, const struct wring_record *record,
                       const void *from)
{
    for (size_t i = 0; i < record->n; i++)
        if (record->fields[i].need != WRING_FIELD_SPARSE || is_set(&record->fields[i], from))
            hash_field(writer, &record->fields[i], from);
}
