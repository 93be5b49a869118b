/* SPDX-License-Identifier: Apache-2.0 */
/** JSON through jansson: what the tools and the planner's files have in common. */
#ifndef WRING_BASE_JSON_H
#define WRING_BASE_JSON_H

#include <stdio.h>

#include <jansson.h>

#include "base/log.h"
#include <wring/status.h>

/** Read one JSON object from a file. The caller drops it with json_decref(). */
enum wring_status wring_json_load(const char *path, const struct wring_log *log, json_t **out);

/** A text from outside as a JSON string; '?' for all that is not ASCII, where it is not UTF-8. */
json_t *wring_json_text(const char *text);

/** Write one JSON value and a line break, keys in the order they were set. Takes the reference. */
enum wring_status wring_json_print(FILE *file, json_t *value);

#endif
