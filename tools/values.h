/* SPDX-License-Identifier: Apache-2.0 */
/** Values on the command line, from text and to text. False means: not such a value. */
#ifndef WRING_TOOLS_VALUES_H
#define WRING_TOOLS_VALUES_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A whole number from min to max. */
bool wring_value_count(const char *text, uint32_t min, uint32_t max, uint32_t *out);

/** A number from min to max. */
bool wring_value_real(const char *text, double min, double max, double *out);

/** Bytes, with a suffix k, m or g (powers of 1024) or without. */
bool wring_value_bytes(const char *text, uint64_t *out);

/** "64k", "1m", "1000": as short as it can be said exactly. @param text out, [bytes] */
const char *wring_value_show_bytes(uint64_t value, char *text, size_t bytes);

/**
 * Cut "a, b,c" at its commas, without the spaces around them. "" has no items, "a," has two.
 * @param text  cut in place
 * @param out   [max] pointers into text
 * @return how many there are; SIZE_MAX for more than max
 */
size_t wring_value_list(char *text, char **out, size_t max);

/** The same for an option, such as "--bytes": an empty item is an error, which names the list. */
size_t wring_value_option_list(const char *option, char *text, char **out, size_t max,
                               const struct argp_state *state);

#endif
