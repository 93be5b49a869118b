/* SPDX-License-Identifier: Apache-2.0 */
/** Numbers as people write them, with a decimal point whatever the application's locale says. */
#ifndef WRING_BASE_PARSE_H
#define WRING_BASE_PARSE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** As snprintf() and vsnprintf() in the C locale: numbers with a fraction are written with
 *  these. */
__attribute__((format(printf, 3, 4))) void wring_number_print(char *text, size_t bytes,
                                                              const char *format, ...);
__attribute__((format(printf, 3, 0))) void wring_number_vprint(char *text, size_t bytes,
                                                               const char *format, va_list args);

/**
 * The number at the start of a text, as strtod() reads it in the C locale.
 *
 * @param end  out, what follows it; borrowed from text
 * @return false, and nothing written, where there is none or a double cannot hold it (NaN too)
 *
 * Threads: safe, also against setlocale() in another one.
 */
bool wring_number_parse(const char *text, double *number, const char **end);

/** Names of units, as capital or small letters; of which some locales make pairs of their own. */
bool wring_number_is_unit(const char *text, const char *unit);

/* Lists as settings and options have them: "a, b,c". */

/** Borrowed from the list, not terminated. */
struct wring_list_item {
    const char *text;
    size_t length; /* 0: nothing stands between two commas */
};

/**
 * The item at *rest, without the spaces around it; *rest moves behind its comma, and is NULL after
 * the last item. "" is one empty item.
 * @return false at the end
 */
bool wring_list_next(const char **rest, struct wring_list_item *item);

bool wring_list_item_is(const struct wring_list_item *item, const char *word);

/** Is an item empty, as in "a,,b", "a," and ""? */
bool wring_list_has_empty(const char *list);

#endif
