/* SPDX-License-Identifier: Apache-2.0 */
/** Which field of a JSON text a parser stopped at. */
#ifndef WRING_PLANNER_JSON_PLACE_H
#define WRING_PLANNER_JSON_PLACE_H

#include <stddef.h>

/**
 * The field in which byte `position` of a text lies, as in "tensors[3].ready_us"; "" outside of
 * any. What comes before must be JSON; objects and lists deeper than 12 are left out.
 *
 * @param text  in, of position bytes or more
 * @param path  out, [bytes], cut to fit
 */
void wring_json_place(const char *text, size_t position, char *path, size_t bytes);

#endif
