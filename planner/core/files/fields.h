/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Records of the planner's files. A table names a record's fields, with type, place, bounds, and
 * whether they may be missing; it reads, checks and writes them. docs/planner-files.md has the same
 * for people.
 */
#ifndef WRING_FILES_FIELDS_H
#define WRING_FILES_FIELDS_H

#include <stddef.h>

#include "planner/core/files/json.h"

enum wring_field_type {
    WRING_FIELD_TEXT,           /* char[bytes], of min bytes or more */
    WRING_FIELD_BOOL,           /* bool */
    WRING_FIELD_U32,            /* uint32_t, min to max */
    WRING_FIELD_U64,            /* uint64_t, min to max, which is 2^53 at most */
    WRING_FIELD_NUMBER,         /* double, min to max */
    WRING_FIELD_NUMBER_OR_NULL, /* double, min to max; NaN is null, which a missing one is, too */
    WRING_FIELD_COST,           /* struct wring_cost, of min corners or more */
    WRING_FIELD_OBJECT,         /* a record; after a field of the same name, such as a cost, more of
                                   that object, and written only with it */
    WRING_FIELD_NAMED,          /* an object of max records, each under its name or missing */
    WRING_FIELD_ARRAY,          /* min to max records in the owner's array */
    WRING_FIELD_LIST,           /* min to max records, to which the owner has a pointer */
};

enum wring_field_need {
    WRING_FIELD_NEEDED,
    WRING_FIELD_OPTIONAL, /* may be missing, and is written always */
    WRING_FIELD_SPARSE,   /* may be missing, and is written if it is set: no zero, no empty text,
                             cost or list, and a record as that says */
};

struct wring_record;

struct wring_field {
    const char *name;
    enum wring_field_type type;
    enum wring_field_need need;
    size_t offset; /* in the owner */
    size_t bytes;  /* of a text; of each of several records */
    double min, max;
    const struct wring_record *record; /* of an object, or of each of several */
    size_t count;                      /* of an array or list: offset of the uint32_t that counts */
    const char *(*name_of)(unsigned i); /* of named ones */
    bool (*is_set)(const void *owner);  /* of a sparse one; NULL: as above */
    /** Whether record i goes with those before it; says a fault if not. NULL: any does. */
    void (*check)(struct wring_reading *reading, const void *owner, uint32_t i);
};

struct wring_record {
    const struct wring_field *fields; /* [n] in the order in which they are written */
    size_t n;
    bool flagged;      /* it begins with a bool that says whether it is there */
    const char *field; /* which one that is missing has not; NULL: the object is missing */
    bool (*is_set)(const void *record); /* of one that is not flagged */
    /** Whether its fields go together; says a fault if not. NULL: they always do. */
    void (*check)(struct wring_reading *reading, const void *record);
};

/** The place of a field in a table of `owner`, and of a text besides. */
#define WRING_FIELD_AT(owner, member) .offset = offsetof(owner, member)
#define WRING_FIELD_TEXT_AT(owner, member)                       \
    .type = WRING_FIELD_TEXT, .offset = offsetof(owner, member), \
    .bytes = sizeof(((owner *)NULL)->member)
#define WRING_RECORD(table, ...)                                              \
    {                                                                         \
        .fields = table, .n = sizeof(table) / sizeof((table)[0]), __VA_ARGS__ \
    }

/** All fields of an object. @param out  the record, zeros before; lists belong to its owner, even
 *  after a fault */
void wring_record_read(struct wring_reading *reading, const json_t *object,
                       const struct wring_record *record, void *out);

/** Set all fields of an object. @return false: no memory */
bool wring_record_put(json_t *object, const struct wring_record *record, const void *from);

#endif
