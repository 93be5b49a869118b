/* SPDX-License-Identifier: Apache-2.0 */
/** Writing the planner's files: short, for people, and so that numbers come back bit by bit. */
#ifndef WRING_PLANNER_JSON_WRITER_H
#define WRING_PLANNER_JSON_WRITER_H

#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include <wring/status.h>

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
