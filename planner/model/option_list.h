/* SPDX-License-Identifier: Apache-2.0 */
/** The tree's leaves as a list, for people and as JSON. */
#ifndef WRING_PLANNER_OPTION_LIST_H
#define WRING_PLANNER_OPTION_LIST_H

#include <stdio.h>

#include <jansson.h>

#include "planner/model/option.h"
#include <wring/status.h>

/**
 * A line for each leaf, its number and its words, and a last line with the counts.
 * Errors: WRING_ERR_SYSTEM (cannot write).
 */
enum wring_status wring_options_print(const struct wring_options_params *params, FILE *file);

/** One leaf: {"text": …, "steps": [{"step": "comm", "phase": …, "routine": …, "coded": …}, …]}. */
json_t *wring_option_json(const struct wring_option *option);

/**
 * {"flat": leaves, "hierarchical": leaves, "leaves": both, "options": [{"option": number, …}, …]}.
 * The caller drops it with json_decref(). Errors: WRING_ERR_NO_MEMORY.
 */
enum wring_status wring_options_json(const struct wring_options_params *params, json_t **out);

#endif
