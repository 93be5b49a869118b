/* SPDX-License-Identifier: Apache-2.0 */
/** For the formats of the planner's files: what each bad one is answered with. */
#ifndef WRING_TESTS_JSON_CASES_H
#define WRING_TESTS_JSON_CASES_H

#include <stddef.h>
#include <stdio.h>

#include "base/log.h"
#include <wring/status.h>

/** A good file in which one piece of text is another, and the line it is refused with. */
struct json_case {
    const char *find;    /* stands in the good file, once; NULL: the whole file is `replace` */
    const char *replace; /* NULL: the file ends there */
    enum wring_status status;
    const char *line; /* "" for a file that is fine; after the file's name and ": " */
};

/** Load a file, drop what it was. */
typedef enum wring_status (*json_load_fn)(const char *path, const struct wring_log *log);

/** Check every case: its status, and exactly one line (none where it is fine). {0} ends. */
void json_cases_check(const char *good, const struct json_case *cases, json_load_fn load);

/** Load a text as a file. @param line out, [bytes], the last line logged @return lines via n */
enum wring_status json_text_load(const char *text, size_t text_bytes, json_load_fn load, char *line,
                                 size_t bytes, unsigned *n);

/** A text as a file in memory. @param path out, [64] @return its descriptor, to be closed */
int json_text_open(const char *text, size_t bytes, char *path);

/** What a call of wring_…_save() writes, as a text. */
typedef enum wring_status (*json_save_fn)(const void *value, FILE *file);

/** @param bytes out @return the caller's to free */
char *json_text_save(const void *value, json_save_fn save, size_t *bytes);

/** A log whose lines are counted and kept. */
struct json_log {
    struct wring_log log;
    unsigned n;
    char line[1024];
};
void json_log_init(struct json_log *log);

#endif
