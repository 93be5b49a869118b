/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Records of the planner's files. A table names a record's fields, with type, place, bounds, and
 * whether they may be missing; it reads, checks and writes them. docs/planner-files.md has the same
 * for people.
 */
#ifndef WRING_FILES_FIELDS_H
#define WRING_FILES_FIELDS_H

#include <stddef.h>

#include "base/bytes.h"
#include "planner/core/files/json.h"

enum wring_field_type {
    WRING_FIELD_TEXT,           /* char[bytes], of min bytes or more */
    WRING_FIELD_BOOL,           /* bool */
    WRING_FIELD_U32,            /* uint32_t, min to max */
    WRING_FIELD_U64,            /* uint64_t, min to max, which is 2^53 at most */
    WRING_FIELD_NUMBER,         /* double, min to max */
    WRING_FIELD_NUMBER_OR_NULL, /* double, min to max; NaN is null, which a missing one is, too */
    WRING_FIELD_COST,           /* struct wring_cost, of min corners or more */
    WRING_FIELD_WORD,           /* char[bytes], one of max words; with min = 0 it may be empty */
    WRING_FIELD_CHOICE,         /* uint32_t below max, written as the word that name_of has for it;
                                   NULL: that number is none of them */
    WRING_FIELD_STRING,         /* char * of min to max bytes, the owner's to free; "" if missing */
    WRING_FIELD_HASH,           /* uint64_t */
    WRING_FIELD_DERIVED,        /* a number that is written only */
    WRING_FIELD_STRINGS,        /* 1 to max of char *, of 1 to bytes bytes, to which the owner has a
                                   pointer */
    WRING_FIELD_COUNTS,         /* as many uint64_t, from min to max, to which it has a pointer */
    WRING_FIELD_OBJECT,         /* a record; after a field of the same name, such as a cost, more of
                                   that object, and written only with it */
    WRING_FIELD_NAMED,          /* an object of max records, each under its name or missing */
    WRING_FIELD_ARRAY,          /* min to max records in the owner's array */
    WRING_FIELD_LIST,           /* min to max records, to which the owner has a pointer */
};

enum wring_field_need {
    WRING_FIELD_NEEDED,
    WRING_FIELD_OPTIONAL, /* may be missing, and is written always */
    WRING_FIELD_SPARSE,   /* may be missing, and is written if it is set: no false, no zero, no
                             empty text, cost or list, and a record as that says */
};

struct wring_record;

struct wring_field {
    const char *name;
    enum wring_field_type type;
    enum wring_field_need need;
    size_t offset; /* in the owner */
    size_t bytes;  /* of a text; of each of several records; of strings at most */
    double min, max;
    const struct wring_record *record;  /* of an object, or of each of several */
    size_t count;                       /* of several: offset of the uint32_t that counts */
    const char *(*name_of)(unsigned i); /* of named ones, and words */
    double (*derive)(const void *owner);
    bool (*is_set)(const void *owner); /* of a sparse one; NULL: as above */
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

/* A table's rows: a field of struct OWNER, which the table's file defines, after its name. */
#define FIELD_AT(member) .offset = offsetof(OWNER, member)
#define FIELD_OPTIONAL .need = WRING_FIELD_OPTIONAL
#define FIELD_SPARSE .need = WRING_FIELD_SPARSE
#define FIELD_TEXT(member) \
    .type = WRING_FIELD_TEXT, FIELD_AT(member), .bytes = sizeof(((OWNER *)NULL)->member)
#define FIELD_WORD(member, names, n)                                                      \
    .type = WRING_FIELD_WORD, FIELD_AT(member), .bytes = sizeof(((OWNER *)NULL)->member), \
    .name_of = (names), .max = (n)
#define FIELD_CHOICE(member, names, n) \
    .type = WRING_FIELD_CHOICE, FIELD_AT(member), .name_of = (names), .max = (n)
#define FIELD_STRING(member, low, high) \
    .type = WRING_FIELD_STRING, FIELD_AT(member), .min = (low), .max = (high)
#define FIELD_BOOL(member) .type = WRING_FIELD_BOOL, FIELD_AT(member)
#define FIELD_U32(member, low, high) \
    .type = WRING_FIELD_U32, FIELD_AT(member), .min = (low), .max = (double)(high)
#define FIELD_U64(member, low, high) \
    .type = WRING_FIELD_U64, FIELD_AT(member), .min = (low), .max = (double)(high)
#define FIELD_HASH(member) .type = WRING_FIELD_HASH, FIELD_AT(member)
#define FIELD_NUMBER(member, low, high) \
    .type = WRING_FIELD_NUMBER, FIELD_AT(member), .min = (low), .max = (high)
#define FIELD_NUMBER_OR_NULL(member, high) \
    .type = WRING_FIELD_NUMBER_OR_NULL, FIELD_AT(member), .max = (high)
#define FIELD_COST(member) .type = WRING_FIELD_COST, FIELD_AT(member)
#define FIELD_OBJECT(member, of) .type = WRING_FIELD_OBJECT, FIELD_AT(member), .record = &(of)
/** An object that has some fields of the owner itself. */
#define FIELD_PART(of) .type = WRING_FIELD_OBJECT, .record = &(of)
#define FIELD_EACH(member, of, n) \
    FIELD_AT(member), .bytes = sizeof(((OWNER *)NULL)->member[0]), .record = &(of), .max = (n)
#define FIELD_NAMED(member, of, names, n) \
    .type = WRING_FIELD_NAMED, FIELD_EACH(member, of, n), .name_of = (names)
#define FIELD_ARRAY(member, counter, of, n) \
    .type = WRING_FIELD_ARRAY, FIELD_EACH(member, of, n), .count = offsetof(OWNER, counter)
#define FIELD_LIST(member, counter, of, n) \
    .type = WRING_FIELD_LIST, FIELD_EACH(member, of, n), .count = offsetof(OWNER, counter)

/** Of a record: the rows of its table. */
#define RECORD_FIELDS(table) .fields = (table), .n = sizeof(table) / sizeof((table)[0])

/** All fields of an object. @param out  the record, zeros before; lists belong to its owner, even
 *  after a fault */
void wring_record_read(struct wring_reading *reading, const json_t *object,
                       const struct wring_record *record, void *out);

/** Set all fields of an object. @return false: no memory */
bool wring_record_put(json_t *object, const struct wring_record *record, const void *from);

/**
 * What a hash is made of: names and values of the fields that are set. A record that older files
 * lack, or some of its sparse fields, changes no hash of theirs. Texts, numbers, costs and objects
 * of these; no lists.
 */
void wring_record_hash(struct wring_writer *writer, const struct wring_record *record,
                       const void *from);

/** Write a file that is one record, after its format and version. Errors: as wring_json_write(). */
enum wring_status wring_record_write(FILE *file, const char *format, unsigned version,
                                     const struct wring_record *record, const void *from);

#endif
