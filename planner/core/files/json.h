/* SPDX-License-Identifier: Apache-2.0 */
/** Which field of a JSON text a parser stopped at. */
#ifndef WRING_FILES_JSON_H
#define WRING_FILES_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include <wring/status.h>

/*
 * Reading the planner's files, which nobody may trust: every field is checked, and the first fault
 * is said in one line that names file, field and reason:
 *
 *     vgg16.json: tensors[12].elements: needs a whole number from 1 to 1099511627776, is -5
 *
 * After a fault every call does nothing and gives zeros, so that callers read straight down and
 * look at `status` once. Fields that nobody asks for are ignored.
 */

#define WRING_READING_DEPTH 12
#define WRING_READING_BYTES_MAX (64u << 20) /* of a file */

struct wring_reading {
    const char *file; /* borrowed, for the line */
    const char *text; /* [bytes] what it holds, borrowed; NULL: read the file */
    size_t bytes;
    const struct wring_log *log;
    enum wring_status status; /* of the first fault */
    char path[256];           /* of the field that is being read, cut to fit */
    size_t marks[WRING_READING_DEPTH];
    unsigned depth;
};

/**
 * Read a file, or the text in its place, and check its fields "format" and "version".
 *
 * @param out  the file's object; the caller's, for json_decref(). NULL after a fault:
 *             WRING_ERR_SYSTEM (cannot read), INVALID, VERSION, NO_MEMORY.
 */
void wring_reading_open(struct wring_reading *reading, const char *format, unsigned version,
                        json_t **out);

/** Name the field that the next calls are about; leave again after them. */
void wring_reading_enter(struct wring_reading *reading, const char *name);
void wring_reading_enter_index(struct wring_reading *reading, size_t index);
void wring_reading_leave(struct wring_reading *reading);

/** The field that was entered is wrong: log the line, unless there has been one. */
__attribute__((format(printf, 3, 4))) void wring_reading_fault(struct wring_reading *reading,
                                                               enum wring_status status,
                                                               const char *format, ...);

/** Log such a fault of a value that is not what it has to be: "needs …, is …". */
void wring_reading_needs(struct wring_reading *reading, const json_t *value, const char *needs);

/* ---- the value of the field that was entered; NULL: it is missing. In files/json.c ---- */

double wring_reading_value_number(struct wring_reading *reading, const json_t *value, double min,
                                  double max);
/** A whole number; max ≤ 2^53. */
uint64_t wring_reading_value_count(struct wring_reading *reading, const json_t *value, uint64_t min,
                                   uint64_t max);
/** Without control characters, so that it can be printed. @return borrowed from value, "" after a
 *  fault. min and max in bytes. */
const char *wring_reading_value_text(struct wring_reading *reading, const json_t *value, size_t min,
                                     size_t max);

/* ---- a field of an object ---- */

/** Is it there, and not null? */
bool wring_reading_has(const struct wring_reading *reading, const json_t *object, const char *name);

double wring_reading_number(struct wring_reading *reading, const json_t *object, const char *name,
                            double min, double max);
/** A whole number; max ≤ 2^53. */
uint64_t wring_reading_count(struct wring_reading *reading, const json_t *object, const char *name,
                             uint64_t min, uint64_t max);
const char *wring_reading_text(struct wring_reading *reading, const json_t *object,
                               const char *name, size_t min, size_t max);
/** 16 hexadecimal digits. */
uint64_t wring_reading_hash(struct wring_reading *reading, const json_t *object, const char *name);
/** @return borrowed; NULL after a fault */
const json_t *wring_reading_object(struct wring_reading *reading, const json_t *object,
                                   const char *name);
/** @return borrowed; NULL after a fault. min and max of its elements. */
const json_t *wring_reading_array(struct wring_reading *reading, const json_t *object,
                                  const char *name, size_t min, size_t max);

/* Writing the planner's files: short, for people, and so that numbers come back bit by bit. */

/**
 * Write one JSON value and a line break. Keys come in the order they were set; lists and objects
 * that fit stand on one line; a number has as few digits as it takes to read the same double back.
 * Takes the reference; NULL counts as out of memory.
 *
 * Errors: WRING_ERR_SYSTEM (cannot write), WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_json_write(FILE *file, json_t *value);

/** A number; null for NaN and infinity, which JSON has not. */
json_t *wring_json_number(double number);

/** 16 hexadecimal digits. */
json_t *wring_json_hash(uint64_t hash);

#endif
